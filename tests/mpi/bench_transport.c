/* A table of what collectives and messages take. usage: mpirun -n N bench_transport LIBRARY */
#include "ranks/join/network.h"
#include "runtime/os/os.h"
#include "tests/mpi/open.h"

enum { N_SIZES = 8 };
static const size_t sizes[N_SIZES] = {256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};

static void print(const clef__network_time *time)
{
    printf(" %9.1f %8.1f", time->least * 1e6, time->median * 1e6);
}

int main(int argc, char **argv)
{
    clef_error err = {0};
    if (argc != 2)
        return fprintf(stderr, "usage: mpirun -n N bench_transport LIBRARY\n"), 2;
    clef__transport *t = open_transport(argv[1], &err);
    const double begin = clef__os_seconds();
    clef__group *all = group_of_all(t, &err);
    const double group_ms = (clef__os_seconds() - begin) * 1e3;
    int32_t ranks[64];
    clef__network_row rows[N_SIZES];
    for (int32_t i = 0; i < t->size && i < 64; i++)
        ranks[i] = i;
    must(clef__network_measure(t, all, ranks, t->size, sizes, N_SIZES, rows, &err), &err);
    if (t->rank == 0) {
        printf("%d ranks on %d nodes; making the group took %.0f ms; us, least and median\n", t->size,
               t->n_nodes, group_ms);
        printf("%8s %18s %18s %18s %18s %18s %18s\n", "bytes", "all_reduce f32", "f16", "q8", "all_gather",
               "broadcast", "send");
        for (int32_t i = 0; i < N_SIZES; i++) {
            printf("%8zu", rows[i].n_bytes);
            for (int32_t wire = 0; wire < 3; wire++)
                print(&rows[i].all_reduce[wire]);
            print(&rows[i].all_gather);
            print(&rows[i].broadcast);
            print(&rows[i].send);
            printf("\n");
        }
    }
    t->calls->group_free(all);
    t->calls->close(t);
    return 0;
}

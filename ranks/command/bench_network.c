/* clef bench --network: what exchanges between ranks take. */
#include <inttypes.h>

#include "clef/ranks.h"
#include "tools/bench/bench.h"
#include "tools/cli/json.h"
#include "tools/ranks.h"

enum { N_SIZES = 8, N_COLUMNS = 6 };
static const uint64_t sizes[N_SIZES] = {256,      1 << 10,   4 << 10, 16 << 10,
                                        64 << 10, 256 << 10, 1 << 20, 4 << 20};
static const char *const columns[N_COLUMNS] = {"all_reduce f32", "all_reduce f16", "all_reduce q8",
                                               "all_gather",     "broadcast",      "send"};

static clef_ranks_time column_of(const clef_ranks_times *t, int32_t i)
{
    return i < 3 ? t->all_reduce[i] : i == 3 ? t->all_gather : i == 4 ? t->broadcast : t->send;
}

/* `clef plan --network` reads this table (ranks/predict/link.c). */
static void print_table(const clef_ranks_info *info, const clef_ranks_times *rows)
{
    printf("# %" PRId32 " ranks on %" PRId32 " node%s; us, least and median\n# %6s", info->n, info->n_nodes,
           info->n_nodes == 1 ? "" : "s", "bytes");
    for (int32_t i = 0; i < N_COLUMNS; i++)
        printf(" %19s", columns[i]);
    putchar('\n');
    for (int32_t k = 0; k < N_SIZES; k++) {
        printf("%8" PRIu64, rows[k].n_bytes);
        for (int32_t i = 0; i < N_COLUMNS; i++) {
            const clef_ranks_time t = column_of(&rows[k], i);
            printf(" %10.1f %8.1f", t.least * 1e6, t.median * 1e6);
        }
        putchar('\n');
    }
}

static void print_json(const clef_ranks_info *info, const clef_ranks_times *rows)
{
    for (int32_t k = 0; k < N_SIZES; k++)
        for (int32_t i = 0; i < N_COLUMNS; i++) {
            const clef_ranks_time t = column_of(&rows[k], i);
            int32_t n = 0;
            putchar('{');
            cli_json_member_text(stdout, &n, "what", columns[i]);
            cli_json_member_number(stdout, &n, "ranks", info->n);
            cli_json_member_number(stdout, &n, "nodes", info->n_nodes);
            cli_json_member_number(stdout, &n, "bytes", (double)rows[k].n_bytes);
            cli_json_member_number(stdout, &n, "least_us", t.least * 1e6);
            cli_json_member_number(stdout, &n, "median_us", t.median * 1e6);
            puts("}");
        }
}

int cli_bench_network(const bench *b)
{
    clef_ranks *ranks = NULL;
    clef_ranks_times rows[N_SIZES];
    clef_ranks_info info;
    clef_error err = {0};
    if (clef_ranks_started() < 2)
        return cli_fail(CLI_FAILED,
                        "bench: --network measures between ranks: start it with mpirun -n N clef bench "
                        "--network, N 2 or more");
    clef_status s =
        clef_ranks_open(&(clef_ranks_opts){.width = clef_ranks_started(), .stages = 1}, &ranks, &err);
    if (s == CLEF_OK)
        s = clef_ranks_measure(ranks, sizes, N_SIZES, rows, &err);
    if (s == CLEF_OK) {
        clef_ranks_describe(ranks, &info);
        if (info.rank == 0)
            (b->o->json ? print_json : print_table)(&info, rows);
    }
    clef_ranks_close(ranks);
    return s == CLEF_OK ? CLI_OK : cli_report(&err);
}

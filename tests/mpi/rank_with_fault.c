/* A rank of a run in which something goes wrong (faults.sh). usage: mpirun -n N rank_with_fault LIBRARY MODE
 *   sums   sums until it is ended from outside
 *   wait   rank 0 does nothing; the others wait for what it broadcasts
 *   hang   the last rank computes for ever at step 12; the others wait for it in a sum
 *   abort  the last rank ends all
 *   exit   the last rank ends by itself, as after an error of its program
 *   words  as sums; before the end rank 0 writes "last words", and then does not return
 * Each rank writes "rank R PID" to stdout first. */
#include <time.h>
#include <unistd.h>

#include "tests/mpi/open.h"

static volatile int64_t n_rounds;

static void compute_for_ever(void)
{
    for (;;)
        n_rounds = n_rounds + 1;
}

static void say_last_words(void *user)
{
    puts(user);
    fflush(stdout);
    compute_for_ever();
}

int main(int argc, char **argv)
{
    clef_error err = {0};
    if (argc != 3)
        return fprintf(stderr, "usage: mpirun -n N rank_with_fault LIBRARY MODE\n"), 2;
    const char *mode = argv[2];
    clef__transport *t = open_transport(argv[1], &err);
    clef__group *all = group_of_all(t, &err);
    const int is_last = t->rank == t->size - 1;
    static float x[4096];
    printf("rank %d %ld\n", t->rank, (long)getpid());
    fflush(stdout);
    if (strcmp(mode, "words") == 0 && t->rank == 0)
        t->calls->before_end(t, say_last_words, "last words");
    for (int64_t step = 0;; step++) {
        t->calls->at(t, "step", step);
        if (strcmp(mode, "wait") == 0) {
            if (t->rank == 0)
                for (;;)
                    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
            must(t->calls->broadcast(all, 0, x, sizeof x, &err), &err);
        }
        if (strcmp(mode, "hang") == 0 && step == 12 && is_last)
            compute_for_ever();
        if (strcmp(mode, "abort") == 0 && step == 12 && is_last)
            t->calls->abort(t, "clef: the model does not fit");
        if (strcmp(mode, "exit") == 0 && step == 12 && is_last)
            exit(3);
        must(t->calls->all_reduce(all, x, 4096, CLEF__WIRE_F32, &err), &err);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

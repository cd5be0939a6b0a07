/* A rank of a run in which something goes wrong (faults.sh). usage: mpirun -n N rank_with_fault LIBRARY MODE
 * [FILE]
 *   sums   sums until it is ended from outside
 *   wait   rank 0 does nothing; the others wait for what it broadcasts
 *   abort  the last rank ends all
 *   exit   the last rank ends by itself, as after an error of its program
 *   words  as sums; before the end rank 0 writes "last words", and then does not return
 *   taken  the last rank ends all; what it calls before the end takes a while, and is taken away meanwhile
 *   twice  rank 0 writes a line and ends all; before the end another rank wants to end all with a second line
 * Each rank writes "rank R PID" to stdout when it has been heard by the others. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/mpi/open.h"

static volatile int64_t n_rounds;

static void compute_for_ever(void)
{
    for (;;)
        n_rounds = n_rounds + 1;
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void say_last_words(void *user)
{
    say(user);
    compute_for_ever();
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* The others hear from a rank every half second. The sums keep the ranks together meanwhile, and all of them
 * run, however busy the machine is. */
static void be_heard(clef__transport *t, clef__group *all)
{
    float x = 0;
    clef_error err = {0};
    for (int32_t i = 0; i < 30; i++) {
        must(t->calls->all_reduce(all, &x, 1, CLEF__WIRE_F32, &err), &err);
        nap(50);
    }
}

/* ---- sums by devices ---- */

/* ---- a callback that is taken away ---- */

static _Atomic int has_begun, has_returned;

static void take_a_while(void *unused)
{
    (void)unused;
    say("before the end");
    atomic_store(&has_begun, 1);
    for (int32_t i = 0; i < 6; i++)
        nap(50);
    atomic_store(&has_returned, 1);
}

static void *take_away(void *user)
{
    clef__transport *t = user;
    while (!atomic_load(&has_begun))
        nap(1);
    t->calls->before_end(t, NULL, NULL);
    say(atomic_load(&has_returned) ? "taken away after it" : "taken away while it runs");
    return NULL;
}

static void end_with_call(clef__transport *t)
{
    pthread_t thread;
    t->calls->before_end(t, take_a_while, NULL);
    if (pthread_create(&thread, NULL, take_away, t))
        exit(1);
    t->calls->abort(t, "clef: the model does not fit");
}

/* ---- a second line ---- */

static void make_file(void *path)
{
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
    compute_for_ever(); /* so that the other rank has time */
}

static void end_twice(clef__transport *t, char *path)
{
    if (t->rank == 0) {
        fprintf(stderr, "clef: the reason\n");
        t->calls->before_end(t, make_file, path);
        t->calls->abort(t, "");
    }
    while (access(path, F_OK))
        nap(1);
    t->calls->abort(t, "clef: a second reason");
}

int main(int argc, char **argv)
{
    clef_error err = {0};
    if (argc < 3)
        return fprintf(stderr, "usage: mpirun -n N rank_with_fault LIBRARY MODE [FILE]\n"), 2;
    const char *mode = argv[2];
    clef__transport *t = open_transport(argv[1], &err);
    clef__group *all = group_of_all(t, &err);
    const int is_last = t->rank == t->size - 1;
    static float x[4096];
    t->calls->at(t, "step", 0);
    be_heard(t, all);
    if (strcmp(mode, "words") == 0 && t->rank == 0)
        t->calls->before_end(t, say_last_words, "last words");
    printf("rank %d %ld\n", t->rank, (long)getpid());
    fflush(stdout);
    if (strcmp(mode, "taken") == 0 && is_last)
        end_with_call(t);
    if (strcmp(mode, "twice") == 0 && argc == 4 && t->rank < 2)
        end_twice(t, argv[3]);
    for (int64_t step = 0;; step++) {
        t->calls->at(t, "step", step);
        if (strcmp(mode, "wait") == 0) {
            if (t->rank == 0)
                for (;;)
                    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
            must(t->calls->broadcast(all, 0, x, sizeof x, &err), &err);
        }
        if (strcmp(mode, "abort") == 0 && step == 12 && is_last)
            t->calls->abort(t, "clef: the model does not fit");
        if (strcmp(mode, "exit") == 0 && step == 12 && is_last)
            exit(3);
        must(t->calls->all_reduce(all, x, 4096, CLEF__WIRE_F32, &err), &err);
        nap(1);
    }
}

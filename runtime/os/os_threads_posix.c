/* Runs work on all processors; locks between threads. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/os/os_job.h"

enum { MAX_THREADS = 64 };

int32_t clef__os_n_cpus(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < INT32_MAX ? (int32_t)n : 1;
}

static void *take_turns(void *argument)
{
    clef__os_job_work(argument);
    return NULL;
}

void clef__os_parallel(int32_t n, void (*work)(void *user, int32_t i), void *user)
{
    pthread_t threads[MAX_THREADS];
    clef__os_job j = {.work = work, .user = user, .n = n};
    const int32_t wanted = n < clef__os_n_cpus() ? n : clef__os_n_cpus();
    int32_t made = 0;
    while (made + 1 < wanted && made < MAX_THREADS &&
           pthread_create(&threads[made], NULL, take_turns, &j) == 0)
        made++;
    clef__os_job_work(&j);
    while (made > 0)
        pthread_join(threads[--made], NULL);
}

struct clef__mutex {
    pthread_mutex_t system;
};

clef__mutex *clef__mutex_create(void)
{
    clef__mutex *m = malloc(sizeof *m);
    if (m)
        pthread_mutex_init(&m->system, NULL); /* a plain one cannot fail here */
    return m;
}

void clef__mutex_destroy(clef__mutex *m)
{
    if (m)
        pthread_mutex_destroy(&m->system);
    free(m);
}

void clef__mutex_take(clef__mutex *m)
{
    pthread_mutex_lock(&m->system);
}

void clef__mutex_release(clef__mutex *m)
{
    pthread_mutex_unlock(&m->system);
}

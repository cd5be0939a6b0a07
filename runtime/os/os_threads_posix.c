/* Runs work on all processors. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
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

/* Runs work on all processors; locks between threads. */
#include "runtime/os/os_windows.h"

#include <stdlib.h>

#include "runtime/os/os_job.h"

enum { MAX_THREADS = 64 };

/* Those of its affinity. Of several groups of processors (over 64) only one counts, which is the default for
 * a process. */
int32_t clef__os_n_cpus(void)
{
    DWORD_PTR own, all;
    int32_t n = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all))
        return 1;
    for (; own; own &= own - 1)
        n++;
    return n > 0 ? n : 1;
}

static DWORD WINAPI take_turns(void *argument)
{
    clef__os_job_work(argument);
    return 0;
}

void clef__os_parallel(int32_t n, void (*work)(void *user, int32_t i), void *user)
{
    HANDLE threads[MAX_THREADS];
    clef__os_job j = {.work = work, .user = user, .n = n};
    const int32_t wanted = n < clef__os_n_cpus() ? n : clef__os_n_cpus();
    int32_t made = 0;
    while (made + 1 < wanted && made < MAX_THREADS &&
           (threads[made] = CreateThread(NULL, 0, take_turns, &j, 0, NULL)) != NULL)
        made++;
    clef__os_job_work(&j);
    while (made > 0) {
        WaitForSingleObject(threads[--made], INFINITE);
        CloseHandle(threads[made]);
    }
}

struct clef__mutex {
    SRWLOCK system;
};

clef__mutex *clef__mutex_create(void)
{
    return calloc(1, sizeof(clef__mutex)); /* SRWLOCK_INIT */
}

void clef__mutex_destroy(clef__mutex *m)
{
    free(m);
}

void clef__mutex_take(clef__mutex *m)
{
    AcquireSRWLockExclusive(&m->system);
}

void clef__mutex_release(clef__mutex *m)
{
    ReleaseSRWLockExclusive(&m->system);
}

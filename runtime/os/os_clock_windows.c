/* Processor time of a process's threads, as Windows keeps it. */
#include "runtime/os/os_windows.h"

#include <stdlib.h>
#include <winternl.h>

#include "runtime/os/os_clock.h"

/* Of SYSTEM_THREAD_INFORMATION, as KTHREAD_STATE of the driver kit names them. */
enum { STATE_READY = 1, STATE_RUNNING = 2, STATE_STANDBY = 3, STATE_WAITING = 5, STATE_DEFERRED = 7 };
enum { WAITS_SUSPENDED = 5, WAITS_FOR_PAGE = 2, WAITS_FOR_PAGE_USER = 9 }; /* KWAIT_REASON */

static void add_state(const SYSTEM_THREAD_INFORMATION *t, clef__os_usage *out)
{
    const ULONG state = t->ThreadState, reason = t->WaitReason;
    out->n_ready +=
        state == STATE_READY || state == STATE_RUNNING || state == STATE_STANDBY || state == STATE_DEFERRED;
    if (state != STATE_WAITING)
        return;
    out->n_stopped += reason == WAITS_SUSPENDED;
    out->n_on_disk += reason == WAITS_FOR_PAGE || reason == WAITS_FOR_PAGE_USER;
}

/* The states of this process's threads; without the system's answer they stay 0. */
static void read_states(int64_t but, clef__os_usage *out)
{
    enum { TRIES = 4 };
    ULONG size = 1u << 18;
    char *all = NULL;
    LONG status = -1;
    for (int i = 0; i < TRIES && status < 0; i++, size *= 2) { /* too small: the list grows meanwhile */
        free(all);
        all = malloc(size);
        status = all ? NtQuerySystemInformation(SystemProcessInformation, all, size, NULL) : -1;
    }
    const HANDLE own = (HANDLE)(uintptr_t)GetCurrentProcessId();
    for (const char *at = all; status >= 0;) {
        const SYSTEM_PROCESS_INFORMATION *p = (const SYSTEM_PROCESS_INFORMATION *)(const void *)at;
        const SYSTEM_THREAD_INFORMATION *threads = (const SYSTEM_THREAD_INFORMATION *)(const void *)(p + 1);
        for (ULONG i = 0; p->UniqueProcessId == own && i < p->NumberOfThreads; i++)
            if ((int64_t)(uintptr_t)threads[i].ClientId.UniqueThread != but)
                add_state(&threads[i], out);
        if (!p->NextEntryOffset)
            break;
        at += p->NextEntryOffset;
    }
    free(all);
}

static double thread_time(DWORD id)
{
    FILETIME began, ended, kernel, user;
    const HANDLE thread = OpenThread(THREAD_QUERY_LIMITED_INFORMATION, FALSE, id);
    const int is_known = thread && GetThreadTimes(thread, &began, &ended, &kernel, &user);
    if (thread)
        CloseHandle(thread);
    return is_known ? clef__windows_seconds(kernel) + clef__windows_seconds(user) : 0;
}

/* Windows does not say how long a thread was ready without a processor, so `waited` is 0. */
void clef__os_usage_read(const char *folder, int64_t but, clef__os_usage *out)
{
    FILETIME began, ended, kernel, user;
    (void)folder;
    *out = (clef__os_usage){0};
    if (GetProcessTimes(GetCurrentProcess(), &began, &ended, &kernel, &user))
        out->ran = clef__windows_seconds(kernel) + clef__windows_seconds(user);
    if (but)
        out->ran -= thread_time((DWORD)but);
    read_states(but, out);
}

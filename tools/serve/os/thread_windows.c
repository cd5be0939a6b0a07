/* Threads on Windows. */
#define WIN32_LEAN_AND_MEAN
#include "tools/serve/os/thread.h"

#include <assert.h>
#include <process.h>
#include <stdint.h>
#include <stdlib.h>
#include <windows.h>

static_assert(sizeof(serve_lock) == sizeof(SRWLOCK), "serve_lock is an SRWLOCK");
static_assert(sizeof(serve_condition) == sizeof(CONDITION_VARIABLE),
              "serve_condition is a CONDITION_VARIABLE");

static SRWLOCK *system_lock(serve_lock *lock)
{
    return (SRWLOCK *)(void *)lock;
}

static CONDITION_VARIABLE *system_condition(serve_condition *c)
{
    return (CONDITION_VARIABLE *)(void *)c;
}

void serve_lock_init(serve_lock *lock)
{
    InitializeSRWLock(system_lock(lock));
}

void serve_lock_finish(serve_lock *lock)
{
    (void)lock;
}

void serve_lock_take(serve_lock *lock)
{
    AcquireSRWLockExclusive(system_lock(lock));
}

void serve_lock_release(serve_lock *lock)
{
    ReleaseSRWLockExclusive(system_lock(lock));
}

void serve_condition_init(serve_condition *c)
{
    InitializeConditionVariable(system_condition(c));
}

void serve_condition_finish(serve_condition *c)
{
    (void)c;
}

void serve_condition_wait(serve_condition *c, serve_lock *lock)
{
    SleepConditionVariableSRW(system_condition(c), system_lock(lock), INFINITE, 0);
}

/* Rounded up: a wait that is too short would be repeated without a pause. */
void serve_condition_wait_seconds(serve_condition *c, serve_lock *lock, double seconds)
{
    const double most = 1e9, ms = seconds * 1e3 < most ? seconds * 1e3 : most;
    SleepConditionVariableSRW(system_condition(c), system_lock(lock), ms > 0 ? (DWORD)ms + 1 : 0, 0);
}

void serve_condition_signal(serve_condition *c)
{
    WakeConditionVariable(system_condition(c));
}

void serve_condition_broadcast(serve_condition *c)
{
    WakeAllConditionVariable(system_condition(c));
}

/* What a new thread runs; it frees this. */
typedef struct start {
    void (*run)(void *user);
    void *user;
} start;

static unsigned __stdcall begin(void *argument)
{
    const start s = *(start *)argument;
    free(argument);
    s.run(s.user);
    return 0;
}

int serve_thread_start(serve_thread *out, void (*run)(void *user), void *user)
{
    start *s = malloc(sizeof *s);
    if (!s)
        return 0;
    *s = (start){run, user};
    const uintptr_t thread = _beginthreadex(NULL, 0, begin, s, 0, NULL);
    if (!thread)
        free(s);
    *out = (serve_thread)thread;
    return thread != 0;
}

void serve_thread_lower(void)
{
    SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
}

void serve_thread_join(serve_thread thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

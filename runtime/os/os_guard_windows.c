/* Guards a process that tries something which may be wrong, hang or crash, with a journal of how it ended.
 * The process notes its own faults and hangs, so that nobody has to watch it. */
#include "runtime/os/os_windows.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/os.h"
#include "runtime/os/os_clock.h"

static const DWORD WATCH_MS = 250;
static const size_t LEAST_MEMORY = (size_t)256 << 20; /* with less than this available, lack of memory
                                                         caused the fault */

/* The system's handler and the watching thread use these, so there is one of each. */
static HANDLE journal = INVALID_HANDLE_VALUE;
static volatile LONG guarded;
static char crash_note[64], hang_note[64];
static atomic_int device_is_cpu = 1;
static SRWLOCK lock = SRWLOCK_INIT; /* protects these three and the end of a guard */
static double allowed, counted;     /* seconds */
static int is_building;

/* Locks of Windows keep others from reading, so the place that is locked is far behind any text. */
clef_status clef__os_journal_open(const char *path, clef_error *err)
{
    OVERLAPPED behind = {.OffsetHigh = 0x40000000};
    wchar_t *wide = clef__windows_path(path);
    journal = wide ? CreateFileW(wide, GENERIC_READ | GENERIC_WRITE,
                                 FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_ALWAYS,
                                 FILE_ATTRIBUTE_NORMAL, NULL)
                   : INVALID_HANDLE_VALUE;
    free(wide);
    if (journal == INVALID_HANDLE_VALUE)
        return clef__windows_fail(err, "write it", path);
    LockFileEx(journal, LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &behind);
    return CLEF_OK;
}

void clef__os_journal_close(void)
{
    if (journal != INVALID_HANDLE_VALUE)
        CloseHandle(journal);
    journal = INVALID_HANDLE_VALUE;
}

void clef__os_journal_clear(void)
{
    if (journal == INVALID_HANDLE_VALUE)
        return;
    SetFilePointer(journal, 0, NULL, FILE_BEGIN);
    if (!SetEndOfFile(journal))
        clef__os_journal_write("\n");
}

/* In one step, because two threads may write: with this offset the end of the file is found and written to at
 * once (WriteFile). A journal that cannot be written is ignored. */
void clef__os_journal_write(const char *text)
{
    OVERLAPPED at_end = {.Offset = 0xFFFFFFFF, .OffsetHigh = 0xFFFFFFFF};
    DWORD done;
    if (journal != INVALID_HANDLE_VALUE)
        WriteFile(journal, text, (DWORD)strlen(text), &done, &at_end);
}

/* ---- faults ---------------------------------------------------------------------------------- */

int clef__os_memory_is_short(void)
{
    void *memory = VirtualAlloc(NULL, LEAST_MEMORY, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (!memory)
        return 1;
    VirtualFree(memory, 0, MEM_RELEASE);
    return 0;
}

static void note_crash(void)
{
    if (!InterlockedExchange(&guarded, 0))
        return;
    if (clef__os_memory_is_short())
        TerminateProcess(GetCurrentProcess(), CLEF_OS_EXIT_NO_MEMORY);
    clef__os_journal_write(crash_note);
}

static LONG WINAPI on_fault(EXCEPTION_POINTERS *fault)
{
    (void)fault;
    note_crash();
    TerminateProcess(GetCurrentProcess(), CLEF_OS_EXIT_NOTED);
    return EXCEPTION_EXECUTE_HANDLER;
}

static void on_abort(int number)
{
    (void)number;
    note_crash();
    TerminateProcess(GetCurrentProcess(), CLEF_OS_EXIT_NOTED);
}

/* Repeated at each step, because a driver may install its handlers when it first needs its compiler. */
static void take_faults(void)
{
    SetUnhandledExceptionFilter(on_fault);
    signal(SIGABRT, on_abort);
}

/* ---- hangs: a thread that watches the others ------------------------------------------------- */

static void check_time(double seconds)
{
    AcquireSRWLockExclusive(&lock);
    counted += is_building ? seconds / CLEF_OS_BUILD_SHARE : seconds;
    if (counted > allowed && InterlockedExchange(&guarded, 0)) {
        clef__os_journal_write(hang_note);
        TerminateProcess(GetCurrentProcess(), CLEF_OS_EXIT_NOTED);
    }
    ReleaseSRWLockExclusive(&lock);
}

static DWORD WINAPI watch_threads(void *unused)
{
    const int64_t own = (int64_t)GetCurrentThreadId();
    clef__os_usage before, now;
    double then = clef__os_seconds();
    (void)unused;
    clef__os_usage_read("", own, &before);
    for (;;) {
        Sleep(WATCH_MS);
        const double at = clef__os_seconds();
        clef__os_usage_read("", own, &now);
        check_time(clef__os_usage_counts(&before, &now, at - then, device_is_cpu));
        before = now;
        then = at;
    }
    return 0;
}

static void get_ready(void)
{
    ULONG for_handlers = 1u << 16; /* a stack that overflowed has this much for them */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    SetThreadStackGuarantee(&for_handlers);
    atexit(note_crash); /* a driver that cannot continue calls exit() */
    HANDLE thread = CreateThread(NULL, 0, watch_threads, NULL, 0, NULL);
    if (thread)
        CloseHandle(thread);
}

/* ---- the guard ------------------------------------------------------------------------------- */

void clef__os_guard(double seconds, const char *if_crashed, const char *if_hung)
{
    static int is_ready;
    if (!is_ready)
        get_ready();
    is_ready = 1;
    strncpy(crash_note, if_crashed, sizeof crash_note - 1);
    strncpy(hang_note, if_hung, sizeof hang_note - 1);
    take_faults();
    AcquireSRWLockExclusive(&lock);
    allowed = seconds;
    counted = 0;
    InterlockedExchange(&guarded, 1);
    ReleaseSRWLockExclusive(&lock);
}

void clef__os_guard_is_cpu(int is_cpu)
{
    device_is_cpu = is_cpu;
}

void clef__os_guard_step(void)
{
    if (!guarded)
        return;
    AcquireSRWLockExclusive(&lock);
    counted = 0;
    ReleaseSRWLockExclusive(&lock);
    take_faults();
    clef__os_journal_write(".");
}

void clef__os_guard_allow(double seconds)
{
    AcquireSRWLockExclusive(&lock);
    allowed = seconds;
    ReleaseSRWLockExclusive(&lock);
}

static void set_building(int builds)
{
    if (device_is_cpu) /* whose compilers are as fast as its kernels */
        return;
    AcquireSRWLockExclusive(&lock);
    is_building = builds;
    counted = 0;
    ReleaseSRWLockExclusive(&lock);
}

void clef__os_guard_build_begins(void)
{
    set_building(1);
}

void clef__os_guard_build_ends(void)
{
    set_building(0);
}

void clef__os_guard_end(void)
{
    AcquireSRWLockExclusive(&lock);
    InterlockedExchange(&guarded, 0);
    ReleaseSRWLockExclusive(&lock);
}

/* Guards a process that tries something which may be wrong, hang or crash, with a journal of how it ended.
 * The process notes its own faults and hangs, so that nobody has to watch it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#    include <sys/syscall.h>
#endif

#include "graph/fail.h"
#include "runtime/os/os.h"
#include "runtime/os/os_clock.h"

static const int32_t WATCH_MS = 250;
static const size_t LEAST_MEMORY = (size_t)256 << 20; /* with less than this available, lack of memory
                                                         caused the fault */

/* Signal handlers and the watching thread use these, so there is one of each. */
static int journal = -1;
static volatile sig_atomic_t guarded, faulted;
static char crash_note[64], hang_note[64];
static atomic_int device_is_cpu = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects these three and the end of a guard */
static double allowed, counted;                          /* seconds */
static int is_building;

clef_status clef__os_journal_open(const char *path, clef_error *err)
{
    journal = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal < 0)
        return clef__fail(err, CLEF_E_IO, "%s: cannot be written: %s", path, strerror(errno));
    while (flock(journal, LOCK_EX) && errno == EINTR) /* a file system without locks: two processes may try
                                                         the same thing, which is harmless */
        continue;
    return CLEF_OK;
}

void clef__os_journal_close(void)
{
    if (journal >= 0)
        close(journal);
    journal = -1;
}

void clef__os_journal_clear(void)
{
    if (journal >= 0 && ftruncate(journal, 0))
        clef__os_journal_write("\n");
}

void clef__os_journal_write(const char *text)
{
    const ssize_t n = journal >= 0 ? write(journal, text, strlen(text)) : 0;
    (void)n; /* a journal that cannot be written is ignored */
}

/* ---- faults: called by signals --------------------------------------------------------------- */

enum { MAX_SIGNAL = 32 };
static struct sigaction
    others[MAX_SIGNAL]; /* previous handlers: a driver's compiler removes its files in them */

/* mmap() is a plain system call on every system that clef runs on, so a signal handler may call it. */
int clef__os_memory_is_short(void)
{
    void *memory = mmap(NULL, LEAST_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    munmap(memory, LEAST_MEMORY);
    return 0;
}

static void note_crash(void)
{
    if (!guarded)
        return;
    guarded = 0;
    if (clef__os_memory_is_short())
        _exit(CLEF_OS_EXIT_NO_MEMORY);
    clef__os_journal_write(crash_note);
}

static void on_fault(int number)
{
    note_crash();
    faulted = 1;
    sigaction(number, &others[number], NULL);
    raise(number);
}

/* Repeated at each step, because a driver may install its handlers when it first needs its compiler. SIGFPE
 * is left to its handlers: PoCL lets kernels divide by 0. */
static void take_faults(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    struct sigaction now, ours = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (sigaction(faults[i], NULL, &now) || now.sa_handler == on_fault ||
            (faults[i] == SIGFPE && now.sa_handler != SIG_DFL))
            continue;
        others[faults[i]] = now;
        sigaction(faults[i], &ours, NULL);
    }
}

/* ---- hangs: a thread that watches the others ------------------------------------------------- */

static int64_t this_thread(void)
{
#ifdef __linux__
    return (int64_t)syscall(SYS_gettid);
#else
    return 0;
#endif
}

static void check_time(double seconds)
{
    pthread_mutex_lock(&lock);
    counted += is_building ? seconds / CLEF_OS_BUILD_SHARE : seconds;
    if (guarded && counted > allowed) {
        guarded = 0;
        clef__os_journal_write(hang_note);
        _exit(CLEF_OS_EXIT_NOTED);
    }
    pthread_mutex_unlock(&lock);
}

static void *watch_threads(void *unused)
{
    const int64_t own = this_thread();
    clef__os_usage before, now;
    double then = clef__os_seconds();
    clef__os_usage_read("/proc/self", own, &before);
    for (;;) {
        clef__os_sleep(WATCH_MS);
        if (faulted) /* the previous handler of the fault may not return */
            _exit(CLEF_OS_EXIT_NOTED);
        const double at = clef__os_seconds();
        clef__os_usage_read("/proc/self", own, &now);
        check_time(clef__os_usage_counts(&before, &now, at - then, device_is_cpu));
        before = now;
        then = at;
    }
    return unused;
}

static void start_watching(void)
{
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* so that the thread gets no signals */
    if (!pthread_create(&thread, NULL, watch_threads, NULL))
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- the guard ------------------------------------------------------------------------------- */

void clef__os_guard(double seconds, const char *if_crashed, const char *if_hung)
{
    static char stack[1 << 16]; /* a stack that overflowed cannot be used */
    static int is_ready;
    if (!is_ready) {
        const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
        stack_t own;
        if (sigaltstack(NULL, &own) == 0 && own.ss_flags & SS_DISABLE) /* the thread may have one */
            sigaltstack(&other, NULL);
        atexit(note_crash); /* a driver that cannot continue calls exit() */
        start_watching();
        is_ready = 1;
    }
    strncpy(crash_note, if_crashed, sizeof crash_note - 1);
    strncpy(hang_note, if_hung, sizeof hang_note - 1);
    take_faults();
    pthread_mutex_lock(&lock);
    allowed = seconds;
    counted = 0;
    guarded = 1;
    pthread_mutex_unlock(&lock);
}

void clef__os_guard_is_cpu(int is_cpu)
{
    device_is_cpu = is_cpu;
}

void clef__os_guard_step(void)
{
    if (!guarded)
        return;
    pthread_mutex_lock(&lock);
    counted = 0;
    pthread_mutex_unlock(&lock);
    take_faults();
    clef__os_journal_write(".");
}

void clef__os_guard_allow(double seconds)
{
    pthread_mutex_lock(&lock);
    allowed = seconds;
    pthread_mutex_unlock(&lock);
}

static void set_building(int builds)
{
    if (device_is_cpu) /* whose compilers are as fast as its kernels */
        return;
    pthread_mutex_lock(&lock);
    is_building = builds;
    counted = 0;
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    guarded = 0;
    pthread_mutex_unlock(&lock);
}

/* A process that tries what may crash or hang, and the record that it leaves of that: a file that one process
 * at a time holds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

enum { LEFT = 70 /* exit code */, TICKS = 2 /* looks at the clock in the seconds allowed */ };
static const double IDLE_SECONDS = 0.01; /* of a processor, in a tick: nothing was done */

/* Signal handlers see these, so there is one of each. */
static int held = -1;
static volatile sig_atomic_t guarded, faulted, idle_ticks;
static volatile double allowed, since, seen; /* seconds of processor time */

clef_status clef__os_hold(const char *path, clef_error *err)
{
    held = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (held < 0)
        return clef__fail(err, CLEF_E_IO, "%s: cannot be written: %s", path, strerror(errno));
    while (flock(held, LOCK_EX) &&
           errno == EINTR) /* a file system without locks: two may try the same, which is no harm */
        continue;
    return CLEF_OK;
}

void clef__os_held_clear(void)
{
    if (held >= 0 && ftruncate(held, 0))
        clef__os_held_write("\n");
}

void clef__os_held_write(const char *text)
{
    const ssize_t n = held >= 0 ? write(held, text, strlen(text)) : 0;
    (void)n; /* a record that cannot be written is none */
}

/* ---- from here on to clef__os_guard(): called by signals
 * ------------------------------------------------------------------------------
 */

static double used(void)
{
    struct timespec time = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void leave(const char *why)
{
    guarded = 0;
    clef__os_held_write(why);
    _exit(LEFT);
}

enum { MAX_SIGNAL = 32 };
static struct sigaction others[MAX_SIGNAL]; /* whose the signals are: a driver's compiler removes its files */

static void on_fault(int number)
{
    if (guarded)
        clef__os_held_write("\ncrashed\n");
    guarded = 0;
    faulted = 1;
    sigaction(number, &others[number], NULL);
    raise(number);
}

/* Processor time, so that a machine with much else to do is no fault; a process that does nothing at all
 * waits for what does not come. */
static void on_tick(int number)
{
    const double now = used();
    (void)number;
    if (faulted) /* whoever the fault was handed to does not come to an end */
        _exit(LEFT);
    idle_ticks = now - seen < IDLE_SECONDS ? idle_ticks + 1 : 0;
    seen = now;
    if (guarded && (now - since > allowed || idle_ticks >= TICKS))
        leave("\nhung\n");
}

/* A driver that cannot go on calls exit(). */
static void on_exit_early(void)
{
    if (guarded)
        leave("\ncrashed\n");
}

/* Once more at each step: a driver may take them when it first needs its compiler. SIGFPE is left to those
 * who handle it: PoCL lets kernels divide by 0. */
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

void clef__os_guard(double seconds)
{
    static char stack[1 << 16]; /* a stack that overflowed is of no use */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    const double tick = seconds / TICKS;
    const struct timeval every = {(time_t)tick, (suseconds_t)((tick - (double)(time_t)tick) * 1e6)};
    const struct itimerval timer = {every, every};
    struct sigaction alarm = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaltstack(&other, NULL);
    take_faults();
    allowed = seconds;
    since = seen = used();
    guarded = 1;
    atexit(on_exit_early);
    sigemptyset(&alarm.sa_mask);
    sigaction(SIGALRM, &alarm, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void clef__os_guard_step(void)
{
    if (!guarded)
        return;
    since = used();
    idle_ticks = 0;
    take_faults();
    clef__os_held_write(".");
}

void clef__os_guard_end(void)
{
    const struct itimerval none = {0};
    guarded = 0;
    setitimer(ITIMER_REAL, &none, NULL);
}

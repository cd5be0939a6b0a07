/* How long a process ran on processors, and how much of a stretch of time counts as its own while it does not
 * finish. */
#ifndef CLEF_RUNTIME_OS_CLOCK_H
#define CLEF_RUNTIME_OS_CLOCK_H

#include <stdint.h>

/** The processor time of a process's threads since it began. */
typedef struct clef__os_usage {
    double  ran, waited;  /* seconds on a processor; seconds ready to run without one; sums over threads */
    int32_t n_ready;      /* threads that run, or could run if a processor were free */
    int32_t n_on_disk;    /* threads in a wait that no signal interrupts: a disk, swapped memory, some
                             drivers */
    int32_t n_stopped;    /* threads that were stopped, by SIGSTOP or a debugger */
} clef__os_usage;

/** Reads the usage from a folder like /proc/self (proc(5)), without the thread `but`. If there is no such
 *  folder, `ran` is this process's processor time and the rest is 0. */
void clef__os_usage_read(const char *folder, int64_t but, clef__os_usage *out);

/** Seconds, of `wall` between two readings, that count against a process which does not finish.
 *
 *  Not counted: time in which it was stopped, and time in which its threads were ready but had no processor.
 *  For a CPU device (is_cpu) a process that ran at all is charged the time that it ran. A process that only
 *  slept is charged all of it, since it may be in a deadlock. The host process of a GPU sleeps while it
 *  waits, so that time counts. A gap of over a second counts as one second, because the reader itself was
 *  stopped or had no processor then. */
double clef__os_usage_counts(const clef__os_usage *before, const clef__os_usage *now, double wall,
                             int is_cpu);

#endif

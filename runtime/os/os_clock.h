/* How long a process has had a processor, and how much of a stretch of time counts when it does not come
 * back. */
#ifndef CLEF_RUNTIME_OS_CLOCK_H
#define CLEF_RUNTIME_OS_CLOCK_H

#include <stdint.h>

/** What the threads of a process have had of the processors since it began. */
typedef struct clef__os_usage {
    double  ran, waited;  /* seconds on a processor; seconds ready to run without one. Sums over threads */
    int32_t n_ready;      /* threads that run, or could if a processor were free */
    int32_t n_on_disk;    /* threads in a wait that no signal ends: a disk, swapped memory, some drivers */
    int32_t n_stopped;    /* threads that were stopped, by SIGSTOP or a debugger */
} clef__os_usage;

/** Reads it from a folder as /proc/self is (proc(5)), leaving out the thread `but`. Where there is none,
 *  `ran` is this process's processor time and the rest is 0. */
void clef__os_usage_read(const char *folder, int64_t but, clef__os_usage *out);

/** Seconds, of `wall` between two readings, that count against a process which does not come back.
 *
 *  Not counted: time in which it was stopped, and time in which its threads were ready but had no processor.
 *  For a CPU device (is_cpu) a process that ran at all is charged what it ran; one that only slept is charged
 *  the time, since it may have locked itself up. A GPU's host process sleeps while it waits: that time
 *  counts. A gap of over a second counts as one: then the reader itself was stopped, or had no processor. */
double clef__os_usage_counts(const clef__os_usage *before, const clef__os_usage *now, double wall,
                             int is_cpu);

#endif

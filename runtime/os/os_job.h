/* Work that threads share (clef__os_parallel): each takes the next number until none is left. */
#ifndef CLEF_RUNTIME_OS_JOB_H
#define CLEF_RUNTIME_OS_JOB_H

#include <stdatomic.h>

#include "runtime/os/os.h"

typedef struct clef__os_job {
    void (*work)(void *user, int32_t i);
    void      *user;
    int32_t    n;
    atomic_int next;
} clef__os_job;

/** What each thread does. */
void clef__os_job_work(clef__os_job *job);

#endif

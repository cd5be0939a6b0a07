/* The parts of runtime/os/os.h that are the same on all systems. */
#include "runtime/os/os_job.h"

clef_status clef__os_write(const char *path, const void *data, size_t n_bytes, clef_error *err)
{
    clef_os_file *file = NULL;
    clef_status status = clef__os_file_begin(path, &file, err);
    if (status != CLEF_OK)
        return status;
    status = clef__os_file_write(file, data, n_bytes, err);
    if (status != CLEF_OK) {
        clef__os_file_abort(file);
        return status;
    }
    return clef__os_file_commit(file, err);
}

uint64_t clef__os_unique(void)
{
    enum { ID_BITS = 22 };
    static atomic_uint n_calls;
    const uint64_t microseconds = (uint64_t)(clef__os_seconds() * 1e6);
    return (microseconds + atomic_fetch_add(&n_calls, 1)) << ID_BITS |
           ((uint64_t)clef__os_pid() & ((1u << ID_BITS) - 1));
}

void clef__os_job_work(clef__os_job *job)
{
    for (int32_t i; (i = atomic_fetch_add(&job->next, 1)) < job->n;)
        job->work(job->user, i);
}

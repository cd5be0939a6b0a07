/* Where a plan's memory comes from: a device, or nothing. */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/plan/plan.h"

/* ---- a device -------------------------------------------------------------------------------- */

static clef_status check_size(const clef_plan *plan, const char *subject, uint64_t n_bytes, clef_error *err)
{
    const uint64_t most = plan->dev->info.caps.max_alloc_bytes;
    return n_bytes <= most
               ? CLEF_OK
               : clef__fail(err, CLEF_E_LIMIT, "%s: %" PRIu64 " bytes, a buffer of %s holds at most %" PRIu64,
                            subject, n_bytes, plan->dev->info.name, most);
}

/* What the driver says of its memory is beside what it refused, since the two may not agree. */
static clef_status fail_create(const clef_plan *plan, const char *subject, uint64_t n_bytes, cl_int code,
                               clef_error *err)
{
    const clef_caps *caps = &plan->dev->info.caps;
    return clef__fail_cl(err, CLEF_E_CL, code,
                         "clCreateBuffer(%s): %s (%d) for %" PRIu64
                         " bytes; its driver says that %s has %.0f MiB, and buffers of %.0f MiB at most "
                         "(max_alloc of CLEF_DEBUG sets a lower limit)",
                         subject, clef__cl_name(code), (int)code, n_bytes, plan->dev->info.name,
                         (double)caps->global_bytes / 1048576, (double)caps->max_alloc_bytes / 1048576);
}

static clef_status create_buffer(const clef_plan *plan, const char *subject, cl_mem_flags flags,
                                 uint64_t n_bytes, void *host, cl_mem *out, clef_error *err)
{
    const clef_status s = check_size(plan, subject, n_bytes, err);
    cl_int code = CL_SUCCESS;
    *out = s ? NULL : clCreateBuffer(plan->dev->context, flags, n_bytes, host, &code);
    return s || *out ? s : fail_create(plan, subject, n_bytes, code, err);
}

static clef_status zero_buffer(const clef_plan *plan, cl_mem mem, const char *subject, uint64_t n_bytes,
                               clef_error *err)
{
    const cl_int code = clef__device_fill(plan->dev, mem, 0, (size_t)n_bytes);
    return code ? clef__cl_fail(err, "filling a buffer", subject, code) : CLEF_OK;
}

static clef_status upload_bytes(clef_plan *plan, cl_mem mem, const char *subject, uint64_t n_bytes,
                                const void *data, clef_error *err)
{
    if (!plan->dev->info.caps.unified_memory)
        return clef__stage_write(plan->dev, &plan->stage, mem, 0, data, n_bytes, subject, err);
    const cl_int code =
        clEnqueueWriteBuffer(plan->dev->queue, mem, CL_TRUE, 0, (size_t)n_bytes, data, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", subject, code) : CLEF_OK;
}

static int allocate_host(size_t n_bytes, void **out)
{
    *out = malloc(n_bytes);
    return *out != NULL;
}

const clef__storage clef__storage_device = {.create = create_buffer,
                                            .zero = zero_buffer,
                                            .upload = upload_bytes,
                                            .allocate_host = allocate_host,
                                            .run_load_nodes = clef__plan_run_load_nodes};

/* ---- nowhere --------------------------------------------------------------------------------- */

static clef_status create_nothing(const clef_plan *plan, const char *subject, cl_mem_flags flags,
                                  uint64_t n_bytes, void *host, cl_mem *out, clef_error *err)
{
    (void)flags, (void)host;
    *out = NULL;
    return check_size(plan, subject, n_bytes, err);
}

static clef_status zero_nothing(const clef_plan *plan, cl_mem mem, const char *subject, uint64_t n_bytes,
                                clef_error *err)
{
    (void)plan, (void)mem, (void)subject, (void)n_bytes, (void)err;
    return CLEF_OK;
}

static clef_status upload_nothing(clef_plan *plan, cl_mem mem, const char *subject, uint64_t n_bytes,
                                  const void *data, clef_error *err)
{
    (void)plan, (void)mem, (void)subject, (void)n_bytes, (void)data, (void)err;
    return CLEF_OK;
}

static int allocate_nothing(size_t n_bytes, void **out)
{
    (void)n_bytes;
    *out = NULL;
    return 1;
}

static clef_status load_nothing(clef_plan *plan, clef_error *err)
{
    (void)err;
    plan->stats.weight_bytes += plan->stats.packed_bytes;
    return CLEF_OK;
}

const clef__storage clef__storage_none = {.create = create_nothing,
                                          .zero = zero_nothing,
                                          .upload = upload_nothing,
                                          .allocate_host = allocate_nothing,
                                          .run_load_nodes = load_nothing};

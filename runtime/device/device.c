/* Opens devices (one, or several as one), reopens lost ones, and closes them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/cut.h"
#include "runtime/device/cache_folder.h"
#include "runtime/device/device_find.h"
#include "runtime/device/probe_child.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

/* The longest time for saving programs when a device is closed. */
static const double SAVE_SECONDS = 20, SAVE_BACKGROUND_SECONDS = 300;

/* ---- opening --------------------------------------------------------------------------------- */

/* If the path does not fit, the device has no cache, as with a folder that is not writable. */
void clef__device_take_cache(clef_device *dev, const char *wanted)
{
    const char *dir = wanted ? wanted : clef__os_env("CLEF_CACHE_DIR");
    if (dir && strlen(dir) < sizeof dev->cache_dir)
        strcpy(dev->cache_dir, dir);
    else if (dir || !clef__os_cache_dir(dev->cache_dir, sizeof dev->cache_dir))
        dev->cache_dir[0] = 0;
}

static clef__cache_policy cache_policy_of(const clef_device_opts *opts)
{
    return (opts && opts->no_background) || clef__debug_is("background", "0") ? CLEF__SAVE_IN_FOREGROUND
                                                                              : CLEF__SAVE_AT_CLOSE;
}

/* If the path does not fit, there is no prover. */
static void take_prover(clef_device *dev, const clef_device_opts *opts)
{
    const char *prover = opts && opts->prover ? opts->prover : clef__os_env("CLEF_PROVER");
    if (prover && strlen(prover) < sizeof dev->prover)
        strcpy(dev->prover, prover);
    dev->notice = opts ? opts->notice : NULL;
    dev->notice_user = opts ? opts->notice_user : NULL;
}

static clef_status open_queue(clef_device *dev, clef_error *err)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)dev->platform, 0};
    cl_int code;
    dev->context = clCreateContext(properties, 1, &dev->id, NULL, NULL, &code);
    if (!dev->context)
        return clef__cl_fail(err, "clCreateContext", dev->info.name, code);
    dev->queue =
        clCreateCommandQueue(dev->context, dev->id, dev->profile ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    if (!dev->queue)
        return clef__cl_fail(err, "clCreateCommandQueue", dev->info.name, code);
    return CLEF_OK;
}

/* Must run before the first OpenCL call, because PoCL reads these when it starts. The first name is for PoCL
 * up to 4, the second for later versions. */
static void set_threads(int32_t n)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)n);
    clef__os_set_env("POCL_MAX_PTHREAD_COUNT", text);
    clef__os_set_env("POCL_CPU_MAX_CU_COUNT", text);
}

/* PoCL binds thread i to processor i. If the process may not use all processors, that would leave its set or
 * fail. */
static void pin_threads(void)
{
    if (!clef__os_env("POCL_AFFINITY") && clef__os_has_all_cpus())
        clef__os_set_env("POCL_AFFINITY", "1");
}

/* Opens one device of the list. */
static clef_status open_one(const clef_found_list *list, const char *which, const clef_device_opts *opts,
                            clef_device **out, clef_error *err)
{
    const clef_found *f = NULL;
    *out = NULL;
    uint64_t limit;
    clef_status status = clef_cache_limit(&limit, err);
    if (status == CLEF_OK)
        status = clef__find_one(list, which, &f, err);
    if (status != CLEF_OK)
        return status;
    clef_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for device %s", f->info.name);
    dev->info = f->info;
    dev->platform = f->platform;
    dev->id = f->id;
    dev->profile = opts && opts->profile;
    dev->cache_policy = cache_policy_of(opts);
    dev->progress = opts ? opts->progress : NULL;
    dev->progress_user = opts ? opts->progress_user : NULL;
    clef__device_take_cache(dev, opts ? opts->cache_dir : NULL);
    take_prover(dev, opts);
    status = open_queue(dev, err);
    if (status == CLEF_OK) {
        clef__probes_load(dev, CLEF__PROBES_OF_OPEN);
        status = clef__device_probe(dev, err);
    }
    if (status != CLEF_OK) {
        clef_device_close(dev);
        return status;
    }
    *out = dev;
    return CLEF_OK;
}

static clef_status check_shares(const clef_device_opts *opts, int32_t n, clef_error *err)
{
    if (opts->n_shares != n)
        return clef__fail(err, CLEF_E_ARG, "%d shares of the layers for %d devices, expected one for each",
                          (int)opts->n_shares, (int)n);
    for (int32_t i = 0; i < n; i++)
        if (!(opts->shares[i] > 0) || opts->shares[i] > 1e30f)
            return clef__fail(err, CLEF_E_ARG, "share number %d of the layers is %g, expected more than 0",
                              (int)i + 1, (double)opts->shares[i]);
    return CLEF_OK;
}

/* Opens each device of "A,B,C". */
static clef_status open_list(const clef_found_list *list, const char *which, const clef_device_opts *opts,
                             clef_device **out, clef_error *err)
{
    char one[256];
    clef_device **last = out;
    clef_status status = CLEF_OK;
    int32_t n = 0;
    for (const char *at = which; at && !status; n++) {
        const size_t bytes = strcspn(at, ",");
        if (n == CLEF_MAX_STAGES)
            return clef__fail(err, CLEF_E_LIMIT, "\"%.100s\": clef splits over %d devices at most", which,
                              CLEF_MAX_STAGES);
        if (!bytes || bytes >= sizeof one)
            return clef__fail(err, CLEF_E_ARG, "\"%.100s\": device number %d of the list has %s name", which,
                              (int)n + 1, bytes ? "too long a" : "no");
        memcpy(one, at, bytes);
        one[bytes] = 0;
        status = open_one(list, one, opts, last, err);
        if (!status && opts->shares)
            (*last)->share = n < opts->n_shares ? (double)opts->shares[n] : 0;
        if (!status)
            last = &(*last)->others;
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    return status || !opts->shares ? status : check_shares(opts, n, err);
}

/* Opens a device, and another for the experts of mixtures. */
static clef_status open_with_experts(const clef_found_list *list, const char *which,
                                     const clef_device_opts *opts, clef_device **out, clef_error *err)
{
    clef_status status = open_one(list, which, opts, out, err);
    if (!status)
        status = open_one(list, opts->experts_on, opts, &(*out)->others, err);
    if (!status)
        (*out)->offloads_experts = 1;
    return status;
}

clef_status clef_device_open(const char *which, const clef_device_opts *opts, clef_device **out,
                             clef_error *err)
{
    clef_found_list list;
    *out = NULL;
    clef_status status = clef__debug_check(err);
    if (status)
        return status;
    if (opts && opts->n_threads > 0)
        set_threads(opts->n_threads);
    if (opts && (opts->pin == CLEF_PIN_ON || (opts->pin == CLEF_PIN_AUTO && clef__os_is_idle())))
        pin_threads();
    if (!which)
        which = clef__os_env("CLEF_DEVICE");
    status = clef__find_all(opts ? opts->cache_dir : NULL, &list, err);
    const int is_list = which && strchr(which, ',') && !status && !clef__found_named(&list, which);
    if (!status && is_list && !(opts && opts->several))
        status = clef__fail(err, CLEF_E_ARG, "\"%.100s\" names several devices, expected one here", which);
    else if (!status && opts && opts->experts_on && (is_list || opts->shares))
        status = clef__fail(err, CLEF_E_ARG,
                            "expected one device beside the one for experts (%.100s), got several",
                            opts->experts_on);
    else if (!status && opts && opts->experts_on)
        status = open_with_experts(&list, which, opts, out, err);
    else if (!status && is_list)
        status = open_list(&list, which, opts, out, err);
    else if (!status && opts && opts->shares)
        status = clef__fail(err, CLEF_E_ARG,
                            "%d shares of the layers for one device: expected several devices, \"A,B\"",
                            (int)opts->n_shares);
    else if (!status)
        status = open_one(&list, which, opts, out, err);
    if (status) {
        clef_device_close(*out);
        *out = NULL;
    }
    free(list.at);
    return status;
}

clef_device *clef_device_part(clef_device *dev, int32_t i)
{
    for (; dev && i > 0; i--)
        dev = dev->others;
    return i < 0 ? NULL : dev;
}

/* ---- attachments ----------------------------------------------------------------------------- */

static int32_t find_attached(const clef_device *dev, const clef__attachment *slot)
{
    int32_t i = 0;
    while (i < dev->n_attached && dev->attached[i].slot != slot)
        i++;
    return i;
}

void *clef__device_attached(const clef_device *dev, const clef__attachment *slot)
{
    const int32_t i = find_attached(dev, slot);
    return i < dev->n_attached ? dev->attached[i].data : NULL;
}

void clef__device_attach(clef_device *dev, const clef__attachment *slot, void *data)
{
    const int32_t i = find_attached(dev, slot);
    assert(i < CLEF_MAX_ATTACHMENTS);
    dev->attached[i].slot = slot;
    dev->attached[i].data = data;
    dev->n_attached = i < dev->n_attached ? dev->n_attached : i + 1;
}

static void release_attached(clef_device *dev, int32_t with_context)
{
    for (int32_t i = 0; i < dev->n_attached; i++)
        if (dev->attached[i].data && dev->attached[i].slot->with_context == with_context) {
            dev->attached[i].slot->release(dev, dev->attached[i].data);
            dev->attached[i].data = NULL;
        }
}

/* ---- closing --------------------------------------------------------------------------------- */

/* A saved program saves the next start the time of building it, so saving may take as long as building did.
 * What is left is saved at the end of the next start. */
static double seconds_to_save(const clef_device *dev)
{
    const double built = clef__programs_unsaved_seconds(dev);
    switch (dev->cache_policy) {
    case CLEF__SAVE_IN_BACKGROUND:
        return SAVE_BACKGROUND_SECONDS;
    case CLEF__SAVE_IN_FOREGROUND:
        return SAVE_SECONDS;
    case CLEF__SAVE_AT_CLOSE:
        return built < SAVE_SECONDS ? built : SAVE_SECONDS;
    default:
        return 0;
    }
}

/* Runs when the device is closed, because then no user waits for a result. */
static void save_programs(clef_device *dev)
{
    if (dev->cache_policy == CLEF__SAVE_CHEAP)
        clef__programs_save_cheap(dev);
    const double end = clef__os_seconds() + seconds_to_save(dev);
    const int32_t n = clef__programs_unsaved(dev);
    for (int32_t i = 0; i < n && clef__os_seconds() < end; i++) {
        if (dev->progress && dev->progress(dev->progress_user, "cache", (uint64_t)i, (uint64_t)n))
            return;
        clef__program_save(dev);
    }
}

static void close_context(clef_device *dev)
{
    release_attached(dev, 1);
    clef__programs_release(dev);
    clef__clblast_release(dev);
    if (dev->queue)
        clReleaseCommandQueue(dev->queue);
    if (dev->context)
        clReleaseContext(dev->context);
    dev->queue = NULL;
    dev->context = NULL;
}

void clef_device_close(clef_device *dev)
{
    if (!dev)
        return;
    clef_device_close(dev->others);
    if (dev->queue)
        clFinish(dev->queue); /* running launches may still use the programs */
    save_programs(dev);
    if (dev->n_built)
        clef__cache_trim(dev->cache_dir);
    close_context(dev);
    release_attached(dev, 0);
    free(dev->probes);
    free(dev);
}

int32_t clef__device_units(const clef_caps *caps)
{
    enum { MOST = 2048, UNKNOWN = 8 }; /* no GPU has more: Mesa says 9999 for Adreno */
    return caps->n_units > 0 && caps->n_units <= MOST ? caps->n_units : UNKNOWN;
}

int32_t clef_error_is_lost(const clef_error *err)
{
    static const int32_t codes[] = {CL_OUT_OF_RESOURCES,
                                    CL_DEVICE_NOT_AVAILABLE,
                                    CL_INVALID_COMMAND_QUEUE,
                                    CL_INVALID_CONTEXT,
                                    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                    CLEF__NVIDIA_FAULT};
    for (size_t i = 0; err->status == CLEF_E_CL && i < sizeof codes / sizeof *codes; i++)
        if (err->cl_code == codes[i])
            return 1;
    return 0;
}

clef_status clef__device_ready(clef_device *dev, clef_error *err)
{
    if (dev->queue)
        return CLEF_OK;
    close_context(dev);
    return open_queue(dev, err);
}

int32_t clef_device_n_plans(const clef_device *dev)
{
    int32_t n = 0;
    for (; dev; dev = dev->others)
        n += dev->n_plans;
    return n;
}

clef_status clef__device_reopen(clef_device *dev, int32_t most, clef_error *err)
{
    const int32_t n = clef_device_n_plans(dev);
    if (n > most)
        return clef__fail(err, CLEF_E_ARG,
                          "%s: expected at most %d plans before its context is replaced, got %d",
                          dev->info.name, (int)most, (int)n);
    char text[256];
    clef_status s = CLEF_OK;
    snprintf(text, sizeof text, "%s was lost or had no room: its context is made anew", dev->info.name);
    if (dev->notice)
        dev->notice(dev->notice_user, text);
    for (clef_device *d = dev; d && !s; d = d->others) {
        save_programs(d); /* otherwise the programs would be built again from their sources */
        close_context(d);
        s = open_queue(d, err);
    }
    return s;
}

clef_status clef_device_reopen(clef_device *dev, clef_error *err)
{
    return clef__device_reopen(dev, 0, err);
}

const clef_device_info *clef_device_describe(const clef_device *dev)
{
    return &dev->info;
}

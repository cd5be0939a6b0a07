/* Finds devices, picks the one that the user means, and opens it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/cut.h"
#include "runtime/caps.h"
#include "runtime/device.h"
#include "runtime/os.h"
#include "runtime/proof.h"
#include "runtime/replay.h"
#include "runtime/tune.h"

enum { MAX_PLATFORMS = 64, MAX_DEVICES = 256 }; /* beyond these a driver's count is not believed */
static const double SAVE_SECONDS = 20;          /* spent at most, when a device is closed, on keeping what was built */

typedef struct found {
    clef_device_info info;
    cl_platform_id platform;
    cl_device_id id;
    cl_device_type type;
} found;

typedef struct found_list {
    found *at;
    int32_t n, n_platforms;
} found_list;

/* ---- finding ------------------------------------------------------------------------------------------------------------------ */

/* Adds the devices of a platform. One that fails or has none is skipped: another platform may work. */
static clef_status find_on_platform(cl_platform_id platform, int32_t number, found_list *list, clef_error *err)
{
    cl_device_id ids[MAX_DEVICES];
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &n) != CL_SUCCESS || n == 0)
        return CLEF_OK;
    n = n < MAX_DEVICES ? n : MAX_DEVICES;
    found *at = realloc(list->at, ((size_t)list->n + n) * sizeof *at);
    if (!at)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a list of %d OpenCL devices", (int)list->n + (int)n);
    list->at = at;
    for (cl_uint i = 0; i < n; i++) {
        found *f = &list->at[list->n++];
        *f = (found){.platform = platform, .id = ids[i], .info = {.platform = number, .index = (int32_t)i}};
        clef__caps_query(platform, ids[i], &f->info);
        if (clGetDeviceInfo(ids[i], CL_DEVICE_TYPE, sizeof f->type, &f->type, NULL) != CL_SUCCESS)
            f->type = 0;
    }
    return CLEF_OK;
}

/* The caller frees list->at, on failure too. */
static clef_status find_all(found_list *list, clef_error *err)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    *list = (found_list){0};
    const cl_int code = clGetPlatformIDs(MAX_PLATFORMS, platforms, &n);
    if (code == -1001) /* CL_PLATFORM_NOT_FOUND_KHR (cl_khr_icd): how the loader says that there is no driver */
        return CLEF_OK;
    if (code != CL_SUCCESS)
        return clef__cl_fail(err, "clGetPlatformIDs", "all", code);
    list->n_platforms = (int32_t)(n < MAX_PLATFORMS ? n : MAX_PLATFORMS);
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < list->n_platforms && status == CLEF_OK; i++)
        status = find_on_platform(platforms[i], i, list, err);
    return status;
}

clef_status clef_devices_list(clef_device_info **out, int32_t *n, clef_error *err)
{
    found_list list;
    *out = NULL;
    *n = 0;
    clef_status status = find_all(&list, err);
    if (status != CLEF_OK || list.n == 0)
        goto out;
    *out = calloc((size_t)list.n, sizeof **out);
    if (!*out) {
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for a list of %d OpenCL devices", (int)list.n);
        goto out;
    }
    for (int32_t i = 0; i < list.n; i++)
        (*out)[i] = list.at[i].info;
    *n = list.n;
out:
    free(list.at);
    return status;
}

void clef_devices_free(clef_device_info *list)
{
    free(list);
}

/* ---- choosing ----------------------------------------------------------------------------------------------------------------- */

/* Digits and nothing else, to a number; -1 otherwise. Reads up to end. */
static int32_t parse_digits(const char *text, const char *end)
{
    int32_t x = 0;
    if (text == end || end - text > 6)
        return -1;
    for (const char *p = text; p < end; p++) {
        if (*p < '0' || *p > '9')
            return -1;
        x = x * 10 + (*p - '0');
    }
    return x;
}

static int contains(const char *text, const char *part)
{
    const size_t n = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == n)
            return 1;
    }
    return 0;
}

/* Every device (or those that contain `part`) in one line: "0:0 pthread-cpu, 1:0 llvmpipe (refused: OpenCL 1.1, wanted 1.2)". */
static const char *list_text(const found_list *list, const char *part, char *out, size_t capacity)
{
    size_t at = 0;
    out[0] = 0;
    for (int32_t i = 0; i < list->n && at < capacity; i++) {
        const clef_device_info *info = &list->at[i].info;
        if (part && !contains(info->name, part) && !contains(info->platform_name, part))
            continue;
        const int refused = info->refused[0] != 0;
        const int n = snprintf(out + at, capacity - at, "%s%d:%d %s%s%s%s", at ? ", " : "", (int)info->platform, (int)info->index,
                               info->name, refused ? " (refused: " : "", info->refused, refused ? ")" : "");
        at += n > 0 ? (size_t)n : 0;
    }
    return out;
}

static int class_of(const found *f)
{
    return f->type & CL_DEVICE_TYPE_GPU ? 3 : f->type & CL_DEVICE_TYPE_ACCELERATOR ? 2 : f->type & CL_DEVICE_TYPE_CPU ? 1 : 0;
}

static int is_better(const found *a, const found *b)
{
    if (class_of(a) != class_of(b))
        return class_of(a) > class_of(b);
    const int64_t a_mhz = a->info.caps.mhz > 0 ? a->info.caps.mhz : 1, b_mhz = b->info.caps.mhz > 0 ? b->info.caps.mhz : 1;
    return a->info.caps.n_units * a_mhz > b->info.caps.n_units * b_mhz;
}

static clef_status pick_best(const found_list *list, const found **out, clef_error *err)
{
    char text[800];
    for (int32_t i = 0; i < list->n; i++) {
        const found *f = &list->at[i];
        if (!f->info.refused[0] && (!*out || is_better(f, *out)))
            *out = f;
    }
    if (!*out)
        return clef__fail(err, CLEF_E_DEVICE, "no usable OpenCL device among %s", list_text(list, NULL, text, sizeof text));
    return CLEF_OK;
}

static clef_status pick_number(const found_list *list, const char *which, int32_t platform, int32_t index, const found **out,
                               clef_error *err)
{
    char text[800];
    for (int32_t i = 0; i < list->n && !*out; i++) {
        const clef_device_info *info = &list->at[i].info;
        if (platform < 0 ? i == index : info->platform == platform && info->index == index)
            *out = &list->at[i];
    }
    if (*out)
        return CLEF_OK;
    list_text(list, NULL, text, sizeof text);
    if (platform < 0)
        return clef__fail(err, CLEF_E_DEVICE, "no OpenCL device \"%s\": counted over all platforms they are 0 to %d; there are %s", which,
                          (int)list->n - 1, text);
    if (platform >= list->n_platforms)
        return clef__fail(err, CLEF_E_DEVICE, "no OpenCL device \"%s\": platforms are 0 to %d; there are %s", which,
                          (int)list->n_platforms - 1, text);
    return clef__fail(err, CLEF_E_DEVICE, "no OpenCL device \"%s\": platform %d has no device %d; there are %s", which, (int)platform,
                      (int)index, text);
}

/* A refused device counts only where no usable one fits. */
static clef_status pick_substring(const found_list *list, const char *which, const found **out, clef_error *err)
{
    char text[800];
    int32_t n_usable = 0, n_refused = 0, by_name = 0;
    for (int32_t i = 0; i < list->n; i++) {
        const clef_device_info *info = &list->at[i].info;
        if (!contains(info->name, which) && !contains(info->platform_name, which))
            continue;
        by_name += contains(info->name, which);
        if (info->refused[0])
            n_refused++;
        else
            n_usable++;
        if (!*out || ((*out)->info.refused[0] && !info->refused[0]))
            *out = &list->at[i];
    }
    if (!*out)
        return clef__fail(err, CLEF_E_DEVICE, "no OpenCL device is called \"%.100s\"; there are %s", which,
                          list_text(list, NULL, text, sizeof text));
    if (n_usable > 1 || (n_usable == 0 && n_refused > 1))
        return clef__fail(err, CLEF_E_DEVICE, "\"%.100s\" %s %d OpenCL devices, wanted one: %s", which,
                          by_name ? "fits" : "is a platform of", (int)(n_usable + n_refused), list_text(list, which, text, sizeof text));
    return CLEF_OK;
}

static clef_status pick(const found_list *list, const char *which, const found **out, clef_error *err)
{
    *out = NULL;
    if (list->n_platforms == 0)
        return clef__fail(err, CLEF_E_DEVICE,
                          "no OpenCL platform: install an OpenCL driver (for a GPU: its vendor's; for a CPU: the package pocl-opencl-icd)");
    if (list->n == 0)
        return clef__fail(err, CLEF_E_DEVICE,
                          "no OpenCL device: %d platform(s) found, with none; install the driver of yours (for a CPU: the package "
                          "pocl-opencl-icd)",
                          (int)list->n_platforms);
    if (!which || !*which || strcmp(which, "auto") == 0)
        return pick_best(list, out, err);

    const char *colon = strchr(which, ':'), *end = which + strlen(which);
    const int32_t platform = colon ? parse_digits(which, colon) : -1, index = parse_digits(colon ? colon + 1 : which, end);
    clef_status status;
    if (index >= 0 && (!colon || platform >= 0))
        status = pick_number(list, which, platform, index, out, err);
    else
        status = pick_substring(list, which, out, err);
    if (status == CLEF_OK && (*out)->info.refused[0])
        return clef__fail(err, CLEF_E_DEVICE, "OpenCL device %d:%d (%s) is refused: %s", (int)(*out)->info.platform,
                          (int)(*out)->info.index, (*out)->info.name, (*out)->info.refused);
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------------------------------ */

/* A path that does not fit leaves the device without a cache, as an unwritable one does. */
static void take_cache_dir(clef_device *dev, const char *wanted)
{
    const char *dir = wanted ? wanted : clef__os_env("CLEF_CACHE_DIR");
    if (dir && strlen(dir) < sizeof dev->cache_dir)
        strcpy(dev->cache_dir, dir);
    else if (dir || !clef__os_cache_dir(dev->cache_dir, sizeof dev->cache_dir))
        dev->cache_dir[0] = 0;
}

/* A path that does not fit is no prover. */
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
    dev->queue = clCreateCommandQueue(dev->context, dev->id, dev->profile ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    if (!dev->queue)
        return clef__cl_fail(err, "clCreateCommandQueue", dev->info.name, code);
    return CLEF_OK;
}

/* Before the first OpenCL call: PoCL reads these when it starts. The first name is of PoCL 4 and older, the second of later ones. */
static void set_threads(int32_t n)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)n);
    clef__os_set_env("POCL_MAX_PTHREAD_COUNT", text);
    clef__os_set_env("POCL_CPU_MAX_CU_COUNT", text);
}

/* PoCL binds thread i to processor i. Where the process may not use them all that would break its bounds, or PoCL itself. */
static void pin_threads(void)
{
    if (!clef__os_env("POCL_AFFINITY") && clef__os_has_all_cpus())
        clef__os_set_env("POCL_AFFINITY", "1");
}

/* One device of the list. */
static clef_status open_one(const found_list *list, const char *which, const clef_device_opts *opts, clef_device **out, clef_error *err)
{
    const found *f = NULL;
    *out = NULL;
    clef_status status = pick(list, which, &f, err);
    if (status != CLEF_OK)
        return status;
    clef_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for device %s", f->info.name);
    dev->info = f->info;
    dev->platform = f->platform;
    dev->id = f->id;
    dev->profile = opts && opts->profile;
    dev->progress = opts ? opts->progress : NULL;
    dev->progress_user = opts ? opts->progress_user : NULL;
    take_cache_dir(dev, opts ? opts->cache_dir : NULL);
    take_prover(dev, opts);
    status = open_queue(dev, err);
    if (status == CLEF_OK)
        status = clef__device_probe(dev, err);
    if (status != CLEF_OK) {
        clef_device_close(dev);
        return status;
    }
    *out = dev;
    return CLEF_OK;
}

/* 1 when all of the text, with its commas, is a part of one device's name. */
static int names_one(const found_list *list, const char *which)
{
    for (int32_t i = 0; i < list->n; i++)
        if (contains(list->at[i].info.name, which) || contains(list->at[i].info.platform_name, which))
            return 1;
    return 0;
}

static clef_status check_shares(const clef_device_opts *opts, int32_t n, clef_error *err)
{
    if (opts->n_shares != n)
        return clef__fail(err, CLEF_E_ARG, "%d shares of the layers for %d devices, wanted one for each", (int)opts->n_shares, (int)n);
    for (int32_t i = 0; i < n; i++)
        if (!(opts->shares[i] > 0) || opts->shares[i] > 1e30f)
            return clef__fail(err, CLEF_E_ARG, "share number %d of the layers is %g, wanted more than 0", (int)i + 1,
                              (double)opts->shares[i]);
    return CLEF_OK;
}

/* "A,B,C", a device for each. */
static clef_status open_list(const found_list *list, const char *which, const clef_device_opts *opts, clef_device **out, clef_error *err)
{
    char one[256];
    clef_device **last = out;
    clef_status status = CLEF_OK;
    int32_t n = 0;
    for (const char *at = which; at && !status; n++) {
        const size_t bytes = strcspn(at, ",");
        if (n == CLEF_MAX_STAGES)
            return clef__fail(err, CLEF_E_LIMIT, "\"%.100s\": clef splits over %d devices at most", which, CLEF_MAX_STAGES);
        if (!bytes || bytes >= sizeof one)
            return clef__fail(err, CLEF_E_ARG, "\"%.100s\": device number %d of the list has %s name", which, (int)n + 1,
                              bytes ? "too long a" : "no");
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

clef_status clef_device_open(const char *which, const clef_device_opts *opts, clef_device **out, clef_error *err)
{
    found_list list;
    *out = NULL;
    if (opts && opts->n_threads > 0)
        set_threads(opts->n_threads);
    if (opts && (opts->pin == CLEF_PIN_ON || (opts->pin == CLEF_PIN_AUTO && clef__os_is_idle())))
        pin_threads();
    if (!which)
        which = clef__os_env("CLEF_DEVICE");
    clef_status status = find_all(&list, err);
    const int is_list = which && strchr(which, ',') && !status && !names_one(&list, which);
    if (!status && is_list && !(opts && opts->several))
        status = clef__fail(err, CLEF_E_ARG, "\"%.100s\" names several devices, wanted one here", which);
    else if (!status && is_list)
        status = open_list(&list, which, opts, out, err);
    else if (!status && opts && opts->shares)
        status =
            clef__fail(err, CLEF_E_ARG, "%d shares of the layers for one device: wanted several devices, \"A,B\"", (int)opts->n_shares);
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

/* Here and not where they are built: nobody waits for the answer any more. */
static void save_programs(clef_device *dev)
{
    const double end = clef__os_seconds() + SAVE_SECONDS;
    const int32_t n = clef__programs_unsaved(dev);
    for (int32_t i = 0; i < n && clef__os_seconds() < end; i++) {
        if (dev->progress && dev->progress(dev->progress_user, "cache", (uint64_t)i, (uint64_t)n))
            return;
        clef__program_save(dev);
    }
}

static void close_context(clef_device *dev)
{
    clef__replay_close(dev);
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
        clFinish(dev->queue); /* what is still under way may use the programs */
    save_programs(dev);
    close_context(dev);
    clef__tune_db_free(dev->tuning);
    clef__proofs_free(dev->proofs);
    free(dev);
}

int32_t clef_error_is_lost(const clef_error *err)
{
    static const int32_t codes[] = {CL_OUT_OF_RESOURCES, CL_DEVICE_NOT_AVAILABLE, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT,
                                    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST};
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

clef_status clef_device_reopen(clef_device *dev, clef_error *err)
{
    const int32_t n = clef_device_n_plans(dev);
    if (n)
        return clef__fail(err, CLEF_E_ARG, "%s: %d plans are left, wanted none before its context goes", dev->info.name, (int)n);
    char text[256];
    clef_status s = CLEF_OK;
    snprintf(text, sizeof text, "%s was lost or had no room: its context is made anew", dev->info.name);
    if (dev->notice)
        dev->notice(dev->notice_user, text);
    for (clef_device *d = dev; d && !s; d = d->others) {
        save_programs(d); /* else they would be built anew from their sources */
        close_context(d);
        s = open_queue(d, err);
    }
    return s;
}

const clef_device_info *clef_device_describe(const clef_device *dev)
{
    return &dev->info;
}

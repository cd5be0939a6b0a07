/* Finds devices, and selects the one that the user names. */
#include "runtime/device/device_find.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/caps.h"
#include "runtime/device/driver_cache.h"

enum { MAX_PLATFORMS = 64, MAX_DEVICES = 256 }; /* larger counts from a driver are treated as errors */

/* ---- the best one ----------------------------------------------------------------------------- */

static int class_of(const clef_found *f)
{
    return f->type & CL_DEVICE_TYPE_GPU           ? 3
           : f->type & CL_DEVICE_TYPE_ACCELERATOR ? 2
           : f->type & CL_DEVICE_TYPE_CPU         ? 1
                                                  : 0;
}

/* > 0 when clef takes a before b, 0 when they are equal. Units and clocks say nothing about other makes.
 * *why: what decides. */
static int compare(const clef_found *a, const clef_found *b, const char **why)
{
    const clef_caps *ca = &a->info.caps, *cb = &b->info.caps;
    *why = class_of(a) == 3 ? "the only GPU" : class_of(a) == 2 ? "an accelerator" : "a CPU";
    if (class_of(a) != class_of(b))
        return class_of(a) - class_of(b);
    *why = "memory of its own";
    if (!ca->unified_memory != !cb->unified_memory)
        return ca->unified_memory ? -1 : 1;
    *why = "the most memory";
    if (ca->global_bytes != cb->global_bytes)
        return ca->global_bytes > cb->global_bytes ? 1 : -1;
    *why = "the fastest memory";
    if (!(a->read_gb_s > 0) || !(b->read_gb_s > 0))
        return 0;
    return (a->read_gb_s > b->read_gb_s) - (a->read_gb_s < b->read_gb_s);
}

/* The same device, by two drivers. A machine's CPUs are one device. */
static int is_same_card(const clef_found *a, const clef_found *b)
{
    static const unsigned char none[sizeof a->uuid] = {0};
    if (class_of(a) != class_of(b) || class_of(a) == 1)
        return class_of(a) == class_of(b);
    if (a->card[0] && b->card[0])
        return strcmp(a->card, b->card) == 0;
    return memcmp(a->uuid, none, sizeof none) != 0 && memcmp(a->uuid, b->uuid, sizeof none) == 0;
}

static int is_newer(const clef_found *a, const clef_found *b)
{
    return is_same_card(a, b) && a->info.caps.opencl_version > b->info.caps.opencl_version;
}

/* The best of the usable devices other than `except`, by its newest driver; NULL: none. */
static clef_found *find_best(const clef_found_list *list, const clef_found *except)
{
    clef_found *best = NULL;
    const char *why;
    for (int32_t i = 0; i < list->n; i++) {
        clef_found *f = &list->at[i];
        if (!f->info.refused[0] && f != except && (!best || compare(f, best, &why) > 0))
            best = f;
    }
    for (int32_t i = 0; best && i < list->n; i++) {
        clef_found *f = &list->at[i];
        if (!f->info.refused[0] && f != except && is_newer(f, best))
            best = f;
    }
    return best;
}

/* What was measured decides nothing among equals of which one was not measured. */
static void forget_some_speeds(const clef_found_list *list)
{
    const char *why;
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t j = 0; j < list->n && !(list->at[i].read_gb_s > 0); j++)
            if (compare(&list->at[i], &list->at[j], &why) == 0)
                list->at[j].read_gb_s = 0;
}

void clef__find_choice(const clef_found_list *list)
{
    forget_some_speeds(list);
    clef_found *best = find_best(list, NULL);
    const clef_found *next = best ? find_best(list, best) : NULL;
    const char *why = "the only one";
    if (next && is_newer(best, next))
        why = "the newest OpenCL for it";
    else if (next && compare(best, next, &why) == 0)
        why = "the first of equals";
    if (best)
        snprintf(best->info.chosen, sizeof best->info.chosen, "%s", why);
}

/* What was measured of a device's memory, in GB/s; 0: nothing was. */
static double measured(const clef_device_info *info, const char *cache_dir)
{
    clef_device_speed speed = {0};
    clef_device *dev = calloc(1, sizeof *dev);
    if (dev) {
        dev->info = *info;
        clef__device_take_cache(dev, cache_dir);
        (void)clef_device_speed_known(dev, &speed, NULL);
    }
    free(dev);
    return speed.read_gb_s;
}

/* Asks for what was measured where nothing else decides. */
static void find_speeds(const clef_found_list *list, const char *cache_dir)
{
    const char *why;
    for (int32_t i = 0; i < list->n; i++) {
        int32_t j = 0;
        while (j < list->n && (i == j || compare(&list->at[i], &list->at[j], &why) != 0))
            j++;
        if (j < list->n)
            list->at[i].read_gb_s = measured(&list->at[i].info, cache_dir);
    }
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Adds the devices of a platform. One that fails or has none is skipped: another platform may work. */
static clef_status find_on_platform(cl_platform_id platform, int32_t number, clef_found_list *list,
                                    clef_error *err)
{
    cl_device_id ids[MAX_DEVICES];
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &n) != CL_SUCCESS || n == 0)
        return CLEF_OK;
    n = n < MAX_DEVICES ? n : MAX_DEVICES;
    clef_found *at = realloc(list->at, ((size_t)list->n + n) * sizeof *at);
    if (!at)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a list of %d OpenCL devices",
                          (int)list->n + (int)n);
    list->at = at;
    for (cl_uint i = 0; i < n; i++) {
        clef_found *f = &list->at[list->n++];
        *f = (clef_found){
            .platform = platform, .id = ids[i], .info = {.platform = number, .index = (int32_t)i}};
        clef__caps_query(platform, ids[i], &f->info);
        clef__caps_card(ids[i], f->card);
        clef__caps_uuid(ids[i], f->uuid);
        if (clGetDeviceInfo(ids[i], CL_DEVICE_TYPE, sizeof f->type, &f->type, NULL) != CL_SUCCESS)
            f->type = 0;
    }
    return CLEF_OK;
}

clef_status clef__find_all(const char *cache_dir, clef_found_list *list, clef_error *err)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    *list = (clef_found_list){0};
    clef__driver_cache_find(cache_dir);
    const cl_int code = clGetPlatformIDs(MAX_PLATFORMS, platforms, &n);
    if (code == -1001) /* CL_PLATFORM_NOT_FOUND_KHR (cl_khr_icd): the loader found no driver */
        return CLEF_OK;
    if (code != CL_SUCCESS)
        return clef__cl_fail(err, "clGetPlatformIDs", "all", code);
    list->n_platforms = (int32_t)(n < MAX_PLATFORMS ? n : MAX_PLATFORMS);
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < list->n_platforms && status == CLEF_OK; i++)
        status = find_on_platform(platforms[i], i, list, err);
    find_speeds(list, cache_dir);
    clef__find_choice(list);
    return status;
}

clef_status clef_devices_list(clef_device_info **out, int32_t *n, clef_error *err)
{
    clef_found_list list;
    *out = NULL;
    *n = 0;
    clef_status status = clef__find_all(NULL, &list, err);
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

/* ---- choosing -------------------------------------------------------------------------------- */

/* Parses a text of digits only, up to `end`; -1 for any other text. */
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

static int contains_text(const char *text, const char *part)
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

/* Every device (or those that contain `part`) in one line: "0:0 pthread-cpu, 1:0 llvmpipe (refused:
 * OpenCL 1.1, expected 1.2)". */
static const char *list_text(const clef_found_list *list, const char *part, char *out, size_t capacity)
{
    size_t at = 0;
    out[0] = 0;
    for (int32_t i = 0; i < list->n && at < capacity; i++) {
        const clef_device_info *info = &list->at[i].info;
        if (part && !contains_text(info->name, part) && !contains_text(info->platform_name, part))
            continue;
        const int refused = info->refused[0] != 0;
        const int n = snprintf(out + at, capacity - at, "%s%d:%d %s%s%s%s", at ? ", " : "",
                               (int)info->platform, (int)info->index, info->name,
                               refused ? " (refused: " : "", info->refused, refused ? ")" : "");
        at += n > 0 ? (size_t)n : 0;
    }
    return out;
}

static clef_status pick_best(const clef_found_list *list, const clef_found **out, clef_error *err)
{
    char text[800];
    *out = find_best(list, NULL);
    if (!*out)
        return clef__fail(err, CLEF_E_DEVICE, "no usable OpenCL device among %s",
                          list_text(list, NULL, text, sizeof text));
    return CLEF_OK;
}

static clef_status pick_number(const clef_found_list *list, const char *which, int32_t platform,
                               int32_t index, const clef_found **out, clef_error *err)
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
        return clef__fail(
            err, CLEF_E_DEVICE,
            "no OpenCL device \"%s\": counted over all platforms they are 0 to %d; there are %s", which,
            (int)list->n - 1, text);
    if (platform >= list->n_platforms)
        return clef__fail(err, CLEF_E_DEVICE, "no OpenCL device \"%s\": platforms are 0 to %d; there are %s",
                          which, (int)list->n_platforms - 1, text);
    return clef__fail(err, CLEF_E_DEVICE,
                      "no OpenCL device \"%s\": platform %d has no device %d; there are %s", which,
                      (int)platform, (int)index, text);
}

/* A refused device counts only if no usable one matches. */
static clef_status pick_substring(const clef_found_list *list, const char *which, const clef_found **out,
                                  clef_error *err)
{
    char text[800];
    int32_t n_usable = 0, n_refused = 0, by_name = 0;
    for (int32_t i = 0; i < list->n; i++) {
        const clef_device_info *info = &list->at[i].info;
        if (!contains_text(info->name, which) && !contains_text(info->platform_name, which))
            continue;
        by_name += contains_text(info->name, which);
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
        return clef__fail(err, CLEF_E_DEVICE, "\"%.100s\" %s %d OpenCL devices, expected one: %s", which,
                          by_name ? "fits" : "is a platform of", (int)(n_usable + n_refused),
                          list_text(list, which, text, sizeof text));
    return CLEF_OK;
}

clef_status clef__find_one(const clef_found_list *list, const char *which, const clef_found **out,
                           clef_error *err)
{
    *out = NULL;
#ifdef CLEF_DLOPEN_OPENCL
    const char *missing = list->n_platforms == 0 ? clef__opencl_missing() : NULL;
    if (missing)
        return clef__fail(
            err, CLEF_E_DEVICE,
#    if defined(_WIN32) || defined(__APPLE__) || defined(__ANDROID__)
            "no OpenCL loader (%s): install the driver of your GPU, which brings one, or name its file in "
            "CLEF_OPENCL",
#    else
            "no OpenCL loader (%s): install one (on Debian: the package ocl-icd-libopencl1) and an "
            "OpenCL driver (for a GPU: its vendor's; for a CPU: the package pocl-opencl-icd), or "
            "name its file in CLEF_OPENCL",
#    endif
            missing);
#endif
    if (list->n_platforms == 0)
        return clef__fail(err, CLEF_E_DEVICE,
                          "no OpenCL platform: install an OpenCL driver (for a GPU: its vendor's; for a CPU: "
                          "the package pocl-opencl-icd)");
    if (list->n == 0)
        return clef__fail(
            err, CLEF_E_DEVICE,
            "no OpenCL device: %d platform(s) without devices; install the driver of your device "
            "(for a CPU: the package "
            "pocl-opencl-icd)%s",
            (int)list->n_platforms, clef__driver_cache_fault());
    if (!which || !*which || strcmp(which, "auto") == 0)
        return pick_best(list, out, err);

    const char *colon = strchr(which, ':'), *end = which + strlen(which);
    const int32_t platform = colon ? parse_digits(which, colon) : -1,
                  index = parse_digits(colon ? colon + 1 : which, end);
    clef_status status;
    if (index >= 0 && (!colon || platform >= 0))
        status = pick_number(list, which, platform, index, out, err);
    else
        status = pick_substring(list, which, out, err);
    if (status == CLEF_OK && (*out)->info.refused[0])
        return clef__fail(err, CLEF_E_DEVICE, "OpenCL device %d:%d (%s) is refused: %s",
                          (int)(*out)->info.platform, (int)(*out)->info.index, (*out)->info.name,
                          (*out)->info.refused);
    return status;
}

int clef__found_named(const clef_found_list *list, const char *which)
{
    for (int32_t i = 0; i < list->n; i++)
        if (contains_text(list->at[i].info.name, which) ||
            contains_text(list->at[i].info.platform_name, which))
            return 1;
    return 0;
}

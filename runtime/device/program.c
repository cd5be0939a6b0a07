/* Programs: looked up in the device's list, then in the disk cache, else built from source. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/substep.h"
#include "runtime/device/cache.h"
#include "runtime/device/device.h"
#include "runtime/device/driver_cache.h"
#include "runtime/device/program_text.h"
#include "runtime/device/source.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"
#include "runtime/os/os_clock.h"

enum { MAX_OPTIONS = 608 };
static const double cheap_share = 0.1,
                    cheap_seconds = 0.003; /* time of building a program; time of asking for its binary */

struct clef_program {
    clef_program *next;
    const char *source; /* static: the launch's */
    const char *kernel; /* static: its only kernel, whose body is a function of its own; else NULL */
    char options[MAX_OPTIONS];
    cl_program program;
    double seconds; /* time that building took */
    clef_cache_key key;
    int32_t stored; /* on disk */
    int32_t is_joined;
    unsigned char sum[CLEF_SHA256_BYTES]; /* of the source, unless it is joined */
};

/* Strict maths: no option lets the compiler round differently than OpenCL C says. -w: PoCL writes the
 * number of warnings to stderr, and there are some where vectors are wider than the processor's registers. */
clef_status clef__program_options(const clef_launch *launch, char *out, size_t n_bytes, clef_error *err)
{
    const int version = launch->c_version ? launch->c_version : 12;
    int n = snprintf(out, n_bytes, "-w -cl-std=CL%d.%d%s", version / 10, version % 10,
                     launch->registers ? " -cl-intel-256-GRF-per-thread" : "");
    for (int i = 0; i < CLEF_MAX_DEFS && launch->defs[i].name && (size_t)n < n_bytes; i++)
        n += snprintf(out + n, n_bytes - (size_t)n, " -D %s=%d", launch->defs[i].name,
                      (int)launch->defs[i].value);
    if ((size_t)n >= n_bytes)
        return clef__fail(err, CLEF_E_LIMIT, "%s/%s: build options of %zu bytes or more", launch->source,
                          launch->kernel, n_bytes);
    return CLEF_OK;
}

/* ---- binaries -------------------------------------------------------------------------------- */

static void save_binary(const clef_device *dev, clef_program *p)
{
    size_t n = 0;
    p->stored = 1; /* set after one attempt: PoCL returns the same binary for ever after the first request */
    const int lock = clef__cache_lock(dev, &p->key);
    const cl_int code = clGetProgramInfo(p->program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL);
    clef__os_unlock(lock); /* PoCL has made the binary now */
    if (code != CL_SUCCESS || n == 0)
        return;
    unsigned char *binary = malloc(n);
    if (binary &&
        clGetProgramInfo(p->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        clef__cache_store(dev, &p->key, binary, n);
    free(binary);
}

static void save_program(const clef_device *dev, clef_program *p)
{
    if (clef__cache_has(dev, &p->key)) /* another process wrote it */
        p->stored = 1;
    else
        save_binary(dev, p);
}

int32_t clef__programs_unsaved(const clef_device *dev)
{
    int32_t n = 0;
    for (const clef_program *p = dev->cache_dir[0] ? dev->programs : NULL; p; p = p->next)
        n += !p->stored;
    return n;
}

double clef__programs_unsaved_seconds(const clef_device *dev)
{
    double seconds = 0;
    for (const clef_program *p = dev->programs; p; p = p->next)
        seconds += p->stored ? 0 : p->seconds;
    return seconds;
}

void clef__program_save(clef_device *dev)
{
    clef_program *p = dev->programs;
    while (p && p->stored)
        p = p->next;
    if (p && dev->cache_dir[0])
        save_program(dev, p);
}

/* A busy machine makes everything slow but this. */
static double processor_seconds(void)
{
    clef__os_usage used;
    clef__os_usage_read("", 0, &used);
    return used.ran;
}

void clef__programs_save_cheap(clef_device *dev)
{
    dev->slow_to_serialize |= clef__debug_is("slow_binaries", "1");
    while (!dev->slow_to_serialize && dev->cache_dir[0]) {
        clef_program *oldest = NULL;
        for (clef_program *p = dev->programs; p; p = p->next)
            oldest = p->stored ? oldest : p;
        if (!oldest)
            return;
        const double start = processor_seconds();
        save_program(dev, oldest);
        const double took = processor_seconds() - start;
        dev->slow_to_serialize = took > cheap_seconds && took > cheap_share * oldest->seconds;
    }
}

int clef__background_allowed(const clef_device *dev)
{
    return dev->cache_policy != CLEF__SAVE_IN_FOREGROUND && dev->cache_policy != CLEF__SAVE_NEVER;
}

void clef__programs_save_in_background(clef_device *dev)
{
    const int allowed = clef__background_allowed(dev);
    dev->cache_policy = allowed ? CLEF__SAVE_IN_BACKGROUND : CLEF__SAVE_NEVER;
    if (allowed)
        clef__os_go_to_background();
}

/* CL_SUCCESS when the program has the kernel. A binary of another version of the driver may build and have
 * none. */
static cl_int find_kernel(cl_program program, const char *name)
{
    cl_int code;
    const cl_kernel kernel = clCreateKernel(program, name, &code);
    if (kernel)
        clReleaseKernel(kernel);
    return code;
}

/* Also of a binary: NVIDIA's is a text for an assembler. */
static cl_int compile(clef_device *dev, clef_program *p)
{
    clef__os_guard_build_begins();
    const cl_int code = clBuildProgram(p->program, 1, &dev->id, p->options, NULL, NULL);
    clef__os_guard_build_ends();
    return code;
}

/* 1 for codes that say nothing of a binary. */
static int is_short_or_lost(cl_int code)
{
    const clef_error err = {.status = CLEF_E_CL, .cl_code = code};
    return clef_error_is_lost(&err) || code == CL_OUT_OF_HOST_MEMORY ||
           code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

/* Returns 1 if the disk cache has a binary, and the driver accepts it. */
static int load_program(clef_device *dev, clef_program *p, const char *kernel)
{
    unsigned char *binary = NULL;
    size_t n = 0;
    cl_int code, binary_code = CL_SUCCESS;
    if (!clef__cache_load(dev, &p->key, &binary, &n))
        return 0;
    const unsigned char *bytes = binary;
    p->program = clCreateProgramWithBinary(dev->context, 1, &dev->id, &n, &bytes, &binary_code, &code);
    free(binary);
    code = code ? code : binary_code;
    code = code ? code : compile(dev, p);
    code = code ? code : find_kernel(p->program, kernel);
    p->stored = code == CL_SUCCESS;
    if (p->stored)
        return 1;
    if (p->program)
        clReleaseProgram(p->program);
    p->program = NULL;
    if (!is_short_or_lost(code))
        clef__cache_drop(dev, &p->key);
    return 0;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Returns 0 when resources ran out or the device was lost: the source is not the cause. */
static int is_build_error(cl_int code)
{
    return code == CL_BUILD_PROGRAM_FAILURE || code == CL_COMPILE_PROGRAM_FAILURE ||
           code == CL_LINK_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS || code == CL_INVALID_BINARY ||
           code == CL_INVALID_VALUE || code == CL_INVALID_OPERATION;
}

static clef_status fail_build(const clef_device *dev, const clef_program *p, const clef_launch *launch,
                              cl_int code, clef_error *err)
{
    size_t n = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(p->program, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) == CL_SUCCESS &&
        n > 0 && n < 16 << 20)
        log = malloc(n + 1);
    if (log && clGetProgramBuildInfo(p->program, dev->id, CL_PROGRAM_BUILD_LOG, n, log, NULL) == CL_SUCCESS)
        log[n] = 0;
    else if (log)
        log[0] = 0;

    /* The error text is short, so warnings before the first error are left out. */
    const char *from = log ? log : "", *error = strstr(from, "error");
    while (error && error > from && error[-1] != '\n')
        error--;
    if (error)
        from = error;
    clef__fail_cl(err, CLEF_E_BUILD, code, "cl/%s.cl, kernel %s, %s does not build on %s: %s (%d)%s\n%s",
                  launch->source, launch->kernel, p->options, dev->info.name, clef__cl_name(code), (int)code,
                  dev->info.caps.is_cpu ? clef__driver_cache_fault() : "", from);
    free(log);
    return CLEF_E_BUILD;
}

static clef_status build_program(clef_device *dev, clef_program *p, const clef_launch *launch,
                                 const char *source, size_t n, clef_error *err)
{
    cl_int code;
    p->program = clCreateProgramWithSource(dev->context, 1, &source, &n, &code);
    if (!p->program)
        return clef__cl_fail(err, "clCreateProgramWithSource", launch->source, code);
    const int lock = clef__cache_lock(dev, &p->key);
    const double start = clef__os_seconds();
    code = compile(dev, p);
    p->seconds = clef__os_seconds() - start;
    clef__os_unlock(lock);
    if (code == CL_SUCCESS)
        return CLEF_OK;
    return is_build_error(code) ? fail_build(dev, p, launch, code, err)
                                : clef__cl_fail(err, "clBuildProgram", launch->source, code);
}

static void program_free(clef_program *p)
{
    if (p && p->program)
        clReleaseProgram(p->program);
    free(p);
}

/* clef__source_sum(), once for all programs of a source. */
static clef_status sum_of(const clef_device *dev, const char *source, unsigned char out[CLEF_SHA256_BYTES],
                          clef_error *err)
{
    const clef_program *p = clef__debug("cl_dir") ? NULL : dev->programs; /* its files may change */
    while (p && (p->is_joined || strcmp(p->source, source) != 0))
        p = p->next;
    if (!p)
        return clef__source_sum(source, out, err);
    memcpy(out, p->sum, CLEF_SHA256_BYTES);
    return CLEF_OK;
}

static clef_status build_own(clef_device *dev, clef_program *p, const clef_launch *launch, int is_whole,
                             clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef_status s = clef__program_text(dev, launch, is_whole, &text, &n, err);
    if (!s)
        s = build_program(dev, p, launch, text, n, err);
    free(text);
    return s;
}

/* Makes a program for the launch and adds it to the device's list. */
static clef_status add_program(clef_device *dev, const clef_launch *launch, const char *options, int is_whole,
                               clef_program **out, clef_error *err)
{
    char key[CLEF_SHA256_BYTES + CLEF__TEXT_KEY];
    clef_program *p = calloc(1, sizeof *p);
    if (!p)
        return clef__fail(err, CLEF_E_NOMEM, "cl/%s.cl: no memory for a program", launch->source);
    clef_status status = sum_of(dev, launch->source, p->sum, err);
    if (status != CLEF_OK)
        goto out;
    p->source = launch->source;
    p->kernel = is_whole ? launch->kernel : NULL;
    strcpy(p->options, options);
    memcpy(key, p->sum, CLEF_SHA256_BYTES);
    clef__text_key(launch, is_whole, key + CLEF_SHA256_BYTES);
    p->key = clef__cache_key(dev, key, CLEF_SHA256_BYTES + strlen(key + CLEF_SHA256_BYTES), options);
    const int is_cached = load_program(dev, p, launch->kernel);
    if (!is_cached)
        status = build_own(dev, p, launch, is_whole, err);
    if (status != CLEF_OK)
        goto out;
    dev->n_cached += is_cached;
    dev->n_built += !is_cached;
    p->next = dev->programs;
    dev->programs = p;
    *out = p;
    p = NULL;
out:
    program_free(p);
    return status;
}

static int is_of(const clef_program *p, const clef_launch *launch, const char *options, int is_whole)
{
    return strcmp(p->source, launch->source) == 0 && strcmp(p->options, options) == 0 &&
           (!is_whole || strcmp(p->kernel, launch->kernel) == 0);
}

clef_status clef__kernel_create(clef_device *dev, const clef_launch *launch, cl_kernel *out, clef_error *err)
{
    char options[MAX_OPTIONS];
    const int is_whole = clef__has_whole_body(dev, launch);
    *out = NULL;
    clef_status status = clef__program_options(launch, options, MAX_OPTIONS - CLEF__TEXT_OPTIONS, err);
    if (status != CLEF_OK)
        return status;
    clef__text_options(dev, launch->c_version, is_whole, options + strlen(options));
    clef_program *p = dev->programs;
    while (p && !is_of(p, launch, options, is_whole))
        p = p->next;
    if (!p) {
        status = add_program(dev, launch, options, is_whole, &p, err);
        if (status != CLEF_OK)
            return status;
    }
    cl_int code;
    *out = clCreateKernel(p->program, launch->kernel, &code);
    if (*out)
        return CLEF_OK;
    char subject[128];
    snprintf(subject, sizeof subject, "%s of cl/%s.cl", launch->kernel, launch->source);
    return clef__cl_fail(err, "clCreateKernel", subject, code);
}

/* ---- several sources in one ------------------------------------------------------------------- */

static clef_status unit_of(const clef_piece *part, clef_unit *out, char **owned, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    const clef_status s = clef__source_assemble(part->source, &text, &n, err);
    const size_t more = strlen(part->after);
    char *grown = s ? NULL : realloc(text, n + more + 1);
    *owned = grown ? grown : text;
    if (s || !grown)
        return s ? s : clef__fail(err, CLEF_E_NOMEM, "cl/%s.cl: no memory for its text", part->source);
    memcpy(grown + n, part->after, more + 1);
    *out = (clef_unit){grown, n + more, part->options};
    return CLEF_OK;
}

static clef_status joined_text(const clef_device *dev, const clef_piece *parts, int32_t n, int32_t c_version,
                               char **text, size_t *n_bytes, clef_error *err)
{
    clef_unit *units = calloc((size_t)n, sizeof *units);
    char **owned = calloc((size_t)n, sizeof *owned);
    clef_status s =
        units && owned ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for %d sources", (int)n);
    for (int32_t i = 0; i < n && !s; i++)
        s = unit_of(&parts[i], &units[i], &owned[i], err);
    if (!s)
        s = clef__source_join(units, n, text, n_bytes, err);
    if (!s)
        s = clef__text_declare(dev, c_version, text, n_bytes, err);
    for (int32_t i = 0; i < n && owned; i++)
        free(owned[i]);
    free(owned);
    free(units);
    return s;
}

static clef_status build_joined(clef_device *dev, clef_program *p, const clef_piece *parts, int32_t n,
                                const clef_launch *launch, clef_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    clef_status s = joined_text(dev, parts, n, launch->c_version, &text, &n_bytes, err);
    if (!s)
        s = build_program(dev, p, launch, text, n_bytes, err);
    free(text);
    return s;
}

static clef_status add_joined(clef_device *dev, const clef_piece *parts, int32_t n, const clef_launch *launch,
                              const clef_cache_key *key, clef_joining how, clef_program **out,
                              clef_error *err)
{
    clef_program *p = calloc(1, sizeof *p);
    if (!p)
        return clef__fail(err, CLEF_E_NOMEM, "cl/%s.cl: no memory for a program", launch->source);
    p->source = launch->source;
    p->key = *key;
    p->is_joined = 1;
    clef_status s = clef__program_options(launch, p->options, MAX_OPTIONS - CLEF__TEXT_OPTIONS, err);
    clef__text_options(dev, launch->c_version, 0, p->options + strlen(p->options));
    const int is_cached = !s && load_program(dev, p, launch->kernel);
    if (!s && !is_cached)
        s = how == CLEF_JOIN_FOUND
                ? clef__fail(err, CLEF_E_NOT_FOUND, "cl/%s.cl: not built yet", launch->source)
                : build_joined(dev, p, parts, n, launch, err);
    if (s) {
        program_free(p);
        return s;
    }
    dev->n_cached += is_cached;
    dev->n_built += !is_cached;
    p->next = dev->programs;
    dev->programs = *out = p;
    return CLEF_OK;
}

static void add_line(clef_sha256 *sum, const char *text)
{
    clef__sha256_add(sum, text, strlen(text) + 1);
}

clef_status clef__joined_key(const clef_device *dev, const clef_piece *parts, int32_t n, clef_cache_key *out,
                             clef_error *err)
{
    const clef_launch plain = {0};
    unsigned char of[CLEF_SHA256_BYTES];
    char key[CLEF__TEXT_KEY], options[CLEF__TEXT_OPTIONS];
    clef_status s = CLEF_OK;
    clef_sha256 sum;
    clef__sha256_init(&sum);
    clef__text_key(&plain, 0, key);
    clef__text_options(dev, 0, 0, options);
    add_line(&sum, key);
    add_line(&sum, options);
    for (int32_t i = 0; i < n && !s; i++) {
        s = sum_of(dev, parts[i].source, of, err);
        clef__sha256_add(&sum, of, sizeof of);
        add_line(&sum, parts[i].options);
        add_line(&sum, parts[i].after);
    }
    clef__sha256_finish(&sum, of);
    if (!s) /* the number is raised when source_join.c writes other text */
        *out = clef__cache_key(dev, (const char *)of, sizeof of, "joined 4");
    return s;
}

clef_status clef__kernel_join(clef_device *dev, const clef_piece *parts, int32_t n, const clef_launch *launch,
                              clef_joining how, cl_kernel *out, clef_error *err)
{
    clef_cache_key key;
    *out = NULL;
    clef_status s = clef__joined_key(dev, parts, n, &key, err);
    if (s)
        return s;
    clef_program *p = dev->programs;
    while (p && memcmp(&p->key, &key, sizeof key) != 0)
        p = p->next;
    s = p ? CLEF_OK : add_joined(dev, parts, n, launch, &key, how, &p, err);
    cl_int code = CL_SUCCESS;
    if (!s)
        *out = clCreateKernel(p->program, launch->kernel, &code);
    return s || *out ? s : clef__cl_fail(err, "clCreateKernel", launch->kernel, code);
}

/* Its place in the list; NULL if it is not there. */
static clef_program **place_of(clef_device *dev, cl_kernel kernel)
{
    cl_program of = NULL;
    if (clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof of, &of, NULL))
        return NULL;
    clef_program **at = &dev->programs;
    while (*at && (*at)->program != of)
        at = &(*at)->next;
    return *at ? at : NULL;
}

void clef__program_keep(clef_device *dev, cl_kernel kernel)
{
    clef_program **at = place_of(dev, kernel);
    if (at && !(*at)->stored && dev->cache_dir[0])
        save_program(dev, *at);
}

void clef__program_forget(clef_device *dev, cl_kernel kernel)
{
    clef_program **at = place_of(dev, kernel), *p = at ? *at : NULL;
    if (p) {
        *at = p->next;
        program_free(p);
    }
}

void clef__programs_release(clef_device *dev)
{
    while (dev->programs) {
        clef_program *p = dev->programs;
        dev->programs = p->next;
        program_free(p);
    }
}

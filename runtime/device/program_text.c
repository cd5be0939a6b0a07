#include "runtime/device/program_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/substep.h"
#include "runtime/device/source.h"

enum { C_VERSION = 12, MAX_BEFORE = 160, MAX_AFTER = 1600 };

int clef__has_whole_body(const clef_device *dev, const clef_launch *launch)
{
    const clef__substep *row = clef__substep_find(launch->source, launch->kernel);
    return row && row->is_called && dev->info.caps.whole_body && launch->call == CLEF_CALL_KERNEL &&
           launch->c_version <= C_VERSION && launch->local[0] <= 1 && launch->local[1] <= 1 &&
           launch->local[2] <= 1 && launch->n_bufs;
}

/* runtime/device/builtins.def is written for OpenCL C 1.2. */
static int declares(const clef_device *dev, int32_t c_version)
{
    return dev->info.caps.own_builtins && c_version <= C_VERSION;
}

void clef__text_options(const clef_device *dev, int32_t c_version, int is_whole, char out[CLEF__TEXT_OPTIONS])
{
    snprintf(out, CLEF__TEXT_OPTIONS, "%s%s", declares(dev, c_version) ? " -D _OPENCL_H_" : "",
             is_whole ? CLEF__WHOLE_BODY " -D STAGE=0 -D STAGE_ARGS=private" : "");
}

/* The number is raised when this file, builtins.c or source.c write other text. */
void clef__text_key(const clef_launch *launch, int is_whole, char out[CLEF__TEXT_KEY])
{
    const clef__substep *row = is_whole ? clef__substep_find(launch->source, launch->kernel) : NULL;
    int at = snprintf(out, CLEF__TEXT_KEY, "1 %016" PRIx64, clef__builtins_hash());
    if (row)
        snprintf(out + at, CLEF__TEXT_KEY - (size_t)at, " %.40s %.40s %u", row->kernel, row->args_type,
                 launch->n_bufs);
}

/* Puts `before` and `after` around the text. */
static clef_status enclose(const char *before, size_t n_before, const char *after, char **text,
                           size_t *n_bytes, clef_error *err)
{
    const size_t n_after = strlen(after);
    char *whole = malloc(n_before + *n_bytes + n_after + 1);
    if (!whole)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the text of a program");
    memcpy(whole, before, n_before);
    memcpy(whole + n_before, *text, *n_bytes);
    memcpy(whole + n_before + *n_bytes, after, n_after + 1);
    free(*text);
    *text = whole;
    *n_bytes += n_before + n_after;
    return CLEF_OK;
}

/* "BEFORE0, BEFORE1": a list of n parameters or names. */
static int write_list(char *out, size_t room, const char *before, uint32_t n)
{
    int at = 0;
    for (uint32_t i = 0; i < n; i++)
        at += snprintf(out + at, room - (size_t)at, "%s%s%u", i ? ", " : "", before, i);
    return at;
}

/* Makes the kernel a function, whose name gets "_body" behind it, and adds a kernel that calls it. */
static clef_status add_kernel(const clef_launch *launch, char **text, size_t *n_bytes, clef_error *err)
{
    const clef__substep *row = clef__substep_find(launch->source, launch->kernel);
    const char *kernel = launch->kernel;
    const uint32_t n = launch->n_bufs;
    char before[MAX_BEFORE], after[MAX_AFTER];
    snprintf(before, MAX_BEFORE, "#define %s %s_body\n", kernel, kernel);
    int at = snprintf(after, MAX_AFTER,
                      "STAGE_ENTRY(%s, %s, STAGE_BUFS_%u)\n#undef %s\n"
                      "__attribute__((reqd_work_group_size(1, 1, 1))) kernel void %s(const %s a, ",
                      kernel, row->args_type, n, kernel, kernel, row->args_type);
    at += write_list(after + at, MAX_AFTER - (size_t)at, "global void *b", n);
    at += snprintf(after + at, MAX_AFTER - (size_t)at,
                   ")\n{\n    const uint group[] = {get_group_id(0), get_group_id(1), get_group_id(2), "
                   "get_num_groups(0)};\n    global void *const b[] = {");
    at += write_list(after + at, MAX_AFTER - (size_t)at, "b", n);
    snprintf(after + at, MAX_AFTER - (size_t)at,
             "};\n    fused_stage_0(group, (private const uint *)&a, b);\n}\n");
    return enclose(before, strlen(before), after, text, n_bytes, err);
}

clef_status clef__text_declare(const clef_device *dev, int32_t c_version, char **text, size_t *n_bytes,
                               clef_error *err)
{
    char *declarations = NULL;
    size_t n = 0;
    if (!declares(dev, c_version))
        return CLEF_OK;
    clef_status s = clef__builtins_declare(*text, &declarations, &n, err);
    if (!s)
        s = enclose(declarations, n, "", text, n_bytes, err);
    free(declarations);
    return s;
}

clef_status clef__program_text(const clef_device *dev, const clef_launch *launch, int is_whole, char **text,
                               size_t *n_bytes, clef_error *err)
{
    clef_status s = clef__source_assemble(launch->source, text, n_bytes, err);
    if (!s && is_whole)
        s = add_kernel(launch, text, n_bytes, err);
    return s ? s : clef__text_declare(dev, launch->c_version, text, n_bytes, err);
}

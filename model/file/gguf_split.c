/* GGUF files in parts (llama-gguf-split): NAME-00001-of-00003.gguf and so on. Each part has the keys
 * split.no, counted from 0, split.count and split.tensors.count; the first one has all other keys too. A
 * model is opened from any part. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/gguf.h"
#include "model/file/tensor_index.h"

enum { MAX_PARTS = 4096, ENDING_BYTES = 20 }; /* "-00001-of-00003.gguf" */

/* Writes the path of part `no` (from 0) of `count` to new memory. */
static char *part_path(const char *path, int32_t no, int32_t count)
{
    const size_t n = strlen(path), stem = n > ENDING_BYTES ? n - ENDING_BYTES : 0;
    char *out = malloc(stem + 64);
    if (out) {
        memcpy(out, path, stem);
        snprintf(out + stem, 64, "-%05" PRId32 "-of-%05" PRId32 ".gguf", no + 1, count);
    }
    return out;
}

static int64_t number_of(const clef_gguf *g, const char *key)
{
    return clef__gguf_int(g, key, -1);
}

/* 1 if the file is one of several parts. */
static int gguf_is_part(const clef_gguf *gguf)
{
    return number_of(gguf, "split.count") > 1;
}

/* ---- joining ---------------------------------------------------------------------------------- */

static clef_status check_part(const clef_gguf_part *first, const clef_gguf_part *p, int32_t no, int32_t count,
                              clef_error *err)
{
    const int64_t its_count = number_of(&p->gguf, "split.count"), its_no = number_of(&p->gguf, "split.no"),
                  total = number_of(&first->gguf, "split.tensors.count"),
                  its_total = number_of(&p->gguf, "split.tensors.count");
    char arch[2][64];
    if (its_count != count || its_no != no)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: is part %" PRId64 " of %" PRId64 " by its keys split.no and split.count, "
                          "expected part %" PRId32 " of %" PRId32,
                          p->path, its_no + 1, its_count, no + 1, count);
    if (its_total != total)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: key split.tensors.count is %" PRId64 ", expected %" PRId64
                          " as in %s: it is a part of another file",
                          p->path, its_total, total, first->path);
    if (clef__gguf_text(&first->gguf, "general.architecture", arch[0], sizeof arch[0]) &&
        clef__gguf_text(&p->gguf, "general.architecture", arch[1], sizeof arch[1]) &&
        strcmp(arch[0], arch[1]) != 0)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: key general.architecture is %.40s, expected %.40s as in %s: it is a part of "
                          "another file",
                          p->path, arch[1], arch[0], first->path);
    return CLEF_OK;
}

/* The part that has tensor i of the joint table. */
static const char *part_of(const clef_gguf_part *parts, uint64_t i)
{
    while (i >= parts->gguf.n_tensors)
        i -= parts++->gguf.n_tensors;
    return parts->path;
}

static clef_status check_tensors(const clef_gguf_part *parts, const clef_gguf *joint, clef_error *err)
{
    const clef_tensor_info *twice = NULL, **index;
    const int64_t total = number_of(&parts[0].gguf, "split.tensors.count");
    if (total >= 0 && joint->n_tensors != (uint64_t)total)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: its parts have %" PRIu64 " tensors, expected %" PRId64
                          " by its key split.tensors.count",
                          parts[0].path, joint->n_tensors, total);
    index = clef__tensor_index(joint->tensors, (size_t)joint->n_tensors, &twice);
    if (!index)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the index of its tensors", parts[0].path);
    clef_status status = CLEF_OK;
    for (uint64_t i = 0; twice && status == CLEF_OK; i++)
        if (strcmp(joint->tensors[i].name, twice->name) == 0 && &joint->tensors[i] != twice)
            status = clef__fail(err, CLEF_E_FORMAT, "%s: tensor %s is in %s, too",
                                part_of(parts, (uint64_t)(twice - joint->tensors)), twice->name,
                                part_of(parts, i));
    free(index);
    return status;
}

/* Fills the joint tables; the names still belong to the parts. */
static clef_status fill_joint(const clef_gguf_part *parts, int32_t n_parts, clef_gguf *joint, clef_error *err)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < n_parts; i++)
        n += parts[i].gguf.n_tensors;
    joint->tensors = calloc((size_t)n + 1, sizeof *joint->tensors);
    joint->tensor_names = calloc((size_t)n + 1, sizeof *joint->tensor_names);
    joint->more = calloc((size_t)(n_parts > 0 ? n_parts : 1), sizeof *joint->more);
    if (!joint->tensors || !joint->tensor_names || !joint->more)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its %" PRId32 " parts", parts[0].path,
                          n_parts);
    for (int32_t i = 0; i < n_parts; i++)
        for (uint64_t k = 0; k < parts[i].gguf.n_tensors; k++) {
            joint->tensor_names[joint->n_tensors] = parts[i].gguf.tensor_names[k];
            joint->tensors[joint->n_tensors++] = parts[i].gguf.tensors[k];
        }
    return CLEF_OK;
}

/* The first part's keys, and the files of all. The parts are empty then. */
static void take_over(clef_gguf_part *parts, int32_t n_parts, clef_gguf *joint)
{
    clef_gguf *first = &parts[0].gguf;
    joint->file = first->file;
    joint->version = first->version;
    joint->entries = first->entries;
    joint->n_entries = first->n_entries;
    joint->is_read = first->is_read;
    first->file = (clef_mapping){0};
    first->entries = NULL;
    first->is_read = NULL;
    first->n_entries = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        parts[i].gguf.n_tensors = 0; /* its names are the joint table's */
        if (i > 0)
            joint->more[joint->n_more++] = parts[i].gguf.file;
        parts[i].gguf.file = (clef_mapping){0};
        clef__gguf_close(&parts[i].gguf);
    }
}

clef_status clef__gguf_join(clef_gguf_part *parts, int32_t n_parts, clef_gguf *out, clef_error *err)
{
    clef_status status = CLEF_OK;
    *out = (clef_gguf){0};
    for (int32_t i = 0; i < n_parts && status == CLEF_OK; i++)
        status = check_part(&parts[0], &parts[i], i, n_parts, err);
    if (status == CLEF_OK)
        status = fill_joint(parts, n_parts, out, err);
    if (status == CLEF_OK)
        status = check_tensors(parts, out, err);
    if (status == CLEF_OK) {
        take_over(parts, n_parts, out);
        return CLEF_OK;
    }
    free(out->tensors);
    free(out->tensor_names);
    free(out->more);
    *out = (clef_gguf){0};
    for (int32_t i = 0; i < n_parts; i++)
        clef__gguf_close(&parts[i].gguf);
    return status;
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* Checks that the path is the one that its keys imply, so that the others are beside it. */
static clef_status check_path(const char *path, const clef_gguf *g, clef_error *err)
{
    const int64_t no = number_of(g, "split.no"), count = number_of(g, "split.count");
    if (count > MAX_PARTS || no < 0 || no >= count)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: key split.no is %" PRId64 " and split.count %" PRId64
                          ", expected a part of at most %d",
                          path, no, count, MAX_PARTS);
    char *wanted = part_path(path, (int32_t)no, (int32_t)count);
    if (!wanted)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    clef_status status = CLEF_OK;
    if (strcmp(wanted, path) != 0)
        status = clef__fail(err, CLEF_E_FORMAT,
                            "%s: is part %" PRId64 " of %" PRId64
                            " of a split file, expected a name that ends with %s",
                            path, no + 1, count, wanted + strlen(wanted) - ENDING_BYTES);
    free(wanted);
    return status;
}

static clef_status open_part(const char *path, int32_t no, int32_t count, clef_gguf_part *out,
                             clef_error *err)
{
    char *its = part_path(path, no, count);
    out->path = its;
    if (!its)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    if (!clef__os_is_file(its))
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: is missing, part %" PRId32 " of %" PRId32 " of %s", its,
                          no + 1, count, path);
    return clef__gguf_open_alone(its, &out->gguf, err);
}

clef_status clef__gguf_open(const char *path, clef_gguf *out, clef_error *err)
{
    clef_status status = clef__gguf_open_alone(path, out, err);
    if (status != CLEF_OK || !gguf_is_part(out))
        return status;
    const int32_t count = (int32_t)number_of(out, "split.count");
    status = check_path(path, out, err);
    clef__gguf_close(out);
    if (status != CLEF_OK)
        return status;
    clef_gguf_part *parts = calloc((size_t)count, sizeof *parts);
    if (!parts)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    for (int32_t i = 0; i < count && status == CLEF_OK; i++)
        status = open_part(path, i, count, &parts[i], err);
    if (status == CLEF_OK)
        status = clef__gguf_join(parts, count, out, err);
    for (int32_t i = 0; i < count; i++) {
        clef__gguf_close(&parts[i].gguf);
        free((char *)(uintptr_t)parts[i].path);
    }
    free(parts);
    return status;
}

/* Weights in a folder: model.safetensors, or several files with an index. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/model/save.h"

enum { MAX_NAME = 64 };
static const uint64_t default_shard_bytes = 5000000000;

const char *clef__save_dtype_name(clef_dtype dtype)
{
    return dtype == CLEF_F32    ? "float32"
           : dtype == CLEF_F16  ? "float16"
           : dtype == CLEF_BF16 ? "bfloat16"
                                : NULL;
}

clef_status clef__save_set_dtype(json_t *config, clef_dtype dtype, clef_error *err)
{
    const char *name = clef__save_dtype_name(dtype);
    if (!name)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "weights of %s: expected f32, f16 or bf16",
                          clef_dtype_name(dtype));
    if (json_object_set_new(config, "dtype", json_string(name)) != 0 ||
        json_object_set_new(config, "torch_dtype", json_string(name)) != 0)
        return clef__fail(err, CLEF_E_NOMEM, "config.json: no memory for it");
    return CLEF_OK;
}

/* ---- several files */

/* Where each tensor goes: shard[i] counts from 0. Returns the number of shards. */
static int32_t divide(const clef_tensor_info *tensors, int32_t n, uint64_t shard_bytes, int32_t *shard)
{
    uint64_t filled = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < n; i++) {
        if (filled > 0 && (tensors[i].n_bytes > shard_bytes || filled > shard_bytes - tensors[i].n_bytes)) {
            last++;
            filled = 0;
        }
        filled += tensors[i].n_bytes;
        shard[i] = last;
    }
    return last + 1;
}

static void shard_name(int32_t i, int32_t n, char out[MAX_NAME])
{
    if (n == 1)
        snprintf(out, MAX_NAME, "model.safetensors");
    else
        snprintf(out, MAX_NAME, "model-%05" PRId32 "-of-%05" PRId32 ".safetensors", i + 1, n);
}

static clef_status write_index(clef__save *save, const clef_tensor_info *tensors, int32_t n,
                               const int32_t *shard, int32_t n_shards, clef_error *err)
{
    char name[MAX_NAME];
    uint64_t total = 0;
    json_t *map = json_object(), *index = NULL;
    int failed = !map;
    for (int32_t i = 0; i < n && !failed; i++) {
        shard_name(shard[i], n_shards, name);
        failed = json_object_set_new(map, tensors[i].name, json_string(name)) != 0;
        total += tensors[i].n_bytes;
    }
    if (!failed)
        index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    const clef_status status = index
                                   ? clef__save_json(save, "model.safetensors.index.json", index, err)
                                   : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its index", save->path);
    json_decref(index);
    json_decref(map);
    return status;
}

/* Hands a tensor of a shard's list on as the caller's. */
typedef struct sub_put {
    const clef__tensor_put *put;
    const clef_tensor_info *tensors, *part; /* all; those of this shard */
    const int32_t *number;                  /* in all, of each in part */
} sub_put;

static clef_status put_part(void *user, const clef_tensor_info *t, clef_os_file *file, clef_error *err)
{
    const sub_put *p = user;
    return p->put->write(p->put->user, &p->tensors[p->number[t - p->part]], file, err);
}

static clef_status write_shard(clef__save *save, const clef_tensor_info *tensors, int32_t n,
                               const int32_t *shard, int32_t i, int32_t n_shards, const clef__tensor_put *put,
                               clef_error *err)
{
    char name[MAX_NAME], path[CLEF_SAVE_PATH_BYTES];
    clef_tensor_info *part = malloc(((size_t)n + 1) * sizeof *part);
    int32_t *number = malloc(((size_t)n + 1) * sizeof *number), n_part = 0;
    clef_status status = CLEF_OK;
    shard_name(i, n_shards, name);
    if (!part || !number)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", save->path);
    for (int32_t k = 0; k < n && !status; k++)
        if (shard[k] == i) {
            part[n_part] = tensors[k];
            number[n_part++] = k;
        }
    if (!status &&
        snprintf(path, sizeof path, "%s/%s", clef__os_folder_path(save->folder), name) >= (int)sizeof path)
        status = clef__fail(err, CLEF_E_LIMIT, "%.80s...: the path is too long", save->path);
    sub_put sub = {.put = put, .tensors = tensors, .part = part, .number = number};
    if (!status)
        status = clef__safetensors_write(path, part, n_part,
                                         &(clef__tensor_put){.write = put_part, .user = &sub}, err);
    free(part);
    free(number);
    if (!status && json_array_append_new(save->files, json_string(name)) != 0)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", save->path);
    return status;
}

clef_status clef__save_tensors(clef__save *save, const clef_tensor_info *tensors, int32_t n,
                               uint64_t shard_bytes, const clef__tensor_put *put, clef_error *err)
{
    int32_t *shard = calloc((size_t)n + 1, sizeof *shard);
    if (!shard)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", save->path);
    const int32_t n_shards = divide(tensors, n, shard_bytes ? shard_bytes : default_shard_bytes, shard);
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < n_shards && !status; i++)
        status = write_shard(save, tensors, n, shard, i, n_shards, put, err);
    if (!status && n_shards > 1)
        status = write_index(save, tensors, n, shard, n_shards, err);
    free(shard);
    return status;
}

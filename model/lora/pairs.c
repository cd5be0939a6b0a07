/* The pairs of matrices in an adapter file. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/lora/read.h"

static clef__lora_pair *find_pair(clef__lora_file *file, const char *module, int32_t n)
{
    for (int32_t i = file->n_pairs - 1; i >= 0; i--) /* the halves of a pair are mostly next to each other */
        if (file->pairs[i].n_module == n && memcmp(file->pairs[i].module, module, (size_t)n) == 0)
            return &file->pairs[i];
    return NULL;
}

static clef_status check_tensor(const clef__lora_file *file, const clef_tensor_info *t, clef_error *err)
{
    if (t->dtype != CLEF_F32 && t->dtype != CLEF_F16 && t->dtype != CLEF_BF16)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s is %s, expected f32, f16 or bf16",
                          file->path, t->name,
                          t->dtype == CLEF_N_DTYPES ? "of another type" : clef_dtype_name(t->dtype));
    if (t->rank != 2 || t->dims[0] < 1 || t->dims[1] < 1)
        return clef__fail(err, CLEF_E_SHAPE, "%s: tensor %s has %d dims, expected a matrix with elements",
                          file->path, t->name, t->rank);
    return CLEF_OK;
}

static clef_status check_pair(const clef__lora_file *file, const clef__lora_pair *p, clef_error *err)
{
    if (!p->a || !p->b)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: %.*s has %s alone: expected A and B", file->path,
                          p->n_module, p->module, p->a ? "A" : "B");
    if (p->a->dims[0] != p->b->dims[1])
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: %.*s: A is [%lld, %lld], B [%lld, %lld]: expected [r, in] and [out, r]",
                          file->path, p->n_module, p->module, (long long)p->a->dims[0],
                          (long long)p->a->dims[1], (long long)p->b->dims[0], (long long)p->b->dims[1]);
    if (p->a->dims[0] > CLEF_MAX_LOW_RANK)
        return clef__fail(err, CLEF_E_LIMIT, "%s: %.*s has rank %lld, expected at most %d", file->path,
                          p->n_module, p->module, (long long)p->a->dims[0], CLEF_MAX_LOW_RANK);
    return CLEF_OK;
}

clef_status clef__lora_pair_up(clef__lora_file *file, const clef_tensor_info *tensors, size_t n,
                               clef__lora_split *split, clef_error *err)
{
    clef_status status = CLEF_OK;
    file->pairs = calloc(n + 1, sizeof *file->pairs);
    if (!file->pairs)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", file->path);
    for (size_t i = 0; i < n && !status; i++) {
        const char *module = NULL;
        int32_t n_module = 0;
        int half = 0;
        status = split(file, &tensors[i], &module, &n_module, &half, err);
        if (!status)
            status = check_tensor(file, &tensors[i], err);
        if (status)
            break;
        clef__lora_pair *p = find_pair(file, module, n_module);
        if (!p) {
            p = &file->pairs[file->n_pairs++];
            *p = (clef__lora_pair){.module = module, .n_module = n_module};
        }
        *(half ? &p->b : &p->a) = &tensors[i];
    }
    for (int32_t i = 0; i < file->n_pairs && !status; i++)
        status = check_pair(file, &file->pairs[i], err);
    if (!status && file->n_pairs == 0)
        status =
            clef__fail(err, CLEF_E_NOT_FOUND, "%s: has no tensors, expected those of an adapter", file->path);
    return status;
}

void clef__lora_file_close(clef__lora_file *file)
{
    clef__gguf_close(&file->gguf);
    clef__safetensors_close(&file->st);
    json_decref(file->config);
    free(file->config_path);
    free(file->pairs);
    *file = (clef__lora_file){0};
}

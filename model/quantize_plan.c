/* Which tensors a quantised file has, in which types. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"
#include "model/layers.h"
#include "model/quantize.h"
#include "model/tensor_index.h"

const char *clef__quantize_arch(const clef_hparams *hp)
{
    return strcmp(hp->arch, "mistral") == 0 ? "llama" : hp->arch;
}

/* ---- types ------------------------------------------------------------------------------------------------------------------------- */

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* llama.cpp's use_more_bits(): the first and the last eighth of the layers, and every third of the others. */
static int gets_more_bits(int32_t layer, int32_t n_layers)
{
    return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

/* The dtype of a matrix in a mix. */
static clef_dtype mixed_dtype(const clef_model *m, const clef_quantize_type_def *type, const char *name)
{
    int layer = -1;
    if (strcmp(name, "output.weight") == 0 || (strcmp(name, "token_embd.weight") == 0 && m->hparams.tied_embeddings))
        return CLEF_Q6_K;
    if (sscanf(name, "blk.%d.", &layer) != 1)
        return type->dtype;
    if (ends_with(name, ".attn_qkv.weight"))
        return type->dtype == CLEF_Q4_K ? CLEF_Q5_K : CLEF_Q6_K;
    if (!ends_with(name, ".attn_v.weight") && !ends_with(name, ".ffn_down.weight"))
        return type->dtype;
    return gets_more_bits(layer, m->hparams.n_layers) ? CLEF_Q6_K : type->dtype;
}

/* The same or the next larger type whose blocks rows of n fill. */
static clef_dtype fitting_dtype(clef_dtype dtype, int64_t n)
{
    if (n % clef_dtype_block_elems(dtype) == 0)
        return dtype;
    const clef_dtype next = dtype == CLEF_Q4_K ? CLEF_Q5_0 : dtype == CLEF_Q5_K ? CLEF_Q5_1 : dtype == CLEF_Q6_K ? CLEF_Q8_0 : CLEF_F16;
    return fitting_dtype(next, n);
}

static clef_dtype choose_dtype(const clef_model *m, const clef_quantize_type_def *type, const clef_quantize_item *item)
{
    const char *name = item->to.name;
    const clef_dtype from = item->from->dtype;
    if (from == CLEF_I8 || from == CLEF_I32)
        return from;
    if (item->to.rank < 2 || strcmp(name, "position_embd.weight") == 0 || ends_with(name, "_norm.weight"))
        return CLEF_F32;
    if (!ends_with(name, ".weight"))
        return from;
    return fitting_dtype(type->is_mix ? mixed_dtype(m, type, name) : type->dtype, item->to.dims[item->to.rank - 1]);
}

/* ---- the list ---------------------------------------------------------------------------------------------------------------------- */

static clef_status add_item(const clef_model *m, const clef_quantize_type_def *type, clef_quantize_plan *plan,
                            const clef_quantize_item *like, clef_error *err)
{
    clef_quantize_item item = *like;
    item.to.rank = item.from->rank;
    memcpy(item.to.dims, item.from->dims, sizeof item.to.dims);
    if (item.order == CLEF_ROWS_TRANSPOSED) {
        item.to.dims[0] = item.from->dims[1];
        item.to.dims[1] = item.from->dims[0];
    }
    item.to.dtype = choose_dtype(m, type, &item);
    const int64_t elems = clef_dtype_block_elems(item.to.dtype), bytes = clef_dtype_block_bytes(item.to.dtype);
    int64_t n = 0;
    if (!clef__dims_product(item.to.dims, item.to.rank, &n) || n / elems > INT64_MAX / bytes)
        return clef__fail(err, CLEF_E_LIMIT, "%s: tensor %s would have too many bytes", clef_model_path(m), item.to.name);
    item.to.n_bytes = (uint64_t)(n / elems) * (uint64_t)bytes;
    if (plan->n_items == plan->capacity) {
        const size_t capacity = 2 * plan->capacity + 64;
        clef_quantize_item *grown = realloc(plan->items, capacity * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", clef_model_path(m));
        plan->items = grown;
        plan->capacity = capacity;
    }
    plan->items[plan->n_items++] = item;
    return CLEF_OK;
}

/* A role's name in the file; "%d" is the layer. */
static void form_name(const char *prefix, const char *form, int32_t layer, const char *suffix, char *out, size_t capacity)
{
    const char *number = strstr(form, "%d");
    if (number)
        snprintf(out, capacity, "%s%.*s%" PRId32 "%s.%s", prefix, (int)(number - form), form, layer, number + 2, suffix);
    else
        snprintf(out, capacity, "%s%s.%s", prefix, form, suffix);
}

static clef_status set_order(const clef_model *m, const clef_arch *arch, clef_role role, clef_quantize_item *item, clef_error *err)
{
    const clef_hparams *hp = &m->hparams;
    const int64_t n_heads = role == CLEF_W_ATTN_Q ? hp->n_heads : hp->n_kv_heads;
    if (arch->hf_conv1d && item->from->rank == 2 &&
        (role == CLEF_W_ATTN_QKV || role == CLEF_W_ATTN_OUT || role == CLEF_W_FFN_UP || role == CLEF_W_FFN_DOWN))
        item->order = CLEF_ROWS_TRANSPOSED;
    if ((role != CLEF_W_ATTN_Q && role != CLEF_W_ATTN_K) || strcmp(clef__quantize_arch(hp), "llama") != 0)
        return CLEF_OK;
    if (item->from->rank < 1 || item->from->dims[0] != n_heads * hp->head_dim)
        return clef__fail(err, CLEF_E_SHAPE, "%s: tensor %s has %" PRId64 " rows, wanted %" PRId64 " heads of %" PRId32, clef_model_path(m),
                          item->from->name, item->from->rank ? item->from->dims[0] : 0, n_heads, hp->head_dim);
    item->order = CLEF_ROWS_PAIRED;
    item->head_dim = hp->head_dim;
    return CLEF_OK;
}

static int is_optional(const clef_model *m, clef_role role)
{
    return role == CLEF_W_ATTN_Q_NORM || role == CLEF_W_ATTN_K_NORM || (role == CLEF_W_OUT && m->hparams.tied_embeddings);
}

/* Weight and bias of a role in one layer (-1: outside the layers). */
static clef_status add_role(const clef_model *m, const clef_quantize_type_def *type, const clef_arch *arch, clef_role role, int32_t layer,
                            clef_quantize_plan *plan, clef_error *err)
{
    static const char *const suffixes[] = {"weight", "bias"};
    const clef_weight_name *names = &arch->weights[role];
    if (role == CLEF_W_OUT && m->hparams.tied_embeddings)
        return CLEF_OK;
    for (int i = 0; i < 2; i++) {
        char stored[192];
        clef_quantize_item item = {.order = CLEF_ROWS_SAME};
        form_name(role == CLEF_W_OUT ? "" : arch->hf_prefix, names->hf, layer, suffixes[i], stored, sizeof stored);
        form_name("", names->gguf, layer, suffixes[i], item.name, sizeof item.name);
        item.from = clef__model_find(m, stored);
        if (!item.from && i == 0 && !is_optional(m, role))
            return clef__fail(err, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", clef_model_path(m), stored);
        if (!item.from)
            continue;
        clef_status status = set_order(m, arch, role, &item, err);
        item.to.name = item.name; /* set again when the list is complete: it moves */
        if (status == CLEF_OK)
            status = add_item(m, type, plan, &item, err);
        if (status != CLEF_OK)
            return status;
    }
    return CLEF_OK;
}

/* Llama 3's scaling of RoPE, which GGUF has as divisors of the frequencies. */
static clef_status add_rope(const clef_model *m, const clef_quantize_type_def *type, clef_quantize_plan *plan, clef_error *err)
{
    clef_rope_params plain = m->hparams.rope;
    const int32_t n = plain.dims / 2;
    if (plain.type != CLEF_ROPE_LLAMA3 || n < 1)
        return CLEF_OK;
    plan->rope = malloc(2 * (size_t)n * sizeof *plan->rope);
    if (!plan->rope)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %" PRId32 " frequencies", clef_model_path(m), n);
    plain.type = CLEF_ROPE_DEFAULT;
    clef__rope_freqs(&plain, m->hparams.n_context, NULL, plan->rope);
    clef__rope_freqs(&m->hparams.rope, m->hparams.n_context, NULL, plan->rope + n);
    for (int32_t i = 0; i < n; i++)
        plan->rope[i] /= plan->rope[n + i];
    plan->rope_tensor = (clef_tensor_info){
        .name = "rope_freqs.weight", .dtype = CLEF_F32, .rank = 1, .dims = {n}, .n_bytes = (uint64_t)n * sizeof(float), .data = plan->rope};
    clef_quantize_item item = {.from = &plan->rope_tensor, .name = "rope_freqs.weight"};
    item.to.name = item.name;
    return add_item(m, type, plan, &item, err);
}

static clef_status plan_folder(const clef_model *m, const clef_quantize_type_def *type, clef_quantize_plan *plan, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, 0);
    clef_status status = CLEF_OK;
    for (int32_t layer = -1; layer < m->hparams.n_layers && status == CLEF_OK; layer++)
        for (int role = 0; role < CLEF_N_ROLES && status == CLEF_OK; role++) {
            const clef_weight_name *names = &arch->weights[role];
            if (names->hf && names->gguf && (strstr(names->gguf, "%d") != NULL) == (layer >= 0))
                status = add_role(m, type, arch, (clef_role)role, layer, plan, err);
        }
    if (status == CLEF_OK)
        status = add_rope(m, type, plan, err);
    for (size_t i = 0; i < plan->n_items; i++)
        plan->items[i].to.name = plan->items[i].name;
    return status;
}

clef_status clef__quantize_plan(const clef_model *model, const clef_quantize_type_def *type, clef_quantize_plan *out, clef_error *err)
{
    clef_status status = CLEF_OK;
    *out = (clef_quantize_plan){0};
    if (!model->is_gguf)
        return plan_folder(model, type, out, err);
    for (int32_t i = 0; i < model->n_tensors && status == CLEF_OK; i++) {
        const clef_tensor_info *t = &model->tensors[i];
        status = add_item(model, type, out, &(clef_quantize_item){.from = t, .to = {.name = t->name}}, err);
    }
    return status;
}

void clef__quantize_plan_finish(clef_quantize_plan *plan)
{
    free(plan->items);
    free(plan->rope);
    *plan = (clef_quantize_plan){0};
}

/* The tensors of a quantised file, and their types. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/blocks.h"
#include "model/arch/layers.h"
#include "model/convert/quantize.h"
#include "model/file/tensor_index.h"
#include "model/open/arch.h"
#include "model/open/quantised.h"
#include "runtime/os/os.h"

const char *clef__quantize_arch(const clef_hparams *hp)
{
    const clef_arch *arch = clef__arch_find(hp->arch, 0);
    const clef_arch_alias *name = clef__arch_alias(arch, hp->arch, 0);
    if (strcmp(hp->arch, "granitemoehybrid") == 0 && hp->linear_taps == 0) /* all layers are attention */
        return hp->n_experts > 0 ? "granitemoe" : "granite";
    if (strcmp(hp->arch, "nemotron_h") == 0 && hp->n_experts > 0)
        return "nemotron_h_moe";
    return name->gguf ? name->gguf : arch->written_as ? arch->written_as : arch->names[0].gguf;
}

/* ---- types */

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

/* What llama.cpp's mixes give the matrices that need more bits than the others: CLEF_F32 means no more. */
typedef struct mix {
    clef_dtype dtype, v, v_of_many, v_first, down, output, qkv; /* v_of_many: 4 heads or more share each */
} mix;

static const mix mixes[] = {
    {CLEF_Q2_K, CLEF_Q3_K, CLEF_Q4_K, CLEF_F32, CLEF_Q3_K, CLEF_Q3_K, CLEF_F32},
    {CLEF_Q3_K, CLEF_Q4_K, CLEF_Q4_K, CLEF_Q5_K, CLEF_Q4_K, CLEF_Q4_K, CLEF_Q4_K},
    {CLEF_Q4_K, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_Q5_K},
    {CLEF_Q5_K, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_Q6_K},
    {CLEF_IQ3_S, CLEF_F32, CLEF_Q4_K, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_F32},
    {CLEF_IQ4_XS, CLEF_F32, CLEF_Q5_K, CLEF_F32, CLEF_F32, CLEF_F32, CLEF_F32},
};

/* The dtype of a matrix of a layer in a mix; CLEF_F32: that of the others. */
static clef_dtype dtype_in_layer(const mix *x, const clef_hparams *hp, int32_t layer, const char *name)
{
    const int is_v = ends_with(name, ".attn_v.weight"), is_down = ends_with(name, ".ffn_down.weight");
    const int is_mix_of_layers = x->dtype == CLEF_Q4_K || x->dtype == CLEF_Q5_K;
    if (is_v && x->v_first != CLEF_F32 && layer < 2)
        return x->v_first;
    if (is_down && x->dtype == CLEF_Q3_K && layer < hp->n_layers / 16)
        return CLEF_Q5_K;
    if (is_mix_of_layers && (is_v || is_down))
        return gets_more_bits(layer, hp->n_layers) ? CLEF_Q6_K : CLEF_F32;
    return is_v      ? hp->n_kv_heads > 0 && hp->n_heads / hp->n_kv_heads >= 4 ? x->v_of_many : x->v
           : is_down ? x->down
           : ends_with(name, ".attn_output.weight") ? x->output
           : ends_with(name, ".attn_qkv.weight")    ? x->qkv
                                                    : CLEF_F32;
}

/* The dtype of a matrix in a mix. */
static clef_dtype mixed_dtype(const clef_model *m, const clef__quantize_type *type, const char *name)
{
    int layer = -1;
    const mix *x = mixes;
    while (x->dtype != type->dtype)
        x++;
    if (strcmp(name, "output.weight") == 0 ||
        (strcmp(name, "token_embd.weight") == 0 && m->hparams.tied_embeddings))
        return CLEF_Q6_K;
    const clef_dtype more =
        sscanf(name, "blk.%d.", &layer) == 1 ? dtype_in_layer(x, &m->hparams, layer, name) : CLEF_F32;
    return more == CLEF_F32 ? type->dtype : more;
}

/* Returns the type, or the next larger one whose blocks rows of n fill. */
clef_dtype clef__quantize_fitting(clef_dtype dtype, int64_t n)
{
    if (n % clef_dtype_block_elems(dtype) == 0)
        return dtype;
    const clef_dtype next =
        dtype == CLEF_Q4_K   ? CLEF_Q5_0
        : dtype == CLEF_Q5_K ? CLEF_Q5_1
        : dtype == CLEF_Q6_K ? CLEF_Q8_0
        : dtype == CLEF_Q2_K || dtype == CLEF_Q3_K || dtype == CLEF_IQ3_S || dtype == CLEF_IQ4_XS
            ? CLEF_IQ4_NL
        : dtype == CLEF_Q1_0  ? CLEF_Q2_0
        : dtype == CLEF_Q2_0  ? CLEF_Q4_0
        : dtype == CLEF_NVFP4 ? CLEF_Q4_1
                              : CLEF_F16;
    return clef__quantize_fitting(next, n);
}

int clef__quantize_has_type(const clef__quantize_item *item)
{
    static const char *const kept[] = {"position_embd.weight",
                                       "token_types.weight",
                                       "_norm.weight",
                                       "ffn_gate_inp.weight",
                                       "ffn_gate_inp_shexp.weight",
                                       "attn_rel_b.weight",
                                       "ssm_conv1d.weight",
                                       "shortconv.conv.weight",
                                       ".ssm_a",
                                       ".ssm_d",
                                       ".bias"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (ends_with(item->to.name, kept[i]))
            return 0;
    return item->to.rank >= 2;
}

static clef_dtype choose_dtype(const clef_model *m, const clef__quantize_type *type,
                               const clef__quantize_item *item)
{
    const char *name = item->to.name;
    const clef_dtype from = item->from->dtype;
    if (from == CLEF_I8 || from == CLEF_I32)
        return from;
    if (!clef__quantize_has_type(item))
        return CLEF_F32;
    if (type->dtype == CLEF_N_DTYPES)
        return from;
    /* Matrices that the graph multiplies by as stacks, and small ones beside them. */
    if (!ends_with(name, ".weight") || strstr(name, "altup_"))
        return clef__dtype_ggml(from) >= 0 ? from : CLEF_F32;
    return clef__quantize_fitting(type->is_mix ? mixed_dtype(m, type, name) : type->dtype,
                                  item->to.dims[item->to.rank - 1]);
}

/* ---- the list */

/* Sets what `from` is decoded by, if it is quantised: one matrix, or the experts'. */
static void set_packed(const clef_model *m, clef__quantize_item *item)
{
    const clef_tensor_info *from = item->from, *first = clef__joined_part(m, from, 0);
    item->packed = clef__packed_of(m, first ? first : from);
    if (!item->packed)
        return;
    item->stack = first ? m : NULL;
    item->to.dims[item->to.rank - 1] = item->packed->n_columns;
    item->is_apart = item->packed->order != NULL;
    for (int64_t i = 0; i < (first ? from->dims[0] : 1); i++)
        item->is_apart |= clef__packed_of(m, first ? clef__joined_part(m, from, i) : from)->factor != 1;
}

/* A matrix of a quantised folder must have a type that GGUF has, and nothing beside it. */
static clef_status check_packed(const clef_model *m, const clef__quantize_type *type,
                                const clef__quantize_item *item, clef_error *err)
{
    if (type->dtype != CLEF_N_DTYPES || (clef__dtype_ggml(item->to.dtype) >= 0 && !item->is_apart))
        return CLEF_OK;
    return clef__fail(
        err, CLEF_E_UNSUPPORTED,
        "%s: tensor %s: GGUF does not have it as it is stored (%s); `clef quantize` with a type "
        "writes it",
        clef_model_path(m), item->from->name, clef_dtype_name(item->from->dtype));
}

/* GGUF has the vectors of Mamba 2's scan as matrices: with one column, the norm's with a row for each group.
 */
static void set_scan_dims(const clef_model *m, clef__quantize_item *item)
{
    const int is_norm = ends_with(item->to.name, ".ssm_norm.weight");
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    if (item->to.rank != 1 || m->hparams.scan_rank > 0 ||
        !clef__weight_in_gguf(&arch->weights, CLEF_W_SCAN_IN) ||
        !(is_norm || ends_with(item->to.name, ".ssm_a") || ends_with(item->to.name, ".ssm_d")))
        return;
    item->to.rank = 2;
    item->to.dims[1] = is_norm ? item->to.dims[0] / m->hparams.linear_n_k_heads : 1;
    item->to.dims[0] = is_norm ? m->hparams.linear_n_k_heads : item->to.dims[0];
}

static clef_status add_item(const clef_model *m, const clef__quantize_type *type, clef__quantize_plan *plan,
                            const clef__quantize_item *like, clef_error *err)
{
    clef__quantize_item item = *like;
    item.to.rank = item.from->rank;
    memcpy(item.to.dims, item.from->dims, sizeof item.to.dims);
    set_packed(m, &item);
    if (item.order == CLEF_ROWS_TRANSPOSED) {
        item.to.dims[0] = item.from->dims[1];
        item.to.dims[1] = item.from->dims[0];
    }
    if ((ends_with(item.to.name, ".ssm_conv1d.weight") ||
         ends_with(item.to.name, ".shortconv.conv.weight")) &&
        item.to.rank == 3 && item.to.dims[1] == 1) { /* [channels, 1, taps] */
        item.to.rank = 2;
        item.to.dims[1] = item.to.dims[2];
    }
    set_scan_dims(m, &item);
    if (item.order == CLEF_ROWS_FROM)
        item.to.dims[0] -= item.first;
    if (item.order == CLEF_ROWS_MAPPED && item.map->wanted)
        item.to.dims[0] = item.map->wanted(item.hp);
    item.to.dtype = choose_dtype(m, type, &item);
    const clef_status fits = check_packed(m, type, &item, err);
    if (fits)
        return fits;
    const int64_t elems = clef_dtype_block_elems(item.to.dtype),
                  bytes = clef_dtype_block_bytes(item.to.dtype);
    int64_t n = 0;
    if (!clef__dims_product(item.to.dims, item.to.rank, &n) || n / elems > INT64_MAX / bytes)
        return clef__fail(err, CLEF_E_LIMIT, "%s: tensor %s would have too many bytes", clef_model_path(m),
                          item.to.name);
    item.to.n_bytes = (uint64_t)(n / elems) * (uint64_t)bytes;
    if (plan->n_items == plan->capacity) {
        const size_t capacity = 2 * plan->capacity + 64;
        clef__quantize_item *grown = realloc(plan->items, capacity * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors",
                              clef_model_path(m));
        plan->items = grown;
        plan->capacity = capacity;
    }
    plan->items[plan->n_items++] = item;
    return CLEF_OK;
}

static clef_status check_rows(const clef_model *m, const clef__quantize_item *item, int64_t wanted,
                              clef_error *err)
{
    if (item->from->rank >= 1 && item->from->dims[0] == wanted)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_SHAPE, "%s: tensor %s has %" PRId64 " rows, expected %" PRId64,
                      clef_model_path(m), item->from->name, item->from->rank ? item->from->dims[0] : 0,
                      wanted);
}

void clef__quantize_set_rows(const clef_model *m, const clef_arch *arch, clef_role role,
                             clef__quantize_item *item)
{
    item->hp = &m->hparams;
    item->head_dim = m->hparams.head_dim;
    item->n_heads = m->hparams.n_heads;
    item->n_kv_heads = m->hparams.n_kv_heads;
    for (item->map = arch->gguf_rows; item->map && item->map->source; item->map++)
        if (item->map->role == role) {
            item->order = item->map->of_columns ? CLEF_COLUMNS_MAPPED : CLEF_ROWS_MAPPED;
            return;
        }
    item->map = NULL;
    if (role == CLEF_W_ATTN_QKV && arch->hf_grouped)
        item->order = CLEF_ROWS_UNGROUPED;
    else if ((role == CLEF_W_ATTN_Q || role == CLEF_W_ATTN_K) &&
             arch->gguf_pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES)
        item->order = CLEF_ROWS_PAIRED;
    else
        item->order = CLEF_ROWS_SAME;
}

static clef_status check_mapped(const clef_model *m, const clef__quantize_item *item, clef_error *err)
{
    const clef_tensor_info *t = item->from;
    const int64_t wanted = item->map->stored(item->hp);
    if (item->order == CLEF_ROWS_MAPPED)
        return check_rows(m, item, wanted, err);
    if (t->rank == 2 && t->dims[1] == wanted)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_SHAPE, "%s: tensor %s has %" PRId64 " columns, expected %" PRId64,
                      clef_model_path(m), t->name, t->rank == 2 ? t->dims[1] : 0, wanted);
}

/* What differs between GGUF and a folder in a tensor's layout. */
static clef_status set_order(const clef_model *m, const clef_arch *arch, clef_role role,
                             clef__quantize_item *item, clef_error *err)
{
    const clef_hparams *hp = &m->hparams;
    const int64_t n_heads = role == CLEF_W_ATTN_Q ? hp->n_heads : hp->n_kv_heads, D = hp->head_dim;
    clef__quantize_set_rows(m, arch, role, item);
    if (arch->hf_conv1d && item->from->rank == 2 &&
        (role == CLEF_W_ATTN_QKV || role == CLEF_W_ATTN_OUT || role == CLEF_W_FFN_UP ||
         role == CLEF_W_FFN_DOWN))
        item->order = CLEF_ROWS_TRANSPOSED;
    if (arch->hf_norm_offset && ends_with(item->name, "norm.weight") && role != CLEF_W_LINEAR_NORM)
        item->shift = 1;
    if (item->order == CLEF_ROWS_MAPPED || item->order == CLEF_COLUMNS_MAPPED)
        return check_mapped(m, item, err);
    if (item->order == CLEF_ROWS_UNGROUPED)
        return check_rows(m, item, (hp->n_heads + 2 * hp->n_kv_heads) * D, err);
    if (role == CLEF_W_POSITIONS && clef__quantize_cuts_positions(arch, hp)) {
        item->order = CLEF_ROWS_FROM;
        item->first = hp->position_offset;
        return check_rows(m, item, (int64_t)hp->n_context + hp->position_offset, err);
    }
    return item->order == CLEF_ROWS_PAIRED ? check_rows(m, item, n_heads * D, err) : CLEF_OK;
}

int clef__quantize_cuts_positions(const clef_arch *arch, const clef_hparams *hp)
{
    return arch->kind == CLEF_ENCODER && hp->position_offset > 0;
}

static int is_planned(const clef__quantize_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->items[i].name, name) == 0)
            return 1;
    return 0;
}

static int is_of_arch(const clef_arch *arch, const clef_weight_names *table)
{
    return table == &arch->weights || table == &arch->decoder_weights;
}

/* Granite 4 has one name for the shared expert and for the feed-forward of models without experts. */
static int is_of_other_role(const clef_model *m, const clef_weight_names *table, clef_role role)
{
    static const clef_role pairs[][2] = {{CLEF_W_FFN_GATE, CLEF_W_SHARED_GATE},
                                         {CLEF_W_FFN_UP, CLEF_W_SHARED_UP},
                                         {CLEF_W_FFN_DOWN, CLEF_W_SHARED_DOWN}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *dense = table->hf[pairs[i][0]], *shared = table->hf[pairs[i][1]];
        if (dense && shared && strcmp(dense, shared) == 0 && role == pairs[i][m->hparams.n_experts == 0])
            return 1;
    }
    return 0;
}

/* Adds the tensors of a role in one layer (-1: outside the layers): weight, bias, or a name without either,
 * which GGUF calls a weight. */
static clef_status add_role(const clef_model *m, const clef__quantize_type *type,
                            const clef_weight_names *table, clef_role role, int32_t layer,
                            clef__quantize_plan *plan, clef_error *err)
{
    static const char *const suffixes[][2] = {{"weight", "weight"}, {"bias", "bias"}, {"", "weight"}};
    const clef_arch *arch = clef__arch_find(m->hparams.arch, 0);
    const size_t n_prefix = strlen(arch->hf_prefix);
    const int is_tied = role == CLEF_W_OUT && m->hparams.tied_embeddings && is_of_arch(arch, table);
    if (is_of_other_role(m, table, role))
        return CLEF_OK;
    for (int i = is_tied; i < 3; i++) {
        char stored[CLEF_WEIGHT_NAME_BYTES];
        clef__quantize_item item = {.order = CLEF_ROWS_SAME};
        clef__weight_name(arch, table, role, 0, layer, suffixes[i][0], stored);
        clef__weight_name(arch, table, role, 1, layer, suffixes[i][1], item.name);
        item.from = clef__model_find(m, stored);
        if (!item.from && strncmp(stored, arch->hf_prefix, n_prefix) == 0)
            item.from = clef__model_find(m, stored + n_prefix); /* the base model's folder has no prefix */
        if (!item.from || is_planned(plan, item.name))
            continue;
        item.scaled_by = arch->hf_scale ? arch : NULL;
        item.role = role;
        item.is_bias = strcmp(suffixes[i][0], "bias") == 0;
        clef_status status = set_order(m, arch, role, &item, err);
        item.to.name = item.name; /* set again when the list is complete, because it moves */
        if (status == CLEF_OK)
            status = add_item(m, type, plan, &item, err);
        if (status != CLEF_OK)
            return status;
    }
    return CLEF_OK;
}

/* Llama 3's scaling of RoPE, which GGUF stores as divisors of the frequencies; as it does the pairs that
 * Gemma 4 does not rotate, with a divisor of 1e30 (llama.cpp's converter). */
static clef_status add_rope(const clef_model *m, const clef__quantize_type *type, clef__quantize_plan *plan,
                            clef_error *err)
{
    clef_rope_params plain = m->hparams.rope;
    const int32_t n = plain.dims / 2;
    if ((plain.type != CLEF_ROPE_LLAMA3 && plain.type != CLEF_ROPE_PROPORTIONAL) || n < 1)
        return CLEF_OK;
    plan->rope = malloc(2 * (size_t)n * sizeof *plan->rope);
    if (!plan->rope)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %" PRId32 " frequencies", clef_model_path(m),
                          n);
    plain.type = CLEF_ROPE_DEFAULT;
    clef__rope_freqs(&plain, m->hparams.n_context, NULL, plan->rope);
    clef__rope_freqs(&m->hparams.rope, m->hparams.n_context, NULL, plan->rope + n);
    for (int32_t i = 0; i < n; i++)
        plan->rope[i] = plan->rope[n + i] > 0 ? plan->rope[i] / plan->rope[n + i] : 1e30f;
    plan->rope_tensors[0] = (clef_tensor_info){.name = "rope_freqs.weight",
                                               .dtype = CLEF_F32,
                                               .rank = 1,
                                               .dims = {n},
                                               .n_bytes = (uint64_t)n * sizeof(float),
                                               .data = plan->rope};
    clef__quantize_item item = {.from = &plan->rope_tensors[0], .name = "rope_freqs.weight"};
    item.to.name = item.name;
    return add_item(m, type, plan, &item, err);
}

/* longrope's lists, which GGUF stores as tensors. */
static clef_status add_longrope(const clef_model *m, const clef__quantize_type *type,
                                clef__quantize_plan *plan, clef_error *err)
{
    static const char *const lists[][2] = {{"long_factor", "rope_factors_long.weight"},
                                           {"short_factor", "rope_factors_short.weight"}};
    const int32_t n = m->hparams.rope.dims / 2;
    const char *object;
    const json_t *scaling = clef__rope_object(m->config, &object);
    clef_status status = CLEF_OK;
    if (m->hparams.rope.type != CLEF_ROPE_LONGROPE)
        return CLEF_OK;
    plan->rope = malloc(2 * (size_t)n * sizeof *plan->rope);
    if (!plan->rope)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %" PRId32 " frequencies", clef_model_path(m),
                          n);
    for (int k = 0; k < 2 && status == CLEF_OK; k++) {
        const json_t *list = json_object_get(scaling, lists[k][0]);
        if (json_array_size(list) != (size_t)n)
            return clef__fail(err, CLEF_E_SHAPE, "%s: %s has %zu numbers, expected %" PRId32,
                              clef_model_path(m), lists[k][0], json_array_size(list), n);
        for (int32_t i = 0; i < n; i++)
            plan->rope[k * n + i] = (float)json_number_value(json_array_get(list, (size_t)i));
        plan->rope_tensors[k] = (clef_tensor_info){.name = lists[k][1],
                                                   .dtype = CLEF_F32,
                                                   .rank = 1,
                                                   .dims = {n},
                                                   .n_bytes = (uint64_t)n * sizeof(float),
                                                   .data = plan->rope + k * n};
        clef__quantize_item item = {.from = &plan->rope_tensors[k]};
        snprintf(item.name, sizeof item.name, "%s", lists[k][1]);
        item.to.name = item.name;
        status = add_item(m, type, plan, &item, err);
    }
    return status;
}

/* 1 for a folder of sentence-transformers': its file is for embeddings, and llama.cpp opens none with the
 * head of masked language modelling. */
static int is_embedder(const clef_model *m)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/modules.json", m->path);
    return n > 0 && (size_t)n < sizeof path && clef__os_is_file(path);
}

/* Roles of the head, and of tensors outside the layers that the encoder reads. */
static int is_of_head(int role)
{
    return role == CLEF_W_HEAD_DENSE || role == CLEF_W_HEAD_NORM || role == CLEF_W_OUT ||
           role == CLEF_W_LOGITS_BIAS;
}

static clef_status add_table(const clef_model *m, const clef__quantize_type *type,
                             const clef_weight_names *table, int32_t n_layers, clef__quantize_plan *plan,
                             clef_error *err)
{
    const int no_head = is_of_arch(clef__arch_find(m->hparams.arch, 0), table) &&
                        ((clef_model_is_encoder(m) && is_embedder(m)) || clef__has_classifier(m));
    clef_status status = CLEF_OK;
    for (int32_t layer = -1; layer < n_layers && status == CLEF_OK; layer++)
        for (int role = 0; role < CLEF_N_ROLES && status == CLEF_OK; role++)
            if (table->hf[role] && !(no_head && is_of_head(role)) &&
                (strstr(table->hf[role], "%d") != NULL) == (layer >= 0))
                status = add_role(m, type, table, (clef_role)role, layer, plan, err);
    return status;
}

static int has_source(const clef__quantize_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->items[i].from->name, name) == 0)
            return 1;
    return 0;
}

/* Checks that every weight of the model's graph is in the file. */
static clef_status check_complete(const clef_model *m, const clef_graph *g, const clef__quantize_plan *plan,
                                  clef_error *err)
{
    for (int32_t i = 0; i < clef_graph_n_values(g); i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(g, i));
        const clef_tensor_info *t = v.kind == CLEF_WEIGHT ? clef__model_find(m, v.name) : NULL;
        if (t && clef__is_beside_packed(m, t))
            continue;
        if (v.kind == CLEF_WEIGHT && !has_source(plan, v.name))
            return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s has no name in GGUF",
                              clef_model_path(m), v.name);
    }
    return CLEF_OK;
}

static clef_status add_classifier(const clef_model *m, const clef__quantize_type *type,
                                  clef__quantize_plan *plan, clef_error *err)
{
    const char *hf[CLEF_N_ROLES];
    const clef_weight_names names = clef__class_names(m, hf);
    return clef__has_classifier(m) ? add_table(m, type, &names, 0, plan, err) : CLEF_OK;
}

/* The layers behind an embedder's pooling, by llama.cpp's names. */
static clef_status add_dense(const clef_model *m, const clef__quantize_type *type, clef__quantize_plan *plan,
                             clef_error *err)
{
    clef_status status = is_embedder(m) ? clef__dense_open((clef_model *)(uintptr_t)m, err) : CLEF_OK;
    for (int32_t i = 0; i < 2 * m->n_dense && status == CLEF_OK; i++) {
        const clef__dense *d = &m->dense[i / 2];
        clef__quantize_item item = {.from = i % 2 ? &d->bias : &d->weight, .order = CLEF_ROWS_SAME};
        snprintf(item.name, sizeof item.name, "dense_%" PRId32 ".%s", i / 2 + 2, i % 2 ? "bias" : "weight");
        item.to.name = item.name;
        if (item.from->data)
            status = add_item(m, type, plan, &item, err);
    }
    return status;
}

static clef_status plan_folder(const clef_model *m, const clef__quantize_type *type,
                               clef__quantize_plan *plan, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, 0);
    clef_graph *g =
        NULL; /* a folder without a complete model is refused: the message names the missing weight */
    const int no_head = arch->kind == CLEF_ENCODER || (arch->kind == CLEF_DECODER && is_embedder(m));
    const clef_build_opts opts = {.no_head = no_head, .classify = clef__has_classifier(m)};
    clef_status status = clef_model_build(m, &opts, &g, err);
    if (status == CLEF_OK)
        status =
            add_table(m, type, &arch->weights, m->hparams.n_layers + clef__has_further_layer(m), plan, err);
    if (status == CLEF_OK && arch->decoder_weights.hf)
        status = add_table(m, type, &arch->decoder_weights, m->hparams.n_decoder_layers, plan, err);
    if (status == CLEF_OK)
        status = add_classifier(m, type, plan, err);
    if (status == CLEF_OK)
        status = add_dense(m, type, plan, err);
    if (status == CLEF_OK)
        status = add_rope(m, type, plan, err);
    if (status == CLEF_OK)
        status = add_longrope(m, type, plan, err);
    if (status == CLEF_OK)
        status = check_complete(m, g, plan, err);
    clef_graph_destroy(g);
    for (size_t i = 0; i < plan->n_items; i++)
        plan->items[i].to.name = plan->items[i].name;
    return status;
}

clef_status clef__quantize_plan_init(const clef_model *model, const clef__quantize_type *type,
                                     clef__quantize_plan *out, clef_error *err)
{
    clef_status status = CLEF_OK;
    *out = (clef__quantize_plan){0};
    if (!model->is_gguf && !clef__quantize_arch(&model->hparams))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: models of %s have no form in GGUF that clef writes",
                          clef_model_path(model), model->hparams.arch);
    if (!model->is_gguf)
        return plan_folder(model, type, out, err);
    for (int32_t i = 0; i < model->n_tensors && status == CLEF_OK; i++) {
        const clef_tensor_info *t = &model->tensors[i];
        status = add_item(model, type, out, &(clef__quantize_item){.from = t, .to = {.name = t->name}}, err);
    }
    return status;
}

void clef__quantize_plan_finish(clef__quantize_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++)
        free(plan->items[i].importance);
    free(plan->items);
    free(plan->rope);
    *plan = (clef__quantize_plan){0};
}

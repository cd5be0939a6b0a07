/* Falcon-H1 (arXiv:2507.22448): attention and a mixer of Mamba 2 side by side in every layer. Its config.json
 * has factors of the matrices; llama.cpp's converter multiplies the matrices by them. */
#include "model/arch/layers.h"

enum { EMBED, HEAD, ATTN_IN, KEY, ATTN_OUT, GATE, DOWN, SSM_IN, SSM_OUT, PARTS, N_PARTS = 5 };

static const clef_arch_alias names[] = {{"falcon_h1", "falcon-h1", 1, 2}, {NULL, NULL, 0, 0}};
/* llama.cpp's name of the second norm has no suffix. */
static const clef_gguf_name gguf_names[] = {
    CLEF_GGUF_MAMBA, {CLEF_W_FFN_NORM, "blk.%d.ffn_norm/"}, {0, NULL}};

static const char *const weights[CLEF_N_ROLES] = {
    CLEF_HF_MAMBA("mamba"),
    CLEF_HF_HYBRID,
};

/* The part of a row of the scan's projection: gate, x, b, c or step. */
static int part_of(const clef_hparams *hp, int64_t row)
{
    const int64_t d = (int64_t)hp->linear_n_v_heads * hp->linear_v_dim,
                  n = (int64_t)hp->linear_n_k_heads * hp->linear_k_dim;
    return row < d ? 0 : row < 2 * d ? 1 : row < 2 * d + n ? 2 : row < 2 * (d + n) ? 3 : 4;
}

static float folder_scale(const clef_hparams *hp, clef_role role, int is_bias, int64_t row)
{
    const float *by = hp->folder_scales, in = is_bias ? 1 : by[ATTN_IN];
    switch (role) {
    case CLEF_W_EMBED:
        return by[EMBED];
    case CLEF_W_OUT:
        return by[HEAD];
    case CLEF_W_ATTN_Q:
    case CLEF_W_ATTN_V:
        return in;
    case CLEF_W_ATTN_K:
        return in * by[KEY];
    case CLEF_W_ATTN_OUT:
        return by[ATTN_OUT];
    case CLEF_W_FFN_GATE:
        return by[GATE];
    case CLEF_W_FFN_DOWN:
        return by[DOWN];
    case CLEF_W_SCAN_IN:
        return (is_bias ? 1 : by[SSM_IN]) * by[PARTS + part_of(hp, row)];
    case CLEF_W_LINEAR_OUT:
        return by[SSM_OUT];
    default:
        return 1;
    }
}

static clef_value *mixers(clef_builder *b, clef_value *x)
{
    clef_value *y = clef__layer_attention(b, x);
    return clef_add(b->g, clef__mamba(b, x), y);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, mixers, clef__gated_feed_forward);
}

static const double least = 1e-9, most = 1e9;

/* A list of n factors; 1 without it. */
static void read_list(clef_json_fields *f, const char *key, int n, float *out)
{
    const json_t *list = clef__json_get(f, key);
    const int has = clef__json_has(f, key);
    for (int i = 0; i < n; i++) {
        const double x = has ? json_number_value(json_array_get(list, (size_t)i)) : 1;
        out[i] = (float)x;
        if (!(x >= least && x <= most) || (has && json_array_size(list) != (size_t)n))
            clef__json_refuse(f, "mlp_multipliers and ssm_multipliers: expected 2 and 5 numbers above 0");
    }
}

static void read_scales(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const keys[] = {
        [EMBED] = "embedding_multiplier",        [HEAD] = "lm_head_multiplier",
        [ATTN_IN] = "attention_in_multiplier",   [KEY] = "key_multiplier",
        [ATTN_OUT] = "attention_out_multiplier", [SSM_IN] = "ssm_in_multiplier",
        [SSM_OUT] = "ssm_out_multiplier"};
    float *by = hp->folder_scales;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        by[i] = keys[i] ? (float)clef__json_double(f, keys[i], least, most, 1) : 1;
    read_list(f, "mlp_multipliers", 2, by + GATE);
    read_list(f, "ssm_multipliers", N_PARTS, by + PARTS);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported");
    const int64_t expanded = clef__json_int(f, "mamba_expand", 1, 1024, 2) * hp->d_model;
    const int64_t width = clef__json_int(f, "mamba_d_ssm", 1, CLEF_MAX_WIDTH,
                                         clef__json_get(f, "mamba_d_ssm") ? expanded : 1024);
    clef__json_mamba(f, hp, &clef__mamba_usual_keys);
    if (!json_is_integer(clef__json_get(f, "mamba_d_head")))
        hp->linear_v_dim = (int32_t)(width / hp->linear_n_v_heads);
    if (f->status == CLEF_OK && width != (int64_t)hp->linear_n_v_heads * hp->linear_v_dim)
        clef__json_refuse(f, "mamba_n_heads times mamba_d_head is not mamba_d_ssm");
    hp->scan_norm_first = clef__json_bool(f, "mamba_norm_before_gate", 1);
    read_scales(f, hp);
}

const clef_arch clef__arch_falcon_h1 = {
    .names = names,
    .weights = {.hf = weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .hf_scale = folder_scale,
    .joins = clef__mamba_joins,
    .read_json = read_json,
    .read_gguf = clef__key_mamba,
    .layer = layer,
};

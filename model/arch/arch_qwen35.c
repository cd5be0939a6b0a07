/* Qwen 3.5 (Alibaba 2026; Gated DeltaNet, arXiv:2412.06464): for three layers of linear attention, whose
 * state is a matrix for each head, there is one of gated attention over the cache. Norms multiply by 1 +
 * weight. */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

/* llama.cpp's qwen35 has the heads of v in another order, so clef's files have a name of their own. In a
 * folder the heads of v that read one head of k are neighbours; in qwen35 head i of v reads head i % n of the
 * n of k. */
static const clef_arch_alias qwen35_names[] = {{"qwen3_5_text", "qwen3_5_text", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias tiled_names[] = {{NULL, "qwen35", -1, -1}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {{CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"}, {0, NULL}};
static const clef_gguf_name tiled_gguf_names[] = {{CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"},
                                                  {CLEF_W_LINEAR_RATES, "blk.%d.ssm_a/"},
                                                  {CLEF_W_LINEAR_BIAS, "blk.%d.ssm_dt.bias/"},
                                                  {0, NULL}};

static const char *const qwen35_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_NORMS,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_LINEAR_QKV] = "layers.%d.linear_attn.in_proj_qkv",
    [CLEF_W_LINEAR_GATE] = "layers.%d.linear_attn.in_proj_z",
    [CLEF_W_LINEAR_A] = "layers.%d.linear_attn.in_proj_a",
    [CLEF_W_LINEAR_B] = "layers.%d.linear_attn.in_proj_b",
    [CLEF_W_LINEAR_CONV] = "layers.%d.linear_attn.conv1d",
    [CLEF_W_LINEAR_RATES] = "layers.%d.linear_attn.rates",
    [CLEF_W_LINEAR_BIAS] = "layers.%d.linear_attn.dt_bias",
    [CLEF_W_LINEAR_NORM] = "layers.%d.linear_attn.norm",
    [CLEF_W_LINEAR_OUT] = "layers.%d.linear_attn.out_proj",
};

/* The file has the logarithms of the rates; GGUF has the rates. */
static const clef_join_rule qwen35_joins[] = {
    {&clef__join_rates, ".linear_attn.A_log", NULL, ".linear_attn.rates", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0},
};

/* ---- the graph ------------------------------------------------------------------------------- */

static clef_value *part(clef_builder *b, clef_value *x, int32_t axis, int32_t start, int32_t size)
{
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = axis, .start = start, .size = clef_n(size)});
}

/* A state [n, rows, columns] for each sequence, in f32 whatever the cache's type. Beam search reorders it
 * like the cache. */
static clef_value *memory(clef_builder *b, clef__state_role role, int32_t n, int32_t rows, int32_t columns)
{
    clef_value *state = clef__layer_state(
        b, role, CLEF_F32, clef_shape_4(clef_n(b->max_B), clef_n(n), clef_n(rows), clef_n(columns)));
    return b->order ? clef_cache_reorder(b->g, state, b->order, &(clef_cache_reorder_opts){.rows = {0}})
                    : state;
}

/* q, k and v together, each channel mixed with its last positions. */
static clef_value *mixed(clef_builder *b, clef_value *x, int32_t n)
{
    const int32_t taps = b->hp->linear_taps;
    x = clef__linear(b, x, CLEF_W_LINEAR_QKV, b->hp->d_model, n);
    clef_value *w = clef_reshape(b->g, clef__role_weight(b, CLEF_W_LINEAR_CONV, "weight"),
                                 clef_shape_2(clef_n(n), clef_n(taps)));
    clef_value *state = memory(b, CLEF__STATE_CONV, 1, taps - 1, n);
    x = b->runs ? clef_causal_conv_of_runs(b->g, x, w, state, b->pos, b->runs)
                : clef_causal_conv(b->g, x, w, state, b->pos);
    return clef__name_value(b, clef_silu(b->g, x), "attn.conv");
}

/* q or k [B, T, Hk, D] of the n parts of v: [B, T, n Hk, D], where heads are in qwen35's order. */
static clef_value *for_all_parts(clef_builder *b, clef_value *x, int32_t n)
{
    clef_value *all = x;
    for (int32_t i = 1; b->arch->names == tiled_names && i < n; i++)
        all = clef_concat(b->g, all, x, &(clef_concat_opts){.axis = 2});
    return all;
}

static clef_value *linear_attention(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    if (b->mask && !b->for_export) /* a padded token would have to be removed from the state */
        return clef__graph_fail(g, CLEF_E_UNSUPPORTED,
                                "%s: a padding mask with linear attention is not supported",
                                clef_model_path(b->model));
    const int32_t d = hp->d_model, Hk = hp->linear_n_k_heads, H = hp->linear_n_v_heads, D = hp->linear_k_dim,
                  E = hp->linear_v_dim;
    clef_value *qkv = mixed(b, x, 2 * Hk * D + H * E);
    const clef_gated_delta_in in = {
        .q = for_all_parts(b, clef__split_heads(b, part(b, qkv, 2, 0, Hk * D), Hk, D), H / Hk),
        .k = for_all_parts(b, clef__split_heads(b, part(b, qkv, 2, Hk * D, Hk * D), Hk, D), H / Hk),
        .v = clef__split_heads(b, part(b, qkv, 2, 2 * Hk * D, H * E), H, E),
        .a = clef__linear(b, x, CLEF_W_LINEAR_A, d, H),
        .b = clef__linear(b, x, CLEF_W_LINEAR_B, d, H),
        .rates = clef__role_weight(b, CLEF_W_LINEAR_RATES, clef__bare_suffix(b)),
        .bias = clef__role_weight(b, CLEF_W_LINEAR_BIAS, clef__bare_suffix(b)),
        .state = memory(b, CLEF__STATE_MEMORY, H, D, E),
        .pos = b->pos,
        .runs = b->runs};
    clef_value *y = clef_gated_delta(g, &in, &(clef_gated_delta_opts){.eps = 1e-6f});
    clef__name_value(b, y, "attn.heads");
    y = clef_rms_norm(g, y, clef__role_weight(b, CLEF_W_LINEAR_NORM, "weight"),
                      &(clef_norm_opts){.eps = hp->norm_eps});
    clef__name_value(b, y, clef__role_value_name(CLEF_W_LINEAR_NORM));
    y = clef_reshape(g, y, clef_shape_3(b->B, b->T, clef_n(H * E)));
    y = clef_mul(g, y, clef_silu(g, clef__linear(b, x, CLEF_W_LINEAR_GATE, d, H * E)));
    clef__name_value(b, y, "attn.gated");
    return clef__linear(b, y, CLEF_W_LINEAR_OUT, H * E, d);
}

/* The projection of q also contains a gate for each head, which multiplies the head's output. */
static clef_value *gated_attention(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const int32_t H = b->hp->n_heads, Hk = b->hp->n_kv_heads, D = b->hp->head_dim, d = b->hp->d_model;
    clef_value *both = clef__split_heads(b, clef__linear(b, x, CLEF_W_ATTN_Q, d, 2 * H * D), H, 2 * D);
    clef_value *gate = clef_reshape(g, part(b, both, 3, D, D), clef_shape_3(b->B, b->T, clef_n(H * D)));
    clef_value *q = clef__norm(b, part(b, both, 3, 0, D), CLEF_W_ATTN_Q_NORM);
    clef_value *k = clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, Hk);
    q = clef__layer_rope(b, q, "attn.q_rope");
    k = clef__layer_rope(b, k, "attn.k_rope");
    clef_value *y = clef__self_attention(b, q, k, clef__heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, Hk));
    y = clef__name_value(b, clef_mul(g, y, clef_sigmoid(g, gate)), "attn.gated");
    return clef__linear(b, y, CLEF_W_ATTN_OUT, H * D, d);
}

static int is_linear(const clef_hparams *hp, int32_t layer)
{
    return (int)(hp->linear_layers[layer / 32] >> (layer % 32) & 1);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, is_linear(b->hp, b->layer) ? linear_attention : gated_attention,
                                  clef__gated_feed_forward);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void read_layers(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const others[] = {"linear_attention", NULL};
    const json_t *types = clef__json_get(f, "layer_types");
    const int listed = clef__json_layer_types(f, hp, others);
    const int32_t every = (int32_t)clef__json_int(f, "full_attention_interval", 1, CLEF_MAX_LAYERS, 4);
    for (int32_t i = 0; i < hp->n_layers && f->status == CLEF_OK; i++) {
        const char *type = listed ? json_string_value(json_array_get(types, (size_t)i)) : NULL;
        if (type ? strcmp(type, "linear_attention") == 0 : i % every != every - 1)
            hp->linear_layers[i / 32] |= 1u << (i % 32);
        if (clef__layer_slides(hp, i))
            clef__json_refuse(f, "layer_types with sliding_attention is not supported");
    }
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported: linear attention has it, too");
    clef__json_partial_rope(f, hp, 10000, 0.25);
    hp->linear_n_k_heads = (int32_t)clef__json_int(f, "linear_num_key_heads", 1, CLEF_MAX_HEADS, 16);
    hp->linear_n_v_heads = (int32_t)clef__json_int(f, "linear_num_value_heads", 1, CLEF_MAX_HEADS, 32);
    hp->linear_k_dim = (int32_t)clef__json_int(f, "linear_key_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->linear_v_dim = (int32_t)clef__json_int(f, "linear_value_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->linear_taps = (int32_t)clef__json_int(f, "linear_conv_kernel_dim", 2, 16, 4);
    read_layers(f, hp);
}

/* llama.cpp's keys for the kinds of layers, or the one of clef's older files. */
static void read_gguf_layers(clef_gguf_keys *k, clef_hparams *hp)
{
    static const char *const lists[] = {"attention.recurrent_layers", "linear_layers"};
    const int32_t every = clef__key_int(k, "full_attention_interval", 1, CLEF_MAX_LAYERS, 4);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (clef__key_has(k, lists[i])) {
            clef__key_layers(k, lists[i], hp->n_layers, hp->linear_layers);
            return;
        }
    for (int32_t i = 0; i < hp->n_layers; i++)
        if (i % every != every - 1)
            hp->linear_layers[i / 32] |= 1u << (i % 32);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->linear_taps = clef__key_int(k, "ssm.conv_kernel", 2, 16, CLEF_KEY_NEEDED);
    hp->linear_k_dim = clef__key_int(k, "ssm.state_size", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED);
    hp->linear_n_k_heads = clef__key_int(k, "ssm.group_count", 1, CLEF_MAX_HEADS, CLEF_KEY_NEEDED);
    hp->linear_n_v_heads = clef__key_int(k, "ssm.time_step_rank", 1, CLEF_MAX_HEADS, CLEF_KEY_NEEDED);
    hp->linear_v_dim =
        clef__key_int(k, "ssm.inner_size", 1, CLEF_MAX_WIDTH, CLEF_KEY_NEEDED) / hp->linear_n_v_heads;
    read_gguf_layers(k, hp);
}

const clef_arch clef__arch_qwen35_tiled = {
    .names = tiled_names,
    .weights = {.hf = qwen35_weights, .gguf = tiled_gguf_names},
    .hf_prefix = "model.",
    .read_gguf = read_gguf,
    .layer = layer,
};

const clef_arch clef__arch_qwen35 = {
    .names = qwen35_names,
    .weights = {.hf = qwen35_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .hf_norm_offset = 1,
    .joins = qwen35_joins,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};

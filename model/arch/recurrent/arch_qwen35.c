/* Qwen3-Next (Alibaba 2025) and Qwen 3.5 (2026), dense and with experts (Gated DeltaNet, arXiv:2412.06464):
 * for three layers of linear attention, whose state is a matrix for each head, there is one of gated
 * attention over the cache. Norms multiply by 1 + weight. */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias next_names[] = {{"qwen3_next", "qwen3next", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias qwen35_names[] = {
    {"qwen3_5_text", "qwen35", -1, -1}, {"qwen3_5_moe_text", "qwen35moe", -1, -1}, {NULL, NULL, 0, 0}};
/* GGUF files of clef's before it wrote qwen35 */
static const clef_arch_alias own_names[] = {{NULL, "qwen3_5_text", -1, -1}, {NULL, NULL, 0, 0}};

#define SHARED_GGUF_NAMES                                                                                    \
    {CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"}, {CLEF_W_LINEAR_RATES, "blk.%d.ssm_a/"},                 \
        {CLEF_W_LINEAR_BIAS, "blk.%d.ssm_dt.bias/"},                                                         \
    {                                                                                                        \
        0, NULL                                                                                              \
    }
static const clef_gguf_name gguf_names[] = {SHARED_GGUF_NAMES};
static const clef_gguf_name own_gguf_names[] = {{CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"}, {0, NULL}};

#define SHARED_WEIGHTS                                                                                       \
    CLEF_HF_DECODER, CLEF_HF_QK_NORMS, CLEF_HF_GATED_MLP, CLEF_HF_FURTHER,                                   \
        [CLEF_W_LINEAR_CONV] = "layers.%d.linear_attn.conv1d",                                               \
        [CLEF_W_LINEAR_RATES] = "layers.%d.linear_attn.rates",                                               \
        [CLEF_W_LINEAR_BIAS] = "layers.%d.linear_attn.dt_bias",                                              \
        [CLEF_W_LINEAR_NORM] = "layers.%d.linear_attn.norm",                                                 \
        [CLEF_W_LINEAR_OUT] = "layers.%d.linear_attn.out_proj", [CLEF_W_ROUTER] = "layers.%d.mlp.gate",      \
        [CLEF_W_EXPERT_GATE] = "layers.%d.mlp.experts.*.gate_proj",                                          \
        [CLEF_W_EXPERT_UP] = "layers.%d.mlp.experts.*.up_proj",                                              \
        [CLEF_W_EXPERT_GATE_UP] = "layers.%d.mlp.experts.gate_up_proj",                                      \
        [CLEF_W_EXPERT_DOWN] = "layers.%d.mlp.experts.*.down_proj",                                          \
        [CLEF_W_SHARED_ROUTER] = "layers.%d.mlp.shared_expert_gate",                                         \
        [CLEF_W_SHARED_GATE] = "layers.%d.mlp.shared_expert.gate_proj",                                      \
        [CLEF_W_SHARED_UP] = "layers.%d.mlp.shared_expert.up_proj",                                          \
        [CLEF_W_SHARED_DOWN] = "layers.%d.mlp.shared_expert.down_proj"

static const char *const qwen35_weights[CLEF_N_ROLES] = {
    SHARED_WEIGHTS,
    [CLEF_W_LINEAR_QKV] = "layers.%d.linear_attn.in_proj_qkv",
    [CLEF_W_LINEAR_GATE] = "layers.%d.linear_attn.in_proj_z",
    [CLEF_W_LINEAR_A] = "layers.%d.linear_attn.in_proj_a",
    [CLEF_W_LINEAR_B] = "layers.%d.linear_attn.in_proj_b",
};

/* A folder has q, k, v and the gate in one matrix, of which GGUF makes two. */
static const char *const next_weights[CLEF_N_ROLES] = {
    SHARED_WEIGHTS,
    [CLEF_W_LINEAR_QKV] = "layers.%d.linear_attn.in_proj_qkvz",
    [CLEF_W_LINEAR_GATE] = "layers.%d.linear_attn.in_proj_qkvz",
    [CLEF_W_LINEAR_BA] = "layers.%d.linear_attn.in_proj_ba",
};

/* The file has the logarithms of the rates; GGUF has the rates. */
static const clef_join_rule qwen35_joins[] = {
    {&clef__join_rates, ".linear_attn.A_log", NULL, ".linear_attn.rates", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0},
};

/* ---- the order of heads in GGUF ---------------------------------------------------------------- */

/* In a folder the heads of v that read one head of k are neighbours; in qwen35 head i of v reads head i % n
 * of the n of k. */
static int64_t folder_head(const clef_hparams *hp, int64_t i)
{
    const int64_t n = hp->linear_n_k_heads;
    return i % n * (hp->linear_n_v_heads / n) + i / n;
}

static int64_t v_row(const clef_hparams *hp, int64_t i)
{
    const int64_t E = hp->linear_v_dim;
    return folder_head(hp, i / E) * E + i % E;
}

static int64_t qkv_row(const clef_hparams *hp, int64_t i)
{
    const int64_t before = 2 * (int64_t)hp->linear_n_k_heads * hp->linear_k_dim;
    return i < before ? i : before + v_row(hp, i - before);
}

static int64_t n_heads(const clef_hparams *hp)
{
    return hp->linear_n_v_heads;
}

static int64_t n_v(const clef_hparams *hp)
{
    return (int64_t)hp->linear_n_v_heads * hp->linear_v_dim;
}

static int64_t n_qkv(const clef_hparams *hp)
{
    return 2 * (int64_t)hp->linear_n_k_heads * hp->linear_k_dim + n_v(hp);
}

static const clef_row_map qwen35_rows[] = {
    {CLEF_W_LINEAR_QKV, 0, qkv_row, n_qkv, NULL},
    {CLEF_W_LINEAR_CONV, 0, qkv_row, n_qkv, NULL},
    {CLEF_W_LINEAR_GATE, 0, v_row, n_v, NULL},
    {CLEF_W_LINEAR_OUT, 1, v_row, n_v, NULL},
    {CLEF_W_LINEAR_A, 0, folder_head, n_heads, NULL},
    {CLEF_W_LINEAR_B, 0, folder_head, n_heads, NULL},
    {CLEF_W_LINEAR_RATES, 0, folder_head, n_heads, NULL},
    {CLEF_W_LINEAR_BIAS, 0, folder_head, n_heads, NULL},
    {0, 0, NULL, NULL, NULL},
};

/* Qwen3-Next's matrix has for each head of k its q, its k, then v and the gate of its heads of v. */
static int64_t group_rows(const clef_hparams *hp)
{
    return 2 * (hp->linear_k_dim + n_v(hp) / hp->linear_n_k_heads);
}

static int64_t next_qkv_row(const clef_hparams *hp, int64_t i)
{
    const int64_t D = hp->linear_k_dim, n_k = hp->linear_n_k_heads * D, each = n_v(hp) / hp->linear_n_k_heads;
    if (i < 2 * n_k)
        return i % n_k / D * group_rows(hp) + i / n_k * D + i % D;
    i -= 2 * n_k;
    return i / each * group_rows(hp) + 2 * D + i % each;
}

static int64_t next_gate_row(const clef_hparams *hp, int64_t i)
{
    const int64_t each = n_v(hp) / hp->linear_n_k_heads;
    return i / each * group_rows(hp) + 2 * hp->linear_k_dim + each + i % each;
}

static int64_t n_qkvz(const clef_hparams *hp)
{
    return n_qkv(hp) + n_v(hp);
}

static const clef_row_map next_rows[] = {
    {CLEF_W_LINEAR_QKV, 0, next_qkv_row, n_qkvz, n_qkv},
    {CLEF_W_LINEAR_GATE, 0, next_gate_row, n_qkvz, n_v},
    {0, 0, NULL, NULL, NULL},
};

/* ---- the graph ------------------------------------------------------------------------------- */

typedef struct projections {
    clef_value *qkv, *gate; /* [B, T, 2 Hk D + H E], [B, T, H E] */
    clef_value *a, *b;      /* [B, T, H] */
} projections;

/* Numbers start .. start + size - 1 of each head of k in x [B, T, Hk, ..], flat: [B, T, Hk size]. */
static clef_value *of_groups(clef_builder *b, clef_value *x, int32_t start, int32_t size)
{
    return clef_reshape(b->g, clef__part(b, x, 3, start, size),
                        clef_shape_3(b->B, b->T, clef_n(b->hp->linear_n_k_heads * size)));
}

static projections project_groups(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t d = hp->d_model, Hk = hp->linear_n_k_heads, H = hp->linear_n_v_heads, D = hp->linear_k_dim,
                  n = H / Hk * hp->linear_v_dim;
    clef_value *both = clef__split_heads(b, clef__linear(b, x, CLEF_W_LINEAR_BA, d, 2 * H), Hk, 2 * H / Hk);
    projections p = {.b = of_groups(b, both, 0, H / Hk), .a = of_groups(b, both, H / Hk, H / Hk)};
    if (b->is_gguf) {
        p.qkv = clef__linear(b, x, CLEF_W_LINEAR_QKV, d, 2 * Hk * D + Hk * n);
        p.gate = clef__linear(b, x, CLEF_W_LINEAR_GATE, d, Hk * n);
        return p;
    }
    const clef_concat_opts joint = {.axis = 2};
    clef_value *all =
        clef__split_heads(b, clef__linear(b, x, CLEF_W_LINEAR_QKV, d, 2 * Hk * (D + n)), Hk, 2 * (D + n));
    p.qkv = clef_concat(b->g, of_groups(b, all, 0, D), of_groups(b, all, D, D), &joint);
    p.qkv = clef_concat(b->g, p.qkv, of_groups(b, all, 2 * D, n), &joint);
    p.gate = of_groups(b, all, 2 * D + n, n);
    return p;
}

static projections project(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t d = hp->d_model, H = hp->linear_n_v_heads;
    if (b->arch->names == next_names)
        return project_groups(b, x);
    return (projections){clef__linear(b, x, CLEF_W_LINEAR_QKV, d, (int32_t)n_qkv(hp)),
                         clef__linear(b, x, CLEF_W_LINEAR_GATE, d, (int32_t)n_v(hp)),
                         clef__linear(b, x, CLEF_W_LINEAR_A, d, H),
                         clef__linear(b, x, CLEF_W_LINEAR_B, d, H)};
}

static clef_value *delta_rule(clef_builder *b, const projections *p)
{
    const clef_hparams *hp = b->hp;
    const int32_t Hk = hp->linear_n_k_heads, H = hp->linear_n_v_heads, D = hp->linear_k_dim,
                  E = hp->linear_v_dim;
    clef_value *qkv = clef_silu(b->g, clef__short_conv(b, p->qkv, CLEF_W_LINEAR_CONV, 2 * Hk * D + H * E));
    clef__name_value(b, qkv, "attn.conv");
    const clef_gated_delta_in in = {.q = clef__split_heads(b, clef__part(b, qkv, 2, 0, Hk * D), Hk, D),
                                    .k = clef__split_heads(b, clef__part(b, qkv, 2, Hk * D, Hk * D), Hk, D),
                                    .v = clef__split_heads(b, clef__part(b, qkv, 2, 2 * Hk * D, H * E), H, E),
                                    .a = p->a,
                                    .b = p->b,
                                    .rates = clef__role_weight(b, CLEF_W_LINEAR_RATES, clef__bare_suffix(b)),
                                    .bias = clef__role_weight(b, CLEF_W_LINEAR_BIAS, clef__bare_suffix(b)),
                                    .state = clef__memory(b, CLEF__STATE_MEMORY, H, D, E),
                                    .pos = b->pos,
                                    .runs = b->runs};
    const clef_gated_delta_opts opts = {.eps = 1e-6f,
                                        .tiled = b->is_gguf && b->arch->names == qwen35_names && H > Hk};
    return clef__name_value(b, clef_gated_delta(b->g, &in, &opts), "attn.heads");
}

static clef_value *linear_attention(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const int32_t n = (int32_t)n_v(b->hp);
    if (clef__refuses_padding(b))
        return NULL;
    const projections p = project(b, x);
    clef_value *y = clef_rms_norm(g, delta_rule(b, &p), clef__role_weight(b, CLEF_W_LINEAR_NORM, "weight"),
                                  &(clef_norm_opts){.eps = b->hp->norm_eps});
    clef__name_value(b, y, clef__role_value_name(CLEF_W_LINEAR_NORM));
    y = clef_reshape(g, y, clef_shape_3(b->B, b->T, clef_n(n)));
    y = clef__name_value(b, clef_mul(g, y, clef_silu(g, p.gate)), "attn.gated");
    return clef__linear(b, y, CLEF_W_LINEAR_OUT, n, b->hp->d_model);
}

/* The projection of q also contains a gate for each head, which multiplies the head's output. */
static clef_value *gated_attention(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const int32_t H = b->hp->n_heads, Hk = b->hp->n_kv_heads, D = b->hp->head_dim, d = b->hp->d_model;
    clef_value *both = clef__split_heads(b, clef__linear(b, x, CLEF_W_ATTN_Q, d, 2 * H * D), H, 2 * D);
    clef_value *gate = clef_reshape(g, clef__part(b, both, 3, D, D), clef_shape_3(b->B, b->T, clef_n(H * D)));
    clef_value *q = clef__norm(b, clef__part(b, both, 3, 0, D), CLEF_W_ATTN_Q_NORM);
    clef_value *k = clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, Hk);
    q = clef__layer_rope(b, q, "attn.q_rope");
    k = clef__layer_rope(b, k, "attn.k_rope");
    clef_value *y = clef__self_attention(b, q, k, clef__heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, Hk));
    y = clef__name_value(b, clef_mul(g, y, clef_sigmoid(g, gate)), "attn.gated");
    return clef__linear(b, y, CLEF_W_ATTN_OUT, H * D, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x,
                                  clef__layer_is_linear(b->hp, b->layer) ? linear_attention : gated_attention,
                                  clef__experts_or_gated);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void read_layers(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const linear[] = {"linear_attention", NULL};
    const int32_t every = (int32_t)clef__json_int(f, "full_attention_interval", 1, CLEF_MAX_LAYERS, 4);
    if (clef__json_linear_layers(f, hp, linear))
        return;
    for (int32_t i = 0; i < hp->n_layers; i++)
        if (i % every != every - 1)
            clef__set_linear(hp, i);
}

static void read_moe(clef_json_fields *f, clef_hparams *hp, int32_t n_experts, int32_t n_used)
{
    clef__json_experts(f, hp, "num_experts", n_experts, n_used);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 512);
    hp->d_ff_shared = (int32_t)clef__json_int(f, "shared_expert_intermediate_size", 1, CLEF_MAX_WIDTH, 512);
    hp->router = CLEF_ROUTER_NORMED;
}

static void read_linear(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported: linear attention has it, too");
    clef__json_partial_rope(f, hp, 10000, 0.25);
    hp->linear_n_k_heads = (int32_t)clef__json_int(f, "linear_num_key_heads", 1, CLEF_MAX_HEADS, 16);
    hp->linear_n_v_heads = (int32_t)clef__json_int(f, "linear_num_value_heads", 1, CLEF_MAX_HEADS, 32);
    hp->linear_k_dim = (int32_t)clef__json_int(f, "linear_key_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->linear_v_dim = (int32_t)clef__json_int(f, "linear_value_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->linear_taps = (int32_t)clef__json_int(f, "linear_conv_kernel_dim", 2, 16, 4);
    if (f->status == CLEF_OK && hp->linear_n_v_heads % hp->linear_n_k_heads != 0)
        clef__json_refuse(f, "linear_num_value_heads is not a multiple of linear_num_key_heads");
    read_layers(f, hp);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    const int has_experts = strcmp(hp->arch, "qwen3_5_moe_text") == 0;
    clef__json_widths(f, hp);
    hp->d_ff = has_experts ? 0 : (int32_t)clef__json_need_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    if (has_experts) {
        read_moe(f, hp, 256, 8);
        hp->d_ff = hp->d_ff_expert;
    }
    read_linear(f, hp);
}

static void next_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    read_moe(f, hp, 512, 10);
    if (!clef__json_bool(f, "norm_topk_prob", 1))
        hp->router = CLEF_ROUTER_ALL;
    clef__json_int(f, "decoder_sparse_step", 1, CLEF_MAX_LAYERS,
                   1); /* a layer has experts if it has a router */
    clef__json_get(f, "mlp_only_layers");
    read_linear(f, hp);
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
            clef__set_linear(hp, i);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->linear_taps = clef__key_int(k, "ssm.conv_kernel", 2, 16, CLEF_KEY_NEEDED);
    hp->linear_k_dim = clef__key_int(k, "ssm.state_size", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED);
    hp->linear_n_k_heads = clef__key_int(k, "ssm.group_count", 1, CLEF_MAX_HEADS, CLEF_KEY_NEEDED);
    hp->linear_n_v_heads = clef__key_int(k, "ssm.time_step_rank", 1, CLEF_MAX_HEADS, CLEF_KEY_NEEDED);
    hp->linear_v_dim =
        clef__key_int(k, "ssm.inner_size", 1, CLEF_MAX_WIDTH, CLEF_KEY_NEEDED) / hp->linear_n_v_heads;
    hp->router = CLEF_ROUTER_NORMED;
    hp->d_ff_shared = clef__key_int(k, "expert_shared_feed_forward_length", 0, CLEF_MAX_WIDTH,
                                    hp->n_experts > 0 ? hp->d_ff : 0);
    if (k->status == CLEF_OK && hp->linear_n_v_heads % hp->linear_n_k_heads != 0)
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT,
                       "%s: key %s.ssm.time_step_rank is %d, expected a multiple of ssm.group_count %d",
                       k->file, k->arch, hp->linear_n_v_heads, hp->linear_n_k_heads);
    read_gguf_layers(k, hp);
}

const clef_arch clef__arch_qwen35_own = {
    .names = own_names,
    .weights = {.hf = qwen35_weights, .gguf = own_gguf_names},
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
    .gguf_rows = qwen35_rows,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};

const clef_arch clef__arch_qwen3_next = {
    .names = next_names,
    .weights = {.hf = next_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .hf_norm_offset = 1,
    .joins = qwen35_joins,
    .gguf_rows = next_rows,
    .read_json = next_read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};

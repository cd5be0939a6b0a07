/* DeepSeek-V2 (arXiv:2405.04434), V3 (arXiv:2412.19437), GLM-4.7-Flash and MiniCPM3: keys and values come
 * from a narrow latent (MLA); positions are in a part of each head, which all heads of k share. After a dense
 * first layer there are experts, and one expert that every token uses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias deepseek2_names[] = {{"deepseek_v2", "deepseek2", 100000, 100001},
                                                  {"deepseek_v3", NULL, 0, 1},
                                                  {"glm4_moe_lite", NULL, 0, 1},
                                                  {NULL, NULL, 0, 0}};
/* No experts; embeddings, blocks and logits are scaled. */
static const clef_arch_alias minicpm3_names[] = {{"minicpm3", "minicpm3", 1, 2}, {NULL, NULL, 0, 0}};

#define LATENT_NAMES                                                                                         \
    [CLEF_W_ATTN_Q_A] = "layers.%d.self_attn.q_a_proj",                                                      \
    [CLEF_W_ATTN_Q_A_NORM] = "layers.%d.self_attn.q_a_layernorm",                                            \
    [CLEF_W_ATTN_Q_B] = "layers.%d.self_attn.q_b_proj",                                                      \
    [CLEF_W_ATTN_KV_A] = "layers.%d.self_attn.kv_a_proj_with_mqa",                                           \
    [CLEF_W_ATTN_KV_A_NORM] = "layers.%d.self_attn.kv_a_layernorm",                                          \
    [CLEF_W_ATTN_KV_B] = "layers.%d.self_attn.kv_b_proj", [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.o_proj"

static const char *const deepseek2_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj",
    CLEF_HF_FURTHER,
    LATENT_NAMES,
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.mlp.gate.e_score_correction_bias",
    CLEF_HF_EXPERTS,
    CLEF_HF_SHARED_EXPERT("shared_experts"),
};

static const char *const minicpm3_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD, CLEF_HF_NORMS, CLEF_HF_GATED_MLP, [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj",
    LATENT_NAMES,
};

/* llama.cpp's form: k's and v's part of the projection apart, k's transposed. */
static const clef_join_rule deepseek2_joins[] = {
    {&clef__join_latent, ".attn_k_b.weight", ".attn_v_b.weight", ".attn_kv_b.weight", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0},
};

/* ---- the graph ------------------------------------------------------------------------------- */

static clef_value *part(clef_builder *b, clef_value *x, int32_t axis, int32_t start, int32_t size)
{
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = axis, .start = start, .size = clef_n(size)});
}

static clef_value *joint(clef_builder *b, clef_value *x, clef_value *y)
{
    return clef_concat(b->g, x, y, &(clef_concat_opts){.axis = 3});
}

/* The norms within attention have the epsilon of their class. */
static clef_value *latent_norm(clef_builder *b, clef_value *x, clef_role role)
{
    return clef__name_value(
        b, clef_rms_norm(b->g, x, clef__role_weight(b, role, "weight"), &(clef_norm_opts){.eps = 1e-6f}),
        clef__role_value_name(role));
}

/* x [B, T, 1, R] for every head: [B, T, H, R]. */
static clef_value *for_all_heads(clef_builder *b, clef_value *x)
{
    const int32_t H = b->hp->n_heads, R = b->hp->rope.dims;
    if (!b->zeros) {
        float *data = calloc((size_t)H * (size_t)R, sizeof *data);
        if (!data)
            return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d heads",
                                    clef_model_path(b->model), H);
        b->zeros = clef_constant(b->g, "zeros", CLEF_F32, clef_shape_2(clef_n(H), clef_n(R)), data);
        free(data);
    }
    return clef_add(b->g, b->zeros, x);
}

static clef_value *queries(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->n_heads, D = hp->head_dim, R = hp->rope.dims, narrow = hp->q_lora_rank;
    clef_value *q =
        narrow ? clef__linear(b,
                              latent_norm(b, clef__linear(b, x, CLEF_W_ATTN_Q_A, hp->d_model, narrow),
                                          CLEF_W_ATTN_Q_A_NORM),
                              CLEF_W_ATTN_Q_B, narrow, H * D)
               : clef__linear(b, x, CLEF_W_ATTN_Q, hp->d_model, H * D);
    q = clef__split_heads(b, q, H, D);
    return joint(b, part(b, q, 3, 0, D - R), clef__layer_rope(b, part(b, q, 3, D - R, R), "attn.q_rope"));
}

static clef_value *latent_attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->n_heads, R = hp->rope.dims, plain = hp->head_dim - R, E = hp->v_head_dim,
                  narrow = hp->kv_lora_rank;
    clef_value *both = clef__linear(b, x, CLEF_W_ATTN_KV_A, hp->d_model, narrow + R);
    clef_value *latent = latent_norm(b, part(b, both, 2, 0, narrow), CLEF_W_ATTN_KV_A_NORM);
    clef_value *place =
        clef_reshape(b->g, part(b, both, 2, narrow, R), clef_shape_4(b->B, b->T, clef_n(1), clef_n(R)));
    place = clef__layer_rope(b, place, "attn.k_rope");
    clef_value *kv = clef__split_heads(b, clef__linear(b, latent, CLEF_W_ATTN_KV_B, narrow, H * (plain + E)),
                                       H, plain + E);
    clef_value *k = joint(b, part(b, kv, 3, 0, plain), for_all_heads(b, place));
    x = clef__self_attention(b, queries(b, x), k, part(b, kv, 3, plain, E));
    return clef__linear(b, x, CLEF_W_ATTN_OUT, H * E, hp->d_model);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, latent_attention, clef__experts_or_gated);
}

/* ---- configuration --------------------------------------------------------------------------- */

/* YaRN's temperature is squared in the scale of the scores, and not in q and k. */
static void set_scale(clef_hparams *hp)
{
    const clef_rope_params *r = &hp->rope;
    const double m = r->type != CLEF_ROPE_DEFAULT && r->mscale_all_dim > 0 && r->factor > 1
                         ? 0.1 * r->mscale_all_dim * log(r->factor) + 1
                         : 1;
    hp->attention_scale = (float)(m * m / sqrt(hp->head_dim));
}

/* The widths of heads and latents, where the file does not state them. */
typedef struct widths {
    int32_t plain, rotated, values, kv_rank, q_rank;
} widths;

static void read_attention(clef_json_fields *f, clef_hparams *hp, const widths *w)
{
    const int32_t plain = (int32_t)clef__json_int(f, "qk_nope_head_dim", 1, CLEF_MAX_HEAD_DIM, w->plain);
    hp->head_dim = (int32_t)clef__json_int(f, "qk_rope_head_dim", 2, CLEF_MAX_HEAD_DIM,
                                           w->rotated); /* the width that rope's dims are a part of */
    clef__json_rope(f, hp, 10000);
    hp->head_dim += plain;
    hp->n_kv_heads = hp->n_heads;
    hp->v_head_dim = (int32_t)clef__json_int(f, "v_head_dim", 1, CLEF_MAX_HEAD_DIM, w->values);
    hp->kv_lora_rank = (int32_t)clef__json_int(f, "kv_lora_rank", 1, CLEF_MAX_WIDTH, w->kv_rank);
    hp->q_lora_rank = (int32_t)clef__json_int(f, "q_lora_rank", 1, CLEF_MAX_WIDTH,
                                              clef__json_get(f, "q_lora_rank") ? 0 : w->q_rank);
    set_scale(hp);
}

/* DeepSeek-V2's experts are chosen by a softmax. */
static void read_v2_experts(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {
        .n_experts = 64, .n_used = 6, .n_shared = 2, .d_ff_expert = 1407, .expert_scale = 1, .is_normed = 0};
    const char *method = clef__json_string(f, "topk_method", "greedy");
    const int32_t n = (int32_t)clef__json_int(f, "n_group", 1, CLEF_MAX_EXPERTS, 1),
                  used = (int32_t)clef__json_int(f, "topk_group", 1, CLEF_MAX_EXPERTS_USED, 1);
    clef__json_refuse_flag(f, "norm_topk_prob", 0, 0);
    clef__json_routed(f, hp, &keys);
    hp->router = CLEF_ROUTER_ALL;
    if (!method || strcmp(method, "greedy") == 0 || n == 1)
        return;
    if (strcmp(method, "group_limited_greedy") != 0)
        clef__json_refuse(f, "topk_method other than greedy and group_limited_greedy is not supported");
    if (hp->n_experts % n != 0 || used > n)
        clef__json_refuse(f, "n_group: expected a divisor of n_routed_experts, and not less than topk_group");
    hp->n_expert_groups = n;
    hp->n_groups_used = used;
}

static void read_experts(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys v3 = {.n_experts = 256,
                                        .n_used = 8,
                                        .n_shared = 1,
                                        .d_ff_expert = 2048,
                                        .expert_scale = 2.5,
                                        .is_normed = 1,
                                        .n_groups = 8,
                                        .n_groups_used = 4},
                                  glm = {.n_experts = 64,
                                         .n_used = 4,
                                         .n_shared = 1,
                                         .d_ff_expert = 1536,
                                         .expert_scale = 1.8,
                                         .is_normed = 1,
                                         .n_groups = 1,
                                         .n_groups_used = 1};
    if (strcmp(hp->arch, "deepseek_v2") == 0) {
        read_v2_experts(f, hp);
        return;
    }
    clef__json_refuse_flag(f, "rope_interleave", 1, 1);
    clef__json_routed(f, hp, strcmp(hp->arch, "deepseek_v3") == 0 ? &v3 : &glm);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const widths deepseek = {128, 64, 128, 512, 1536}, glm = {192, 64, 256, 512, 768};
    const int is_glm = strcmp(hp->arch, "glm4_moe_lite") == 0;
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, is_glm ? 1e-5 : 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    read_attention(f, hp, is_glm ? &glm : &deepseek);
    read_experts(f, hp);
}

static void read_latents(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_int(k, "attention.kv_lora_rank", 1, CLEF_MAX_WIDTH, CLEF_KEY_NEEDED);
    if (clef__key_has(k,
                      "attention.key_length_mla")) { /* then key_length is the width of the shared latent */
        hp->head_dim = clef__key_int(k, "attention.key_length_mla", 1, CLEF_MAX_HEAD_DIM, 0);
        hp->v_head_dim =
            clef__key_int(k, "attention.value_length_mla", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED);
        hp->n_kv_heads = hp->n_heads;
    }
}

/* Files of models that choose by sigmoids may not say so; their experts have biases. */
static clef_router router_of(const clef_gguf *gguf)
{
    for (uint64_t i = 0; i < gguf->n_tensors; i++)
        if (strstr(gguf->tensors[i].name, ".exp_probs_b."))
            return CLEF_ROUTER_SIGMOID;
    return CLEF_ROUTER_ALL;
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    read_latents(k, hp);
    clef__key_routed(k, hp, router_of(k->gguf));
    if (hp->rope.type == CLEF_ROPE_YARN) { /* GGUF stores a tenth of it; q and k are not multiplied then */
        hp->rope.mscale_all_dim = 10 * clef__key_float(k, "rope.scaling.yarn_log_multiplier", 0, 100, 0);
        hp->rope.mscale = hp->rope.mscale_all_dim;
        hp->rope.truncate = 1;
    }
    set_scale(hp);
}

const clef_arch clef__arch_deepseek2 = {
    .names = deepseek2_names,
    .weights = {.hf = deepseek2_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .joins = deepseek2_joins,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};

/* ---- MiniCPM3 -------------------------------------------------------------------------------- */

/* A factor; null is what makes it 1. */
static double read_factor(clef_json_fields *f, const char *key, double missing, double of_null)
{
    return clef__json_double(f, key, 1e-6, 1e6, clef__json_get(f, key) ? of_null : missing);
}

static void scale_minicpm3(clef_hparams *hp, double embeddings, double depth, double base)
{
    hp->embed_scale = (float)embeddings;
    hp->residual_scale = (float)(depth / sqrt(hp->n_layers));
    hp->logit_scale = (float)(base / hp->d_model);
}

static void minicpm3_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const widths minicpm3 = {64, 32, 0, 256, 768};
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "hidden_act", "silu");
    read_attention(f, hp, &minicpm3);
    if (hp->v_head_dim == 0 && f->status == CLEF_OK)
        hp->v_head_dim = hp->d_model / hp->n_heads;
    const double depth = read_factor(f, "scale_depth", 1.4, sqrt(hp->n_layers)),
                 base = read_factor(f, "dim_model_base", 256, hp->d_model);
    if (f->status == CLEF_OK)
        scale_minicpm3(hp, clef__json_double(f, "scale_emb", 1e-6, 1e6, 12), depth, base);
}

/* GGUF has no keys for the factors of the released model. */
static void minicpm3_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    read_latents(k, hp);
    if (!clef__key_has(k, "attention.value_length"))
        hp->v_head_dim = hp->d_model / hp->n_heads;
    scale_minicpm3(hp, 12, 1.4, 256);
    set_scale(hp);
}

const clef_arch clef__arch_minicpm3 = {
    .names = minicpm3_names,
    .weights = {.hf = minicpm3_weights},
    .hf_prefix = "model.",
    .read_json = minicpm3_read_json,
    .read_gguf = minicpm3_read_gguf,
    .layer = layer,
};

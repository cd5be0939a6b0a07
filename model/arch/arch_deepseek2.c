/* DeepSeek-V2 (arXiv:2405.04434): keys and values come from a narrow latent (MLA); positions are in a part of
 * each head, which all heads of k share. After a dense first layer there are experts, and one expert that
 * every token uses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias deepseek2_names[] = {{"deepseek_v2", "deepseek2", 100000, 100001},
                                                  {NULL, NULL, 0, 0}};

static const char *const deepseek2_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj",
    [CLEF_W_ATTN_Q_A] = "layers.%d.self_attn.q_a_proj",
    [CLEF_W_ATTN_Q_A_NORM] = "layers.%d.self_attn.q_a_layernorm",
    [CLEF_W_ATTN_Q_B] = "layers.%d.self_attn.q_b_proj",
    [CLEF_W_ATTN_KV_A] = "layers.%d.self_attn.kv_a_proj_with_mqa",
    [CLEF_W_ATTN_KV_A_NORM] = "layers.%d.self_attn.kv_a_layernorm",
    [CLEF_W_ATTN_KV_B] = "layers.%d.self_attn.kv_b_proj",
    [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.o_proj",
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
    [CLEF_W_EXPERT_GATE] = "layers.%d.mlp.experts.*.gate_proj",
    [CLEF_W_EXPERT_UP] = "layers.%d.mlp.experts.*.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.mlp.experts.*.down_proj",
    [CLEF_W_SHARED_GATE] = "layers.%d.mlp.shared_experts.gate_proj",
    [CLEF_W_SHARED_UP] = "layers.%d.mlp.shared_experts.up_proj",
    [CLEF_W_SHARED_DOWN] = "layers.%d.mlp.shared_experts.down_proj",
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

static void read_attention(clef_json_fields *f, clef_hparams *hp)
{
    const int32_t plain = (int32_t)clef__json_int(f, "qk_nope_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    hp->head_dim = (int32_t)clef__json_int(f, "qk_rope_head_dim", 2, CLEF_MAX_HEAD_DIM,
                                           64); /* the width that rope's dims are a part of */
    clef__json_rope(f, hp, 10000);
    hp->head_dim += plain;
    hp->n_kv_heads = hp->n_heads;
    hp->v_head_dim = (int32_t)clef__json_int(f, "v_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->kv_lora_rank = (int32_t)clef__json_int(f, "kv_lora_rank", 1, CLEF_MAX_WIDTH, 512);
    hp->q_lora_rank = (int32_t)clef__json_int(f, "q_lora_rank", 1, CLEF_MAX_WIDTH,
                                              clef__json_get(f, "q_lora_rank") ? 0 : 1536);
    set_scale(hp);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    read_attention(f, hp);
    clef__json_experts(f, hp, "n_routed_experts", 64, 6);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 1407);
    hp->d_ff_shared = hp->d_ff_expert * (int32_t)clef__json_int(f, "n_shared_experts", 0, 256, 2);
    hp->expert_scale = (float)clef__json_double(f, "routed_scaling_factor", 1e-6, 1e6, 1);
    hp->router = CLEF_ROUTER_ALL;
    clef__json_refuse_flag(f, "norm_topk_prob", 0, 0);
    const char *method = clef__json_string(f, "topk_method", "greedy");
    if (method && strcmp(method, "greedy") != 0 && clef__json_int(f, "n_group", 1, CLEF_MAX_EXPERTS, 1) > 1)
        clef__json_refuse(f, "topk_method other than greedy with n_group above 1 is not supported");
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_int(k, "attention.kv_lora_rank", 1, CLEF_MAX_WIDTH, CLEF_KEY_NEEDED);
    if (clef__key_has(k,
                      "attention.key_length_mla")) { /* then key_length is the width of the shared latent */
        hp->head_dim = clef__key_int(k, "attention.key_length_mla", 1, CLEF_MAX_HEAD_DIM, 0);
        hp->v_head_dim =
            clef__key_int(k, "attention.value_length_mla", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED);
        hp->n_kv_heads = hp->n_heads;
    }
    hp->d_ff_shared = hp->d_ff_expert * clef__key_int(k, "expert_shared_count", 0, 256, 0);
    if (hp->rope.type == CLEF_ROPE_YARN) { /* GGUF stores a tenth of it; q and k are not multiplied then */
        hp->rope.mscale_all_dim = 10 * clef__key_float(k, "rope.scaling.yarn_log_multiplier", 0, 100, 0);
        hp->rope.mscale = hp->rope.mscale_all_dim;
        hp->rope.truncate = 1;
    }
    if (clef__key_int(k, "expert_weights_norm", 0, 1, 0))
        hp->router = CLEF_ROUTER_NORMED;
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

/* Llama (arXiv:2302.13971, 2307.09288, 2407.21783) and its shapes: RMS norm, rotary positions, grouped-query attention, SwiGLU.
 * Mistral (arXiv:2310.06825) adds a sliding window, Qwen2 (arXiv:2407.10671) biases of q, k and v, Qwen3 (arXiv:2505.09388) norms of
 * each head's q and k; what a file has of these is used. */
#include "model/layers.h"

static const char *const llama_names[] = {"llama", "mistral", "qwen2", "qwen3", NULL};

static const clef_weight_name llama_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = {"embed_tokens", "token_embd"},
    [CLEF_W_ATTN_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [CLEF_W_ATTN_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [CLEF_W_ATTN_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [CLEF_W_ATTN_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [CLEF_W_ATTN_Q_NORM] = {"layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm"},
    [CLEF_W_ATTN_K_NORM] = {"layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm"},
    [CLEF_W_ATTN_OUT] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [CLEF_W_FFN_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    [CLEF_W_FFN_GATE] = {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    [CLEF_W_FFN_UP] = {"layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    [CLEF_W_FFN_DOWN] = {"layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
    [CLEF_W_OUT_NORM] = {"norm", "output_norm"},
    [CLEF_W_OUT] = {"lm_head", "output"},
};

/* n heads of x by a projection, normalised one by one where the file has a norm for them. */
static clef_value *heads(clef_builder *b, clef_value *x, clef_role projection, clef_role norm, int32_t n)
{
    const int32_t D = b->hp->head_dim;
    x = clef__split_heads(b, clef__linear(b, x, projection, b->hp->d_model, n * D), n, D);
    return norm != CLEF_N_ROLES && clef__weight_optional(b, norm, "weight") ? clef__rms_norm(b, x, norm) : x;
}

static clef_value *attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    clef_value *q = clef__rope(b, heads(b, x, CLEF_W_ATTN_Q, CLEF_W_ATTN_Q_NORM, hp->n_heads));
    clef_value *k = clef__rope(b, heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, hp->n_kv_heads));
    clef_value *v = heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, hp->n_kv_heads);
    return clef__linear(b, clef__self_attention(b, q, k, v), CLEF_W_ATTN_OUT, hp->n_heads * hp->head_dim, hp->d_model);
}

static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *gate = clef_silu(b->g, clef__linear(b, x, CLEF_W_FFN_GATE, d, d_ff));
    return clef__linear(b, clef_mul(b->g, gate, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff)), CLEF_W_FFN_DOWN, d_ff, d);
}

static clef_value *llama_build(clef_builder *b)
{
    clef_graph *g = b->g;
    clef_value *x = clef__embed(b);
    for (b->layer = 0; b->layer < b->hp->n_layers; b->layer++) {
        clef_scope_push(g, "layer%d", b->layer);
        x = clef_add(g, x, attention(b, clef__rms_norm(b, x, CLEF_W_ATTN_NORM)));
        x = clef_add(g, x, feed_forward(b, clef__rms_norm(b, x, CLEF_W_FFN_NORM)));
        clef_named(x, "out");
        clef_scope_pop(g);
    }
    return clef__lm_head(b, clef__rms_norm(b, clef__wanted_positions(b, x), CLEF_W_OUT_NORM));
}

const clef_arch clef__arch_llama = {
    .names = llama_names,
    .weights = llama_weights,
    .hf_prefix = "model.",
    .build = llama_build,
};

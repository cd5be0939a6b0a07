/* Llama (arXiv:2302.13971, 2307.09288, 2407.21783) and its shapes: RMS norm, rotary positions, grouped-query attention, SwiGLU.
 * Mistral (arXiv:2310.06825) adds a sliding window, Qwen2 (arXiv:2407.10671) biases of q, k and v, Qwen3 (arXiv:2505.09388) norms of
 * each head's q and k; what a file has of these is used. */
#include <inttypes.h>
#include <string.h>

#include "model/layers.h"

static const clef_arch_alias llama_names[] = {
    {"llama", "llama", 1, 2}, {"mistral", NULL, 1, 2}, {NULL, NULL, 0, 0},
};

/* GGUF leaves the halves of Qwen's heads as they are. */
static const clef_arch_alias qwen_names[] = {
    {"qwen2", "qwen2", -1, -1}, {"qwen3", "qwen3", -1, -1}, {NULL, NULL, 0, 0},
};

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

static clef_value *llama_build(clef_builder *b)
{
    clef_graph *g = b->g;
    clef_value *x = clef__embed(b);
    for (b->layer = 0; b->layer < b->hp->n_layers; b->layer++) {
        clef_scope_push(g, "layer%d", b->layer);
        x = clef_add(g, x, attention(b, clef__rms_norm(b, x, CLEF_W_ATTN_NORM)));
        x = clef_add(g, x, clef__gated_feed_forward(b, clef__rms_norm(b, x, CLEF_W_FFN_NORM)));
        clef_named(x, "out");
        clef_scope_pop(g);
    }
    return clef__lm_head(b, clef__rms_norm(b, clef__wanted_positions(b, x), CLEF_W_OUT_NORM));
}

/* Sliding windows. transformers' Qwen2Config has a switch and a first layer; Mistral's window holds for every layer; llama has none. Both
 * classes' default is 4096, and null is none. */
static void read_window(clef_json_fields *f, clef_hparams *hp)
{
    const int is_qwen = strncmp(hp->arch, "qwen", 4) == 0, is_mistral = strcmp(hp->arch, "mistral") == 0;
    const int32_t missing = json_object_get(f->object, "sliding_window") ? 0 : 4096;
    int32_t first = 0;
    if (is_mistral || (is_qwen && clef__json_bool(f, "use_sliding_window", 0)))
        hp->sliding_window = (int32_t)clef__json_int(f, "sliding_window", 0, CLEF_MAX_CONTEXT, missing);
    if (is_qwen)
        first = (int32_t)clef__json_int(f, "max_window_layers", 0, INT32_MAX, 28);
    if (!clef__json_layer_types(f, hp, NULL) && hp->sliding_window > 0)
        clef__slide_layers(hp, first, 1);
    for (int32_t i = 0; i < hp->n_layers && f->status == CLEF_OK && hp->sliding_window == 0; i++)
        if (clef__layer_slides(hp, i))
            f->status = clef__fail(f->err, CLEF_E_FORMAT,
                                   "%s: layer_types wants sliding_attention in layer %d, but no sliding_window is in use", f->file, i);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_rope(f, hp, 10000, 1);
    read_window(f, hp);
}

const clef_arch clef__arch_llama = {
    .names = llama_names,
    .weights = llama_weights,
    .hf_prefix = "model.",
    .gguf_pairs = 1,
    .read_json = read_json,
    .build = llama_build,
};

const clef_arch clef__arch_qwen = {
    .names = qwen_names,
    .weights = llama_weights,
    .hf_prefix = "model.",
    .read_json = read_json,
    .build = llama_build,
};

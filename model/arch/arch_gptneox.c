/* GPT-NeoX (arXiv:2204.06745) and Pythia (arXiv:2304.01373): layer norms, RoPE over a quarter of each head,
 * attention and feed-forward side by side. */
#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias gptneox_names[] = {{"gpt_neox", "gptneox", 0, 2}, {NULL, NULL, 0, 0}};

static const clef_weight_name gptneox_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = {"embed_in", "token_embd"},
    [CLEF_W_ATTN_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [CLEF_W_ATTN_QKV] = {"layers.%d.attention.query_key_value", "blk.%d.attn_qkv"},
    [CLEF_W_ATTN_OUT] = {"layers.%d.attention.dense", "blk.%d.attn_output"},
    [CLEF_W_FFN_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    [CLEF_W_FFN_UP] = {"layers.%d.mlp.dense_h_to_4h", "blk.%d.ffn_up"},
    [CLEF_W_FFN_DOWN] = {"layers.%d.mlp.dense_4h_to_h", "blk.%d.ffn_down"},
    [CLEF_W_OUT_NORM] = {"final_layer_norm", "output_norm"},
    [CLEF_W_OUT] = {"embed_out", "output"},
};

/* A folder has q, k and v of each head together; GGUF all of q first. */
static clef_value *attention(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model;
    const clef_qkv h = clef__split_qkv(b, clef__linear(b, x, CLEF_W_ATTN_QKV, d, 3 * d),
                                       b->model->is_gguf ? CLEF_QKV_PARTS : CLEF_QKV_GROUPS);
    return clef__linear(b, clef__self_attention(b, clef__rope(b, h.q), clef__rope(b, h.k), h.v),
                        CLEF_W_ATTN_OUT, d, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    clef_value *y = clef_add(g, x, attention(b, clef__layer_norm(b, x, CLEF_W_ATTN_NORM)));
    clef_value *ff =
        clef__feed_forward(b, clef__layer_norm(b, b->hp->parallel_residual ? x : y, CLEF_W_FFN_NORM));
    return clef_add(g, y, ff);
}

static clef_value *build(clef_builder *b)
{
    return clef__decoder(b, clef__embed(b), layer);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    hp->parallel_residual = clef__json_bool(f, "use_parallel_residual", 1);
    clef__json_activation(f, hp, "hidden_act", "gelu");
    clef__json_rope(f, hp, clef__json_double(f, "rotary_emb_base", 1, 1e12, 10000),
                    clef__json_double(f, "rotary_pct", 0, 1, 0.25));
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->activation = CLEF_GELU;
    hp->parallel_residual = clef__key_int(k, "use_parallel_residual", 0, 1, 1);
}

const clef_arch clef__arch_gptneox = {
    .names = gptneox_names,
    .weights = gptneox_weights,
    .hf_prefix = "gpt_neox.",
    .hf_grouped = 1,
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = build,
};

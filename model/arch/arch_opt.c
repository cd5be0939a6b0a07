/* OPT (arXiv:2205.01068): GPT-2's block with ReLU; the first two rows of the table of positions are
 * unused. */
#include "model/arch/layers.h"

static const clef_arch_alias opt_names[] = {{"opt", "opt", 2, 2}, {NULL, NULL, 0, 0}};

static const char *const opt_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embed_tokens",
    [CLEF_W_POSITIONS] = "embed_positions",
    [CLEF_W_ATTN_NORM] = "layers.%d.self_attn_layer_norm",
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj",
    [CLEF_W_ATTN_K] = "layers.%d.self_attn.k_proj",
    [CLEF_W_ATTN_V] = "layers.%d.self_attn.v_proj",
    [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.out_proj",
    [CLEF_W_FFN_NORM] = "layers.%d.final_layer_norm",
    [CLEF_W_FFN_UP] = "layers.%d.fc1",
    [CLEF_W_FFN_DOWN] = "layers.%d.fc2",
    [CLEF_W_OUT_NORM] = "final_layer_norm",
    [CLEF_W_OUT] = "lm_head",
};

enum { POSITION_OFFSET = 2 };

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef_add(b->g, clef__embed(b), clef__learned_positions(b));
    return clef__decoder(b, clef__name_value(b, x, "embed.sum"), clef__plain_layer);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_need_int(f, "ffn_dim", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    hp->n_kv_heads = hp->n_heads;
    hp->norm_eps = 1e-5f; /* PyTorch's LayerNorm; the configuration has no key for it */
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "activation_function", "relu");
    hp->position_offset = POSITION_OFFSET;
    clef__json_head_dim(f, hp);
    clef__json_refuse_flag(f, "do_layer_norm_before", 1, 1);
    clef__json_refuse_flag(f, "_remove_final_layer_norm", 0, 0);
    if (clef__json_int(f, "word_embed_proj_dim", 1, CLEF_MAX_WIDTH, hp->d_model) != hp->d_model)
        clef__json_refuse(f, "word_embed_proj_dim other than hidden_size is not supported");
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->position_offset = POSITION_OFFSET;
    hp->rope.dims = 0;
}

const clef_arch clef__arch_opt = {
    .names = opt_names,
    .weights = {.hf = opt_weights},
    .hf_prefix = "model.decoder.",
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_RELU,
    .build = build,
};

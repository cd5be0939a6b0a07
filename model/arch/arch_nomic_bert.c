/* Nomic BERT (arXiv:2402.01613): BERT's post-norm blocks with rotary positions, SwiGLU, and biases in the
 * norms only. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias nomic_names[] = {{"nomic_bert", "nomic-bert", -1, -1}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {{CLEF_W_ATTN_POST_NORM, "blk.%d.attn_output_norm"},
                                            {CLEF_W_FFN_POST_NORM, "blk.%d.layer_output_norm"},
                                            {0, NULL}};

static const char *const nomic_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embeddings.word_embeddings",
    [CLEF_W_EMBED_TYPES] = "embeddings.token_type_embeddings",
    [CLEF_W_EMBED_NORM] = "emb_ln",
    [CLEF_W_ATTN_QKV] = "encoder.layers.%d.attn.Wqkv",
    [CLEF_W_ATTN_OUT] = "encoder.layers.%d.attn.out_proj",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layers.%d.norm1",
    [CLEF_W_FFN_UP] = "encoder.layers.%d.mlp.fc11",
    [CLEF_W_FFN_GATE] = "encoder.layers.%d.mlp.fc12",
    [CLEF_W_FFN_DOWN] = "encoder.layers.%d.mlp.fc2",
    [CLEF_W_FFN_POST_NORM] = "encoder.layers.%d.norm2",
    [CLEF_W_HEAD_DENSE] = "/cls.predictions.transform.dense",
    [CLEF_W_HEAD_NORM] = "/cls.predictions.transform.layer_norm",
    [CLEF_W_OUT] = "cls.predictions",
};

static clef_value *embeddings(clef_builder *b)
{
    clef_graph *g = b->g;
    clef_value *x = clef__embed(b);
    if (b->hp->n_token_types > 0) {
        const clef_shape shape = clef_shape_2(clef_n(b->hp->n_token_types), clef_n(b->hp->d_model));
        clef_value *types = clef__role_weight_shaped(b, CLEF_W_EMBED_TYPES, "weight", shape);
        x = clef_add(g, x,
                     b->types ? clef_gather(g, types, b->types, NULL)
                              : clef_slice(g, types, &(clef_slice_opts){.axis = 0, .size = clef_n(1)}));
    }
    return clef__norm(b, x, CLEF_W_EMBED_NORM);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__post_norm_layer(b, x, clef__layer_attention, clef__gated_feed_forward);
}

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__layers(b, embeddings(b), b->hp->n_layers, layer);
    clef_named(x, "/hidden_last");
    return b->no_head ? x : clef__masked_lm_head(b, x);
}

/* The configuration of the model's own code has GPT-2's keys. */
static void read_own_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_gpt2_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-12);
    const char *activation = clef__json_string(f, "activation_function", "swiglu");
    if (activation && strcmp(activation, "swiglu") != 0)
        clef__json_refuse(f, "activation_function other than swiglu is not supported");
    if (clef__json_has(f, "rotary_scaling_factor"))
        clef__json_refuse(f, "rotary_scaling_factor is not supported");
    clef__json_refuse_flag(f, "prenorm", 0, 0);
    clef__json_refuse_flag(f, "use_rms_norm", 0, 0);
    clef__json_refuse_flag(f, "rotary_emb_interleaved", 0, 0);
    if (clef__json_int(f, "moe_every_n_layers", 0, CLEF_MAX_LAYERS, 0) != 0)
        clef__json_refuse(f, "moe_every_n_layers is not supported");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    if (clef__json_has(f, "n_embd")) {
        read_own_json(f, hp);
    } else {
        clef__json_sizes(f, hp);
        hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-12);
        clef__json_activation(f, hp, "hidden_act", "silu");
    }
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->n_token_types = (int32_t)clef__json_int(f, "type_vocab_size", 0, CLEF_MAX_WIDTH, 2);
    clef__json_partial_rope(f, hp, clef__json_double(f, "rotary_emb_base", 1, 1e12, 1000),
                            clef__json_double(f, "rotary_emb_fraction", 0, 1, 1));
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->tied_embeddings = 1;
}

const clef_arch clef__arch_nomic_bert = {
    .names = nomic_names,
    .kind = CLEF_ENCODER,
    .weights = {.hf = nomic_weights, .gguf = gguf_names},
    .hf_prefix = "nomic_bert.",
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = build,
};

/* ModernBERT (arXiv:2412.13663): a pre-norm encoder with rotary positions and gates, without biases. Every
 * third layer has full attention, the others a window to both sides; each kind has its own RoPE. The first
 * block uses the norm of the embeddings. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias modernbert_names[] = {{"modernbert", "modern-bert", -1, -1}, {NULL, NULL, 0, 0}};

static const char *const modernbert_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embeddings.tok_embeddings",
    [CLEF_W_EMBED_NORM] = "embeddings.norm",
    [CLEF_W_ATTN_NORM] = "layers.%d.attn_norm",
    [CLEF_W_ATTN_QKV] = "layers.%d.attn.Wqkv",
    [CLEF_W_ATTN_OUT] = "layers.%d.attn.Wo",
    [CLEF_W_FFN_NORM] = "layers.%d.mlp_norm",
    [CLEF_W_FFN_UP] = "layers.%d.mlp.Wi",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.Wo",
    [CLEF_W_OUT_NORM] = "final_norm",
    [CLEF_W_HEAD_DENSE] = "/head.dense",
    [CLEF_W_HEAD_NORM] = "/head.norm",
    [CLEF_W_OUT] = "decoder",
};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_value *y = b->layer == 0 ? x : clef__norm(b, x, CLEF_W_ATTN_NORM);
    x = clef__add_residual(b, x, clef__layer_attention(b, y), "attn_residual");
    y = clef__joint_gated_feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM));
    return clef__add_residual(b, x, y, "mlp_residual");
}

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__norm(b, clef__embed(b), CLEF_W_EMBED_NORM);
    x = clef__norm(b, clef__layers(b, x, b->hp->n_layers, layer), CLEF_W_OUT_NORM);
    clef_named(x, "/hidden_last");
    if (b->no_head)
        return x;
    clef_hparams own = *b->hp; /* the head has its own activation */
    const clef_hparams *hp = b->hp;
    own.activation = clef__classifier_activation(b);
    b->hp = &own;
    x = clef__masked_lm_head(b, x);
    b->hp = hp;
    return x;
}

/* Both files state the whole window with its middle: a token sees local / 2 others on each side. */
static void set_window(clef_hparams *hp, int32_t local, int32_t full_every)
{
    hp->sliding_window = local / 2 + 1;
    clef__slide_but(hp, 0, full_every);
}

static const clef_layer_ropes rope_keys = {.full_key = "global_rope_theta",
                                           .sliding_key = "local_rope_theta",
                                           .full_theta = 160000,
                                           .sliding_theta = 10000,
                                           .scale_both = 1};

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "hidden_activation", "gelu");
    clef__json_layer_ropes(f, hp, &rope_keys);
    const int32_t local = (int32_t)clef__json_int(f, "local_attention", 1, CLEF_MAX_CONTEXT, 128);
    set_window(hp, local, (int32_t)clef__json_int(f, "global_attn_every_n_layers", 1, CLEF_MAX_LAYERS, 3));
    clef__json_layer_types(f, hp, NULL);
    if (clef__json_get(f, "sliding_window") &&
        clef__json_need_int(f, "sliding_window", 1, CLEF_MAX_CONTEXT) != local / 2)
        clef__json_refuse(f, "sliding_window: expected half of local_attention");
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->tied_embeddings = 1;
    if (hp->sliding_window == 0) {
        hp->rope_sliding = (clef_rope_params){0};
        return;
    }
    hp->sliding_window = hp->sliding_window / 2 + 1;
    clef__key_windows(k, hp, 0, 3);
    hp->rope_sliding = (clef_rope_params){.dims = hp->rope.dims,
                                          .theta = clef__key_float(k, "rope.freq_base_swa", 1, 1e12, 10000)};
}

const clef_arch clef__arch_modernbert = {
    .names = modernbert_names,
    .kind = CLEF_ENCODER,
    .weights = {.hf = modernbert_weights},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_GELU,
    .build = build,
};

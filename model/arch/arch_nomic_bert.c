/* Encoders with BERT's post-norm blocks and rotary positions: Nomic BERT (arXiv:2402.01613; SwiGLU, and
 * biases in the norms only), GTE (arXiv:2407.19669; gates), Jina embeddings 3 (arXiv:2409.10173) and RoFormer
 * (arXiv:2104.09864). */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias nomic_names[] = {{"nomic_bert", "nomic-bert", -1, -1}, {NULL, NULL, 0, 0}};

static const clef_arch_alias gte_names[] = {{"gte", "gte", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias jina_names[] = {{"jina_embeddings_v3", "jina_embeddings_v3", 0, 2},
                                             {NULL, NULL, 0, 0}};
static const clef_arch_alias roformer_names[] = {{"roformer", "roformer", -1, -1}, {NULL, NULL, 0, 0}};

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

static const char *const gte_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embeddings.word_embeddings",
    [CLEF_W_EMBED_TYPES] = "embeddings.token_type_embeddings",
    [CLEF_W_EMBED_NORM] = "embeddings.LayerNorm",
    [CLEF_W_ATTN_QKV] = "encoder.layer.%d.attention.qkv_proj",
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.o_proj",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layer.%d.attn_ln",
    [CLEF_W_FFN_UP] = "encoder.layer.%d.mlp.up_proj",
    [CLEF_W_FFN_GATE] = "encoder.layer.%d.mlp.gate_proj",
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.mlp.down_proj",
    [CLEF_W_FFN_POST_NORM] = "encoder.layer.%d.mlp_ln",
    [CLEF_W_HEAD_DENSE] = "/lm_head.dense",
    [CLEF_W_HEAD_NORM] = "/lm_head.norm",
    [CLEF_W_OUT] = "lm_head.decoder",
};
static const clef_join_rule gte_joins[] = {
    {&clef__join_rows, ".mlp.up_gate_proj.weight", NULL, ".mlp.up_proj.weight", 0, 2},
    {&clef__join_rows, ".mlp.up_gate_proj.weight", NULL, ".mlp.gate_proj.weight", 1, 2},
    {NULL, NULL, NULL, NULL, 0, 0}};

static const char *const jina_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embeddings.word_embeddings",
    [CLEF_W_EMBED_TYPES] = "embeddings.token_type_embeddings",
    [CLEF_W_EMBED_NORM] = "emb_ln",
    [CLEF_W_ATTN_QKV] = "encoder.layers.%d.mixer.Wqkv",
    [CLEF_W_ATTN_OUT] = "encoder.layers.%d.mixer.out_proj",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layers.%d.norm1",
    [CLEF_W_FFN_UP] = "encoder.layers.%d.mlp.fc1",
    [CLEF_W_FFN_DOWN] = "encoder.layers.%d.mlp.fc2",
    [CLEF_W_FFN_POST_NORM] = "encoder.layers.%d.norm2",
    [CLEF_W_HEAD_DENSE] = "/lm_head.dense",
    [CLEF_W_HEAD_NORM] = "/lm_head.layer_norm",
    [CLEF_W_OUT] = "lm_head",
};

static const char *const roformer_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embeddings.word_embeddings",
    [CLEF_W_EMBED_TYPES] = "embeddings.token_type_embeddings",
    [CLEF_W_EMBED_NORM] = "embeddings.LayerNorm",
    [CLEF_W_EMBED_PROJECTION] = "embeddings_project",
    [CLEF_W_ATTN_Q] = "encoder.layer.%d.attention.self.query",
    [CLEF_W_ATTN_K] = "encoder.layer.%d.attention.self.key",
    [CLEF_W_ATTN_V] = "encoder.layer.%d.attention.self.value",
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.output.dense",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layer.%d.attention.output.LayerNorm",
    [CLEF_W_FFN_UP] = "encoder.layer.%d.intermediate.dense",
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.output.dense",
    [CLEF_W_FFN_POST_NORM] = "encoder.layer.%d.output.LayerNorm",
    [CLEF_W_HEAD_DENSE] = "/cls.predictions.transform.dense",
    [CLEF_W_HEAD_NORM] = "/cls.predictions.transform.LayerNorm",
    [CLEF_W_OUT] = "cls.predictions",
};

static clef_value *embeddings(clef_builder *b)
{
    clef_graph *g = b->g;
    const int32_t d = b->hp->d_model, width = b->hp->d_embed ? b->hp->d_embed : d;
    clef_value *x = clef__embed(b);
    if (b->hp->n_token_types > 0) {
        const clef_shape shape = clef_shape_2(clef_n(b->hp->n_token_types), clef_n(width));
        clef_value *types = clef__role_weight_shaped(b, CLEF_W_EMBED_TYPES, "weight", shape);
        x = clef_add(g, x,
                     b->types ? clef_gather(g, types, b->types, NULL)
                              : clef_slice(g, types, &(clef_slice_opts){.axis = 0, .size = clef_n(1)}));
    }
    x = clef__norm(b, x, CLEF_W_EMBED_NORM);
    return width == d ? x : clef__linear(b, x, CLEF_W_EMBED_PROJECTION, width, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    const int is_gated = b->weights->hf[CLEF_W_FFN_GATE] != NULL;
    return clef__post_norm_layer(b, x, clef__layer_attention,
                                 is_gated ? clef__gated_feed_forward : clef__feed_forward);
}

/* GTE's and Jina's have GELU, whatever the layers have. */
static clef_value *head(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    clef_hparams own = *hp;
    if (b->arch == &clef__arch_gte || b->arch == &clef__arch_jina)
        own.activation = CLEF_GELU;
    b->hp = &own;
    x = clef__masked_lm_head(b, x);
    b->hp = hp;
    return x;
}

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__layers(b, embeddings(b), b->hp->n_layers, layer);
    clef_named(x, "/hidden_last");
    return b->no_head ? x : head(b, x);
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

/* ---- GTE, Jina, RoFormer ---------------------------------------------------------------------- */

static void read_bert_json(clef_json_fields *f, clef_hparams *hp, double eps, int32_t n_types)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, eps);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->n_token_types = (int32_t)clef__json_int(f, "type_vocab_size", 0, CLEF_MAX_WIDTH, n_types);
    clef__json_activation(f, hp, "hidden_act", "gelu");
}

static void gte_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_bert_json(f, hp, 1e-12, 1);
    clef__json_rope(f, hp, 160000);
}

static void jina_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_bert_json(f, hp, 1e-5, 1);
    clef__json_rope(f, hp, 20000);
}

static void roformer_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_bert_json(f, hp, 1e-12, 2);
    hp->d_embed = (int32_t)clef__json_int(f, "embedding_size", 1, CLEF_MAX_WIDTH, hp->d_model);
    clef__json_refuse_flag(f, "rotary_value", 0, 0);
    clef__json_refuse_flag(f, "is_decoder", 0, 0);
    hp->rope = (clef_rope_params){.dims = hp->head_dim, .pairing = CLEF_ROPE_INTERLEAVED, .theta = 10000};
}

static void roformer_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_tensor_info *embedding = clef__gguf_tensor(k->gguf, "token_embd.weight");
    read_gguf(k, hp);
    if (embedding && embedding->dims[1] != hp->d_model)
        hp->d_embed = (int32_t)embedding->dims[1];
}

#define ENCODER(family, prefix, ...)                                                                         \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .kind = CLEF_ENCODER,                                             \
                                           .weights = {.hf = family##_weights, .gguf = gguf_names},          \
                                           .hf_prefix = prefix,                                              \
                                           .layer_norms = 1,                                                 \
                                           .read_json = family##_read_json,                                  \
                                           .gguf_activation = CLEF_GELU,                                     \
                                           .build = build,                                                   \
                                           __VA_ARGS__};

ENCODER(gte, "gte.", .joins = gte_joins, .read_gguf = read_gguf)
ENCODER(jina, "roberta.", .read_gguf = read_gguf)
ENCODER(roformer, "roformer.", .read_gguf = roformer_read_gguf, .gguf_pairing = CLEF_ROPE_INTERLEAVED)

/* BERT (arXiv:1810.04805) and encoders like it: RoBERTa (1907.11692), XLM-R (1911.02116), ELECTRA
 * (2003.10555), DistilBERT (1910.01108), MPNet (2004.09297), ALBERT (1909.11942). They have normed embeddings
 * of tokens, positions and types, and post-norm blocks. They differ in names and in what a file has: ELECTRA
 * and ALBERT project narrow embeddings, MPNet has relative positions, ALBERT uses one layer everywhere. */
#include <inttypes.h>
#include <string.h>

#include "model/arch/layers.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const clef_gguf_name gguf_names[] = {{CLEF_W_RELATIVE, "attn_rel_b"},
                                            {CLEF_W_ATTN_POST_NORM, "blk.%d.attn_output_norm"},
                                            {CLEF_W_FFN_POST_NORM, "blk.%d.layer_output_norm"},
                                            {0, NULL}};

#define BERT_NAMES                                                                                           \
    [CLEF_W_EMBED] = "embeddings.word_embeddings", [CLEF_W_EMBED_NORM] = "embeddings.LayerNorm",             \
    [CLEF_W_EMBED_TYPES] = "embeddings.token_type_embeddings",                                               \
    [CLEF_W_POSITIONS] = "embeddings.position_embeddings"
#define BERT_LAYER_NAMES                                                                                     \
    [CLEF_W_ATTN_Q] = "encoder.layer.%d.attention.self.query",                                               \
    [CLEF_W_ATTN_K] = "encoder.layer.%d.attention.self.key",                                                 \
    [CLEF_W_ATTN_V] = "encoder.layer.%d.attention.self.value",                                               \
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.output.dense",                                           \
    [CLEF_W_ATTN_POST_NORM] = "encoder.layer.%d.attention.output.LayerNorm",                                 \
    [CLEF_W_FFN_UP] = "encoder.layer.%d.intermediate.dense",                                                 \
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.output.dense",                                                     \
    [CLEF_W_FFN_POST_NORM] = "encoder.layer.%d.output.LayerNorm"

static const char *const bert_weights[CLEF_N_ROLES] = {
    BERT_NAMES,
    BERT_LAYER_NAMES,
    [CLEF_W_HEAD_DENSE] = "/cls.predictions.transform.dense",
    [CLEF_W_HEAD_NORM] = "/cls.predictions.transform.LayerNorm",
    [CLEF_W_OUT] = "cls.predictions",
};

static const char *const roberta_weights[CLEF_N_ROLES] = {
    BERT_NAMES,
    BERT_LAYER_NAMES,
    [CLEF_W_HEAD_DENSE] = "/lm_head.dense",
    [CLEF_W_HEAD_NORM] = "/lm_head.layer_norm",
    [CLEF_W_OUT] = "lm_head",
};

static const char *const electra_weights[CLEF_N_ROLES] = {
    BERT_NAMES,
    BERT_LAYER_NAMES,
    [CLEF_W_EMBED_PROJECTION] = "embeddings_project",
    [CLEF_W_HEAD_DENSE] = "/generator_predictions.dense",
    [CLEF_W_HEAD_NORM] = "/generator_predictions.LayerNorm",
    [CLEF_W_OUT] = "generator_lm_head",
};

static const char *const distilbert_weights[CLEF_N_ROLES] = {
    BERT_NAMES,
    [CLEF_W_ATTN_Q] = "transformer.layer.%d.attention.q_lin",
    [CLEF_W_ATTN_K] = "transformer.layer.%d.attention.k_lin",
    [CLEF_W_ATTN_V] = "transformer.layer.%d.attention.v_lin",
    [CLEF_W_ATTN_OUT] = "transformer.layer.%d.attention.out_lin",
    [CLEF_W_ATTN_POST_NORM] = "transformer.layer.%d.sa_layer_norm",
    [CLEF_W_FFN_UP] = "transformer.layer.%d.ffn.lin1",
    [CLEF_W_FFN_DOWN] = "transformer.layer.%d.ffn.lin2",
    [CLEF_W_FFN_POST_NORM] = "transformer.layer.%d.output_layer_norm",
    [CLEF_W_HEAD_DENSE] = "/vocab_transform",
    [CLEF_W_HEAD_NORM] = "/vocab_layer_norm",
    [CLEF_W_OUT] = "vocab_projector",
};

static const char *const mpnet_weights[CLEF_N_ROLES] = {
    BERT_NAMES,
    [CLEF_W_RELATIVE] = "encoder.relative_attention_bias",
    [CLEF_W_ATTN_Q] = "encoder.layer.%d.attention.attn.q",
    [CLEF_W_ATTN_K] = "encoder.layer.%d.attention.attn.k",
    [CLEF_W_ATTN_V] = "encoder.layer.%d.attention.attn.v",
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.attn.o",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layer.%d.attention.LayerNorm",
    [CLEF_W_FFN_UP] = "encoder.layer.%d.intermediate.dense",
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.output.dense",
    [CLEF_W_FFN_POST_NORM] = "encoder.layer.%d.output.LayerNorm",
    [CLEF_W_HEAD_DENSE] = "/lm_head.dense",
    [CLEF_W_HEAD_NORM] = "/lm_head.layer_norm",
    [CLEF_W_OUT] = "lm_head",
};

#define ALBERT_LAYER "encoder.albert_layer_groups.0.albert_layers.0."
static const char *const albert_weights[CLEF_N_ROLES] = {
    BERT_NAMES,
    [CLEF_W_EMBED_PROJECTION] = "encoder.embedding_hidden_mapping_in",
    [CLEF_W_ATTN_Q] = ALBERT_LAYER "attention.query",
    [CLEF_W_ATTN_K] = ALBERT_LAYER "attention.key",
    [CLEF_W_ATTN_V] = ALBERT_LAYER "attention.value",
    [CLEF_W_ATTN_OUT] = ALBERT_LAYER "attention.dense",
    [CLEF_W_ATTN_POST_NORM] = ALBERT_LAYER "attention.LayerNorm",
    [CLEF_W_FFN_UP] = ALBERT_LAYER "ffn",
    [CLEF_W_FFN_DOWN] = ALBERT_LAYER "ffn_output",
    [CLEF_W_FFN_POST_NORM] = ALBERT_LAYER "full_layer_layer_norm",
    [CLEF_W_HEAD_DENSE] = "/predictions.dense",
    [CLEF_W_HEAD_NORM] = "/predictions.LayerNorm",
    [CLEF_W_OUT] = "predictions",
};

/* ---- the graph ------------------------------------------------------------------------------- */

static clef_value *embeddings(clef_builder *b)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t width = hp->d_embed ? hp->d_embed : hp->d_model;
    clef_value *x = clef__embed(b);
    if (hp->n_token_types > 0) {
        clef_value *types = clef__role_weight_shaped(b, CLEF_W_EMBED_TYPES, "weight",
                                                     clef_shape_2(clef_n(hp->n_token_types), clef_n(width)));
        x = clef_add(g, x,
                     b->types ? clef_gather(g, types, b->types, NULL)
                              : clef_slice(g, types, &(clef_slice_opts){.axis = 0, .size = clef_n(1)}));
    }
    x = clef__name_value(b, clef_add(g, x, clef__learned_positions(b)), "embed.sum");
    x = clef__norm(b, x, CLEF_W_EMBED_NORM);
    return width == hp->d_model ? x : clef__linear(b, x, CLEF_W_EMBED_PROJECTION, width, hp->d_model);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__post_norm_layer(b, x, clef__layer_attention, clef__feed_forward);
}

/* In some families the head has GELU, whatever the layers have. */
static clef_value *head(clef_builder *b, clef_value *x)
{
    static const char *const with_gelu[] = {"roberta", "xlm-roberta", "mpnet", "electra"};
    const clef_hparams *hp = b->hp;
    clef_hparams own = *hp;
    for (size_t i = 0; i < sizeof with_gelu / sizeof *with_gelu; i++)
        if (strcmp(hp->arch, with_gelu[i]) == 0)
            own.activation = CLEF_GELU;
    b->hp = &own;
    x = clef__masked_lm_head(b, x);
    b->hp = hp;
    return x;
}

static clef_value *build(clef_builder *b)
{
    clef_value *x = embeddings(b);
    if (b->hp->n_buckets > 0)
        clef__relative_bias(b, CLEF_W_RELATIVE, 1);
    x = clef_named(clef__layers(b, x, b->hp->n_layers, layer), "/hidden_last");
    return b->no_head ? x : head(b, x);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-12);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->n_token_types = (int32_t)clef__json_int(f, "type_vocab_size", 0, CLEF_MAX_WIDTH, 2);
    clef__json_activation(f, hp, "hidden_act", strcmp(hp->arch, "albert") == 0 ? "gelu_new" : "gelu");
    if (strcmp(clef__json_string(f, "position_embedding_type", "absolute"), "absolute") != 0)
        clef__json_refuse(f, "position_embedding_type other than absolute is not supported");
    clef__json_refuse_flag(f, "is_decoder", 0, 0);
}

/* RoBERTa's positions start after the padding id, so its table has that many rows more. */
static void offset_positions(clef_json_fields *f, clef_hparams *hp, int32_t pad)
{
    hp->position_offset = pad + 1;
    if (f->status == CLEF_OK && hp->position_offset >= hp->n_context)
        f->status = clef__fail(f->err, CLEF_E_FORMAT,
                               "%s: max_position_embeddings %" PRId32 ", expected more than %" PRId32
                               ": the padding id and what is before it have no positions",
                               f->file, hp->n_context, hp->position_offset);
    hp->n_context -= hp->position_offset;
}

static void roberta_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_json(f, hp);
    offset_positions(f, hp, (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_CONTEXT - 1, 1));
}

static void mpnet_read_json(clef_json_fields *f, clef_hparams *hp)
{
    enum { MAX_DISTANCE = 128 };
    read_json(f, hp);
    offset_positions(f, hp, 1); /* whatever pad_token_id says */
    hp->n_token_types = 0;
    hp->n_buckets = (int32_t)clef__json_int(f, "relative_attention_num_buckets", 4, 4 * MAX_DISTANCE - 1, 32);
    hp->max_distance = MAX_DISTANCE;
}

static void electra_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_json(f, hp);
    hp->d_embed = (int32_t)clef__json_int(f, "embedding_size", 1, CLEF_MAX_WIDTH, 128);
}

static void albert_read_json(clef_json_fields *f, clef_hparams *hp)
{
    electra_read_json(f, hp);
    if (clef__json_int(f, "num_hidden_groups", 1, CLEF_MAX_LAYERS, 1) != 1 ||
        clef__json_int(f, "inner_group_num", 1, CLEF_MAX_LAYERS, 1) != 1)
        clef__json_refuse(f, "num_hidden_groups and inner_group_num other than 1 are not supported");
}

static void distilbert_read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_need_int(f, "dim", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_need_int(f, "hidden_dim", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "n_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "n_heads", 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    hp->n_kv_heads = hp->n_heads;
    hp->norm_eps = 1e-12f; /* only its code has the value */
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "activation", "gelu");
    clef__json_head_dim(f, hp);
}

/* GGUF's bert has a key for the number of token types, and none for the activation. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    enum { REACH = 128 };
    const clef_tensor_info *embedding = clef__gguf_tensor(k->gguf, "token_embd.weight");
    const int is_tanh = clef__key_int(k, "activation_gelu_tanh", 0, 1, strcmp(hp->arch, "albert") == 0);
    hp->activation = is_tanh ? CLEF_GELU_TANH : CLEF_GELU;
    hp->tied_embeddings = 1;
    hp->max_distance = hp->n_buckets > 0 ? REACH : 0;
    if (embedding && embedding->dims[1] != hp->d_model)
        hp->d_embed = (int32_t)embedding->dims[1];
    hp->rope.dims = 0;
}

/* older: a name in GGUF that is read, but no longer written. */
#define ENCODER(family, model_type, architecture, older, weight_names, prefix, reader)                       \
    static const clef_arch_alias family##_names[] = {                                                        \
        {model_type, architecture, -1, -1}, {NULL, older, -1, -1}, {NULL, NULL, 0, 0}};                      \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .kind = CLEF_ENCODER,                                             \
                                           .weights = {.hf = weight_names, .gguf = gguf_names},              \
                                           .hf_prefix = prefix,                                              \
                                           .layer_norms = 1,                                                 \
                                           .written_as = "bert",                                             \
                                           .read_json = reader,                                              \
                                           .read_gguf = read_gguf,                                           \
                                           .build = build};

ENCODER(bert, "bert", "bert", NULL, bert_weights, "bert.", read_json)
ENCODER(roberta, "roberta", NULL, NULL, roberta_weights, "roberta.", roberta_read_json)
ENCODER(xlm_roberta, "xlm-roberta", NULL, NULL, roberta_weights, "roberta.", roberta_read_json)
ENCODER(electra, "electra", "electra", NULL, electra_weights, "electra.", electra_read_json)
ENCODER(distilbert, "distilbert", NULL, "distilbert", distilbert_weights, "distilbert.", distilbert_read_json)
ENCODER(mpnet, "mpnet", "mpnet", NULL, mpnet_weights, "mpnet.", mpnet_read_json)
ENCODER(albert, "albert", "albert", NULL, albert_weights, "albert.", albert_read_json)

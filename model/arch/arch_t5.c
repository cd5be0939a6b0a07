/* T5 (arXiv:1910.10683) and its v1.1 and Flan forms (2210.11416): RMS norms before each block, relative
 * position biases that all layers of a stack share with the first, unscaled scores; a ReLU or a gated
 * GELU. */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_gguf_name gguf_names[] = {{CLEF_W_ATTN_OUT, "blk.%d.attn_o"}, {0, NULL}};

#define STACK_NAMES(stack, ffn, first)                                                                       \
    [CLEF_W_EMBED] = "shared",                                                                               \
    [CLEF_W_RELATIVE] = stack ".block." first ".layer.0.SelfAttention.relative_attention_bias",              \
    [CLEF_W_ATTN_NORM] = stack ".block.%d.layer.0.layer_norm",                                               \
    [CLEF_W_ATTN_Q] = stack ".block.%d.layer.0.SelfAttention.q",                                             \
    [CLEF_W_ATTN_K] = stack ".block.%d.layer.0.SelfAttention.k",                                             \
    [CLEF_W_ATTN_V] = stack ".block.%d.layer.0.SelfAttention.v",                                             \
    [CLEF_W_ATTN_OUT] = stack ".block.%d.layer.0.SelfAttention.o",                                           \
    [CLEF_W_FFN_NORM] = stack ".block.%d.layer." ffn ".layer_norm",                                          \
    [CLEF_W_FFN_GATE] = stack ".block.%d.layer." ffn ".DenseReluDense.wi_0",                                 \
    [CLEF_W_FFN_DOWN] = stack ".block.%d.layer." ffn ".DenseReluDense.wo",                                   \
    [CLEF_W_OUT_NORM] = stack ".final_layer_norm"
#define CROSS_NAMES                                                                                          \
    [CLEF_W_CROSS_NORM] = "decoder.block.%d.layer.1.layer_norm",                                             \
    [CLEF_W_CROSS_Q] = "decoder.block.%d.layer.1.EncDecAttention.q",                                         \
    [CLEF_W_CROSS_K] = "decoder.block.%d.layer.1.EncDecAttention.k",                                         \
    [CLEF_W_CROSS_V] = "decoder.block.%d.layer.1.EncDecAttention.v",                                         \
    [CLEF_W_CROSS_OUT] = "decoder.block.%d.layer.1.EncDecAttention.o", [CLEF_W_OUT] = "lm_head"

/* Files have wi alone, the matrix before the activation; or wi_0, the gate, and wi_1. */
static const char *const encoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("encoder", "1", "0"),
    [CLEF_W_FFN_UP] = "encoder.block.%d.layer.1.DenseReluDense.wi",
    [CLEF_W_FFN_UP_GATED] = "encoder.block.%d.layer.1.DenseReluDense.wi_1",
};
static const char *const decoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("decoder", "2", "0"),
    CROSS_NAMES,
    [CLEF_W_FFN_UP] = "decoder.block.%d.layer.2.DenseReluDense.wi",
    [CLEF_W_FFN_UP_GATED] = "decoder.block.%d.layer.2.DenseReluDense.wi_1",
};

/* In umT5 (arXiv:2304.09151) each layer has its own biases. */
static const char *const umt5_encoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("encoder", "1", "%d"),
    [CLEF_W_FFN_UP] = "encoder.block.%d.layer.1.DenseReluDense.wi",
    [CLEF_W_FFN_UP_GATED] = "encoder.block.%d.layer.1.DenseReluDense.wi_1",
};
static const char *const umt5_decoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("decoder", "2", "%d"),
    CROSS_NAMES,
    [CLEF_W_FFN_UP] = "decoder.block.%d.layer.2.DenseReluDense.wi",
    [CLEF_W_FFN_UP_GATED] = "decoder.block.%d.layer.2.DenseReluDense.wi_1",
};

static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    if (!b->hp->gated)
        return clef__feed_forward(b, x);
    clef_value *gate = clef__linear(b, x, CLEF_W_FFN_GATE, d, d_ff);
    return clef__gated_down(b, gate, clef__linear(b, x, CLEF_W_FFN_UP_GATED, d, d_ff));
}

/* llama.cpp's files of both have one name. */
static int is_umt5(const clef_builder *b)
{
    return b->arch == &clef__arch_umt5 ||
           (b->is_gguf && clef__model_find(b->model, "enc.blk.1.attn_rel_b.weight"));
}

static clef_value *encoder_layer(clef_builder *b, clef_value *x)
{
    if (is_umt5(b))
        clef__relative_bias(b, CLEF_W_RELATIVE, 1);
    return clef__sequential_layer(b, x, clef__layer_attention, feed_forward);
}

static clef_value *decoder_layer(clef_builder *b, clef_value *x)
{
    if (is_umt5(b))
        clef__relative_bias(b, CLEF_W_RELATIVE, 0);
    clef_value *y = clef__layer_attention(b, clef__norm(b, x, CLEF_W_ATTN_NORM));
    x = clef__add_residual(b, x, y, "attn_residual");
    y = clef__cross_attention(b, clef__norm(b, x, CLEF_W_CROSS_NORM));
    x = clef__add_residual(b, x, y, "cross_residual");
    return clef__add_residual(b, x, feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM)), "mlp_residual");
}

static clef_value *encode(clef_builder *b)
{
    clef_value *x = clef__embed(b);
    if (is_umt5(b))
        b->weights = &clef__arch_umt5.weights;
    else
        clef__relative_bias(b, CLEF_W_RELATIVE, 1);
    return clef__norm(b, clef__layers(b, x, b->hp->n_layers, encoder_layer), CLEF_W_OUT_NORM);
}

static clef_value *decode(clef_builder *b)
{
    clef_value *x = clef__embed(b);
    if (is_umt5(b))
        b->weights = &clef__arch_umt5.decoder_weights;
    else
        clef__relative_bias(b, CLEF_W_RELATIVE, 0);
    x = clef__norm(b, clef__layers(b, x, b->hp->n_decoder_layers, decoder_layer), CLEF_W_OUT_NORM);
    return clef__lm_head(b, clef__wanted_positions(b, x));
}

/* "relu", "gated-gelu": the gate's GELU is the tanh form. transformers' class saves what it makes of it in
 * dense_act_fn and is_gated_act, which win. */
static void read_activation(clef_json_fields *f, clef_hparams *hp)
{
    const char *kind =
        clef__json_string(f, "feed_forward_proj", strcmp(hp->arch, "t5") == 0 ? "relu" : "gated-gelu");
    if (f->status != CLEF_OK)
        return;
    const int is_gated = strncmp(kind, "gated-", strlen("gated-")) == 0;
    const char *act = is_gated ? kind + strlen("gated-") : kind;
    if (strchr(act, '-'))
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: feed_forward_proj %.40s is not supported",
                               f->file, kind);
    hp->gated = clef__json_bool(f, "is_gated_act", is_gated);
    clef__json_activation(f, hp, "dense_act_fn", is_gated && strcmp(act, "gelu") == 0 ? "gelu_new" : act);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    enum { REACH = 2048 }; /* positions are relative, so any length works; training used 512 */
    hp->d_model = (int32_t)clef__json_need_int(f, "d_model", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_need_int(f, "d_ff", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_layers", 1, CLEF_MAX_LAYERS);
    hp->n_decoder_layers = (int32_t)clef__json_int(f, "num_decoder_layers", 1, CLEF_MAX_LAYERS, hp->n_layers);
    hp->n_heads = (int32_t)clef__json_need_int(f, "num_heads", 1, CLEF_MAX_HEADS);
    hp->head_dim = (int32_t)clef__json_need_int(f, "d_kv", 1, CLEF_MAX_HEAD_DIM);
    hp->n_kv_heads = hp->n_heads;
    hp->n_context = REACH;
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-6);
    hp->n_buckets = (int32_t)clef__json_int(f, "relative_attention_num_buckets", 4, CLEF_MAX_WIDTH, 32);
    hp->max_distance = (int32_t)clef__json_int(f, "relative_attention_max_distance", hp->n_buckets / 2 + 1,
                                               CLEF_MAX_CONTEXT, 128);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_refuse_flag(f, "is_encoder_decoder", 1, 1);
    hp->attention_scale = 1;
    hp->pad = (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_VOCAB, 0);
    hp->decoder_start = (int32_t)clef__json_int(f, "decoder_start_token_id", 0, CLEF_MAX_VOCAB, hp->pad);
    const int is_mt5 = strcmp(hp->arch, "mt5") == 0;
    if (f->status == CLEF_OK && !is_mt5 && clef__json_bool(f, "scale_decoder_outputs", hp->tied_embeddings))
        hp->logit_scale = (float)(1 / sqrt(hp->d_model));
    read_activation(f, hp);
}

/* llama.cpp's form has no key for the kind of feed-forward: it is known by the gate's matrix. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    enum { REACH = 128 };
    const int32_t pad = (int32_t)clef__gguf_int(k->gguf, "tokenizer.ggml.padding_token_id", 0);
    clef__key_int(k, "attention.relative_buckets_count", 4, 2 * REACH - 1, CLEF_KEY_NEEDED);
    if (hp->n_decoder_layers == 0)
        hp->n_decoder_layers = hp->n_layers;
    hp->max_distance = REACH;
    hp->pad = pad >= 0 && pad < hp->n_vocab ? pad : 0;
    hp->decoder_start = clef__key_int(k, "decoder_start_token_id", 0, CLEF_MAX_VOCAB, hp->pad);
    hp->gated = clef__gguf_tensor(k->gguf, "enc.blk.0.ffn_gate.weight") != NULL;
    hp->activation = hp->gated ? CLEF_GELU_TANH : CLEF_RELU;
    hp->attention_scale = 1;
    hp->rope.dims = 0;
    if (hp->tied_embeddings && !hp->gated) /* the first T5; later forms have two matrices */
        hp->logit_scale = (float)(1 / sqrt(hp->d_model));
}

/* mT5 (arXiv:2010.11934) is T5 v1.1 for many languages. */
static const clef_arch_alias names[] = {{"t5", "t5", -1, 1}, {"mt5", NULL, -1, 1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias umt5_names[] = {{"umt5", NULL, -1, 1}, {NULL, NULL, 0, 0}};

const clef_arch clef__arch_t5 = {
    .names = names,
    .written_as = "t5",
    .kind = CLEF_SEQ2SEQ,
    .weights = {.hf = encoder_weights, .gguf = gguf_names, .gguf_prefix = "enc."},
    .decoder_weights = {.hf = decoder_weights, .gguf = gguf_names, .gguf_prefix = "dec."},
    .hf_prefix = "",
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = encode,
    .decode = decode,
};

const clef_arch clef__arch_umt5 = {
    .names = umt5_names,
    .written_as = "t5",
    .kind = CLEF_SEQ2SEQ,
    .weights = {.hf = umt5_encoder_weights, .gguf = gguf_names, .gguf_prefix = "enc."},
    .decoder_weights = {.hf = umt5_decoder_weights, .gguf = gguf_names, .gguf_prefix = "dec."},
    .hf_prefix = "",
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = encode,
    .decode = decode,
};

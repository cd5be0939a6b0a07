/* T5 (arXiv:1910.10683) and its v1.1 and Flan forms (2210.11416): RMS norms before each block, relative
 * position biases that the first layer of each stack has for all, no scale of the scores; a ReLU or a gated
 * GELU. */
#include <math.h>
#include <string.h>

#include "graph/value.h"
#include "model/arch/layers.h"

#define STACK_NAMES(stack, short_name, ffn)                                                                  \
    [CLEF_W_EMBED] = {"shared", "token_embd"},                                                               \
    [CLEF_W_RELATIVE] = {stack ".block.0.layer.0.SelfAttention.relative_attention_bias",                     \
                         short_name ".blk.0.attn_rel_b"},                                                    \
    [CLEF_W_ATTN_NORM] = {stack ".block.%d.layer.0.layer_norm", short_name ".blk.%d.attn_norm"},             \
    [CLEF_W_ATTN_Q] = {stack ".block.%d.layer.0.SelfAttention.q", short_name ".blk.%d.attn_q"},              \
    [CLEF_W_ATTN_K] = {stack ".block.%d.layer.0.SelfAttention.k", short_name ".blk.%d.attn_k"},              \
    [CLEF_W_ATTN_V] = {stack ".block.%d.layer.0.SelfAttention.v", short_name ".blk.%d.attn_v"},              \
    [CLEF_W_ATTN_OUT] = {stack ".block.%d.layer.0.SelfAttention.o", short_name ".blk.%d.attn_o"},            \
    [CLEF_W_FFN_NORM] = {stack ".block.%d.layer." ffn ".layer_norm", short_name ".blk.%d.ffn_norm"},         \
    [CLEF_W_FFN_GATE] = {stack ".block.%d.layer." ffn ".DenseReluDense.wi_0",                                \
                         short_name ".blk.%d.ffn_gate"},                                                     \
    [CLEF_W_FFN_DOWN] = {stack ".block.%d.layer." ffn ".DenseReluDense.wo", short_name ".blk.%d.ffn_down"},  \
    [CLEF_W_OUT_NORM] = {stack ".final_layer_norm", short_name ".output_norm"}
#define CROSS_NAMES                                                                                          \
    [CLEF_W_CROSS_NORM] = {"decoder.block.%d.layer.1.layer_norm", "dec.blk.%d.cross_attn_norm"},             \
    [CLEF_W_CROSS_Q] = {"decoder.block.%d.layer.1.EncDecAttention.q", "dec.blk.%d.cross_attn_q"},            \
    [CLEF_W_CROSS_K] = {"decoder.block.%d.layer.1.EncDecAttention.k", "dec.blk.%d.cross_attn_k"},            \
    [CLEF_W_CROSS_V] = {"decoder.block.%d.layer.1.EncDecAttention.v", "dec.blk.%d.cross_attn_v"},            \
    [CLEF_W_CROSS_OUT] = {"decoder.block.%d.layer.1.EncDecAttention.o", "dec.blk.%d.cross_attn_o"},          \
    [CLEF_W_OUT] = {"lm_head", "output"}

/* wi is the only matrix before the activation, or wi_1 what the gate wi_0 multiplies. */
static const clef_weight_name encoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("encoder", "enc", "1"),
    [CLEF_W_FFN_UP] = {"encoder.block.%d.layer.1.DenseReluDense.wi", "enc.blk.%d.ffn_up"},
    [CLEF_W_FFN_UP_GATED] = {"encoder.block.%d.layer.1.DenseReluDense.wi_1", "enc.blk.%d.ffn_up"},
};
static const clef_weight_name decoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("decoder", "dec", "2"),
    CROSS_NAMES,
    [CLEF_W_FFN_UP] = {"decoder.block.%d.layer.2.DenseReluDense.wi", "dec.blk.%d.ffn_up"},
    [CLEF_W_FFN_UP_GATED] = {"decoder.block.%d.layer.2.DenseReluDense.wi_1", "dec.blk.%d.ffn_up"},
};

static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    if (!b->hp->gated)
        return clef__feed_forward(b, x);
    clef_value *gate = clef__activation(b, clef__linear(b, x, CLEF_W_FFN_GATE, d, d_ff));
    return clef__linear(b, clef_mul(b->g, gate, clef__linear(b, x, CLEF_W_FFN_UP_GATED, d, d_ff)),
                        CLEF_W_FFN_DOWN, d_ff, d);
}

static clef_value *stack(clef_builder *b, int32_t n_layers, int is_decoder)
{
    clef_graph *g = b->g;
    clef_value *x = clef__embed(b);
    clef__relative_bias(b, CLEF_W_RELATIVE, !is_decoder);
    for (b->layer = 0; b->layer < n_layers; b->layer++) {
        clef_scope_push(g, "layer%d", b->layer);
        x = clef_add(g, x, clef__attention(b, clef__rms_norm(b, x, CLEF_W_ATTN_NORM)));
        if (is_decoder)
            x = clef_add(g, x, clef__cross_attention(b, clef__rms_norm(b, x, CLEF_W_CROSS_NORM)));
        x = clef_add(g, x, feed_forward(b, clef__rms_norm(b, x, CLEF_W_FFN_NORM)));
        clef_named(x, "out");
        clef_scope_pop(g);
    }
    return clef__rms_norm(b, x, CLEF_W_OUT_NORM);
}

static clef_value *encode(clef_builder *b)
{
    return stack(b, b->hp->n_layers, 0);
}

static clef_value *decode(clef_builder *b)
{
    return clef__lm_head(b, clef__wanted_positions(b, stack(b, b->hp->n_decoder_layers, 1)));
}

/* "relu", "gated-gelu": the gate's GELU is the tanh form. */
static void read_activation(clef_json_fields *f, clef_hparams *hp)
{
    const char *kind = clef__json_string(f, "feed_forward_proj", "relu");
    if (f->status != CLEF_OK)
        return;
    hp->gated = strncmp(kind, "gated-", 6) == 0;
    const char *act = hp->gated ? kind + 6 : kind;
    hp->activation = strcmp(act, "relu") == 0   ? CLEF_RELU
                     : strcmp(act, "silu") == 0 ? CLEF_SILU
                     : hp->gated                ? CLEF_GELU_TANH
                                                : CLEF_GELU;
    if (strcmp(act, "relu") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "gelu") != 0)
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED,
                       "%s: feed_forward_proj %.40s is not supported, known are: relu gated-gelu gated-silu",
                       f->file, kind);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    enum { REACH = 2048 }; /* positions are relative: any length will do, and training saw 512 */
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
    hp->max_distance =
        (int32_t)clef__json_int(f, "relative_attention_max_distance", 8, CLEF_MAX_CONTEXT, 128);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->attention_scale = 1;
    hp->pad = (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_VOCAB, 0);
    hp->decoder_start = (int32_t)clef__json_int(f, "decoder_start_token_id", 0, CLEF_MAX_VOCAB, hp->pad);
    if (f->status == CLEF_OK && clef__json_bool(f, "scale_decoder_outputs", hp->tied_embeddings))
        hp->logit_scale = (float)(1 / sqrt(hp->d_model));
    read_activation(f, hp);
}

static const clef_arch_alias names[] = {{"t5", "t5", -1, 1}, {NULL, NULL, 0, 0}};

const clef_arch clef__arch_t5 = {
    .names = names,
    .kind = CLEF_SEQ2SEQ,
    .weights = encoder_weights,
    .decoder_weights = decoder_weights,
    .hf_prefix = "",
    .read_json = read_json,
    .build = encode,
    .decode = decode,
};

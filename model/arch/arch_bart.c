/* The original Transformer (arXiv:1706.03762) and its descendants: Marian (1804.00344; sinusoids, post-norm),
 * BART (1910.13461; learned positions, post-norm), mBART (2001.08210; pre-norm), M2M-100 (2010.11125;
 * sinusoids, pre-norm), Pegasus (1912.08777; the same) and Blenderbot (2004.13637; learned positions). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"

static const clef_gguf_name gguf_names[] = {{CLEF_W_ATTN_OUT, "blk.%d.attn_o"}, {0, NULL}};

#define STACK_NAMES(stack)                                                                                   \
    [CLEF_W_EMBED] = "shared", [CLEF_W_POSITIONS] = stack ".embed_positions",                                \
    [CLEF_W_EMBED_NORM] = stack ".layernorm_embedding",                                                      \
    [CLEF_W_ATTN_NORM] = stack ".layers.%d.self_attn_layer_norm",                                            \
    [CLEF_W_ATTN_Q] = stack ".layers.%d.self_attn.q_proj",                                                   \
    [CLEF_W_ATTN_K] = stack ".layers.%d.self_attn.k_proj",                                                   \
    [CLEF_W_ATTN_V] = stack ".layers.%d.self_attn.v_proj",                                                   \
    [CLEF_W_ATTN_OUT] = stack ".layers.%d.self_attn.out_proj",                                               \
    [CLEF_W_FFN_NORM] = stack ".layers.%d.final_layer_norm", [CLEF_W_FFN_UP] = stack ".layers.%d.fc1",       \
    [CLEF_W_FFN_DOWN] = stack ".layers.%d.fc2", [CLEF_W_OUT_NORM] = stack ".layer_norm"

static const char *const encoder_weights[CLEF_N_ROLES] = {STACK_NAMES("encoder")};
static const char *const decoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("decoder"),
    [CLEF_W_CROSS_NORM] = "decoder.layers.%d.encoder_attn_layer_norm",
    [CLEF_W_CROSS_Q] = "decoder.layers.%d.encoder_attn.q_proj",
    [CLEF_W_CROSS_K] = "decoder.layers.%d.encoder_attn.k_proj",
    [CLEF_W_CROSS_V] = "decoder.layers.%d.encoder_attn.v_proj",
    [CLEF_W_CROSS_OUT] = "decoder.layers.%d.encoder_attn.out_proj",
    [CLEF_W_OUT] = "lm_head",
    [CLEF_W_LOGITS_BIAS] = "/final_logits_bias",
};

/* How the families differ. */
typedef struct form {
    const char *name;
    /* embed_norm 2: the decoder's is before the positions are added; sinusoids 2: fairseq's, counted from
     * after the padding id */
    int pre_norm, embed_norm, sinusoids;
} form;

static const form forms[] = {{"marian", 0, 0, 1},          {"bart", 0, 1, 0},    {"mbart", 1, 1, 0},
                             {"m2m_100", 1, 0, 2},         {"pegasus", 1, 0, 1}, {"blenderbot", 1, 0, 0},
                             {"blenderbot-small", 0, 2, 0}};

static const form *form_of(const clef_builder *b)
{
    for (size_t i = 1; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, b->hp->arch) == 0)
            return &forms[i];
    return &forms[0];
}

static clef_value *embeddings(clef_builder *b)
{
    const form *f = form_of(b);
    clef_value *positions = f->sinusoids
                                ? clef__sinusoidal_positions(b, f->sinusoids > 1 ? b->hp->position_offset : 0)
                                : clef__learned_positions(b);
    clef_value *x = clef__embed(b);
    if (f->embed_norm == 2 && b->causal)
        return clef_add(b->g, clef__norm(b, x, CLEF_W_EMBED_NORM), positions);
    x = clef_add(b->g, x, positions);
    return f->embed_norm ? clef__norm(b, x, CLEF_W_EMBED_NORM) : x;
}

/* x + block(x), with the norm before the block or after the sum. */
static clef_value *add_block(clef_builder *b, clef_value *x, clef_role norm, clef_block *block,
                             const char *name)
{
    if (form_of(b)->pre_norm)
        return clef__add_residual(b, x, block(b, clef__norm(b, x, norm)), name);
    return clef__norm(b, clef__add_residual(b, x, block(b, x), name), norm);
}

static clef_value *encoder_layer(clef_builder *b, clef_value *x)
{
    x = add_block(b, x, CLEF_W_ATTN_NORM, clef__layer_attention, "attn_residual");
    return add_block(b, x, CLEF_W_FFN_NORM, clef__feed_forward, "mlp_residual");
}

static clef_value *decoder_layer(clef_builder *b, clef_value *x)
{
    x = add_block(b, x, CLEF_W_ATTN_NORM, clef__layer_attention, "attn_residual");
    x = add_block(b, x, CLEF_W_CROSS_NORM, clef__cross_attention, "cross_residual");
    return add_block(b, x, CLEF_W_FFN_NORM, clef__feed_forward, "mlp_residual");
}

static clef_value *stack(clef_builder *b, int32_t n_layers, clef_block *layer)
{
    clef_value *x = clef__layers(b, embeddings(b), n_layers, layer);
    return form_of(b)->pre_norm ? clef__norm(b, x, CLEF_W_OUT_NORM) : x;
}

static clef_value *encode(clef_builder *b)
{
    return stack(b, b->hp->n_layers, encoder_layer);
}

static clef_value *decode(clef_builder *b)
{
    clef_value *x = stack(b, b->hp->n_decoder_layers, decoder_layer);
    return clef__lm_head(b, clef__wanted_positions(b, x));
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    const int is_blender = strncmp(hp->arch, "blenderbot", strlen("blenderbot")) == 0,
              is_late = is_blender || strcmp(hp->arch, "pegasus") == 0;
    hp->d_model = (int32_t)clef__json_need_int(f, "d_model", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_need_int(f, "encoder_ffn_dim", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "encoder_layers", 1, CLEF_MAX_LAYERS);
    hp->n_decoder_layers = (int32_t)clef__json_need_int(f, "decoder_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "encoder_attention_heads", 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    hp->n_kv_heads = hp->n_heads;
    hp->norm_eps = 1e-5f; /* PyTorch's LayerNorm; the configuration has no key for it */
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_refuse_flag(f, "is_encoder_decoder", 1, 1);
    hp->pad = (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_VOCAB, is_late ? 0 : 1);
    hp->position_offset = strcmp(hp->arch, "m2m_100") == 0 ? hp->pad + 1 : strstr(hp->arch, "bart") ? 2 : 0;
    hp->decoder_start =
        (int32_t)clef__json_int(f, "decoder_start_token_id", 0, CLEF_MAX_VOCAB, is_late ? is_blender : 2);
    const int is_m2m = strcmp(hp->arch, "m2m_100") == 0;
    clef__json_activation(f, hp, "activation_function", is_m2m ? "relu" : "gelu");
    clef__json_head_dim(f, hp);
    if (clef__json_bool(f, "scale_embedding", is_m2m))
        hp->embed_scale = (float)sqrt(hp->d_model);
    if (is_m2m && hp->pad == hp->decoder_start)
        clef__json_refuse(f, "pad_token_id is decoder_start_token_id, which is not supported: padding has no "
                             "position");
    clef__json_refuse_flag(f, "share_encoder_decoder_embeddings", 1, 1);
    if (clef__json_int(f, "decoder_vocab_size", 1, CLEF_MAX_VOCAB, hp->n_vocab) != hp->n_vocab)
        clef__json_refuse(f, "decoder_vocab_size other than vocab_size is not supported");
    if (clef__json_int(f, "decoder_ffn_dim", 1, CLEF_MAX_WIDTH, 4096) != hp->d_ff ||
        clef__json_int(f, "decoder_attention_heads", 1, CLEF_MAX_HEADS, 16) != hp->n_heads)
        clef__json_refuse(
            f, "a decoder of another width or number of heads than the encoder's is not supported");
}

/* Files of clef alone: llama.cpp does not have these families. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_tensor_info *positions = clef__gguf_tensor(k->gguf, "enc.position_embd.weight");
    const int32_t pad = (int32_t)clef__gguf_int(k->gguf, "tokenizer.ggml.padding_token_id", 1);
    if (hp->n_decoder_layers == 0)
        hp->n_decoder_layers = hp->n_layers;
    hp->pad = pad >= 0 && pad < hp->n_vocab ? pad : 1;
    hp->position_offset = strcmp(hp->arch, "m2m_100") == 0 ? hp->pad + 1 : 0;
    if (positions && positions->dims[0] > hp->n_context)
        hp->position_offset = (int32_t)(positions->dims[0] - hp->n_context);
    hp->decoder_start = clef__key_int(k, "decoder_start_token_id", 0, CLEF_MAX_VOCAB, hp->pad);
    hp->activation = strcmp(hp->arch, "marian") == 0    ? CLEF_SILU
                     : strcmp(hp->arch, "m2m_100") == 0 ? CLEF_RELU
                                                        : CLEF_GELU;
    hp->rope.dims = 0;
}

static const clef_arch_alias names[] = {
    {"marian", "marian", 0, 0},
    {"bart", "bart", 0, 2},
    {"mbart", "mbart", 0, 2},
    {"m2m_100", "m2m_100", 0, 2},
    {"pegasus", "pegasus", -1, 1},
    {"blenderbot", "blenderbot", 1, 2},
    {"blenderbot-small", "blenderbot-small", 1, 2},
    {NULL, NULL, 0, 0},
};

const clef_arch clef__arch_bart = {
    .names = names,
    .kind = CLEF_SEQ2SEQ,
    .weights = {.hf = encoder_weights, .gguf = gguf_names, .gguf_prefix = "enc."},
    .decoder_weights = {.hf = decoder_weights, .gguf = gguf_names, .gguf_prefix = "dec."},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = encode,
    .decode = decode,
};

/* Whisper (arXiv:2212.04356): an encoder of log-mel spectrograms, and a decoder that writes down what it
 * hears. Two convolutions of three frames each come first. Here each is a product: a row of its left matrix
 * has a frame and its two neighbours. */
#include <math.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

enum { TAPS = 3, STRIDE = 2 };

#define STACK_NAMES(stack)                                                                                   \
    [CLEF_W_POSITIONS] = stack ".embed_positions",                                                           \
    [CLEF_W_ATTN_NORM] = stack ".layers.%d.self_attn_layer_norm",                                            \
    [CLEF_W_ATTN_Q] = stack ".layers.%d.self_attn.q_proj",                                                   \
    [CLEF_W_ATTN_K] = stack ".layers.%d.self_attn.k_proj",                                                   \
    [CLEF_W_ATTN_V] = stack ".layers.%d.self_attn.v_proj",                                                   \
    [CLEF_W_ATTN_OUT] = stack ".layers.%d.self_attn.out_proj",                                               \
    [CLEF_W_FFN_NORM] = stack ".layers.%d.final_layer_norm", [CLEF_W_FFN_UP] = stack ".layers.%d.fc1",       \
    [CLEF_W_FFN_DOWN] = stack ".layers.%d.fc2", [CLEF_W_OUT_NORM] = stack ".layer_norm"

static const char *const encoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("encoder"),
    [CLEF_W_FRAMES_1] = "encoder.conv1",
    [CLEF_W_FRAMES_2] = "encoder.conv2",
};
static const char *const decoder_weights[CLEF_N_ROLES] = {
    STACK_NAMES("decoder"),
    [CLEF_W_EMBED] = "decoder.embed_tokens",
    [CLEF_W_CROSS_NORM] = "decoder.layers.%d.encoder_attn_layer_norm",
    [CLEF_W_CROSS_Q] = "decoder.layers.%d.encoder_attn.q_proj",
    [CLEF_W_CROSS_K] = "decoder.layers.%d.encoder_attn.k_proj",
    [CLEF_W_CROSS_V] = "decoder.layers.%d.encoder_attn.v_proj",
    [CLEF_W_CROSS_OUT] = "decoder.layers.%d.encoder_attn.out_proj",
    [CLEF_W_OUT] = "/proj_out",
};

static const clef_gguf_name gguf_names[] = {{CLEF_W_ATTN_OUT, "blk.%d.attn_o"}, {0, NULL}};

/* x [B, n + 2, width] with frames of zeros before and after -> rows [B, n / stride, 3 width]: every stride-th
 * frame between its neighbours, as the elements of a kernel [width, 3] lie. */
static clef_value *windows(clef_builder *b, clef_value *x, int64_t n, int64_t width, int64_t stride)
{
    clef_graph *g = b->g;
    clef_value *out = NULL;
    for (int32_t k = 0; k < TAPS; k++) {
        clef_value *y = clef_slice(g, x, &(clef_slice_opts){.axis = 1, .start = k, .size = clef_n(n)});
        if (stride > 1) {
            y = clef_reshape(g, y, clef_shape_4(b->B, clef_n(n / stride), clef_n(stride), clef_n(width)));
            y = clef_slice(g, y, &(clef_slice_opts){.axis = 2, .size = clef_n(1)});
        }
        y = clef_reshape(g, y, clef_shape_4(b->B, clef_n(n / stride), clef_n(width), clef_n(1)));
        out = out ? clef_concat(g, out, y, &(clef_concat_opts){.axis = 3}) : y;
    }
    return clef_reshape(g, out, clef_shape_3(b->B, clef_n(n / stride), clef_n(TAPS * width)));
}

/* x [B, n, width] between two frames of zeros. */
static clef_value *padded(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    clef_value *first = clef_slice(g, x, &(clef_slice_opts){.axis = 1, .size = clef_n(1)});
    clef_value *zeros = clef_affine(g, first, &(clef_affine_opts){0});
    x = clef_concat(g, zeros, x, &(clef_concat_opts){.axis = 1});
    return clef_concat(g, x, zeros, &(clef_concat_opts){.axis = 1});
}

/* A convolution over frames with its GELU: x [B, n, width] -> [B, n / stride, d]. */
static clef_value *convolved(clef_builder *b, clef_value *x, clef_role role, int64_t n, int64_t width,
                             int64_t stride)
{
    const clef_dim d = clef_n(b->hp->d_model);
    clef_value *w = clef__role_weight_flat(b, role, "weight", clef_shape_3(d, clef_n(width), clef_n(TAPS)));
    clef_value *bias = clef__role_weight_shaped(b, role, "bias", clef_shape_1(d));
    x = clef_matmul(b->g, windows(b, padded(b, x), n, width, stride), w, NULL,
                    &(clef_matmul_opts){.transpose_b = 1});
    return clef_gelu(b->g, clef_add(b->g, x, bias));
}

static clef_value *encoder_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__feed_forward);
}

static clef_value *decoder_layer(clef_builder *b, clef_value *x)
{
    clef_value *y = clef__layer_attention(b, clef__norm(b, x, CLEF_W_ATTN_NORM));
    x = clef__add_residual(b, x, y, "attn_residual");
    y = clef__cross_attention(b, clef__norm(b, x, CLEF_W_CROSS_NORM));
    x = clef__add_residual(b, x, y, "cross_residual");
    y = clef__feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM));
    return clef__add_residual(b, x, y, "mlp_residual");
}

static clef_value *encode(clef_builder *b)
{
    const int64_t n = b->hp->n_source, d = b->hp->d_model, n_mels = b->hp->n_mels;
    clef_value *x = clef_permute(b->g, b->features, &(clef_permute_opts){{0, 2, 1}});
    x = clef__name_value(b, convolved(b, x, CLEF_W_FRAMES_1, STRIDE * n, n_mels, 1), "conv1.act");
    x = clef__name_value(b, convolved(b, x, CLEF_W_FRAMES_2, STRIDE * n, d, STRIDE), "conv2.act");
    clef_value *positions =
        clef__role_weight_shaped(b, CLEF_W_POSITIONS, "weight", clef_shape_2(clef_n(n), clef_n(d)));
    x = clef__name_value(b, clef_add(b->g, x, positions), "embed");
    return clef__norm(b, clef__layers(b, x, b->hp->n_layers, encoder_layer), CLEF_W_OUT_NORM);
}

static clef_value *decode(clef_builder *b)
{
    clef_value *x = clef_add(b->g, clef__embed(b), clef__learned_positions(b));
    x = clef__norm(b, clef__layers(b, x, b->hp->n_decoder_layers, decoder_layer), CLEF_W_OUT_NORM);
    return clef__lm_head(b, clef__wanted_positions(b, x));
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_int(f, "d_model", 1, CLEF_MAX_WIDTH, 384);
    hp->d_ff = (int32_t)clef__json_int(f, "encoder_ffn_dim", 1, CLEF_MAX_WIDTH, 1536);
    hp->n_layers = (int32_t)clef__json_int(f, "encoder_layers", 1, CLEF_MAX_LAYERS, 4);
    hp->n_decoder_layers = (int32_t)clef__json_int(f, "decoder_layers", 1, CLEF_MAX_LAYERS, 4);
    hp->n_heads = (int32_t)clef__json_int(f, "encoder_attention_heads", 1, CLEF_MAX_HEADS, 6);
    hp->n_context = (int32_t)clef__json_int(f, "max_target_positions", 1, CLEF_MAX_CONTEXT, 448);
    hp->n_source = (int32_t)clef__json_int(f, "max_source_positions", 1, CLEF_MAX_WIDTH, 1500);
    hp->n_mels = (int32_t)clef__json_int(f, "num_mel_bins", 1, CLEF_MAX_HEADS, 80);
    hp->n_kv_heads = hp->n_heads;
    hp->norm_eps = 1e-5f; /* PyTorch's LayerNorm; the configuration has no key for it */
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_refuse_flag(f, "is_encoder_decoder", 1, 1);
    hp->pad = (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_VOCAB, 50256);
    hp->decoder_start = (int32_t)clef__json_int(f, "decoder_start_token_id", 0, CLEF_MAX_VOCAB, 50257);
    clef__json_activation(f, hp, "activation_function", "gelu");
    clef__json_head_dim(f, hp);
    if (clef__json_bool(f, "scale_embedding", 0))
        hp->embed_scale = (float)sqrt(hp->d_model);
    if (clef__json_int(f, "decoder_ffn_dim", 1, CLEF_MAX_WIDTH, 1536) != hp->d_ff ||
        clef__json_int(f, "decoder_attention_heads", 1, CLEF_MAX_HEADS, 6) != hp->n_heads)
        clef__json_refuse(
            f, "a decoder of another width or number of heads than the encoder's is not supported");
}

static const clef_arch_alias names[] = {{"whisper", "whisper", 50257, 50256}, {NULL, NULL, 0, 0}};

const clef_arch clef__arch_whisper = {
    .names = names,
    .kind = CLEF_SEQ2SEQ,
    .weights = {.hf = encoder_weights, .gguf = gguf_names, .gguf_prefix = "enc."},
    .decoder_weights = {.hf = decoder_weights, .gguf = gguf_names, .gguf_prefix = "dec."},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .build = encode,
    .decode = decode,
};

/* wav2vec 2.0 (arXiv:2006.11477) and HuBERT (2106.07447): convolutions make frames of samples, an encoder
 * reads them, and each frame gets logits of letters, by CTC. A convolution is a product here: a row of its
 * left matrix has all frames that a result is made of. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/arch/layers.h"
#include "model/arch/speech/samples.h"
#include "model/open/model.h"

enum { SAMPLES = 16000 }; /* of a graph, by default */

static const char *const weights[CLEF_N_ROLES] = {
    [CLEF_W_SAMPLES] = "feature_extractor.conv_layers.%d.conv",
    [CLEF_W_SAMPLES_NORM] = "feature_extractor.conv_layers.%d.layer_norm",
    [CLEF_W_FRAMES_NORM] = "feature_projection.layer_norm",
    [CLEF_W_FRAMES] = "feature_projection.projection",
    [CLEF_W_FRAMES_POSITIONS] = "encoder.pos_conv_embed.conv",
    [CLEF_W_OUT_NORM] = "encoder.layer_norm",
    [CLEF_W_ATTN_Q] = "encoder.layers.%d.attention.q_proj",
    [CLEF_W_ATTN_K] = "encoder.layers.%d.attention.k_proj",
    [CLEF_W_ATTN_V] = "encoder.layers.%d.attention.v_proj",
    [CLEF_W_ATTN_OUT] = "encoder.layers.%d.attention.out_proj",
    [CLEF_W_ATTN_NORM] = "encoder.layers.%d.layer_norm",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layers.%d.layer_norm",
    [CLEF_W_FFN_UP] = "encoder.layers.%d.feed_forward.intermediate_dense",
    [CLEF_W_FFN_DOWN] = "encoder.layers.%d.feed_forward.output_dense",
    [CLEF_W_FFN_NORM] = "encoder.layers.%d.final_layer_norm",
    [CLEF_W_FFN_POST_NORM] = "encoder.layers.%d.final_layer_norm",
    [CLEF_W_OUT] = "/lm_head",
};

/* PyTorch's weight_norm, by its old and by its new names. */
static const clef_join_rule joins[] = {
    {&clef__join_normed_taps, ".pos_conv_embed.conv.weight_v", ".pos_conv_embed.conv.weight_g",
     ".pos_conv_embed.conv.taps", 0, 1},
    {&clef__join_normed_taps, ".pos_conv_embed.conv.parametrizations.weight.original1",
     ".pos_conv_embed.conv.parametrizations.weight.original0", ".pos_conv_embed.conv.taps", 0, 1},
    {&clef__join_taps, ".conv.weight", NULL, ".conv.taps", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0},
};

/* ---- the input -------------------------------------------------------------------------------------- */

static int32_t samples_of(const clef_build_opts *o)
{
    return o->sound_samples ? o->sound_samples : SAMPLES;
}

clef_status clef__check_sound_opts(const clef_model *model, const clef_build_opts *o, clef_error *err)
{
    const clef_hparams *hp = &model->hparams;
    const int32_t samples = samples_of(o);
    int64_t n = samples;
    if (o->sample || o->candidates || o->n_rows || o->loras || o->train || o->pooling || o->classify ||
        o->token_head || o->part || (o->padding_mask && !o->for_export))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: %s reads sounds: expected a graph of its letters alone",
                          clef_model_path(model), hp->arch);
    for (int32_t i = 0; i < hp->n_convs && n > 0; i++)
        n = n < hp->conv_taps[i] ? 0 : (n - hp->conv_taps[i]) / hp->conv_strides[i] + 1;
    return n > 0 && samples <= CLEF_MAX_WIDTH
               ? CLEF_OK
               : clef__fail(err, CLEF_E_LIMIT,
                            "%s: a sound of %d samples: expected enough for a frame, and at most %d",
                            clef_model_path(model), samples, CLEF_MAX_WIDTH);
}

void clef__add_samples(clef_builder *b, const clef_build_opts *o)
{
    b->B = clef_n(1);
    b->features = clef_input(b->g, "input_values", CLEF_F32, clef_shape_2(b->B, clef_n(samples_of(o))));
}

/* ---- convolutions over samples --------------------------------------------------------------------- */

static clef_value *joined(clef_builder *b, clef_value *x, clef_value *y, int32_t axis)
{
    return x ? clef_concat(b->g, x, y, &(clef_concat_opts){.axis = axis}) : y;
}

/* x [1, n, width] -> rows [1, (n - taps) / stride + 1, taps width]. Each piece of a row is `stride` frames,
 * or the last of them, of x as rows of so many. */
static clef_value *windows(clef_builder *b, clef_value *x, int32_t taps, int32_t stride)
{
    if (!x)
        return NULL;
    const int64_t n = (x->shape.dim[1].n - taps) / stride + 1, width = x->shape.dim[2].n;
    clef_value *rows = NULL;
    for (int32_t at = 0; at < taps; at += stride) {
        const int32_t rest = taps - at < stride ? taps - at : stride, skip = stride - rest;
        clef_value *y = clef__part(b, x, 1, at - skip, (int32_t)(n * stride));
        y = clef_reshape(b->g, y, clef_shape_3(clef_n(1), clef_n(n), clef_n(stride * width)));
        rows = joined(b, rows, clef__part(b, y, 2, (int32_t)(skip * width), (int32_t)(rest * width)), 2);
    }
    return rows;
}

/* Each of x's columns [1, n, width] normed over all frames, then the norm's weight and bias. */
static clef_value *norm_over_frames(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_permute_opts turned = {{0, 2, 1}};
    const clef_shape shape = clef_shape_1(clef_n(b->hp->conv_widths[b->layer]));
    x = clef_permute(g, clef_layer_norm(g, clef_permute(g, x, &turned), NULL, NULL, &(clef_norm_opts){1e-5f}),
                     &turned);
    x = clef_mul(g, x, clef__in_floats(g, clef__role_weight_shaped(b, CLEF_W_SAMPLES_NORM, "weight", shape)));
    return clef_add(g, x,
                    clef__in_floats(g, clef__role_weight_shaped(b, CLEF_W_SAMPLES_NORM, "bias", shape)));
}

static clef_value *convolved(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t i = b->layer, taps = hp->conv_taps[i];
    const clef_dim in = clef_n(i ? hp->conv_widths[i - 1] : 1), out = clef_n(hp->conv_widths[i]);
    clef_value *w = clef__role_weight_shaped(b, CLEF_W_SAMPLES, "taps", clef_shape_3(out, clef_n(taps), in));
    w = clef_reshape(b->g, w, clef_shape_2(out, clef_n(taps * in.n)));
    x = clef_matmul(b->g, windows(b, x, taps, hp->conv_strides[i]), w, NULL,
                    &(clef_matmul_opts){.transpose_b = 1});
    if (clef__has_weight(b, CLEF_W_SAMPLES, "bias"))
        x = clef_add(b->g, x, clef__role_weight_shaped(b, CLEF_W_SAMPLES, "bias", clef_shape_1(out)));
    if (hp->conv_norms)
        x = clef__norm(b, x, CLEF_W_SAMPLES_NORM);
    else if (i == 0)
        x = norm_over_frames(b, x);
    return clef__name_value(b, clef_gelu(b->g, x), "act");
}

static clef_value *frames(clef_builder *b)
{
    const clef_hparams *hp = b->hp;
    clef_value *x = b->features;
    x = x ? clef_reshape(b->g, x, clef_shape_3(clef_n(1), x->shape.dim[1], clef_n(1))) : NULL;
    for (b->layer = 0; b->layer < hp->n_convs; b->layer++) {
        clef_scope_push(b->g, "conv%d", b->layer);
        x = convolved(b, x);
        clef_scope_pop(b->g);
    }
    b->layer = -1;
    if (clef__has_weight(b, CLEF_W_FRAMES_NORM, "weight"))
        x = clef__norm(b, x, CLEF_W_FRAMES_NORM);
    return clef__linear(b, x, CLEF_W_FRAMES, hp->conv_widths[hp->n_convs - 1], hp->d_model);
}

/* ---- positions --------------------------------------------------------------------------------------- */

static clef_value *zeros(clef_builder *b, const char *name, int32_t n)
{
    float *x = calloc((size_t)n * (size_t)b->hp->d_model, sizeof *x);
    if (!x)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "no memory for %d frames", n);
    clef_value *out =
        clef_constant(b->g, name, CLEF_F32, clef_shape_3(clef_n(1), clef_n(n), clef_n(b->hp->d_model)), x);
    free(x);
    return out;
}

/* A convolution over frames in groups of channels, x [1, n, d] -> [1, n, d]. Up to 16 frames beside each
 * other make a row, and as many products as the taps need read these rows from different ones on. */
static clef_value *positions(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const int32_t d = b->hp->d_model, taps = b->hp->position_taps, groups = b->hp->position_groups;
    int32_t each = 1, n = x ? (int32_t)x->shape.dim[1].n : 0;
    const int32_t width = d / groups, before = taps / 2, behind = taps - 1 - before;
    if (before)
        x = clef_concat(g, zeros(b, "silence_before", before), x, &(clef_concat_opts){.axis = 1});
    if (behind)
        x = clef_concat(g, x, zeros(b, "silence_behind", behind), &(clef_concat_opts){.axis = 1});
    int32_t rows = n + taps - 1;
    x = clef_reshape(g, x, clef_shape_4(clef_n(1), clef_n(rows), clef_n(groups), clef_n(width)));
    for (; taps % (2 * each) == 0 && each < 16; each *= 2, rows -= each / 2)
        x = joined(b, clef__part(b, x, 1, 0, rows - each), clef__part(b, x, 1, each, rows - each), 3);
    x = clef_permute(g, x, &(clef_permute_opts){{0, 2, 1, 3}});
    clef_value *w = clef__role_weight_shaped(b, CLEF_W_FRAMES_POSITIONS, "taps",
                                             clef_shape_3(clef_n(1), clef_n(d), clef_n(taps * width)));
    w = clef_reshape(g, w, clef_shape_4(clef_n(1), clef_n(groups), clef_n(width), clef_n(taps * width)));
    clef_value *sum = NULL;
    for (int32_t at = 0; at < taps; at += each) {
        clef_value *y =
            clef_matmul(g, clef__part(b, x, 2, at, n), clef__part(b, w, 3, at * width, each * width), NULL,
                        &(clef_matmul_opts){.transpose_b = 1});
        sum = sum ? clef_add(g, sum, y) : y;
    }
    sum = clef_permute(g, sum, &(clef_permute_opts){{0, 2, 1, 3}});
    sum = clef_reshape(g, sum, clef_shape_3(clef_n(1), clef_n(n), clef_n(d)));
    sum = clef_add(g, sum,
                   clef__role_weight_shaped(b, CLEF_W_FRAMES_POSITIONS, "bias", clef_shape_1(clef_n(d))));
    return clef__name_value(b, clef_gelu(g, sum), "positions");
}

/* ---- the encoder --------------------------------------------------------------------------------------- */

static clef_value *layer(clef_builder *b, clef_value *x)
{
    if (!b->hp->norm_first)
        return clef__post_norm_layer(b, x, clef__layer_attention, clef__feed_forward);
    x = clef__add_residual(b, x, clef__layer_attention(b, clef__norm(b, x, CLEF_W_ATTN_NORM)),
                           "attn_residual");
    return clef__add_residual(b, x, clef__feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM)), "mlp_residual");
}

static clef_value *build(clef_builder *b)
{
    const clef_hparams *hp = b->hp;
    clef_value *x = frames(b);
    if (!x)
        return NULL;
    b->T = b->S = x->shape.dim[1];
    x = clef__name_value(b, clef_add(b->g, x, positions(b, x)), "embed");
    if (!hp->norm_first)
        x = clef__norm(b, x, CLEF_W_OUT_NORM);
    x = clef__layers(b, x, hp->n_layers, layer);
    if (hp->norm_first)
        x = clef__norm(b, x, CLEF_W_OUT_NORM);
    x = clef__name_value(b, x, "hidden_last");
    return b->no_head ? x : clef__linear(b, x, CLEF_W_OUT, hp->d_model, hp->n_vocab);
}

/* ---- configuration ------------------------------------------------------------------------------------- */

static void read_list(clef_json_fields *f, const char *key, const int32_t *missing, int32_t n, int32_t out[])
{
    const json_t *list = clef__json_get(f, key);
    for (int32_t i = 0; i < n && f->status == CLEF_OK; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        const json_int_t x = list ? json_integer_value(value) : missing[i < 7 ? i : 6];
        out[i] = (int32_t)x;
        if (x < 1 || x > 1 << 16 || (list && (int32_t)json_array_size(list) != n))
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s: expected %d numbers from 1 to %d", f->file,
                                   key, n, 1 << 16);
    }
}

static void read_convolutions(clef_json_fields *f, clef_hparams *hp)
{
    static const int32_t widths[] = {512, 512, 512, 512, 512, 512, 512}, taps[] = {10, 3, 3, 3, 3, 2, 2},
                         strides[] = {5, 2, 2, 2, 2, 2, 2};
    const json_t *list = clef__json_get(f, "conv_dim");
    const int64_t n = clef__json_int(f, "num_feat_extract_layers", 1, CLEF_MAX_CONVS,
                                     list ? (int64_t)json_array_size(list) : 7);
    hp->n_convs = n >= 1 && n <= CLEF_MAX_CONVS ? (int32_t)n : 1;
    read_list(f, "conv_dim", widths, hp->n_convs, hp->conv_widths);
    read_list(f, "conv_kernel", taps, hp->n_convs, hp->conv_taps);
    read_list(f, "conv_stride", strides, hp->n_convs, hp->conv_strides);
    for (int32_t i = 0; i < hp->n_convs && f->status == CLEF_OK; i++)
        if (hp->conv_taps[i] < hp->conv_strides[i])
            clef__json_refuse(f, "a conv_stride above its conv_kernel is not supported");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    const char *norm = clef__json_string(f, "feat_extract_norm", "group");
    hp->d_model = (int32_t)clef__json_int(f, "hidden_size", 1, CLEF_MAX_WIDTH, 768);
    hp->n_layers = (int32_t)clef__json_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS, 12);
    hp->n_heads = hp->n_kv_heads = (int32_t)clef__json_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS, 12);
    hp->d_ff = (int32_t)clef__json_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH, 3072);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->norm_first = clef__json_bool(f, "do_stable_layer_norm", 0);
    hp->pad = (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_VOCAB, 0);
    hp->n_context = CLEF_MAX_WIDTH;
    clef__json_activation(f, hp, "hidden_act", "gelu");
    clef__json_head_dim(f, hp);
    read_convolutions(f, hp);
    hp->conv_norms = strcmp(norm, "layer") == 0;
    hp->position_taps = (int32_t)clef__json_int(f, "num_conv_pos_embeddings", 1, 1 << 12, 128);
    hp->position_groups = (int32_t)clef__json_int(f, "num_conv_pos_embedding_groups", 1, 1 << 12, 16);
    if (f->status == CLEF_OK && hp->d_model % hp->position_groups)
        clef__json_refuse(f,
                          "num_conv_pos_embedding_groups that do not divide hidden_size are not supported");
    if (!hp->conv_norms && strcmp(norm, "group") != 0)
        clef__json_refuse(f, "a feat_extract_norm other than group and layer is not supported");
    if (strcmp(clef__json_string(f, "feat_extract_activation", "gelu"), "gelu") != 0)
        clef__json_refuse(f, "a feat_extract_activation other than gelu is not supported");
    clef__json_refuse_flag(f, "add_adapter", 0, 0);
    clef__json_refuse_flag(f, "conv_pos_batch_norm", 0, 0);
    if (clef__json_has(f, "adapter_attn_dim"))
        clef__json_refuse(f, "adapter_attn_dim, adapters of languages, is not supported");
    clef__json_bool(f, "conv_bias", 0); /* the stored tensors say it, too */
    clef__json_bool(f, "feat_proj_layer_norm", 1);
}

static const clef_arch_alias wav2vec2_names[] = {{"wav2vec2", NULL, 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias hubert_names[] = {{"hubert", NULL, 1, 2}, {NULL, NULL, 0, 0}};

#define FAMILY(family)                                                                                       \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .kind = CLEF_ENCODER,                                             \
                                           .samples = 1,                                                     \
                                           .weights = {.hf = weights},                                       \
                                           .hf_prefix = #family ".",                                         \
                                           .layer_norms = 1,                                                 \
                                           .read_json = read_json,                                           \
                                           .joins = joins,                                                   \
                                           .build = build};

FAMILY(wav2vec2)
FAMILY(hubert)

/* CLIP (arXiv:2103.00020), SigLIP (2303.15343) and SigLIP 2 (2502.14786): an encoder of pictures and one of
 * texts, whose vectors are compared. Both have pre-norm layers and learned positions. CLIP's picture has a
 * class token; SigLIP's vector comes from a learned query that attends to all patches. CLIP's texts are
 * causal. */
#include <math.h>
#include <string.h>

#include "model/arch/vision/vision.h"
#include "model/open/model.h"

/* ---- names ----------------------------------------------------------------------------------- */

#define CLIP_LAYER                                                                                           \
    [CLEF_W_ATTN_NORM] = "encoder.layers.%d.layer_norm1",                                                    \
    [CLEF_W_FFN_NORM] = "encoder.layers.%d.layer_norm2",                                                     \
    [CLEF_W_ATTN_Q] = "encoder.layers.%d.self_attn.q_proj",                                                  \
    [CLEF_W_ATTN_K] = "encoder.layers.%d.self_attn.k_proj",                                                  \
    [CLEF_W_ATTN_V] = "encoder.layers.%d.self_attn.v_proj",                                                  \
    [CLEF_W_ATTN_OUT] = "encoder.layers.%d.self_attn.out_proj",                                              \
    [CLEF_W_FFN_UP] = "encoder.layers.%d.mlp.fc1", [CLEF_W_FFN_DOWN] = "encoder.layers.%d.mlp.fc2"
#define CLIP_PICTURES                                                                                        \
    CLIP_LAYER, [CLEF_W_PATCHES] = "embeddings.patch_embedding",                                             \
                [CLEF_W_POSITIONS] = "embeddings.position_embedding"

static const char *const clip_weights[CLEF_N_ROLES] = {
    CLIP_PICTURES,
    [CLEF_W_CLASS_TOKEN] = "embeddings.class_embedding",
    [CLEF_W_EMBED_NORM] = "pre_layrnorm", /* so the first code called it */
    [CLEF_W_HEAD_NORM] = "post_layernorm",
    [CLEF_W_PROJECTION] = "/visual_projection",
};

static const char *const siglip_weights[CLEF_N_ROLES] = {
    CLIP_PICTURES,
    [CLEF_W_OUT_NORM] = "post_layernorm",
    [CLEF_W_POOL_PROBE] = "head.probe",
    [CLEF_W_POOL_QKV] = "head.attention.in_proj_weight",
    [CLEF_W_POOL_QKV_BIAS] = "head.attention.in_proj_bias",
    [CLEF_W_POOL_OUT] = "head.attention.out_proj",
    [CLEF_W_POOL_NORM] = "head.layernorm",
    [CLEF_W_POOL_UP] = "head.mlp.fc1",
    [CLEF_W_POOL_DOWN] = "head.mlp.fc2",
};

#define CLIP_TEXTS                                                                                           \
    CLIP_LAYER, [CLEF_W_EMBED] = "embeddings.token_embedding",                                               \
                [CLEF_W_POSITIONS] = "embeddings.position_embedding", [CLEF_W_OUT_NORM] = "final_layer_norm"
static const char *const clip_text_weights[CLEF_N_ROLES] = {CLIP_TEXTS, [CLEF_W_PROJECTION] =
                                                                            "/text_projection"};
static const char *const siglip_text_weights[CLEF_N_ROLES] = {CLIP_TEXTS, [CLEF_W_PROJECTION] = "head"};

/* ---- pictures -------------------------------------------------------------------------------- */

static clef_value *build_clip(clef_builder *b)
{
    clef_value *token = clef__token_rows(b, CLEF_W_CLASS_TOKEN);
    token = clef_add(b->g, token, clef__part(b, clef__position_table(b), 0, 0, 1));
    clef_value *x = clef_add(b->g, clef__patches(b), clef__grid_positions(b, 1, CLEF__STRETCH_BICUBIC));
    x = clef_named(clef__put_before(b, token, x), "embed");
    return clef__vision_layers(b, clef__norm(b, x, CLEF_W_EMBED_NORM));
}

/* The normed class token, projected where the file has the matrix. */
static clef_value *clip_vector(clef_builder *b, clef_value *x)
{
    x = clef__norm(b, clef__row(b, x, 0), CLEF_W_HEAD_NORM);
    return clef__has_weight(b, CLEF_W_PROJECTION, "weight")
               ? clef__free_linear(b, x, CLEF_W_PROJECTION, b->hp->d_model)
               : x;
}

static clef_value *build_siglip(clef_builder *b)
{
    const clef__stretch stretch =
        b->hp->colours_last ? CLEF__STRETCH_LINEAR_ANTIALIAS : CLEF__STRETCH_BICUBIC;
    clef_value *x = clef_add(b->g, clef__patches(b), clef__grid_positions(b, 0, stretch));
    return clef__vision_layers(b, clef_named(clef__put_before(b, NULL, x), "embed"));
}

/* Part `which` of x W^T + bias, where W has the matrices of q, k and v one below the other: [B, H, rows, D].
 */
static clef_value *pool_heads(clef_builder *b, clef_value *all, clef_dim n_rows, int32_t which)
{
    const int32_t d = b->hp->d_model;
    clef_value *x = clef_reshape(b->g, clef__part(b, all, 2, which * d, d),
                                 clef_shape_4(b->B, n_rows, clef_n(b->hp->n_heads), clef_n(b->hp->head_dim)));
    return clef_permute(b->g, x, &(clef_permute_opts){{0, 2, 1, 3}});
}

static clef_value *pool_projected(clef_builder *b, clef_value *x)
{
    const clef_dim d = clef_n(b->hp->d_model), d3 = clef_n(3 * (int64_t)b->hp->d_model);
    clef_value *w = clef__role_weight_shaped(b, CLEF_W_POOL_QKV, "", clef_shape_2(d3, d)),
               *bias = clef__role_weight_shaped(b, CLEF_W_POOL_QKV_BIAS, "", clef_shape_1(d3));
    return clef_add(b->g, clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1}), bias);
}

/* The probe's attention over all rows, and a feed-forward with a residual. */
static clef_value *siglip_vector(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_graph *g = b->g;
    if (!clef__has_weight(b, CLEF_W_POOL_PROBE, ""))
        return clef__mean_of_rows(b, x, 0);
    clef_value *zero = clef_affine(g, clef__part(b, x, 1, 0, 1), &(clef_affine_opts){.scale = 0});
    clef_value *probe = pool_projected(b, clef_add(g, zero, clef__token_rows(b, CLEF_W_POOL_PROBE)));
    clef_value *rows = pool_projected(b, x), *q = pool_heads(b, probe, clef_n(1), 0),
               *k = pool_heads(b, rows, b->T, 1), *v = pool_heads(b, rows, b->T, 2);
    clef_value *scores = clef_matmul(
        g, q, k, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = 1 / sqrtf((float)b->hp->head_dim)});
    clef_value *weights = clef_named(clef_softmax(g, scores, NULL, NULL, NULL), "pool.attention");
    x = clef_permute(g, clef_matmul(g, weights, v, NULL, NULL), &(clef_permute_opts){{0, 2, 1, 3}});
    x = clef__linear(b, clef_reshape(g, x, clef_shape_2(b->B, clef_n(d))), CLEF_W_POOL_OUT, d, d);
    clef_value *y = clef__linear(b, clef__norm(b, x, CLEF_W_POOL_NORM), CLEF_W_POOL_UP, d, d_ff);
    return clef_add(g, x, clef__linear(b, clef__activation(b, y), CLEF_W_POOL_DOWN, d_ff, d));
}

static void clip_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){768, 3072, 12, 12, 224, 32, 1e-5, "quick_gelu"});
}

static void siglip_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){768, 3072, 12, 12, 224, 16, 1e-6, "gelu_pytorch_tanh"});
}

/* SigLIP 2 has a number of patches in place of a size. */
static void siglip2_json(clef_json_fields *f, clef_hparams *hp)
{
    const int32_t n = (int32_t)clef__json_int(f, "num_patches", 1, 1 << 20, 256),
                  side = (int32_t)llround(sqrt(n));
    const int32_t patch = (int32_t)clef__json_int(f, "patch_size", 1, 1 << 10, 16);
    clef__json_vision(
        f, hp, &(clef__vision_defaults){768, 3072, 12, 12, side * patch, 16, 1e-6, "gelu_pytorch_tanh"});
    hp->colours_last = 1;
}

/* Idefics 3 and SmolVLM have SigLIP's encoder. */
static void idefics_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp,
                      &(clef__vision_defaults){1152, 3072, 12, 16, 224, 32, 1e-6, "gelu_pytorch_tanh"});
}

#define NAME(model_type)                                                                                     \
    {                                                                                                        \
        model_type, NULL, -1, -1                                                                             \
    }
#define PICTURES(family, weight_names, reader, builder, of_picture, ...)                                     \
    static const clef_arch_alias family##_names[] = {__VA_ARGS__, {NULL, NULL, 0, 0}};                       \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .kind = CLEF_ENCODER,                                             \
                                           .pictures = 1,                                                    \
                                           .weights = {.hf = weight_names},                                  \
                                           .hf_prefix = "vision_model.",                                     \
                                           .layer_norms = 1,                                                 \
                                           .read_json = reader,                                              \
                                           .build = builder,                                                 \
                                           .vector = of_picture};

PICTURES(clip_vision, clip_weights, clip_json, build_clip, clip_vector, NAME("clip_vision_model"))
PICTURES(siglip_vision, siglip_weights, siglip_json, build_siglip, siglip_vector, NAME("siglip_vision_model"))
PICTURES(siglip2_vision, siglip_weights, siglip2_json, build_siglip, siglip_vector,
         NAME("siglip2_vision_model"))
PICTURES(idefics_vision, siglip_weights, idefics_json, build_siglip, siglip_vector, NAME("idefics3_vision"),
         NAME("smolvlm_vision"), NAME("idefics3"), NAME("smolvlm"))

/* ---- texts ----------------------------------------------------------------------------------- */

static clef_value *build_text(clef_builder *b)
{
    b->causal = strcmp(b->hp->arch, "clip_text_model") == 0;
    clef_value *x = clef_add(b->g, clef__embed(b), clef__learned_positions(b));
    x = clef__layers(b, clef_named(x, "embed.sum"), b->hp->n_layers, clef__plain_layer);
    b->layer = -1;
    return clef_named(clef__norm(b, x, CLEF_W_OUT_NORM), "/hidden_last");
}

/* The last token, which is the end of the text, or of its padding. */
static clef_value *text_vector(clef_builder *b, clef_value *x)
{
    x = clef__pooled(b, x, CLEF_POOL_LAST);
    return clef__has_weight(b, CLEF_W_PROJECTION, "weight")
               ? clef__free_linear(b, x, CLEF_W_PROJECTION, b->hp->d_model)
               : x;
}

static void text_json(clef_json_fields *f, clef_hparams *hp, const char *activation, double eps)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, eps);
    clef__json_activation(f, hp, "hidden_act", activation);
}

static void clip_text_json(clef_json_fields *f, clef_hparams *hp)
{
    text_json(f, hp, "quick_gelu", 1e-5);
}

static void siglip_text_json(clef_json_fields *f, clef_hparams *hp)
{
    text_json(f, hp, "gelu_pytorch_tanh", 1e-6);
    hp->pad = (int32_t)clef__json_int(f, "pad_token_id", 0, CLEF_MAX_VOCAB - 1, 1);
    hp->pads_texts = 1;
}

static const clef_arch_alias clip_text_names[] = {{"clip_text_model", NULL, 49406, 49407},
                                                  {NULL, NULL, 0, 0}};
static const clef_arch_alias siglip_text_names[] = {{"siglip_text_model", NULL, 49406, 49407},
                                                    {"siglip2_text_model", NULL, 49406, 49407},
                                                    {NULL, NULL, 0, 0}};

#define TEXTS(family, weight_names, reader)                                                                  \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .kind = CLEF_ENCODER,                                             \
                                           .weights = {.hf = weight_names},                                  \
                                           .hf_prefix = "text_model.",                                       \
                                           .layer_norms = 1,                                                 \
                                           .read_json = reader,                                              \
                                           .build = build_text,                                              \
                                           .vector = text_vector};

TEXTS(clip_text, clip_text_weights, clip_text_json)
TEXTS(siglip_text, siglip_text_weights, siglip_text_json)

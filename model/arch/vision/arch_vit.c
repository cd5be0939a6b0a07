/* ViT (arXiv:2010.11929) and its kin: DeiT (2012.12877), DINOv2 (2304.07193), with registers (2309.16588),
 * and DINOv3 (2508.10104). Special tokens and patches go through pre-norm layers. The DINOs scale what a
 * block adds; DINOv3 has rotary positions in two dimensions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/vision/vision.h"
#include "model/open/model.h"

/* ---- names ----------------------------------------------------------------------------------- */

#define VIT_EMBEDDINGS                                                                                       \
    [CLEF_W_PATCHES] = "embeddings.patch_embeddings.projection",                                             \
    [CLEF_W_CLASS_TOKEN] = "embeddings.cls_token", [CLEF_W_POSITIONS] = "embeddings.position_embeddings"
#define VIT_ATTENTION                                                                                        \
    [CLEF_W_ATTN_Q] = "encoder.layer.%d.attention.attention.query",                                          \
    [CLEF_W_ATTN_K] = "encoder.layer.%d.attention.attention.key",                                            \
    [CLEF_W_ATTN_V] = "encoder.layer.%d.attention.attention.value",                                          \
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.output.dense"
#define VIT_NAMES                                                                                            \
    VIT_EMBEDDINGS, VIT_ATTENTION, [CLEF_W_ATTN_NORM] = "encoder.layer.%d.layernorm_before",                 \
                                   [CLEF_W_FFN_NORM] = "encoder.layer.%d.layernorm_after",                   \
                                   [CLEF_W_FFN_UP] = "encoder.layer.%d.intermediate.dense",                  \
                                   [CLEF_W_FFN_DOWN] = "encoder.layer.%d.output.dense",                      \
                                   [CLEF_W_OUT_NORM] = "layernorm", [CLEF_W_HEAD_DENSE] = "pooler.dense"
#define DINO_SCALES(layer)                                                                                   \
    [CLEF_W_ATTN_LAYER_SCALE] = layer ".%d.layer_scale1.lambda1",                                            \
    [CLEF_W_FFN_LAYER_SCALE] = layer ".%d.layer_scale2.lambda1", [CLEF_W_ATTN_NORM] = layer ".%d.norm1",     \
    [CLEF_W_FFN_NORM] = layer ".%d.norm2"

static const char *const vit_weights[CLEF_N_ROLES] = {VIT_NAMES, [CLEF_W_OUT] = "classifier"};

static const char *const deit_weights[CLEF_N_ROLES] = {
    VIT_NAMES,
    [CLEF_W_DISTILLATION_TOKEN] = "embeddings.distillation_token",
    [CLEF_W_OUT] = "classifier",
    [CLEF_W_CLASSES_OF_CLASS] = "/cls_classifier",
    [CLEF_W_CLASSES_OF_DISTILLATION] = "/distillation_classifier",
};

static const char *const dinov2_weights[CLEF_N_ROLES] = {
    VIT_EMBEDDINGS,
    VIT_ATTENTION,
    DINO_SCALES("encoder.layer"),
    [CLEF_W_REGISTERS] = "embeddings.register_tokens",
    [CLEF_W_FFN_UP] = "encoder.layer.%d.mlp.fc1",
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.mlp.fc2",
    [CLEF_W_FFN_GATE_UP] = "encoder.layer.%d.mlp.weights_in",
    [CLEF_W_FFN_GATED_DOWN] = "encoder.layer.%d.mlp.weights_out",
    [CLEF_W_OUT_NORM] = "layernorm",
    [CLEF_W_OUT] = "classifier",
};

#define DINOV3_NAMES                                                                                         \
    DINO_SCALES("layer"),                                                                                    \
        [CLEF_W_PATCHES] = "embeddings.patch_embeddings", [CLEF_W_CLASS_TOKEN] = "embeddings.cls_token",     \
        [CLEF_W_REGISTERS] = "embeddings.register_tokens", [CLEF_W_ATTN_Q] = "layer.%d.attention.q_proj",    \
        [CLEF_W_ATTN_K] = "layer.%d.attention.k_proj", [CLEF_W_ATTN_V] = "layer.%d.attention.v_proj",        \
        [CLEF_W_ATTN_OUT] = "layer.%d.attention.o_proj", [CLEF_W_FFN_GATE] = "layer.%d.mlp.gate_proj",       \
        [CLEF_W_FFN_UP] = "layer.%d.mlp.up_proj", [CLEF_W_FFN_DOWN] = "layer.%d.mlp.down_proj",              \
        [CLEF_W_OUT_NORM] = "norm"
static const char *const dinov3_weights[CLEF_N_ROLES] = {DINOV3_NAMES};

/* ---- the graph ------------------------------------------------------------------------------- */

static int has(const clef_builder *b, clef_role role)
{
    return b->weights->hf[role] != NULL;
}

/* a and b [.., d], one below the other; either may be NULL. */
static clef_value *below(clef_builder *b, clef_value *x, clef_value *y)
{
    return x && y ? clef_concat(b->g, x, y, &(clef_concat_opts){.axis = 0}) : x ? x : y;
}

static clef_value *build_vit(clef_builder *b)
{
    const clef__stretch stretch =
        b->hp->n_registers > 0 ? CLEF__STRETCH_BICUBIC_ANTIALIAS : CLEF__STRETCH_BICUBIC;
    clef_value *tokens = clef__token_rows(b, CLEF_W_CLASS_TOKEN);
    if (has(b, CLEF_W_DISTILLATION_TOKEN))
        tokens = below(b, tokens, clef__token_rows(b, CLEF_W_DISTILLATION_TOKEN));
    if (!tokens)
        return NULL;
    const int32_t n = (int32_t)tokens->shape.dim[0].n;
    tokens = clef_add(b->g, tokens, clef__part(b, clef__position_table(b), 0, 0, n));
    if (b->hp->n_registers > 0) /* they have no positions */
        tokens = below(b, tokens, clef__token_rows(b, CLEF_W_REGISTERS));
    clef_value *x = clef_add(b->g, clef__patches(b), clef__grid_positions(b, n, stretch));
    return clef__vision_layers(b, clef_named(clef__put_before(b, tokens, x), "embed"));
}

/* Rows turn by the first quarter of a head's angles, columns by the second. */
static double dinov3_angle(const clef_builder *b, int32_t row, int32_t column, int32_t k)
{
    const clef__grid grid = clef__grid_of(b);
    const int32_t quarter = b->hp->head_dim / 4;
    const double place = k >= quarter ? (column + 0.5) / grid.columns : (row + 0.5) / grid.rows,
                 rate = pow(b->hp->rope.theta, -4.0 * (k % quarter) / b->hp->head_dim);
    return 2 * 3.14159265358979323846 * (2 * place - 1) * rate;
}

static clef_value *build_dinov3(clef_builder *b)
{
    clef_value *tokens = clef__token_rows(b, CLEF_W_CLASS_TOKEN);
    if (b->hp->n_registers > 0)
        tokens = below(b, tokens, clef__token_rows(b, CLEF_W_REGISTERS));
    if (!tokens)
        return NULL;
    clef__rotate_patches(b, (int32_t)tokens->shape.dim[0].n, dinov3_angle);
    return clef__vision_layers(b, clef_named(clef__put_before(b, tokens, clef__patches(b)), "embed"));
}

/* What transformers calls pooler_output: the class token, in ViT and DeiT through a dense layer where the
 * file has it. */
static clef_value *vector(clef_builder *b, clef_value *x)
{
    x = clef__row(b, x, 0);
    if (!has(b, CLEF_W_HEAD_DENSE) || !clef__has_weight(b, CLEF_W_HEAD_DENSE, "weight"))
        return x;
    return clef_tanh(b->g, clef__free_linear(b, x, CLEF_W_HEAD_DENSE, b->hp->d_model));
}

static clef_value *vit_classes(clef_builder *b, clef_value *x)
{
    return clef__free_linear(b, clef__row(b, x, 0), CLEF_W_OUT, b->hp->d_model);
}

/* With a teacher: the mean of what the class token and the distillation token say. */
static clef_value *deit_classes(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model;
    if (!clef__has_weight(b, CLEF_W_CLASSES_OF_CLASS, "weight"))
        return vit_classes(b, x);
    x = clef_add(b->g, clef__free_linear(b, clef__row(b, x, 0), CLEF_W_CLASSES_OF_CLASS, d),
                 clef__free_linear(b, clef__row(b, x, 1), CLEF_W_CLASSES_OF_DISTILLATION, d));
    return clef__scaled(b, x, 0.5f);
}

/* The class token and the mean of the patches, one beside the other. */
static clef_value *dinov2_classes(clef_builder *b, clef_value *x)
{
    clef_value *both = clef_concat(b->g, clef__row(b, x, 0), clef__mean_of_rows(b, x, 1 + b->hp->n_registers),
                                   &(clef_concat_opts){.axis = 1});
    return clef__free_linear(b, both, CLEF_W_OUT, 2 * b->hp->d_model);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void vit_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){768, 3072, 12, 12, 224, 16, 1e-12, "gelu"});
    if (strcmp(clef__json_string(f, "pooler_act", "tanh"), "tanh") != 0)
        clef__json_refuse(f, "pooler_act other than tanh is not supported");
}

static void dinov2_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){768, 3072, 12, 12, 224, 14, 1e-6, "gelu"});
    const int32_t ratio = (int32_t)clef__json_int(f, "mlp_ratio", 1, 64, 4);
    hp->d_ff = hp->d_model * ratio;
    hp->gated = clef__json_bool(f, "use_swiglu_ffn", 0);
    if (hp->gated) {
        hp->d_ff = (hp->d_ff * 2 / 3 + 7) / 8 * 8;
        hp->activation = CLEF_SILU;
    }
    if (strcmp(hp->arch, "dinov2_with_registers") == 0)
        hp->n_registers = (int32_t)clef__json_int(f, "num_register_tokens", 0, 1024, 4);
    clef__json_refuse_flag(f, "apply_layernorm", 1, 1);
}

static void dinov3_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){384, 1536, 12, 6, 224, 16, 1e-5, "gelu"});
    hp->n_registers = (int32_t)clef__json_int(f, "num_register_tokens", 0, 1024, 0);
    hp->gated = clef__json_bool(f, "use_gated_mlp", 0);
    hp->rope.theta = clef__json_double(f, "rope_theta", 1e-3, 1e9, 100);
    if (f->status == CLEF_OK && hp->head_dim % 4 != 0)
        clef__json_refuse(f, "heads of a width that is not a multiple of 4 are not supported");
}

#define PICTURES(family, model_type, weight_names, prefix, reader, builder, classifier)                      \
    static const clef_arch_alias family##_names[] = {{model_type, NULL, -1, -1}, {NULL, NULL, 0, 0}};        \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .kind = CLEF_ENCODER,                                             \
                                           .pictures = 1,                                                    \
                                           .weights = {.hf = weight_names},                                  \
                                           .hf_prefix = prefix,                                              \
                                           .layer_norms = 1,                                                 \
                                           .read_json = reader,                                              \
                                           .build = builder,                                                 \
                                           .vector = vector,                                                 \
                                           .classes = classifier};

PICTURES(vit, "vit", vit_weights, "vit.", vit_json, build_vit, vit_classes)
PICTURES(deit, "deit", deit_weights, "deit.", vit_json, build_vit, deit_classes)
PICTURES(dinov2, "dinov2", dinov2_weights, "dinov2.", dinov2_json, build_vit, dinov2_classes)
PICTURES(dinov2_registers, "dinov2_with_registers", dinov2_weights, "dinov2_with_registers.", dinov2_json,
         build_vit, dinov2_classes)
PICTURES(dinov3, "dinov3_vit", dinov3_weights, "", dinov3_json, build_dinov3, vit_classes)

/* Encoders that only come with a model of texts: InternVL's (arXiv:2312.14238), a ViT that scales what a
 * block adds, and Pixtral's (2410.07073), whose layers are Llama's with rotary positions in two dimensions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/vision/vision.h"
#include "model/open/model.h"

static clef_value *vector(clef_builder *b, clef_value *x)
{
    return clef__mean_of_rows(b, x, strcmp(b->hp->arch, "internvl_vision") == 0);
}

/* ---- InternVL ---------------------------------------------------------------------------------- */

static const char *const internvl_weights[CLEF_N_ROLES] = {
    [CLEF_W_PATCHES] = "embeddings.patch_embeddings.projection",
    [CLEF_W_CLASS_TOKEN] = "embeddings.cls_token",
    [CLEF_W_POSITIONS] = "embeddings.position_embeddings",
    [CLEF_W_ATTN_NORM] = "encoder.layer.%d.layernorm_before",
    [CLEF_W_FFN_NORM] = "encoder.layer.%d.layernorm_after",
    [CLEF_W_ATTN_Q] = "encoder.layer.%d.attention.q_proj",
    [CLEF_W_ATTN_K] = "encoder.layer.%d.attention.k_proj",
    [CLEF_W_ATTN_V] = "encoder.layer.%d.attention.v_proj",
    [CLEF_W_ATTN_Q_NORM] = "encoder.layer.%d.attention.q_norm",
    [CLEF_W_ATTN_K_NORM] = "encoder.layer.%d.attention.k_norm",
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.projection_layer",
    [CLEF_W_ATTN_LAYER_SCALE] = "encoder.layer.%d.lambda_1",
    [CLEF_W_FFN_LAYER_SCALE] = "encoder.layer.%d.lambda_2",
    [CLEF_W_FFN_UP] = "encoder.layer.%d.mlp.fc1",
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.mlp.fc2",
    [CLEF_W_HEAD_NORM] = "layernorm",
};

static clef_value *build_internvl(clef_builder *b)
{
    clef_value *token = clef__token_rows(b, CLEF_W_CLASS_TOKEN);
    token = clef_add(b->g, token, clef__part(b, clef__position_table(b), 0, 0, 1));
    clef_value *x = clef_add(b->g, clef__patches(b), clef__grid_positions(b, 1, CLEF__STRETCH_BICUBIC));
    x = clef__layers(b, clef_named(clef__put_before(b, token, x), "embed"), b->hp->n_layers,
                     clef__vision_layer);
    b->layer = -1;
    if (clef__has_weight(b, CLEF_W_HEAD_NORM, "weight")) /* without use_mean_pooling */
        x = clef__norm(b, x, CLEF_W_HEAD_NORM);
    return clef_named(x, "/hidden_last");
}

static void internvl_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){1024, 4096, 24, 16, 448, 14, 1e-6, "gelu"});
    clef__json_refuse_flag(f, "use_absolute_position_embeddings", 1, 1);
}

/* ---- Pixtral ----------------------------------------------------------------------------------- */

static const char *const pixtral_weights[CLEF_N_ROLES] = {
    [CLEF_W_PATCHES] = "patch_conv",
    [CLEF_W_EMBED_NORM] = "ln_pre",
    [CLEF_W_ATTN_NORM] = "transformer.layers.%d.attention_norm",
    [CLEF_W_FFN_NORM] = "transformer.layers.%d.ffn_norm",
    [CLEF_W_ATTN_Q] = "transformer.layers.%d.attention.q_proj",
    [CLEF_W_ATTN_K] = "transformer.layers.%d.attention.k_proj",
    [CLEF_W_ATTN_V] = "transformer.layers.%d.attention.v_proj",
    [CLEF_W_ATTN_OUT] = "transformer.layers.%d.attention.o_proj",
    [CLEF_W_FFN_GATE] = "transformer.layers.%d.feed_forward.gate_proj",
    [CLEF_W_FFN_UP] = "transformer.layers.%d.feed_forward.up_proj",
    [CLEF_W_FFN_DOWN] = "transformer.layers.%d.feed_forward.down_proj",
};

/* Even frequencies turn by the row, in the first quarter of a head, and odd ones by the column. */
static double pixtral_angle(const clef_builder *b, int32_t row, int32_t column, int32_t k)
{
    const int32_t quarter = b->hp->head_dim / 4, is_column = k >= quarter;
    const double rate = pow(b->hp->rope.theta, -2.0 * (2 * (k % quarter) + is_column) / b->hp->head_dim);
    return (is_column ? column : row) * rate;
}

static clef_value *build_pixtral(clef_builder *b)
{
    clef__rotate_patches(b, 0, pixtral_angle);
    clef_value *x = clef_named(clef__put_before(b, NULL, clef__patches(b)), "embed");
    return clef__vision_layers(b, clef__norm(b, x, CLEF_W_EMBED_NORM));
}

static void pixtral_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_vision(f, hp, &(clef__vision_defaults){1024, 4096, 24, 16, 1024, 16, 1e-5, "gelu"});
    const json_t *rope = clef__json_get(f, "rope_parameters");
    clef_json_fields inner = {.object = rope, .file = f->file, .within = "rope_parameters", .err = f->err};
    const double theta = clef__json_double(f, "rope_theta", 1e-3, 1e9, 10000);
    hp->rope.theta = rope ? clef__json_double(&inner, "rope_theta", 1e-3, 1e9, theta) : theta;
    const char *type = clef__json_string(&inner, "rope_type", "default");
    if (strcmp(type, "default") != 0 && strcmp(type, "axial") != 0 && inner.status == CLEF_OK)
        inner.status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED,
                       "%s: rope_parameters.rope_type: expected axial or default, got %.40s", f->file, type);
    f->status = f->status ? f->status : inner.status;
    hp->norm_eps = 1e-5f;
    hp->gated = 1;
    if (f->status == CLEF_OK && hp->head_dim % 4 != 0)
        clef__json_refuse(f, "heads of a width that is not a multiple of 4 are not supported");
}

#define PICTURES(family, model_type, norms, reader)                                                          \
    static const clef_arch_alias family##_names[] = {{model_type, NULL, -1, -1}, {NULL, NULL, 0, 0}};        \
    const clef_arch clef__arch_##family##_vision = {.names = family##_names,                                 \
                                                    .kind = CLEF_ENCODER,                                    \
                                                    .pictures = 1,                                           \
                                                    .weights = {.hf = family##_weights},                     \
                                                    .hf_prefix = "",                                         \
                                                    .layer_norms = norms,                                    \
                                                    .qk_norms = CLEF_QK_NORM_ALL,                            \
                                                    .read_json = reader,                                     \
                                                    .build = build_##family,                                 \
                                                    .vector = vector};

PICTURES(internvl, "internvl_vision", CLEF_NORMS_BY_BIAS, internvl_json)
PICTURES(pixtral, "pixtral", 0, pixtral_json)

/* Connectors: of LLaVA (arXiv:2310.03744) and LLaVA-NeXT, Gemma 3 (2503.19786), PaliGemma (2407.07726),
 * Idefics 3 (2408.12637) and SmolVLM (2504.05299), InternVL (2504.10479), Pixtral (2410.07073) and Mistral
 * Small 3.1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/arch/layers.h"
#include "model/tower/connector.h"

enum { TILES_AT_ONCE = 4 };

static int32_t outer_int(const clef__tower *t, const char *key, int32_t missing)
{
    const json_t *value = json_object_get(t->model->outer, key);
    const json_int_t n = value ? json_integer_value(value) : missing;
    return n > 0 && n < 1 << 20 ? (int32_t)n : 0;
}

static clef_value *linear_act_linear(clef__tower *t, clef_value *x)
{
    x = clef__tower_linear(t, x, "linear_1");
    x = x ? clef__tower_act_of(t, x, t->model->outer, "projector_hidden_act", "gelu") : NULL;
    return clef__tower_linear(t, x, "linear_2");
}

/* ---- a row a patch --------------------------------------------------------------------------------- */

static int32_t row_a_patch(const clef__tower *t, clef__patches_of p)
{
    (void)t;
    return p.rows * p.columns;
}

static int32_t llava_rows(const clef__tower *t, clef__patches_of p)
{
    const int has_class = strcmp(clef_model_pictures(t->model, NULL)->arch, "clip_vision_model") == 0;
    const int32_t n = p.rows * p.columns + has_class;
    return t->form->connector->drops_class && !clef__encoder_is_full(t) ? n - 1 : n;
}

static clef_value *llava_project(clef__tower *t, clef__patches_of p, clef_value *x)
{
    (void)p;
    return linear_act_linear(t, x);
}

static clef_value *paligemma_project(clef__tower *t, clef__patches_of p, clef_value *x)
{
    (void)p;
    return clef__tower_linear(t, x, "linear");
}

/* ---- LLaVA-NeXT: the whole picture, then its tiles without what was padded, with an end of each line ----
 */

/* Which part of the tiles' patches shows the picture: those before `skip` on one axis are padding, and as
 * many at the end. */
typedef struct shown {
    int32_t rows, columns, top, left;
} shown;

/* int(round(x, 7)) */
static int32_t whole(double x)
{
    return (int32_t)(nearbyint(x * 1e7) / 1e7);
}

static shown shown_part(const clef_sight_pixels *px, clef__patches_of p)
{
    const int32_t rows = px->rows * p.rows, columns = px->columns * p.columns;
    const double height = px->source_height, width = px->source_width;
    shown s = {rows, columns, 0, 0};
    if (width / height > (double)columns / rows)
        s.top = (rows - whole(height * (columns / width))) / 2;
    else
        s.left = (columns - whole(width * (rows / height))) / 2;
    s.rows -= 2 * s.top;
    s.columns -= 2 * s.left;
    return s;
}

static clef_status next_count(const clef__tower *t, const clef_sight_pixels *px, clef__sight_rows *out,
                              clef_error *err)
{
    const clef_status status = clef__encoder_count(t, px, out, err);
    const clef__patches_of p = clef__encoder_patches(t, px->height, px->width);
    if (status)
        return status;
    if (px->rows < 1 || px->columns < 1 || px->n != 1 + (int64_t)px->rows * px->columns ||
        px->source_height < 1 || px->source_width < 1 ||
        t->form->connector->n_rows(t, p) != p.rows * p.columns)
        return clef__fail(
            err, CLEF_E_SHAPE,
            "%d pictures as %d x %d tiles of %d x %d pixels: expected the whole one and its tiles", px->n,
            px->columns, px->rows, px->source_width, px->source_height);
    const shown s = shown_part(px, p); /* may be no row, of a line of pixels */
    out->n = p.rows * p.columns + s.rows * (s.columns + 1);
    return CLEF_OK;
}

static void next_arrange(const clef__tower *t, const clef_sight_pixels *px, const float *units,
                         const float *newline, float *rows)
{
    const clef__patches_of p = clef__encoder_patches(t, px->height, px->width);
    const shown s = shown_part(px, p);
    const size_t d = (size_t)t->model->hparams.d_model, n_bytes = d * sizeof *rows;
    const int32_t each = p.rows * p.columns;
    memcpy(rows, units, (size_t)each * n_bytes);
    rows += (size_t)each * d;
    for (int32_t y = s.top; y < s.top + s.rows; y++, rows += d) {
        for (int32_t x = s.left; x < s.left + s.columns; x++, rows += d) {
            const int32_t tile = 1 + y / p.rows * px->columns + x / p.columns;
            memcpy(rows, units + (size_t)(tile * each + y % p.rows * p.columns + x % p.columns) * d, n_bytes);
        }
        memcpy(rows, newline, n_bytes);
    }
}

/* ---- Gemma 3: means of squares, a norm, a product ---------------------------------------------------- */

/* Rows on each side. */
static int32_t gemma_side(const clef__tower *t)
{
    return (int32_t)sqrt((double)outer_int(t, "mm_tokens_per_image", 256));
}

static int32_t gemma_rows(const clef__tower *t, clef__patches_of p)
{
    const int32_t side = gemma_side(t), n = side * side;
    const int fits =
        n > 0 && n == outer_int(t, "mm_tokens_per_image", 256) && p.rows == p.columns && p.rows % side == 0;
    return fits ? n : 0;
}

/* The means of squares of patches, as a product with a matrix [rows, patches]. */
static clef_value *gemma_pooled(clef__tower *t, clef__patches_of p, clef_value *x)
{
    const int32_t side = gemma_side(t), k = p.rows / side, n = p.rows * p.columns;
    float *m = calloc((size_t)side * (size_t)side * (size_t)n, sizeof *m);
    if (!m)
        return clef__graph_fail(t->g, CLEF_E_NOMEM, "no memory for the means of %d patches", n);
    for (int32_t i = 0; i < n; i++)
        m[(size_t)(i / p.columns / k * side + i % p.columns / k) * (size_t)n + (size_t)i] =
            1.0f / (float)(k * k);
    clef_value *means =
        clef_constant(t->g, "means", CLEF_F32, clef_shape_2(clef_n(side * side), clef_n(n)), m);
    free(m);
    return clef_matmul(t->g, means, x, NULL, NULL);
}

static clef_value *gemma_project(clef__tower *t, clef__patches_of p, clef_value *x)
{
    const clef_tensor_info *w = clef__tower_find(t, "mm_input_projection_weight");
    if (!x)
        return NULL;
    if (!w || w->rank != 2)
        return clef__graph_fail(t->g, CLEF_E_NOT_FOUND,
                                "%s: the weight %smm_input_projection_weight is missing",
                                clef_model_path(t->model), t->prefix);
    const clef_dim d = clef__dim_right(&x->shape, 0);
    clef_value *norm = clef__tower_weight(t, "mm_soft_emb_norm.weight", clef_shape_1(d));
    norm = clef__in_floats(t->g, norm);
    norm = t->model->is_gguf ? norm : clef_affine(t->g, norm, &(clef_affine_opts){.scale = 1, .shift = 1});
    x = clef_rms_norm(t->g, gemma_pooled(t, p, x), norm, &(clef_norm_opts){.eps = t->eps});
    w = clef__tower_find(t, "mm_input_projection_weight");
    return clef_matmul(
        t->g, x, clef__tower_weight(t, "mm_input_projection_weight", clef_shape_2(d, clef_n(w->dims[1]))),
        NULL, NULL);
}

/* ---- squares of patches beside each other ------------------------------------------------------------ */

static int32_t rows_of_squares(clef__patches_of p, int32_t side)
{
    return side > 0 && p.rows % side == 0 && p.columns % side == 0 ? p.rows / side * (p.columns / side) : 0;
}

/* x [B, patches, d] as [B, squares, side side d]: the patches of a square one after the other, row by row. */
static clef_value *squares(clef__tower *t, clef__patches_of p, clef_value *x, int32_t side)
{
    if (!x)
        return NULL;
    const int32_t rows = p.rows / side, columns = p.columns / side;
    const clef_dim B = x->shape.dim[0], d = clef__dim_right(&x->shape, 0);
    clef_dim lines = B;
    lines.n *= rows;
    x = clef_reshape(t->g, x, clef_shape_4(lines, clef_n(side), clef_n(columns), clef_n(side * d.n)));
    x = clef_permute(t->g, x, &(clef_permute_opts){{0, 2, 1, 3}});
    return clef_reshape(t->g, x,
                        clef_shape_3(B, clef_n((int64_t)rows * columns), clef_n((int64_t)side * side * d.n)));
}

static int32_t idefics_rows(const clef__tower *t, clef__patches_of p)
{
    return rows_of_squares(p, outer_int(t, "scale_factor", 2));
}

static clef_value *idefics_project(clef__tower *t, clef__patches_of p, clef_value *x)
{
    return clef__tower_linear(t, squares(t, p, x, outer_int(t, "scale_factor", 2)),
                              "modality_projection.proj");
}

/* downsample_ratio: one over the side of a square; 0: it is not. */
static int32_t internvl_side(const clef__tower *t)
{
    const json_t *ratio = json_object_get(t->model->outer, "downsample_ratio");
    const double side = ratio && json_number_value(ratio) > 0 ? 1 / json_number_value(ratio) : ratio ? 0 : 2;
    return side >= 1 && side <= 64 && side == floor(side) ? (int32_t)side : 0;
}

static int32_t internvl_rows(const clef__tower *t, clef__patches_of p)
{
    return clef__encoder_is_full(t) ? 0 : rows_of_squares(p, internvl_side(t));
}

static clef_value *internvl_project(clef__tower *t, clef__patches_of p, clef_value *x)
{
    t->eps = 1e-5f; /* what PyTorch's norms have by themselves */
    x = clef__tower_norm(t, squares(t, p, x, internvl_side(t)), "layer_norm");
    return linear_act_linear(t, x);
}

static int32_t mistral_rows(const clef__tower *t, clef__patches_of p)
{
    return rows_of_squares(p, outer_int(t, "spatial_merge_size", 2));
}

/* Here all patches of a square stand beside each other for each of its channels. */
static clef_value *mistral_project(clef__tower *t, clef__patches_of p, clef_value *x)
{
    const int32_t side = outer_int(t, "spatial_merge_size", 2), n = side * side;
    if (!x)
        return NULL;
    const clef_dim B = x->shape.dim[0], d = clef__dim_right(&x->shape, 0);
    t->eps = t->model->hparams.norm_eps;
    x = squares(t, p, clef__tower_norm(t, x, "norm"), side);
    clef_dim all = B;
    all.n *= mistral_rows(t, p);
    x = clef_permute(t->g, clef_reshape(t->g, x, clef_shape_3(all, clef_n(n), d)),
                     &(clef_permute_opts){{0, 2, 1}});
    x = clef_reshape(t->g, x, clef_shape_3(B, clef_n(mistral_rows(t, p)), clef_n(n * d.n)));
    return linear_act_linear(t, clef__tower_linear(t, x, "patch_merger.merging_layer"));
}

/* Pixtral's lines are told apart in the text. */
static clef_status lines_count(const clef__tower *t, const clef_sight_pixels *px, clef__sight_rows *out,
                               clef_error *err)
{
    const clef_status s = clef__encoder_count(t, px, out, err);
    const clef__patches_of p = clef__encoder_patches(t, px->height, px->width);
    const int32_t side = t->form == &clef__tower_mistral ? outer_int(t, "spatial_merge_size", 2) : 1;
    if (s)
        return s;
    out->height = p.rows / side;
    out->width = p.columns / side;
    return CLEF_OK;
}

/* ---- forms ------------------------------------------------------------------------------------------ */

static const char *const projectors[] = {"multi_modal_projector.", "model.multi_modal_projector.", NULL};
static const char *const connectors[] = {"model.connector.", "connector.", NULL};
static const char squared[] = "numbers of patches that the side of a square divides, and no class token";

static const clef__connector llava = {llava_rows, "a row a patch", llava_project, 1, -2, 0, 1};
static const clef__connector pixtral = {row_a_patch, "a row a patch", llava_project, 1, -2, 0, 0};
static const clef__connector gemma = {
    gemma_rows,
    "as many on each side, and mm_tokens_per_image a square that divides them",
    gemma_project,
    0,
    0,
    0,
    0};
static const clef__connector paligemma = {row_a_patch, "a row a patch", paligemma_project, 0, 0, 0, 0};
static const clef__connector idefics = {idefics_rows, squared, idefics_project, 0, 0, 0, 0};
static const clef__connector internvl = {internvl_rows, squared, internvl_project, 1, -1, 1, 1};
static const clef__connector mistral = {mistral_rows, squared, mistral_project, 1, -1, 0, 0};

#define FORM(family, where, tensor, count_rows, at_once, ...)                                                \
    const clef__tower_form clef__tower_##family = {.prefixes = where,                                        \
                                                   .marker = tensor,                                         \
                                                   .most_units = at_once,                                    \
                                                   .read = clef__encoder_read,                               \
                                                   .count = count_rows,                                      \
                                                   .build = clef__encoder_build,                             \
                                                   .feed = clef__encoder_feed,                               \
                                                   __VA_ARGS__};

FORM(llava, projectors, "linear_1.weight", clef__encoder_count, TILES_AT_ONCE, .connector = &llava)
FORM(llava_next, projectors, "linear_1.weight", next_count, TILES_AT_ONCE, .connector = &llava,
     .arrange = next_arrange)
FORM(gemma, projectors, "mm_soft_emb_norm.weight", clef__encoder_count, TILES_AT_ONCE, .connector = &gemma)
FORM(paligemma, projectors, "linear.weight", clef__encoder_count, TILES_AT_ONCE, .connector = &paligemma)
FORM(idefics, connectors, "modality_projection.proj.weight", clef__encoder_count, TILES_AT_ONCE,
     .connector = &idefics)
FORM(internvl, projectors, "linear_1.weight", clef__encoder_count, TILES_AT_ONCE, .connector = &internvl)
FORM(pixtral, projectors, "linear_1.weight", lines_count, 1, .connector = &pixtral)
FORM(mistral, projectors, "patch_merger.merging_layer.weight", lines_count, 1, .connector = &mistral)

/* Encoders of pictures: patches, positions, layers. */
#include "model/arch/vision/vision.h"

#include <math.h>
#include <stdlib.h>

#include "model/open/model.h"

/* ---- the input ------------------------------------------------------------------------------- */

clef_status clef__check_picture_opts(const clef_model *model, const clef_build_opts *o, clef_error *err)
{
    const char *why, *path = clef_model_path(model);
    const clef_hparams *hp = clef_model_pictures(model, &why);
    if (!hp)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: expected a model that reads pictures: %s", path, why);
    if (o->sample || o->candidates || o->n_rows || o->loras || o->train ||
        (o->padding_mask && !o->for_export) || o->token_head)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: %s reads pictures: it neither generates text nor is trained here", path,
                          hp->arch);
    const int32_t p = hp->patch_size;
    const int64_t height = o->picture_height ? o->picture_height : hp->image_height,
                  width = o->picture_width ? o->picture_width : hp->image_width;
    if (height < p || width < p || height > 1 << 16 || width > 1 << 16)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: a picture of %lld x %lld pixels: expected sides of %d, a patch, to %d", path,
                          (long long)width, (long long)height, p, 1 << 16);
    return o->n_sequences < 1
               ? clef__fail(err, CLEF_E_ARG, "%d pictures, expected at least 1", o->n_sequences)
               : CLEF_OK;
}

void clef__add_pixels(clef_builder *b, const clef_build_opts *o)
{
    b->hp = clef_model_pictures(b->model, NULL);
    b->arch = clef__arch_find(b->hp->arch, 0);
    b->weights = &b->arch->weights;
    b->prefix = b->model->tower_prefix;
    b->is_gguf = 0;
    b->cached = b->causal = 0;
    b->B = clef_symbol(b->g, "B", o->n_sequences);
    b->pixels = clef_input(b->g, "pixel_values", CLEF_F32,
                           clef_shape_4(b->B, clef_n(3),
                                        clef_n(o->picture_height ? o->picture_height : b->hp->image_height),
                                        clef_n(o->picture_width ? o->picture_width : b->hp->image_width)));
}

/* ---- patches --------------------------------------------------------------------------------- */

clef__grid clef__grid_of(const clef_builder *b)
{
    if (!b->pixels)
        return (clef__grid){1, 1};
    return (clef__grid){(int32_t)b->pixels->shape.dim[2].n / b->hp->patch_size,
                        (int32_t)b->pixels->shape.dim[3].n / b->hp->patch_size};
}

static clef_dim times(clef_dim dim, int64_t n)
{
    dim.n *= n;
    return dim;
}

/* [B, 3, H, W] -> [B, patches, 3 p p]. Two steps, because a value has at most four dims. */
static clef_value *cut_patches(clef_builder *b)
{
    clef_graph *g = b->g;
    const clef__grid grid = clef__grid_of(b);
    const int32_t p = b->hp->patch_size, rows = grid.rows, columns = grid.columns;
    const clef_dim P = clef_n(p), n = clef_n((int64_t)rows * columns), pp = clef_n((int64_t)p * p);
    clef_value *x = clef__part(b, clef__part(b, b->pixels, 2, 0, rows * p), 3, 0, columns * p);
    x = clef_reshape(g, x, clef_shape_4(times(b->B, 3 * rows), P, clef_n(columns), P));
    x = clef_permute(g, x, &(clef_permute_opts){{0, 2, 1, 3}}); /* [B 3 rows, columns, p, p] */
    x = clef_reshape(g, x, clef_shape_4(b->B, clef_n(3), n, pp));
    x = clef_permute(
        g, x, b->hp->colours_last ? &(clef_permute_opts){{0, 2, 3, 1}} : &(clef_permute_opts){{0, 2, 1, 3}});
    return clef_reshape(g, x, clef_shape_3(b->B, n, clef_n(3 * (int64_t)p * p)));
}

clef_value *clef__patches(clef_builder *b)
{
    const int32_t p = b->hp->patch_size;
    return clef__linear(b, cut_patches(b), CLEF_W_PATCHES, 3 * p * p, b->hp->d_model);
}

/* ---- tokens and positions -------------------------------------------------------------------- */

clef_value *clef__token_rows(clef_builder *b, clef_role role)
{
    clef_value *x = clef__role_weight(b, role, clef__bare_suffix(b));
    int64_t n = 1;
    for (int32_t i = 0; x && i < x->shape.rank; i++)
        n *= x->shape.dim[i].n;
    if (x && n % b->hp->d_model != 0)
        return clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: the weight %s has %lld numbers, expected rows of %d",
                                clef_model_path(b->model), x->name, (long long)n, b->hp->d_model);
    return clef_reshape(b->g, clef__in_floats(b->g, x),
                        clef_shape_2(clef_n(n / b->hp->d_model), clef_n(b->hp->d_model)));
}

clef_value *clef__put_before(clef_builder *b, clef_value *tokens, clef_value *x)
{
    if (!x)
        return NULL;
    int64_t n = x->shape.dim[1].n;
    if (tokens) {
        clef_value *zero =
            clef_affine(b->g, clef__part(b, x, 1, 0, 1), &(clef_affine_opts){.scale = 0}); /* [B, 1, d] */
        n += tokens->shape.dim[0].n;
        x = clef_concat(b->g, clef_add(b->g, zero, tokens), x, &(clef_concat_opts){.axis = 1});
    }
    b->T = b->S = clef_n(n);
    return x;
}

clef_value *clef__position_table(clef_builder *b)
{
    clef_value *x = clef__has_weight(b, CLEF_W_POSITIONS, "weight")
                        ? clef__role_weight(b, CLEF_W_POSITIONS, "weight")
                        : clef__role_weight(b, CLEF_W_POSITIONS, clef__bare_suffix(b));
    const int32_t d = b->hp->d_model;
    if (!x || x->shape.rank < 2 || clef__dim_right(&x->shape, 0).n != d)
        return x ? clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: the weight %s: expected rows of %d numbers",
                                    clef_model_path(b->model), x->name, d)
                 : NULL;
    return clef_reshape(b->g, clef__in_floats(b->g, x),
                        clef_shape_2(clef__dim_right(&x->shape, 1), clef_n(d)));
}

/* Keys (1981). */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* Row i of the weights of n_in numbers that n_out are made of: w [n_in]. */
static void stretch_row(clef__stretch kind, int32_t i, int32_t n_in, int32_t n_out, double *w)
{
    const double scale = (double)n_in / n_out, centre = (i + 0.5) * scale - 0.5;
    const double wide = kind == CLEF__STRETCH_BICUBIC || scale < 1 ? 1 : scale;
    double sum = 0;
    for (int32_t k = 0; k < n_in; k++)
        w[k] = 0;
    if (kind == CLEF__STRETCH_BICUBIC) { /* numbers beside the table count as its last ones */
        for (int32_t k = (int32_t)floor(centre) - 1; k <= (int32_t)floor(centre) + 2; k++)
            w[k < 0 ? 0 : k < n_in ? k : n_in - 1] += cubic(k - centre, -0.75);
        return;
    }
    for (int32_t k = 0; k < n_in; k++) {
        const double x = (k - centre) / wide;
        sum += w[k] = kind == CLEF__STRETCH_LINEAR_ANTIALIAS ? fmax(0, 1 - fabs(x)) : cubic(x, -0.5);
    }
    for (int32_t k = 0; k < n_in; k++)
        w[k] /= sum;
}

/* The matrix [rows columns, side side] that stretches a square table. */
static clef_value *stretch_matrix(clef_builder *b, clef__grid grid, int32_t side, clef__stretch kind)
{
    enum { MOST = 1 << 26 };
    const int64_t n = (int64_t)grid.rows * grid.columns, m = (int64_t)side * side;
    if (n * m > MOST)
        return clef__graph_fail(b->g, CLEF_E_LIMIT, "%s: a picture of %d x %d patches: expected fewer",
                                clef_model_path(b->model), grid.columns, grid.rows);
    double *wy = malloc((size_t)(grid.rows + grid.columns) * (size_t)side * sizeof *wy);
    float *all = malloc((size_t)(n * m) * sizeof *all);
    clef_value *matrix = NULL;
    if (wy && all) {
        double *wx = wy + (size_t)grid.rows * (size_t)side;
        for (int32_t y = 0; y < grid.rows; y++)
            stretch_row(kind, y, side, grid.rows, wy + (size_t)y * (size_t)side);
        for (int32_t x = 0; x < grid.columns; x++)
            stretch_row(kind, x, side, grid.columns, wx + (size_t)x * (size_t)side);
        for (int64_t i = 0; i < n * m; i++) {
            const int64_t to = i / m, from = i % m;
            all[i] = (float)(wy[to / grid.columns * side + from / side] *
                             wx[to % grid.columns * side + from % side]);
        }
        matrix = clef_constant(b->g, "stretch", CLEF_F32, clef_shape_2(clef_n(n), clef_n(m)), all);
    } else {
        clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory to stretch its positions",
                         clef_model_path(b->model));
    }
    free(wy);
    free(all);
    return matrix;
}

clef_value *clef__grid_positions(clef_builder *b, int32_t first, clef__stretch stretch)
{
    const clef__grid grid = clef__grid_of(b);
    clef_value *table = clef__position_table(b);
    if (!table)
        return NULL;
    const int64_t n = table->shape.dim[0].n - first, side = llround(sqrt((double)(n < 0 ? 0 : n)));
    if (n < 1 || side * side != n)
        return clef__graph_fail(b->g, CLEF_E_SHAPE,
                                "%s: %lld position embeddings of patches: expected a square of a number",
                                clef_model_path(b->model), (long long)n);
    table = clef__part(b, table, 0, first, (int32_t)n);
    if (side == grid.rows && side == grid.columns)
        return table;
    clef_value *matrix = stretch_matrix(b, grid, (int32_t)side, stretch);
    return clef__name_value(b, clef_matmul(b->g, matrix, table, NULL, NULL), "embed.positions");
}

/* ---- rotary positions ------------------------------------------------------------------------ */

void clef__rotate_patches(clef_builder *b, int32_t n_special, clef__patch_angle *angle)
{
    const clef__grid grid = clef__grid_of(b);
    const int32_t D = b->hp->head_dim, n = grid.rows * grid.columns + n_special;
    float *cosines = malloc((size_t)n * (size_t)D * sizeof *cosines),
          *sines = malloc((size_t)n * (size_t)D * sizeof *sines);
    const clef_shape shape = clef_shape_3(clef_n(n), clef_n(1), clef_n(D));
    for (int32_t i = 0; cosines && sines && i < n * D; i++) {
        const int32_t at = i / D - n_special;
        const double x = at < 0 ? 0 : angle(b, at / grid.columns, at % grid.columns, i % (D / 2));
        cosines[i] = (float)cos(x);
        sines[i] = (float)sin(x);
    }
    if (cosines && sines) {
        b->cosines = clef_constant(b->g, "rope.cosines", CLEF_F32, shape, cosines);
        b->sines = clef_constant(b->g, "rope.sines", CLEF_F32, shape, sines);
    } else {
        clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for the angles of RoPE",
                         clef_model_path(b->model));
    }
    free(cosines);
    free(sines);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* x times the vector of a role, in families that have it. */
static clef_value *layer_scaled(clef_builder *b, clef_value *x, clef_role role)
{
    if (!b->weights->hf[role] || !clef__has_weight(b, role, clef__bare_suffix(b)))
        return x;
    return clef_mul(
        b->g, x,
        clef__role_weight_shaped(b, role, clef__bare_suffix(b), clef_shape_1(clef_n(b->hp->d_model))));
}

static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    if (!b->hp->gated)
        return clef__feed_forward(b, x);
    if (b->weights->hf[CLEF_W_FFN_GATE])
        return clef__gated_feed_forward(b, x);
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *both = clef__linear(b, x, CLEF_W_FFN_GATE_UP, d, 2 * d_ff);
    clef_value *gate = clef__activation(b, clef__part(b, both, 2, 0, d_ff));
    x = clef__name_value(b, clef_mul(b->g, gate, clef__part(b, both, 2, d_ff, d_ff)), "mlp.act");
    return clef__linear(b, x, CLEF_W_FFN_GATED_DOWN, d_ff, d);
}

clef_value *clef__vision_layer(clef_builder *b, clef_value *x)
{
    clef_value *y = clef__layer_attention(b, clef__norm(b, x, CLEF_W_ATTN_NORM));
    x = clef__add_residual(b, x, layer_scaled(b, y, CLEF_W_ATTN_LAYER_SCALE), "attn_residual");
    y = feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM));
    return clef__add_residual(b, x, layer_scaled(b, y, CLEF_W_FFN_LAYER_SCALE), "mlp_residual");
}

clef_value *clef__vision_layers(clef_builder *b, clef_value *x)
{
    x = clef__layers(b, x, b->hp->n_layers, clef__vision_layer);
    b->layer = -1;
    if (b->weights->hf[CLEF_W_OUT_NORM])
        x = clef__norm(b, x, CLEF_W_OUT_NORM);
    return clef_named(x, "/hidden_last");
}

clef_value *clef__row(clef_builder *b, clef_value *x, int32_t i)
{
    return clef_reshape(b->g, clef__part(b, x, 1, i, 1), clef_shape_2(b->B, clef_n(b->hp->d_model)));
}

clef_value *clef__mean_of_rows(clef_builder *b, clef_value *x, int32_t first)
{
    if (!x)
        return NULL;
    x = clef__part(b, x, 1, first, (int32_t)x->shape.dim[1].n - first);
    x = clef_reduce(b->g, clef_permute(b->g, x, &(clef_permute_opts){{0, 2, 1}}),
                    &(clef_reduce_opts){CLEF_REDUCE_MEAN});
    return clef_reshape(b->g, x, clef_shape_2(b->B, clef_n(b->hp->d_model)));
}

clef_value *clef__free_linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in)
{
    clef_value *w = clef__role_weight(b, role, "weight");
    return w && w->shape.rank == 2 ? clef__linear(b, x, role, n_in, (int32_t)w->shape.dim[0].n) : NULL;
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* A number, or a list of two. */
static void read_pair(clef_json_fields *f, const char *key, int32_t missing, int32_t out[2])
{
    enum { MOST = 1 << 16 };
    const json_t *value = clef__json_get(f, key);
    if (!json_is_array(value)) {
        out[0] = out[1] = (int32_t)clef__json_int(f, key, 1, MOST, missing);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(value, i);
        const json_int_t n = json_integer_value(one);
        if ((json_array_size(value) != 2 || n < 1 || n > MOST) && f->status == CLEF_OK)
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s: expected a number, or two", f->file, key);
        out[i] = (int32_t)n;
    }
}

void clef__json_vision(clef_json_fields *f, clef_hparams *hp, const clef__vision_defaults *missing)
{
    int32_t image[2] = {0}, patch[2] = {0};
    hp->d_model = (int32_t)clef__json_int(f, "hidden_size", 1, CLEF_MAX_WIDTH, missing->d_model);
    hp->d_ff = (int32_t)clef__json_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH, missing->d_ff);
    hp->n_layers = (int32_t)clef__json_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS, missing->n_layers);
    hp->n_heads = hp->n_kv_heads =
        (int32_t)clef__json_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS, missing->n_heads);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, missing->eps);
    read_pair(f, "image_size", missing->image_size, image);
    read_pair(f, "patch_size", missing->patch_size, patch);
    if (f->status == CLEF_OK && patch[0] != patch[1])
        clef__json_refuse(f, "patch_size: patches that are not square are not supported");
    if (clef__json_int(f, "num_channels", 1, 64, 3) != 3)
        clef__json_refuse(f, "num_channels other than 3 is not supported");
    hp->patch_size = patch[0];
    hp->image_height = image[0];
    hp->image_width = image[1];
    clef__json_activation(f, hp, "hidden_act", missing->activation);
    clef__json_head_dim(f, hp);
    if (f->status == CLEF_OK && (image[0] < patch[0] || image[1] < patch[0]))
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: image_size %d is less than patch_size %d", f->file,
                               image[0], patch[0]);
    if (f->status == CLEF_OK)
        hp->n_context = image[0] / patch[0] * (image[1] / patch[0]);
}

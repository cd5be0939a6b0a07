/* The towers of Qwen2-VL (arXiv:2409.12191), Qwen2.5-VL (arXiv:2502.13923: windows in most layers, RMS norms,
 * gated feed-forwards) and Qwen3-VL (learned positions, interpolated; rows for the first layers of the text
 * model). Patches turn by their place in both axes, and each square of 2 x 2 of them becomes one row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/tower/tower.h"

enum { CHANNELS = 3, MOST_LAYERS = 512 };
#define SECOND "patch_embed.proj.weight.1"

/* Sizes of a tower, by its configuration and its tensors. */
typedef struct sizes {
    int32_t n_layers, n_heads, patch, frames, merge, window, side, width;
} sizes;

static clef_status read_sizes(const clef__tower *t, sizes *z, clef_error *err)
{
    const int is_2 = strncmp(t->model->sight->family, "qwen2", 5) == 0,
              has_windows = strcmp(t->model->sight->family, "qwen2_5_vl") == 0;
    const clef_tensor_info *first = clef__tower_find(t, "patch_embed.proj.weight"),
                           *places = clef__tower_find(t, "pos_embed.weight");
    *z = (sizes){.width = first ? (int32_t)first->dims[0] : 0};
    clef_status s = clef__tower_int(t, "depth", 1, MOST_LAYERS, is_2 ? 32 : 27, &z->n_layers, err);
    if (!s)
        s = clef__tower_int(t, "num_heads", 1, 1024, 16, &z->n_heads, err);
    if (!s)
        s = clef__tower_int(t, "patch_size", 1, 256, is_2 ? 14 : 16, &z->patch, err);
    if (!s)
        s = clef__tower_int(t, "temporal_patch_size", 1, 16, 2, &z->frames, err);
    if (!s)
        s = clef__tower_int(t, "spatial_merge_size", 1, 16, 2, &z->merge, err);
    if (!s && has_windows)
        s = clef__tower_int(t, "window_size", 1, 1 << 16, 112, &z->window, err);
    if (clef__tower_find(t, SECOND)) /* each of the frames, which are the same picture, has a matrix */
        z->frames = 1;
    if (s)
        return s;
    z->window = z->window / z->merge / z->patch; /* rows of a window */
    z->side = places ? (int32_t)sqrt((double)places->dims[0]) : 0;
    if (z->width < 1 || z->width % z->n_heads || z->width / z->n_heads % 4 ||
        (has_windows && z->window < 1) || (places && z->side * z->side != places->dims[0]))
        s = clef__fail(
            err, CLEF_E_SHAPE,
            "%s: a tower of width %d, %d heads, windows of %d rows and %d positions a side does not "
            "fit together",
            clef_model_path(t->model), z->width, z->n_heads, z->window, z->side);
    return s;
}

static clef_status qwen_read(clef__tower *t, clef_error *err)
{
    sizes z;
    t->eps = 1e-6f;
    return read_sizes(t, &z, err);
}

static clef_status qwen_count(const clef__tower *t, const clef_sight_pixels *px, clef__sight_rows *out,
                              clef_error *err)
{
    sizes z;
    const clef_status s = read_sizes(t, &z, err);
    const int32_t unit = z.patch * z.merge;
    if (s)
        return s;
    if (px->n != 1 || px->height % unit || px->width % unit)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%d pictures of %d x %d pixels: expected one, and multiples of %d", px->n,
                          px->height, px->width, unit);
    out->height = px->height / unit;
    out->width = px->width / unit;
    out->n = out->n_units = out->height * out->width;
    return CLEF_OK;
}

/* ---- the graph --------------------------------------------------------------------------------- */

/* What the layers share. */
typedef struct qwen {
    clef__tower *t;
    sizes z;
    clef_dim N, U, W;  /* patches; squares of them; windows */
    clef_value *at[2]; /* I32 [N]: rows and columns of patches */
    clef_value *freqs[2];
    clef_value *in_windows, *inside, *back; /* I32 [W L], [W, 1, 1, L] and [N] */
} qwen;

/* Frequencies of the pairs that turn by the row (axis 0) or by the column; the others stay. */
static clef_value *axis_freqs(const qwen *q, int32_t axis)
{
    const int32_t D = q->z.width / q->z.n_heads, half = D / 4;
    float *freqs = calloc((size_t)D / 2 + 1, sizeof *freqs);
    if (!freqs)
        return clef__graph_fail(q->t->g, CLEF_E_NOMEM, "no memory for %d frequencies", D / 2);
    for (int32_t i = 0; i < half; i++)
        freqs[axis * half + i] = (float)(1 / pow(10000, 2.0 * i / (D / 2)));
    clef_value *x = clef_constant(q->t->g, axis ? "rope.freqs_width" : "rope.freqs_height", CLEF_F32,
                                  clef_shape_1(clef_n(D / 2)), freqs);
    free(freqs);
    return x;
}

static clef_value *turned(const qwen *q, clef_value *x)
{
    for (int axis = 0; axis < 2; axis++)
        x = clef_rope(q->t->g, x, q->freqs[axis], q->at[axis], NULL);
    return x;
}

/* Part i of q, k and v [N, 3, H, D], as [N, 1, H, D]. */
static clef_value *part(const qwen *q, clef_value *x, int32_t i)
{
    return clef_slice(q->t->g, x, &(clef_slice_opts){.axis = 1, .start = i, .size = clef_n(1)});
}

/* [N, 1, H, D] as [1, H, N, D]; or in windows, as [W, H, L, D]. */
static clef_value *by_heads(const qwen *q, clef_value *x, int windows)
{
    clef_graph *g = q->t->g;
    const sizes *z = &q->z;
    const int32_t H = z->n_heads, D = z->width / H;
    const clef_dim L = clef_n((int64_t)z->window * z->window * z->merge * z->merge);
    if (windows)
        x = clef_gather(g, clef_reshape(g, x, clef_shape_2(q->N, clef_n(z->width))), q->in_windows, NULL);
    x = clef_reshape(g, x,
                     clef_shape_4(windows ? q->W : clef_n(1), windows ? L : q->N, clef_n(H), clef_n(D)));
    return clef_permute(g, x, &(clef_permute_opts){{0, 2, 1, 3}});
}

static int is_full(const qwen *q)
{
    static const int32_t missing[] = {7, 15, 23, 31};
    const json_t *list = json_object_get(q->t->config, "fullatt_block_indexes");
    int full = !q->z.window;
    for (size_t i = 0; i < (list ? json_array_size(list) : 4); i++)
        full |= (list ? json_integer_value(json_array_get(list, i)) : missing[i]) == q->t->layer;
    return full;
}

static clef_value *attention(const qwen *q, clef_value *x)
{
    clef_graph *g = q->t->g;
    const sizes *z = &q->z;
    const int32_t H = z->n_heads, D = z->width / H;
    const int windows = !is_full(q);
    clef_value *heads[3];
    const int is_split = clef__tower_find(q->t, "blocks.%d.attn.q.weight") != NULL;
    if (!is_split)
        x = clef_reshape(g, clef__tower_linear(q->t, x, "blocks.%d.attn.qkv"),
                         clef_shape_4(q->N, clef_n(3), clef_n(H), clef_n(D)));
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"blocks.%d.attn.q", "blocks.%d.attn.k", "blocks.%d.attn.v"};
        heads[i] = is_split ? clef_reshape(g, clef__tower_linear(q->t, x, names[i]),
                                           clef_shape_4(q->N, clef_n(1), clef_n(H), clef_n(D)))
                            : part(q, x, i);
        heads[i] = by_heads(q, i < 2 ? turned(q, heads[i]) : heads[i], windows);
    }
    x = clef_attention(g, heads[0], heads[1], heads[2], windows ? q->inside : NULL, NULL,
                       &(clef_attention_opts){.scale = 1 / sqrtf((float)D)});
    if (windows) {
        clef_dim all = q->W;
        all.n *= (int64_t)z->window * z->window * z->merge * z->merge;
        x = clef_gather(g, clef_reshape(g, x, clef_shape_2(all, clef_n(z->width))), q->back, NULL);
    }
    x = clef_reshape(g, x, clef_shape_2(q->N, clef_n(z->width)));
    return clef__tower_linear(q->t, x, "blocks.%d.attn.proj");
}

static clef_value *feed_forward(const qwen *q, clef_value *x)
{
    clef__tower *t = q->t;
    if (clef__tower_find(t, "blocks.%d.mlp.gate_proj.weight")) {
        clef_value *gate = clef__tower_act(t, clef__tower_linear(t, x, "blocks.%d.mlp.gate_proj"), "silu");
        x = clef_mul(t->g, gate, clef__tower_linear(t, x, "blocks.%d.mlp.up_proj"));
        return clef__tower_linear(t, x, "blocks.%d.mlp.down_proj");
    }
    const int is_2 = clef__tower_find(t, "blocks.%d.mlp.fc1.weight") != NULL;
    x = clef__tower_linear(t, x, is_2 ? "blocks.%d.mlp.fc1" : "blocks.%d.mlp.linear_fc1");
    x = clef__tower_act(t, x, is_2 ? "quick_gelu" : "gelu_pytorch_tanh");
    return clef__tower_linear(t, x, is_2 ? "blocks.%d.mlp.fc2" : "blocks.%d.mlp.linear_fc2");
}

static clef_value *layer(const qwen *q, clef_value *x)
{
    clef_graph *g = q->t->g;
    x = clef_add(g, x, attention(q, clef__tower_norm(q->t, x, "blocks.%d.norm1")));
    return clef_add(g, x, feed_forward(q, clef__tower_norm(q->t, x, "blocks.%d.norm2")));
}

/* Squares of patches x [N, d] through norm and two products: [U, 1, out]. Where the norm is as wide as a
 * square, squares are normed. */
static clef_value *merged(const qwen *q, clef_value *x, const char *norm, const char *first,
                          const char *second)
{
    clef__tower *t = q->t;
    char name[CLEF__TOWER_NAME];
    const int64_t width = (int64_t)q->z.width * q->z.merge * q->z.merge;
    snprintf(name, sizeof name, "%s.weight", norm);
    const clef_tensor_info *w = clef__tower_find(t, name);
    const int of_squares = w && w->dims[0] == width;
    if (!of_squares)
        x = clef__tower_norm(t, x, norm);
    x = clef_reshape(t->g, x, clef_shape_2(q->U, clef_n(width)));
    if (of_squares)
        x = clef__tower_norm(t, x, norm);
    x = clef__tower_linear(t, clef_gelu(t->g, clef__tower_linear(t, x, first)), second);
    return x ? clef_reshape(t->g, x, clef_shape_3(q->U, clef_n(1), clef__dim_right(&x->shape, 0))) : NULL;
}

/* Learned positions of a grid of `side` x `side`: four neighbours of each patch, with weights. */
static clef_value *with_places(const qwen *q, clef_value *x)
{
    clef_graph *g = q->t->g;
    const int64_t side = q->z.side, d = q->z.width;
    if (!side)
        return x;
    clef_value *table =
        clef__tower_weight(q->t, "pos_embed.weight", clef_shape_2(clef_n(side * side), clef_n(d)));
    clef_value *near = clef_input(g, "neighbours", CLEF_I32, clef_shape_2(q->N, clef_n(4))),
               *weights =
                   clef_input(g, "neighbour_weights", CLEF_F32, clef_shape_3(q->N, clef_n(1), clef_n(4)));
    clef_value *sum = clef_matmul(g, weights, clef_gather(g, table, near, NULL), NULL, NULL);
    return clef_add(g, x, clef_reshape(g, sum, clef_shape_2(q->N, clef_n(d))));
}

/* The rows of the text model's layer `deep` after this layer of the tower; NULL: there are none. */
static clef_value *deep_rows(const qwen *q, clef_value *x)
{
    static const int32_t missing[] = {8, 16, 24};
    const json_t *list = json_object_get(q->t->config, "deepstack_visual_indexes");
    char names[3][CLEF__TOWER_NAME];
    for (int32_t i = 0; i < q->t->model->sight->n_deep; i++) {
        if ((list ? json_integer_value(json_array_get(list, (size_t)i)) : missing[i]) != q->t->layer)
            continue;
        snprintf(names[0], CLEF__TOWER_NAME, "deepstack_merger_list.%d.norm", i);
        snprintf(names[1], CLEF__TOWER_NAME, "deepstack_merger_list.%d.linear_fc1", i);
        snprintf(names[2], CLEF__TOWER_NAME, "deepstack_merger_list.%d.linear_fc2", i);
        return merged(q, x, names[0], names[1], names[2]);
    }
    return NULL;
}

static void make_inputs(qwen *q)
{
    clef_graph *g = q->t->g;
    const sizes *z = &q->z;
    const int64_t L = (int64_t)z->window * z->window * z->merge * z->merge;
    q->U = q->N = clef_symbol(g, "U", q->t->n_units);
    q->N.n *= (int64_t)z->merge * z->merge;
    q->at[0] = clef_input(g, "patch_rows", CLEF_I32, clef_shape_1(q->N));
    q->at[1] = clef_input(g, "patch_columns", CLEF_I32, clef_shape_1(q->N));
    q->freqs[0] = axis_freqs(q, 0);
    q->freqs[1] = axis_freqs(q, 1);
    if (!L)
        return;
    clef_dim all = q->W = clef_symbol(g, "W", q->t->n_units);
    all.n *= L;
    q->in_windows = clef_input(g, "window_patches", CLEF_I32, clef_shape_1(all));
    q->inside = clef_input(g, "window_mask", CLEF_I32, clef_shape_4(q->W, clef_n(1), clef_n(1), clef_n(L)));
    q->back = clef_input(g, "window_places", CLEF_I32, clef_shape_1(q->N));
}

static clef_status qwen_build(clef__tower *t, clef_error *err)
{
    qwen q = {.t = t};
    clef_value *rows = NULL, *deep[CLEF_MAX_LAYERS];
    int32_t n_deep = 0;
    const clef_status s = read_sizes(t, &q.z, err);
    if (s)
        return s;
    t->g = clef_graph_create();
    if (!t->g)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its graph", clef_model_path(t->model));
    make_inputs(&q);
    const int64_t n = (int64_t)CHANNELS * q.z.frames * q.z.patch * q.z.patch;
    clef_value *x = clef_input(t->g, "patches", CLEF_F32, clef_shape_2(q.N, clef_n(n)));
    clef_value *w =
        clef__tower_weight(t, "patch_embed.proj.weight", clef_shape_2(clef_n(q.z.width), clef_n(n)));
    const clef_matmul_opts rows_of_w = {.transpose_b = 1};
    clef_value *first = clef_matmul(t->g, x, w, NULL, &rows_of_w);
    if (clef__tower_find(t, SECOND)) {
        w = clef__tower_weight(t, SECOND, clef_shape_2(clef_n(q.z.width), clef_n(n)));
        first = clef_add(t->g, first, clef_matmul(t->g, x, w, NULL, &rows_of_w));
    }
    x = first;
    if (clef__tower_find(t, "patch_embed.proj.bias"))
        x = clef_add(t->g, x,
                     clef__tower_weight(t, "patch_embed.proj.bias", clef_shape_1(clef_n(q.z.width))));
    x = with_places(&q, x);
    for (t->layer = 0; t->layer < q.z.n_layers; t->layer++) {
        clef_scope_push(t->g, "tower%d", t->layer);
        x = layer(&q, x);
        deep[n_deep] = deep_rows(&q, x);
        n_deep += deep[n_deep] != NULL;
        clef_scope_pop(t->g);
    }
    rows = clef__tower_find(t, "merger.ln_q.weight")
               ? merged(&q, x, "merger.ln_q", "merger.mlp.0", "merger.mlp.2")
               : merged(&q, x, "merger.norm", "merger.linear_fc1", "merger.linear_fc2");
    for (int32_t i = 0; i < n_deep; i++)
        rows = clef_concat(t->g, rows, deep[i], &(clef_concat_opts){.axis = 1});
    clef_output(t->g, "rows", rows);
    return clef_graph_error(t->g, err);
}

/* ---- inputs ------------------------------------------------------------------------------------ */

/* Row and column of patch i: squares from the top, and patches within a square. */
static void place_of(const sizes *z, const clef_sight_pixels *px, int32_t i, int32_t *row, int32_t *column)
{
    const int32_t each = z->merge * z->merge, units = px->width / (z->patch * z->merge), unit = i / each,
                  in = i % each;
    *row = unit / units * z->merge + in / z->merge;
    *column = unit % units * z->merge + in % z->merge;
}

static clef_status write(const clef__tower_call *c, const char *name, const void *data, size_t n_bytes,
                         clef_error *err)
{
    return clef_plan_write(c->plan, clef_plan_input(c->plan, name), data, n_bytes, err);
}

/* Each patch as [channel, frame, row, column]; a picture is all frames of a patch. */
static void fill_patches(const sizes *z, const clef_sight_pixels *px, int32_t n, float *out)
{
    const size_t plane = (size_t)px->height * (size_t)px->width;
    for (int32_t i = 0; i < n; i++) {
        int32_t row, column;
        place_of(z, px, i, &row, &column);
        for (int32_t k = 0; k < CHANNELS * z->frames * z->patch; k++) {
            const int32_t channel = k / z->patch / z->frames, y = row * z->patch + k % z->patch;
            memcpy(out,
                   px->values + (size_t)channel * plane + (size_t)y * (size_t)px->width +
                       (size_t)(column * z->patch),
                   (size_t)z->patch * sizeof *out);
            out += z->patch;
        }
    }
}

/* Where a patch lies on an axis of `n` patches, among `side` learned positions: between two. */
static float between(int32_t at, int32_t n, int32_t side, int32_t near[2])
{
    const float x = (float)at * (float)(side - 1) / (float)(n > 1 ? n - 1 : 1);
    near[0] = (int32_t)floorf(x);
    near[1] = near[0] + 1 < side ? near[0] + 1 : side - 1;
    return x - (float)near[0];
}

static void fill_neighbours(const sizes *z, const clef_sight_pixels *px, int32_t n, int32_t *near,
                            float *weights)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t row, column, y[2], x[2];
        place_of(z, px, i, &row, &column);
        const float down = between(row, px->height / z->patch, z->side, y),
                    right = between(column, px->width / z->patch, z->side, x);
        for (int k = 0; k < 4; k++) {
            near[4 * i + k] = y[k / 2] * z->side + x[k % 2];
            weights[4 * i + k] = (k / 2 ? down : 1 - down) * (k % 2 ? right : 1 - right);
        }
    }
}

/* Windows from the top left; those at the right and the bottom may be cut. Returns their number. */
static int32_t fill_windows(const sizes *z, const clef_sight_pixels *px, int32_t n, int32_t *patches,
                            int32_t *inside, int32_t *places)
{
    const int32_t unit = z->merge * z->patch, across = (px->width / unit + z->window - 1) / z->window,
                  down = (px->height / unit + z->window - 1) / z->window, side = z->window * z->merge;
    memset(patches, 0, (size_t)across * (size_t)down * (size_t)side * (size_t)side * sizeof *patches);
    memset(inside, 0, (size_t)across * (size_t)down * (size_t)side * (size_t)side * sizeof *inside);
    for (int32_t i = 0; i < n; i++) {
        int32_t row, column;
        place_of(z, px, i, &row, &column);
        const int32_t window = row / side * across + column / side;
        places[i] = (window * side + row % side) * side + column % side;
        patches[places[i]] = i;
        inside[places[i]] = 1;
    }
    return across * down;
}

static clef_status feed_windows(const sizes *z, const clef__tower_call *c, int32_t n, int32_t *room,
                                clef_error *err)
{
    const int32_t L = z->window * z->window * z->merge * z->merge, most = c->n * L;
    int32_t *inside = room + most, *places = inside + most;
    const int32_t W = fill_windows(z, c->pixels, n, room, inside, places);
    const size_t n_bytes = (size_t)W * (size_t)L * sizeof *room;
    clef_status s = clef_plan_bind(c->plan, clef_plan_symbol(c->plan, "W"), W, err);
    if (!s)
        s = write(c, "window_patches", room, n_bytes, err);
    if (!s)
        s = write(c, "window_mask", inside, n_bytes, err);
    return s ? s : write(c, "window_places", places, (size_t)n * sizeof *places, err);
}

static clef_status feed_places(const sizes *z, const clef__tower_call *c, int32_t n, int32_t *room,
                               clef_error *err)
{
    for (int32_t i = 0; i < n; i++)
        place_of(z, c->pixels, i, &room[i], &room[n + i]);
    clef_status s = write(c, "patch_rows", room, (size_t)n * sizeof *room, err);
    if (!s)
        s = write(c, "patch_columns", room + n, (size_t)n * sizeof *room, err);
    if (s || !z->side)
        return s;
    float *weights = (float *)(void *)(room + 4 * n);
    fill_neighbours(z, c->pixels, n, room, weights);
    s = write(c, "neighbours", room, 4 * (size_t)n * sizeof *room, err);
    return s ? s : write(c, "neighbour_weights", weights, 4 * (size_t)n * sizeof *weights, err);
}

static clef_status qwen_feed(const clef__tower *t, const clef__tower_call *c, clef_error *err)
{
    sizes z;
    clef_status s = read_sizes(t, &z, err);
    if (s)
        return s;
    const int32_t n = c->n * z.merge * z.merge;
    const size_t elems = (size_t)CHANNELS * (size_t)z.frames * (size_t)z.patch * (size_t)z.patch,
                 of_windows = (size_t)c->n * (2 * (size_t)z.window * (size_t)z.window + 1);
    int32_t *room = malloc(((size_t)n * 8 + of_windows * (size_t)(z.merge * z.merge)) * sizeof *room);
    float *patches = malloc((size_t)n * elems * sizeof *patches);
    if (!room || !patches) {
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for a picture of %d patches", n);
    } else {
        fill_patches(&z, c->pixels, n, patches);
        s = clef_plan_bind(c->plan, clef_plan_symbol(c->plan, "U"), c->n, err);
    }
    if (!s)
        s = write(c, "patches", patches, (size_t)n * elems * sizeof *patches, err);
    if (!s)
        s = feed_places(&z, c, n, room, err);
    if (!s && z.window)
        s = feed_windows(&z, c, n, room, err);
    free(room);
    free(patches);
    return s;
}

static const char *const prefixes[] = {"visual.", "model.visual.", NULL};

const clef__tower_form clef__tower_qwen = {.prefixes = prefixes,
                                           .marker = "patch_embed.proj.weight",
                                           .read = qwen_read,
                                           .count = qwen_count,
                                           .build = qwen_build,
                                           .feed = qwen_feed};

/* Towers that are encoders of pictures of their own: which of their states count, and how tiles are run. */
#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/arch/layers.h"
#include "model/tower/connector.h"

enum { MOST_LAYERS = 8 };

/* ---- the configuration --------------------------------------------------------------------------- */

static const clef_hparams *encoder_of(const clef__tower *t)
{
    return clef_model_pictures(t->model, NULL);
}

clef__patches_of clef__encoder_patches(const clef__tower *t, int32_t height, int32_t width)
{
    const int32_t p = encoder_of(t)->patch_size;
    return (clef__patches_of){height / p, width / p};
}

static const char strategy[] = "vision_feature_select_strategy";

int32_t clef__encoder_is_full(const clef__tower *t)
{
    const char *how = json_string_value(json_object_get(t->model->outer, strategy));
    return how && strcmp(how, "full") == 0;
}

/* CLEF_E_UNSUPPORTED for any other strategy, where it says something. */
static clef_status check_strategy(const clef__tower *t, clef_error *err)
{
    const json_t *value = json_object_get(t->model->outer, strategy);
    const char *how = json_string_value(value);
    if (!t->form->connector->drops_class || !value || json_is_null(value) || clef__encoder_is_full(t) ||
        (how && strcmp(how, "default") == 0))
        return CLEF_OK;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s/config.json: %s: expected default or full, got %.40s",
                      clef_model_path(t->model), strategy, how ? how : clef__json_kind(value));
}

/* 1 for encoders that read pictures of any number of patches. */
static int sizes_vary(const clef__tower *t)
{
    return strcmp(encoder_of(t)->arch, "pixtral") == 0;
}

/* Element i of vision_feature_layer, a number or a list, as the number of a layer; -1: the last states. Fails
 * for anything else than one of the layers. */
static clef_status layer_of(const clef__tower *t, const json_t *value, int32_t *out, clef_error *err)
{
    const int32_t n = encoder_of(t)->n_layers;
    const json_int_t at = value ? json_integer_value(value) : t->form->connector->layer;
    if ((value && !json_is_integer(value)) || at < -n || at > n || at == 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s/config.json: vision_feature_layer: expected numbers from -%d to %d, not 0",
                          clef_model_path(t->model), n, n);
    *out = at == -1 && t->form->connector->last_is_normed ? -1 : (int32_t)(at < 0 ? n + at : at - 1);
    return CLEF_OK;
}

/* The layers whose states count. */
static clef_status read_layers(const clef__tower *t, int32_t layers[MOST_LAYERS], int32_t *n, clef_error *err)
{
    const json_t *value = json_object_get(t->model->outer, "vision_feature_layer");
    const size_t size = json_is_array(value) ? json_array_size(value) : 1;
    clef_status s = CLEF_OK;
    *n = 1;
    layers[0] = -1;
    if (!t->form->connector->has_layer)
        return CLEF_OK;
    if (size < 1 || size > MOST_LAYERS)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s/config.json: vision_feature_layer: expected 1 to %d layers",
                          clef_model_path(t->model), MOST_LAYERS);
    *n = (int32_t)size;
    for (size_t i = 0; i < size && !s; i++)
        s = layer_of(t, json_is_array(value) ? json_array_get(value, i) : value, &layers[i], err);
    return s;
}

/* CLEF_E_UNSUPPORTED where the rows of a picture of this size would be none. */
static clef_status check_rows(const clef__tower *t, int32_t height, int32_t width, clef_error *err)
{
    const clef__connector *c = t->form->connector;
    const clef__patches_of p = clef__encoder_patches(t, height, width);
    if (c->n_rows(t, p) > 0)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a picture of %d x %d patches: expected %s",
                      clef_model_path(t->model), p.columns, p.rows, c->needs);
}

clef_status clef__encoder_read(clef__tower *t, clef_error *err)
{
    int32_t layers[MOST_LAYERS], n;
    const char *why = NULL;
    const clef_hparams *hp = clef_model_pictures(t->model, &why);
    if (!hp)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: its tower cannot be run: %s",
                          clef_model_path(t->model), why);
    t->eps = hp->norm_eps;
    clef_status s = read_layers(t, layers, &n, err);
    if (!s)
        s = check_strategy(t, err);
    return s || sizes_vary(t) ? s : check_rows(t, hp->image_height, hp->image_width, err);
}

/* ---- the graph ----------------------------------------------------------------------------------- */

/* The last layer's have another name, where no norm is behind it. */
static clef_value *states_of(clef__tower *t, int32_t layer)
{
    char name[32];
    snprintf(name, sizeof name, "layer%d.out", layer);
    clef_value *x = layer < 0 ? NULL : clef_graph_find(t->g, name);
    return x ? x : clef_graph_find(t->g, "hidden_last");
}

/* The states of the layers that count, one behind the other: [B, n, d]. */
static clef_value *chosen_states(clef__tower *t, clef_error *err)
{
    int32_t layers[MOST_LAYERS], n;
    if (read_layers(t, layers, &n, err))
        return NULL;
    clef_value *x = states_of(t, layers[0]);
    for (int32_t i = 1; i < n; i++)
        x = clef_concat(t->g, x, states_of(t, layers[i]), &(clef_concat_opts){.axis = 2});
    const int drops = t->form->connector->drops_class && !clef__encoder_is_full(t);
    if (!x || !drops)
        return x;
    return clef_slice(t->g, x,
                      &(clef_slice_opts){.axis = 1, .start = 1, .size = clef_n(x->shape.dim[1].n - 1)});
}

clef_status clef__encoder_build(clef__tower *t, clef_error *err)
{
    const clef__patches_of p = clef__encoder_patches(t, t->height, t->width);
    const clef_build_opts opts = {.part = CLEF_PART_PICTURES,
                                  .n_sequences = t->n_units,
                                  .no_head = 1,
                                  .picture_height = t->height,
                                  .picture_width = t->width};
    const clef_status s = clef_model_build(t->model, &opts, &t->g, err);
    if (s)
        return s;
    t->g->n_outputs = 0; /* the encoder's own */
    clef_value *x = t->form->connector->project(t, p, chosen_states(t, err));
    if (x) {
        clef_dim all = x->shape.dim[0];
        all.n *= x->shape.dim[1].n;
        clef_output(t->g, "rows",
                    clef_reshape(t->g, x, clef_shape_3(all, clef_n(1), clef__dim_right(&x->shape, 0))));
    }
    if (x && t->form->arrange) {
        const clef_dim d = clef__dim_right(&x->shape, 0);
        const char *prefix = t->prefix;
        t->prefix = "model.";
        clef_value *line = clef__tower_weight(t, "image_newline", clef_shape_1(d));
        t->prefix = prefix;
        clef_output(t->g, "newline",
                    clef_affine(t->g, clef__in_floats(t->g, line), &(clef_affine_opts){.scale = 1}));
    }
    return clef_graph_error(t->g, err);
}

/* ---- pictures ------------------------------------------------------------------------------------- */

clef_status clef__encoder_count(const clef__tower *t, const clef_sight_pixels *px, clef__sight_rows *out,
                                clef_error *err)
{
    const clef_hparams *hp = encoder_of(t);
    if (!sizes_vary(t) && (px->height != hp->image_height || px->width != hp->image_width))
        return clef__fail(err, CLEF_E_SHAPE, "a picture of %d x %d pixels: expected %d x %d, as the tower",
                          px->width, px->height, hp->image_width, hp->image_height);
    const clef_status s = check_rows(t, px->height, px->width, err);
    if (s)
        return s;
    out->n = px->n * t->form->connector->n_rows(t, clef__encoder_patches(t, px->height, px->width));
    out->n_units = px->n;
    out->height = px->rows;
    out->width = px->columns;
    return CLEF_OK;
}

clef_status clef__encoder_feed(const clef__tower *t, const clef__tower_call *c, clef_error *err)
{
    const clef_sight_pixels *px = c->pixels;
    const size_t each = 3 * (size_t)px->height * (size_t)px->width;
    (void)t;
    const clef_status s = clef_plan_bind(c->plan, clef_plan_symbol(c->plan, "B"), c->n, err);
    return s ? s
             : clef_plan_write(c->plan, clef_plan_input(c->plan, "pixel_values"),
                               px->values + each * (size_t)c->first, each * (size_t)c->n * sizeof *px->values,
                               err);
}

/* What the towers of models that read pictures share: weights by name, products, norms. */
#include "model/tower/tower.h"

#include <stdio.h>
#include <string.h>

#include "graph/fail.h"

clef_status clef__tower_int(const clef__tower *t, const char *key, int32_t lo, int32_t hi, int32_t missing,
                            int32_t *out, clef_error *err)
{
    const json_t *value = json_object_get(t->config, key);
    *out = missing;
    if (!value || json_is_null(value))
        return CLEF_OK;
    if (!json_is_integer(value) || json_integer_value(value) < lo || json_integer_value(value) > hi)
        return clef__fail(err, CLEF_E_FORMAT, "%s/config.json: vision_config.%s: expected %d to %d",
                          clef_model_path(t->model), key, lo, hi);
    *out = (int32_t)json_integer_value(value);
    return CLEF_OK;
}

/* ---- weights ----------------------------------------------------------------------------------- */

/* Writes the name with the prefix, and with the layer for %d. Returns 0 if it is too long. */
static int full_name(const clef__tower *t, const char *name, const char *end, char out[2 * CLEF__TOWER_NAME])
{
    const char *layer = strstr(name, "%d");
    const int n = layer ? snprintf(out, 2 * CLEF__TOWER_NAME, "%s%.*s%d%s%s", t->prefix, (int)(layer - name),
                                   name, t->layer, layer + 2, end)
                        : snprintf(out, 2 * CLEF__TOWER_NAME, "%s%s%s", t->prefix, name, end);
    return n > 0 && n < 2 * CLEF__TOWER_NAME;
}

static const clef_tensor_info *find_with(const clef__tower *t, const char *name, const char *end)
{
    char full[2 * CLEF__TOWER_NAME];
    return full_name(t, name, end, full) ? clef__model_find(t->model, full) : NULL;
}

const clef_tensor_info *clef__tower_find(const clef__tower *t, const char *name)
{
    return find_with(t, name, "");
}

static int64_t n_elems(const clef_tensor_info *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static clef_value *weight(clef__tower *t, const char *name, const char *end, clef_shape shape)
{
    char full[2 * CLEF__TOWER_NAME] = "";
    const clef_tensor_info *info = find_with(t, name, end);
    int64_t n = 1;
    full_name(t, name, end, full);
    if (!info)
        return clef__graph_fail(t->g, CLEF_E_NOT_FOUND, "%s: the weight %s is missing",
                                clef_model_path(t->model), full);
    for (int32_t i = 0; i < shape.rank; i++)
        n *= shape.dim[i].n;
    if (n != n_elems(info))
        return clef__graph_fail(t->g, CLEF_E_SHAPE, "%s: the weight %s has %lld elements, expected %lld",
                                clef_model_path(t->model), full, (long long)n_elems(info), (long long)n);
    return clef_weight(t->g, info->name, info->dtype, shape);
}

clef_value *clef__tower_weight(clef__tower *t, const char *name, clef_shape shape)
{
    return weight(t, name, "", shape);
}

clef_value *clef__tower_linear(clef__tower *t, clef_value *x, const char *name)
{
    const clef_tensor_info *info = find_with(t, name, ".weight");
    if (!x)
        return NULL;
    const clef_dim in = clef__dim_right(&x->shape, 0), out = clef_n(info ? info->dims[0] : 1);
    clef_value *w = weight(t, name, ".weight", clef_shape_2(out, in));
    clef_value *bias = find_with(t, name, ".bias") ? weight(t, name, ".bias", clef_shape_1(out)) : NULL;
    x = clef_matmul(t->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1});
    return bias ? clef_add(t->g, x, bias) : x;
}

clef_value *clef__tower_norm(clef__tower *t, clef_value *x, const char *name)
{
    if (!x)
        return NULL;
    const clef_shape shape = clef_shape_1(clef__dim_right(&x->shape, 0));
    const clef_norm_opts opts = {.eps = t->eps};
    clef_value *w = weight(t, name, ".weight", shape);
    return find_with(t, name, ".bias") ? clef_layer_norm(t->g, x, w, weight(t, name, ".bias", shape), &opts)
                                       : clef_rms_norm(t->g, x, w, &opts);
}

/* ---- activations ------------------------------------------------------------------------------- */

/* x sigmoid(1.702 x) (arXiv:1606.08415, section 2) */
static clef_value *quick_gelu(clef_graph *g, clef_value *x)
{
    return clef_mul(g, x, clef_sigmoid(g, clef_affine(g, x, &(clef_affine_opts){.scale = 1.702f})));
}

clef_value *clef__tower_act_of(clef__tower *t, clef_value *x, const json_t *config, const char *key,
                               const char *missing)
{
    static const struct {
        const char *name;
        clef_value *(*act)(clef_graph *g, clef_value *x);
    } known[] = {{"gelu", clef_gelu},
                 {"gelu_pytorch_tanh", clef_gelu_tanh},
                 {"quick_gelu", quick_gelu},
                 {"silu", clef_silu},
                 {"relu", clef_relu}};
    const char *name = json_string_value(json_object_get(config, key));
    name = name ? name : missing;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].act(t->g, x);
    return clef__graph_fail(t->g, CLEF_E_UNSUPPORTED, "%s: the %s %.40s of a tower is not supported",
                            clef_model_path(t->model), key, name);
}

clef_value *clef__tower_act(clef__tower *t, clef_value *x, const char *missing)
{
    return clef__tower_act_of(t, x, t->config, "hidden_act", missing);
}

clef_value *clef__tower_join(clef__tower *t, clef_value *x, clef_dim n, int64_t width)
{
    return clef_reshape(t->g, x, clef_shape_2(n, clef_n(width)));
}

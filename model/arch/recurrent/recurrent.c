/* What layers with a memory share: the convolution over the last positions, and states of a fixed size. */
#include <string.h>

#include "model/arch/layers.h"

clef_value *clef__part(clef_builder *b, clef_value *x, int32_t axis, int32_t start, int32_t size)
{
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = axis, .start = start, .size = clef_n(size)});
}

clef_value *clef__memory(clef_builder *b, clef__state_role role, int32_t n, int32_t rows, int32_t columns)
{
    clef_value *state = clef__layer_state(
        b, role, CLEF_F32, clef_shape_4(clef_n(b->max_B), clef_n(n), clef_n(rows), clef_n(columns)));
    return b->order ? clef_cache_reorder(b->g, state, b->order, &(clef_cache_reorder_opts){.rows = {0}})
                    : state;
}

clef_value *clef__short_conv(clef_builder *b, clef_value *x, clef_role role, int32_t n)
{
    const clef_shape shape = clef_shape_2(clef_n(n), clef_n(b->hp->linear_taps));
    clef_value *w = clef_reshape(b->g, clef__role_weight(b, role, "weight"), shape),
               *bias = clef__role_weight_optional(b, role, "bias"),
               *state = clef__memory(b, CLEF__STATE_CONV, 1, b->hp->linear_taps - 1, n);
    x = b->runs ? clef_causal_conv_of_runs(b->g, x, w, state, b->pos, b->runs)
                : clef_causal_conv(b->g, x, w, state, b->pos);
    return bias ? clef_add(b->g, x, bias) : x;
}

int clef__layer_is_linear(const clef_hparams *hp, int32_t layer)
{
    return (int)(hp->linear_layers[layer / 32] >> (layer % 32) & 1);
}

void clef__set_linear(clef_hparams *hp, int32_t layer)
{
    hp->linear_layers[layer / 32] |= 1u << (layer % 32);
}

int clef__refuses_padding(clef_builder *b)
{
    if (!b->mask || b->for_export) /* a padded token would have to be removed from the state */
        return 0;
    clef__graph_fail(b->g, CLEF_E_UNSUPPORTED,
                     "%s: a padding mask with layers that have a memory is not supported",
                     clef_model_path(b->model));
    return 1;
}

static int is_listed(const char *const *names, const char *type)
{
    while (*names && strcmp(*names, type) != 0)
        names++;
    return *names != NULL;
}

void clef__linear_but(clef_hparams *hp, const json_t *list)
{
    for (int32_t i = 0; i < hp->n_layers; i++) {
        size_t k = 0;
        while (k < json_array_size(list) && json_integer_value(json_array_get(list, k)) != i)
            k++;
        if (k == json_array_size(list))
            clef__set_linear(hp, i);
    }
}

int clef__json_linear_layers(clef_json_fields *f, clef_hparams *hp, const char *const *names)
{
    static const char attention[] = "attention";
    const char *others[8] = {attention};
    for (size_t i = 0; names[i]; i++)
        others[i + 1] = names[i];
    const json_t *types = clef__json_get(f, "layer_types");
    if (!clef__json_layer_types(f, hp, others))
        return 0;
    for (int32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (type && is_listed(names, type))
            clef__set_linear(hp, i);
        if (clef__layer_slides(hp, i))
            clef__json_refuse(f, "layer_types with sliding_attention is not supported");
    }
    return 1;
}

void clef__key_linear_layers(clef_gguf_keys *k, clef_hparams *hp)
{
    for (int32_t i = 0; i < hp->n_layers && k->status == CLEF_OK; i++) {
        const int32_t n = clef__key_of_layer(k, "attention.head_count_kv", i, 0, CLEF_MAX_HEADS);
        if (n == 0)
            clef__set_linear(hp, i);
        else
            hp->n_kv_heads = n;
    }
}

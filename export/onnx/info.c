/* What the file says of its inputs, outputs and values: their types, and their dims by name or number. */
#include <inttypes.h>

#include "export/onnx/onnx.h"

static int has_part(const clef_graph *g, clef__scope_part part)
{
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->scope.part == part)
            return 1;
    return 0;
}

static const char *symbol_name(const onnx_export *x, int32_t symbol)
{
    if (symbol == ONNX_PAST_LENGTH)
        return "past_sequence_length";
    const clef_symbol_def *s = &x->graph->symbols[symbol - 1];
    if (x->form == CLEF_ONNX_PLAIN)
        return s->name;
    const int has_target = has_part(x->graph, CLEF__PART_ENCODER) && has_part(x->graph, CLEF__PART_DECODER);
    switch (s->role) {
    case CLEF__SYMBOL_SEQUENCES:
        return "batch_size";
    case CLEF__SYMBOL_ROWS:
        return has_target ? "encoder_sequence_length" : "sequence_length";
    case CLEF__SYMBOL_KEYS:
        return x->form == CLEF_ONNX_PAST ? "total_sequence_length" : "sequence_length";
    default:
        return has_target ? "decoder_sequence_length" : "encoder_sequence_length";
    }
}

Onnx__ValueInfo *clef__onnx_info(onnx_export *x, const char *name, int32_t type, const clef_shape *shape)
{
    Onnx__ValueInfo *info = clef__onnx_alloc(x, sizeof *info);
    Onnx__Type *t = clef__onnx_alloc(x, sizeof *t);
    Onnx__TensorType *tensor = clef__onnx_alloc(x, sizeof *tensor);
    Onnx__Shape *s = clef__onnx_alloc(x, sizeof *s);
    Onnx__Dimension **dims = clef__onnx_alloc(x, (CLEF_MAX_DIMS + 1) * sizeof *dims);
    if (!info || !t || !tensor || !s || !dims)
        return NULL;
    onnx__value_info__init(info);
    onnx__type__init(t);
    onnx__tensor_type__init(tensor);
    onnx__shape__init(s);
    for (int32_t i = 0; i < shape->rank; i++) {
        const clef_dim d = shape->dim[i];
        if (!(dims[i] = clef__onnx_alloc(x, sizeof **dims)))
            return NULL;
        onnx__dimension__init(dims[i]);
        if (d.symbol) {
            const char *symbol = symbol_name(x, d.symbol);
            dims[i]->value_case = ONNX__DIMENSION__VALUE_DIM_PARAM;
            dims[i]->dim_param =
                (char *)(uintptr_t)(d.n == 1 ? clef__onnx_text(x, "%s", symbol)
                                             : clef__onnx_text(x, "%" PRId64 "*%s", d.n, symbol));
        } else {
            dims[i]->value_case = ONNX__DIMENSION__VALUE_DIM_VALUE;
            dims[i]->dim_value = d.n;
        }
    }
    s->dim = dims;
    s->n_dim = (size_t)shape->rank;
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = s;
    t->tensor_type = tensor;
    info->name = (char *)(uintptr_t)name;
    info->type = t;
    return info;
}

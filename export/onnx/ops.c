/* ONNX for the ops that take a node or a few: elementwise, norms, views, reductions; and the table of all. */
#include <inttypes.h>
#include <math.h>

#include "export/onnx/onnx.h"

const onnx_emit clef__onnx_table[CLEF_N_OPS] = {
#define X(op) [CLEF_OP_##op] = clef__onnx_emit_##op,
    ONNX_EMITTERS(X)
#undef X
};

/* ---- elementwise ----------------------------------------------------------------------------- */

#define UNARY(op, type)                                                                                      \
    EMIT(op)                                                                                                 \
    {                                                                                                        \
        return ONNX(x, type, clef__onnx_value(x, n->in[0]));                                                 \
    }
UNARY(relu, "Relu")
UNARY(sigmoid, "Sigmoid")
UNARY(tanh, "Tanh")
UNARY(exp, "Exp")
UNARY(log, "Log")
UNARY(neg, "Neg")
UNARY(sqrt, "Sqrt")

#define BINARY(op, type)                                                                                     \
    EMIT(op)                                                                                                 \
    {                                                                                                        \
        return ONNX(x, type, clef__onnx_value(x, n->in[0]), clef__onnx_value(x, n->in[1]));                  \
    }
BINARY(add, "Add")
BINARY(sub, "Sub")
BINARY(mul, "Mul")
BINARY(div, "Div")

EMIT(rsqrt)
{
    return ONNX(x, "Reciprocal", ONNX(x, "Sqrt", clef__onnx_value(x, n->in[0])));
}

EMIT(square)
{
    const char *in = clef__onnx_value(x, n->in[0]);
    return ONNX(x, "Mul", in, in);
}

static const char *silu(onnx_export *x, const char *in)
{
    return ONNX(x, "Mul", in, ONNX(x, "Sigmoid", in));
}

EMIT(silu)
{
    return silu(x, clef__onnx_value(x, n->in[0]));
}

EMIT(swiglu)
{
    return ONNX(x, "Mul", silu(x, clef__onnx_value(x, n->in[0])), clef__onnx_value(x, n->in[1]));
}

EMIT(clamped_swiglu)
{
    const clef_clamped_swiglu_opts *o = (const void *)n->attr;
    const char *limit = clef__onnx_f32(x, o->limit);
    const char *gate = ONNX(x, "Min", clef__onnx_value(x, n->in[0]), limit);
    const char *up = ONNX(x, "Clip", clef__onnx_value(x, n->in[1]), clef__onnx_f32(x, -o->limit), limit);
    const char *open = ONNX(x, "Sigmoid", ONNX(x, "Mul", gate, clef__onnx_f32(x, o->alpha)));
    return ONNX(x, "Mul", ONNX(x, "Mul", gate, open), ONNX(x, "Add", up, clef__onnx_f32(x, 1)));
}

/* x Phi(x) = x (1 + erf(x / sqrt 2)) / 2 */
EMIT(gelu)
{
    const char *in = clef__onnx_value(x, n->in[0]);
    const char *erf = ONNX(x, "Erf", ONNX(x, "Mul", in, clef__onnx_f32(x, 0.70710678f)));
    return ONNX(x, "Mul", ONNX(x, "Mul", in, clef__onnx_f32(x, 0.5f)),
                ONNX(x, "Add", erf, clef__onnx_f32(x, 1)));
}

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
EMIT(gelu_tanh)
{
    const char *in = clef__onnx_value(x, n->in[0]);
    const char *cube = ONNX(x, "Mul", ONNX(x, "Mul", in, in), in);
    const char *sum = ONNX(x, "Add", in, ONNX(x, "Mul", cube, clef__onnx_f32(x, 0.044715f)));
    const char *tanh_ = ONNX(x, "Tanh", ONNX(x, "Mul", sum, clef__onnx_f32(x, 0.79788456f)));
    return ONNX(x, "Mul", ONNX(x, "Mul", in, clef__onnx_f32(x, 0.5f)),
                ONNX(x, "Add", tanh_, clef__onnx_f32(x, 1)));
}

EMIT(affine)
{
    const clef_affine_opts *o = (const void *)n->attr;
    const char *out = ONNX(x, "Mul", clef__onnx_value(x, n->in[0]), clef__onnx_f32(x, o->scale));
    return o->shift != 0 ? ONNX(x, "Add", out, clef__onnx_f32(x, o->shift)) : out;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* A weight of ones, for a norm that has none. */
static const char *ones(onnx_export *x, int64_t n)
{
    const char *key = clef__onnx_text(x, "//ones %" PRId64, n), *found = clef__onnx_shared(x, key);
    float *data = found ? NULL : clef__onnx_alloc(x, (size_t)n * sizeof *data);
    if (found || !data)
        return found ? found : "";
    for (int64_t i = 0; i < n; i++)
        data[i] = 1;
    clef__onnx_initializer(x, key, ONNX_FLOAT, &n, 1, data, (size_t)n * sizeof *data);
    return clef__onnx_share(x, key, key);
}

EMIT(layer_norm)
{
    const clef_norm_opts *o = (const void *)n->attr;
    const clef_dim width = clef__dim_right(&n->shape, 0);
    if (width.symbol && !n->in[1])
        return clef__onnx_fail(x, CLEF_E_UNSUPPORTED, "%s: ONNX: a layer_norm without weight along a symbol",
                               n->name);
    const char *weight = n->in[1] ? clef__onnx_value(x, n->in[1]) : ones(x, width.n);
    if (n->in[2])
        ONNX(x, "LayerNormalization", clef__onnx_value(x, n->in[0]), weight, clef__onnx_value(x, n->in[2]));
    else
        ONNX(x, "LayerNormalization", clef__onnx_value(x, n->in[0]), weight);
    clef__onnx_float(x, "epsilon", o->eps);
    return clef__onnx_int(x, "axis", -1);
}

EMIT(rms_norm)
{
    const clef_norm_opts *o = (const void *)n->attr;
    const char *in = clef__onnx_value(x, n->in[0]);
    const char *mean = ONNX(x, "ReduceMean", ONNX(x, "Mul", in, in), ONNX_I64S(x, -1));
    const char *out = ONNX(x, "Div", in, ONNX(x, "Sqrt", ONNX(x, "Add", mean, clef__onnx_f32(x, o->eps))));
    return n->in[1] ? ONNX(x, "Mul", out, clef__onnx_value(x, n->in[1])) : out;
}

/* ---- reductions ------------------------------------------------------------------------------ */

EMIT(reduce)
{
    static const char *const types[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
    const clef_reduce_opts *o = (const void *)n->attr;
    return ONNX(x, types[o->kind], clef__onnx_value(x, n->in[0]), ONNX_I64S(x, -1));
}

EMIT(argmax)
{
    ONNX(x, "ArgMax", clef__onnx_value(x, n->in[0]));
    clef__onnx_int(x, "axis", -1);
    return clef__onnx_cast(x, clef__onnx_int(x, "keepdims", 0), ONNX_INT32);
}

EMIT(topk)
{
    const clef_topk_opts *o = (const void *)n->attr;
    char **outputs = clef__onnx_alloc(x, 2 * sizeof *outputs);
    const char *values = ONNX(x, "TopK", clef__onnx_value(x, n->in[0]), ONNX_I64S(x, o->k));
    if (!outputs || x->status)
        return "";
    outputs[0] = (char *)(uintptr_t)values;
    outputs[1] = (char *)(uintptr_t)clef__onnx_text(x, "%s.indices", values);
    x->last->output = outputs;
    x->last->n_output = 2;
    return clef__onnx_cast(x, outputs[1], ONNX_INT32);
}

EMIT(gather_elements)
{
    const char *ids = clef__onnx_stored(x, n->in[1]);
    if (!clef__shape_equal(&n->in[1]->shape, &n->shape))
        ids = ONNX(x, "Expand", ids, clef__onnx_dims(x, n->shape.dim, n->shape.rank));
    ONNX(x, "GatherElements", clef__onnx_value(x, n->in[0]), ids);
    return clef__onnx_int(x, "axis", -1);
}

/* ---- views and copies ------------------------------------------------------------------------ */

EMIT(reshape)
{
    return clef__onnx_reshape(x, clef__onnx_stored(x, n->in[0]), &n->in[0]->shape, n->shape.dim,
                              n->shape.rank);
}

EMIT(permute)
{
    const clef_permute_opts *o = (const void *)n->attr;
    const int64_t axes[CLEF_MAX_DIMS] = {o->axes[0], o->axes[1], o->axes[2], o->axes[3]};
    ONNX(x, "Transpose", clef__onnx_stored(x, n->in[0]));
    return clef__onnx_ints(x, "perm", axes, n->shape.rank);
}

EMIT(slice)
{
    const clef_slice_opts *o = (const void *)n->attr;
    const char *in = clef__onnx_stored(x, n->in[0]), *axis = ONNX_I64S(x, o->axis);
    if (clef__onnx_is_whole_cache(x, n))
        return in;
    if (!o->size.symbol && (o->start >= 0 || o->start + o->size.n < 0))
        return ONNX(x, "Slice", in, ONNX_I64S(x, o->start), ONNX_I64S(x, o->start + o->size.n), axis);
    if (!o->size.symbol) /* up to the end */
        return ONNX(x, "Slice", in, ONNX_I64S(x, o->start), ONNX_I64S(x, INT64_MAX), axis);
    const char *start = ONNX_I64S(x, o->start);
    if (o->start < 0)
        start = ONNX(x, "Add", clef__onnx_dim(x, n->in[0]->shape.dim[o->axis]), start);
    const char *size = clef__onnx_dim(x, o->size);
    return ONNX(x, "Slice", in, start, o->start ? ONNX(x, "Add", start, size) : size, axis);
}

EMIT(copy)
{
    return clef__onnx_value(x, n->in[0]);
}

EMIT(concat)
{
    const clef_concat_opts *o = (const void *)n->attr;
    ONNX(x, "Concat", clef__onnx_value(x, n->in[0]), clef__onnx_value(x, n->in[1]));
    return clef__onnx_int(x, "axis", o->axis);
}

/* ---- tables ---------------------------------------------------------------------------------- */

EMIT(gather)
{
    const clef_gather_opts *o = (const void *)n->attr;
    const clef_value *table = n->in[0];
    ONNX(x, "Gather", clef__onnx_stored(x, table), clef__onnx_stored(x, n->in[1]));
    const char *rows = clef__onnx_int(x, "axis", o->axis);
    return table->dtype == CLEF_F16 || table->dtype == CLEF_BF16 ? clef__onnx_cast(x, rows, ONNX_FLOAT)
                                                                 : rows;
}

EMIT(positions)
{
    return clef__onnx_positions(x, n->in[0], ((const clef_positions_opts *)(const void *)n->attr)->length);
}

EMIT(relative_bias)
{
    const clef_relative_bias_opts *o = (const void *)n->attr;
    const int64_t distances = n->in[0]->shape.dim[0].n;
    const char *at = clef__onnx_rows(x, n->in[1], o->queries); /* [1, T] */
    const char *query = ONNX(x, "Sub", ONNX(x, "Transpose", at), clef__onnx_i32(x, (int32_t)(distances / 2)));
    const char *far = ONNX(x, "Sub", clef__onnx_range(x, o->keys), query); /* [T, S] */
    const char *row = ONNX(x, "Clip", far, clef__onnx_i32(x, 0), clef__onnx_i32(x, (int32_t)distances - 1));
    ONNX(x, "Transpose", ONNX(x, "Gather", clef__onnx_value(x, n->in[0]), row));
    return ONNX_INTS(x, "perm", 2, 0, 1);
}

/* quantize: activations rounded to 8 bits in blocks of 32, with a scale and sums for each. */
#include <math.h>
#include <string.h>

#include "graph/panel.h"

clef_value *clef_quantize(clef_graph *g, clef_value *x)
{
    return clef__node(g, CLEF_OP_quantize, &x, 1, NULL);
}

static clef_status quantize_infer(clef_value *n, clef_error *err)
{
    const clef_shape *x = &n->in[0]->shape;
    char text[96];
    if (!x->rank || x->dim[x->rank - 1].symbol || x->dim[x->rank - 1].n % 32)
        return clef__fail(err, CLEF_E_SHAPE, "x %s, wanted a last dim of whole blocks of 32", clef__shape_text(n->graph, x, text));
    n->dtype = CLEF_I8;
    n->shape = *x;
    n->shape.dim[x->rank - 1].n = x->dim[x->rank - 1].n / 8 * 11;
    return CLEF_OK;
}

static void put(double *to, const void *value)
{
    signed char bytes[4];
    memcpy(bytes, value, 4);
    for (int i = 0; i < 4; i++)
        to[i] = bytes[i];
}

static void quantize_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t k = in[0].n[3], m = in[0].n[0] * in[0].n[1] * in[0].n[2], blocks = k / 32;
    (void)n;
    for (int64_t row = 0; row < m; row++) {
        int64_t start, nt;
        clef__token_block(m, row, &start, &nt);
        double *base = out->x + start * out->n[3], *scales = base + nt * k, *sums = scales + nt * blocks * 4;
        for (int64_t b = 0; b < blocks; b++) {
            const double *x = in[0].x + row * k + b * 32;
            const int64_t at = b * nt + row - start;
            float most = 0;
            int32_t sum[2] = {0, 0};
            for (int i = 0; i < 32; i++)
                most = fmaxf(most, fabsf((float)x[i]));
            const float d = most / 127.0f, inverse = d > 0 ? 1.0f / d : 0;
            for (int i = 0; i < 32; i++) {
                const float q = rintf((float)x[i] * inverse);
                base[at * 32 + i] = (double)q;
                sum[i / 16] += (int32_t)q;
            }
            put(scales + at * 4, &d);
            put(sums + at * 8, &sum[0]);
            put(sums + at * 8 + 4, &sum[1]);
        }
    }
}

static clef_cost quantize_cost(const clef_value *n, const int64_t *symbols)
{
    return clef__cost_elementwise(n, symbols, 3);
}

static clef_status quantize_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0];
    const quantize_args args = {
        .m = clef__rows(lo, x), .k = clef__n(lo, x, 0), .n1 = clef__n(lo, x, 2), .n2 = clef__n(lo, x, 1), .x = clef__view(lo, x)};
    return clef__launch(lo,
                        &(clef_launch){.source = "quantize",
                                       .kernel = "quantize",
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, x},
                                       .n_bufs = 2,
                                       .groups = {args.m}},
                        err);
}

static const clef_op_case quantize_cases[] = {
    {.graph = "symbol T <= 27\ninput x f32 [T, 64]\ny = quantize(x)\noutput y\n", .spread = 3},
    {.graph = "input x f32 [3, 5, 96]\nv = permute(x) axes=[1, 0, 2]\ny = quantize(v)\noutput y\n"},
    {.graph = "const x f32 [1, 32] = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0\n"
              "y = quantize(x)\noutput y\n"},
    {.graph = NULL},
};

const clef_op_def clef__op_quantize = {
    .name = "quantize",
    .formula = "blocks of 32: d = max |x| / 127, q = round(x / d); bytes",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS},
    .infer = quantize_infer,
    .ref = quantize_ref,
    .cost = quantize_cost,
    .lower = quantize_lower,
    .cases = quantize_cases,
    .tol = 0, /* bytes; strict division and rounding are the same on the host */
};

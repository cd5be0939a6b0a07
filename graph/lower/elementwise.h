/* Lowering to cl/elementwise.cl, which unary and binary ops, copies and what dequantises weights share. */
#ifndef CLEF_GRAPH_ELEMENTWISE_H
#define CLEF_GRAPH_ELEMENTWISE_H

#include "graph/op.h"

/** out[i] = op(x[i], b[i]) for i in n[0] x n[1] x n[2] x n[3]. */
typedef struct clef_elementwise {
    const char       *what; /* of the op, as cl/elementwise.cl calls it: "add" */
    const clef_value *out, *x, *b; /* b NULL: unary */
    args_uint         n[4];
    view_args         out_view, x_view, b_view; /* strides of broadcast dims are 0 */
    float             p, q;
    uint64_t          scratch_bytes; /* when out is CLEF__SCRATCH */
} clef_elementwise;

clef_status clef__launch_elementwise(clef_lowering *lo, const clef_elementwise *e, clef_error *err);

/** The whole node: its output is dense and in[0], in[1] broadcast to it. */
clef_status clef__lower_elementwise(clef_lowering *lo, const clef_value *n, const char *what, float p,
                                    float q, clef_error *err);

/** The view of a dense value of n. */
view_args clef__dense_view(const args_uint n[4]);

#endif

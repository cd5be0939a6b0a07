/* Lowering to cl/elementwise.cl, which computes unary and binary ops and copies, and dequantises weights. */
#ifndef CLEF_GRAPH_ELEMENTWISE_H
#define CLEF_GRAPH_ELEMENTWISE_H

#include "graph/op.h"

/** out[i] = op(x[i], b[i]) for i in n[0] x n[1] x n[2] x n[3]. */
typedef struct clef_elementwise {
    const char       *what; /* name of the op in cl/elementwise.cl: "add" */
    const clef_value *out, *x, *b; /* b NULL: unary */
    args_uint         n[4];
    view_args         out_view, x_view, b_view; /* strides of broadcast dims are 0 */
    float             p, q;
    uint64_t          scratch_bytes; /* if out is CLEF__SCRATCH */
} clef_elementwise;

clef_status clef__launch_elementwise(clef_lowering *lo, const clef_elementwise *e, clef_error *err);

/** Lowers a whole node, whose output is dense and to which in[0] and in[1] broadcast. */
clef_status clef__lower_elementwise(clef_lowering *lo, const clef_value *n, const char *what, float p,
                                    float q, clef_error *err);
/** clef__lower_elementwise() for a node whose op has the kernel's name and no parameters. */
clef_status clef__lower_named(clef_lowering *lo, const clef_value *n, clef_error *err);

/** The view of a dense value with dims n. */
view_args clef__dense_view(const args_uint n[4]);

#endif

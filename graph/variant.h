/* Variants: several implementations of one op, from special to general (graph/variants.def gives the order). */
#ifndef CLEF_GRAPH_VARIANT_H
#define CLEF_GRAPH_VARIANT_H

#include "graph/op.h"

typedef struct clef_variant {
    const char *name;
    /** 1 when the variant can do the node on this device, at the symbols' present values. */
    int (*fits)(const clef_lowering *lo, const clef_value *n);
    clef_status (*lower)(clef_lowering *lo, const clef_value *n, clef_error *err);
} clef_variant;

#define VARIANT(op, name) extern const clef_variant clef__##op##_##name;
#include "graph/variants.def"
#undef VARIANT

/** Lowers a node by the first row of its op that fits; the op's last row is not asked. */
clef_status clef__lower_variant(clef_lowering *lo, const clef_value *n, clef_error *err);

/** A matrix product in numbers: what every variant of matmul starts from. Batch dims that lie behind one another are folded into
 *  the rows where b is the same for all. */
matmul_args clef__matmul_args(const clef_lowering *lo, const clef_value *n);

/** An attention in numbers, but for tile and splits. */
attention_args clef__attention_args(const clef_lowering *lo, const clef_value *n);

/** 1 when products may go to CLBlast on this device. Its kernels load whole vectors, so f32 weights must be aligned to 64 bytes then. */
int clef__clblast_may_serve(const clef_caps *caps, clef_gemm gemm);

#endif

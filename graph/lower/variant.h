/* Variants: several implementations of one op. A row of graph/lower/variants.def is one of them; the
 * tuner (runtime/tune/tune.c) measures them, and what it found comes back here as plain data. */
#ifndef CLEF_GRAPH_VARIANT_H
#define CLEF_GRAPH_VARIANT_H

#include "graph/op.h"

enum { CLEF_MAX_TUNABLES = 3, CLEF_MAX_TUNABLE_VALUES = 6 };

/** A number that a variant may be run with: the candidates that the tuner tries beside 0, which is the
 *  variant's own rule. */
typedef struct clef_tunable {
    const char *name;                            /* as the tuning database writes it; NULL ends the list */
    int32_t     values[CLEF_MAX_TUNABLE_VALUES]; /* up to the first 0 */
} clef_tunable;

typedef struct clef_variant {
    const char *name;
    const char *device_text; /* the device that it needs, to follow "needs": "a CPU with AVX-512 VNNI" */
    const char *shape_text;  /* the shapes that it takes, to follow "takes": "up to 4 rows"; NULL: all */
    size_t      cap;         /* CLEF_CAP(field): the device must have it; 0: nothing */
    int32_t     cap_value;   /* the value that the field must have; 0: any but 0 */
    /** Returns 1 when a device that has `cap` can run it. NULL: always. */
    int (*runs_on)(const clef_caps *caps);
    /** Returns 1 when it can lower the node at the symbols' present values, on a device that can run it.
     *  NULL: always. */
    int (*fits)(const clef_lowering *lo, const clef_value *n);
    /** Returns 1 when it may be picked without a measurement. NULL: always. The tuner and CLEF_VARIANT
     *  ignore it. */
    int (*is_default)(const clef_lowering *lo, const clef_value *n);
    int32_t method; /* what distinguishes variants with the same `lower`, which reads lo->serving->method */
    int32_t clblast; /* 1: it calls CLBlast, which CLEF_GEMM_CLBLAST asks for */
    clef_tunable tunables[CLEF_MAX_TUNABLES];
    clef_status (*lower)(clef_lowering *lo, const clef_value *n, clef_error *err);
} clef_variant;

/** A field of clef_caps as clef_variant.cap names it. */
#define CLEF_CAP(field) (offsetof(clef_caps, field) + 1)

#define VARIANT(op, name) extern const clef_variant clef__##op##_##name;
#include "graph/lower/variants.def"
#undef VARIANT
enum {
#define VARIANT(op, name) CLEF_VARIANT_##op##_##name,
#include "graph/lower/variants.def"
#undef VARIANT
    CLEF_N_VARIANTS
};

/* ---- what the tuner found -------------------------------------------------------------------- */

typedef struct clef_tune_choice {
    clef_tune_key       key;
    const clef_variant *variant;
    int32_t             values[CLEF_MAX_TUNABLES]; /* 0: its own rule */
} clef_tune_choice;

typedef struct clef_tuning {
    const clef_tune_choice *choices; /* sorted by clef__tune_key_order() */
    int32_t                 n;
    const unsigned char *aside; /* NULL, or by row of the table of variants 1: it failed its check here */
} clef_tuning;

/* ---- choosing -------------------------------------------------------------------------------- */

/** Row i of the table, in its order; NULL behind the last. op: NULL, or gets whose it is. */
const clef_variant *clef__variant_row(int32_t i, clef_op *op);
/** Returns 1 when the device can run the variant. */
int clef__variant_runs_on(const clef_caps *caps, const clef_variant *variant);
/** Returns 1 when the device can run it and it can lower the node. */
int clef__variant_fits(const clef_lowering *lo, const clef_value *n, const clef_variant *variant);
/** The row that serves the node: the forced one where it fits; else the tuning's choice where it fits;
 *  else the first in the table's order that fits, is a default and is not set aside; else the op's last
 *  row. tuned: NULL, or gets the choice's values (NULL: none). NULL: an op without variants. */
const clef_variant *clef__variant_of(const clef_lowering *lo, const clef_value *n, const int32_t **tuned);
/** Lowers a node by that row. */
clef_status clef__lower_variant(clef_lowering *lo, const clef_value *n, clef_error *err);
/** Tunable i of the variant that is lowering: 0 for its own rule. */
int32_t clef__tunable(const clef_lowering *lo, int32_t i);

/** Reads "op=name[,op=name]" into forced, by clef_op. NULL or empty text: all NULL. CLEF_E_ARG names what
 *  is unknown and lists the rest. */
clef_status clef__variants_force(const char *text, const clef_variant *forced[CLEF_N_OPS], clef_error *err);

/* ---- what variants share --------------------------------------------------------------------- */

/** A matrix product in numbers: what every variant of matmul starts from. Batch dims that lie behind one
 *  another are folded into the rows where b is the same for all. */
matmul_args clef__matmul_args(const clef_lowering *lo, const clef_value *n);
/** How many heads of a share one of b: 1 when they broadcast plainly, 0 when they do not fit. */
int64_t     clef__head_group(const clef_shape *a, const clef_shape *b);

/** 1 when products may go to CLBlast on this device. Its kernels load whole vectors, so f32 weights must
 *  be aligned to 64 bytes then. */
int clef__clblast_may_serve(const clef_caps *caps, clef_gemm gemm);

#endif

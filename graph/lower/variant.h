/* Variants: several implementations of one op, each a row of graph/lower/variants.def. The tuner
 * (runtime/tune/tune.c) measures them. Its results come back here as plain data. */
#ifndef CLEF_GRAPH_VARIANT_H
#define CLEF_GRAPH_VARIANT_H

#include "graph/op.h"

enum { CLEF_MAX_TUNABLES = 3, CLEF_MAX_TUNABLE_VALUES = 6 };

/** A number that a variant can be run with. The tuner tries `values` and 0, which means the variant's own
 *  rule. */
typedef struct clef_tunable {
    const char *name;                            /* name in the tuning database; NULL ends the list */
    int32_t     values[CLEF_MAX_TUNABLE_VALUES]; /* ends with the first 0 */
} clef_tunable;

typedef struct clef_variant {
    const char *name;
    const char *device_text; /* the device that it needs; completes "needs ..": "a CPU with AVX-512 VNNI" */
    const char *shape_text;  /* the shapes that it accepts; completes "takes ..": "up to 4 rows"; NULL: all */
    size_t      cap;         /* CLEF_CAP(field): the device must have it; 0: nothing */
    /** Returns 1 when a device that has `cap` can run it. NULL: always. */
    int (*runs_on)(const clef_caps *caps);
    /** Returns 1 when it can lower the node at the symbols' present values, on a device that can run it.
     *  NULL: always. */
    int (*fits)(const clef_lowering *lo, const clef_value *n);
    /** Returns 1 when it may be chosen without a measurement. NULL: always. The tuner and CLEF_DEBUG
     *  ignore it. */
    int (*is_default)(const clef_lowering *lo, const clef_value *n);
    int32_t method; /* distinguishes variants that share `lower`, which reads lo->serving->method */
    int32_t clblast; /* 1: it calls CLBlast, and CLEF_GEMM_CLBLAST selects it */
    clef_tunable tunables[CLEF_MAX_TUNABLES];
    clef_status (*lower)(clef_lowering *lo, const clef_value *n, clef_error *err);
} clef_variant;

/** A field of clef_caps, in the form of clef_variant.cap. */
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
    int32_t             values[CLEF_MAX_TUNABLES]; /* 0: the variant's own rule */
} clef_tune_choice;

typedef struct clef_tuning {
    const clef_tune_choice *choices; /* sorted by clef__tune_key_order() */
    int32_t                 n;
    const unsigned char *aside; /* NULL, or for each row of the table 1 if it failed its check on this
                                   device */
} clef_tuning;

/* ---- choosing -------------------------------------------------------------------------------- */

/** Row i of the table, in its order; NULL beyond the last. *op, unless op is NULL, is set to its op. */
const clef_variant *clef__variant_row(int32_t i, clef_op *op);
/** Returns 1 when the device can run the variant. */
int clef__variant_runs_on(const clef_caps *caps, const clef_variant *variant);
/** Returns 1 when the device can run it and it can lower the node. */
int clef__variant_fits(const clef_lowering *lo, const clef_value *n, const clef_variant *variant);
/** The row that lowers the node. In this order: the forced row, if it fits; the tuning's choice, if it fits;
 *  the first row of the table that fits, is a default and is not set aside; the op's last row. *tuned, unless
 *  tuned is NULL, is set to the choice's values or NULL. Returns NULL for an op without variants. */
const clef_variant *clef__variant_of(const clef_lowering *lo, const clef_value *n, const int32_t **tuned);
/** Lowers a node by the row of clef__variant_of(). */
clef_status clef__lower_variant(clef_lowering *lo, const clef_value *n, clef_error *err);
/** Value of tunable i of the variant that lowers; 0: its own rule. */
int32_t clef__tunable(const clef_lowering *lo, int32_t i);

/** Parses "op=name[,op=name]" into `forced`, an array by clef_op. NULL or an empty text: all NULL. CLEF_E_ARG
 *  names what is unknown and lists what is known. */
clef_status clef__variants_force(const char *text, const clef_variant *forced[CLEF_N_OPS], clef_error *err);

/* ---- what variants share --------------------------------------------------------------------- */

/** A matrix product in numbers: what every variant of matmul starts from. Adjacent batch dims are folded into
 *  the rows if b is the same for all of them. */
matmul_args clef__matmul_args(const clef_lowering *lo, const clef_value *n);
/** How many heads of a share one head of b: 1 when they broadcast plainly, 0 when they do not fit. */
int64_t     clef__head_group(const clef_shape *a, const clef_shape *b);

/** 1 when products may run by CLBlast on this device. Its kernels load whole vectors, so f32 weights must
 *  then be aligned to 64 bytes. */
int clef__clblast_may_serve(const clef_caps *caps, clef_gemm gemm);

#endif

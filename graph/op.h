/* What an op is (one row of the table), and what its functions may call. To add one: docs/adding-an-op.md. */
#ifndef CLEF_GRAPH_OP_H
#define CLEF_GRAPH_OP_H

#include "cl/args.h"
#include "clef/device.h"
#include "clef/plan.h"
#include "graph/launch.h"
#include "graph/tune.h"

/* ---- attributes: the fields of the op's options struct, as the text form names them ---------- */
typedef enum clef_attr_type {
    CLEF_ATTR_INT,   /* int32_t */
    CLEF_ATTR_FLOAT, /* float */
    CLEF_ATTR_DIM,   /* clef_dim */
    CLEF_ATTR_AXES,  /* int32_t[4] */
    CLEF_ATTR_ENUM,  /* an enum from 0 on, printed as one of `names` */
    CLEF_ATTR_DTYPE  /* clef_dtype, printed by its name */
} clef_attr_type;
_Static_assert(sizeof(clef_rope_pairing) == 4 && sizeof(clef_dtype) == 4, "attributes are read as 4 bytes");
typedef struct clef_attr_def {
    const char        *name; /* NULL ends the list */
    clef_attr_type     type;
    size_t             offset;
    const char *const *names; /* ENUM: the names of 0, 1, 2 ..; NULL ends them */
} clef_attr_def;

/* ---- inputs ---------------------------------------------------------------------------------- */
typedef enum clef_in_flags {
    CLEF_IN_VIEW = 0,       /* any view */
    CLEF_IN_ROWS = 1 << 0,  /* needs its last dim dense; else the builder inserts a copy */
    CLEF_IN_DENSE = 1 << 1, /* needs all of it dense; else the builder inserts a copy */
    CLEF_IN_OPTIONAL = 1 << 2,
    CLEF_IN_F32 = 1 << 3,   /* dtypes taken; none of the four: any dtype */
    CLEF_IN_FLOAT = 1 << 4, /* F32, F16, BF16 */
    CLEF_IN_WEIGHT = 1 << 5, /* F32, F16, BF16, block formats */
    CLEF_IN_I32 = 1 << 6,
    CLEF_IN_MASK = 1 << 7   /* F32, I32 or I8 */
} clef_in_flags;

/* ---- reference ------------------------------------------------------------------------------- */
/** A tensor of the reference: dense, in double, dims in numbers padded on the left to four with 1. I32 and I8
 *  stand as doubles. */
typedef struct clef_ref_tensor {
    int64_t n[CLEF_MAX_DIMS];
    double *x; /* NULL: the input is absent */
    const void *stored; /* of a weight: its bytes, where the caller of the reference has them */
} clef_ref_tensor;

/** Bytes a node moves and floating-point operations it does at the given symbol values. */
typedef struct clef_cost {
    double flops, bytes;
} clef_cost;

/* ---- lowering -------------------------------------------------------------------------------- */
typedef struct clef_lowering {
    const clef_graph *graph;
    const clef_caps  *caps;
    const int64_t    *symbols; /* values of symbols 1 .. at [0] .. */
    clef_gemm         gemm;
    const struct clef_tuning *tuning;         /* what was measured to serve best (graph/lower/variant.h);
                                                 NULL: nothing was */
    const struct clef_variant *const *forced; /* by clef_op: the variant that has to serve wherever it fits;
                                                 NULL, or NULL: none */
    const int32_t    *tuned;    /* clef__lower_variant() sets it: the serving variant's tunables
                                   (clef__tunable()) */
    const struct clef_variant *serving; /* it sets this too: whose launches these are */
    const clef_value *node;
    clef_launch      *launches; /* room for cap; n filled */
    int32_t           n, cap;
    unsigned char    *args;     /* CLEF_MAX_ARGS_BYTES each */
} clef_lowering;

/** Appends a launch (copying its argument block). CLEF_E_LIMIT when a group does not fit the device.
 *  Allocates nothing. */
clef_status clef__launch(clef_lowering *lo, const clef_launch *launch, clef_error *err);

/** Dim i of v counted from the right, in numbers: 0 is the last dim; 1 beyond the rank. */
uint32_t  clef__n(const clef_lowering *lo, const clef_value *v, int32_t i);
/** The same at its symbol's bound: what a constant of a program may depend on, so that no new program is
 *  built when a length changes. */
uint32_t  clef__bound_n(const clef_lowering *lo, const clef_value *v, int32_t i);
/** All four, outermost first, into n[4] of an argument block. */
void      clef__n4(const clef_lowering *lo, const clef_value *v, args_uint n[4]);
/** Product of all dims; of all but the last. */
uint32_t  clef__size(const clef_lowering *lo, const clef_value *v);
uint32_t  clef__rows(const clef_lowering *lo, const clef_value *v);
/** Where v's elements lie in its base's buffer. v NULL: all 0. */
view_args clef__view(const clef_lowering *lo, const clef_value *v);
/** The same with v broadcast to the shape of `like`: stride 0 where v has 1. */
view_args clef__view_as(const clef_lowering *lo, const clef_value *v, const clef_value *like);
/** Work-items for a group that shares `n` elements: 1 on a CPU; else a power of two up to 256, no more than
 *  the device allows. Of a symbolic n give the bound (clef__bound_n): the result is a constant of the
 *  program. */
uint32_t  clef__fit_local(const clef_lowering *lo, uint32_t n);
/** (a + b - 1) / b */
uint32_t  clef__ceil_div(uint32_t a, uint32_t b);

/* ---- the table's row ------------------------------------------------------------------------- */
/** How a node's kernels are proven on a device before a plan uses them. */
typedef enum clef__proof_kind {
    CLEF__PROOF_OF_NODE,   /* the node alone, on random inputs */
    CLEF__PROOF_BY_CASES,  /* a case of the op's own: random inputs would mean nothing */
    CLEF__PROOF_BY_READERS /* not at all: the proofs of the nodes that read its result cover it */
} clef__proof_kind;

struct clef__shrinker;

typedef struct clef_op_def {
    const char          *name;
    const char          *formula;             /* one line, for `clef ops` and the docs */
    int32_t              n_min, n_max;        /* inputs */
    uint32_t             in[CLEF_MAX_INPUTS]; /* clef_in_flags of each */
    const clef_attr_def *attrs;               /* NULL: none */
    size_t               attr_bytes;

    /** Sets n->dtype and n->shape from inputs and attributes, or fails naming what does not fit (the text
     *  begins without the node's name: the caller adds it). May normalise attributes (a negative axis). */
    clef_status (*infer)(clef_value *n, clef_error *err);
    /** n->op's formula in double. in[i].x is NULL for an absent input. */
    void (*ref)(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out);
    clef_cost (*cost)(const clef_value *n, const int64_t *symbols);
    /** Launches for the symbols' present values. NULL: a view, which needs none. Allocates nothing: it runs
     *  at every re-binding. */
    clef_status (*lower)(clef_lowering *lo, const clef_value *n, clef_error *err);

    int32_t view;     /* 1: the result lies in in[0]'s memory (reshape, permute, slice; cache_write updates
                         it) */
    int32_t writes;   /* bit i: input i is a state (or what the last write of it gave), which the node
                         changes */
    int32_t in_place; /* bit i: the result may take input i's memory when that is dense, of the same bytes
                         and not used later */
    int (*in_place_if)(const clef_value *n); /* NULL, or 0 where this node may not */
    int32_t at_load;  /* 1: nodes whose inputs are all weights run once, when the plan is created */
    clef__proof_kind proof;
    /** A small node that launches the same kernels (graph/shrink.h). NULL, or a NULL result: the node is
     *  copied as it is. */
    clef_value *(*shrink)(struct clef__shrinker *s, const clef_value *n);
    const clef__tune_op *tune; /* NULL: the op is not tuned */
    const char *cases; /* the file graph/cases/CASES.clef; NULL: it has the op's name */
    float             (*tol_of)(const clef_value *n); /* NULL, or what a node's options make of tol */
    float               tol; /* |x - ref| <= tol * (max |ref| + 1e-6), on every case; set it from a bound,
                                state which */
} clef_op_def;

#define OP(name) extern const clef_op_def clef__op_##name;
#include "graph/ops.def"
#undef OP
/** The table, by clef_op. */
extern const clef_op_def *const clef__ops[CLEF_N_OPS];

/** What is allowed of n's error: def.tol_of, else def.tol. */
float clef__tolerance(const clef_value *n);

/* ---- pieces that several ops use (graph/op/op_common.c) -------------------------------------- */
clef_status clef__infer_same(clef_value *n, clef_error *err);      /* F32, shape of in[0] */
clef_status clef__infer_broadcast(clef_value *n, clef_error *err); /* F32, in[0] and in[1] broadcast */
/** flops_per_element of the output; bytes of the inputs and the output. */
clef_cost   clef__cost_elementwise(const clef_value *n, const int64_t *symbols, double flops_per_element);
/** Index of (i0..i3) in the dense t, dims of 1 stretched. */
int64_t     clef__ref_at(const clef_ref_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

#endif

/* The definition of an op (one row of the table), and what its functions may call. docs/adding-an-op.md
 * explains how to add one. */
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
    CLEF_IN_ROWS = 1 << 0,  /* needs a dense last dim; else the builder inserts a copy */
    CLEF_IN_DENSE = 1 << 1, /* needs a dense tensor; else the builder inserts a copy */
    CLEF_IN_OPTIONAL = 1 << 2,
    CLEF_IN_F32 = 1 << 3,   /* accepted dtypes; with none of these four: any dtype */
    CLEF_IN_FLOAT = 1 << 4, /* F32, F16, BF16 */
    CLEF_IN_WEIGHT = 1 << 5, /* F32, F16, BF16, block formats */
    CLEF_IN_I32 = 1 << 6,
    CLEF_IN_MASK = 1 << 7   /* F32, I32 or I8 */
} clef_in_flags;

/* ---- reference ------------------------------------------------------------------------------- */
/** A tensor of the reference: dense, in double, with numeric dims that are padded on the left to four with 1.
 *  I32 and I8 are converted to double. */
typedef struct clef_ref_tensor {
    int64_t n[CLEF_MAX_DIMS];
    double *x; /* NULL: the input is absent */
    const void *stored; /* of a weight: its stored bytes, if the caller of the reference has them */
} clef_ref_tensor;

/** Bytes that a node moves, and its floating-point operations, at the given symbol values. */
typedef struct clef_cost {
    double flops, bytes;
} clef_cost;

/* ---- lowering -------------------------------------------------------------------------------- */
typedef struct clef_lowering {
    const clef_graph *graph;
    const clef_caps  *caps;
    const int64_t    *symbols; /* value of symbol i at [i - 1] */
    clef_gemm         gemm;
    const struct clef_tuning *tuning;         /* results of measurements (graph/lower/variant.h); NULL:
                                                 none */
    const struct clef_variant *const *forced; /* by clef_op: the variant to use wherever it fits; an entry,
                                                 or all, may be NULL */
    const int32_t    *tuned;    /* tunables of the variant that lowers; set by clef__lower_variant(), read
                                   by clef__tunable() */
    const struct clef_variant *serving; /* the variant that lowers; set likewise */
    const clef_value *node;
    clef_launch      *launches; /* `cap` entries, n of them filled */
    int32_t           n, cap;
    unsigned char    *args;     /* CLEF_MAX_ARGS_BYTES each */
} clef_lowering;

/** Appends a launch and copies its argument block. Allocates nothing. CLEF_E_LIMIT when a group is too large
 *  for the device. */
clef_status clef__launch(clef_lowering *lo, const clef_launch *launch, clef_error *err);

/** Size of dim i of v, counted from the right: 0 is the last dim. 1 beyond the rank. */
uint32_t  clef__n(const clef_lowering *lo, const clef_value *v, int32_t i);
/** clef__n() at the bound of the dim's symbol. A program's constants depend on bounds, so that no new program
 *  is built when a length changes. */
uint32_t  clef__bound_n(const clef_lowering *lo, const clef_value *v, int32_t i);
/** All four dims, outermost first, for n[4] of an argument block. */
void      clef__n4(const clef_lowering *lo, const clef_value *v, args_uint n[4]);
/** The product of all dims (size), or of all but the last (rows). */
uint32_t  clef__size(const clef_lowering *lo, const clef_value *v);
uint32_t  clef__rows(const clef_lowering *lo, const clef_value *v);
/** Offset and strides of v's elements in the buffer of its base. v NULL: all 0. */
view_args clef__view(const clef_lowering *lo, const clef_value *v);
/** clef__view() of v broadcast to the shape of `like`: stride 0 where v's dim is 1. */
view_args clef__view_as(const clef_lowering *lo, const clef_value *v, const clef_value *like);
/** The number of work-items in a group that shares `n` elements: 1 on a CPU; else a power of two up to 256,
 *  within the device's limit. For a symbolic n pass the bound (clef__bound_n), because the result is a
 *  constant of the program. */
uint32_t  clef__fit_local(const clef_lowering *lo, uint32_t n);
/** (a + b - 1) / b */
uint32_t  clef__ceil_div(uint32_t a, uint32_t b);

/* ---- the table's row ------------------------------------------------------------------------- */
/** How a node's kernels are proven on a device before a plan uses them. */
typedef enum clef__proof_kind {
    CLEF__PROOF_OF_NODE,   /* the node alone runs on random inputs */
    CLEF__PROOF_BY_CASES,  /* a case of the op runs, because random inputs mean nothing to it */
    CLEF__PROOF_BY_READERS /* no proof: the proofs of the nodes that read its result cover it */
} clef__proof_kind;

struct clef__shrinker;
struct clef__gradients;
struct clef__way;

typedef struct clef_op_def {
    const char          *name;
    const char          *formula;             /* one line, for `clef ops` and the docs */
    int32_t              n_min, n_max;        /* inputs */
    uint32_t             in[CLEF_MAX_INPUTS]; /* clef_in_flags of each */
    const clef_attr_def *attrs;               /* NULL: none */
    size_t               attr_bytes;

    /** NULL, or makes the node from inputs whose shapes `infer` does not take, with views around it. Returns
     *  NULL, and leaves the graph's error alone, where `infer` takes them. */
    clef_value *(*with_views)(clef_graph *g, clef_value *const *in, int32_t n_in, const void *attr);

    /** Sets n->dtype and n->shape from inputs and attributes, or fails and says what does not fit. The caller
     *  puts the node's name before that text. May normalise attributes (a negative axis). */
    clef_status (*infer)(clef_value *n, clef_error *err);
    /** Computes n->op's formula in double. in[i].x is NULL for an absent input. */
    void (*ref)(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out);
    /** NULL: `flops` for each element of the result, and the bytes of inputs and result (clef__cost()). */
    clef_cost (*cost)(const clef_value *n, const int64_t *symbols);
    float   flops;
    int32_t absorbs; /* bit i: the launch may compute input i itself, which then has none of its own */
    /** Makes the launches for the symbols' current values. NULL: a view, which needs none. Allocates nothing,
     *  because it runs whenever a symbol is bound to a new value. */
    clef_status (*lower)(clef_lowering *lo, const clef_value *n, clef_error *err);

    /** NULL, or how a part of the result is computed from parts of the inputs (graph/op/ways.h): returns 0
     *  where the result cannot be cut along `axis`. */
    int (*way)(const clef_value *n, int32_t axis, struct clef__way *way);
    /** NULL, or how the result is computed as a sum over ranks. `partial`: for each input, 1 where it can
     *  be such a sum itself. Returns 0 where the result cannot. */
    int (*sum)(const clef_value *n, const unsigned char *partial, struct clef__way *way);

    /** NULL, or adds the nodes of the gradient: d is that of n's result, F32, and has its shape. The function
     *  adds the gradients of the inputs that want one (graph/grad/gradient.h). */
    void (*grad)(struct clef__gradients *gr, clef_value *n, clef_value *d);
    int32_t fixed;    /* bit i: for the gradient, floats of input i are constants (rope's frequencies); a
                         graph that needs their gradient is refused */

    int32_t view;     /* 1: the result is in in[0]'s memory (reshape, permute, slice; cache_write updates
                         it) */
    int32_t writes;   /* bit i: the node changes input i, which is a state or the result of its last write */
    int32_t effect;   /* 1: the node does something besides its result (send), so it is never dropped or
                         merged */
    int32_t in_place; /* bit i: the result may overwrite input i, if that is dense, of equal size and not
                         used later */
    int (*in_place_if)(const clef_value *n); /* NULL, or 0 for a node that may not do so */
    int32_t row_numbers; /* bit i: the integers of input i number rows, which row_range describes */
    clef_row_range (*row_range)(const clef_value *n);
    /** NULL, or writes the numbers of input i, an I32 leaf, for tests and proofs, and returns 1. Returns
     *  0 for inputs whose integers may be any that row_range allows. */
    int (*draw)(const clef_value *node, int32_t i, const int64_t *symbols, float *out);
    int32_t at_load;  /* 1: a node whose inputs are all weights runs once, when the plan is created */
    clef__proof_kind proof;
    /** Makes a small node that launches the same kernels (graph/shrink.h). If this or its result is NULL, the
     *  node is copied as it is. */
    clef_value *(*shrink)(struct clef__shrinker *s, const clef_value *n);
    const clef__tune_op *tune; /* NULL: the op is not tuned */
    const char *cases; /* the file graph/cases/CASES.clef; NULL: it has the op's name */
    float             (*tol_of)(const clef_value *n); /* NULL, or the tolerance of a node with certain
                                                         options */
    float               tol; /* |x - ref| <= tol * (max |ref| + 1e-6), on every case. Derive it from a
                                bound, and say which */
} clef_op_def;

#define OP(name) extern const clef_op_def clef__op_##name;
#include "graph/ops.def"
#undef OP
/** The table, indexed by clef_op. */
extern const clef_op_def *const clef__ops[CLEF_N_OPS];

/** The cost of what n's launches compute: n, and inputs that it absorbs and that have none of the n_launches
 *  launches. */
clef_cost clef__launched_cost(const clef_value *n, const clef_launch *launches, int32_t n_launches,
                              const int64_t *symbols);

/** The allowed error of n: def.tol_of(), else def.tol. */
float clef__tolerance(const clef_value *n);

/* ---- pieces that several ops use (graph/op/op_common.c) -------------------------------------- */
clef_status clef__infer_same(clef_value *n, clef_error *err);      /* F32, shape of in[0] */
clef_status clef__infer_gate(clef_value *n, clef_error *err);      /* F32, in[0] and in[1] of one shape */
clef_status clef__infer_broadcast(clef_value *n, clef_error *err); /* F32, in[0] and in[1] broadcast */
/** The cost of n by its op's definition, and of flops_per_element for each output element with the bytes of
 *  inputs and output. */
clef_cost   clef__cost(const clef_value *n, const int64_t *symbols);
clef_cost   clef__cost_elementwise(const clef_value *n, const int64_t *symbols, double flops_per_element);
/** Index of (i0..i3) in the dense t; dims of 1 are broadcast. */
/** 1 when a query at position `at` does not see column s because of its window (clef_softmax()). */
int         clef__beyond_window(int32_t window, int64_t s, int64_t at);
int64_t     clef__ref_at(const clef_ref_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

#endif

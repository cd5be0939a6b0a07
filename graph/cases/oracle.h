/* The oracle of tests, self-test, proofs and tuning: random data for a graph's leaves, the graph's results
 * in double by the ops' .ref, and what counts as equal. */
#ifndef CLEF_GRAPH_ORACLE_H
#define CLEF_GRAPH_ORACLE_H

#include "graph/op/ref.h"

/* ---- random numbers: Knuth's MMIX generator -------------------------------------------------- */
double clef__random_uniform(uint64_t *state); /* in (0, 1) */
/** Draws one block of a block format: random bytes whose elements are finite, the largest between 0.25 and 4.
 *  x, NULL or room for the block's elements, gets them. */
void   clef__random_block(uint64_t *state, clef_dtype dtype, void *block, float *x);

/* ---- data and results of a graph ------------------------------------------------------------- */

/** A leaf's elements as the device reads them, and decoded. */
typedef struct clef__leaf {
    unsigned char *bytes;
    float         *x;
    size_t         n, n_bytes;
} clef__leaf;

typedef struct clef__oracle {
    const clef_graph *graph;
    int32_t           int_lo, int_hi; /* I32 and I8 leaves are drawn from [int_lo, int_hi) */
    float             spread;         /* others are N(0, 1) * spread; 0 means 1. States are 0 */
    int64_t           symbols[CLEF_MAX_SYMBOLS]; /* set before each draw */
    clef__leaf       *leaves;  /* by value id */
    clef_ref_tensor  *results; /* by value id, after clef__oracle_eval() */
} clef__oracle;

/** Sets graph (borrowed) and makes room; the other fields keep their values. CLEF_E_NOMEM. Call
 *  clef__oracle_finish() after it in any case. */
clef_status clef__oracle_init(clef__oracle *o, const clef_graph *graph, clef_error *err);
void        clef__oracle_finish(clef__oracle *o);
/** Draws the inputs at the present symbols, and the weights and states if they have not been drawn. The data
 *  depends on the leaf's place in the graph alone. CLEF_E_NOMEM. */
clef_status clef__oracle_draw(clef__oracle *o, clef_error *err);
/** Evaluates the graph on that data. CLEF_E_NOMEM. */
clef_status clef__oracle_eval(clef__oracle *o, clef_error *err);
/** clef_plan_opts.weights, with the oracle as its user. */
const void *clef__oracle_weight(void *oracle, const char *name, clef_dtype dtype, uint64_t n_bytes);

/* ---- what counts as equal -------------------------------------------------------------------- */

/** Element i of dense data. */
double clef__stored_element(clef_dtype dtype, const void *data, int64_t i);
/** The largest error of `data` in parts of the tolerance: |x - want| / (tol * (max |want| + 1e-6)), where the
 *  maximum is over finite elements. A NaN or an infinity is right exactly where the reference has the same;
 *  else the error is infinite. at: NULL, or gets the index of the first element with that error. */
double clef__worst_error(clef_dtype dtype, const void *data, const double *want, int64_t n, double tol,
                         int64_t *at);

#endif

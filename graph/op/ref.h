/* The reference: a whole graph evaluated on the host in double by its ops' .ref. Slow and plain; the oracle
 * of tests and of selftest. */
#ifndef CLEF_GRAPH_REF_H
#define CLEF_GRAPH_REF_H

#include "graph/op.h"

/** Gives the n elements of a leaf (input, weight, state), dense, in x. A status other than CLEF_OK ends the
 *  evaluation. */
typedef clef_status (*clef_ref_source)(void *user, const clef_value *leaf, double *x, int64_t n,
                                       clef_error *err);

/** Evaluates every value in order.
 *
 *  symbols  values of symbols 1 .. at [0] ..; NULL: at their bounds.
 *  results  zeroed, one for each value of the graph, by id; free with clef__ref_free(), on failure too.
 *           .stored of a weight may be set to its bytes (borrowed): pack of a block format is then right to
 *           the last of them.
 *  CLEF_OK, CLEF_E_NOMEM, or what `leaves` returned. */
clef_status clef__ref_eval(const clef_graph *g, const int64_t *symbols, clef_ref_source leaves, void *user,
                           clef_ref_tensor *results, clef_error *err);
/** Evaluates one value, whose inputs have been evaluated. */
clef_status clef__ref_value(const clef_value *v, const int64_t *symbols, clef_ref_source leaves, void *user,
                            clef_ref_tensor *results, clef_error *err);
/** Frees and zeroes the tensors of n results, not the array. */
void        clef__ref_free(clef_ref_tensor *results, int32_t n);

#endif

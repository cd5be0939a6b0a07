/* The gradient of the table in a gather along axis 0. */
#ifndef CLEF_GRAPH_GATHER_GRAD_H
#define CLEF_GRAPH_GATHER_GRAD_H

#include "graph/value.h"

typedef struct clef__gather_grad_opts {
    int32_t rows;  /* of the table */
    int32_t first; /* the id of row 0 */
} clef__gather_grad_opts;

/** out [rows, N]: row r is the sum of those rows of d [.., N] whose id in ids [..] is first + r. */
clef_value *clef__gather_grad(clef_value *d, clef_value *ids, const clef__gather_grad_opts *opts);

#endif

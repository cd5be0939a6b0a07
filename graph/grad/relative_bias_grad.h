/* The gradient of the table of a relative bias. */
#ifndef CLEF_GRAPH_RELATIVE_BIAS_GRAD_H
#define CLEF_GRAPH_RELATIVE_BIAS_GRAD_H

#include "graph/value.h"

typedef struct clef__relative_bias_grad_opts {
    int32_t distances; /* rows of the table */
    int32_t each;      /* as in clef_relative_bias_opts */
} clef__relative_bias_grad_opts;

/** out [distances, H] from d [H, queries, keys], the gradient of clef_relative_bias() at these positions. */
clef_value *clef__relative_bias_grad(clef_value *d, clef_value *pos,
                                     const clef__relative_bias_grad_opts *opts);

#endif

/* The gradient of x in a norm. */
#ifndef CLEF_GRAPH_NORM_GRAD_H
#define CLEF_GRAPH_NORM_GRAD_H

#include "graph/value.h"

/** The gradient of the first input of n, a layer_norm or rms_norm, for the gradient d of its result. */
clef_value *clef__norm_grad(clef_value *n, clef_value *d);

#endif

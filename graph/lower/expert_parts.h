/* What the lowerings of products with chosen experts share. */
#ifndef CLEF_GRAPH_EXPERT_PARTS_H
#define CLEF_GRAPH_EXPERT_PARTS_H

#include "graph/lower/variant.h"
#include "graph/op/expert.h"

/** The arguments of the product n, an expert_matmul. */
expert_args clef__expert_args_of(const clef_lowering *lo, const clef_value *n);
/** 1 when `offset` elements, and a row of k, are multiples of 16 bytes. */
int         clef__expert_rows_aligned(clef_dtype dtype, uint32_t offset, uint32_t k);

#endif

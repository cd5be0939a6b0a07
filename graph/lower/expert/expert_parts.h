/* What the lowerings of products with chosen experts share. */
#ifndef CLEF_GRAPH_EXPERT_PARTS_H
#define CLEF_GRAPH_EXPERT_PARTS_H

#include "graph/lower/panel/panel_gpu.h"
#include "graph/lower/variant.h"
#include "graph/op/expert.h"

/** The arguments of the product n, an expert_matmul. */
expert_args clef__expert_args_of(const clef_lowering *lo, const clef_value *n);
/** 1 when `offset` elements, and a row of k, are multiples of 16 bytes. */
int         clef__expert_rows_aligned(clef_dtype dtype, uint32_t offset, uint32_t k);
/** 1 for a weight of which kernels read words of 16 bytes. */
int         clef__experts_need_aligned(clef_dtype dtype);
/** 1 for the formats of blocks that cl/expert/expert_codes.h reads as integers. */
int         clef__has_expert_codes(clef_dtype dtype);

/* ---- tiles of pairs (cl/expert/expert_order.cl) -------------------------------------------------------- */

/** What the launches of a product in tiles share of the node's scratch memory: x, unless it is read in
 *  floats, then the order. */
typedef struct clef__expert_tiles {
    expert_tiles_args args;
    clef_x_form       x;
    uint32_t          rows, tiles; /* pairs of a tile; tiles, of which some are empty */
    uint64_t          scratch_bytes;
} clef__expert_tiles;

clef__expert_tiles clef__expert_tiles_of(const clef_lowering *lo, const clef_value *n, clef_x_form x);
/** Appends the launches that sort the pairs and that prepare x. */
clef_status clef__lower_expert_order(clef_lowering *lo, const clef_value *n, const clef__expert_tiles *tiles,
                                     clef_error *err);
/** 1 for a GPU with groups and memory for tiles of pairs, and for the launch that sorts these. */
int clef__experts_have_groups(const clef_caps *caps);
/** 1 when experts have so many pairs each that tiles pay. */
int clef__experts_have_many_pairs(const clef_lowering *lo, const clef_value *n);

#endif

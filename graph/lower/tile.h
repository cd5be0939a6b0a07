/* How an f32 product is cut into tiles on CPUs: see cl/tile.h. */
#ifndef CLEF_GRAPH_TILE_H
#define CLEF_GRAPH_TILE_H

#include "graph/op.h"

enum { CLEF__TILE_DEPTH = 256 }; /* DEPTH of cl/tile.h */

typedef struct clef_tile {
    int32_t rows, vectors;  /* -D NT and VECTORS */
    uint32_t all_blocks;    /* blocks of `rows` rows */
    uint32_t blocks, pairs; /* blocks and pairs that a group computes */
} clef_tile;

/** The tiles for m rows of x and `pairs` pairs of 16 columns of w, `batches` times. */
clef_tile clef__tile_of(const clef_caps *caps, uint32_t m, uint32_t pairs, uint32_t batches);
/** The tiles of a product by cl/gemm_panel.cl, whose groups pack their rows of a, and their columns of b
 * unless `is_packed`. */
clef_tile clef__tile_of_gemm(const clef_caps *caps, const matmul_args *product, int is_packed);
/** Bytes of scratch memory for m packed rows of k floats. */
uint64_t clef__tile_scratch(const clef_caps *caps, uint32_t m, uint32_t k);

#endif

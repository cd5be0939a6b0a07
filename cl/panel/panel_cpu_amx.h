/* The layout that panel_cpu_gemm_amx.cl and panel_cpu_activations_bf16.cl share. x is stored as bf16 in tiles
 * of 16 tokens by 32 columns, with the tiles of its planes one after the other. The tiles of TILE_DEPTH
 * columns are adjacent, so that they spread evenly over a cache. Tokens beyond the last are undefined;
 * columns beyond the last are 0.
 *   -D PLANES  1: x is rounded to bf16; 3: x is the sum of three bf16, each of which rounds the error of the
 *              sum before it: 24 bits */
#ifndef CLEF_CL_PANEL_AMX_H
#define CLEF_CL_PANEL_AMX_H

#include "amx.h"
#include "inline.h"

#if !defined(PLANES)
#  error "panel_cpu_amx.h needs PLANES"
#endif

/* A tile's columns and tokens, and the columns that a group adds to its sums at a time. */
enum {
    TILE_COLUMNS = 32,
    TILE_TOKENS = 16,
    TILE_DEPTH = PLANES > 1 ? AMX_DEPTH / 2 : AMX_DEPTH,
    DEPTH_BLOCKS = TILE_DEPTH / TILE_COLUMNS
};
/* Bytes of all planes of 16 tokens by 32 columns. */
enum { X_BYTES = PLANES * AMX_TILE_BYTES };

/* Offset of the tiles of block k of 32 columns, in token tile t of `tiles`. */
INLINED size_t amx_tile_at(uint tiles, uint blocks, uint t, uint k)
{
    const uint first = k / DEPTH_BLOCKS * DEPTH_BLOCKS, n = min((uint)DEPTH_BLOCKS, blocks - first);
    return ((size_t)tiles * first + (size_t)t * n + (k - first)) * X_BYTES;
}

#endif

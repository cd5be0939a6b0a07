/* What the products of bf16 in tiles (panel_amx.cl, panel_amx_rows.cl) agree on. x lies in tiles of 16 tokens by 32 columns, rounded to
 * bf16; the tiles of AMX_DEPTH columns lie together, so that they fall evenly into a cache. Tokens behind the last hold whatever is
 * there. */
#ifndef CLEF_CL_PANEL_AMX_H
#define CLEF_CL_PANEL_AMX_H

#include "amx.h"
#include "inline.h"

/* Columns in a tile, and tokens. */
enum { TILE_COLUMNS = 32, TILE_TOKENS = 16, DEPTH_BLOCKS = AMX_DEPTH / TILE_COLUMNS };

/* Where block k of token tile t of `tiles` begins, and how far the next token tile's is: k's depth has n blocks. */
INLINED size_t amx_tile_at(uint tiles, uint blocks, uint t, uint k)
{
    const uint first = k / DEPTH_BLOCKS * DEPTH_BLOCKS, n = min((uint)DEPTH_BLOCKS, blocks - first);
    return ((size_t)tiles * first + (size_t)t * n + (k - first)) * AMX_TILE_BYTES;
}

#endif

/* What the products of bf16 in tiles (panel_amx.cl, panel_amx_rows.cl) agree on. x lies in tiles of 16 tokens by 32 columns, rounded to
 * bf16: tile (t, k) at (t blocks + k) AMX_TILE_BYTES; tokens behind the last hold whatever is there. */
#ifndef CLEF_CL_PANEL_AMX_H
#define CLEF_CL_PANEL_AMX_H

#include "amx.h"
#include "inline.h"

/* Columns in a tile, and tokens. */
enum { TILE_COLUMNS = 32, TILE_TOKENS = 16 };

#endif

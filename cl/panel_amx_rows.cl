/* Rows of x, normed where NORM says so (panel_rows.h), as panel_amx.cl reads them (panel_amx.h). Launch: one group of one item a row.
 *   -D NORM, NORM_WEIGHT_TYPE, NORM_BIAS_TYPE  as in panel_rows.h */
#define WG 1
#include "args.h"
#include "weights.h"

#define ROWS_SPACE global
#define QUANTISE 0
#include "panel_rows.h"
#include "panel_amx.h"

kernel void panel_amx_rows(const rows_args a, global uchar *out, global const float *x, global const norm_weight_elem *weight,
                           global const norm_bias_elem *bias)
{
    const uint row = get_group_id(0), blocks = a.k / TILE_COLUMNS, tiles = (a.m + TILE_TOKENS - 1) / TILE_TOKENS;
    const normed_row r = row_at(&a, row, x, weight, bias);
    for (uint b = 0; b < blocks; b++)
        vstore16(to_bf16(normed16(&r, b * TILE_COLUMNS), normed16(&r, b * TILE_COLUMNS + 16)), 0,
                 (global int *)(out + amx_tile_at(tiles, blocks, row / TILE_TOKENS, b) + row % TILE_TOKENS * AMX_STEP));
}

/* Prepares rows of x for panel_cpu_gemm_amx.cl, in the layout of panel_cpu_amx.h. With a norm, a row is
 * normalised (panel_cpu_activations.h). Launch: one work-group of one work-item for each row.
 *   -D PLANES  as in panel_cpu_amx.h
 *   -D NORM, NORM_WEIGHT_TYPE, NORM_BIAS_TYPE  as in panel_cpu_activations.h */
#define WG 1
#include "args.h"
#include "weights.h"

#define ROWS_SPACE global
#define QUANTISE 0
#include "panel_cpu_activations.h"
#include "panel_cpu_amx.h"

/* Writes 32 columns of a row to all planes. */
INLINED void put(global uchar *out, float16 lo, float16 hi)
{
#pragma unroll
    for (uint i = 0; i < PLANES; i++) {
        const int16 both = to_bf16(lo, hi);
        vstore16(both, 0, (global int *)(out + i * AMX_TILE_BYTES));
        lo = bf16_left(lo, as_float16(convert_int16(as_ushort16(both.lo)) << 16));
        hi = bf16_left(hi, as_float16(convert_int16(as_ushort16(both.hi)) << 16));
    }
}

/* Writes n columns from i on, n < 32, and zeros for the rest of the 32. */
INLINED void put_last(global uchar *out, const normed_row *r, uint i, uint n)
{
    float last[TILE_COLUMNS];
    for (uint k = 0; k < TILE_COLUMNS; k++)
        last[k] = k < n ? normed1(r, i + k) : 0.0f;
    put(out, vload16(0, last), vload16(1, last));
}

kernel void panel_cpu_activations_bf16(const rows_args a, global uchar *out, global const float *x,
                                       global const norm_weight_elem *weight,
                                       global const norm_bias_elem *bias)
{
    const uint row = get_group_id(0), tiles = (a.m + TILE_TOKENS - 1) / TILE_TOKENS;
    const uint whole = a.k / TILE_COLUMNS, blocks = (a.k + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const normed_row r = row_at(&a, row, x, weight, bias);
    out += row % TILE_TOKENS * AMX_STEP;
    for (uint b = 0; b < whole; b++)
        put(out + amx_tile_at(tiles, blocks, row / TILE_TOKENS, b), normed16(&r, b * TILE_COLUMNS),
            normed16(&r, b * TILE_COLUMNS + 16));
    if (whole < blocks)
        put_last(out + amx_tile_at(tiles, blocks, row / TILE_TOKENS, whole), &r, whole * TILE_COLUMNS,
                 a.k - whole * TILE_COLUMNS);
}

/* out[t, r] = alpha x[t] . w[r] + bias[r], x quantised (quantize_args) and w a panel of blocks (cl/panel.h), for NT tokens and a tile of
 * 16 rows. Launch: {blocks of NT tokens, tiles}, one item a group; consecutive groups share the panel.
 *   -D NT         tokens a group
 *   -D W_TYPE     dtype of w
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE without
 *   -D DOT        how four bytes multiply: 0 plain, 1 x86 AVX-512 VNNI */
#define WG 1
#include "args.h"
#include "weights.h"

#if !defined(NT) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(DOT)
#  error "panel_q.cl needs NT, W_TYPE, BIAS_TYPE and DOT"
#endif
#include "panel_block.h"
#include "panel_out.h"

kernel void panel_q(const panel_args a, global float *out, global const uchar *x, global const uchar *w, global const bias_elem *bias)
{
    const uint tile = get_group_id(1), blocks = a.k / 32, tiles = (a.n + PANEL_PAD - 1) / PANEL_PAD * (PANEL_PAD / PANEL_ROWS);
    const uint token = a.first + get_group_id(0) * NT;
    tile_ptrs p = tile_at(w, tile, tiles, blocks);
    x_ptrs xs = x_at(x + a.x + (size_t)token * (a.k / 8 * 11), a.k);
    float16 acc[NT];
#pragma unroll
    for (int t = 0; t < NT; t++)
        acc[t] = 0;
    for (uint b = 0; b < blocks; b += STEP_BLOCKS)
        tile_step(acc, &p, &xs);
#pragma unroll
    for (int t = 0; t < NT; t++)
        finish(&a, out, bias, token + t, tile * PANEL_ROWS, acc[t]);
}

/* out[r, :] = x[r or r / chosen, :] W[ids[r]] + bias[ids[r]] for pairs r = (token, choice). x is rounded to 8
 * bits; W [experts, n, k] is a panel of experts n rows (cl/panel/panel.h). An id outside the experts gives 0.
 * n is a multiple of PANEL_ROWS.
 * Launch, one work-item a group:
 *   expert_panels      {tiles of 16 columns of out, tiles of pairs}: pairs with one expert share what is read
 *                      of it. x and the tiles are in scratch memory (expert_blocks.cl)
 *   expert_panels_few  {ceil(tiles of out / span), pairs}: each group rounds its row of x itself
 *   -D FEW        1: builds expert_panels_few
 *   -D ROW_BYTES  with FEW: bytes of a row of x in 8 bits, rounded up to a multiple of 64
 *   -D W_TYPE     dtype of W
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE (-1) without
 *   -D DOT        as in panel.h */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#if !defined(FEW) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(DOT)
#  error "expert_panels.cl needs FEW, W_TYPE, BIAS_TYPE and DOT"
#endif

#if FEW
#  define NT         1
#  define STREAMS    1
#  define X_SPACE    STAGE_LOCAL
#  define ROWS_SPACE STAGE_LOCAL
#else
#  define NT           EXPERT_BLOCK
#  define ANY_NT_ALIKE 1
#endif
#include "panel_products.h"
#define STRIPS (!FEW && (DOT == 2 || DOT == 3))
#if STRIPS
#  include "panel_cpu_strip.h"
#endif
#include "bias.h"
#include "expert_panels.h"

/* The tiles of all experts. */
INLINED uint all_tiles(const expert_args *a)
{
    return (a->experts * a->n + PANEL_PAD - 1) / PANEL_PAD * (PANEL_PAD / PANEL_ROWS);
}

/* Writes tile `tile` of a pair's row, from its sums. */
INLINED void put(const expert_args *a, global float *out, global const bias_elem *bias, uint pair,
                 uint expert, uint tile, float16 sums)
{
    const size_t at = (size_t)expert * a->n + tile * PANEL_ROWS;
#if BIAS_TYPE >= 0
    sums += expert < a->experts ? LOAD16(BIAS_TYPE, bias, a->bias + at) : (float16)0;
#endif
    vstore16(sums, 0, out + (size_t)pair * a->n + tile * PANEL_ROWS);
}

#if FEW

kernel void expert_panels_few(const expert_panel_args a, global float *out, global const float *x,
                              global const uchar *w, global const int *ids, global const bias_elem *bias)
{
    STAGE_LOCAL int16 rows[ROW_BYTES / 64];
    const uint pair = get_group_id(1), first = get_group_id(0) * a.span, tiles = a.a.n / PANEL_ROWS,
               expert = min((uint)ids[a.a.ids + pair], a.a.experts);
    const int inside = expert < a.a.experts;
    if (inside)
        prepare_pair(&a.a, x, pair, (ROWS_SPACE uchar *)rows, 0, 1, 0);
    for (uint tile = first; tile < min(first + a.span, tiles); tile++) {
        float16 acc[1] = {0};
        if (inside)
            whole_tile(acc, w, expert * tiles + tile, all_tiles(&a.a), a.a.k,
                       x_at((X_SPACE const uchar *)rows, a.a.k));
        put(&a.a, out, bias, pair, expert, tile, acc[0]);
    }
}

#else

kernel void expert_panels(const expert_panel_args a, global float *out, global uchar *scratch,
                          global const uchar *w, global const bias_elem *bias)
{
    const blocks_of b = blocks_at(&a, scratch);
    global const int *words = b.tiles + get_group_id(1) * EXPERT_TILE_WORDS;
    const uint expert = (uint)words[0], first = (uint)words[1], n = (uint)words[2], tile = get_group_id(0),
               from = expert * (a.a.n / PANEL_ROWS) + tile,
               block_bytes = EXPERT_BLOCK * TOKEN_BYTES(a.a.k, WORDS);
    global const int *pairs = b.pairs + first * EXPERT_BLOCK;
    global const uchar *x = scratch + (size_t)first * block_bytes;
    float16 acc[EXPERT_BLOCKS * NT];
    if (n == 0)
        return;
    if (expert == a.a.experts)
        for (uint t = 0; t < n * NT; t++)
            acc[t] = 0;
    else
#  if STRIPS
        strip_sums((float8 *)acc, w, from, all_tiles(&a.a), x, a.a.k, n);
#  else
        for (uint i = 0; i < n; i++)
            whole_tile(acc + i * NT, w, from, all_tiles(&a.a), a.a.k,
                       x_at(x + (size_t)i * block_bytes, a.a.k));
#  endif
    for (uint t = 0; t < n * NT; t++)
        if (pairs[t] >= 0)
            put(&a.a, out, bias, (uint)pairs[t], expert, tile, acc[t]);
}

#endif

/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], x in bf16 tiles (panel_amx.h) and w a panel of blocks (cl/panel.h), whose
 * weights are decoded and rounded to bf16 once for all the tokens of a group; sums are f32.
 * Launch: {blocks of AMX_TOKENS tokens, pairs of tiles of w / a.pairs}, one item a group. A group takes AMX_DEPTH columns at a time through
 * all its sums, so that what it reads of x stays in the second cache.
 *   -D W_TYPE  dtype of w: a format of blocks
 *   -D DOT     as in panel.h: what instructions there are
 *   and those of panel_out.h; with swiglu, a pair of tiles makes one of the result */
#define WG 1
#include "args.h"
#include "weights.h"

#if !defined(W_TYPE)
#  error "panel_amx.cl needs W_TYPE"
#endif
#include "panel_block.h"
#include "panel_out.h"
#include "panel_amx.h"

enum { B_BYTES = DEPTH_BLOCKS * AMX_TILE_BYTES };

/* The weights of column c of a block whose codes are v: a code is converted where it lies in its word, and `scale` takes the power of two
 * off: scale[j] for byte j of the words, 2^(-8 j) of it for j < 3. */
INLINED float16 column_of(const int16 v[8], uint c, const float16 scale[3], float16 more)
{
    const int16 word = v[c / 4];
    const int16 code = c % 4 < 3 ? word & (int)(255u << c % 4 * 8) : as_int16(as_uint16(word) >> 24u);
    return fma(convert_float16(code), scale[c % 4 < 3 ? c % 4 : 0], more);
}

/* Blocks first .. first + n - 1 of a tile of w, as tiles to multiply with. */
INLINED void decode(local uchar *to, global const uchar *w, const panel_args *a, uint tile, uint first, uint n)
{
    tile_ptrs p = tile_at(w, tile, W_TILES(a->n), a->k / 32);
    p.codes += (size_t)first * CODE_VECTORS;
    p.scales += (size_t)(first / STEP_BLOCKS) * SCALE_BYTES;
    for (uint done = 0; done < n; done += STEP_BLOCKS, next_step(&p))
        for (uint b = 0; b < STEP_BLOCKS; b++) {
            int16 v[8];
            float16 scale[2], more;
            block_codes(&p, b, v);
            block_scales(&p, b, scale, &more);
#pragma unroll
            for (uint h = 0; h < 2; h++) {
                const float16 s = scale[HALF_SCALES ? h : 0], steps[3] = {s, s * 0x1p-8f, s * 0x1p-16f};
                const float16 least = HAS_MINIMA ? more : s * -(float)OFFSET;
#pragma unroll
                for (uint c = 16 * h; c < 16 * h + 16; c += 2)
                    vstore16(bf16_pairs(column_of(v, c, steps, least), column_of(v, c + 1, steps, least)), 0,
                             (local int *)(to + c / 2 * AMX_STEP));
            }
            to += AMX_TILE_BYTES;
        }
}

/* sums[2][w's tile]: += two tiles of x (`step` bytes apart) . two of w, over n blocks. */
INLINED void multiply_two(local uchar *sums, global const uchar *x, uint step, local const uchar *b, uint n, int is_first)
{
    if (is_first) {
        AMX_ZERO(0);
        AMX_ZERO(1);
        AMX_ZERO(2);
        AMX_ZERO(3);
    } else {
        AMX_LOAD(0, sums, AMX_STEP);
        AMX_LOAD(1, sums + AMX_TILE_BYTES, AMX_STEP);
        AMX_LOAD(2, sums + 2 * AMX_TILE_BYTES, AMX_STEP);
        AMX_LOAD(3, sums + 3 * AMX_TILE_BYTES, AMX_STEP);
    }
    for (uint k = 0; k < n; k++, x += AMX_TILE_BYTES, b += AMX_TILE_BYTES) {
        AMX_LOAD(4, x, AMX_STEP);
        AMX_LOAD(6, b, AMX_STEP);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + B_BYTES, AMX_STEP);
        AMX_DOT(1, 4, 7);
        AMX_LOAD(5, x + step, AMX_STEP);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
    AMX_STORE(0, sums, AMX_STEP);
    AMX_STORE(1, sums + AMX_TILE_BYTES, AMX_STEP);
    AMX_STORE(2, sums + 2 * AMX_TILE_BYTES, AMX_STEP);
    AMX_STORE(3, sums + 3 * AMX_TILE_BYTES, AMX_STEP);
}

/* The same for one tile of x. */
INLINED void multiply_one(local uchar *sums, global const uchar *x, local const uchar *b, uint n, int is_first)
{
    if (is_first) {
        AMX_ZERO(0);
        AMX_ZERO(1);
    } else {
        AMX_LOAD(0, sums, AMX_STEP);
        AMX_LOAD(1, sums + AMX_TILE_BYTES, AMX_STEP);
    }
    for (uint k = 0; k < n; k++, x += AMX_TILE_BYTES, b += AMX_TILE_BYTES) {
        AMX_LOAD(4, x, AMX_STEP);
        AMX_LOAD(6, b, AMX_STEP);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + B_BYTES, AMX_STEP);
        AMX_DOT(1, 4, 7);
    }
    AMX_STORE(0, sums, AMX_STEP);
    AMX_STORE(1, sums + AMX_TILE_BYTES, AMX_STEP);
}

INLINED void finish_token(const panel_args *a, global float *out, PANEL_OUT_BUFS, uint token, uint pair, local const float *sums)
{
    const float16 first = vload16(0, sums), second = vload16(0, sums + AMX_TILE_BYTES / 4);
#if GATED
    finish_gated(a, out, PANEL_OUT, token, pair * PANEL_ROWS, first, second);
#else
    finish(a, out, PANEL_OUT, token, pair * PANEL_PAD, first);
    if (pair * PANEL_PAD + PANEL_ROWS < a->n)
        finish(a, out, PANEL_OUT, token, pair * PANEL_PAD + PANEL_ROWS, second);
#endif
}

kernel void panel_amx(const panel_args a, global float *out, global const uchar *x, global const uchar *w, PANEL_OUT_BUFS)
{
    const uint blocks = a.k / TILE_COLUMNS, all_pairs = W_TILES(a.n) / 2;
    const uint pair0 = get_group_id(1) * a.pairs, n_pairs = min(a.pairs, all_pairs - pair0);
    const uint token0 = get_group_id(0) * a.blocks, n_tokens = min(a.blocks, a.m - token0);
    const uint n_tiles = (n_tokens + TILE_TOKENS - 1) / TILE_TOKENS;
    const uint all_tiles = (a.m + TILE_TOKENS - 1) / TILE_TOKENS;
    local uchar b[2 * B_BYTES] __attribute__((aligned(64)));
    local uchar sums[AMX_PAIRS * AMX_TOKENS / TILE_TOKENS * 2 * AMX_TILE_BYTES] __attribute__((aligned(64)));
    AMX_BEGIN();
    for (uint first = 0; first < blocks; first += DEPTH_BLOCKS) {
        const uint n = min((uint)DEPTH_BLOCKS, blocks - first), step = n * AMX_TILE_BYTES;
        for (uint p = 0; p < n_pairs; p++) {
            decode(b, w, &a, 2 * (pair0 + p), first, n);
            decode(b + B_BYTES, w, &a, 2 * (pair0 + p) + 1, first, n);
            local uchar *s = sums + (size_t)p * n_tiles * 2 * AMX_TILE_BYTES;
            global const uchar *xs = x + amx_tile_at(all_tiles, blocks, token0 / TILE_TOKENS, first);
            uint t = 0;
            for (; t + 2 <= n_tiles; t += 2, xs += 2 * step)
                multiply_two(s + t * 2 * AMX_TILE_BYTES, xs, step, b, n, first == 0);
            if (t < n_tiles)
                multiply_one(s + t * 2 * AMX_TILE_BYTES, xs, b, n, first == 0);
        }
    }
    AMX_END();
    for (uint t = 0; t < n_tokens; t++)
        for (uint p = 0; p < n_pairs; p++)
            finish_token(&a, out, PANEL_OUT, token0 + t, pair0 + p,
                         (local const float *)(sums + ((size_t)p * n_tiles + t / TILE_TOKENS) * 2 * AMX_TILE_BYTES +
                                               t % TILE_TOKENS * AMX_STEP));
}

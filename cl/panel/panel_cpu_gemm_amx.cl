/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], where x is in bf16 tiles (panel_cpu_amx.h)
 * and w is a panel (cl/panel/panel.h). A group decodes weights and rounds them to bf16 once for all of its
 * tokens. Sums are f32. With three planes of x, a weight is the sum of up to three bf16, too. Products of
 * planes i and j are added if i + j < 3: the others are under 2^-24 of the product.
 * Launch: {blocks of a.blocks tokens, pairs of tiles of w / a.pairs}, one work-item a group; a.blocks <=
 * AMX_TOKENS. A group adds TILE_DEPTH columns at a time to all of its sums, so that its part of x stays in
 * the L2 cache.
 *   -D PLANES  as in panel_cpu_amx.h
 *   -D W_TYPE  dtype of w: F32, F16, BF16, or a block format, and then
 *   -D DOT     as in panel.h
 *   and those of panel_cpu_epilogue.h; with swiglu, a pair of tiles of w gives one tile of the result */
#define WG 1
#include "args.h"
#include "weights.h"

#if !defined(W_TYPE)
#  error "panel_cpu_gemm_amx.cl needs W_TYPE"
#endif
#if IS_BLOCKS(W_TYPE)
#  include "panel_cpu_codes.h"
typedef uchar panel_elem;
#else
typedef ELEM(W_TYPE) panel_elem;
#endif
#include "panel_cpu_epilogue.h"
#include "panel_cpu_amx.h"

/* The planes that a weight of this dtype needs: f16 has 11 bits, bf16 8. */
#if PLANES == 1 || W_TYPE == DTYPE_BF16
#  define W_PLANES 1
#elif W_TYPE == DTYPE_F16
#  define W_PLANES 2
#else
#  define W_PLANES 3
#endif
enum { W_BYTES = W_PLANES * AMX_TILE_BYTES, B_BYTES = DEPTH_BLOCKS * W_BYTES };

/* Writes columns c and c + 1 of a block of 32 to all planes. */
INLINED void put_pair(local uchar *to, uint c, float16 even, float16 odd)
{
#pragma unroll
    for (uint i = 0; i < W_PLANES; i++) {
        const int16 pairs = bf16_pairs(even, odd);
        vstore16(pairs, 0, (local int *)(to + i * AMX_TILE_BYTES + c / 2 * AMX_STEP));
        even = bf16_left(even, BF16_LOWER(pairs));
        odd = bf16_left(odd, BF16_UPPER(pairs));
    }
}

#if IS_BLOCKS(W_TYPE)
/* The weights of column c of a block with codes v. The codes in bytes j < 3 of a word are converted in place,
 * as 2^(8 j) times their value; scale[j] contains the factor 2^(-8 j). The code in byte 3 is shifted and uses
 * scale[0]. */
INLINED float16 column_of(const int16 v[8], uint c, const float16 scale[3], float16 more)
{
    const int16 word = v[c / 4];
    const int16 code = c % 4 < 3 ? word & (int)(255u << c % 4 * 8) : as_int16(as_uint16(word) >> 24u);
    return fma(convert_float16(code), scale[c % 4 < 3 ? c % 4 : 0], more);
}

/* Decodes blocks first .. first + n - 1 of a tile of w to bf16 tiles. */
INLINED void decode(local uchar *to, global const uchar *w, const panel_args *a, uint tile, uint first,
                    uint n)
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
#  pragma unroll
            for (uint h = 0; h < 2; h++) {
                const float16 s = scale[HALF_SCALES ? h : 0], steps[3] = {s, s * 0x1p-8f, s * 0x1p-16f};
                const float16 least = s * -(float)OFFSET + (HAS_MINIMA ? more : (float16)0);
#  pragma unroll
                for (uint c = 16 * h; c < 16 * h + 16; c += 2)
                    put_pair(to, c, column_of(v, c, steps, least), column_of(v, c + 1, steps, least));
            }
            to += W_BYTES;
        }
}
#else
INLINED void decode(local uchar *to, global const panel_elem *w, const panel_args *a, uint tile, uint first,
                    uint n)
{
    w += (size_t)tile * PANEL_ROWS * a->k;
    for (uint b = first; b < first + n; b++, to += W_BYTES) {
        const uint k = b * TILE_COLUMNS, there = min((uint)TILE_COLUMNS, a->k - k);
        uint c = 0;
        for (; c + 2 <= there; c += 2)
            put_pair(to, c, LOAD16(W_TYPE, w, (size_t)(k + c) * PANEL_ROWS),
                     LOAD16(W_TYPE, w, (size_t)(k + c + 1) * PANEL_ROWS));
        for (; c < TILE_COLUMNS; c += 2)
            put_pair(to, c, c < there ? LOAD16(W_TYPE, w, (size_t)(k + c) * PANEL_ROWS) : (float16)0.0f,
                     0.0f);
    }
}
#endif

/* Adds the products of two tiles of x (`step` bytes apart) with two of w, over n blocks, to sums[tile of
 * x][tile of w]. With `is_first` the sums start at 0. */
INLINED void multiply_two(local uchar *sums, global const uchar *x, uint step, local const uchar *b, uint n,
                          int is_first)
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
    for (uint k = 0; k < n; k++, x += X_BYTES, b += W_BYTES)
#pragma unroll
        for (uint i = 0; i < PLANES; i++) {
            AMX_LOAD(4, x + i * AMX_TILE_BYTES, AMX_STEP);
            AMX_LOAD(5, x + step + i * AMX_TILE_BYTES, AMX_STEP);
#pragma unroll
            for (uint j = 0; j < W_PLANES && i + j < PLANES; j++) {
                AMX_LOAD(6, b + j * AMX_TILE_BYTES, AMX_STEP);
                AMX_DOT(0, 4, 6);
                AMX_LOAD(7, b + B_BYTES + j * AMX_TILE_BYTES, AMX_STEP);
                AMX_DOT(1, 4, 7);
                AMX_DOT(2, 5, 6);
                AMX_DOT(3, 5, 7);
            }
        }
    AMX_STORE(0, sums, AMX_STEP);
    AMX_STORE(1, sums + AMX_TILE_BYTES, AMX_STEP);
    AMX_STORE(2, sums + 2 * AMX_TILE_BYTES, AMX_STEP);
    AMX_STORE(3, sums + 3 * AMX_TILE_BYTES, AMX_STEP);
}

/* As multiply_two(), for one tile of x. */
INLINED void multiply_one(local uchar *sums, global const uchar *x, local const uchar *b, uint n,
                          int is_first)
{
    if (is_first) {
        AMX_ZERO(0);
        AMX_ZERO(1);
    } else {
        AMX_LOAD(0, sums, AMX_STEP);
        AMX_LOAD(1, sums + AMX_TILE_BYTES, AMX_STEP);
    }
    for (uint k = 0; k < n; k++, x += X_BYTES, b += W_BYTES)
#pragma unroll
        for (uint i = 0; i < PLANES; i++) {
            AMX_LOAD(4, x + i * AMX_TILE_BYTES, AMX_STEP);
#pragma unroll
            for (uint j = 0; j < W_PLANES && i + j < PLANES; j++) {
                AMX_LOAD(6, b + j * AMX_TILE_BYTES, AMX_STEP);
                AMX_DOT(0, 4, 6);
                AMX_LOAD(7, b + B_BYTES + j * AMX_TILE_BYTES, AMX_STEP);
                AMX_DOT(1, 4, 7);
            }
        }
    AMX_STORE(0, sums, AMX_STEP);
    AMX_STORE(1, sums + AMX_TILE_BYTES, AMX_STEP);
}

INLINED void finish_token(const panel_args *a, global float *out, PANEL_OUT_BUFS, uint token, uint pair,
                          local const float *sums)
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

kernel void panel_cpu_gemm_amx(const panel_args a, global float *out, global const uchar *x,
                               global const panel_elem *w, PANEL_OUT_BUFS)
{
    const uint blocks = (a.k + TILE_COLUMNS - 1) / TILE_COLUMNS, all_pairs = W_TILES(a.n) / 2;
    const uint pair0 = get_group_id(1) * a.pairs, n_pairs = min(a.pairs, all_pairs - pair0);
    const uint token0 = get_group_id(0) * a.blocks, n_tokens = min(a.blocks, a.m - token0);
    const uint n_tiles = (n_tokens + TILE_TOKENS - 1) / TILE_TOKENS;
    const uint all_tiles = (a.m + TILE_TOKENS - 1) / TILE_TOKENS;
    local uchar b[2 * B_BYTES] __attribute__((aligned(64)));
    local uchar sums[AMX_PAIRS * AMX_TOKENS / TILE_TOKENS * 2 * AMX_TILE_BYTES] __attribute__((aligned(64)));
    AMX_BEGIN();
    for (uint first = 0; first < blocks; first += DEPTH_BLOCKS) {
        const uint n = min((uint)DEPTH_BLOCKS, blocks - first), step = n * X_BYTES;
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
                         (local const float *)(sums +
                                               ((size_t)p * n_tiles + t / TILE_TOKENS) * 2 * AMX_TILE_BYTES +
                                               t % TILE_TOKENS * AMX_STEP));
}

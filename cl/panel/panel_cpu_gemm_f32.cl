/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], where x is in f32, packed by
 * panel_cpu_activations_f32.cl, and w is a panel (cl/panel/panel.h). Weights that are not f32 are decoded
 * once for all the tokens of a group.
 * Launch: {pairs of tiles of w / a.pairs, blocks of NT tokens / a.blocks}, one work-item a group; a.pairs
 * a.blocks <= MAX_TILES. A group keeps all of its sums and adds DEPTH columns of k at a time to them. So what
 * it reads stays in the nearest caches.
 *   -D NT, VECTORS, DEPTH  as in tile.h; DEPTH is a multiple of what block_codes() steps over
 *   -D W_TYPE       dtype of w: F32, F16, BF16, or a block format, and then
 *   -D DOT          as in panel.h
 *   and those of panel_cpu_epilogue.h; with swiglu, a pair of tiles of w gives one tile of the result */
#define WG 1
#include "args.h"
#include "substep.h"
#include "fetch.h" /* included here because each file is inserted once, where it is first named */
#include "weights.h"

#if !defined(W_TYPE)
#    error "panel_cpu_gemm_f32.cl needs W_TYPE"
#endif
#if IS_BLOCKS(W_TYPE)
#    include "panel_cpu_codes.h"
typedef uchar panel_elem;
#else
typedef ELEM(W_TYPE) panel_elem;
#endif
#include "panel_cpu_epilogue.h"
#include "tile.h"

#if W_TYPE == DTYPE_F32
TILE_SUMS(tile_sums, global, global, 1, LANES)
#else
TILE_SUMS(tile_sums, global, private, 1, LANES)
#endif

/* Decodes columns k0 .. k0 + depth - 1 of VECTORS tiles to floats. */
#if IS_BLOCKS(W_TYPE)
INLINED void decode(float *to, global const uchar *w, const panel_args *a, uint tile, uint k0, uint depth)
{
    for (uint v = 0; v < VECTORS; v++, to += DEPTH * 16) {
        tile_ptrs p = tile_at(w, tile + v, W_TILES(a->n), a->k / 32);
        p.codes += k0 / 32 * CODE_VECTORS;
        p.scales += k0 / 32 / STEP_BLOCKS * SCALE_BYTES;
        for (uint k = 0; k < depth; next_step(&p))
            for (uint b = 0; b < STEP_BLOCKS; b++) {
                int16 v[8];
                float16 scale[2], more;
                block_codes(&p, b, v);
                block_scales(&p, b, scale, &more);
#    pragma unroll
                for (uint c = 0; c < 32; c++)
                    vstore16(column_floats(v, c, scale, more), k++, to);
            }
    }
}
#elif W_TYPE != DTYPE_F32
INLINED void decode(float *to, global const panel_elem *w, const panel_args *a, uint tile, uint k0,
                    uint depth)
{
    const size_t step = PANEL_ROWS * (size_t)a->k;
    w += tile * step + k0 * PANEL_ROWS;
    for (uint v = 0; v < VECTORS; v++, w += step, to += DEPTH * 16)
        for (uint k = 0; k < depth; k++)
            vstore16(LOAD16(W_TYPE, w, k * 16), k, to);
}
#endif

INLINED void finish_tile(const panel_args *a, global float *out, PANEL_OUT_BUFS, uint token, uint pair,
                         const float16 *sums)
{
    for (uint t = 0; t < NT && token + t < a->m; t++) {
#if GATED
        finish_gated(a, out, PANEL_OUT, token + t, pair * PANEL_ROWS, sums[t], sums[NT + t]);
#else
        finish(a, out, PANEL_OUT, token + t, pair * PANEL_PAD, sums[t]);
        if (pair * PANEL_PAD + PANEL_ROWS < a->n)
            finish(a, out, PANEL_OUT, token + t, pair * PANEL_PAD + PANEL_ROWS, sums[NT + t]);
#endif
    }
}

/* Prefetches the cache lines of the result that a tile will be written to. */
INLINED void fetch_result(const panel_args *a, global const float *out, uint token, uint pair)
{
    const uint width = GATED ? PANEL_ROWS : PANEL_PAD;
    out += (size_t)token * a->n + pair * width;
    if ((pair + 1) * width > a->n)
        return;
    for (uint t = 0; t < NT && token + t < a->m; t++) {
        FETCH_TO_WRITE(out);
        FETCH_TO_WRITE(out + width - 1);
        out += a->n;
    }
}

/* The columns of x that are read next, of the block that tile (i, b) of a group prefetches, else NULL. Each
 * of the n rows of tiles prefetches its share of the blocks, after its first VECTORS tiles, which prefetch
 * panels. After the last columns come the first ones, for the next group. */
INLINED global const float *next_x(const panel_args *a, global const float *x, uint block0, uint n_blocks,
                                   uint n, uint i, uint b, uint k0)
{
    const uint share = (n_blocks + n - 1) / n, at = i * share + b - VECTORS;
    if (b < VECTORS || b >= share + VECTORS || at >= n_blocks)
        return 0;
    k0 = k0 + DEPTH < a->k ? k0 + DEPTH : 0;
    return x + packed_at((a->m + NT - 1) / NT, block0 + at, k0, min((uint)DEPTH, a->k - k0));
}

STAGE_KERNEL void panel_cpu_gemm_f32(STAGE_GROUP const panel_args a, global float *out,
                                     global const float *x, global const panel_elem *w, PANEL_OUT_BUFS)
{
    const uint all_blocks = (a.m + NT - 1) / NT, all_tiles = W_TILES(a.n);
    const uint block0 = group_id(1) * a.blocks, n_blocks = min(a.blocks, all_blocks - block0);
    const uint tile0 = group_id(0) * 2 * a.pairs, n_tiles = min(2 * a.pairs, all_tiles - tile0);
    const size_t step = PANEL_ROWS * (size_t)a.k; /* from tile to tile */
    float16 sums[MAX_TILES * 2 * NT];
#if W_TYPE != DTYPE_F32
    float decoded[VECTORS * DEPTH * 16];
#endif
    for (uint k0 = 0; k0 < a.k; k0 += DEPTH) {
        const uint depth = min((uint)DEPTH, a.k - k0);
        for (uint i = 0; i < n_tiles; i += VECTORS) {
#if W_TYPE != DTYPE_F32
            decode(decoded, w, &a, tile0 + i, k0, depth);
#endif
#if IS_BLOCKS(W_TYPE)
            global const uchar *ahead = w; /* nothing is prefetched */
            const size_t ahead_step = 0, ahead_bytes = 0;
#else
            global const panel_elem *from = w + (tile0 + i) * step + k0 * PANEL_ROWS, *ahead = from;
            const size_t ahead_step = step, ahead_bytes = 16 * sizeof *ahead;
            if (i + VECTORS < n_tiles)
                ahead = from + VECTORS * step;
            else if (k0 + depth < a.k)
                ahead = w + tile0 * step + (k0 + depth) * PANEL_ROWS;
            else if (tile0 + n_tiles < all_tiles)
                ahead = w + (tile0 + n_tiles) * step;
#endif
            for (uint b = 0; b < n_blocks; b++) {
                global const float *xb = x + packed_at(all_blocks, block0 + b, k0, depth);
                float16 *s = sums + (i / 2 * n_blocks + b) * 2 * NT + i % 2 * NT;
                global const float *more =
                    next_x(&a, x, block0, n_blocks, n_tiles / VECTORS, i / VECTORS, b, k0);
                global const void *next =
                    more ? (global const void *)more : ahead + b % VECTORS * ahead_step;
                const size_t next_bytes = more ? LANES * sizeof *more : ahead_bytes;
                if (k0 + depth == a.k && i % 2 == 0)
                    fetch_result(&a, out, (block0 + b) * NT, (tile0 + i) / 2);
#if W_TYPE == DTYPE_F32
                tile_sums(s, xb, from, step, depth, k0 == 0, next, next_bytes);
#else
                tile_sums(s, xb, decoded, DEPTH * 16, depth, k0 == 0, next, next_bytes);
#endif
            }
        }
    }
    for (uint p = 0; 2 * p < n_tiles; p++)
        for (uint b = 0; b < n_blocks; b++)
            finish_tile(&a, out, PANEL_OUT, (block0 + b) * NT, tile0 / 2 + p,
                        sums + (p * n_blocks + b) * 2 * NT);
}

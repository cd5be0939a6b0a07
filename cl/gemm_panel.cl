/* out [n0, n1, m, n] = alpha a b + bias on CPUs, for a as packed by gemm_rows.cl. b is [.., K, N], or [.., N,
 * K] if TRANSPOSED, of any dtype.
 * Launch: {pairs of 16 columns / p.pairs x blocks of NT rows / p.blocks, n1, n0}, one work-item in a group;
 * p.pairs p.blocks <= MAX_TILES. A group keeps all its sums. It packs 32 columns x DEPTH of b at a time as
 * floats and multiplies all its rows by them.
 *   -D NT, VECTORS  as in tile.h
 *   -D W_TYPE       dtype of b
 *   -D BIAS_TYPE    dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED   1: b is [.., N, K] */
#define WG 1
#include "args.h"
#include "weights.h"

#if !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED)
#  error "gemm_panel.cl needs W_TYPE, BIAS_TYPE and TRANSPOSED"
#endif
#include "tile.h"

TILE_SUMS(tile_sums, private)

enum { WIDTH = 32 };
typedef ELEM(W_TYPE) w_elem;
#if BIAS_TYPE < 0
typedef float bias_elem;
#  define BIAS(i)   0.0f
#  define BIAS16(i) 0.0f
#else
typedef ELEM(BIAS_TYPE) bias_elem;
#  define BIAS(i)   LOAD(BIAS_TYPE, bias, p->bias + (i))
#  define BIAS16(i) LOAD16(BIAS_TYPE, bias, p->bias + (i))
#endif

/* panel[h][k][c] = b's element (k0 + k, col + 16 h + c), for `depth` values of k. Columns from n on are
 * undefined. */
INLINED void pack_b(const matmul_args *p, float *panel, global const w_elem *b, size_t b0, uint col, uint k0,
                    uint depth)
{
    const size_t stride = p->b_stride[2];
    for (uint h = 0; h < 2; h++, panel += DEPTH * 16, col += 16) {
        if (col >= p->n)
            return;
#if TRANSPOSED
        uint k = 0;
        for (; k + 16 <= depth; k += 16) {
            float16 v[16];
#  pragma unroll
            for (uint c = 0; c < 16; c++)
                v[c] = LOAD16(W_TYPE, b, b0 + min(col + c, p->n - 1) * stride + k0 + k);
            transpose16(v);
#  pragma unroll
            for (uint i = 0; i < 16; i++)
                vstore16(v[i], k + i, panel);
        }
        for (; k < depth; k++)
            for (uint c = 0; c < 16; c++)
                panel[k * 16 + c] = LOAD(W_TYPE, b, b0 + min(col + c, p->n - 1) * stride + k0 + k);
#else
        for (uint k = 0; k < depth; k++) {
            const size_t from = b0 + (k0 + k) * stride + col;
            if (col + 16 <= p->n)
                vstore16(LOAD16(W_TYPE, b, from), k, panel);
            else
                for (uint c = 0; c < 16; c++)
                    panel[k * 16 + c] = col + c < p->n ? LOAD(W_TYPE, b, from + c) : 0.0f;
        }
#endif
    }
}

INLINED void store(const matmul_args *p, global float *out, global const bias_elem *bias, uint col, float16 v)
{
    out += col;
    if (col + 16 <= p->n) {
        vstore16(p->alpha * v + BIAS16(col), 0, out);
        return;
    }
    float lanes[16];
    vstore16(v, 0, lanes);
    for (uint c = 0; col + c < p->n; c++)
        out[c] = p->alpha * lanes[c] + BIAS(col + c);
}

/* Prefetches the lines of the result that a tile will be written to. */
INLINED void fetch_result(const matmul_args *p, global const float *out, uint row, uint col)
{
    if (col + WIDTH > p->n)
        return;
    for (uint t = 0; t < NT && row + t < p->m; t++) {
        FETCH_TO_WRITE(out + (row + t) * (size_t)p->n + col);
        FETCH_TO_WRITE(out + (row + t) * (size_t)p->n + col + WIDTH - 1);
    }
}

kernel void gemm_panel(const matmul_args p, global float *out, global const float *x, global const w_elem *b,
                       global const bias_elem *bias)
{
    const uint all_blocks = (p.m + NT - 1) / NT, all_pairs = (p.n + WIDTH - 1) / WIDTH,
               groups = (all_pairs + p.pairs - 1) / p.pairs;
    const uint block0 = get_group_id(0) / groups * p.blocks, n_blocks = min(p.blocks, all_blocks - block0);
    const uint pair0 = get_group_id(0) % groups * p.pairs, n_pairs = min(p.pairs, all_pairs - pair0);
    const uint i1 = get_group_id(1), i0 = get_group_id(2);
    const size_t batch = (size_t)i0 * p.n1 + i1,
                 b0 = p.b + i0 * (size_t)p.b_stride[0] + i1 / p.group * (size_t)p.b_stride[1];
    float16 sums[MAX_TILES * 2 * NT];
    float panel[2 * DEPTH * 16];
    x += batch * all_blocks * p.k * X_LANES;
    out += batch * p.m * p.n;
    for (uint k0 = 0; k0 < p.k; k0 += DEPTH) {
        const uint depth = min((uint)DEPTH, p.k - k0);
        for (uint i = 0; i < n_pairs; i++) {
            pack_b(&p, panel, b, b0, (pair0 + i) * WIDTH, k0, depth);
            for (uint j = 0; j < n_blocks; j++) {
                global const float *xb = x + packed_at(all_blocks, block0 + j, k0, depth);
                float16 *s = sums + (i * n_blocks + j) * 2 * NT;
                if (k0 + depth == p.k)
                    fetch_result(&p, out, (block0 + j) * NT, (pair0 + i) * WIDTH);
                for (uint v = 0; v < 2; v += VECTORS)
                    tile_sums(s + v * NT, xb, panel + v * DEPTH * 16, DEPTH * 16, depth, k0 == 0, xb, 0);
            }
        }
    }
    for (uint i = 0; i < n_pairs; i++)
        for (uint j = 0; j < n_blocks; j++) {
            const float16 *s = sums + (i * n_blocks + j) * 2 * NT;
            const uint row = (block0 + j) * NT, col = (pair0 + i) * WIDTH;
            for (uint t = 0; t < NT && row + t < p.m; t++) {
                store(&p, out + (row + t) * (size_t)p.n, bias, col, s[t]);
                if (col + 16 < p.n)
                    store(&p, out + (row + t) * (size_t)p.n, bias, col + 16, s[NT + t]);
            }
        }
}

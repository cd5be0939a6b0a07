/* out [n0, n1, m, n] = alpha a b + bias on CPUs. a is [.., M, K], or [.., K, M] if TRANSPOSED_A; b is [.., K,
 * N], or [.., N, K] if TRANSPOSED, of any dtype.
 * Launch: {pairs of 16 columns / p.pairs x blocks of NT rows / p.blocks, n1, n0}, one work-item in a group;
 * p.blocks <= MAX_BLOCKS, and p.pairs p.blocks <= MAX_TILES unless k <= DEPTH. A group goes over DEPTH
 * elements of k at a time. It packs its rows of a, then 32 columns of b after the other as floats, and
 * multiplies all its rows by them. So what it reads stays in the nearest caches. It keeps its sums from one
 * part of k to the next.
 *   -D NT, VECTORS   as in tile.h
 *   -D A_TYPE        dtype of a: f32, f16 or bf16
 *   -D W_TYPE        dtype of b
 *   -D BIAS_TYPE     dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED    1: b is [.., N, K]
 *   -D TRANSPOSED_A  1: a is [.., K, M]
 *   -D PACKED        1: b was packed by gemm_pack.cl */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#if !defined(A_TYPE) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED) ||                   \
    !defined(TRANSPOSED_A) || !defined(PACKED)
#    error "gemm_panel.cl needs A_TYPE, W_TYPE, BIAS_TYPE, TRANSPOSED, TRANSPOSED_A and PACKED"
#endif
#include "gemm_pack.h"

typedef ELEM(A_TYPE) a_elem;
#if A_TYPE == 0
#    define A16(x) LOAD_LOOSE(x)
#    define A1(x) (*(x))
#else
#    define A16(x) LOAD16(A_TYPE, x, 0)
#    define A1(x) LOAD(A_TYPE, x, 0)
#endif

/* Packed rows: block after block. The elements of a row are adjacent, and those of a column if TRANSPOSED_A:
 * as they are in memory. What is read together starts in different sets of the first cache. */
#if TRANSPOSED_A
#    define ROW_STEP 1
#    define COLUMN_STEP LANES
#    define BLOCK_ELEMS (DEPTH * LANES + 16)
#else
#    define ROW_STEP (DEPTH + 16)
#    define COLUMN_STEP 1
#    define BLOCK_ELEMS (NT * ROW_STEP)
#endif

#if PACKED
TILE_SUMS(tile_sums, private, global, ROW_STEP, COLUMN_STEP)
#else
TILE_SUMS(tile_sums, private, private, ROW_STEP, COLUMN_STEP)
#endif

#include "bias.h"
#define BIAS(i) BIAS_OF(bias, p->bias + (i))
#define BIAS16(i) BIAS16_OF(bias, p->bias + (i))

#include "gemm_panel_rows.h"

INLINED void store(const matmul_args *p, global float *out, global const bias_elem *bias, uint col, float16 v)
{
    out += col;
    if (col + 16 <= p->n) {
        STORE_GLOBAL(p->alpha * v + BIAS16(col), out);
        return;
    }
    float lanes[16];
    vstore16(v, 0, lanes);
    for (uint c = 0; col + c < p->n; c++)
        out[c] = p->alpha * lanes[c] + BIAS(col + c);
}

INLINED void store_tile(const matmul_args *p, global float *out, global const bias_elem *bias, uint row,
                        uint col, const float16 *s)
{
    for (uint t = 0; t < NT && row + t < p->m; t++) {
        store(p, out + (row + t) * (size_t)p->n, bias, col, s[t]);
        if (col + 16 < p->n)
            store(p, out + (row + t) * (size_t)p->n, bias, col + 16, s[NT + t]);
    }
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

/* The part of the product that a group computes, and where it, or the group after it, goes on after the
 * present part of k. */
typedef struct part {
    uint block0, n_blocks, pair0, n_pairs;
    uint next_block, next_pair, next_k;
    global const a_elem *a;
    global const w_elem *b;
} part;

INLINED part part_of_group(const matmul_args *p, uint id)
{
    const uint all_blocks = (p->m + NT - 1) / NT, all_pairs = (p->n + WIDTH - 1) / WIDTH,
               groups = (all_pairs + p->pairs - 1) / p->pairs;
    part g;
    g.block0 = id / groups * p->blocks;
    g.n_blocks = min(p->blocks, all_blocks - g.block0);
    g.pair0 = id % groups * p->pairs;
    g.n_pairs = min(p->pairs, all_pairs - g.pair0);
    return g;
}

INLINED void look_ahead(const matmul_args *p, part *g, uint k0)
{
    g->next_block = g->block0;
    g->next_pair = g->pair0;
    g->next_k = k0 + DEPTH;
    if (g->next_k < p->k)
        return;
    g->next_k = 0;
    g->next_pair = g->pair0 + g->n_pairs;
    if (g->next_pair * WIDTH < p->n)
        return;
    g->next_pair = 0;
    if ((g->block0 + g->n_blocks) * NT < p->m)
        g->next_block = g->block0 + g->n_blocks;
}

/* What is prefetched while a tile is computed: lines that are `bytes` apart. */
typedef struct lines {
    global const void *at;
    size_t bytes;
} lines;

/* During the first two tiles of a pair: what the next pair needs of b. Then: what the next part of k needs of
 * a. */
INLINED lines lines_ahead(const matmul_args *p, const part *g, uint i, uint j, uint k0)
{
    if (j < 2) {
#if PACKED || !TRANSPOSED
        const uint pair = i + 1 < g->n_pairs ? g->pair0 + i + 1 : g->next_pair,
                   k = i + 1 < g->n_pairs ? k0 : g->next_k;
#endif
#if PACKED
        return (lines){g->b + ((pair * 2 + j) * (size_t)p->k + k) * 16, 16 * sizeof(*g->b)};
#elif !TRANSPOSED
        return (lines){g->b + k * (size_t)p->b_stride[2] + pair * WIDTH + j * 16,
                       p->b_stride[2] * sizeof(*g->b)};
#endif
    }
#if TRANSPOSED_A
    const uint line = (i * (g->n_blocks - 2) + j - 2) * 16;
    if (j >= 2 && line < g->n_blocks * NT + 15)
        return (lines){g->a + g->next_k * (size_t)p->a_stride[2] + g->next_block * NT + line,
                       p->a_stride[2] * sizeof(*g->a)};
#endif
    return (lines){g->a, 0};
}

#if !TRANSPOSED_A
/* Prefetches a share of what the next part of k needs of a: some lines of the rows of a block. */
INLINED void fetch_rows(const matmul_args *p, const part *g, uint i, uint j)
{
    const uint share = (DEPTH / 16 + g->n_pairs - 1) / g->n_pairs, first = i * share * 16,
               end = min(min((uint)DEPTH, p->k - g->next_k), first + share * 16);
    for (uint t = 0; t < NT; t++) {
        global const a_elem *row =
            g->a + min((g->next_block + j) * NT + t, p->m - 1) * (size_t)p->a_stride[2] + g->next_k;
        for (uint k = first; k < end; k += 16)
            FETCH(row + k);
    }
}
#endif

STAGE_KERNEL void gemm_panel(STAGE_GROUP const matmul_args p, global float *out, global const a_elem *a,
                             global const w_elem *b, global const bias_elem *bias)
{
    const uint i1 = group_id(1), i0 = group_id(2);
    const uint keeps_sums = p.k > DEPTH;
    float16 sums[MAX_TILES * 2 * NT];
    float x[MAX_BLOCKS * BLOCK_ELEMS];
#if !PACKED
    float panel[2 * DEPTH * 16];
#endif
    part g = part_of_group(&p, group_id(0));
    g.a = a + p.a + i0 * (size_t)p.a_stride[0] + i1 * (size_t)p.a_stride[1];
    g.b = b;
#if !PACKED
    const size_t b0 = p.b + i0 * (size_t)p.b_stride[0] + i1 / p.group * (size_t)p.b_stride[1];
#    if !IS_BLOCKS(W_TYPE)
    g.b = b + b0;
#    endif
#endif
    out += ((size_t)i0 * p.n1 + i1) * p.m * p.n;
    for (uint k0 = 0; k0 < p.k; k0 += DEPTH) {
        const uint depth = min((uint)DEPTH, p.k - k0), is_last = k0 + depth == p.k;
        look_ahead(&p, &g, k0);
        pack_a(&p, x, g.a, g.block0 * NT, g.n_blocks, k0, depth);
        for (uint i = 0; i < g.n_pairs; i++) {
            const uint col = (g.pair0 + i) * WIDTH;
#if PACKED
            global const float *panel = b + (g.pair0 + i) * 2 * 16 * (size_t)p.k + k0 * 16;
            const size_t step = 16 * (size_t)p.k;
#else
            const size_t step = DEPTH * 16;
            pack_b(&p, panel, step, b, b0, col, k0, depth);
#endif
            for (uint j = 0; j < g.n_blocks; j++) {
                const uint row = (g.block0 + j) * NT;
                const lines ahead = lines_ahead(&p, &g, i, j, k0);
                float16 *s = sums + (keeps_sums ? (i * g.n_blocks + j) * 2 * NT : 0);
                if (is_last)
                    fetch_result(&p, out, row, col);
#if !TRANSPOSED_A
                fetch_rows(&p, &g, i, j);
#endif
                for (uint v = 0; v < 2; v += VECTORS)
                    tile_sums(s + v * NT, x + j * BLOCK_ELEMS, panel + v * step, step, depth, k0 == 0,
                              ahead.at, ahead.bytes);
                if (is_last)
                    store_tile(&p, out, bias, row, col, s);
            }
        }
    }
}

/* out [n0, n1, m, n] = alpha a b + bias; b [.., K, N], or TRANSPOSED [.., N, K], of any dtype.
 * gemm_panel (WG 1, for CPUs). Launch: {ceil(m / rows) ceil(n / 32), n1, n0} groups, rows behind one another. A group packs 32 columns
 *   x DEPTH of b as floats, once, and then takes 8 rows of a at a time through it: 16 accumulators of 16 floats, each element of a
 *   multiplied into two of them. out holds the partial sums between two panels.
 * gemm_columns (WG > 1). Launch: the same with WG columns; each work-item has its own column and `rows` (at most 8) rows.
 *   -D WG          work-items a group
 *   -D W_TYPE      dtype of b
 *   -D BIAS_TYPE   dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED  1: b is [.., N, K] */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED)
#  error "gemm.cl needs WG, W_TYPE, BIAS_TYPE and TRANSPOSED"
#endif

#if BIAS_TYPE < 0
typedef float bias_elem;
#  define BIAS(i)   0.0f
#  define BIAS16(i) 0.0f
#else
typedef ELEM(BIAS_TYPE) bias_elem;
#  define BIAS(i)   LOAD(BIAS_TYPE, bias, p.bias + (i))
#  define BIAS16(i) LOAD16(BIAS_TYPE, bias, p.bias + (i))
#endif
typedef ELEM(W_TYPE) w_elem;

enum { TILE = 8 }; /* rows in registers */

#define BEGIN_BATCH(columns)                                                                                                           \
    const uint row_groups = (p.m + p.rows - 1) / p.rows, i1 = get_group_id(1), i0 = get_group_id(2);                                   \
    const uint col = get_group_id(0) / row_groups * (columns), row0 = get_group_id(0) % row_groups * p.rows;                           \
    const uint row_end = min(row0 + p.rows, p.m);                                                                                      \
    const size_t b0 = p.b + i0 * (size_t)p.b_stride[0] + i1 / p.group * (size_t)p.b_stride[1];                                         \
    a += p.a + i0 * (size_t)p.a_stride[0] + i1 * (size_t)p.a_stride[1];                                                                \
    out += ((size_t)i0 * p.n1 + i1) * p.m * p.n

#if WG == 1

enum { DEPTH = 256, WIDTH = 32 };

/* panel[k][c] = b's element (k0 + k, col + c), 0 for columns from n on; depth rows. */
static void pack(const matmul_args *p, float *panel, global const w_elem *b, size_t b0, uint col, uint k0, uint depth)
{
    const uint columns = min((uint)WIDTH, p->n - col);
    if (columns < WIDTH)
        for (uint i = 0; i < depth * WIDTH; i++)
            panel[i] = 0;
#  if TRANSPOSED
    for (uint c = 0; c < columns; c++) {
        const size_t from = b0 + (col + c) * (size_t)p->b_stride[2] + k0;
        uint k = 0;
        for (; k + 16 <= depth; k += 16) {
            float w[16];
            vstore16(LOAD16(W_TYPE, b, from + k), 0, w);
            for (uint i = 0; i < 16; i++)
                panel[(k + i) * WIDTH + c] = w[i];
        }
        for (; k < depth; k++)
            panel[k * WIDTH + c] = LOAD(W_TYPE, b, from + k);
    }
#  else
    for (uint k = 0; k < depth; k++) {
        const size_t from = b0 + (k0 + k) * (size_t)p->b_stride[2] + col;
        uint c = 0;
        for (; c + 16 <= columns; c += 16)
            vstore16(LOAD16(W_TYPE, b, from + c), 0, panel + k * WIDTH + c);
        for (; c < columns; c++)
            panel[k * WIDTH + c] = LOAD(W_TYPE, b, from + c);
    }
#  endif
}

/* Adds the tile's sums to what out holds (not in the first panel), and finishes them in the last. */
static void store(const matmul_args *args, global float *to, float16 left, float16 right, uint col, int is_first, int is_last,
                  global const bias_elem *bias)
{
    const matmul_args p = *args;
    if (col + WIDTH <= p.n) {
        if (!is_first) {
            left += vload16(0, to);
            right += vload16(0, to + 16);
        }
        if (is_last) {
            left = p.alpha * left + BIAS16(col);
            right = p.alpha * right + BIAS16(col + 16);
        }
        vstore16(left, 0, to);
        vstore16(right, 0, to + 16);
        return;
    }
    float sums[WIDTH];
    vstore16(left, 0, sums);
    vstore16(right, 0, sums + 16);
    for (uint c = 0; col + c < p.n; c++) {
        const float sum = is_first ? sums[c] : to[c] + sums[c];
        to[c] = is_last ? p.alpha * sum + BIAS(col + c) : sum;
    }
}

GROUP_KERNEL
void gemm_panel(const matmul_args p, global float *out, global const float *a, global const w_elem *b, global const bias_elem *bias)
{
    BEGIN_BATCH(WIDTH);
    float panel[DEPTH * WIDTH];
    for (uint k0 = 0; k0 < p.k; k0 += DEPTH) {
        const uint depth = min((uint)DEPTH, p.k - k0);
        pack(&p, panel, b, b0, col, k0, depth);
        for (uint row = row0; row < row_end; row += TILE) {
            /* rows beyond the end stand for the last one; their sums are dropped */
            global const float *x[TILE];
            float16 left[TILE], right[TILE];
            for (uint r = 0; r < TILE; r++) {
                x[r] = a + min(row + r, row_end - 1) * (size_t)p.a_stride[2] + k0;
                left[r] = right[r] = 0;
            }
            for (uint k = 0; k < depth; k++) {
                const float16 w0 = vload16(0, panel + k * WIDTH), w1 = vload16(0, panel + k * WIDTH + 16);
#  pragma unroll
                for (uint r = 0; r < TILE; r++) {
                    const float16 v = x[r][k];
                    left[r] = fma(v, w0, left[r]);
                    right[r] = fma(v, w1, right[r]);
                }
            }
#  pragma unroll
            for (uint r = 0; r < TILE; r++)
                if (row + r < row_end)
                    store(&p, out + (row + r) * (size_t)p.n + col, left[r], right[r], col, k0 == 0, k0 + depth == p.k, bias);
        }
    }
}

#else

GROUP_KERNEL
void gemm_columns(const matmul_args p, global float *out, global const float *a, global const w_elem *b, global const bias_elem *bias)
{
    BEGIN_BATCH(WG);
    const uint mine = col + get_local_id(0);
    global const float *x[TILE];
    float sum[TILE];
    uint k = 0;
    if (mine >= p.n)
        return;
    for (uint r = 0; r < TILE; r++) {
        x[r] = a + min(row0 + r, row_end - 1) * (size_t)p.a_stride[2];
        sum[r] = 0;
    }
#  if TRANSPOSED
    const size_t from = b0 + mine * (size_t)p.b_stride[2];
    for (; k + 16 <= p.k; k += 16) {
        const float16 w = LOAD16(W_TYPE, b, from + k);
        for (uint r = 0; r < TILE; r++)
            sum[r] += sum16(w * vload16(0, x[r] + k));
    }
#  else
    const size_t from = b0 + mine;
#  endif
    for (; k < p.k; k++) {
        const float w = LOAD(W_TYPE, b, from + k * (TRANSPOSED ? (size_t)1 : (size_t)p.b_stride[2]));
        for (uint r = 0; r < TILE; r++)
            sum[r] = fma(w, x[r][k], sum[r]);
    }
    for (uint r = 0; r < TILE && row0 + r < row_end; r++)
        out[(row0 + r) * (size_t)p.n + mine] = p.alpha * sum[r] + BIAS(mine);
}

#endif

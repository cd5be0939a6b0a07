/* out [n0, n1, m, n] = alpha a b + bias for up to ROWS rows of a: b is read once, whatever its dtype.
 * gemv_nk reads b [.., N, K]. The WG work-items of a group share the dot products of COLUMNS columns, 16
 * elements of k at a time (32 of a block format).
 * gemv_kn reads b [.., K, N]. With WG 1 the group walks down k with COLUMNS / 16 vectors of columns; else
 * COLUMNS is WG and each work-item has its own column. The loops over columns and rows are unrolled so that
 * the sums stay in registers.
 * Launch: {ceil(n / COLUMNS), n1, n0} groups.
 *   -D WG          work-items in a group, a power of two
 *   -D COLUMNS     columns of a group; gemv_kn with WG 1: a multiple of 16
 *   -D ROWS        accumulators for rows; rows from m on repeat the last one and are dropped
 *   -D W_TYPE      dtype of b
 *   -D BIAS_TYPE   dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED  1: builds gemv_nk, 0: gemv_kn */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(COLUMNS) || !defined(ROWS) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED)
#  error "gemv.cl needs WG, COLUMNS, ROWS, W_TYPE, BIAS_TYPE and TRANSPOSED"
#endif

#include "bias.h"
#define BIAS(i) BIAS_OF(bias, p.bias + (i))
typedef ELEM(W_TYPE) w_elem;

/* The start of this group's batch. Rows of a from m on repeat the last one. */
#define BEGIN_BATCH                                                                            \
    const uint i1 = group_id(1), i0 = group_id(2), lane = local_id(0),                         \
               first = group_id(0) * COLUMNS;                                                  \
    const size_t b0 = p.b + i0 * (size_t)p.b_stride[0] + i1 / p.group * (size_t)p.b_stride[1]; \
    global const float *rows[ROWS];                                                            \
    a += p.a + i0 * (size_t)p.a_stride[0] + i1 * (size_t)p.a_stride[1];                        \
    out += ((size_t)i0 * p.n1 + i1) * p.m * p.n;                                               \
    for (uint r = 0; r < ROWS; r++)                                                            \
    rows[r] = a + min(r, p.m - 1) * (size_t)p.a_stride[2]

#if TRANSPOSED

#  if W_TYPE == DTYPE_Q8_0
#    define BLOCK_BYTES Q8_0_BYTES
#    define BLOCK16     block16_5
#  elif W_TYPE == DTYPE_Q4_0
#    define BLOCK_BYTES Q4_0_BYTES
#    define BLOCK16     block16_6
#  endif

GROUP_KERNEL
void gemv_nk(STAGE_GROUP const matmul_args p, global float *out, global const float *a,
             global const w_elem *b, global const bias_elem *bias)
{
    BEGIN_BATCH;
    GROUP_SCRATCH(scratch);
    /* Start of each column in b, in elements (block formats: in bytes). Columns from n on repeat the last
     * one. */
    size_t at[COLUMNS];
    float16 sum[COLUMNS][ROWS];
    float tail[COLUMNS][ROWS];
#  pragma unroll
    for (uint c = 0; c < COLUMNS; c++) {
        at[c] = b0 + min(first + c, p.n - 1) * (size_t)p.b_stride[2];
#  ifdef BLOCK16
        at[c] = at[c] / 32 * BLOCK_BYTES;
#  endif
#  pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            sum[c][r] = 0;
            tail[c][r] = 0;
        }
    }
#  ifdef BLOCK16
    for (uint k = lane * 32; k < p.k; k += WG * 32) {
#  pragma unroll
        for (uint c = 0; c < COLUMNS; c++) {
            global const uchar *block = b + at[c] + k / 32 * BLOCK_BYTES;
            const float d = block_scale(block);
            const float16 lo = BLOCK16(block, 0), hi = BLOCK16(block, 1);
#  pragma unroll
            for (uint r = 0; r < ROWS; r++) {
                const float16 t = fma(hi, vload16(0, rows[r] + k + 16), lo * vload16(0, rows[r] + k));
                sum[c][r] = fma((float16)d, t, sum[c][r]);
            }
        }
    }
#  else
    const uint whole = p.k / 16 * 16;
    for (uint k = lane * 16; k < whole; k += WG * 16) {
#  pragma unroll
        for (uint c = 0; c < COLUMNS; c++) {
            const float16 w = LOAD16(W_TYPE, b, at[c] + k);
#  pragma unroll
            for (uint r = 0; r < ROWS; r++)
                sum[c][r] = fma(w, vload16(0, rows[r] + k), sum[c][r]);
        }
    }
    for (uint k = whole + lane; k < p.k; k += WG)
#  pragma unroll
        for (uint c = 0; c < COLUMNS; c++) {
            const float w = LOAD(W_TYPE, b, at[c] + k);
#  pragma unroll
            for (uint r = 0; r < ROWS; r++)
                tail[c][r] = fma(w, rows[r][k], tail[c][r]);
        }
#  endif
#  pragma unroll
    for (uint c = 0; c < COLUMNS; c++)
#  pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            const float all =
                group_sum(sum16(sum[c][r]) + tail[c][r], scratch); /* barriers inside: no work-item may
                                                                      leave early */
            if (lane == 0 && r < p.m && first + c < p.n)
                out[r * (size_t)p.n + first + c] = p.alpha * all + BIAS(first + c);
        }
}

#elif WG == 1

/* 16 columns of ROWS rows, from column `col` on, in `vectors` adjacent vectors. */
#  define DEFINE_COLUMNS(name, vectors)                                                               \
      static void name(const matmul_args *args, global float *out, const global float *const *rows,   \
                       global const w_elem *b, size_t b0, global const bias_elem *bias, uint col)     \
      {                                                                                               \
          const matmul_args p = *args;                                                                \
          float16 sum[vectors][ROWS];                                                                 \
          for (uint v = 0; v < vectors; v++)                                                          \
              for (uint r = 0; r < ROWS; r++)                                                         \
                  sum[v][r] = 0;                                                                      \
          for (uint k = 0; k < p.k; k++)                                                              \
              for (uint v = 0; v < vectors; v++) {                                                    \
                  const float16 w = LOAD16(W_TYPE, b, b0 + k * (size_t)p.b_stride[2] + col + 16 * v); \
                  for (uint r = 0; r < ROWS; r++)                                                     \
                      sum[v][r] = fma(w, (float16)rows[r][k], sum[v][r]);                             \
              }                                                                                       \
          for (uint r = 0; r < ROWS && r < p.m; r++)                                                  \
              for (uint v = 0; v < vectors; v++)                                                      \
                  vstore16(p.alpha * sum[v][r] + BIAS_AT16(col + 16 * v), 0,                          \
                           out + r * (size_t)p.n + col + 16 * v);                                     \
      }
#  define BIAS_AT16(i) BIAS16_OF(bias, p.bias + (i))

DEFINE_COLUMNS(block_of_columns, COLUMNS / 16)
DEFINE_COLUMNS(sixteen_columns, 1)

GROUP_KERNEL
void gemv_kn(STAGE_GROUP const matmul_args p, global float *out, global const float *a,
             global const w_elem *b, global const bias_elem *bias)
{
    BEGIN_BATCH;
    uint col = first;
    if (first + COLUMNS <= p.n) {
        block_of_columns(&p, out, rows, b, b0, bias, first);
        return;
    }
    for (; col + 16 <= p.n; col += 16)
        sixteen_columns(&p, out, rows, b, b0, bias, col);
    for (; col < p.n; col++)
        for (uint r = 0; r < ROWS && r < p.m; r++) {
            float sum = 0;
            for (uint k = 0; k < p.k; k++)
                sum = fma(LOAD(W_TYPE, b, b0 + k * (size_t)p.b_stride[2] + col), rows[r][k], sum);
            out[r * (size_t)p.n + col] = p.alpha * sum + BIAS(col);
        }
    (void)lane;
}

#else

GROUP_KERNEL
void gemv_kn(STAGE_GROUP const matmul_args p, global float *out, global const float *a,
             global const w_elem *b, global const bias_elem *bias)
{
    BEGIN_BATCH;
    const uint col = first + lane;
    float sum[ROWS];
    if (col >= p.n)
        return;
    for (uint r = 0; r < ROWS; r++)
        sum[r] = 0;
    for (uint k = 0; k < p.k; k++) {
        const float w = LOAD(W_TYPE, b, b0 + k * (size_t)p.b_stride[2] + col);
        for (uint r = 0; r < ROWS; r++)
            sum[r] = fma(w, rows[r][k], sum[r]);
    }
    for (uint r = 0; r < ROWS && r < p.m; r++)
        out[r * (size_t)p.n + col] = p.alpha * sum[r] + BIAS(col);
}

#endif

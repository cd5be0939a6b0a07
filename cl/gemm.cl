/* out [n0, n1, m, n] = alpha a b + bias, for devices other than CPUs (those have gemm_panel.cl). b is [.., K,
 * N], or [.., N, K] if TRANSPOSED, of any dtype; a is [.., m, k], or [.., k, m] if TRANSPOSED_A.
 * Launch: {ceil(m / rows) ceil(n / WG), n1, n0} groups; adjacent groups have adjacent rows. Each work-item
 * has its own column and `rows` (at most 8) rows.
 *   -D WG          work-items in a group
 *   -D A_TYPE      dtype of a: f32, f16 or bf16
 *   -D W_TYPE      dtype of b
 *   -D BIAS_TYPE   dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED    1: b is [.., N, K]
 *   -D TRANSPOSED_A  1: a is [.., K, M] */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(A_TYPE) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED) ||                   \
    !defined(TRANSPOSED_A)
#    error "gemm.cl needs WG, A_TYPE, W_TYPE, BIAS_TYPE, TRANSPOSED and TRANSPOSED_A"
#endif

#include "bias.h"
#define BIAS(i) BIAS_OF(bias, p.bias + (i))
typedef ELEM(W_TYPE) w_elem;
typedef ELEM(A_TYPE) a_elem;

enum { TILE = 8 }; /* rows kept in registers */

GROUP_KERNEL
void gemm_columns(const matmul_args p, global float *out, global const a_elem *a, global const w_elem *b,
                  global const bias_elem *bias)
{
    const uint row_groups = (p.m + p.rows - 1) / p.rows, i1 = get_group_id(1), i0 = get_group_id(2);
    const uint mine = get_group_id(0) / row_groups * WG + get_local_id(0),
               row0 = get_group_id(0) % row_groups * p.rows;
    const uint row_end = min(row0 + p.rows, p.m);
    const size_t b0 = p.b + i0 * (size_t)p.b_stride[0] + i1 / p.group * (size_t)p.b_stride[1];
    a += p.a + i0 * (size_t)p.a_stride[0] + i1 * (size_t)p.a_stride[1];
    out += ((size_t)i0 * p.n1 + i1) * p.m * p.n;
    global const a_elem *x[TILE];
    float sum[TILE];
    uint k = 0;
    if (mine >= p.n)
        return;
    for (uint r = 0; r < TILE; r++) {
        x[r] = a + min(row0 + r, row_end - 1) * (TRANSPOSED_A ? (size_t)1 : (size_t)p.a_stride[2]);
        sum[r] = 0;
    }
#if TRANSPOSED
    const size_t from = b0 + mine * (size_t)p.b_stride[2];
    for (; !TRANSPOSED_A && k + 16 <= p.k; k += 16) {
        const float16 w = LOAD16(W_TYPE, b, from + k);
        for (uint r = 0; r < TILE; r++)
            sum[r] += sum16(w * LOAD16(A_TYPE, x[r], k));
    }
#else
    const size_t from = b0 + mine;
#endif
    for (; k < p.k; k++) {
        const float w = LOAD(W_TYPE, b, from + k * (TRANSPOSED ? (size_t)1 : (size_t)p.b_stride[2]));
        const size_t at = k * (TRANSPOSED_A ? (size_t)p.a_stride[2] : (size_t)1);
        for (uint r = 0; r < TILE; r++)
            sum[r] = fma(w, LOAD(A_TYPE, x[r], at), sum[r]);
    }
    for (uint r = 0; r < TILE && row0 + r < row_end; r++)
        out[(row0 + r) * (size_t)p.n + mine] = p.alpha * sum[r] + BIAS(mine);
}

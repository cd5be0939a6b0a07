/* Packs b [.., K, N], or [.., N, K] if TRANSPOSED, of any dtype for gemm_panel.cl, once for all rows of a:
 * panels [ceil(n / 32), 2, k, 16] of floats.
 * Launch: {pairs of 16 columns, ceil(k / DEPTH)}, one work-item in a group.
 *   -D W_TYPE      dtype of b
 *   -D TRANSPOSED  1: b is [.., N, K] */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#if !defined(W_TYPE) || !defined(TRANSPOSED)
#    error "gemm_pack.cl needs W_TYPE and TRANSPOSED"
#endif
#define PACKED 0
#define PANEL_SPACE global
#define STORE_PANEL STORE_GLOBAL
#include "gemm_pack.h"

STAGE_KERNEL void gemm_pack(STAGE_GROUP const matmul_args p, global float *out, global const w_elem *b)
{
    const uint pair = group_id(0), k0 = group_id(1) * DEPTH;
    pack_b(&p, out + (pair * 2 * (size_t)p.k + k0) * 16, 16 * (size_t)p.k, b, p.b, pair * WIDTH, k0,
           min((uint)DEPTH, p.k - k0));
}

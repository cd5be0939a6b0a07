/* Columns of b [.., K, N], or [.., N, K] if TRANSPOSED, as panels of 16 columns for the products of tile.h.
 *   -D W_TYPE, TRANSPOSED  as in gemm_panel.cl */
#ifndef CLEF_CL_GEMM_PACK_H
#define CLEF_CL_GEMM_PACK_H

#include "tile.h"

/* 16 floats at any address, in one instruction: some compilers cut vload16 and vstore16 into four. */
#if defined(__clang__)
typedef float16 __attribute__((aligned(4), may_alias)) loose_float16;
#    define LOAD_LOOSE(p) (*(global const loose_float16 *)(p))
#    define STORE_LOOSE(v, p) (*(loose_float16 *)(p) = (v))
#    define STORE_GLOBAL(v, p) (*(global loose_float16 *)(p) = (v))
#else
#    define LOAD_LOOSE(p) vload16(0, p)
#    define STORE_LOOSE(v, p) vstore16(v, 0, p)
#    define STORE_GLOBAL(v, p) vstore16(v, 0, p)
#endif

#ifndef PANEL_SPACE
#    define PANEL_SPACE private
#    define STORE_PANEL STORE_LOOSE
#endif

enum { WIDTH = 32 };
#if PACKED
typedef float w_elem;
#else
typedef ELEM(W_TYPE) w_elem;
#    if W_TYPE == 0
#        define B16(at) LOAD_LOOSE(b + (at))
#    else
#        define B16(at) LOAD16(W_TYPE, b, at)
#    endif

/* panel[h][k][c] = b's element (k0 + k, col + 16 h + c), for `depth` values of k. Columns from n on have any
 * values. */
INLINED void pack_b(const matmul_args *p, PANEL_SPACE float *panel, size_t step, global const w_elem *b,
                    size_t b0, uint col, uint k0, uint depth)
{
    const size_t stride = p->b_stride[2];
    for (uint h = 0; h < 2; h++, panel += step, col += 16) {
        if (col >= p->n)
            return;
#    if TRANSPOSED
        size_t from[16];
        uint k = 0;
        for (uint c = 0; c < 16; c++)
            from[c] = b0 + min(col + c, p->n - 1) * stride + k0;
        for (; k + 16 <= depth; k += 16) {
            float16 v[16];
#        pragma unroll
            for (uint c = 0; c < 16; c++)
                v[c] = B16(from[c] + k);
            transpose(v, 16);
#        pragma unroll
            for (uint i = 0; i < 16; i++)
                STORE_PANEL(v[i], panel + (k + i) * 16);
        }
        for (; k < depth; k++)
            for (uint c = 0; c < 16; c++)
                panel[k * 16 + c] = LOAD(W_TYPE, b, from[c] + k);
#    else
        const size_t from = b0 + k0 * stride + col;
        if (col + 16 <= p->n)
            for (uint k = 0; k < depth; k++)
                STORE_PANEL(B16(from + k * stride), panel + k * 16);
        else
            for (uint k = 0; k < depth; k++)
                for (uint c = 0; c < 16; c++)
                    panel[k * 16 + c] = col + c < p->n ? LOAD(W_TYPE, b, from + k * stride + c) : 0.0f;
#    endif
    }
}
#endif

#endif

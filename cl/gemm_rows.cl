/* Packs the rows of a [n0, n1, m, k] for the products of tile.h, batch after batch. Rows beyond the last one
 * are copies of it.
 * Launch: {blocks of NT rows, n1, n0}, one work-item in a group.
 *   -D NT, VECTORS  as in tile.h */
#define WG 1
#include "args.h"
#include "weights.h"

#include "tile.h"

kernel void gemm_rows(const matmul_args p, global float *out, global const float *a)
{
    const uint block = get_group_id(0), i1 = get_group_id(1), i0 = get_group_id(2),
               blocks = (p.m + NT - 1) / NT;
    global const float *from[NT];
    a += p.a + i0 * (size_t)p.a_stride[0] + i1 * (size_t)p.a_stride[1];
    out += ((size_t)i0 * p.n1 + i1) * blocks * p.k * X_LANES;
    for (uint t = 0; t < NT; t++)
        from[t] = a + min(block * NT + t, p.m - 1) * (size_t)p.a_stride[2];
    for (uint k0 = 0; k0 < p.k; k0 += DEPTH) {
        const uint end = min(k0 + DEPTH, p.k);
        global float *to = out + packed_at(blocks, block, k0, end - k0);
        uint k = k0;
        for (; k + 16 <= end; k += 16) {
            float16 v[X_LANES];
#pragma unroll
            for (uint t = 0; t < X_LANES; t++)
                v[t] = t < NT ? vload16(0, from[t] + k) : (float16)0.0f;
            transpose16(v);
#pragma unroll
            for (uint i = 0; i < 16; i++)
                vstore16(v[i], i, to);
            to += 16 * X_LANES;
        }
        for (; k < end; k++) {
            for (uint t = 0; t < NT; t++)
                to[t] = from[t][k];
            to += X_LANES;
        }
    }
}

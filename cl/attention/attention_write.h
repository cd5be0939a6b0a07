/* For attention_cpu_decode.cl: prepares heads of q and k (norm and RoPE), and writes rows to the caches. */
#ifndef CLEF_CL_ATTENTION_WRITE_H
#define CLEF_CL_ATTENTION_WRITE_H

#if !defined(TURNED) || !defined(PAIRING) || !defined(NORM_TYPE)
#  error "attention_write.h needs TURNED, PAIRING and NORM_TYPE"
#endif
#include "cache_row.h"
#include "norm_elem.h"

enum { TURN_VECTORS = (TURNED + 15) / 16, TURN_PADDED = TURNED ? 16 * TURN_VECTORS : 1 };

static size_t new_at(const view_args *view, uint b, uint hk, uint t)
{
    return view->offset + b * (size_t)view->stride[0] + hk * (size_t)view->stride[1] +
           t * (size_t)view->stride[2];
}

/* Cosines and sines of the angles by which the pairs of a head at this position are rotated. */
static void turns(float *turn_cos, float *turn_sin, global const float *freqs, int at, float scale)
{
    for (uint j = 0; j < TURN_VECTORS; j++) {
        float f[16];
        for (uint i = 0; i < 16; i++)
            f[i] = 16 * j + i < TURNED ? freqs[16 * j + i] : 0.0f;
        const float16 angle = (float)at * vload16(0, f);
        vstore16(cos(angle) * scale, j, turn_cos);
        vstore16(sin(angle) * scale, j, turn_sin);
    }
}

static void turn(float *x, const float *turn_cos, const float *turn_sin)
{
    uint i = 0;
#if PAIRING == 2
    float pairs[2 * TURN_PADDED];
    for (; i < 2 * TURNED; i++)
        pairs[i] = x[i];
    for (i = 0; i < TURNED; i++) {
        x[i] = pairs[2 * i];
        x[i + TURNED] = pairs[2 * i + 1];
    }
    i = 0;
#endif
    for (; i + 16 <= TURNED; i += 16) {
        const float16 c = vload16(0, turn_cos + i), s = vload16(0, turn_sin + i);
#if PAIRING == 1
        const float16 lo = vload16(0, x + 2 * i), hi = vload16(0, x + 2 * i + 16);
        const float16 re = (float16)(lo.even, hi.even), im = (float16)(lo.odd, hi.odd);
        const float16 a = re * c - im * s, b = im * c + re * s;
        float16 first, second;
        first.even = a.lo;
        first.odd = b.lo;
        second.even = a.hi;
        second.odd = b.hi;
        vstore16(first, 0, x + 2 * i);
        vstore16(second, 0, x + 2 * i + 16);
#else
        const float16 re = vload16(0, x + i), im = vload16(0, x + i + TURNED);
        vstore16(re * c - im * s, 0, x + i);
        vstore16(im * c + re * s, 0, x + i + TURNED);
#endif
    }
    for (; i < TURNED; i++) {
        const uint i0 = PAIRING == 1 ? 2 * i : i, i1 = PAIRING == 1 ? 2 * i + 1 : i + TURNED;
        const float re = x[i0], im = x[i1];
        x[i0] = re * turn_cos[i] - im * turn_sin[i];
        x[i1] = im * turn_cos[i] + re * turn_sin[i];
    }
}

/* Reads the head at `from`, with norm and RoPE, and zeros after its end. */
static void take_head(float *x, global const float *from, global const norm_elem *weight, uint w0, float eps,
                      const float *turn_cos, const float *turn_sin)
{
    for (uint j = 0; j < D / 16; j++)
        vstore16(vload16(j, from), j, x);
    for (uint d = D / 16 * 16; d < 16 * DV; d++)
        x[d] = d < D ? from[d] : 0.0f;
#if NORM_TYPE >= 0
    float16 squares = 0;
    for (uint j = 0; j < DV; j++)
        squares = fma(vload16(j, x), vload16(j, x), squares);
    const float inverse = 1.0f / sqrt(sum16(squares) / D + eps);
    for (uint j = 0; j < D / 16; j++)
        vstore16(vload16(j, x) * inverse * LOAD16(NORM_TYPE, weight, w0 + 16 * j), j, x);
    for (uint d = D / 16 * 16; d < D; d++)
        x[d] *= inverse * LOAD(NORM_TYPE, weight, w0 + d);
#endif
    turn(x, turn_cos, turn_sin);
}

static void write_key(global k_elem *to, size_t at, const float *x)
{
    for (uint j = 0; j < D / KEEP_AT_ONCE(K_TYPE); j++)
        KEEP(K_TYPE, to, at, j, x);
    for (uint d = D / KEEP_AT_ONCE(K_TYPE) * KEEP_AT_ONCE(K_TYPE); d < D; d++)
        KEEP_ONE(K_TYPE, to, at + d, x[d]);
}

static void write_value(global v_elem *to, size_t at, global const float *from)
{
    float x[16 * EV];
    for (uint d = 0; d < E; d++)
        x[d] = from[d];
    for (uint j = 0; j < E / KEEP_AT_ONCE(V_TYPE); j++)
        KEEP(V_TYPE, to, at, j, x);
    for (uint d = E / KEEP_AT_ONCE(V_TYPE) * KEEP_AT_ONCE(V_TYPE); d < E; d++)
        KEEP_ONE(V_TYPE, to, at + d, x[d]);
}

#endif

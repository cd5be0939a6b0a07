/* The products of matrix.h in plain C, which includes this file with MATRIX_PLAIN. The work-items of a unit
 * exchange their fragments in local memory. */
#ifndef CLEF_CL_MATRIX_PLAIN_H
#define CLEF_CL_MATRIX_PLAIN_H

#ifndef INT_DOT
#  define INT_DOT 0
#endif
#include "dot.h"

#define MATRIX_SCRATCH(name, items) local uint name[(items) * 16]

/* Copies the fragments of all work-items to s. There matrix_word_w() finds word k of row r of w, and
 * matrix_word_x() word k of row t of x. */
UNIT_INLINED void matrix_share(matrix_scratch s, matrix_w w, matrix_x x)
{
    s += get_local_id(0) * 16;
#if MATRIX == 1
    vstore4(w, 0, s);
    vstore2(x, 4, s);
#elif MATRIX == 4
    vstore2(w, 0, s);
    vstore2(x, 4, s);
#else
    vstore8(w, 0, s);
    vstore8(x, 1, s);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline uint matrix_word_w(matrix_scratch s, uint r, uint k, uint lane)
{
    s += matrix_unit() * MATRIX_LANES * 16;
#if MATRIX == 1
    return s[(r % 8 * 4 + k % 4) * 16 + r / 8 + k / 4 * 2];
#elif MATRIX == 4
    return s[(k % 4 * 16 + r) * 16 + k / 4];
#elif MATRIX == 2
    return s[(r + lane / 16 * 16) * 16 + k];
#else
    return s[r * 16 + k];
#endif
}

static inline uint matrix_word_x(matrix_scratch s, uint t, uint k, uint lane)
{
    s += matrix_unit() * MATRIX_LANES * 16 + 8;
#if MATRIX == 1
    return s[(t * 4 + k % 4) * 16 + k / 4];
#elif MATRIX == 4
    return s[(k % 4 * 16 + t) * 16 + k / 4];
#elif MATRIX == 2
    return s[(t + lane / 16 * 16) * 16 + k];
#else
    return s[k * 16 + t];
#endif
}

UNIT_INLINED matrix_ints matrix_plain_bytes(matrix_w w, matrix_x x, uint from, uint to, matrix_scratch s)
{
    const uint lane = matrix_lane();
    int sums[MATRIX_SUMS];
    matrix_share(s, w, x);
#pragma unroll 1
    for (uint i = 0; i < MATRIX_SUMS; i++) {
        sums[i] = 0;
#pragma unroll 1
        for (uint k = from; k < to; k++)
            sums[i] = dot4s(sums[i], matrix_word_w(s, matrix_row(i, lane), k, lane),
                            matrix_word_x(s, matrix_token(i, lane), k, lane));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return MATRIX_LOAD(0, sums);
}

UNIT_INLINED matrix_ints matrix_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return matrix_plain_bytes(w, x, 0, 8, s);
}

UNIT_INLINED matrix_ints matrix_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return matrix_plain_bytes(w, x, part * 4, part * 4 + 4, s);
}

/* The two numbers of a word of halves or bf16, as floats. */
static inline float2 matrix_pair(uint word, int halves)
{
    return halves ? vload_half2(0, (const half *)&word)
                  : (float2)(as_float(word << 16), as_float(word & 0xffff0000u));
}

UNIT_INLINED matrix_floats matrix_plain_floats(matrix_w w, matrix_x x, matrix_floats more, int halves,
                                               matrix_scratch s)
{
    const uint lane = matrix_lane();
    float sums[MATRIX_SUMS];
    MATRIX_STORE(more, 0, sums);
    matrix_share(s, w, x);
#pragma unroll 1
    for (uint i = 0; i < MATRIX_SUMS; i++)
#pragma unroll 1
        for (uint k = 0; k < 8; k++) {
            const float2 a = matrix_pair(matrix_word_w(s, matrix_row(i, lane), k, lane), halves);
            const float2 b = matrix_pair(matrix_word_x(s, matrix_token(i, lane), k, lane), halves);
            sums[i] = fma(a.x, b.x, fma(a.y, b.y, sums[i]));
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    return MATRIX_LOAD(0, sums);
}

UNIT_INLINED matrix_floats matrix_halves(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return matrix_plain_floats(w, x, sums, 1, s);
}

UNIT_INLINED matrix_floats matrix_bf16(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return matrix_plain_floats(w, x, sums, 0, s);
}

UNIT_INLINED uint matrix_exchange(uint x, uint mask, matrix_scratch s)
{
    s[get_local_id(0) * 16] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    x = s[(get_local_id(0) ^ mask) * 16];
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
}

#endif

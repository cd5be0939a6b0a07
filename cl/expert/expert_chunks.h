/* Chunks of 32 elements of a weight's row times those of x, for expert_few.cl and expert_few_sum.cl. A chunk
 * is two runs of 16 elements. In Q4_K and Q5_K they are 32 elements apart, so that both are in the same 16
 * bytes of codes.
 *   CHUNK_LOW(i)   the first element of the lower run of chunk i of a row
 *   CHUNK_APART    elements from there to the upper run
 *   chunk_dot(w, row, k, i, x)  chunk i of row `row` of w, whose rows have k elements, times x */
#ifndef CLEF_CL_EXPERT_EXPERT_CHUNKS_H
#define CLEF_CL_EXPERT_EXPERT_CHUNKS_H

#include "expert_sixteens.h"

typedef struct x_chunk {
    float16 low, high;
    float low_sum, high_sum; /* of the elements of each run, if HAS_BASE */
} x_chunk;

static inline float dot16(float16 a, float16 b)
{
    float4 sum = a.s0123 * b.s0123;
    sum = fma(a.s4567, b.s4567, sum);
    sum = fma(a.s89ab, b.s89ab, sum);
    sum = fma(a.scdef, b.scdef, sum);
    return (sum.x + sum.y) + (sum.z + sum.w);
}

#if W_TYPE == DTYPE_Q4_K || W_TYPE == DTYPE_Q5_K
#  define CHUNK_LOW(i) ((i) / 8 * 256 + (i) % 8 / 2 * 64 + (i) % 2 * 16)
#  define CHUNK_APART  32

static inline float chunk_dot(global const uchar *w, size_t row, uint k, uint i, const x_chunk *x)
{
    global const uint4 *block = (global const uint4 *)(w + (row * (k / 256) + i / 8) * BLOCK_BYTES);
    const uint4 head = block[0], q = block[FIRST_CODES + i % 8]; /* head: d m, 12 bytes of scales */
    uint4 low = q & 0x0f0f0f0fu, high = q >> 4u & 0x0f0f0f0fu;
#  if W_TYPE == DTYPE_Q5_K
    const uint4 fifth = block[1 + i % 2] >> i % 8 / 2 * 2;
    low |= (fifth & 0x01010101u) << 4u;
    high |= (fifth & 0x02020202u) << 3u;
#  endif
    /* bytes 0 and 1 of each: of both runs */
    const uint shift = i % 8 / 2 % 2 * 16, a = head.y >> shift, b = head.z >> shift, c = head.w >> shift;
    const uint scales = i % 8 < 4 ? a & 0x3f3fu : (c & 0x0f0fu) | (a >> 2 & 0x3030u),
               minima = i % 8 < 4 ? b & 0x3f3fu : (c >> 4 & 0x0f0fu) | (b >> 2 & 0x3030u);
    const float codes = fma(dot16(convert_float16(as_uchar16(low)), x->low), (float)(scales & 255u),
                            dot16(convert_float16(as_uchar16(high)), x->high) * (float)(scales >> 8));
    const float base = fma(x->low_sum, (float)(minima & 255u), x->high_sum * (float)(minima >> 8));
    return codes * half_of_bits(head.x & 0xffffu) - base * half_of_bits(head.x >> 16);
}

#else
#  define CHUNK_LOW(i) ((i) * 32)
#  define CHUNK_APART  16

#  if HAS_CODES
static inline float run_dot(global const uchar *w, size_t at, float16 x, float x_sum)
{
    const float2 scale = code_scale(w, at);
    const float sum = dot16(convert_float16(as_char16(code_words(w, at))), x) * scale.x;
    return HAS_BASE ? fma(x_sum, scale.y, sum) : sum;
}
#  else
#    define run_dot(w, at, x, x_sum) dot16(load_whole16(w, at), x)
#  endif

static inline float chunk_dot(global const ELEM(W_TYPE) *w, size_t row, uint k, uint i, const x_chunk *x)
{
    const size_t at = row * k + CHUNK_LOW(i);
    return run_dot(w, at, x->low, x->low_sum) + run_dot(w, at + CHUNK_APART, x->high, x->high_sum);
}
#endif

/* Chunk i of a row of x, which begins at a multiple of 16 bytes. */
static inline void x_chunk_load(x_chunk *c, global const float *x, uint i)
{
    global const float4 *low = (global const float4 *)(x + CHUNK_LOW(i)), *high = low + CHUNK_APART / 4;
    c->low = (float16)(low[0], low[1], low[2], low[3]);
    c->high = (float16)(high[0], high[1], high[2], high[3]);
    c->low_sum = HAS_CODES && HAS_BASE ? sum16(c->low) : 0.0f;
    c->high_sum = HAS_CODES && HAS_BASE ? sum16(c->high) : 0.0f;
}

#endif

/* Sixteen elements of a weight as floats, for the kernels of experts. Compilers read vectors element by
 * element unless they know that the address is a multiple of the vector's size.
 *   ALIGNED             1: rows begin at multiples of 16 bytes
 *   load_whole16(w, at)  elements at .. at + 15, at a multiple of 16 elements of a row */
#ifndef CLEF_CL_EXPERT_EXPERT_SIXTEENS_H
#define CLEF_CL_EXPERT_EXPERT_SIXTEENS_H

#include "expert_codes.h"

#if HAS_CODES
static inline float16 load_whole16(global const uchar *w, size_t at)
{
    const float2 scale = code_scale(w, at);
    return convert_float16(as_char16(code_words(w, at))) * scale.x + scale.y;
}
#elif ALIGNED && W_TYPE == DTYPE_F32
static inline float16 load_whole16(global const float *w, size_t at)
{
    global const float4 *v = (global const float4 *)(w + at);
    return (float16)(v[0], v[1], v[2], v[3]);
}
#elif ALIGNED && W_TYPE == DTYPE_F16
static inline float16 load_whole16(global const half *w, size_t at)
{
    const uint4 v[2] = {*(global const uint4 *)(w + at), *(global const uint4 *)(w + at + 8)};
    return vload_half16(0, (const half *)v);
}
#elif ALIGNED && W_TYPE == DTYPE_BF16
static inline float16 load_whole16(global const ushort *w, size_t at)
{
    const uint4 low = *(global const uint4 *)(w + at), high = *(global const uint4 *)(w + at + 8);
    const uint8 pairs = (uint8)(low, high), even = pairs << 16u, odd = pairs & 0xffff0000u;
    float16 v;
    v.even = as_float8(even);
    v.odd = as_float8(odd);
    return v;
}
#else
#  define load_whole16(w, at) LOAD16(W_TYPE, w, at)
#endif

#endif

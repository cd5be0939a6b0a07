/* How expert_tiles.cl reads x and W. Compilers read vectors element by element unless they know that the
 * address is a multiple of the vector's size; ALIGNED says so for the beginnings of rows.
 *   expert_load4(x, at, k, n)   elements at .. at + 3 of x, which are k .. k + 3 of a row of n; 0 beyond n
 *   expert_load16(w, at, k, n)  the same for 16 elements of W; k is a multiple of 16 */
#ifndef CLEF_CL_EXPERT_LOAD_H
#define CLEF_CL_EXPERT_LOAD_H

static inline float4 expert_load4(global const float *x, size_t at, uint k, uint n)
{
    if (k + 4 <= n) {
#if ALIGNED
        return *(global const float4 *)(x + at);
#else
        return vload4(0, x + at);
#endif
    }
    return (float4)(k < n ? x[at] : 0.0f, k + 1 < n ? x[at + 1] : 0.0f, k + 2 < n ? x[at + 2] : 0.0f, 0.0f);
}

#if ALIGNED && (W_TYPE == DTYPE_Q4_K || W_TYPE == DTYPE_Q5_K)
static inline float4 bytes_to_floats(uint bytes) { return convert_float4(as_uchar4(bytes)); }

/* q4_k_16() and q5_k_16() of blocks.h, by words: blocks of 144 and 176 bytes begin at multiples of 16. */
static inline float16 aligned_load16(global const uchar *w, size_t at)
{
    enum { BYTES = W_TYPE == DTYPE_Q4_K ? 144 : 176, CODES = BYTES / 16 - 8 };
    global const uint4 *block = (global const uint4 *)(w + at / 256 * BYTES);
    const uint g = at % 256 / 16, s = g / 2, shift = s % 4 * 8;
    const uint4 head = block[0]; /* d m, then 12 bytes of scales */
    uint4 q = block[CODES + g / 4 * 2 + g % 2] >> s % 2 * 4 & 0x0f0f0f0fu;
#  if W_TYPE == DTYPE_Q5_K
    q |= (block[1 + g % 2] >> s & 0x01010101u) << 4u;
#  endif
    const uint low = head.y >> shift, middle = head.z >> shift, high = head.w >> shift;
    const uint scale = s < 4 ? low & 63u : (high & 15u) | (low >> 2 & 48u),
               minimum = s < 4 ? middle & 63u : (high >> 4 & 15u) | (middle >> 2 & 48u);
    const float d = half_of_bits(head.x & 0xffffu) * (float)scale,
                m = half_of_bits(head.x >> 16) * (float)minimum;
    const float16 v = (float16)(bytes_to_floats(q.x), bytes_to_floats(q.y), bytes_to_floats(q.z),
                                bytes_to_floats(q.w));
    return v * d - m;
}
#elif ALIGNED && W_TYPE == DTYPE_F32
static inline float16 aligned_load16(global const float *w, size_t at)
{
    global const float4 *v = (global const float4 *)(w + at);
    return (float16)(v[0], v[1], v[2], v[3]);
}
#elif ALIGNED && W_TYPE == DTYPE_F16
static inline float16 aligned_load16(global const half *w, size_t at)
{
    const uint4 v[2] = {*(global const uint4 *)(w + at), *(global const uint4 *)(w + at + 8)};
    return vload_half16(0, (const half *)v);
}
#elif ALIGNED && W_TYPE == DTYPE_BF16
static inline float16 aligned_load16(global const ushort *w, size_t at)
{
    const uint4 v0 = *(global const uint4 *)(w + at), v1 = *(global const uint4 *)(w + at + 8);
    const uint8 v = (uint8)(v0, v1), even = v << 16u, odd = v & 0xffff0000u;
    float16 out;
    out.even = as_float8(even);
    out.odd = as_float8(odd);
    return out;
}
#else
#  define aligned_load16(w, at) LOAD16(W_TYPE, w, at)
#endif

static inline float16 expert_load16(global const ELEM(W_TYPE) *w, size_t at, uint k, uint n)
{
#if IS_BLOCKS(W_TYPE)
    return aligned_load16(w, at); /* whole blocks */
#else
    if (k + 16 <= n)
        return aligned_load16(w, at);
    float v[16];
    for (uint i = 0; i < 16; i++)
        v[i] = k + i < n ? LOAD(W_TYPE, w, at + i) : 0.0f;
    return vload16(0, v);
#endif
}

#endif

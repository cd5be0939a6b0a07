/* Blocks of some formats as integers, for kernels of experts, read by as wide words as their places allow:
 * blocks of Q4_K and Q5_K begin at multiples of 16 bytes, those of the others at multiples of 2. An element
 * is code scale + base.
 *   HAS_CODES         1 if W_TYPE is one of these formats
 *   HAS_BASE          1 if base is not 0
 *   N_CODE_SCALES       scales of 32 elements
 *   code_words(w, at)  the signed bytes of elements at .. at + 15, a multiple of 16
 *   code_scale(w, at)  their scale and base
 * The layouts are described in blocks.h. */
#ifndef CLEF_CL_EXPERT_EXPERT_CODES_H
#define CLEF_CL_EXPERT_EXPERT_CODES_H

#define N_CODE_SCALES 1
#define HAS_BASE    (W_TYPE != DTYPE_Q8_0)
#define HAS_CODES                                                                                            \
    (W_TYPE == DTYPE_Q8_0 || W_TYPE == DTYPE_Q4_0 || W_TYPE == DTYPE_Q4_K || W_TYPE == DTYPE_Q5_K ||         \
     W_TYPE == DTYPE_Q6_K)

/* 16 bytes at an even address. */
static inline uint4 even_words(global const uchar *p)
{
    return as_uint4(vload8(0, (global const ushort *)p));
}

static inline float half_field(global const uchar *p) { return half_of_bits(*(global const ushort *)p); }

#if W_TYPE == DTYPE_Q8_0
static inline uint4 code_words(global const uchar *w, size_t at)
{
    return even_words(w + at / 32 * 34 + 2 + at % 32);
}

static inline float2 code_scale(global const uchar *w, size_t at)
{
    return (float2)(half_field(w + at / 32 * 34), 0);
}

#elif W_TYPE == DTYPE_Q4_0
static inline uint4 code_words(global const uchar *w, size_t at)
{
    return even_words(w + at / 32 * 18 + 2) >> (uint)(at % 32 / 4) & 0x0f0f0f0fu;
}

static inline float2 code_scale(global const uchar *w, size_t at)
{
    return half_field(w + at / 32 * 18) * (float2)(1, -8);
}

#elif W_TYPE == DTYPE_Q4_K || W_TYPE == DTYPE_Q5_K
enum { BLOCK_BYTES = W_TYPE == DTYPE_Q4_K ? 144 : 176, FIRST_CODES = BLOCK_BYTES / 16 - 8 };

static inline uint4 code_words(global const uchar *w, size_t at)
{
    global const uint4 *block = (global const uint4 *)(w + at / 256 * BLOCK_BYTES);
    const uint g = (uint)(at % 256 / 16);
    uint4 q = block[FIRST_CODES + g / 4 * 2 + g % 2] >> g / 2 % 2 * 4 & 0x0f0f0f0fu;
#  if W_TYPE == DTYPE_Q5_K
    q |= (block[1 + g % 2] >> g / 2 & 0x01010101u) << 4u;
#  endif
    return q;
}

/* The scale and base of the 32 elements from 32 s on of a block that begins with the words `head`: d, m and
 * 12 bytes of scales. */
static inline float2 head_scale(uint4 head, uint s)
{
    const uint low = head.y >> s % 4 * 8, middle = head.z >> s % 4 * 8, high = head.w >> s % 4 * 8;
    const uint scale = s < 4 ? low & 63u : (high & 15u) | (low >> 2 & 48u),
               minimum = s < 4 ? middle & 63u : (high >> 4 & 15u) | (middle >> 2 & 48u);
    return (float2)(half_of_bits(head.x & 0xffffu) * (float)scale,
                    half_of_bits(head.x >> 16) * -(float)minimum);
}

static inline float2 code_scale(global const uchar *w, size_t at)
{
    return head_scale(*(global const uint4 *)(w + at / 256 * BLOCK_BYTES), (uint)(at % 256 / 32));
}

#elif W_TYPE == DTYPE_Q6_K
#  undef N_CODE_SCALES
#  define N_CODE_SCALES 2
static inline uint4 code_words(global const uchar *w, size_t at)
{
    global const uchar *block = w + at / 256 * 210;
    const uint g = (uint)(at % 256 / 16);
    const uint4 low = even_words(block + 64 * (g / 8) + 16 * (g % 4)) >> g % 8 / 4 * 4 & 0x0f0f0f0fu,
                high = even_words(block + 128 + 32 * (g / 8) + 16 * (g % 2)) >> g % 8 / 2 * 2 & 0x03030303u;
    return low | high << 4u;
}

static inline float2 code_scale(global const uchar *w, size_t at)
{
    global const uchar *block = w + at / 256 * 210;
    return half_field(block + 208) * (float)as_char(block[192 + at % 256 / 16]) * (float2)(1, -32);
}
#endif

#endif

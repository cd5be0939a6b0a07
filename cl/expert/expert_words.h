/* W of experts as words of two halves or two bf16, for units that multiply matrices (instruction/matrix.h). A
 * work-item fetches 16 elements of each 32 of a step. What memory has of them stays in registers until it is
 * decoded, so that loads are in flight while a step is multiplied.
 *   -D BLOCKS  parts of 32 elements of a step: 1 or 2. 2: a step begins at a multiple of 64
 *   -D TAIL    1: k is not a multiple of 32 BLOCKS
 *   -D HALVES  1: words of halves, which W is, too; 0: words of bf16
 *
 *   w_row(w, at)             where the row is that begins with element `at`
 *   w_fetch(raw, w, k, end)  elements k .. k + 15, and with 2 BLOCKS k + 32 .. k + 47, of the row w of `end`
 *                            elements; k is a multiple of 16. Beyond the end it reads others of the row
 *   w_decode(out, raw, k)    makes words of them: two vectors for each of BLOCKS */
#ifndef CLEF_CL_EXPERT_EXPERT_WORDS_H
#define CLEF_CL_EXPERT_EXPERT_WORDS_H

#if !defined(BLOCKS) || !defined(TAIL) || !defined(HALVES)
#  error "expert_words.h needs BLOCKS, TAIL and HALVES"
#endif

#include "bf16.h"
#include "expert_codes.h"

/* Element k + 32 i, or the last sixteen. */
#define PART_OF(k, i, end) (TAIL ? min((k) + 32 * (i), (end)-16) : (k) + 32 * (i))

/* bf16_words(low, high): two floats as a word of bf16. NVIDIA has an instruction that rounds to the nearest.
 * Other devices cut the lower bits off. That would make numbers smaller on average, so they are first
 * multiplied by CUT_FACTOR, which adds half of the last bit that is kept. An error is at most 0.7 of that
 * bit; with rounding to the nearest it is 0.5. */
#if BF16_BY_PTX
#  define CUT_FACTOR 1.0f
#  define bf16_words two_bf16_nearest
#else
#  define CUT_FACTOR 1.0027f
#  define bf16_words two_bf16_cut
#endif

#if HAS_CODES

/* Codes of four elements, as two words. NVIDIA converts whole numbers to floats on a slow unit, so there the
 * bits of a code c become those of the float 256 + c or 128 + c. */
static inline uint2 words_of_codes(uint codes, float2 scale)
{
#  if MATRIX == 1 && !MATRIX_PLAIN
#    if W_TYPE == DTYPE_Q8_0 /* signed codes */
    const uint c = codes ^ 0x80808080u, power = 0x43800000u;
    const float base = fma(scale.x, -384.0f, scale.y);
    const uint4 bits =
        (uint4)(c << 15 & 0x7f8000u, c << 7 & 0x7f8000u, c >> 1 & 0x7f8000u, c >> 9 & 0x7f8000u);
#    else /* codes of up to 6 bits */
    const uint power = 0x43000000u;
    const float base = fma(scale.x, -128.0f, scale.y);
    const uint4 bits = (uint4)(codes << 16 & 0xff0000u, codes << 8 & 0xff0000u, codes & 0xff0000u,
                               codes >> 8 & 0xff0000u);
#    endif
    const float4 v = fma(as_float4(bits | power), scale.x, base);
#  elif W_TYPE == DTYPE_Q8_0
    const float4 v = convert_float4(as_char4(codes)) * scale.x;
#  else
    const float4 v = fma(convert_float4(as_uchar4(codes)), scale.x, scale.y);
#  endif
    return (uint2)(bf16_words(v.x, v.y), bf16_words(v.z, v.w));
}

static inline void words_of_sixteen(uint4 out[2], uint4 codes, float2 scale)
{
    scale *= CUT_FACTOR;
    out[0] = (uint4)(words_of_codes(codes.x, scale), words_of_codes(codes.y, scale));
    out[1] = (uint4)(words_of_codes(codes.z, scale), words_of_codes(codes.w, scale));
}

#  define FORMAT_FIELD(type, field)  FORMAT_FIELD_(type, field)
#  define FORMAT_FIELD_(type, field) FORMAT_##type(field)
static inline global const uchar *w_row(global const uchar *w, size_t at)
{
    return w + at / FORMAT_FIELD(W_TYPE, FORMAT_ELEMS) * FORMAT_FIELD(W_TYPE, FORMAT_BYTES);
}

#  if W_TYPE == DTYPE_Q4_K || W_TYPE == DTYPE_Q5_K
typedef struct w_raw {
    uint4 head, low, high; /* low has the elements of both parts of 32, high one bit of each eight parts */
} w_raw;

static inline void w_fetch(w_raw *raw, global const uchar *w, uint k, uint end)
{
    global const uint4 *block = (global const uint4 *)(w + k / 256 * BLOCK_BYTES);
    const uint g = k % 256 / 16;
    raw->head = block[0];
    raw->low = block[FIRST_CODES + g / 4 * 2 + g % 2];
    raw->high = W_TYPE == DTYPE_Q5_K ? block[1 + g % 2] : 0;
}

static inline void w_decode(uint4 out[2 * BLOCKS], const w_raw *raw, uint k)
{
#    pragma unroll
    for (uint i = 0; i < BLOCKS; i++) {
        const uint s = k % 256 / 32 + i, odd = BLOCKS == 2 ? i : s % 2;
        uint4 codes = raw->low >> odd * 4 & 0x0f0f0f0fu;
        if (W_TYPE == DTYPE_Q5_K)
            codes |= (raw->high >> s & 0x01010101u) << 4u;
        words_of_sixteen(out + 2 * i, codes, head_scale(raw->head, s));
    }
}
#  else
typedef struct w_raw {
    uint4 codes[BLOCKS];
    float2 scale[BLOCKS];
} w_raw;

static inline void w_fetch(w_raw *raw, global const uchar *w, uint k, uint end)
{
#    pragma unroll
    for (uint i = 0; i < BLOCKS; i++) {
        const uint at = PART_OF(k, i, end);
        raw->codes[i] = code_words(w, at);
        raw->scale[i] = code_scale(w, at);
    }
}

static inline void w_decode(uint4 out[2 * BLOCKS], const w_raw *raw, uint k)
{
#    pragma unroll
    for (uint i = 0; i < BLOCKS; i++)
        words_of_sixteen(out + 2 * i, raw->codes[i], raw->scale[i]);
}
#  endif

#elif (W_TYPE == DTYPE_F16 && HALVES) || (W_TYPE == DTYPE_BF16 && !HALVES)

/* W has these words already. Its rows begin at multiples of 16 bytes. */
static inline global const ELEM(W_TYPE) *w_row(global const ELEM(W_TYPE) *w, size_t at) { return w + at; }

typedef struct w_raw {
    uint4 words[2 * BLOCKS];
} w_raw;

static inline void w_fetch(w_raw *raw, global const ELEM(W_TYPE) *w, uint k, uint end)
{
#  pragma unroll
    for (uint i = 0; i < BLOCKS; i++) {
        global const uint4 *from = (global const uint4 *)(w + PART_OF(k, i, end));
        raw->words[2 * i] = from[0];
        raw->words[2 * i + 1] = from[1];
    }
}

static inline void w_decode(uint4 out[2 * BLOCKS], const w_raw *raw, uint k)
{
#  pragma unroll
    for (uint i = 0; i < 2 * BLOCKS; i++)
        out[i] = raw->words[i];
}

#else
#  error "expert_words.h: no such W_TYPE with these HALVES"
#endif

#endif

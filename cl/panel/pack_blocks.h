/* Packs weights in block formats as panels (cl/panel/panel.h). The codes of sixteen rows come first, as
 * vectors of words; the other parts of the blocks follow. A work-item packs sixteen rows (pack.cl), or with
 * ONE_ROW one of them (pack_gpu.cl). Needs W_TYPE. */
#ifndef CLEF_CL_PACK_BLOCKS_H
#define CLEF_CL_PACK_BLOCKS_H

#include "panel_format.h"

#ifdef ONE_ROW

typedef uint words; /* a word of the row */

/* The blocks of one row, as stored, and its place among sixteen. A row that does not exist reads as zeros. */
typedef struct stored_rows {
    global const uchar *at;
    uint row;
    int is_there;
} stored_rows;

static inline ushort row_half(const stored_rows *s, uint at)
{
#  if STORED_BYTES % 2 == 0
    return s->is_there ? *(global const ushort *)(s->at + at) : (ushort)0;
#  else
    return s->is_there ? as_ushort(vload2(0, s->at + at)) : (ushort)0;
#  endif
}

static inline uint word_at(const stored_rows *s, uint at)
{
#  if STORED_BYTES % 4 == 0
    return s->is_there ? *(global const uint *)(s->at + at) : 0u;
#  elif STORED_BYTES % 2 == 0
    return row_half(s, at) | (uint)row_half(s, at + 2) << 16;
#  else
    return s->is_there ? as_uint(vload4(0, s->at + at)) : 0u;
#  endif
}

static inline void words_at(const stored_rows *s, uint at, uint v[4])
{
#  pragma unroll
    for (uint i = 0; i < 4; i++)
        v[i] = word_at(s, at + 4 * i);
}

static inline void put_words(global uchar *to, const stored_rows *s, uint v)
{
    ((global uint *)to)[s->row] = v;
}

static inline void put_halves(global uchar *to, const stored_rows *s, uint at)
{
    ((global ushort *)to)[s->row] = row_half(s, at);
}

static inline void put_bytes(global uchar *to, const stored_rows *s, uint at)
{
    to[s->row] = s->is_there ? s->at[at] : (uchar)0;
}

#else

typedef uint16 words; /* a word of each row */

/* Transposes four words of each of sixteen rows. v holds them row after row; then v[i] is word i of all
 * rows. */
static inline void words4(uint16 v[4])
{
#  pragma unroll
    for (int round = 0; round < 2; round++) {
        const uint16 a = (uint16)(v[0].even, v[1].even), b = (uint16)(v[2].even, v[3].even);
        const uint16 c = (uint16)(v[0].odd, v[1].odd), d = (uint16)(v[2].odd, v[3].odd);
        v[0] = a;
        v[1] = b;
        v[2] = c;
        v[3] = d;
    }
}

/* The blocks of sixteen rows, as stored. Rows from n on do not exist and read as zeros. */
typedef struct stored_rows {
    global const uchar *at;
    size_t row_bytes;
    uint n;
} stored_rows;

static inline uint row_word(const stored_rows *s, uint r, uint at)
{
    return r < s->n ? as_uint(vload4(0, s->at + r * s->row_bytes + at)) : 0;
}

static inline ushort row_half(const stored_rows *s, uint r, uint at)
{
    return r < s->n ? as_ushort(vload2(0, s->at + r * s->row_bytes + at)) : (ushort)0;
}

static inline uint4 row_words(const stored_rows *s, uint r, uint at)
{
    return r < s->n ? as_uint4(vload16(0, s->at + r * s->row_bytes + at)) : (uint4)0;
}

/* v[i]: the words at `at` + 4 i of all rows. */
static inline void words_at(const stored_rows *s, uint at, uint16 v[4])
{
#  pragma unroll
    for (uint i = 0; i < 4; i++)
        v[i] = (uint16)(row_words(s, 4 * i, at), row_words(s, 4 * i + 1, at), row_words(s, 4 * i + 2, at),
                        row_words(s, 4 * i + 3, at));
    words4(v);
}

static inline uint16 word_at(const stored_rows *s, uint at)
{
    uint each[PANEL_ROWS];
#  pragma unroll
    for (uint r = 0; r < PANEL_ROWS; r++)
        each[r] = row_word(s, r, at);
    return vload16(0, each);
}

static inline void put_words(global uchar *to, const stored_rows *s, uint16 v)
{
    vstore16(v, 0, (global uint *)to);
}

static inline void put_halves(global uchar *to, const stored_rows *s, uint at)
{
#  pragma unroll
    for (uint r = 0; r < PANEL_ROWS; r++)
        ((global ushort *)to)[r] = row_half(s, r, at);
}

static inline void put_bytes(global uchar *to, const stored_rows *s, uint at)
{
    for (uint r = 0; r < PANEL_ROWS; r++)
        to[r] = r < s->n ? s->at[r * s->row_bytes + at] : (uchar)0;
}

#endif

/* Moves bit 4 g + j to bit 8 j + g. */
static inline words spread_bits(words bits)
{
    words out = 0;
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        words u = bits >> j & 0x11111111u;
        u = (u | u >> 3) & 0x03030303u;
        u = (u | u >> 6) & 0x000f000fu;
        out |= ((u | u >> 12) & 255u) << 8 * j;
    }
    return out;
}

/* Joins the codes of columns i (in `first`) and 16 + i (in `second`) in the bytes of one word. `upper`
 * selects the upper nibbles of both words, else the lower ones. */
static inline words join(words first, words second, int upper)
{
    return upper ? (first >> 4u & 0x0f0f0f0fu) | (second & 0xf0f0f0f0u)
                 : (first & 0x0f0f0f0fu) | (second & 0x0f0f0f0fu) << 4u;
}

/* Packs two blocks, which are the lower and the upper nibbles of the same 32 bytes. */
static inline void pack_nibbles(global uchar *lower, global uchar *upper, const stored_rows *s, uint at)
{
    words v[4], u[4];
    words_at(s, at, v);
    words_at(s, at + 16, u);
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        put_words(lower + 64 * i, s, join(v[i], u[i], 0));
        put_words(upper + 64 * i, s, join(v[i], u[i], 1));
    }
}

/* Packs the codes of one block of the format, for 16 rows. */
static inline void pack_codes(global uchar *out, const stored_rows *s)
{
    enum { BLOCK = CODE_VECTORS * 64 };
#if CODE_SCALES == SCALES_K
    for (uint b = 0; b < 8; b += 2)
        pack_nibbles(out + b * BLOCK, out + (b + 1) * BLOCK, s, STORED_BYTES - 128 + 16 * b);
#  if CODE_VECTORS == 5
    words h[8];
    words_at(s, 16, h);
    words_at(s, 32, h + 4);
    for (uint b = 0; b < 8; b++) {
        words high = 0;
#    pragma unroll
        for (uint g = 0; g < 8; g++)
            high |= (h[g] >> b & 0x01010101u) << g;
        put_words(out + b * BLOCK + 256, s, high);
    }
#  endif
#elif CODE_SCALES == SCALES_Q6_K
    for (uint half_of_it = 0; half_of_it < 2; half_of_it++) {
        global uchar *to = out + half_of_it * 4 * BLOCK;
        words h[8];
        pack_nibbles(to, to + 2 * BLOCK, s, 64 * half_of_it);
        pack_nibbles(to + BLOCK, to + 3 * BLOCK, s, 64 * half_of_it + 32);
        words_at(s, 128 + 32 * half_of_it, h);
        words_at(s, 144 + 32 * half_of_it, h + 4);
        for (uint b = 0; b < 4; b++)
#  pragma unroll
            for (uint i = 0; i < 2; i++) {
                words high = 0;
#  pragma unroll
                for (uint g = 0; g < 4; g++)
                    high |= (h[4 * i + g] >> 2 * b & 0x03030303u) << 2 * g;
                put_words(to + b * BLOCK + 256 + 64 * i, s, high);
            }
    }
#elif CODE_SCALES == SCALES_E4M3
    for (uint b = 0; b < STEP_BLOCKS; b++) { /* 8 bytes have 16 columns, the lower nibbles first */
        words v[4];
        words_at(s, 4 + 16 * b, v);
#  pragma unroll
        for (uint i = 0; i < 4; i++)
            put_words(out + b * BLOCK + 64 * i, s, join(v[i % 2], v[2 + i % 2], i / 2));
    }
#else
    enum { CODE_BYTES = CODE_VECTORS == 8 ? 32 : 16 };
#  if CODE_VECTORS == 5
    put_words(out + 256, s, spread_bits(word_at(s, STORED_BYTES - 20)));
#  endif
    for (uint i = 0; i < STEP_BLOCKS * CODE_BYTES / 16; i++) {
        words v[4];
        words_at(s, STORED_BYTES - STEP_BLOCKS * CODE_BYTES + 16 * i, v);
#  pragma unroll
        for (uint g = 0; g < 4; g++)
            put_words(out + 256 * i + 64 * g, s, CODE_VECTORS == 8 ? v[g] ^ 0x80808080u : v[g]);
    }
#endif
}

static inline void pack_scales(global uchar *out, const stored_rows *s)
{
#if CODE_SCALES == SCALES_K
    for (uint i = 0; i < 3; i++)
        put_words(out + 64 * i, s, word_at(s, 4 + 4 * i));
    put_halves(out + 192, s, 0);
    put_halves(out + 224, s, 2);
#elif CODE_SCALES == SCALES_Q6_K
    for (uint i = 0; i < 4; i++)
        put_words(out + 64 * i, s, word_at(s, 192 + 4 * i));
    put_halves(out + 256, s, 208);
#elif CODE_SCALES == SCALES_IQ4_XS
    put_words(out, s, word_at(s, 4));
    put_halves(out + 64, s, 2);
    put_halves(out + 96, s, 0);
#elif CODE_SCALES == SCALES_E4M3
    put_words(out, s, word_at(s, 0));
#elif CODE_SCALES == SCALES_E8M0
    put_bytes(out, s, 0);
#elif CODE_SCALES == SCALES_ZERO
    put_halves(out, s, 0);
    put_bytes(out + 32, s, 2);
#elif CODE_SCALES == SCALES_AFFINE
    put_halves(out, s, 0);
    put_halves(out + 32, s, 2);
    put_bytes(out + 64, s, 4);
#elif CODE_SCALES == SCALES_ZERO_8
    put_words(out, s, word_at(s, 0));
    put_bytes(out + 64, s, 4);
#else
    put_halves(out, s, 0);
    if (HAS_MINIMA)
        put_halves(out + 32, s, 2);
#endif
}

#endif

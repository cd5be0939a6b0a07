/* Reads panels of block formats (cl/panel/panel.h): codes, scales, and the weights as floats. Products with
 * quantised tokens are in panel_products.h. Needs W_TYPE and DOT.
 *
 * A step covers STEP_BLOCKS blocks of 32 columns; K is a multiple of these columns:
 *   tile_ptrs p = tile_at(w, tile, tiles, blocks);   tiles of the weight (padded), blocks = K / 32
 *   block_codes, block_scales, column_floats: the weights of a step; next_step(&p) moves on */
#ifndef CLEF_CL_PANEL_BLOCK_H
#define CLEF_CL_PANEL_BLOCK_H

#include "panel.h"
#include "panel_format.h"
#include "weights.h"

/* 1: codes are too large for DOT 3 and 4, so their offset is subtracted before a product. */
#define SIGNED_CODES ((DOT == 3 || DOT == 4) && MOST > 127)

typedef struct tile_ptrs {
    global const int16 *codes;
    global const uchar *scales;
} tile_ptrs;

static inline tile_ptrs tile_at(global const uchar *w, uint tile, uint tiles, uint blocks)
{
    tile_ptrs p;
    p.codes = (global const int16 *)w + (size_t)tile * blocks * CODE_VECTORS;
    p.scales =
        w + (size_t)tiles * blocks * CODE_VECTORS * 64 + (size_t)tile * (blocks / STEP_BLOCKS) * SCALE_BYTES;
    return p;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Looks up the table's byte for each nibble (bytes of 0..15). */
#if CODE_TABLE == TABLE_IQ4
#  define TABLE 0x3e2c1700u, 0x75695c4eu, 0xa5988c80u, 0xf0d8c4b4u /* iq4_values */
#elif CODE_TABLE == TABLE_E2M1
#  define TABLE 0x0f0e0d0cu, 0x18141210u, 0x090a0b0cu, 0x00040608u /* 12 + mxfp4_values, 12 - mxfp4_values */
#endif
#ifdef TABLE
static inline int16 look_up(int16 nibbles)
{
#  if DOT == 1
    const uint16 tables = {TABLE, TABLE, TABLE, TABLE};
    int16 v;
    __asm__("vpshufb %1, %2, %0" : "=v"(v) : "v"(nibbles), "v"(tables));
    return v;
#  elif DOT == 2 || DOT == 3
    const uint8 tables = {TABLE, TABLE};
    int8 lo, hi;
    __asm__("vpshufb %1, %2, %0" : "=x"(lo) : "x"(nibbles.lo), "x"(tables));
    __asm__("vpshufb %1, %2, %0" : "=x"(hi) : "x"(nibbles.hi), "x"(tables));
    return (int16)(lo, hi);
#  elif DOT == 4 || DOT == 5
    const uint4 table = {TABLE};
    int4 v[4] = {nibbles.s0123, nibbles.s4567, nibbles.s89ab, nibbles.scdef};
#    pragma unroll
    for (int i = 0; i < 4; i++)
        __asm__("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(v[i]) : "w"(table), "w"(v[i]));
    return (int16)(v[0], v[1], v[2], v[3]);
#  else /* a binary tree of selections, lowest bit first */
    const uint words[4] = {TABLE};
    uint16 v[16];
#    pragma unroll
    for (int i = 0; i < 16; i++)
        v[i] = (words[i / 4] >> i % 4 * 8 & 255u) * 0x01010101u;
#    pragma unroll
    for (int bit = 0; bit < 4; bit++) {
        const uint16 second = (as_uint16(nibbles) >> (uint)bit & 0x01010101u) * 255u;
#    pragma unroll
        for (int i = 0; i < 8 >> bit; i++)
            v[i] = v[2 * i] ^ ((v[2 * i] ^ v[2 * i + 1]) & second);
    }
    return as_int16(v[0]);
#  endif
}
#else
#  define look_up(nibbles) (nibbles)
#endif

/* Reads the codes of block b of the step: byte j of v[g] is the code of column 4 g + j. */
static inline void block_codes(const tile_ptrs *p, uint b, int16 v[8])
{
    global const int16 *from = p->codes + b * CODE_VECTORS;
#if CODE_VECTORS == 8
#  pragma unroll
    for (int g = 0; g < 8; g++)
        v[g] = from[g];
#else
#  pragma unroll
    for (int g = 0; g < 4; g++) {
        const int16 both = from[g];
        v[g] = look_up(both & 0x0f0f0f0f);
        v[g + 4] = look_up(as_int16(as_uint16(both) >> 4u) & 0x0f0f0f0f);
    }
#  if CODE_VECTORS == 5
    const int16 high = from[4];
#    pragma unroll
    for (int g = 0; g < 8; g++)
        v[g] |= (g < 4 ? high << (4 - g) : as_int16(as_uint16(high) >> (uint)(g - 4))) & 0x10101010;
#  elif CODE_VECTORS == 6
#    pragma unroll
    for (int g = 0; g < 8; g++) {
        const int16 high = from[4 + g / 4];
        v[g] |=
            (g % 4 < 2 ? high << (4 - 2 * (g % 4)) : as_int16(as_uint16(high) >> (uint)(2 * (g % 4) - 4))) &
            0x30303030;
    }
#  endif
#endif
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* Loads sixteen halves. On PoCL, vload_half16 is two instructions of half the width. */
static inline float16 halves(global const uchar *p)
{
#if DOT == 1
    float16 v;
    __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(global const ushort16 *)p));
    return v;
#else
    return vload_half16(0, (global const half *)p);
#endif
}

static inline uint16 words(global const uchar *p, uint i)
{
    return vload16(i, (global const uint *)p);
}

#if CODE_SCALES == SCALES_E4M3
/* e4m3_half() of 16 numbers. */
static inline float16 e4m3_halves(uint16 u)
{
    const uint16 e = u & 0x78u, m = u & 7u;
    const float16 normal = as_float16((e << 20u) + ((119u << 23) | m << 20u));
    const float16 v = select(normal, convert_float16(m) * 0x1p-10f, e == 0u);
    return select(v, (float16)0, u == 0x7fu);
}
#endif

/* short_float() of 16 rows: their upper halves at p, and three more bits of each. */
static inline float16 short_floats(global const uchar *p, uint16 more)
{
    return as_float16(convert_uint16(vload16(0, (global const ushort *)p)) << 16u | (more & 7u) << 13u);
}

/* Reads the scales of block b of the step. The weight of a column is (code - OFFSET) scale, plus `more` with
 * HAS_MINIMA. With HALF_SCALES, scale[i / 16] belongs to column i; otherwise scale[0] belongs to all
 * columns. */
static inline void block_scales(const tile_ptrs *p, uint b, float16 scale[2], float16 *more)
{
    global const uchar *from = p->scales;
#if CODE_SCALES == SCALES_K
    const uint shift = b % 4 * 8;
    uint16 s = words(from, b / 4 * 2) >> shift, m = words(from, 1 + b / 4) >> (shift + b / 4 * 4);
    if (b < 4) {
        s &= 63u;
        m &= 63u;
    } else {
        s = (s & 15u) | (words(from, 0) >> (shift + 2) & 48u);
        m = (m & 15u) | (words(from, 1) >> (shift + 2) & 48u);
    }
    scale[0] = halves(from + 192) * convert_float16(as_int16(s));
    *more = -halves(from + 224) * convert_float16(as_int16(m));
#elif CODE_SCALES == SCALES_Q6_K
    const float16 d = halves(from + 256);
    const int16 s = as_int16(words(from, b / 2) << (16 - b % 2 * 16));
    scale[0] = d * convert_float16(s << 8 >> 24);
    scale[1] = d * convert_float16(s >> 24);
#elif CODE_SCALES == SCALES_IQ4_XS
    const uint16 upper = convert_uint16(vload16(0, (global const ushort *)(from + 64)));
    const uint16 s = (words(from, 0) >> b * 4 & 15u) | (upper >> 2 * b & 3u) << 4u;
    scale[0] = halves(from + 96) * (convert_float16(as_int16(s)) - 32.0f);
#elif CODE_SCALES == SCALES_E4M3
    const uint16 both = words(from, 0) >> b * 16;
    scale[0] = e4m3_halves(both & 255u);
    scale[1] = e4m3_halves(both >> 8u & 255u);
#elif CODE_SCALES == SCALES_ZERO
    const uint16 both = convert_uint16(vload16(0, from + 32));
    scale[0] = short_floats(from, both >> 5u);
    *more = scale[0] * -convert_float16(both & 31u);
#elif CODE_SCALES == SCALES_AFFINE
    const uint16 both = convert_uint16(vload16(0, from + 64));
    scale[0] = short_floats(from, both);
    *more = short_floats(from + 32, both >> 3u);
#elif CODE_SCALES == SCALES_ZERO_8
    scale[0] = as_float16(words(from, 0));
    *more = scale[0] * ((float)OFFSET - convert_float16(vload16(0, from + 64)));
#elif CODE_SCALES == SCALES_E8M0 /* 2^(e - 128) */
    const uint16 e = convert_uint16(vload16(0, from));
    scale[0] = as_float16(select((e - 1) << 23u, (uint16)0x00200000 << e, e < 2));
#else
    scale[0] = halves(from);
#  if HAS_MINIMA
    *more = halves(from + 32);
#  endif
#endif
}

static inline void next_step(tile_ptrs *p)
{
    p->codes += STEP_BLOCKS * CODE_VECTORS;
    p->scales += SCALE_BYTES;
}

/* ---- weights as floats ----------------------------------------------------------------------- */

/* The weights of column i of a block, from its codes v, scale and more. */
static inline float16 column_floats(const int16 v[8], uint i, const float16 scale[2], float16 more)
{
    const float16 code = convert_float16(v[i / 4] >> (int)(i % 4 * 8) & 255) - (float)OFFSET;
#if HAS_MINIMA
    return fma(code, scale[0], more);
#else
    return code * scale[HALF_SCALES ? i / 16 : 0];
#endif
}

#endif

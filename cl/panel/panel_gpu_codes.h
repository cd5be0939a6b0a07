/* Reads panels of block formats (cl/panel/panel.h) on GPUs. A work-item reads one row of a tile, so that
 * sixteen of them read adjacent words. Codes are returned as signed bytes: the weight of a column is code
 * scale + base. Needs W_TYPE. */
#ifndef CLEF_CL_PANEL_GPU_CODES_H
#define CLEF_CL_PANEL_GPU_CODES_H

#include "panel_format.h"
#include "weights.h"

/* HAS_BASE: base is not 0, because the codes have an offset or the format has minima. The offset of the other
 * formats is subtracted when their codes are read. */
#define HAS_OFFSET (OFFSET > 0 && CODE_TABLE == TABLE_NONE && CODE_VECTORS < 8)
#define HAS_BASE   (HAS_OFFSET || HAS_MINIMA)

typedef struct lane_ptrs {
    global const uint *codes;
    global const uchar *scales;
    uint row; /* of the tile */
} lane_ptrs;

/* Points p to row `row` of a tile. tiles: of the weight (padded); blocks = K / 32. For a result that is a
 * structure clang emits an intrinsic that Oclgrind does not know (docs/drivers.md), so none is returned. */
static inline void lane_at(lane_ptrs *p, global const uchar *w, uint tile, uint tiles, uint blocks, uint row)
{
    p->codes = (global const uint *)w + (size_t)tile * blocks * CODE_VECTORS * PANEL_ROWS + row;
    p->scales =
        w + (size_t)tiles * blocks * CODE_VECTORS * 64 + (size_t)tile * (blocks / STEP_BLOCKS) * SCALE_BYTES;
    p->row = row;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Looks up the table's signed byte for each nibble (bytes of 0..15). */
#if CODE_TABLE == TABLE_IQ4
#  define LANE_TABLE 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u /* iq4_values */
#elif CODE_TABLE == TABLE_E2M1
#  define LANE_TABLE 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu
#endif
#ifdef LANE_TABLE
static inline uint signed_codes(uint nibbles)
{
    const uint4 n = (uint4)(nibbles, nibbles >> 8, nibbles >> 16, nibbles >> 24) & 15u,
                table = (uint4)(LANE_TABLE);
    const uint4 low = select((uint4)table.x, (uint4)table.y, (n & 4u) != 0u),
                high = select((uint4)table.z, (uint4)table.w, (n & 4u) != 0u);
    const uint4 v = select(low, high, (n & 8u) != 0u) >> (n & 3u) * 8u & 255u;
    return v.x | v.y << 8 | v.z << 16 | v.w << 24;
}
#else
#  define signed_codes(nibbles) (nibbles)
#endif

/* What memory has of the codes of eight columns, words of CODE_VECTORS vectors: .x low and high nibbles, or
 * with eight vectors the first four codes; .y and .z upper bits of the codes, or with eight vectors .y the
 * other four. */
typedef uint4 lane_raw;

/* Reads the codes of columns 4 g .. 4 g + 3, and of 16 + 4 g .. 16 + 4 g + 3, of block b; g < 4. */
static inline lane_raw lane_fetch(const lane_ptrs *p, uint b, uint g)
{
    global const uint *from = p->codes + (size_t)b * CODE_VECTORS * PANEL_ROWS;
    lane_raw raw = (uint4)(from[g * PANEL_ROWS], 0, 0, 0);
#if CODE_VECTORS == 8
    raw.y = from[(g + 4) * PANEL_ROWS];
#elif CODE_VECTORS >= 5
    raw.y = from[4 * PANEL_ROWS];
#endif
#if CODE_VECTORS == 6
    raw.z = from[5 * PANEL_ROWS];
#endif
    return raw;
}

/* As lane_fetch(), for the row of p, which is even, and for the next row: their words are adjacent. */
static inline void lane_fetch_two(lane_raw *first, lane_raw *second, const lane_ptrs *p, uint b, uint g)
{
    enum { APART = PANEL_ROWS / 2 };
    global const uint2 *from = (global const uint2 *)(p->codes + (size_t)b * CODE_VECTORS * PANEL_ROWS);
    const uint2 x = from[g * APART];
#if CODE_VECTORS == 8
    const uint2 y = from[(g + 4) * APART], z = 0;
#elif CODE_VECTORS == 6
    const uint2 y = from[4 * APART], z = from[5 * APART];
#elif CODE_VECTORS == 5
    const uint2 y = from[4 * APART], z = 0;
#else
    const uint2 y = 0, z = 0;
#endif
    *first = (uint4)(x.s0, y.s0, z.s0, 0);
    *second = (uint4)(x.s1, y.s1, z.s1, 0);
}

static inline uint2 lane_decode(lane_raw raw, uint g)
{
#if CODE_VECTORS == 8
    return (uint2)(raw.x, raw.y) ^ 0x80808080u;
#else
    uint2 v = (uint2)(signed_codes(raw.x & 0x0f0f0f0fu), signed_codes(raw.x >> 4 & 0x0f0f0f0fu));
#  if CODE_VECTORS == 5
    const uint upper = raw.y >> g;
    v |= (uint2)(upper & 0x01010101u, upper >> 4 & 0x01010101u) << 4u;
#  elif CODE_VECTORS == 6
    v |= ((uint2)(raw.y, raw.z) >> 2 * g & 0x03030303u) << 4u;
#  endif
    return v;
#endif
}

/* The codes of these columns as signed bytes. */
static inline uint2 lane_codes(const lane_ptrs *p, uint b, uint g)
{
    return lane_decode(lane_fetch(p, b, g), g);
}

/* ---- scales ---------------------------------------------------------------------------------- */

static inline uint lane_word(const lane_ptrs *p, global const uchar *from, uint i)
{
    return ((global const uint *)from)[i * PANEL_ROWS + p->row];
}

static inline float lane_half(const lane_ptrs *p, global const uchar *from)
{
    return vload_half(p->row, (global const half *)from);
}

/* short_float() of the row, whose upper half is among those at `from`. */
static inline float lane_short(const lane_ptrs *p, global const uchar *from, uint more)
{
    return as_float((uint)((global const ushort *)from)[p->row] << 16 | (more & 7u) << 13);
}

/* Reads the scale and base of block b: .x for its first 16 columns, .y for the others. Both are equal without
 * HALF_SCALES. */
static inline void lane_scales(const lane_ptrs *p, uint b, float2 *scale, float2 *base)
{
    global const uchar *from = p->scales + (size_t)(b / STEP_BLOCKS) * SCALE_BYTES;
    float s, m = 0;
#if CODE_SCALES == SCALES_K
    const uint shift = b % 4 * 8, first = b % 8 < 4;
    const uint w0 = lane_word(p, from, 0) >> shift, w1 = lane_word(p, from, 1) >> shift,
               w2 = lane_word(p, from, 2) >> shift;
    const uint six = first ? w0 & 63u : (w2 & 15u) | (w0 >> 2 & 48u),
               six_m = first ? w1 & 63u : (w2 >> 4 & 15u) | (w1 >> 2 & 48u);
    s = lane_half(p, from + 192) * (float)six;
    m = -lane_half(p, from + 224) * (float)six_m;
#elif CODE_SCALES == SCALES_Q6_K
    const char4 both = as_char4(lane_word(p, from, b % 8 / 2) >> b % 2 * 16);
    const float d = lane_half(p, from + 256);
    *scale = d * (float2)((float)both.x, (float)both.y);
    *base = *scale * -(float)OFFSET;
    return;
#elif CODE_SCALES == SCALES_IQ4_XS
    const uint upper = ((global const ushort *)(from + 64))[p->row];
    const uint six = (lane_word(p, from, 0) >> b % 8 * 4 & 15u) | (upper >> 2 * (b % 8) & 3u) << 4;
    s = lane_half(p, from + 96) * ((float)six - 32.0f);
#elif CODE_SCALES == SCALES_E4M3
    const uint both = lane_word(p, from, 0) >> b % 2 * 16;
    *scale = (float2)(e4m3_half(both & 255u), e4m3_half(both >> 8 & 255u));
    *base = 0;
    return;
#elif CODE_SCALES == SCALES_ZERO
    const uint zero = from[32 + p->row];
    s = lane_short(p, from, zero >> 5);
    m = s * -(float)(zero & 31u);
#elif CODE_SCALES == SCALES_AFFINE
    const uint both = from[64 + p->row];
    s = lane_short(p, from, both);
    m = lane_short(p, from + 32, both >> 3);
#elif CODE_SCALES == SCALES_ZERO_8
    s = as_float(lane_word(p, from, 0));
    m = s * ((float)OFFSET - (float)from[64 + p->row]);
#elif CODE_SCALES == SCALES_E8M0 /* 2^(e - 128) */
    const uint e = from[p->row];
    s = as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
#else
    s = lane_half(p, from);
#  if HAS_MINIMA
    m = lane_half(p, from + 32);
#  endif
#endif
#if HAS_OFFSET && !HALF_SCALES
    m = -(float)OFFSET * s;
#endif
    *scale = s;
    *base = m;
}

#endif

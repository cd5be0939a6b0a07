/* The panel layouts of weights [N, K]. A tile holds 16 rows; rows are padded with zeros to a multiple of 32.
 * One vector of 16 lanes holds one column of a tile (in block formats: four or eight columns).
 *   f32 f16 bf16   element (r, k) is at (r / 16 K + k) 16 + r % 16
 *
 * A panel of a block format begins with the codes. For each (tile, 32 columns) there are vectors of 16 words
 * of 4 bytes; word r belongs to row r. q[i] is the code of column i of the 32:
 *   q8_0 i8_*      8 vectors: byte j of vector g is q[4 g + j] + 128
 *   all others     4 vectors: the low nibble of byte j of vector g has the lower four bits of q[4 g + j], the
 *                  high nibble those of q[16 + 4 g + j]
 *   q5_*           1 more: bit 8 j + g is bit 4 of q[4 g + j]
 *   q6_k           2 more: bits 8 j + 2 (g % 4) and the next bit of vector g / 4 are bits 4 and 5 of
 *                  q[4 g + j]
 *
 * The other parts of the blocks follow all codes. For each (tile, block of the format) they are stored in
 * this order, each for 16 rows:
 *   q8_0 q4_0 q5_0 iq4_nl   half d
 *   q4_1 q5_1               half d, half m
 *   mxfp4                   byte e
 *   q4_k q5_k               words 0, 1, 2 of the 12 bytes of 6-bit scales and minima, half d, half dmin
 *   q6_k                    words 0 .. 3 of the 16 scales, half d
 *   i4_*                    half of d's upper bits, byte
 *   a4_*                    halves of d's and m's upper bits, byte
 *   i8_*                    word d, byte
 *   iq4_xs                  word of the scales' lower bits, half of their upper ones, half d
 *
 * The x86 instructions multiply unsigned bytes of w by signed bytes of x, hence the + 128.
 *   -D DOT  how bytes are multiplied: 0 plain C, 1 x86 AVX-512 VNNI, 2 AVX-VNNI, 3 AVX2, 4 Arm's sdot,
 *           5 Arm's usdot and usmmla */
#ifndef CLEF_CL_PANEL_H
#define CLEF_CL_PANEL_H

#if DOT == 4 || DOT == 5
#  include "arm.h"
#  define ARM_BYTES (DOT == 4 ? ARM_SDOT : ARM_USDOT)
#endif

/* DOT4(acc, w, x): adds to each lane of acc the four products of its bytes of w with the bytes of *x. Bytes
 * of w are unsigned (with DOT 3 up to 128, with DOT 4 up to 127, as both are signed there), bytes of *x are
 * signed and over -128. PoCL targets a processor
 * without these instructions, so they are written in assembly. The capabilities show that the processor has
 * them. */
#if DOT == 1
#  define DOT4(acc, w, x) __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(x)))
#elif DOT == 2
#  define DOT4(acc, w, x)                                                            \
      do {                                                                           \
          const int8 x_ = *(x);                                                      \
          int8 lo_ = (acc).lo, hi_ = (acc).hi;                                       \
          __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(lo_) : "x"((w).lo), "x"(x_)); \
          __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(hi_) : "x"((w).hi), "x"(x_)); \
          acc = (int16)(lo_, hi_);                                                   \
      } while (0)
#elif DOT == 3
/* Adds products in pairs to 16 bits, with saturation. The largest pair, 2 . 128 . 127, fits. */
static inline int8 pairs8(int8 w, int8 x)
{
    int8 sum;
    __asm__("vpmaddubsw %2, %1, %0" : "=x"(sum) : "x"(w), "x"(x));
    return sum;
}

static inline int8 pairs_sum8(int8 pairs)
{
    int8 sum;
    __asm__("vpmaddwd %2, %1, %0" : "=x"(sum) : "x"(pairs), "x"((int8)0x00010001));
    return sum;
}

#    define DOT4(acc, w, x)                                                                                  \
        acc += (int16)(pairs_sum8(pairs8((w).lo, (int8) * (x))), pairs_sum8(pairs8((w).hi, (int8) * (x))))
#elif DOT == 4 || DOT == 5
#  define DOT4(acc, w, x)                    \
      do {                                   \
          const int4 x_ = *(x);              \
          ARM_DOT16(ARM_BYTES, acc, w, x_);  \
      } while (0)
#else
#  define DOT4(acc, w, x) acc = dot4(acc, w, *(x))
static inline int16 dot4(int16 acc, int16 w, int x)
{
    const uint16 u = as_uint16(w);
    acc += as_int16(u & 255u) * (x << 24 >> 24);
    acc += as_int16(u >> 8u & 255u) * (x << 16 >> 24);
    acc += as_int16(u >> 16u & 255u) * (x << 8 >> 24);
    return acc + as_int16(u >> 24u) * (x >> 24);
}
#endif

#endif

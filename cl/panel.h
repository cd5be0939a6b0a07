/* The panel layouts of weights [N, K], for CPUs: a tile holds 16 rows, rows are padded with zeros to a multiple of 32, and one vector of 16
 * lanes holds one column (or, of quants, four) of a tile.
 *   f32 f16 bf16   element (r, k) at (r / 16 K + k) 16 + r % 16
 *   q8_0           quants: byte 64 g + 4 (r % 16) + j of block b of tile t, at (t K / 32 + b) 512, is q[4 g + j] + 128
 *   q4_0           quants: the same place in blocks of 256 bytes; low nibble of (g, j): q[4 g + j], high: q[16 + 4 g + j]
 *   ... then, behind all quants, a half for each (tile, block, row).
 * A product of unsigned bytes of w and signed ones of x is what the x86 instructions do, hence the + 128. */
#ifndef CLEF_CL_PANEL_H
#define CLEF_CL_PANEL_H

/* acc + the four products of each lane's bytes of w (unsigned) with those of x (signed). */
#if DOT == 1
/* AVX-512 VNNI, x broadcast from memory. PoCL targets a processor without it, so it is said in assembly; the caps say that it is there. */
#  define DOT4(acc, w, x) __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(x)))
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

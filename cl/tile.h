/* The register tile of f32 products on CPUs: NT rows of x by 32 columns of w, DEPTH elements of k at a time.
 *   packed x  blocks of NT rows: the elements of a column are adjacent, padded to LANES; see packed_at()
 *   w         in panels: the 16 elements of a column of k are adjacent
 *   sums      [2][NT]: those of 16 columns, then those of the next 16
 *   -D NT       rows of a tile, at most 16
 *   -D VECTORS  2 if the registers hold 2 NT + 3 vectors of 16 floats, else 1: one half of the columns is
 *               computed after the other */
#ifndef CLEF_CL_TILE_H
#define CLEF_CL_TILE_H

#if !defined(NT) || !defined(VECTORS)
#    error "tile.h needs NT and VECTORS"
#endif

#include "fetch.h"
#include "inline.h"

#ifdef __clang__
#    pragma clang diagnostic ignored "-Wpass-failed" /* a loop that cannot be unrolled stays as it is */
#endif

#ifndef DEPTH
#  define DEPTH 256
#endif
enum { LANES = X_LANES(NT) };
#define MAX_TILES 32 /* whose sums a group holds */
#define MAX_BLOCKS 8 /* of packed rows that a group of gemm_panel.cl holds */

/* The offset of block `block` of `blocks` in packed x, for `depth` columns from k0 (a multiple of DEPTH)
 * on. */
INLINED size_t packed_at(uint blocks, uint block, uint k0, uint depth)
{
    return ((size_t)blocks * k0 + (size_t)block * depth) * LANES;
}

#define ZIP_LO(a, b)                                                                                         \
    (float16)((a).s0, (b).s0, (a).s1, (b).s1, (a).s2, (b).s2, (a).s3, (b).s3, (a).s4, (b).s4, (a).s5,        \
              (b).s5, (a).s6, (b).s6, (a).s7, (b).s7)
#define ZIP_HI(a, b)                                                                                         \
    (float16)((a).s8, (b).s8, (a).s9, (b).s9, (a).sa, (b).sa, (a).sb, (b).sb, (a).sc, (b).sc, (a).sd,        \
              (b).sd, (a).se, (b).se, (a).sf, (b).sf)

/* Transposes `rows` rows of 16, 8 or 16 of them: r then holds column after column. Each round mixes every
 * vector of the first half with one of the second. */
INLINED void transpose(float16 *r, int rows)
{
    float16 t[16];
#pragma unroll
    for (int round = 1; round < rows; round *= 2) {
#pragma unroll
        for (int i = 0; i < rows / 2; i++) {
            t[2 * i] = ZIP_LO(r[i], r[i + rows / 2]);
            t[2 * i + 1] = ZIP_HI(r[i], r[i + rows / 2]);
        }
#pragma unroll
        for (int i = 0; i < rows; i++)
            r[i] = t[i];
    }
}

/* Adds up sums[VECTORS][NT] over `depth` columns of x and of VECTORS panels, which are `step` apart. The
 * elements of x are `row_step` apart from row to row, and `column_step` from column to column. The products
 * are added to the present sums unless `is_first`. `ahead`: what is read next, to be prefetched in steps of
 * `ahead_bytes`. */
/* clang-format off */
#define TILE_SUMS(name, x_space, w_space, row_step, column_step)                                           \
    INLINED void name(float16 *sums, x_space const float *x, w_space const float *w, size_t step,          \
                      uint depth, int is_first,                                                            \
                      global const void *ahead, size_t ahead_bytes)                                        \
    {                                                                                                      \
        global const char *next = ahead;                                                                   \
        float16 s[VECTORS][NT];                                                                            \
        _Pragma("unroll") for (int v = 0; v < VECTORS; v++)                                                \
            _Pragma("unroll") for (int t = 0; t < NT; t++)                                                 \
                s[v][t] = is_first ? (float16)0.0f : sums[v * NT + t];                                     \
        _Pragma("unroll 4") for (uint k = 0; k < depth; k++) {                                             \
            float16 c[VECTORS];                                                                            \
            FETCH(next);                                                                                   \
            _Pragma("unroll") for (int v = 0; v < VECTORS; v++) c[v] = vload16(0, w + v * step);           \
            _Pragma("unroll") for (int t = 0; t < NT; t++)                                                 \
                _Pragma("unroll") for (int v = 0; v < VECTORS; v++)                                        \
                    s[v][t] = fma(c[v], (float16)x[t * (row_step)], s[v][t]);                              \
            w += 16;                                                                                       \
            x += column_step;                                                                              \
            next += ahead_bytes;                                                                           \
        }                                                                                                  \
        _Pragma("unroll") for (int v = 0; v < VECTORS; v++)                                                \
            _Pragma("unroll") for (int t = 0; t < NT; t++) sums[v * NT + t] = s[v][t];                     \
    }
/* clang-format on */

#endif

/* The register tile of f32 products on CPUs: NT rows of x by 32 columns of w, DEPTH elements of k at a
 * time.
 *   packed x  blocks of NT rows: the elements of a column lie together, padded to X_LANES; see packed_at()
 *   w         in panels: the 16 elements of a column of k lie together
 *   sums      [2][NT]: those of 16 columns, then those of the 16 beside them
 *   -D NT       rows of a tile, at most X_LANES
 *   -D VECTORS  2 where registers hold 2 NT vectors of 16 floats and three more, else 1: the columns are
 *               then taken one half after the other */
#ifndef CLEF_CL_TILE_H
#define CLEF_CL_TILE_H

#if !defined(NT) || !defined(VECTORS)
#    error "tile.h needs NT and VECTORS"
#endif

#include "fetch.h"
#include "inline.h"

#ifdef __clang__
#    pragma clang diagnostic ignored "-Wpass-failed" /* where a loop cannot be unrolled it stays as it is */
#endif

#define DEPTH 256
#define MAX_TILES 32 /* whose sums a group holds */

/* Where block `block` of `blocks` begins in packed x, for the columns from k0 (a multiple of DEPTH) on,
 * `depth` of them. */
INLINED size_t packed_at(uint blocks, uint block, uint k0, uint depth)
{
    return ((size_t)blocks * k0 + (size_t)block * depth) * X_LANES;
}

#define ZIP_LO(a, b)                                                          \
    (float16)((a).s0, (b).s0, (a).s1, (b).s1, (a).s2, (b).s2, (a).s3, (b).s3, \
              (a).s4, (b).s4, (a).s5, (b).s5, (a).s6, (b).s6, (a).s7, (b).s7)
#define ZIP_HI(a, b)                                                          \
    (float16)((a).s8, (b).s8, (a).s9, (b).s9, (a).sa, (b).sa, (a).sb, (b).sb, \
              (a).sc, (b).sc, (a).sd, (b).sd, (a).se, (b).se, (a).sf, (b).sf)

/* Rows to columns: four times, each vector is mixed with the one eight further. */
INLINED void transpose16(float16 r[16])
{
    float16 t[16];
#pragma unroll
    for (int round = 0; round < 2; round++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            t[2 * i] = ZIP_LO(r[i], r[i + 8]);
            t[2 * i + 1] = ZIP_HI(r[i], r[i + 8]);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            r[2 * i] = ZIP_LO(t[i], t[i + 8]);
            r[2 * i + 1] = ZIP_HI(t[i], t[i + 8]);
        }
    }
}

/* sums[VECTORS][NT] of `depth` columns of packed x and of VECTORS panels, `step` apart; added to what is
 * there unless `is_first`. `ahead`: what is read after this, something every `ahead_bytes`. */
/* clang-format off */
#define TILE_SUMS(name, space)                                                                             \
    INLINED void name(float16 *sums, global const float *x, space const float *w, size_t step, uint depth, \
                      int is_first,                                                                        \
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
                    s[v][t] = fma(c[v], (float16)x[t], s[v][t]);                                           \
            w += 16;                                                                                       \
            x += X_LANES;                                                                                  \
            next += ahead_bytes;                                                                           \
        }                                                                                                  \
        _Pragma("unroll") for (int v = 0; v < VECTORS; v++)                                                \
            _Pragma("unroll") for (int t = 0; t < NT; t++) sums[v * NT + t] = s[v][t];                     \
    }
/* clang-format on */

#endif

/* Products of a tile of a panel in a block format (panel_cpu_codes.h) with NT quantised tokens
 * (panel_cpu_activations.h). Needs W_TYPE, DOT, NT.
 *   X_SPACE  address space of the tokens (global when not given)
 *   STREAMS  1: the panel is read from memory, and each step prefetches what later steps read
 *   ANY_NT_ALIKE  1: a token's sums are the same to the last bit for every NT
 *
 *   x_ptrs x = x_at(rows, k);   a block of NT tokens
 *   tile_step(acc, &p, &x)      acc[t] += this step's columns . token t, and p and x move to the next step */
#ifndef CLEF_CL_PANEL_PRODUCTS_H
#define CLEF_CL_PANEL_PRODUCTS_H

#include "fetch.h"
#include "panel_cpu_codes.h"

#ifndef X_SPACE
#  define X_SPACE global
#endif
#ifndef STREAMS
#  define STREAMS 0
#endif
#ifndef ANY_NT_ALIKE
#  define ANY_NT_ALIKE 0
#endif

/* 1: codes of eight bits and the quants of x are multiplied as words of 16 bits (panel_cpu_strip.h). */
#define WORDS (DOT == 3 && SIGNED_CODES && NT >= STRIP_LEAST)

/* A token block's quantised rows (panel_cpu_activations.h): quants, a scale and two sums for each block of
 * each token. */
typedef struct x_ptrs {
    X_SPACE const int *q;
    X_SPACE const float *d;
    X_SPACE const int *sums; /* pairs, aligned as ints */
} x_ptrs;

static inline x_ptrs x_at(X_SPACE const uchar *x, uint k)
{
    x_ptrs p;
    p.q = (X_SPACE const int *)x;
    p.d = (X_SPACE const float *)(x + ((size_t)NT * k << WORDS));
    p.sums = (X_SPACE const int *)(p.d + (size_t)NT * (k / 32));
    return p;
}

/* dots16(): sum + the products of four vectors of codes, which are 16 columns, with 16 quants of x. */
#if SIGNED_CODES && DOT == 3
static inline int8 signed8(int8 w, int x)
{
    int8 magnitude, with_sign;
    __asm__("vpabsb %1, %0" : "=x"(magnitude) : "x"(w));
    __asm__("vpsignb %2, %1, %0" : "=x"(with_sign) : "x"((int8)x), "x"(w));
    return pairs_sum8(pairs8(magnitude, with_sign));
}

static inline int16 dots16(int16 sum, const int16 *v, X_SPACE const int *x)
{
#  pragma unroll
    for (int g = 0; g < 4; g++)
        sum += (int16)(signed8(v[g].lo, x[g]), signed8(v[g].hi, x[g]));
    return sum;
}
#elif DOT == 3
/* Pairs of products are added in 16 bits while they fit: four pairs of codes up to 31, two pairs of codes up
 * to 63. */
static inline int8 pairs_of(int8 a, int8 b, int x, int y)
{
    return as_int8(as_short16(pairs8(a, (int8)x)) + as_short16(pairs8(b, (int8)y)));
}

static inline int8 dots8(int8 a, int8 b, int8 c, int8 d, X_SPACE const int *x)
{
    const int8 ab = pairs_of(a, b, x[0], x[1]), cd = pairs_of(c, d, x[2], x[3]);
    return MOST > 31 ? pairs_sum8(ab) + pairs_sum8(cd) : pairs_sum8(as_int8(as_short16(ab) + as_short16(cd)));
}

static inline int16 dots16(int16 sum, const int16 *v, X_SPACE const int *x)
{
    return sum + (int16)(dots8(v[0].lo, v[1].lo, v[2].lo, v[3].lo, x),
                         dots8(v[0].hi, v[1].hi, v[2].hi, v[3].hi, x));
}
#elif DOT == 4 || DOT == 5
static inline int16 dots16(int16 sum, const int16 *v, X_SPACE const int *x)
{
    const int4 quants = vload4(0, x);
    ARM_DOT16(ARM_BYTES + ARM_LANE(0), sum, v[0], quants);
    ARM_DOT16(ARM_BYTES + ARM_LANE(1), sum, v[1], quants);
    ARM_DOT16(ARM_BYTES + ARM_LANE(2), sum, v[2], quants);
    ARM_DOT16(ARM_BYTES + ARM_LANE(3), sum, v[3], quants);
    return sum;
}
#else
static inline int16 dots16(int16 sum, const int16 *v, X_SPACE const int *x)
{
    DOT4(sum, v[0], x);
    DOT4(sum, v[1], x + 1);
    DOT4(sum, v[2], x + 2);
    DOT4(sum, v[3], x + 3);
    return sum;
}
#endif

/* usmmla multiplies eight columns of two rows by those of two tokens, so tokens are taken in pairs. NT is 1
 * or even. */
#define TOKEN_PAIRS (DOT == 5 && NT % 2 == 0)
#if TOKEN_PAIRS
/* Orders the codes of 16 columns for dots_pair(): of each two vectors, which are eight columns of 16 rows,
 * the first then holds the eight columns of rows 0 to 7, row by row, and the second those of rows 8 to 15. */
static inline void join_columns(int16 v[4])
{
#  pragma unroll
    for (int g = 0; g < 4; g += 2) {
        const int16 a = v[g], b = v[g + 1];
        v[g] = (int16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6,
                       a.s7, b.s7);
        v[g + 1] = (int16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se,
                           b.se, a.sf, b.sf);
    }
}

/* sums[t] = the products of 16 columns, ordered by join_columns(), with 16 quants of x[t], for two tokens. */
static inline void dots_pair(int16 sums[2], const int16 v[4], X_SPACE const int *x0, X_SPACE const int *x1)
{
    int16 rows[2] = {0, 0}; /* of each row the sum of either token */
#  pragma unroll
    for (int g = 0; g < 4; g += 2) {
        const int4 quants = (int4)(vload2(0, x0 + g), vload2(0, x1 + g));
        ARM_DOT16(ARM_USMMLA, rows[0], v[g], quants);
        ARM_DOT16(ARM_USMMLA, rows[1], v[g + 1], quants);
    }
    sums[0] = (int16)(rows[0].even, rows[1].even);
    sums[1] = (int16)(rows[0].odd, rows[1].odd);
}
#endif

/* ---- codes as products need them ------------------------------------------------------------- */

/* For few tokens the high nibble is not shifted. Its products are 16 times too large, which a shift of their
 * sum corrects. */
#define HIGH_IN_PLACE (NT < 4 && DOT != 3 && DOT != 4 && CODE_VECTORS == 4 && CODE_TABLE == TABLE_NONE)
#if HIGH_IN_PLACE
#  define HIGH_SUM(sum) ((sum) >> 4)
#else
#  define HIGH_SUM(sum) (sum)
#endif

/* Four codes of any offset as signed bytes. */
#define SIGNED(v) (((v) + (128 - OFFSET) * 0x01010101) ^ (int)0x80808080)

static inline void product_codes(const tile_ptrs *p, uint b, int16 v[8])
{
#if HIGH_IN_PLACE
    global const int16 *from = p->codes + b * CODE_VECTORS;
#  pragma unroll
    for (int g = 0; g < 4; g++) {
        v[g] = from[g] & 0x0f0f0f0f;
        v[g + 4] = from[g] & (int)0xf0f0f0f0;
    }
#else
    block_codes(p, b, v);
#  if SIGNED_CODES
#    pragma unroll
    for (int g = 0; g < 8; g++)
        v[g] = SIGNED(v[g]);
#  endif
#endif
}

/* Prefetches the codes FETCH_AHEAD bytes after those of block b to the second cache, and nearer ones to the
 * first. It runs block by block, because a burst would fill the core's buffers and stall it. */
static inline void fetch_block(const tile_ptrs *p, uint b)
{
#if STREAMS
    global const uchar *codes = (global const uchar *)(p->codes + b * CODE_VECTORS);
#  pragma unroll
    for (uint i = 0; i < CODE_VECTORS; i++) {
        FETCH(codes + FETCH_AHEAD + i * LINE_BYTES);
        FETCH_NEAR(codes + FETCH_NEAR_AHEAD + i * LINE_BYTES);
    }
#endif
}

/* Prefetches the scales of a later step. */
static inline void fetch_scales(const tile_ptrs *p)
{
#if STREAMS
#  pragma unroll
    for (uint i = 0; i < SCALE_BYTES; i += LINE_BYTES)
        FETCH(p->scales + FETCH_AHEAD / 8 + i);
#endif
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* super_step(): multiplies a step of 256 columns by one token and adds to acc, for formats whose scales are
 * in words. */
#if NT == 1 && !ANY_NT_ALIKE && CODE_SCALES == SCALES_K
#  define SUPER_STEP 1
/* A scale is converted in its place in a word, as 2^(8 (b % 4)) times its value. The powers of two and d are
 * applied once a step. */
static inline void super_step(float16 *acc, const tile_ptrs *p, const x_ptrs *x)
{
    global const uchar *from = p->scales;
    const uint16 w0 = words(from, 0), w1 = words(from, 1), w2 = words(from, 2);
    const uint16 s[2] = {w0 & 0x3f3f3f3fu, (w2 & 0x0f0f0f0fu) | (w0 >> 2u & 0x30303030u)};
    const uint16 m[2] = {w1 & 0x3f3f3f3fu, (w2 >> 4u & 0x0f0f0f0fu) | (w1 >> 2u & 0x30303030u)};
    const int16 sums = vload16(0, x->sums);
    float whole[8]; /* of each block of the token: d times the sum of quants, the factor of a minimum */
    float16 codes[4], minima[4];
    vstore8(convert_float8(sums.even + sums.odd) * vload8(0, x->d), 0, whole);
    fetch_scales(p);
#  pragma unroll
    for (uint b = 0; b < 8; b++) {
        const uint16 byte = 255u << b % 4 * 8;
        int16 v[8];
        fetch_block(p, b);
        product_codes(p, b, v);
        const int16 i = dots16(0, v, x->q + b * 8), j = dots16(0, v + 4, x->q + b * 8 + 4);
        const float16 sum = convert_float16(i + HIGH_SUM(j)) * x->d[b];
        const float16 scale = convert_float16(as_int16(s[b / 4] & byte)),
                      least = convert_float16(as_int16(m[b / 4] & byte));
        codes[b % 4] = b < 4 ? sum * scale : fma(sum, scale, codes[b % 4]);
        minima[b % 4] = b < 4 ? least * whole[b] : fma(least, (float16)whole[b], minima[b % 4]);
    }
#  pragma unroll
    for (uint i = 3; i > 0; i--) {
        codes[i - 1] = fma(codes[i], (float16)0x1p-8f, codes[i - 1]);
        minima[i - 1] = fma(minima[i], (float16)0x1p-8f, minima[i - 1]);
    }
    *acc = fma(halves(from + 192), codes[0], *acc);
    *acc = fma(-halves(from + 224), minima[0], *acc);
}
#elif NT == 1 && !ANY_NT_ALIKE && CODE_SCALES == SCALES_Q6_K
#  define SUPER_STEP 1
/* A scale is converted in the upper byte of a word, as 2^24 times its value. 2^-24 and d are applied once a
 * step. */
static inline void super_step(float16 *acc, const tile_ptrs *p, const x_ptrs *x)
{
    int off[16];
    float16 sum = 0, other = 0;
    vstore16(vload16(0, x->sums) * -OFFSET, 0, off);
    fetch_scales(p);
#  pragma unroll
    for (uint b = 0; b < 8; b++) {
        const uint16 s = words(p->scales, b / 2);
        const uint16 first = b % 2 ? s << 8u & 0xff000000u : s << 24u,
                     second = b % 2 ? s & 0xff000000u : s << 16u & 0xff000000u;
        int16 v[8];
        fetch_block(p, b);
        product_codes(p, b, v);
        const int16 i = dots16(off[2 * b], v, x->q + b * 8),
                    j = dots16(off[2 * b + 1], v + 4, x->q + b * 8 + 4);
        sum = fma(convert_float16(i) * x->d[b], convert_float16(as_int16(first)), sum);
        other = fma(convert_float16(j) * x->d[b], convert_float16(as_int16(second)), other);
    }
    *acc = fma(halves(p->scales + 256) * 0x1p-24f, sum + other, *acc);
}
#else
#  define SUPER_STEP 0
#endif

/* All lanes are *p. From memory this is one instruction; from a register it would wait for a shuffle. */
static inline int16 broadcast(const int *p)
{
#if DOT == 1
    int16 v;
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*p));
    return v;
#else
    return *p;
#endif
}

/* What the products of block b begin with, for each token: -OFFSET times its sum of quants, or both halves'
 * sums with HALF_SCALES. Vectors find them for several tokens at a time. */
#define BEGINS (HALF_SCALES ? 2 : 1)
static inline void find_begins(const x_ptrs *x, uint b, int begins[BEGINS * NT])
{
    X_SPACE const int *sums = x->sums + 2 * b * NT;
    const int off = SIGNED_CODES ? 0 : -OFFSET;
#if HALF_SCALES
#  pragma unroll
    for (int i = 0; i < 2 * NT; i++)
        begins[i] = off * sums[i];
#else
    int t = 0;
#  pragma unroll
    for (; t + 8 <= NT; t += 8) {
        const int16 pairs = vload16(0, sums + 2 * t);
        vstore8((pairs.even + pairs.odd) * off, 0, begins + t);
    }
#  pragma unroll
    for (; t + 4 <= NT; t += 4) {
        const int8 pairs = vload8(0, sums + 2 * t);
        vstore4((pairs.even + pairs.odd) * off, 0, begins + t);
    }
#  pragma unroll
    for (; t < NT; t++)
        begins[t] = (sums[2 * t] + sums[2 * t + 1]) * off;
#endif
}

#if HAS_MINIMA
/* d times the sum of quants of each block of each token of a step, the factor of a minimum. */
static inline void find_whole(const x_ptrs *x, float whole[STEP_BLOCKS * NT])
{
    uint i = 0;
    for (; i + 8 <= STEP_BLOCKS * NT; i += 8) {
        const int16 pairs = vload16(0, x->sums + 2 * i);
        vstore8(vload8(0, x->d + i) * convert_float8(pairs.even + pairs.odd), 0, whole + i);
    }
    for (; i < STEP_BLOCKS * NT; i++)
        whole[i] = x->d[i] * (x->sums[2 * i] + x->sums[2 * i + 1]);
}
#endif

static inline void tile_step(float16 acc[NT], tile_ptrs *p, x_ptrs *x)
{
#if SUPER_STEP
    super_step(acc, p, x);
#else
    fetch_scales(p);
#  if HAS_MINIMA
    float whole[STEP_BLOCKS * NT];
    find_whole(x, whole);
#  endif
    for (uint b = 0; b < STEP_BLOCKS; b++) {
        int16 v[8];
        float16 scale[2], more;
        int begins[BEGINS * NT];
#  if TOKEN_PAIRS
        int16 first[2], second[2];
#  endif
        find_begins(x, b, begins);
        fetch_block(p, b);
        product_codes(p, b, v);
        block_scales(p, b, scale, &more);
#  if TOKEN_PAIRS
        join_columns(v);
        join_columns(v + 4);
#  endif
#  pragma unroll
        for (int t = 0; t < NT; t++) {
            const uint at = b * NT + t;
            int16 i, j; /* the products of both halves: two chains, since each instruction waits for the one
                           before it in its chain */
#  if TOKEN_PAIRS
            if (t % 2 == 0) {
                dots_pair(first, v, x->q + at * 8, x->q + (at + 1) * 8);
                dots_pair(second, v + 4, x->q + at * 8 + 4, x->q + (at + 1) * 8 + 4);
            }
            i = first[t % 2] + begins[BEGINS * t];
            j = HALF_SCALES ? second[t % 2] + begins[BEGINS * t + BEGINS - 1] : second[t % 2];
#  else
            i = dots16(broadcast(begins + BEGINS * t), v, x->q + at * 8);
            j = dots16(HALF_SCALES ? broadcast(begins + BEGINS * t + BEGINS - 1) : (int16)0, v + 4,
                       x->q + at * 8 + 4);
#  endif
#  if HALF_SCALES
            acc[t] = fma(fma(convert_float16(i), scale[0], convert_float16(j) * scale[1]), x->d[at], acc[t]);
#  else
            acc[t] = fma(convert_float16(i + HIGH_SUM(j)) * x->d[at], scale[0], acc[t]);
#  endif
#  if HAS_MINIMA
            acc[t] = fma(more, whole[at], acc[t]);
#  endif
        }
    }
#endif
    next_step(p);
    x->q += STEP_BLOCKS * NT * 8;
    x->d += STEP_BLOCKS * NT;
    x->sums += 2 * STEP_BLOCKS * NT;
}

/* acc[t] = tile `tile` of `tiles` . token t of x. */
INLINED void whole_tile(float16 acc[NT], global const uchar *w, uint tile, uint tiles, uint k, x_ptrs x)
{
    const uint blocks = k / 32;
    tile_ptrs p = tile_at(w, tile, tiles, blocks);
#pragma unroll
    for (int t = 0; t < NT; t++)
        acc[t] = 0;
    for (uint b = 0; b < blocks; b += STEP_BLOCKS)
        tile_step(acc, &p, &x);
}

#endif

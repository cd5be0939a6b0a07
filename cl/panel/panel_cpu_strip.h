/* Products of a tile of a panel in a block format with blocks of NT quantised tokens, for processors with 16
 * vectors of 32 bytes (DOT 2 and 3). A strip of a tile, 16 rows by at most 256 columns, is decoded once, to
 * the nearest cache; for few tokens only its scales (IN_PLACE). Then TOKENS tokens at a time are multiplied
 * by it: their sums of a block of columns are in registers, those of the tile in memory.
 *   strip_sums(acc, w, tile, tiles, x, k, n)   acc[2 t], acc[2 t + 1] = the products of rows 0 to 7 and 8 to
 *                                              15 of a tile with token t of n blocks of tokens from x on */
#ifndef CLEF_CL_PANEL_STRIP_H
#define CLEF_CL_PANEL_STRIP_H

/* Columns are multiplied in groups of four. Products of SPAN groups are added up in pairs of 16 bits, which
 * fit: 2 SPAN MOST 127 is less than 2^15. With WORDS groups are of two columns, and products are added up in
 * 32 bits. */
#define GROUPS (WORDS ? 16 : 8)      /* of a block */
#define SPAN   (WORDS || MOST <= 15 || DOT == 2 ? GROUPS / HALVES : MOST <= 31 ? 4 : 2)
#define HALVES (HALF_SCALES ? 2 : 1) /* of a block, each with a scale */
/* 1: codes that one or two instructions decode are decoded again for each TOKENS tokens, which are so few
 * that this takes less time than storing them. */
#define IN_PLACE (NT < TOKEN_BLOCK && CODE_TABLE == TABLE_NONE && (CODE_VECTORS == 4 || CODE_VECTORS == 8))
#define NIBBLES (IN_PLACE && CODE_VECTORS == 4)
#if IN_PLACE
#  define W_SPACE        global
#  define CODES_AT(s, p) ((global const int8 *)(p).codes)
#else
#  define W_SPACE        private
#  define CODES_AT(s, p) ((s).codes)
#endif
enum {
    STRIP = 8,                /* blocks of a strip */
    CODES = IN_PLACE ? 2 * CODE_VECTORS : 2 * GROUPS, /* vectors of codes of a block */
    TOKENS = NT % 4 == 0 ? 4 : NT % 3 == 0 ? 3 : NT % 2 == 0 ? 2 : 1
};

/* The weights of a strip, block by block, and what the tokens' sums need. */
typedef struct strip {
    int8 codes[IN_PLACE ? 1 : STRIP * CODES]; /* of each group of columns those of rows 0 to 7 and 8 to 15 */
    float8 scale[STRIP * HALVES * 2], more[STRIP * 2];
    int begins[STRIP * HALVES * NT]; /* -OFFSET times the sum of quants */
    float whole[STRIP * NT];         /* d times the sum of quants, the factor of a minimum */
} strip;

#if WORDS
/* The words of codes of columns 0 and 2 (odd 0) or 1 and 3 of a group of four. */
INLINED int8 words_of(int8 codes, int odd)
{
    const short16 v = as_short16(SIGNED(codes));
    return as_int8(odd ? v >> (short)8 : v << (short)8 >> (short)8);
}
#endif

INLINED void put_codes(int8 *to, const int16 v[8])
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
#if WORDS
        to[2 * g] = words_of(v[g / 2].lo, g % 2);
        to[2 * g + 1] = words_of(v[g / 2].hi, g % 2);
#else
        to[2 * g] = v[g].lo;
        to[2 * g + 1] = v[g].hi;
#endif
    }
}

/* Decodes the next n blocks of a tile, and moves p after them. */
INLINED void decode_strip(strip *s, tile_ptrs *p, uint n)
{
    for (uint i = 0; i < n; next_step(p)) {
        fetch_scales(p);
        for (uint b = 0; b < STEP_BLOCKS; b++, i++) {
            int16 v[8];
            float16 scale[2], more;
            if (!IN_PLACE)
                fetch_block(p, b);
            block_codes(p, b, v);
            block_scales(p, b, scale, &more);
            if (!IN_PLACE)
                put_codes(s->codes + i * CODES, v);
#pragma unroll
            for (int part = 0; part < HALVES; part++) {
                s->scale[(i * HALVES + part) * 2] = scale[part].lo;
                s->scale[(i * HALVES + part) * 2 + 1] = scale[part].hi;
            }
#if HAS_MINIMA
            s->more[2 * i] = more.lo;
            s->more[2 * i + 1] = more.hi;
#endif
        }
    }
}

/* Finds what the sums of n blocks of the tokens need. */
INLINED void prepare_tokens(strip *s, const x_ptrs *x, uint n)
{
    uint i = 0;
#if HALF_SCALES
    for (; i < 2 * n * NT; i++)
        s->begins[i] = -OFFSET * x->sums[i];
#else
    for (; i + 8 <= n * NT; i += 8) {
        const int16 pairs = vload16(0, x->sums + 2 * i);
        const int8 sums = pairs.even + pairs.odd;
        vstore8(sums * -OFFSET, 0, s->begins + i);
#  if HAS_MINIMA
        vstore8(vload8(0, x->d + i) * convert_float8(sums), 0, s->whole + i);
#  endif
    }
    for (; i < n * NT; i++) {
        const int sum = x->sums[2 * i] + x->sums[2 * i + 1];
        s->begins[i] = sum * -OFFSET;
#  if HAS_MINIMA
        s->whole[i] = x->d[i] * sum;
#  endif
    }
#endif
}

/* ---- products -------------------------------------------------------------------------------- */

#if DOT == 2
/* sum + the products of bytes */
INLINED int8 more_pairs(int8 sum, int8 w, int8 x)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
    return sum;
}
#  define FIRST_PAIRS(w, x) more_pairs(0, w, x)
#  define WIDEN(pairs)      (pairs)
#elif WORDS
INLINED int8 more_pairs(int8 sum, int8 w, int8 x)
{
    int8 products;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(w), "x"(x));
    return sum;
}

INLINED int8 first_pairs(int8 w, int8 x)
{
    int8 products;
    __asm__("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(w), "x"(x));
    return products;
}
#  define FIRST_PAIRS(w, x) first_pairs(w, x)
#  define WIDEN(pairs)      (pairs)
#else
INLINED int8 more_pairs(int8 sum, int8 w, int8 x)
{
    int8 products;
    __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(w), "x"(x));
    return sum;
}

#  define FIRST_PAIRS(w, x) pairs8(w, x)
#  define WIDEN(pairs)      pairs_sum8(pairs)
#endif

/* Vector v of the codes of group g of columns. */
INLINED int8 codes_of(W_SPACE const int8 *w, int g, int v)
{
#if IN_PLACE && WORDS
    return words_of(w[g / 2 * 2 + v], g % 2);
#elif !NIBBLES
    return w[2 * g + v];
#else
    const uint8 both = as_uint8(w[2 * (g % 4) + v]);
    return as_int8(g / 4 ? both >> 4u & 0x0f0f0f0fu : both & 0x0f0f0f0fu);
#endif
}

/* pairs[v][t] = the products of vectors v of SPAN groups of columns, from `first` on, with token t, in pairs
 * (DOT 2: sums). */
INLINED void multiply(int8 pairs[2][TOKENS], W_SPACE const int8 *w, int first, X_SPACE const int *x)
{
#pragma unroll
    for (int i = 0; i < SPAN; i++) {
        /* both nibbles of a vector while it is in a register */
        const int g = first + (NIBBLES ? i / 2 + i % 2 * 4 : i);
        const int8 codes[2] = {codes_of(w, g, 0), codes_of(w, g, 1)};
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const int8 q = (int8)x[GROUPS * t + g];
#pragma unroll
            for (int v = 0; v < 2; v++)
                pairs[v][t] = i ? more_pairs(pairs[v][t], codes[v], q) : FIRST_PAIRS(codes[v], q);
        }
    }
}

/* sums[part][v][t] = the products of block b, whose codes are w, with token t of TOKENS, for rows 0 to 7
 * (v 0) and 8 to 15. */
INLINED void sum_block(int8 sums[HALVES][2][TOKENS], const strip *s, W_SPACE const int8 *w, uint b,
                       const x_ptrs *x, uint t0)
{
    const uint at = b * NT + t0;
#pragma unroll
    for (int first = 0; first < GROUPS; first += SPAN) {
        const int part = first / (GROUPS / 2) * (HALVES - 1), is_new = first % (GROUPS / HALVES) == 0;
        int8 pairs[2][TOKENS];
        multiply(pairs, w, first, x->q + at * GROUPS);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const int8 begin = WORDS ? (int8)0 : (int8)s->begins[HALVES * (at + t) + part];
#pragma unroll
            for (int v = 0; v < 2; v++)
                sums[part][v][t] = (is_new ? begin : sums[part][v][t]) + WIDEN(pairs[v][t]);
        }
    }
}

/* acc += the products of block b with TOKENS tokens. */
INLINED void add_block(float8 *acc, const strip *s, W_SPACE const int8 *codes, uint b, const x_ptrs *x,
                       uint t0)
{
    const float8 *scale = s->scale + b * HALVES * 2, *more = s->more + b * 2;
    int8 sums[HALVES][2][TOKENS];
    sum_block(sums, s, codes + b * CODES, b, x, t0);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        const float8 d = x->d[b * NT + t0 + t];
#pragma unroll
        for (uint v = 0; v < 2; v++) {
            float8 *to = acc + 2 * (t0 + t) + v;
            const float8 sum = convert_float8(sums[0][v][t]);
#if HALF_SCALES
            const float8 other = convert_float8(sums[1][v][t]);
            *to = fma(fma(sum, scale[v], other * scale[2 + v]), d, *to);
#elif HAS_MINIMA
            const float8 whole = s->whole[b * NT + t0 + t];
            *to = fma(more[v], whole, fma(sum * d, scale[v], *to));
#else
            *to = fma(sum * d, scale[v], *to);
#endif
        }
    }
}

INLINED void strip_sums(float8 *acc, global const uchar *w, uint tile, uint tiles, X_SPACE const uchar *x,
                        uint k, uint n_blocks)
{
    tile_ptrs p = tile_at(w, tile, tiles, k / 32);
    strip s;
    for (uint i = 0; i < n_blocks * NT * 2; i++)
        acc[i] = 0;
    for (uint first = 0; first < k / 32; first += STRIP) {
        const uint n = min((uint)STRIP, k / 32 - first);
        const tile_ptrs begin = p;
        W_SPACE const int8 *codes = CODES_AT(s, p);
        decode_strip(&s, &p, n);
#pragma unroll 1
        for (uint i = 0; i < n_blocks; i++) {
            x_ptrs at = x_at(x + (size_t)i * NT * TOKEN_BYTES(k, WORDS), k);
            at.q += first * NT * GROUPS;
            at.d += first * NT;
            at.sums += 2 * first * NT;
            if (!WORDS || HAS_MINIMA)
                prepare_tokens(&s, &at, n);
#pragma unroll 1
            for (uint t = 0; t < NT; t += TOKENS)
#pragma unroll 1
                for (uint b = 0; b < n; b++) {
                    if (IN_PLACE && i + t == 0) /* between products, not all at once */
                        fetch_block(&begin, b);
                    add_block(acc + i * NT * 2, &s, codes, b, &at, t);
                }
        }
    }
}

#endif

/* What a work-item of a unit that multiplies matrices (matrix.h) holds of w and of x. Both are read as
 * memory has them: w from its panel (cl/panel/panel.h), x from slices (panel_gpu_activations.cl, SLICED).
 * Columns are in an order in which a work-item's words are adjacent, the same for w and x.
 *   -D W_TYPE    dtype of w
 *   -D QUANTISE  how panel_gpu_activations.cl made x: 1 in 8 bits, w in blocks; 2 in halves, w in
 *                blocks; 3 in halves, w too; 4 in bf16, w too or in blocks, which are decoded to bf16
 *
 *   BY_BLOCKS               1: products of a block are scaled after they are added
 *   W_PARTS                 parts of MATRIX_ROWS rows in a tile
 *   SLICES                  slices of 32 columns: fragments of x, and of w
 *   w_at(rows, w, args, part, lane)  points to part `part` of w
 *   w_fetch(raw, rows, b, lane), w_fetch_scales(scales, rows, b)  what memory has of it in columns 32 b ..
 *   w_decode(out, raw, scales, lane)  makes SLICES fragments of it
 *   X_AT(space, from, words, lane)   a fragment of x from MATRIX_TOKENS rows of a slice, `words` apart, in
 *                                    this address space
 *   OF_TOKENS(space, from, lane)     from[token of sum i] as element i
 *   multiply(products, w, x, scratch), add_products(acc, products, scales, d, sums)  with BY_BLOCKS: the
 *                           products of 32 columns; acc plus these
 *   multiply_add(w, x, acc, scratch)  without: acc plus the products of a slice
 *   sum_row(i, lane), sum_token(i, lane)  row and token of element i of the sums */
#ifndef CLEF_CL_PANEL_MMA_FRAGMENTS_H
#define CLEF_CL_PANEL_MMA_FRAGMENTS_H

#if !defined(W_TYPE) || !defined(QUANTISE)
#  error "panel_gpu_mma_fragments.h needs W_TYPE and QUANTISE"
#endif

#define BY_BLOCKS (QUANTISE <= 2)

enum {
    W_PARTS = PANEL_ROWS / MATRIX_ROWS,
    SLICES = QUANTISE == 1 ? 1 : 2,
    LANE_ROWS = MATRIX == 1 ? 2 : 1, /* rows of w that a work-item has words of */
    LANE_READS = MATRIX == 1 || MATRIX == 4 ? 1 : 4 /* groups of eight columns that it reads of each */
};

/* The group of columns of a work-item that reads one: columns 4 g .. 4 g + 3 and 16 + 4 g .. 16 + 4 g + 3. */
static inline uint lane_columns(uint lane) { return MATRIX == 4 ? lane / 16 : lane % 4; }

/* ---- x and the sums -------------------------------------------------------------------------- */

/* X_WORDS: words from one row of x to the next in local memory, so that there are no bank conflicts. */
#if MATRIX == 1
enum { X_WORDS = 8 };
#  define X_AT(space, from, words, lane) (((space const uint2 *)(from))[lane])
#  define OF_TOKENS(space, from, lane)   of_pair(((space const float2 *)(from))[(lane) % 4])
static inline float4 of_pair(float2 v) { return (float4)(v, v); }
/* The unit's rows i and i + 8 are rows 2 i and 2 i + 1 of the tile, which are adjacent in memory. */
static inline uint sum_row(uint i, uint lane) { return lane / 4 * 2 + i / 2; }
static inline uint sum_token(uint i, uint lane) { return matrix_token(i, lane); }
#elif MATRIX == 2
enum { X_WORDS = 12 };
/* The unit's tokens 2 i and 2 i + 1 are tokens i and i + 8, so that those of a work-item are adjacent. */
#  define X_ROW(words, lane) (((lane) % 2 * 8 + (lane) % 16 / 2) * (words) / 4)
#  define X_AT(space, from, words, lane)                               \
      (uint8)(((space const uint4 *)(from))[X_ROW(words, lane)],       \
              ((space const uint4 *)(from))[X_ROW(words, lane) + 1])
#  define OF_TOKENS(space, from, lane)                                 \
      (float8)(((space const float4 *)(from))[(lane) / 16 * 2],        \
               ((space const float4 *)(from))[(lane) / 16 * 2 + 1])
static inline uint sum_row(uint i, uint lane) { return matrix_row(i, lane); }
static inline uint sum_token(uint i, uint lane) { return lane / 16 * 8 + i; }
#elif MATRIX == 4
enum { X_WORDS = 12 };
#  define X_AT(space, from, words, lane) \
      (((space const uint2 *)(from))[(lane) % 16 * ((words) / 2) + (lane) / 16])
#  define OF_TOKENS(space, from, lane) (((space const float4 *)(from))[(lane) / 16])
static inline uint sum_row(uint i, uint lane) { return matrix_row(i, lane); }
static inline uint sum_token(uint i, uint lane) { return matrix_token(i, lane); }
#else
enum { X_WORDS = 8 };
#  define X_AT(space, from, words, lane)                                                                     \
      (uint8)((from)[lane], (from)[8 + (lane)], (from)[16 + (lane)], (from)[24 + (lane)],                    \
              (from)[32 + (lane)], (from)[40 + (lane)], (from)[48 + (lane)], (from)[56 + (lane)])
#  define OF_TOKENS(space, from, lane) \
      (float8)(((space const float4 *)(from))[0], ((space const float4 *)(from))[1])
static inline uint sum_row(uint i, uint lane) { return matrix_row(i, lane); }
static inline uint sum_token(uint i, uint lane) { return matrix_token(i, lane); }
#endif

/* ---- w --------------------------------------------------------------------------------------- */

/* The first row of a tile that a work-item has in part `part`. */
static inline uint lane_row(uint part, uint lane)
{
    return part % W_PARTS * MATRIX_ROWS + (MATRIX == 1 ? lane / 4 * 2 : lane % MATRIX_ROWS);
}

#if IS_BLOCKS(W_TYPE)
#  include "panel_gpu_codes.h"
#  include "panel_gpu_bf16.h"

typedef struct w_raw {
    lane_raw of[LANE_ROWS][LANE_READS];
} w_raw;

typedef struct w_scales {
    float2 scale[LANE_ROWS], base[LANE_ROWS];
} w_scales;

typedef struct w_rows {
    lane_ptrs of[LANE_ROWS];
} w_rows;

/* Points to part `part` of all parts of w. */
static inline void w_at(w_rows *p, global const ELEM(W_TYPE) *w, const panel_args *a, uint part, uint lane)
{
#  pragma unroll
    for (uint r = 0; r < LANE_ROWS; r++)
        lane_at(&p->of[r], (global const uchar *)w, min(part / W_PARTS, W_TILES(a->n) - 1), W_TILES(a->n),
                a->k / 32, lane_row(part, lane) + r);
}

static inline void w_fetch(w_raw *raw, const w_rows *p, uint b, uint lane)
{
#  if MATRIX == 1
    lane_fetch_two(&raw->of[0][0], &raw->of[1][0], &p->of[0], b, lane_columns(lane));
#  else
#    pragma unroll
    for (uint g = 0; g < LANE_READS; g++)
        raw->of[0][g] = lane_fetch(&p->of[0], b, LANE_READS == 1 ? lane_columns(lane) : g);
#  endif
}

/* What w_decode() and add_products() take of the scales of a row. */
static inline void scales_of_row(const lane_ptrs *p, uint b, float2 *scale, float2 *base)
{
    lane_scales(p, b, scale, base);
#  if QUANTISE == 4 && MATRIX == 1
    bf16_terms(scale, base);
#  endif
}

static inline void w_fetch_scales(w_scales *s, const w_rows *p, uint b)
{
#  pragma unroll
    for (uint r = 0; r < LANE_ROWS; r++)
        scales_of_row(&p->of[r], b, &s->scale[r], &s->base[r]);
}

#  if BY_BLOCKS
/* Codes less their offset. No byte borrows from the next. */
static inline uint2 plain_codes(lane_raw raw, uint g)
{
    uint2 codes = lane_decode(raw, g);
#    if HAS_OFFSET
    codes = ((codes | 0x80808080u) - 0x01010101u * OFFSET) ^ 0x80808080u;
#    endif
    return codes;
}
#  endif

#  if QUANTISE == 1
static inline void w_decode(matrix_w out[SLICES], w_raw raw, const w_scales *scales, uint lane)
{
#    if MATRIX == 1
    const uint2 first = plain_codes(raw.of[0][0], lane_columns(lane)),
                second = plain_codes(raw.of[1][0], lane_columns(lane));
    out[0] = (uint4)(first.x, second.x, first.y, second.y);
#    elif MATRIX == 4
    out[0] = plain_codes(raw.of[0][0], lane_columns(lane));
#    else
    const uint2 a = plain_codes(raw.of[0][0], 0), b = plain_codes(raw.of[0][1], 1),
                c = plain_codes(raw.of[0][2], 2), d = plain_codes(raw.of[0][3], 3);
    out[0] = (uint8)(a.x, b.x, c.x, d.x, a.y, b.y, c.y, d.y);
#    endif
}
#  else
#    if QUANTISE == 2
/* Four codes of row r of a work-item as halves; their scales come later. */
static inline uint2 four_numbers(uint codes, const w_scales *s, uint r, uint slice)
{
    uint2 four;
    vstore_half4(convert_float4(as_char4(codes)), 0, (half *)&four);
    return four;
}
#      define CODES_OF plain_codes
#    else
/* Four weights of row r of a work-item as bf16. */
static inline uint2 four_numbers(uint codes, const w_scales *s, uint r, uint slice)
{
    float2 scale = s->scale[r], base = s->base[r];
#      if MATRIX != 1 /* for each word again: clang would keep too much of AMD's other work at once */
    bf16_terms(&scale, &base);
#      endif
    return slice ? four_bf16(codes, scale.y, base.y) : four_bf16(codes, scale.x, base.x);
}
#      define CODES_OF lane_decode
#    endif

static inline void w_decode(matrix_w out[SLICES], w_raw raw, const w_scales *scales, uint lane)
{
#    if MATRIX == 1
    const uint2 first = CODES_OF(raw.of[0][0], lane_columns(lane)),
                second = CODES_OF(raw.of[1][0], lane_columns(lane));
    const uint2 a = four_numbers(first.x, scales, 0, 0), b = four_numbers(second.x, scales, 1, 0),
                c = four_numbers(first.y, scales, 0, 1), d = four_numbers(second.y, scales, 1, 1);
    out[0] = (uint4)(a.x, b.x, a.y, b.y);
    out[1] = (uint4)(c.x, d.x, c.y, d.y);
#    elif MATRIX == 4
    const uint2 codes = CODES_OF(raw.of[0][0], lane_columns(lane));
    out[0] = four_numbers(codes.x, scales, 0, 0);
    out[1] = four_numbers(codes.y, scales, 0, 1);
#    else
    const uint2 a = CODES_OF(raw.of[0][0], 0), b = CODES_OF(raw.of[0][1], 1), c = CODES_OF(raw.of[0][2], 2),
                d = CODES_OF(raw.of[0][3], 3);
    out[0] = (uint8)(four_numbers(a.x, scales, 0, 0), four_numbers(b.x, scales, 0, 0),
                     four_numbers(c.x, scales, 0, 0), four_numbers(d.x, scales, 0, 0));
    out[1] = (uint8)(four_numbers(a.y, scales, 0, 1), four_numbers(b.y, scales, 0, 1),
                     four_numbers(c.y, scales, 0, 1), four_numbers(d.y, scales, 0, 1));
#    endif
}
#  endif

#  if BY_BLOCKS
/* A number of each row, as elements of the sums. */
static inline matrix_floats of_rows(float first, float second)
{
#    if MATRIX == 1
    return (float4)((float2)first, (float2)second);
#    else
    return (matrix_floats)first;
#    endif
}

/* Products of 32 columns: one sum for each scale. */
typedef struct w_products {
    matrix_floats of[1 + HALF_SCALES];
} w_products;

UNIT_INLINED void multiply(w_products *p, const matrix_w w[SLICES], const matrix_x x[SLICES],
                           matrix_scratch scratch)
{
#    if HALF_SCALES && QUANTISE == 1
    p->of[0] = matrix_float_half_bytes(w[0], x[0], 0, scratch);
    p->of[1] = matrix_float_half_bytes(w[0], x[0], 1, scratch);
#    elif HALF_SCALES
    p->of[0] = matrix_halves(w[0], x[0], (matrix_floats)0, scratch);
    p->of[1] = matrix_halves(w[1], x[1], (matrix_floats)0, scratch);
#    elif QUANTISE == 1
    p->of[0] = matrix_float_bytes(w[0], x[0], scratch);
#    else
    p->of[0] = matrix_halves(w[1], x[1], matrix_halves(w[0], x[0], (matrix_floats)0, scratch), scratch);
#    endif
}

/* acc plus the products by `scale` and d. Products of bytes contain MATRIX_ADDS. A short scale times that is
 * exact, so one multiply-add takes it away and scales, too. */
static inline matrix_floats add_scaled(matrix_floats acc, matrix_floats p, matrix_floats scale,
                                       matrix_floats d)
{
#    if QUANTISE == 1 && MATRIX == 1 && !MATRIX_PLAIN && SHORT_SCALES
    return fma(fma(p, scale, scale * -MATRIX_ADDS), d, acc);
#    elif QUANTISE == 1
    return fma(p - MATRIX_ADDS, d * scale, acc);
#    else
    return fma(p, d * scale, acc);
#    endif
}

/* acc plus the products by their scales. d and sums: of the tokens. */
static inline matrix_floats add_products(matrix_floats acc, const w_products *p, const w_scales *s,
                                         matrix_floats d, matrix_floats sums)
{
    acc = add_scaled(acc, p->of[0], of_rows(s->scale[0].x, s->scale[LANE_ROWS - 1].x), d);
#    if HALF_SCALES
    acc = add_scaled(acc, p->of[1], of_rows(s->scale[0].y, s->scale[LANE_ROWS - 1].y), d);
#    elif HAS_MINIMA
    acc = fma(of_rows(s->base[0].x, s->base[LANE_ROWS - 1].x), sums, acc);
#    endif
    return acc;
}
#  endif

#else

typedef struct w_raw {
    uint of[SLICES][LANE_READS == 1 ? 4 : 8];
} w_raw;

typedef struct w_scales {
    uint none;
} w_scales;

typedef struct w_rows {
    global const ushort *of;
} w_rows;

static inline void w_at(w_rows *p, global const ELEM(W_TYPE) *w, const panel_args *a, uint part, uint lane)
{
    const size_t tile = min(part / W_PARTS, W_TILES(a->n) - 1);
    p->of = (global const ushort *)w + tile * a->k * PANEL_ROWS + lane_row(part, lane);
}

/* Columns of 16 rows follow each other. A work-item takes four columns of two rows with MATRIX 1, four
 * columns of one row with MATRIX 4. */
static inline void w_fetch(w_raw *raw, const w_rows *p, uint b, uint lane)
{
#  pragma unroll
    for (uint i = 0; i < SLICES; i++) {
        global const ushort *from = p->of + (size_t)(b * SLICES + i) * 16 * PANEL_ROWS;
#  if MATRIX == 1
#    pragma unroll
        for (uint c = 0; c < 4; c++)
            raw->of[i][c] = *(global const uint *)(from + (lane_columns(lane) * 4 + c) * PANEL_ROWS);
#  elif MATRIX == 4
#    pragma unroll
        for (uint c = 0; c < 4; c++)
            raw->of[i][c] = from[(lane_columns(lane) * 4 + c) * PANEL_ROWS];
#  else
#    pragma unroll
        for (uint c = 0; c < 8; c++)
            raw->of[i][c] = from[2 * c * PANEL_ROWS] | (uint)from[(2 * c + 1) * PANEL_ROWS] << 16;
#  endif
    }
}

static inline void w_fetch_scales(w_scales *s, const w_rows *p, uint b) { s->none = 0; }

static inline void w_decode(matrix_w out[SLICES], w_raw raw, const w_scales *scales, uint lane)
{
#  pragma unroll
    for (uint i = 0; i < SLICES; i++) {
#  if MATRIX == 1
        const uint *c = raw.of[i];
        out[i] = (uint4)((c[0] & 0xffffu) | c[1] << 16, c[0] >> 16 | (c[1] & 0xffff0000u),
                         (c[2] & 0xffffu) | c[3] << 16, c[2] >> 16 | (c[3] & 0xffff0000u));
#  elif MATRIX == 4
        const uint *c = raw.of[i];
        out[i] = (uint2)(c[0] | c[1] << 16, c[2] | c[3] << 16);
#  else
        out[i] = vload8(0, raw.of[i]);
#  endif
    }
}

#endif

/* HAS_SUMS: products of a block need the sums of x. */
#if BY_BLOCKS
#  define HAS_SUMS HAS_MINIMA
#else
#  define HAS_SUMS 0
UNIT_INLINED matrix_floats multiply_add(matrix_w w, matrix_x x, matrix_floats acc, matrix_scratch scratch)
{
#  if QUANTISE == 3
    return matrix_halves(w, x, acc, scratch);
#  else
    return matrix_bf16(w, x, acc, scratch);
#  endif
}
#endif

/* ---- rows of x in memory --------------------------------------------------------------------- */

/* The slices, and what follows them: with blocks a scale and a sum for each 32 columns of each row; else a
 * scale for each row. */
typedef struct x_rows {
    global const uint *slices;
    global const float *d, *sums;
    uint rows; /* a multiple of SLICED */
} x_rows;

static inline void x_at(x_rows *r, const panel_args *a, global const uchar *x, uint sliced)
{
    r->rows = (a->m + sliced - 1) / sliced * sliced;
    r->slices = (global const uint *)x;
    r->d = (global const float *)(x + (size_t)r->rows * a->k * SLICES);
    r->sums = r->d + (size_t)r->rows * (a->k / 32);
}

#endif

#include "graph/lower/panel/panel.h"

#include <math.h>

/* Columns of cl/formats.def. */
static const struct {
    int32_t vectors, scales, offset, most, table;
} formats[CLEF_N_DTYPES] = {
#define FORMAT(number, NAME, name, elems, bytes, ggml, vectors, scales, offset, most, table)                 \
    [CLEF_##NAME] = {vectors, scales, offset, most, table},
    ALL_FORMATS(FORMAT)
#undef FORMAT
};

int clef__panel_has(clef_dtype dtype, int64_t k)
{
    return dtype == CLEF_F32 || dtype == CLEF_F16 || dtype == CLEF_BF16 ||
           (formats[dtype].vectors && k % clef_dtype_block_elems(dtype) == 0);
}

int clef__panel_codes_are_bytes(clef_dtype dtype)
{
    return formats[dtype].most > 127;
}

static int64_t padded(int64_t n)
{
    return (n + PANEL_PAD - 1) / PANEL_PAD * PANEL_PAD;
}

/* Packing moves bytes about, but adds and drops none. */
int64_t clef__panel_bytes(clef_dtype dtype, int64_t n, int64_t k)
{
    return padded(n) * (k / clef_dtype_block_elems(dtype)) * clef_dtype_block_bytes(dtype);
}

uint64_t clef__panel_most_bytes(uint64_t max_alloc_bytes)
{
    return max_alloc_bytes < UINT32_MAX ? max_alloc_bytes : UINT32_MAX;
}

/* ---- reading --------------------------------------------------------------------------------- */

static unsigned byte_at(const double *bytes, int64_t at)
{
    return (unsigned)(int)bytes[at] & 255u;
}

static double float_at(clef_dtype dtype, const double *bytes, int64_t at)
{
    unsigned char raw[4];
    float x;
    for (int64_t i = 0; i < clef_dtype_block_bytes(dtype); i++)
        raw[i] = (unsigned char)byte_at(bytes, at + i);
    clef_dtype_decode(dtype, raw, 1, &x);
    return (double)x;
}

/* A float of its upper half and three more bits. */
static double short_at(const double *bytes, int64_t at, unsigned more)
{
    const double word[4] = {0, (more & 7u) << 5, bytes[at], bytes[at + 1]};
    return float_at(CLEF_F32, word, 0);
}

/* The code of row r and column i of 32, whose vectors begin at `bytes`. */
static unsigned code_at(clef_dtype dtype, const double *bytes, int64_t r, int64_t i)
{
    const int64_t g = i / 4, j = i % 4;
    const int32_t vectors = formats[dtype].vectors;
    if (vectors == 8)
        return byte_at(bytes, g * 64 + r * 4 + j);
    const unsigned nibble = byte_at(bytes, g % 4 * 64 + r * 4 + j) >> (i < 16 ? 0 : 4) & 15u;
    if (vectors == 5)
        return nibble | (byte_at(bytes, 256 + r * 4 + j) >> g & 1u) << 4;
    if (vectors == 6)
        return nibble | (byte_at(bytes, 256 + g / 4 * 64 + r * 4 + j) >> g % 4 * 2 & 3u) << 4;
    return nibble;
}

/* The 6-bit scale or minimum of block b of q4_k and q5_k. bytes: words 0, 1, 2 of 16 rows each. */
static unsigned six_bits(const double *bytes, int64_t r, int64_t b, int is_min)
{
    const int64_t at = r * 4 + b % 4;
    const unsigned own = byte_at(bytes, (is_min ? 64 : 0) + at), nibbles = byte_at(bytes, 128 + at);
    return b < 4 ? own & 63u : (is_min ? nibbles >> 4 : nibbles & 15u) | own >> 6 << 4;
}

static double iq4_value(unsigned code)
{
    static const signed char values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};
    return values[code];
}

/* Twice the e2m1 number. */
static double mxfp4_value(unsigned code)
{
    const unsigned e = code >> 1 & 3u, m = code & 1u;
    const double magnitude = e ? (double)((2 + m) << (e - 1)) : (double)m;
    return code & 8u ? -magnitude : magnitude;
}

/* The number that a code means, before its scale. */
static double code_value(clef_dtype dtype, unsigned code)
{
    return formats[dtype].table == TABLE_IQ4    ? iq4_value(code)
           : formats[dtype].table == TABLE_E2M1 ? mxfp4_value(code)
                                                : (double)code - formats[dtype].offset;
}

/* Column i of a block of the format, in row r. `scales`: the scales of 16 rows, which are stored apart from
 * the codes. */
static double value_of(clef_dtype dtype, unsigned code, const double *scales, int64_t r, int64_t i)
{
    const int64_t b = i / 32;
    const double q = code_value(dtype, code);
    switch (formats[dtype].scales) {
    case SCALES_HALF:
        return float_at(CLEF_F16, scales, r * 2) * q;
    case SCALES_HALF_MIN:
        return float_at(CLEF_F16, scales, r * 2) * q + float_at(CLEF_F16, scales, 32 + r * 2);
    case SCALES_K:
        return float_at(CLEF_F16, scales, 192 + r * 2) * six_bits(scales, r, b, 0) * q -
               float_at(CLEF_F16, scales, 224 + r * 2) * six_bits(scales, r, b, 1);
    case SCALES_Q6_K:
        return float_at(CLEF_F16, scales, 256 + r * 2) * scales[i / 64 * 64 + r * 4 + i / 16 % 4] * q;
    case SCALES_IQ4_XS: {
        const unsigned low = byte_at(scales, r * 4 + b / 2) >> b % 2 * 4 & 15u,
                       high = byte_at(scales, 64 + r * 2 + b / 4) >> b % 4 * 2 & 3u;
        return float_at(CLEF_F16, scales, 96 + r * 2) * ((double)(low | high << 4) - 32) * q;
    }
    case SCALES_E4M3: {
        const unsigned s = byte_at(scales, r * 4 + i / 16), e = s >> 3 & 15u, m = s & 7u;
        return s == 0x7f ? 0 : q * (e ? ldexp(8 + m, (int)e - 11) : ldexp(m, -10));
    }
    case SCALES_ZERO: {
        const unsigned zero = byte_at(scales, 32 + r);
        return short_at(scales, r * 2, zero >> 5) * (q - (double)(zero & 31u));
    }
    case SCALES_AFFINE: {
        const unsigned both = byte_at(scales, 64 + r);
        return short_at(scales, r * 2, both) * q + short_at(scales, 32 + r * 2, both >> 3);
    }
    case SCALES_ZERO_8:
        return float_at(CLEF_F32, scales, r * 4) * (q + formats[dtype].offset - byte_at(scales, 64 + r));
    default: /* SCALES_E8M0 */
        return ldexp(q, (int)byte_at(scales, r) - 128);
    }
}

double clef__panel_element(clef_dtype dtype, int64_t n, int64_t k, const double *bytes, int64_t row,
                           int64_t col)
{
    const int64_t tile = row / PANEL_ROWS, r = row % PANEL_ROWS, block = clef_dtype_block_elems(dtype),
                  size = clef_dtype_block_bytes(dtype);
    const int64_t row_codes = formats[dtype].vectors * 4; /* bytes of 32 columns */
    if (!row_codes)
        return float_at(dtype, bytes, ((tile * k + col) * PANEL_ROWS + r) * size);
    const double *codes = bytes + (tile * (k / 32) + col / 32) * row_codes * PANEL_ROWS;
    const double *scales = bytes + padded(n) * (k / 32) * row_codes +
                           (tile * (k / block) + col / block) * (size - block / 32 * row_codes) * PANEL_ROWS;
    return value_of(dtype, code_at(dtype, codes, r, col % 32), scales, r, col % block);
}

int64_t clef__panel_rows(const clef_panel_matmul_opts *o)
{
    return o->act == CLEF_PANEL_SWIGLU ? 2 * (((int64_t)o->n + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS)
                                       : o->n;
}

int32_t clef__panel_dtype(const clef_value *v)
{
    return v ? (int32_t)v->dtype : DTYPE_NONE;
}

int32_t clef__panel_type_of(const clef_value *n, int32_t which)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const int is_floats = clef_dtype_block_elems((clef_dtype)o->dtype) == 1;
    return n->in[which] ? (int32_t)n->in[which]->dtype : is_floats ? (int32_t)o->dtype : CLEF_F32;
}

rows_args clef__panel_rows_args(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[PANEL_X];
    return (rows_args){.m = clef__rows(lo, x),
                       .k = clef__n(lo, x, 0),
                       .n1 = clef__n(lo, x, 2),
                       .n2 = clef__n(lo, x, 1),
                       .x = clef__view(lo, x),
                       .weight = clef__view(lo, n->in[PANEL_NORM_WEIGHT]).offset,
                       .bias = clef__view(lo, n->in[PANEL_NORM_BIAS]).offset,
                       .eps = o->eps,
                       .norm = (args_uint)o->norm,
                       .has_weight = n->in[PANEL_NORM_WEIGHT] != NULL,
                       .has_bias = n->in[PANEL_NORM_BIAS] != NULL};
}

panel_args clef__panel_args(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return (panel_args){.n = (args_uint)o->n,
                        .k = (args_uint)o->k,
                        .m = clef__rows(lo, n),
                        .x = clef__view(lo, n->in[PANEL_X]).offset,
                        .x_stride = (args_uint)o->k,
                        .bias = clef__view(lo, n->in[PANEL_BIAS]).offset,
                        .alpha = o->alpha != 0 ? o->alpha : 1,
                        .residual = clef__view(lo, n->in[PANEL_RESIDUAL]).offset,
                        .has_bias = n->in[PANEL_BIAS] != NULL,
                        .has_residual = n->in[PANEL_RESIDUAL] != NULL};
}

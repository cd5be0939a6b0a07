/* Repacks quantised matrices into blocks. Codes, scales and zero points stay as they are; columns are ordered
 * by their groups, so that each block has one scale. */
#include <stdlib.h>
#include <string.h>

#include "graph/blocks.h"
#include "graph/fail.h"
#include "model/packed/packed.h"
#include "runtime/os/os.h"

enum { TILE_ROWS = 16, MOST_BLOCK = 64, NVFP4_GROUP = 16 };

/* ---- which format ---------------------------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* 1: a half holds x. */
static int is_half(float x)
{
    return bits_of(clef__f16_decode(clef__f16_encode(x))) == bits_of(x);
}

/* 1: x has 10 bits of mantissa. */
static int is_short(float x)
{
    return (bits_of(x) & 0x1fffu) == 0;
}

/* What all scales and zero points of a matrix have in common. */
typedef struct traits {
    int halves, shorts, centred; /* zero points are in the middle of the codes */
    int32_t most_zero;
} traits;

static float bias_of(const clef__packed *p, int64_t row, int64_t group)
{
    return p->kind == CLEF__PACKED_AFFINE
               ? clef__packed_float(&p->parts[CLEF__PACKED_ZEROS], (p->first_row + row) * p->n_groups + group)
               : 0;
}

static float scale_of(const clef__packed *p, int64_t row, int64_t group)
{
    return p->layout->scale(p, p->first_row + row, group);
}

static int32_t zero_of(const clef__packed *p, int64_t row, int64_t group)
{
    return p->layout->zero ? p->layout->zero(p, p->first_row + row, group) : 0;
}

static traits look(const clef__packed *p)
{
    traits t = {1, 1, 1, 0};
    for (int64_t r = 0; r < p->n_rows; r++)
        for (int64_t g = 0; g < p->n_groups; g++) {
            const float d = scale_of(p, r, g), m = bias_of(p, r, g);
            const int32_t z = zero_of(p, r, g);
            t.halves &= is_half(d) && is_half(m);
            t.shorts &= is_short(d) && is_short(m);
            t.centred &= z == 1 << (p->bits - 1);
            t.most_zero = z > t.most_zero ? z : t.most_zero;
        }
    return t;
}

/* Columns that a weight has in blocks of n: each group is filled up. */
static int64_t stored_columns(const clef__packed *p, int64_t n)
{
    int64_t all = 0;
    if (!p->parts[CLEF__PACKED_GROUPS].info) {
        const int64_t rest = p->n_columns % p->group;
        return p->n_columns / p->group * ((p->group + n - 1) / n * n) + (rest + n - 1) / n * n;
    }
    int64_t *sizes = calloc((size_t)p->n_groups, sizeof *sizes);
    for (int64_t k = 0; sizes && k < p->n_columns; k++)
        sizes[clef__packed_group(p, k)]++;
    for (int64_t g = 0; sizes && g < p->n_groups; g++)
        all += (sizes[g] + n - 1) / n * n;
    free(sizes);
    return all;
}

/* The one of two formats that takes fewer bytes. */
static clef_dtype smaller(const clef__packed *p, clef_dtype in_32, clef_dtype in_64)
{
    return stored_columns(p, 32) / 32 * clef_dtype_block_bytes(in_32) <
                   stored_columns(p, 64) / 64 * clef_dtype_block_bytes(in_64)
               ? in_32
               : in_64;
}

static clef_status choose_dtype(clef__packed *p, const char *file, clef_error *err)
{
    if (p->kind == CLEF__PACKED_NVFP4 || p->kind == CLEF__PACKED_MXFP4) {
        p->dtype = p->general = p->kind == CLEF__PACKED_NVFP4 ? CLEF_NVFP4 : CLEF_MXFP4;
        return CLEF_OK;
    }
    if (p->kind == CLEF__PACKED_E4M3 || p->kind == CLEF__PACKED_NF4) {
        p->dtype = p->general = p->kind == CLEF__PACKED_E4M3 ? smaller(p, CLEF_F8_32, CLEF_F8_64)
                                                             : smaller(p, CLEF_NF4_32, CLEF_NF4_64);
        return CLEF_OK;
    }
    const traits t = look(p);
    if (p->kind == CLEF__PACKED_AFFINE) {
        p->general = smaller(p, CLEF_A4_32, CLEF_A4_64);
        p->dtype = t.halves && p->general == CLEF_A4_32 ? CLEF_Q4_1 : p->general;
        return t.shorts ? CLEF_OK
                        : clef__fail(err, CLEF_E_UNSUPPORTED,
                                     "%s: %s has scales or biases with more than 10 bits of mantissa, "
                                     "expected numbers that f16 or bf16 holds",
                                     file, p->name);
    }
    p->general =
        p->bits == 4 && t.shorts ? smaller(p, CLEF_I4_32, CLEF_I4_64) : smaller(p, CLEF_I8_32, CLEF_I8_64);
    p->dtype = t.centred && t.halves ? p->bits == 4 ? CLEF_Q4_0 : CLEF_Q8_0 : p->general;
    return t.most_zero < 256
               ? CLEF_OK
               : clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s has a zero point of %d, expected at most 255",
                            file, p->name, t.most_zero);
}

/* ---- the order of the columns ---------------------------------------------------------------- */

static int is_in_order(const clef__packed *p, const int32_t *order, int64_t n)
{
    int64_t k = 0;
    while (k < n && order[k] == k)
        k++;
    return k == n && n == p->n_columns;
}

static clef_status set_order(clef__packed *p, const char *file, clef_error *err)
{
    const int64_t block = clef_dtype_block_elems(p->dtype);
    const int64_t n_groups = p->kind == CLEF__PACKED_NVFP4 ? 1 : p->n_groups;
    free(p->order);
    p->n_stored =
        p->kind == CLEF__PACKED_NVFP4 ? (p->n_columns + block - 1) / block * block : stored_columns(p, block);
    p->order = malloc((size_t)(p->n_stored + 1) * sizeof *p->order);
    int64_t *at = calloc((size_t)n_groups + 1, sizeof *at);
    if (!p->order || !at || p->n_stored < p->n_columns || p->n_stored > INT32_MAX) {
        free(at);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the columns of %s", file, p->name);
    }
    for (int64_t k = 0; k < p->n_columns; k++)
        at[n_groups == 1 ? 1 : clef__packed_group(p, k) + 1]++;
    for (int64_t g = 0; g < n_groups; g++) /* sizes become places */
        at[g + 1] = at[g] + (at[g + 1] + block - 1) / block * block;
    for (int64_t k = 0; k < p->n_stored; k++)
        p->order[k] = -1;
    for (int64_t k = 0; k < p->n_columns; k++)
        p->order[at[n_groups == 1 ? 0 : clef__packed_group(p, k)]++] = (int32_t)k;
    free(at);
    if (is_in_order(p, p->order, p->n_stored)) {
        free(p->order);
        p->order = NULL;
    }
    return CLEF_OK;
}

clef_status clef__packed_choose(clef__packed *p, const char *file, clef_error *err)
{
    const clef_status status = choose_dtype(p, file, err);
    return status ? status : set_order(p, file, err);
}

clef_status clef__packed_generalize(clef__packed *p, const char *file, clef_error *err)
{
    p->dtype = p->general;
    return set_order(p, file, err);
}

uint64_t clef__packed_bytes(const clef__packed *p)
{
    return (uint64_t)p->n_rows * (uint64_t)(p->n_stored / clef_dtype_block_elems(p->dtype)) *
           (uint64_t)clef_dtype_block_bytes(p->dtype);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *to, uint32_t word, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        *to++ = (unsigned char)(word >> 8 * i);
    return to;
}

/* Nibbles of 32, the first 16 in the lower bits. */
static void put_nibbles(unsigned char *to, const uint8_t *codes, int n)
{
    for (int i = 0; i < n; i += 32)
        for (int j = 0; j < 16; j++)
            *to++ = (unsigned char)(codes[i + j] | codes[i + 16 + j] << 4);
}

static void put_nvfp4(const clef__packed *p, int64_t row, int64_t first, const uint8_t *codes,
                      unsigned char *to)
{
    const unsigned char *scales = p->parts[CLEF__PACKED_SCALES].info->data;
    for (int64_t g = 0; g < MOST_BLOCK / NVFP4_GROUP; g++) {
        const int64_t group = first / NVFP4_GROUP + g;
        to[g] = group < p->n_groups ? scales[(p->first_row + row) * p->n_groups + group] : 0;
        for (int j = 0; j < 8; j++)
            to[4 + 8 * g + j] =
                (unsigned char)(codes[NVFP4_GROUP * g + j] | codes[NVFP4_GROUP * g + 8 + j] << 4);
    }
}

/* The scale, and what belongs to it. Returns where the codes begin. */
static unsigned char *put_scale(const clef__packed *p, int64_t row, int64_t group, unsigned char *to)
{
    const float d = scale_of(p, row, group), m = bias_of(p, row, group);
    const uint32_t u = bits_of(d), v = bits_of(m);
    const uint32_t z = (uint32_t)zero_of(p, row, group);
    switch (p->dtype) {
    case CLEF_Q4_0:
    case CLEF_Q8_0:
        return put(to, clef__f16_encode(d), 2);
    case CLEF_Q4_1:
        return put(put(to, clef__f16_encode(d), 2), clef__f16_encode(m), 2);
    case CLEF_I4_32:
    case CLEF_I4_64:
        return put(put(to, u >> 16, 2), (u >> 13 & 7) << 5 | z, 1);
    case CLEF_A4_32:
    case CLEF_A4_64:
        return put(put(put(to, u >> 16, 2), v >> 16, 2), (u >> 13 & 7) | (v >> 13 & 7) << 3, 1);
    case CLEF_I8_32:
    case CLEF_I8_64: /* codes of fewer bits are stored as those of 8 */
        return put(put(to, u, 4), z, 1);
    case CLEF_MXFP4:
        return put(to, (uint32_t)d, 1);
    default:
        return put(to, u, 4);
    }
}

static void put_block(const clef__packed *p, int64_t row, int64_t group, const uint8_t *codes,
                      unsigned char *to)
{
    const int n = clef_dtype_block_elems(p->dtype);
    to = put_scale(p, row, group, to);
    switch (p->dtype) {
    case CLEF_Q8_0:
    case CLEF_I8_32:
    case CLEF_I8_64:
        for (int i = 0; i < n; i++)
            to[i] = codes[i] ^ 0x80;
        break;
    case CLEF_F8_32:
    case CLEF_F8_64:
        memcpy(to, codes, (size_t)n);
        break;
    default:
        put_nibbles(to, codes, n);
    }
}

typedef struct writing {
    const clef__packed *p;
    unsigned char *to;
    int failed; /* 1: out of memory */
} writing;

/* Writes one row from its codes in the file's order. */
static void write_row(const clef__packed *p, int64_t row, const uint8_t *codes, unsigned char *to)
{
    const int64_t n = clef_dtype_block_elems(p->dtype), bytes = clef_dtype_block_bytes(p->dtype);
    uint8_t block[MOST_BLOCK];
    for (int64_t k = 0; k < p->n_stored; k += n, to += bytes) {
        if (!p->order)
            memcpy(block, codes + k, (size_t)n);
        for (int64_t i = 0; p->order && i < n; i++) {
            const int64_t column = p->order[k + i];
            block[i] = column < 0 ? 0 : codes[column];
        }
        if (p->kind == CLEF__PACKED_NVFP4)
            put_nvfp4(p, row, k, block, to);
        else
            put_block(p, row, clef__packed_group(p, p->order ? p->order[k] : k), block, to);
    }
}

static void write_tile(void *user, int32_t i)
{
    writing *w = user;
    const clef__packed *p = w->p;
    const int64_t first = (int64_t)i * TILE_ROWS,
                  n = p->n_rows - first < TILE_ROWS ? p->n_rows - first : TILE_ROWS;
    const uint64_t row_bytes = clef__packed_bytes(p) / (uint64_t)p->n_rows;
    uint8_t *codes = malloc((size_t)(n * p->n_columns));
    if (!codes) {
        w->failed = 1;
        return;
    }
    p->layout->codes_of(p, p->first_row + first, n, codes);
    for (int64_t r = 0; r < n; r++)
        write_row(p, first + r, codes + r * p->n_columns, w->to + (uint64_t)(first + r) * row_bytes);
    free(codes);
}

int clef__packed_write(const clef__packed *p, void *to)
{
    writing w = {.p = p, .to = to};
    clef__os_parallel((int32_t)((p->n_rows + TILE_ROWS - 1) / TILE_ROWS), write_tile, &w);
    return !w.failed;
}

/* ---- the definition -------------------------------------------------------------------------- */

/* What a code means, before its scale. */
static float value_of(const clef__packed *p, uint8_t code, int32_t zero)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    unsigned char block[36] = {0, 0, 128, 63, code}; /* a scale of 1 */
    float x[32];
    switch (p->kind) {
    case CLEF__PACKED_INT:
        return (float)((int32_t)code - zero);
    case CLEF__PACKED_AFFINE:
        return (float)code;
    case CLEF__PACKED_E4M3:
    case CLEF__PACKED_NF4:
        clef_dtype_decode(p->kind == CLEF__PACKED_NF4 ? CLEF_NF4_32 : CLEF_F8_32, block, 32, x);
        return x[0];
    default:
        return code & 8 ? -e2m1[code & 7] : e2m1[code & 7];
    }
}

/* The scale of a column, rounded as the method defines it. */
static float whole_scale(const clef__packed *p, int64_t row, int64_t group)
{
    const float d = scale_of(p, row, group);
    if (p->kind == CLEF__PACKED_MXFP4)
        return clef__packed_power((uint32_t)d);
    if (p->kind != CLEF__PACKED_NVFP4)
        return d;
    const float by = clef__packed_float(&p->parts[CLEF__PACKED_FACTOR], 0);
    return p->divides ? d / by : d * by;
}

int clef__packed_decode_row(const clef__packed *p, int64_t row, float *x)
{
    uint8_t *codes = malloc((size_t)p->n_columns);
    float values[256], scale = 0, bias = 0;
    int64_t group = -1;
    int32_t seen_zero = -1;
    if (!codes)
        return 0;
    p->layout->codes_of(p, p->first_row + row, 1, codes);
    for (int64_t k = 0; k < p->n_columns; k++) {
        const int64_t own = clef__packed_group(p, k);
        if (own != group) {
            const int32_t zero = zero_of(p, row, own);
            group = own;
            scale = whole_scale(p, row, group);
            bias = bias_of(p, row, group);
            for (int i = 0; i < 1 << p->bits && zero != seen_zero; i++)
                values[i] = value_of(p, (uint8_t)i, zero);
            seen_zero = zero;
        }
        x[k] = values[codes[k]] * scale;
        if (p->kind == CLEF__PACKED_AFFINE)
            x[k] += bias;
        else if (p->factor != 1 && p->kind == CLEF__PACKED_INT) /* bitsandbytes' absmax / 127 */
            x[k] /= 127;
    }
    free(codes);
    return 1;
}

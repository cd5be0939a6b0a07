/* How each method stores codes, scales and zero points. Shapes below are [rows of the matrix N, columns K];
 * G groups of columns share scales. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/packed/packed.h"

enum {
    CODES = CLEF__PACKED_CODES,
    SCALES = CLEF__PACKED_SCALES,
    ZEROS = CLEF__PACKED_ZEROS,
    GROUPS = CLEF__PACKED_GROUPS,
    FACTOR = CLEF__PACKED_FACTOR,
    MORE = CLEF__PACKED_MORE,
    TABLE = CLEF__PACKED_TABLE,
    ABSMAX = CLEF__PACKED_ABSMAX
};

/* ---- reading parts --------------------------------------------------------------------------- */

static const unsigned char *bytes_of(const clef__packed_part *part)
{
    return part->info->data;
}

static uint32_t word_at(const clef__packed_part *part, int64_t i)
{
    uint32_t word;
    memcpy(&word, bytes_of(part) + 4 * i, sizeof word);
    return word;
}

static float e4m3(unsigned char u)
{
    const unsigned char block[36] = {0, 0, 128, 63, u}; /* F8_32 with a scale of 1 */
    float x[32];
    clef_dtype_decode(CLEF_F8_32, block, 32, x);
    return x[0];
}

float clef__packed_float(const clef__packed_part *part, int64_t i)
{
    float x = 0;
    switch (part->type) {
    case CLEF_ST_F32:
    case CLEF_ST_F16:
    case CLEF_ST_BF16:
        clef_dtype_decode(part->info->dtype, bytes_of(part) + i * clef_dtype_block_bytes(part->info->dtype),
                          1, &x);
        return x;
    case CLEF_ST_F8_E4M3:
        return e4m3(bytes_of(part)[i]);
    case CLEF_ST_I32:
        return (float)(int32_t)word_at(part, i);
    default:
        return (float)bytes_of(part)[i];
    }
}

float clef__packed_power(uint32_t byte)
{
    const uint32_t bits = byte == 0 ? 0x00400000u : byte << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

int64_t clef__packed_group(const clef__packed *p, int64_t column)
{
    return p->parts[GROUPS].info ? (int64_t)word_at(&p->parts[GROUPS], column) : column / p->group;
}

static int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int64_t elements(const clef__packed_part *part)
{
    int64_t n = 1;
    for (int32_t i = 0; i < part->info->rank; i++)
        n *= part->info->dims[i];
    return n;
}

static int is_matrix(const clef__packed_part *part, int64_t rows, int64_t columns)
{
    return part->info->rank == 2 && part->info->dims[0] == rows && part->info->dims[1] == columns;
}

static int is_float(const clef__packed_part *part)
{
    return part->type == CLEF_ST_F32 || part->type == CLEF_ST_F16 || part->type == CLEF_ST_BF16;
}

static int is_exponent(const clef__packed_part *part)
{
    return part->type == CLEF_ST_U8 || part->type == CLEF_ST_F8_E8M0;
}

/* The two dims of the codes; 1 for missing ones. */
static int64_t dim(const clef__packed *p, int i)
{
    const clef_tensor_info *t = p->parts[CODES].info;
    return i < t->rank ? t->dims[i] : 1;
}

static clef_status misfit(const clef__packed *p, int part, const char *file, const char *expected,
                          clef_error *err)
{
    const clef_tensor_info *t = p->parts[part].info;
    return clef__fail(err, CLEF_E_SHAPE,
                      "%s: tensor %s is %s with %" PRId64 " elements, expected %s for %s of %" PRId64
                      " x %" PRId64,
                      file, t->name, clef__st_dtype_name(p->parts[part].type), elements(&p->parts[part]),
                      expected, p->name, p->n_rows, p->n_columns);
}

static clef_status check_codes(const clef__packed *p, const char *file, clef_error *err)
{
    const clef_tensor_info *t = p->parts[CODES].info;
    if (t->rank == 2 && p->n_rows > 0 && p->n_columns > 0 && p->n_rows <= INT32_MAX &&
        p->n_columns <= INT32_MAX)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_SHAPE,
                      "%s: tensor %s has %d dims, or none of 1 and more, expected a matrix", file, t->name,
                      t->rank);
}

/* Groups by the file's group size. */
static void set_groups(clef__packed *p, int32_t group)
{
    p->group = group > 0 && group < p->n_columns ? group : p->n_columns;
    p->n_groups = ceil_div(p->n_columns, p->group);
}

static clef_status check_indices(clef__packed *p, const char *file, clef_error *err)
{
    clef__packed_part *part = &p->parts[GROUPS];
    if (!part->info)
        return CLEF_OK;
    if (part->type != CLEF_ST_I32 || part->info->rank != 1 || part->info->dims[0] != p->n_columns)
        return misfit(p, GROUPS, file, "I32 [columns]", err);
    if (word_at(part, 0) == UINT32_MAX) /* compressed-tensors: -1 for columns in order */
        part->info = NULL;
    for (int64_t k = 0; part->info && k < p->n_columns; k++)
        if (word_at(part, k) >= (uint64_t)p->n_groups)
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: tensor %s: column %" PRId64 " has group %" PRId32
                              ", expected 0 to %" PRId64,
                              file, part->info->name, k, (int32_t)word_at(part, k), p->n_groups - 1);
    return CLEF_OK;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Codes along rows, in words or bytes, the first in the lowest bits. */
static void codes_along_rows(const clef__packed *p, int64_t first, int64_t n, uint8_t *out)
{
    const int64_t each = 8 / p->bits, row_bytes = dim(p, 1) * (p->parts[CODES].type == CLEF_ST_U8 ? 1 : 4);
    const unsigned mask = (1u << p->bits) - 1;
    for (int64_t r = 0; r < n; r++) {
        const unsigned char *from = bytes_of(&p->parts[CODES]) + (first + r) * row_bytes;
        for (int64_t k = 0; k < p->n_columns; k++) /* words are little-endian */
            out[r * p->n_columns + k] =
                (uint8_t)((unsigned)from[k / each] >> (unsigned)(k % each * p->bits) & mask);
    }
}

static void codes_in_bytes(const clef__packed *p, int64_t first, int64_t n, uint8_t *out)
{
    memcpy(out, bytes_of(&p->parts[CODES]) + first * p->n_columns, (size_t)(n * p->n_columns));
}

/* Signed bytes, as numbers from 0 to 255. */
static void codes_signed(const clef__packed *p, int64_t first, int64_t n, uint8_t *out)
{
    codes_in_bytes(p, first, n, out);
    for (int64_t i = 0; i < n * p->n_columns; i++)
        out[i] ^= 0x80;
}

/* Words of codes of one row, [K / each, N]. */
static void codes_along_columns(const clef__packed *p, int64_t first, int64_t n, uint8_t *out)
{
    const int64_t each = 32 / p->bits, n_words = dim(p, 0);
    const uint32_t mask = (uint32_t)((UINT64_C(1) << p->bits) - 1);
    for (int64_t w = 0; w < n_words; w++)
        for (int64_t r = 0; r < n; r++) {
            uint32_t word = word_at(&p->parts[CODES], w * dim(p, 1) + first + r);
            for (int64_t k = w * each; k < (w + 1) * each && k < p->n_columns; k++, word >>= p->bits)
                out[r * p->n_columns + k] = (uint8_t)(word & mask);
        }
}

/* AWQ's order of the rows in a word: 0 2 4 6 1 3 5 7. */
static unsigned awq_nibble(uint32_t word, int64_t row)
{
    return word >> (row % 2 * 4 + row % 8 / 2) * 4 & 15;
}

/* Words of codes of one column, [K, N / 8]. */
static void codes_of_awq(const clef__packed *p, int64_t first, int64_t n, uint8_t *out)
{
    for (int64_t k = 0; k < p->n_columns; k++)
        for (int64_t r = 0; r < n; r++)
            out[r * p->n_columns + k] =
                (uint8_t)awq_nibble(word_at(&p->parts[CODES], k * dim(p, 1) + (first + r) / 8), first + r);
}

/* Nibbles of all rows in a line, the first in the upper bits. */
static void codes_of_nf4(const clef__packed *p, int64_t first, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n * p->n_columns; i++) {
        const int64_t at = first * p->n_columns + i;
        out[i] = (uint8_t)(bytes_of(&p->parts[CODES])[at / 2] >> (at % 2 ? 0 : 4) & 15);
    }
}

/* ---- scales and zero points ------------------------------------------------------------------ */

static float scale_by_row(const clef__packed *p, int64_t row, int64_t group)
{
    return clef__packed_float(&p->parts[SCALES], row / p->block_rows * p->n_groups + group);
}

/* The same; MXFP8 has exponents. */
static float scale_of_fp8(const clef__packed *p, int64_t row, int64_t group)
{
    const float d = scale_by_row(p, row, group);
    return is_exponent(&p->parts[SCALES]) ? clef__packed_power((uint32_t)d) : d;
}

static float scale_by_group(const clef__packed *p, int64_t row, int64_t group)
{
    return clef__packed_float(&p->parts[SCALES], group * p->parts[SCALES].info->dims[1] + row);
}

static float scale_of_nf4(const clef__packed *p, int64_t row, int64_t group)
{
    const int64_t block = p->block_rows; /* elements that share a scale, counted through all rows */
    return p->own_scales[(row * p->n_columns + group * p->group) / block];
}

static int32_t zero_of_gptq(const clef__packed *p, int64_t row, int64_t group)
{
    const int64_t each = 32 / p->bits;
    const uint32_t word = word_at(&p->parts[ZEROS], group * p->parts[ZEROS].info->dims[1] + row / each);
    return (int32_t)(word >> row % each * p->bits & ((1u << p->bits) - 1)) + p->zero_shift;
}

static int32_t zero_of_awq(const clef__packed *p, int64_t row, int64_t group)
{
    return (int32_t)awq_nibble(word_at(&p->parts[ZEROS], group * dim(p, 1) + row / 8), row);
}

/* Of compressed-tensors: in words of several rows, in signed bytes, or none. */
static int32_t zero_of_rows(const clef__packed *p, int64_t row, int64_t group)
{
    const clef__packed_part *part = &p->parts[ZEROS];
    const int64_t each = 32 / p->bits;
    const int32_t middle = 1 << (p->bits - 1);
    if (!part->info)
        return middle;
    if (part->type == CLEF_ST_I8)
        return (int32_t)(int8_t)bytes_of(part)[row * p->n_groups + group] + middle;
    const uint32_t word = word_at(part, row / each * p->n_groups + group);
    return (int32_t)(word >> row % each * p->bits & ((1u << p->bits) - 1));
}

/* ---- GPTQ and AWQ ---------------------------------------------------------------------------- */

/* Bits and columns of a group of a module that may have its own, by the shapes of its parts. */
static int32_t find_own(clef__packed *p, int32_t group)
{
    const clef_tensor_info *zeros = p->parts[ZEROS].info, *scales = p->parts[SCALES].info;
    const int64_t words = zeros->rank == 2 ? zeros->dims[1] : 0, n_groups = scales->dims[0];
    if (words == ceil_div(p->n_rows, 32 / (12 - p->bits)) && words != ceil_div(p->n_rows, 32 / p->bits))
        p->bits = 12 - p->bits; /* 4 or 8 */
    const int64_t columns = dim(p, 0) * (32 / p->bits), usual = group > 0 ? group : columns;
    return n_groups > 0 && ceil_div(columns, usual) != n_groups ? (int32_t)(columns / n_groups) : group;
}

static clef_status check_grouped(clef__packed *p, int32_t group, const char *file, clef_error *err)
{
    clef_status status = check_codes(p, file, err);
    if (status)
        return status;
    set_groups(p, group);
    if (!is_float(&p->parts[SCALES]) || !is_matrix(&p->parts[SCALES], p->n_groups, p->n_rows))
        return misfit(p, SCALES, file, "floats [groups, rows]", err);
    if (p->parts[ZEROS].type != CLEF_ST_I32 ||
        !is_matrix(&p->parts[ZEROS], p->n_groups, ceil_div(p->n_rows, 32 / p->bits)))
        return misfit(p, ZEROS, file, "I32 [groups, rows in words]", err);
    return check_indices(p, file, err);
}

static clef_status gptq_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                              clef_error *err)
{
    p->bits = config->bits;
    p->zero_shift = config->zero_shift;
    p->n_rows = dim(p, 1);
    const int32_t group = config->varies ? find_own(p, config->group) : config->group;
    p->n_columns = dim(p, 0) * (32 / p->bits);
    return check_grouped(p, group, file, err);
}

static clef_status awq_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                             clef_error *err)
{
    p->bits = config->bits;
    p->n_rows = dim(p, 1) * 8;
    p->n_columns = dim(p, 0);
    return check_grouped(p, config->group, file, err);
}

static const clef__packed_layout gptq = {
    .method = "gptq",
    .codes = ".qweight",
    .type = CLEF_ST_I32,
    .parts = {[SCALES] = ".scales", [ZEROS] = ".qzeros", [GROUPS] = ".g_idx"},
    .optional = 1u << GROUPS,
    .shape = gptq_shape,
    .codes_of = codes_along_columns,
    .scale = scale_by_group,
    .zero = zero_of_gptq,
};

static const clef__packed_layout awq = {
    .method = "awq",
    .codes = ".qweight",
    .type = CLEF_ST_I32,
    .parts = {[SCALES] = ".scales", [ZEROS] = ".qzeros"},
    .shape = awq_shape,
    .codes_of = codes_of_awq,
    .scale = scale_by_group,
    .zero = zero_of_awq,
};

/* ---- scales of rows, columns or blocks ------------------------------------------------------- */

/* Rows or columns of the scales; modelopt's have a dim of 1 after each. */
static int64_t scale_dim(const clef__packed_part *part, int32_t i)
{
    const clef_tensor_info *t = part->info;
    return t->rank == 4 ? t->dims[2 * i] : i < t->rank ? t->dims[i] : 1;
}

/* Sets the groups by the shape of the scales: one number, one a row, or a number for each block of rows and
 * columns. group: columns of a block, 0: the file does not say; block_rows: 1, or rows of a block. */
static clef_status set_scales(clef__packed *p, int64_t block_rows, int32_t group, const char *file,
                              clef_error *err)
{
    const clef__packed_part *part = &p->parts[SCALES];
    const int64_t n = elements(part), rows = scale_dim(part, 0), columns = scale_dim(part, 1);
    if ((!is_float(part) && !(is_exponent(part) && p->kind == CLEF__PACKED_E4M3)) || rows * columns != n)
        return misfit(p, SCALES, file, "floats", err);
    p->block_rows = block_rows;
    set_groups(p, 0);
    if (columns > 1) {
        set_groups(p, group > 0 ? group : (int32_t)(p->n_columns / columns));
        if (p->n_groups != columns || (group <= 0 && p->n_columns % columns))
            return misfit(p, SCALES, file, "a scale for each group of columns", err);
    } else if (group > 0 && group < p->n_columns && n != 1) {
        return misfit(p, SCALES, file, "a scale for each group of columns", err);
    }
    if (n == 1 && p->n_groups == 1)
        p->block_rows = p->n_rows;
    else if (rows != ceil_div(p->n_rows, p->block_rows))
        return misfit(p, SCALES, file, "a scale for each row or block of rows", err);
    return CLEF_OK;
}

static clef_status fp8_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                             clef_error *err)
{
    const clef_tensor_info *scales = p->parts[SCALES].info;
    const clef__packed_part *zeros = &p->parts[ZEROS];
    p->kind = CLEF__PACKED_E4M3;
    p->bits = 8;
    p->n_rows = dim(p, 0);
    p->n_columns = dim(p, 1);
    const int in_blocks =
        config->block[0] > 0 && scales->rank >= 2 && scales->dims[0] == ceil_div(p->n_rows, config->block[0]);
    for (uint64_t i = 0; zeros->info && i < zeros->info->n_bytes; i++)
        if (bytes_of(zeros)[i] != 0)
            return misfit(p, ZEROS, file, "zeros", err);
    const clef_status status = check_codes(p, file, err);
    return status
               ? status
               : set_scales(p, in_blocks ? config->block[0] : 1, in_blocks ? config->block[1] : 0, file, err);
}

static clef_status ct_int8_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                 clef_error *err)
{
    const clef__packed_part *zeros = &p->parts[ZEROS];
    p->bits = 8;
    p->n_rows = dim(p, 0);
    p->n_columns = dim(p, 1);
    clef_status status = check_codes(p, file, err);
    if (!status)
        status = set_scales(p, 1, config->group, file, err);
    if (status || !zeros->info)
        return status;
    return zeros->type == CLEF_ST_I8 && p->block_rows == 1 && elements(zeros) == p->n_rows * p->n_groups
               ? CLEF_OK
               : misfit(p, ZEROS, file, "I8, one for each scale", err);
}

/* Reads weight_shape, two integers of 64 (or 32) bits. */
static clef_status read_shape(clef__packed *p, const char *file, clef_error *err)
{
    const clef__packed_part *part = &p->parts[MORE];
    const int64_t step = part->type == CLEF_ST_I64 ? 2 : 1;
    if ((part->type != CLEF_ST_I64 && part->type != CLEF_ST_I32) || elements(part) != 2)
        return misfit(p, MORE, file, "two integers", err);
    p->n_rows = word_at(part, 0);
    p->n_columns = word_at(part, step);
    for (int64_t i = 0; step == 2 && i < 2; i++)
        p->n_columns = word_at(part, 2 * i + 1) ? 0 : p->n_columns;
    return check_codes(p, file, err);
}

static clef_status ct_packed_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                   clef_error *err)
{
    const clef__packed_part *zeros = &p->parts[ZEROS];
    clef_status status = read_shape(p, file, err);
    if (status)
        return status;
    p->bits = dim(p, 1) == ceil_div(p->n_columns, 8) ? 4 : dim(p, 1) == ceil_div(p->n_columns, 4) ? 8 : 0;
    if (p->bits == 0 || dim(p, 0) != p->n_rows)
        return misfit(p, CODES, file, "codes of 4 or 8 bits", err);
    if (config->has_zeros == 1 && !zeros->info)
        return clef__fail(err, CLEF_E_NOT_FOUND,
                          "%s: the zero points of %s are missing, expected some by \"symmetric\": false",
                          file, p->name);
    status = set_scales(p, 1, config->group, file, err);
    if (status)
        return status;
    const int64_t rows = zeros->info ? ceil_div(p->n_rows, 32 / p->bits) : 0;
    if (zeros->info && !(zeros->type == CLEF_ST_I32 && is_matrix(zeros, rows, p->n_groups)) &&
        !(zeros->type == CLEF_ST_I8 && is_matrix(zeros, p->n_rows, p->n_groups)))
        return misfit(p, ZEROS, file, "I32 [rows in words, groups]", err);
    return check_indices(p, file, err);
}

static const clef__packed_layout ct_packed = {
    .method = "compressed-tensors",
    .codes = ".weight_packed",
    .type = CLEF_ST_I32,
    .parts = {[SCALES] = ".weight_scale",
              [ZEROS] = ".weight_zero_point",
              [GROUPS] = ".weight_g_idx",
              [MORE] = ".weight_shape"},
    .optional = 1u << ZEROS | 1u << GROUPS,
    .ignored = {".input_scale", ".input_zero_point", ".weight_g_idx"},
    .shape = ct_packed_shape,
    .codes_of = codes_along_rows,
    .scale = scale_by_row,
    .zero = zero_of_rows,
};

static const clef__packed_layout ct_int8 = {
    .method = "compressed-tensors",
    .codes = ".weight",
    .type = CLEF_ST_I8,
    .parts = {[SCALES] = ".weight_scale", [ZEROS] = ".weight_zero_point"},
    .optional = 1u << ZEROS,
    .ignored = {".input_scale", ".input_zero_point"},
    .shape = ct_int8_shape,
    .codes_of = codes_signed,
    .scale = scale_by_row,
    .zero = zero_of_rows,
};

#define FP8(name, of, ending)                                                                                \
    static const clef__packed_layout name = {                                                                \
        .method = of,                                                                                        \
        .codes = ".weight",                                                                                  \
        .type = CLEF_ST_F8_E4M3,                                                                             \
        .parts = {[SCALES] = ending, [ZEROS] = ".weight_zero_point"},                                        \
        .optional = 1u << ZEROS,                                                                             \
        .ignored = {".input_scale", ".activation_scale", ".input_zero_point", ".input_scale_ub"},            \
        .shape = fp8_shape,                                                                                  \
        .codes_of = codes_in_bytes,                                                                          \
        .scale = scale_of_fp8,                                                                               \
    }
FP8(fp8_inverse, "fp8", ".weight_scale_inv");
FP8(fp8, "fp8", ".weight_scale");
FP8(ct_fp8, "compressed-tensors", ".weight_scale");
FP8(modelopt_fp8, "modelopt", ".weight_scale");

/* ---- four-bit floats ------------------------------------------------------------------------- */

static clef_status fp4_shape(clef__packed *p, int64_t block, clef_st_dtype scales, const char *file,
                             clef_error *err)
{
    p->bits = 4;
    p->n_rows = dim(p, 0);
    p->n_columns = dim(p, 1) * 2;
    p->block_rows = 1;
    const clef_status status = check_codes(p, file, err);
    if (status)
        return status;
    p->group = block;
    p->n_groups = ceil_div(p->n_columns, block);
    if (p->n_columns % block || p->parts[SCALES].type != scales ||
        !is_matrix(&p->parts[SCALES], p->n_rows, p->n_groups))
        return misfit(p, SCALES, file,
                      block == 16 ? "F8_E4M3 [rows, columns / 16]" : "U8 [rows, columns / 32]", err);
    return CLEF_OK;
}

static clef_status nvfp4_shape(clef__packed *p, const char *file, clef_error *err)
{
    p->kind = CLEF__PACKED_NVFP4;
    const clef_status status = fp4_shape(p, 16, CLEF_ST_F8_E4M3, file, err);
    if (status)
        return status;
    if (p->parts[FACTOR].type != CLEF_ST_F32 || elements(&p->parts[FACTOR]) != 1)
        return misfit(p, FACTOR, file, "one number in F32", err);
    const float factor = clef__packed_float(&p->parts[FACTOR], 0);
    if (!(factor > 0 && factor < 3e38f))
        return misfit(p, FACTOR, file, "a number over 0", err);
    for (int64_t i = 0; i < p->n_rows * p->n_groups; i++)
        if (bytes_of(&p->parts[SCALES])[i] >= 0x7f)
            return misfit(p, SCALES, file, "numbers from 0 to 448", err);
    p->factor = p->divides ? 1 / factor : factor;
    return CLEF_OK;
}

static clef_status ct_nvfp4_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                  clef_error *err)
{
    (void)config;
    p->divides = 1;
    return nvfp4_shape(p, file, err);
}

static clef_status modelopt_nvfp4_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                        clef_error *err)
{
    (void)config;
    return nvfp4_shape(p, file, err);
}

static clef_status ct_mxfp4_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                  clef_error *err)
{
    (void)config;
    p->kind = CLEF__PACKED_MXFP4;
    return fp4_shape(p, 32, CLEF_ST_U8, file, err);
}

static const clef__packed_layout ct_nvfp4 = {
    .method = "compressed-tensors",
    .codes = ".weight_packed",
    .type = CLEF_ST_U8,
    .parts = {[SCALES] = ".weight_scale", [FACTOR] = ".weight_global_scale"},
    .ignored = {".input_global_scale", ".input_scale"},
    .shape = ct_nvfp4_shape,
    .codes_of = codes_along_rows,
    .scale = scale_by_row,
};

static const clef__packed_layout ct_mxfp4 = {
    .method = "compressed-tensors",
    .codes = ".weight_packed",
    .type = CLEF_ST_U8,
    .parts = {[SCALES] = ".weight_scale"},
    .ignored = {".input_scale"},
    .shape = ct_mxfp4_shape,
    .codes_of = codes_along_rows,
    .scale = scale_by_row,
};

static const clef__packed_layout modelopt_nvfp4 = {
    .method = "modelopt",
    .codes = ".weight",
    .type = CLEF_ST_U8,
    .parts = {[SCALES] = ".weight_scale", [FACTOR] = ".weight_scale_2"},
    .ignored = {".input_scale"},
    .shape = modelopt_nvfp4_shape,
    .codes_of = codes_along_rows,
    .scale = scale_by_row,
};

/* ---- bitsandbytes ---------------------------------------------------------------------------- */

static clef_status bnb_int8_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                  clef_error *err)
{
    const clef__packed_part *format = &p->parts[MORE];
    (void)config;
    p->bits = 8;
    p->n_rows = dim(p, 0);
    p->n_columns = dim(p, 1);
    const clef_status status = check_codes(p, file, err);
    if (status)
        return status;
    if (format->info && (format->type != CLEF_ST_U8 || elements(format) != 1 || bytes_of(format)[0] != 0))
        return misfit(p, MORE, file, "0, rows in order,", err);
    set_groups(p, 0);
    p->block_rows = 1;
    p->factor = 1.0f / 127;
    return is_float(&p->parts[SCALES]) && elements(&p->parts[SCALES]) == p->n_rows
               ? CLEF_OK
               : misfit(p, SCALES, file, "a float for each row", err);
}

/* What quant_state says, JSON in bytes. */
typedef struct nf4_state {
    int64_t block, nested_block, rows, columns;
    float offset;
} nf4_state;

static clef_status read_state(clef__packed *p, nf4_state *s, const char *file, clef_error *err)
{
    const clef__packed_part *part = &p->parts[MORE];
    json_t *root = NULL;
    const clef_status status =
        part->type == CLEF_ST_U8
            ? clef__json_parse(part->info->data, (size_t)part->info->n_bytes, part->info->name, &root, err)
            : misfit(p, MORE, file, "JSON in U8", err);
    const char *type = json_string_value(json_object_get(root, "quant_type"));
    const json_t *shape = json_object_get(root, "shape");
    s->block = json_integer_value(json_object_get(root, "blocksize"));
    s->nested_block = json_integer_value(json_object_get(root, "nested_blocksize"));
    s->offset = (float)json_number_value(json_object_get(root, "nested_offset"));
    s->rows = json_integer_value(json_array_get(shape, 0));
    s->columns = json_integer_value(json_array_get(shape, 1));
    const int is_nf4 = type && strcmp(type, "nf4") == 0 && json_array_size(shape) == 2;
    json_decref(root);
    if (status || (is_nf4 && s->block > 0 && s->block <= INT32_MAX && s->nested_block <= INT32_MAX &&
                   s->rows > 0 && s->columns > 0 && s->rows <= INT32_MAX && s->columns <= INT32_MAX))
        return status;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s: expected nf4 in blocks, with a shape", file,
                      part->info->name);
}

/* The 16 numbers must be NF4's. */
static clef_status check_map(const clef__packed *p, const char *file, clef_error *err)
{
    const clef__packed_part *map = &p->parts[ZEROS];
    const unsigned char one[20] = {0, 0, 128, 63, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    float numbers[32];
    clef_dtype_decode(CLEF_NF4_32, one, 32, numbers);
    for (int i = 0; map->info && i < 16; i++) {
        const float expected = numbers[i / 2 + i % 2 * 16];
        if (map->type != CLEF_ST_F32 || elements(map) != 16 || clef__packed_float(map, i) != expected)
            return misfit(p, ZEROS, file, "the numbers of NF4", err);
    }
    return CLEF_OK;
}

/* absmax of each block in f32; doubly quantised ones are number codes of a table times a scale, plus an
 * offset. */
static clef_status read_absmax(clef__packed *p, const nf4_state *s, const char *file, clef_error *err)
{
    const clef__packed_part *absmax = &p->parts[SCALES], *table = &p->parts[TABLE],
                            *nested = &p->parts[ABSMAX];
    const int64_t n = ceil_div(p->n_rows * p->n_columns, s->block);
    const int is_double = absmax->type == CLEF_ST_U8;
    if (elements(absmax) != n || (!is_double && absmax->type != CLEF_ST_F32))
        return misfit(p, SCALES, file, "one for each block", err);
    if (is_double && (!table->info || !nested->info || s->nested_block < 1))
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: the nested absmax of %s is missing", file, p->name);
    if (is_double && (table->type != CLEF_ST_F32 || elements(table) != 256))
        return misfit(p, TABLE, file, "256 numbers in F32", err);
    if (is_double && (nested->type != CLEF_ST_F32 || elements(nested) != ceil_div(n, s->nested_block)))
        return misfit(p, ABSMAX, file, "one for each nested block", err);
    p->own_scales = malloc((size_t)n * sizeof *p->own_scales);
    if (!p->own_scales)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the scales of %s", file, p->name);
    for (int64_t i = 0; i < n; i++) {
        p->own_scales[i] =
            clef__packed_float(is_double ? table : absmax, is_double ? bytes_of(absmax)[i] : i);
        if (!is_double)
            continue;
        p->own_scales[i] *= clef__packed_float(nested, i / s->nested_block);
        p->own_scales[i] += s->offset;
    }
    return CLEF_OK;
}

static clef_status bnb_nf4_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                                 clef_error *err)
{
    nf4_state s;
    (void)config;
    p->kind = CLEF__PACKED_NF4;
    p->bits = 4;
    clef_status status = read_state(p, &s, file, err);
    if (status)
        return status;
    p->n_rows = s.rows;
    p->n_columns = s.columns;
    if (elements(&p->parts[CODES]) != ceil_div(p->n_rows * p->n_columns, 2))
        return misfit(p, CODES, file, "two codes a byte", err);
    if (p->n_columns % s.block && (p->n_columns % 32 || s.block % 32))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: %s: blocks of %" PRId64 " in rows of %" PRId64
                          " columns, expected multiples of 32",
                          file, p->name, s.block, p->n_columns);
    set_groups(p, p->n_columns % s.block ? 32 : (int32_t)s.block);
    p->block_rows = s.block;
    status = check_map(p, file, err);
    return status ? status : read_absmax(p, &s, file, err);
}

static const clef__packed_layout bnb_int8 = {
    .method = "bitsandbytes",
    .codes = ".weight",
    .type = CLEF_ST_I8,
    .parts = {[SCALES] = ".SCB", [MORE] = ".weight_format"},
    .optional = 1u << MORE,
    .shape = bnb_int8_shape,
    .codes_of = codes_signed,
    .scale = scale_by_row,
    .zero = zero_of_rows,
};

static const clef__packed_layout bnb_nf4 = {
    .method = "bitsandbytes",
    .codes = ".weight",
    .type = CLEF_ST_U8,
    .parts = {[SCALES] = ".weight.absmax",
              [ZEROS] = ".weight.quant_map",
              [MORE] = ".weight.quant_state.bitsandbytes__nf4",
              [TABLE] = ".weight.nested_quant_map",
              [ABSMAX] = ".weight.nested_absmax"},
    .optional = 1u << ZEROS | 1u << TABLE | 1u << ABSMAX,
    .shape = bnb_nf4_shape,
    .codes_of = codes_of_nf4,
    .scale = scale_of_nf4,
};

/* ---- MLX ------------------------------------------------------------------------------------- */

static clef_status mlx_shape(clef__packed *p, const clef__packed_config *config, const char *file,
                             clef_error *err)
{
    const clef__packed_part *biases = &p->parts[ZEROS];
    p->kind = CLEF__PACKED_AFFINE;
    p->bits = config->bits;
    p->n_rows = dim(p, 0);
    p->n_columns = dim(p, 1) * 32 / p->bits;
    p->block_rows = 1;
    const clef_status status = check_codes(p, file, err);
    if (status)
        return status;
    set_groups(p, config->group);
    if (!is_float(&p->parts[SCALES]) || !is_matrix(&p->parts[SCALES], p->n_rows, p->n_groups))
        return misfit(p, SCALES, file, "floats [rows, groups]", err);
    if (biases->type != p->parts[SCALES].type || !is_matrix(biases, p->n_rows, p->n_groups))
        return misfit(p, ZEROS, file, "floats [rows, groups]", err);
    return CLEF_OK;
}

static const clef__packed_layout mlx = {
    .method = "mlx",
    .codes = ".weight",
    .type = CLEF_ST_U32,
    .parts = {[SCALES] = ".scales", [ZEROS] = ".biases"},
    .shape = mlx_shape,
    .codes_of = codes_along_rows,
    .scale = scale_by_row,
};

/* Where several have the same codes, the first whose scales are stored is taken. */
const clef__packed_layout *const clef__packed_layouts[] = {
    &gptq, &awq,          &ct_packed,      &ct_nvfp4, &ct_mxfp4, &ct_int8, &ct_fp8, &fp8_inverse,
    &fp8,  &modelopt_fp8, &modelopt_nvfp4, &bnb_nf4,  &bnb_int8, &mlx,     NULL};

/* Checking and coding numbers (model/file/floats.h). */
#include "model/file/floats.h"

#include <math.h>

#include "graph/fail.h"

enum { PIECE = 1 << 16, MOST_BLOCK = 256 };

/* More than a block with a scale of f16 can hold: 65504, times 64 for a group's scale and 64 for a code. */
#define BEYOND_ALL 2.7e8f

size_t clef__find_not_finite(const float *x, size_t n)
{
    size_t i = 0;
    while (i < n && isfinite(x[i]))
        i++;
    return i;
}

static size_t largest(const float *x, size_t n)
{
    size_t most = 0;
    for (size_t i = 1; i < n; i++)
        most = fabsf(x[i]) > fabsf(x[most]) ? i : most;
    return most;
}

size_t clef__find_not_held(clef_dtype dtype, const float *x, const void *coded, size_t n)
{
    const unsigned char *blocks = coded;
    const size_t elems = (size_t)clef_dtype_block_elems(dtype), bytes = (size_t)clef_dtype_block_bytes(dtype),
                 step = MOST_BLOCK / elems * elems;
    float back[MOST_BLOCK];
    if (dtype == CLEF_F32)
        return n;
    for (size_t at = 0; at < n; at += step) {
        const size_t m = n - at < step ? n - at : step;
        clef_dtype_decode(dtype, blocks + at / elems * bytes, m, back);
        const size_t wrong = clef__find_not_finite(back, m) / elems * elems;
        if (wrong < m) /* a block's scale is that of its largest number */
            return at + wrong + largest(x + at + wrong, elems);
        const size_t most = at + largest(x + at, m);
        if (elems > 1 && dtype != CLEF_MXFP4 && fabsf(x[most]) > BEYOND_ALL) /* sums may have overflowed */
            return most;
    }
    return n;
}

clef_status clef__not_finite(const char *name, size_t i, float x, clef_error *err)
{
    return clef__fail(err, CLEF_E_LIMIT, "%s[%zu]: expected a finite value, got %s", name, i,
                      isnan(x) ? "NaN"
                      : x > 0  ? "inf"
                               : "-inf");
}

clef_status clef__not_held(const char *name, size_t i, float x, clef_dtype dtype, clef_error *err)
{
    return clef__fail(err, CLEF_E_LIMIT, "%s[%zu]: %g is more than %s can hold, expected %s", name, i,
                      (double)x, clef_dtype_name(dtype), dtype == CLEF_BF16 ? "f32" : "f32 or bf16");
}

clef_status clef__write_floats(clef_os_file *file, const char *name, clef_dtype dtype, const float *x,
                               size_t n, clef_error *err)
{
    uint16_t halves[PIECE];
    const size_t bad = clef__find_not_finite(x, n);
    clef_status status = bad < n ? clef__not_finite(name, bad, x[bad], err) : CLEF_OK;
    if (!status && dtype == CLEF_F32)
        return clef__os_file_write(file, x, n * sizeof *x, err);
    for (size_t i = 0; i < n && !status; i += PIECE) {
        const size_t m = n - i < PIECE ? n - i : PIECE;
        clef_dtype_encode(dtype, x + i, m, halves);
        const size_t lost = clef__find_not_held(dtype, x + i, halves, m);
        if (lost < m)
            return clef__not_held(name, i + lost, x[i + lost], dtype, err);
        status = clef__os_file_write(file, halves, m * sizeof *halves, err);
    }
    return status;
}

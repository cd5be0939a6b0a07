/* Checking and coding numbers (model/file/floats.h). */
#include "model/file/floats.h"

#include <math.h>

#include "graph/fail.h"

enum { PIECE = 1 << 16 };

clef_status clef__check_floats(const char *name, clef_dtype dtype, const float *x, size_t n, clef_error *err)
{
    /* what rounds to the largest finite number of each dtype */
    const float most = dtype == CLEF_F16 ? 65519.996f : dtype == CLEF_BF16 ? 3.3961e38f : INFINITY;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return clef__fail(err, CLEF_E_LIMIT, "%s: element %zu is %g, expected finite numbers", name, i,
                              (double)x[i]);
        else if (fabsf(x[i]) > most)
            return clef__fail(err, CLEF_E_LIMIT, "%s: element %zu is %g, which %s cannot hold: expected %s",
                              name, i, (double)x[i], clef_dtype_name(dtype),
                              dtype == CLEF_F16 ? "f32 or bf16" : "f32");
    return CLEF_OK;
}

clef_status clef__write_floats(clef_os_file *file, const char *name, clef_dtype dtype, const float *x,
                               size_t n, clef_error *err)
{
    uint16_t halves[PIECE];
    clef_status status = clef__check_floats(name, dtype, x, n, err);
    if (!status && dtype == CLEF_F32)
        return clef__os_file_write(file, x, n * sizeof *x, err);
    for (size_t i = 0; i < n && !status; i += PIECE) {
        const size_t m = n - i < PIECE ? n - i : PIECE;
        clef_dtype_encode(dtype, x + i, m, halves);
        status = clef__os_file_write(file, halves, m * sizeof *halves, err);
    }
    return status;
}

/* Fuzzes importance matrices: reads a file of either form, then all that it has. */
#include <stdint.h>

#include "model/convert/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile float sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_imatrix *im;
    clef_error err;
    if (clef__imatrix_parse("fuzz", (const char *)data, n_bytes, &im, &err) != CLEF_OK)
        return 0;
    for (int32_t i = 0; i < clef_imatrix_n(im); i++) {
        const clef_imatrix_entry e = clef_imatrix_get(im, i);
        if (clef_imatrix_find(im, e.name) < 0)
            __builtin_trap();
        for (size_t k = 0; k < e.n; k++)
            sink += e.sums[k] / e.counts[k / (e.n / (size_t)e.n_matrices)];
    }
    clef_imatrix_close(im);
    return 0;
}

/* Fuzzes safetensors: parses a file, then reads every tensor in both ways. */
#include <stdint.h>
#include <stdlib.h>

#include "model/file/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_safetensors st;
    clef_error err;
    if (clef__safetensors_parse(data, n_bytes, "fuzz", &st, &err) != CLEF_OK)
        return 0;
    for (int32_t i = 0; i < st.n_tensors; i++) {
        size_t n = 1;
        for (int32_t k = 0; k < st.tensors[i].rank; k++)
            n *= (size_t)st.tensors[i].dims[k];
        void *out = malloc(4 * n + 1);
        if (out) {
            clef__safetensors_read(&st, i, CLEF_F32, out, n, &err);
            clef__safetensors_read(&st, i, CLEF_I32, out, n, &err);
        }
        free(out);
        if (clef__safetensors_find(&st, st.tensors[i].name) != i)
            abort();
    }
    clef__safetensors_close(&st);
    return 0;
}

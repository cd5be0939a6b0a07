/* Fuzzes safetensors: parses a file, then reads every tensor in both ways. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/safetensors.h"
#include "tests/fuzz/mutator.h"

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

/* Most mutations are of the header, whose length is then made right. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed)
{
    static uint8_t header[1 << 16];
    uint64_t n = 0;
    if (n_bytes >= 8)
        memcpy(&n, data, 8);
    if (seed % 8 == 0 || n == 0 || n_bytes < 8 || n > n_bytes - 8 || n > sizeof header || most < n_bytes)
        return LLVMFuzzerMutate(data, n_bytes, most);
    const size_t rest = n_bytes - 8 - n, room = most - 8 - rest;
    memcpy(header, data + 8, n);
    const uint64_t new = mutate_json(header, n, room < sizeof header ? room : sizeof header, seed);
    memmove(data + 8 + new, data + 8 + n, rest);
    memcpy(data, &new, 8);
    memcpy(data + 8, header, new);
    return 8 + new + rest;
}

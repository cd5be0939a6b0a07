/* Gives files to a fuzz target, one after the other. usage: replay_TARGET FILE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* Targets that change texts ask libFuzzer for it, which is not there. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n_bytes, size_t most)
{
    (void)data, (void)most;
    return n_bytes;
}

int main(int argc, char **argv)
{
    enum { MOST = 1 << 20 };
    static uint8_t room[MOST];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        const size_t n = file ? fread(room, 1, MOST, file) : 0;
        uint8_t *data = n ? malloc(n) : NULL; /* of its size, so that a read beyond it is found */
        if (!data)
            return 1;
        for (size_t k = 0; k < n; k++)
            data[k] = room[k];
        LLVMFuzzerTestOneInput(data, n);
        printf("ok %s\n", argv[i]);
        free(data);
        fclose(file);
    }
    return 0;
}

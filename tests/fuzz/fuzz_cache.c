/* Fuzzes files of `clef cache export`: the bytes are a file whose first line and checksum are made right. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/prove/cache_bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const char head[] = "clef cache 1\n";
    const size_t n_head = sizeof head - 1;
    clef__bundle b;
    clef_sha256 sum;
    clef_error err;
    if (n_bytes < n_head + CLEF_SHA256_BYTES)
        return 0;
    unsigned char *file = malloc(n_bytes);
    if (!file)
        return 0;
    memcpy(file, data, n_bytes);
    memcpy(file, head, n_head);
    clef__sha256_init(&sum);
    clef__sha256_add(&sum, file, n_bytes - CLEF_SHA256_BYTES);
    clef__sha256_finish(&sum, file + n_bytes - CLEF_SHA256_BYTES);
    if (clef__bundle_read("fuzz", &(clef_mapping){file, n_bytes}, &b, &err) == CLEF_OK) {
        clef_device_mark device;
        clef_cache_key key;
        for (int32_t i = 0; i < b.n; i++) {
            for (size_t k = 0; k < b.parts[i].n_bytes; k++)
                sink += b.parts[i].data[k];
            sink += (unsigned)clef__cache_entry_of(b.parts[i].data, b.parts[i].n_bytes, &device, &key);
        }
    }
    free(b.parts);
    free(file);
    return 0;
}

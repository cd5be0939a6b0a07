/* Fuzzes session files: the bytes are a file whose magic, version, length and checksum are made right. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/session/session_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const unsigned char begin[16] = {'C', 'L', 'E', 'F', 'S', 'E', 'S', 'S', SESSION_VERSION};
    session_view view;
    session_state state;
    clef_sha256 sum;
    clef_error err;
    if (n_bytes < SESSION_HEADER_BYTES + CLEF_SHA256_BYTES)
        return 0;
    unsigned char *file = malloc(n_bytes);
    if (!file)
        return 0;
    memcpy(file, data, n_bytes);
    memcpy(file, begin, sizeof begin);
    for (int i = 0; i < 8; i++)
        file[16 + i] = (unsigned char)((uint64_t)n_bytes >> 8 * i);
    clef__sha256_init(&sum);
    clef__sha256_add(&sum, file, n_bytes - CLEF_SHA256_BYTES);
    clef__sha256_finish(&sum, file + n_bytes - CLEF_SHA256_BYTES);
    if (clef__session_parse("fuzz", file, n_bytes, &view, &err) == CLEF_OK) {
        clef__session_find(&view, "history", &state);
        for (uint32_t i = 0; i < view.head.n_past; i++)
            (void)clef__session_id(view.ids, i);
    }
    free(file);
    return 0;
}

/* How well a text compresses, which tells loops from speech. */
#if CLEF_HAVE_ZLIB
#    include <stdlib.h>
#    include <zlib.h>
#endif

#include "media/speech/speech.h"

float clef__compression_ratio(const int32_t *ids, int32_t n, int32_t n_vocab)
{
#if CLEF_HAVE_ZLIB
    const size_t width = n_vocab > 1 << 16 ? 3 : n_vocab > 1 << 8 ? 2 : 1, n_bytes = width * (size_t)n;
    uLongf n_packed = compressBound((uLong)n_bytes);
    unsigned char *bytes = n ? malloc(n_bytes + n_packed) : NULL;
    if (!bytes)
        return 0;
    for (size_t i = 0; i < n_bytes; i++) /* little-endian */
        bytes[i] = (unsigned char)(ids[i / width] >> 8 * (i % width));
    const int ok = compress(bytes + n_bytes, &n_packed, bytes, (uLong)n_bytes) == Z_OK;
    free(bytes);
    return ok ? (float)n_bytes / (float)n_packed : 0;
#else
    (void)ids, (void)n, (void)n_vocab;
    return 0;
#endif
}

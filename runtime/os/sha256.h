/* SHA-256 (FIPS 180-4): keys and checksums of the program cache. */
#ifndef CLEF_RUNTIME_SHA256_H
#define CLEF_RUNTIME_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { CLEF_SHA256_BYTES = 32 };

typedef struct clef_sha256 {
    uint32_t      state[8];
    uint64_t      n_bytes;
    unsigned char block[64]; /* its first n_bytes % 64 bytes are filled */
} clef_sha256;

void clef__sha256_init(clef_sha256 *s);
void clef__sha256_add(clef_sha256 *s, const void *data, size_t n_bytes);
void clef__sha256_finish(clef_sha256 *s, unsigned char out[CLEF_SHA256_BYTES]);
/** 1 when the last CLEF_SHA256_BYTES of the data are the checksum of all before them. */
int clef__sha256_is_sealed(const void *data, size_t n_bytes);

#endif

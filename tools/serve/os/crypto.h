/* Random bytes and digests. Each system has one implementation: crypto_posix.c uses GnuTLS,
 * crypto_windows.c uses the system's own library. */
#ifndef CLEF_TOOLS_SERVE_OS_CRYPTO_H
#define CLEF_TOOLS_SERVE_OS_CRYPTO_H

#include <stddef.h>

enum { SERVE_DIGEST_BYTES = 32 };

typedef struct serve_bytes {
    const void *data; /* NULL where n is 0 */
    size_t n;
} serve_bytes;

/** Call it before anything else here, and before there are threads. Returns 0 if the system has no
 * cryptography. */
int serve_crypto_start(void);
/** Fills memory with bytes that nobody can foresee, from the system. Returns 0 if it has none. */
int serve_random_bytes(void *out, size_t n);
/** SHA-256 (FIPS 180-4). */
void serve_sha256(const void *data, size_t n, unsigned char out[SERVE_DIGEST_BYTES]);
/** HMAC-SHA-256 (RFC 2104) of the parts one after another. Returns 0 when out of memory. */
int serve_hmac(const void *key, size_t n_key, const serve_bytes *parts, int n_parts,
               unsigned char out[SERVE_DIGEST_BYTES]);
/** 1 if the bytes are the same. The time does not depend on where they differ. */
int serve_equal(const void *a, const void *b, size_t n);
/** Overwrites memory that is about to be freed. */
void serve_wipe(void *memory, size_t n);

#endif

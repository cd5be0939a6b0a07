/* Random bytes of POSIX systems, digests of GnuTLS. */
#define _GNU_SOURCE /* getentropy */
#include "tools/serve/os/crypto.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <unistd.h>
#ifdef __APPLE__
#    include <sys/random.h>
#endif

int serve_crypto_start(void)
{
    return 1;
}

/* Not gnutls_rnd(): GnuTLS 3.7 keeps 200 bytes for each thread that ever called it, and each connection has a
 * thread. */
int serve_random_bytes(void *out, size_t n)
{
    enum { MOST = 256 }; /* getentropy(3) */
    unsigned char *at = out;
    for (size_t piece; n > 0; at += piece, n -= piece) {
        piece = n < MOST ? n : MOST;
        if (getentropy(at, piece) != 0)
            return 0;
    }
    return 1;
}

void serve_sha256(const void *data, size_t n, unsigned char out[SERVE_DIGEST_BYTES])
{
    gnutls_hash_fast(GNUTLS_DIG_SHA256, data, n, out);
}

int serve_hmac(const void *key, size_t n_key, const serve_bytes *parts, int n_parts,
               unsigned char out[SERVE_DIGEST_BYTES])
{
    gnutls_hmac_hd_t h;
    int ok = 1;
    if (gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, key, n_key) < 0)
        return 0;
    for (int i = 0; i < n_parts; i++)
        ok &= parts[i].n == 0 || gnutls_hmac(h, parts[i].data, parts[i].n) >= 0;
    gnutls_hmac_deinit(h, out);
    return ok;
}

int serve_equal(const void *a, const void *b, size_t n)
{
    return gnutls_memcmp(a, b, n) == 0;
}

void serve_wipe(void *memory, size_t n)
{
    gnutls_memset(memory, 0, n);
}

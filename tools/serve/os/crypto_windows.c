/* Random bytes and digests of Windows (Cryptography API: Next Generation). */
#define WIN32_LEAN_AND_MEAN
#include "tools/serve/os/crypto.h"

#include <stdint.h>
#include <windows.h>
/* after windows.h */
#include <bcrypt.h>

static BCRYPT_ALG_HANDLE sha256, hmac_sha256; /* any thread may use them */

int serve_crypto_start(void)
{
    return BCryptOpenAlgorithmProvider(&sha256, BCRYPT_SHA256_ALGORITHM, NULL, 0) >= 0 &&
           BCryptOpenAlgorithmProvider(&hmac_sha256, BCRYPT_SHA256_ALGORITHM, NULL,
                                       BCRYPT_ALG_HANDLE_HMAC_FLAG) >= 0;
}

int serve_random_bytes(void *out, size_t n)
{
    return n <= UINT32_MAX && BCryptGenRandom(NULL, out, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG) >= 0;
}

/* The library takes at most 4 GiB at once, and changes nothing of what it reads. */
static int add(BCRYPT_HASH_HANDLE h, const void *data, size_t n)
{
    enum { PIECE = 1 << 30 };
    PUCHAR at = (PUCHAR)(uintptr_t)data;
    for (size_t piece; n > 0; at += piece, n -= piece) {
        piece = n < PIECE ? n : PIECE;
        if (BCryptHashData(h, at, (ULONG)piece, 0) < 0)
            return 0;
    }
    return 1;
}

static int digest(BCRYPT_ALG_HANDLE how, const void *key, size_t n_key, const serve_bytes *parts, int n_parts,
                  unsigned char out[SERVE_DIGEST_BYTES])
{
    BCRYPT_HASH_HANDLE h;
    if (BCryptCreateHash(how, &h, NULL, 0, (PUCHAR)(uintptr_t)key, (ULONG)n_key, 0) < 0)
        return 0;
    int ok = 1;
    for (int i = 0; ok && i < n_parts; i++)
        ok = add(h, parts[i].data, parts[i].n);
    ok = ok && BCryptFinishHash(h, out, SERVE_DIGEST_BYTES, 0) >= 0;
    BCryptDestroyHash(h);
    return ok;
}

void serve_sha256(const void *data, size_t n, unsigned char out[SERVE_DIGEST_BYTES])
{
    const serve_bytes part = {data, n};
    if (!digest(sha256, NULL, 0, &part, 1, out))
        SecureZeroMemory(out, SERVE_DIGEST_BYTES);
}

int serve_hmac(const void *key, size_t n_key, const serve_bytes *parts, int n_parts,
               unsigned char out[SERVE_DIGEST_BYTES])
{
    return digest(hmac_sha256, key, n_key, parts, n_parts, out);
}

int serve_equal(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char differ = 0;
    for (size_t i = 0; i < n; i++)
        differ = (unsigned char)(differ | (x[i] ^ y[i]));
    return differ == 0;
}

void serve_wipe(void *memory, size_t n)
{
    SecureZeroMemory(memory, n);
}

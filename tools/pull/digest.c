#include "tools/pull/digest.h"

#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHA1_HEX = 40, SHA256_HEX = 64, MOST_BYTES = 32 };

int pull_digest_is_known(const char *wanted)
{
    const size_t n = strlen(wanted);
    return (n == SHA1_HEX || n == SHA256_HEX) && strspn(wanted, "0123456789abcdef") == n;
}

int pull_digest_is_name(const char *wanted)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-";
    const size_t n = strlen(wanted);
    return n > 0 && n <= 128 && wanted[0] != '.' && strspn(wanted, letters) == n;
}

static void drop(pull_digest *d)
{
    for (int i = 0; i < 2; i++)
        if (d->hashes[i])
            gnutls_hash_deinit(d->hashes[i], NULL);
    d->hashes[0] = d->hashes[1] = NULL;
}

int pull_digest_begin(pull_digest *d, const char *wanted, uint64_t n_bytes)
{
    const int n_hashes = !pull_digest_is_known(wanted) ? 0 : strlen(wanted) == SHA256_HEX ? 1 : 2;
    char head[40];
    drop(d);
    d->wanted = wanted;
    for (int i = 0; i < n_hashes; i++) {
        gnutls_hash_hd_t hash = NULL;
        if (gnutls_hash_init(&hash, n_hashes == 1 ? GNUTLS_DIG_SHA256 : GNUTLS_DIG_SHA1) < 0) {
            drop(d);
            return 0;
        }
        d->hashes[i] = hash;
    }
    if (n_hashes == 2) /* with the NUL */
        gnutls_hash(d->hashes[0], head, (size_t)snprintf(head, sizeof head, "blob %" PRIu64, n_bytes) + 1);
    return 1;
}

void pull_digest_add(pull_digest *d, const void *data, size_t n)
{
    for (int i = 0; i < 2; i++)
        if (d->hashes[i] && n > 0)
            gnutls_hash(d->hashes[i], data, n);
}

int pull_digest_end(pull_digest *d)
{
    int is_same = !d->hashes[0];
    for (int i = 0; i < 2 && d->hashes[i]; i++) {
        unsigned char bytes[MOST_BYTES];
        char hex[SHA256_HEX + 1];
        gnutls_hash_deinit(d->hashes[i], bytes);
        d->hashes[i] = NULL;
        for (size_t k = 0; k < strlen(d->wanted) / 2; k++)
            snprintf(hex + 2 * k, 3, "%02x", bytes[k]);
        is_same |= strcmp(hex, d->wanted) == 0;
    }
    return is_same;
}

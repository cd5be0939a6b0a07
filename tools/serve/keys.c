/* API keys. */
#define _POSIX_C_SOURCE 200809L /* clocks of conditions, read-write locks, streams in memory */
#include "tools/serve/keys.h"

#include <ctype.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/serve/socket.h"

enum { DIGEST = 32, MOST_KEYS = 65536, MOST_KEY_BYTES = 4096 };

struct serve_keys {
    const char *path;
    pthread_rwlock_t lock;
    unsigned char (*digests)[DIGEST];
    int32_t n;
};

static unsigned char process_secret[DIGEST];
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;
static int has_secret;

static void make_secret(void)
{
    has_secret = serve_random_bytes(process_secret, sizeof process_secret);
}

/* Keys are compared by this: nobody outside can know which bytes of two digests are equal. */
static void digest_of(const char *key, size_t n, unsigned char out[DIGEST])
{
    pthread_once(&secret_once, make_secret);
    gnutls_hmac_fast(GNUTLS_MAC_SHA256, process_secret, sizeof process_secret, key, n, out);
}

uint64_t serve_secret_hash(const void *const *parts, const size_t *n_bytes, int32_t n)
{
    unsigned char out[DIGEST] = {0};
    gnutls_hmac_hd_t h;
    uint64_t hash = 0;
    pthread_once(&secret_once, make_secret);
    if (gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, process_secret, sizeof process_secret) < 0)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        const uint64_t size = parts[i] ? n_bytes[i] : UINT64_MAX;
        gnutls_hmac(h, &size, sizeof size);
        if (parts[i])
            gnutls_hmac(h, parts[i], n_bytes[i]);
    }
    gnutls_hmac_deinit(h, out);
    memcpy(&hash, out, sizeof hash);
    return hash;
}

void serve_policy_hash(const char *text, size_t n, char out[64])
{
    unsigned char digest[DIGEST];
    gnutls_datum_t data = {digest, sizeof digest}, base64 = {NULL, 0};
    gnutls_hash_fast(GNUTLS_DIG_SHA256, text, n, digest);
    gnutls_base64_encode2(&data, &base64);
    snprintf(out, 64, "sha256-%.*s", (int)base64.size, base64.data ? (const char *)base64.data : "");
    gnutls_free(base64.data);
}

void serve_random_letters(char *out, int32_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    for (int32_t i = 0; i < n;) {
        unsigned char bytes[32];
        if (!serve_random_bytes(bytes, sizeof bytes))
            memset(bytes, 0, sizeof bytes); /* serve_keys_open() found that the system has some */
        for (size_t k = 0; k < sizeof bytes && i < n; k++)
            if (bytes[k] < 248) /* 4 x 62: each letter is as likely */
                out[i++] = letters[bytes[k] % 62];
    }
    out[n] = '\0';
}

/* ---- reading --------------------------------------------------------------------------------- */

static int add_key(serve_keys *k, const char *key, size_t n)
{
    void *grown = realloc(k->digests, (size_t)(k->n + 1) * sizeof *k->digests);
    if (!grown)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    k->digests = grown;
    digest_of(key, n, k->digests[k->n++]);
    return CLI_GO_ON;
}

static int read_lines(serve_keys *k, const char *text)
{
    int32_t line = 0;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        const char *next = at + n + (at[n] == '\n');
        line++;
        while (n && isspace((unsigned char)at[n - 1]))
            n--;
        while (n && isspace((unsigned char)*at))
            at++, n--;
        for (size_t i = 0; i < n && *at != '#'; i++)
            if ((unsigned char)at[i] <= ' ' || (unsigned char)at[i] > '~')
                return cli_fail(CLI_FAILED,
                                "%s: line %d: a key has a character that no header can carry; expected "
                                "visible ASCII",
                                k->path, (int)line);
        if (n > MOST_KEY_BYTES || k->n == MOST_KEYS)
            return cli_fail(CLI_FAILED, "%s: line %d: expected at most %d keys of at most %d bytes", k->path,
                            (int)line, MOST_KEYS, MOST_KEY_BYTES);
        if (n && *at != '#' && add_key(k, at, n) != CLI_GO_ON)
            return CLI_FAILED;
        at = next;
    }
    return CLI_GO_ON;
}

static int read_all(serve_keys *k)
{
    const char *own = getenv("CLEF_API_KEY");
    char *text = NULL;
    size_t n = 0;
    int rc = CLI_GO_ON;
    if (own && *own)
        rc = add_key(k, own, strlen(own));
    if (rc != CLI_GO_ON || !k->path)
        return rc;
    if (!serve_file_is_private(k->path))
        return cli_fail(CLI_FAILED, "%s: others than its owner can read it: %s (chmod 600)", k->path,
                        errno ? strerror(errno) : "expected a file that only its owner reads");
    rc = cli_read_file(k->path, &text, &n);
    if (rc == CLI_GO_ON && strlen(text) != n)
        rc = cli_fail(CLI_FAILED, "%s: a NUL byte, expected a key a line", k->path);
    if (rc == CLI_GO_ON)
        rc = read_lines(k, text);
    if (text)
        gnutls_memset(text, 0, n);
    free(text);
    if (rc == CLI_GO_ON && k->n == 0)
        rc = cli_fail(CLI_FAILED, "%s: expected a key a line, it has none", k->path);
    return rc;
}

int serve_keys_open(const char *path, serve_keys **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    pthread_once(&secret_once, make_secret);
    if (!has_secret)
        return cli_fail(CLI_FAILED, "serve: the system gives no random bytes: %s", strerror(errno));
    (*out)->path = path;
    pthread_rwlock_init(&(*out)->lock, NULL);
    return read_all(*out);
}

void serve_keys_close(serve_keys *k)
{
    if (!k)
        return;
    pthread_rwlock_destroy(&k->lock);
    free(k->digests);
    free(k);
}

void serve_keys_reload(serve_keys *k)
{
    serve_keys fresh = {.path = k->path};
    if (read_all(&fresh) != CLI_GO_ON) {
        free(fresh.digests);
        return;
    }
    pthread_rwlock_wrlock(&k->lock);
    free(k->digests);
    k->digests = fresh.digests;
    k->n = fresh.n;
    pthread_rwlock_unlock(&k->lock);
}

int32_t serve_keys_count(serve_keys *k)
{
    pthread_rwlock_rdlock(&k->lock);
    const int32_t n = k->n;
    pthread_rwlock_unlock(&k->lock);
    return n;
}

int32_t serve_keys_find(serve_keys *k, const char *key, uint64_t *tenant)
{
    unsigned char own[DIGEST];
    int32_t found = 0;
    digest_of(key ? key : "", key ? strlen(key) : 0, own);
    pthread_rwlock_rdlock(&k->lock);
    for (int32_t i = 0; i < k->n; i++) /* all of them, so that the place tells nothing either */
        if (gnutls_memcmp(own, k->digests[i], DIGEST) == 0 && key)
            found = i + 1;
    pthread_rwlock_unlock(&k->lock);
    memcpy(tenant, own, sizeof *tenant);
    return found;
}

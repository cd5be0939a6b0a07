/* API keys. */
#include "tools/serve/keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/terminal.h"
#include "tools/serve/os/crypto.h"
#include "tools/serve/os/system.h"
#include "tools/serve/os/thread.h"

enum { DIGEST = SERVE_DIGEST_BYTES, MOST_KEYS = 65536, MOST_KEY_BYTES = 4096, MOST_PARTS = 8 };

struct serve_keys {
    const char *path;
    serve_lock lock;
    unsigned char (*digests)[DIGEST];
    int32_t n;
};

static unsigned char process_secret[DIGEST]; /* serve_keys_open() draws or reads it */

/* Keys are compared by this: nobody outside can know which bytes of two digests are equal. Returns 0 when out
 * of memory. */
static int digest_of(const char *key, size_t n, unsigned char out[DIGEST])
{
    const serve_bytes all = {key, n};
    return serve_hmac(process_secret, sizeof process_secret, &all, 1, out);
}

uint64_t serve_secret_hash(const void *const *parts, const size_t *n_bytes, int32_t n)
{
    unsigned char out[DIGEST];
    uint64_t hash = 0, sizes[MOST_PARTS];
    serve_bytes all[2 * MOST_PARTS];
    for (int32_t i = 0; i < n && i < MOST_PARTS; i++) {
        sizes[i] = parts[i] ? n_bytes[i] : UINT64_MAX;
        all[2 * i] = (serve_bytes){&sizes[i], sizeof sizes[i]};
        all[2 * i + 1] = (serve_bytes){parts[i], parts[i] ? n_bytes[i] : 0};
    }
    if (n > MOST_PARTS || !serve_hmac(process_secret, sizeof process_secret, all, 2 * n, out))
        return 0;
    memcpy(&hash, out, sizeof hash);
    return hash;
}

void serve_policy_hash(const char *text, size_t n, char out[64])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char digest[DIGEST + 1] = {0}; /* 11 times 3 bytes */
    char base64[(DIGEST + 1) / 3 * 4 + 1];
    size_t k = 0;
    serve_sha256(text, n, digest);
    for (size_t i = 0; i < sizeof digest; i += 3) {
        const uint32_t v = (uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 | digest[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6)
            base64[k++] = letters[v >> shift & 63];
    }
    base64[k - 1] = '='; /* for the byte beyond the digest */
    base64[k] = '\0';
    snprintf(out, 64, "sha256-%s", base64);
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
    if (!digest_of(key, n, k->digests[k->n]))
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    k->n++;
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
        return cli_fail(CLI_FAILED, "%s: others than its owner can read it: %s (%s)", k->path,
                        errno ? strerror(errno) : "expected a file that only its owner reads",
                        serve_private_advice());
    rc = cli_read_file(k->path, &text, &n);
    if (rc == CLI_GO_ON && strlen(text) != n)
        rc = cli_fail(CLI_FAILED, "%s: a NUL byte, expected a key a line", k->path);
    if (rc == CLI_GO_ON)
        rc = read_lines(k, text);
    if (text)
        serve_wipe(text, n);
    free(text);
    if (rc == CLI_GO_ON && k->n == 0)
        rc = cli_fail(CLI_FAILED, "%s: expected a key a line, it has none", k->path);
    return rc;
}

/* Takes the secret that the folder has, or gives it this one. */
static int keep_secret(const char *folder)
{
    char path[1024];
    unsigned char was[DIGEST];
    if (snprintf(path, sizeof path, "%s/secret", folder) >= (int)sizeof path)
        return cli_fail(CLI_FAILED, "serve --cache-disk: expected a path of fewer than %zu bytes",
                        sizeof path);
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(was, 1, sizeof was, file) : 0;
    if (file)
        fclose(file);
    if (n == sizeof was && !serve_file_is_private(path))
        return cli_fail(CLI_FAILED, "%s: others can read it; `%s` makes it private", path,
                        serve_private_advice());
    if (n == sizeof was) {
        memcpy(process_secret, was, sizeof was);
        return CLI_GO_ON;
    }
    file = cli_terminal_make_private(path) ? fopen(path, "wb") : NULL;
    const int is_written =
        file && fwrite(process_secret, 1, sizeof process_secret, file) == sizeof process_secret;
    if ((file && fclose(file) != 0) || !is_written)
        return cli_fail(CLI_FAILED, "%s: cannot write: %s", path, strerror(errno));
    return CLI_GO_ON;
}

int serve_keys_open(const char *path, const char *disk, serve_keys **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    if (!serve_crypto_start())
        return cli_fail(CLI_FAILED, "serve: the system's cryptography does not start");
    if (!serve_random_bytes(process_secret, sizeof process_secret))
        return cli_fail(CLI_FAILED, "serve: the system gives no random bytes: %s", strerror(errno));
    (*out)->path = path;
    serve_lock_init(&(*out)->lock);
    const int rc = disk ? keep_secret(disk) : CLI_GO_ON;
    return rc == CLI_GO_ON ? read_all(*out) : rc;
}

void serve_keys_close(serve_keys *k)
{
    if (!k)
        return;
    serve_lock_finish(&k->lock);
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
    serve_lock_take(&k->lock);
    free(k->digests);
    k->digests = fresh.digests;
    k->n = fresh.n;
    serve_lock_release(&k->lock);
}

int32_t serve_keys_count(serve_keys *k)
{
    serve_lock_take(&k->lock);
    const int32_t n = k->n;
    serve_lock_release(&k->lock);
    return n;
}

int32_t serve_keys_find(serve_keys *k, const char *key, uint64_t *tenant)
{
    unsigned char own[DIGEST] = {0};
    int32_t found = 0;
    const int known = digest_of(key ? key : "", key ? strlen(key) : 0, own);
    serve_lock_take(&k->lock);
    for (int32_t i = 0; i < k->n; i++) /* all of them, so that the place tells nothing either */
        if (serve_equal(own, k->digests[i], DIGEST) && known && key)
            found = i + 1;
    serve_lock_release(&k->lock);
    memcpy(tenant, own, sizeof *tenant);
    return found;
}

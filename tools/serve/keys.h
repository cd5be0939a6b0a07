/* API keys: kept as digests, compared in constant time. */
#ifndef CLEF_TOOLS_SERVE_KEYS_H
#define CLEF_TOOLS_SERVE_KEYS_H

#include <stddef.h>
#include <stdint.h>

typedef struct serve_keys serve_keys;

/** path NULL: only $CLEF_API_KEY. A file has a key a line; lines that begin with '#' are comments. Others
 * than its owner must not be able to read it. disk: NULL, or the folder of --cache-disk, which keeps the
 * secret that salts are hashed with, so that they are the same after a restart. CLI_GO_ON, or an exit code
 * after a message. */
int serve_keys_open(const char *path, const char *disk, serve_keys **out);
void serve_keys_close(serve_keys *keys); /* accepts NULL */
/** Reads the file again; after a message, the keys stay as they were. */
void serve_keys_reload(serve_keys *keys);
int32_t serve_keys_count(serve_keys *keys);
/** The number of the key, from 1; 0: it is none. The time does not depend on what is equal. `tenant` is a
 *  number that stands for the key, whatever its place in the file. */
int32_t serve_keys_find(serve_keys *keys, const char *key, uint64_t *tenant);

/** 64 bits that stand for the texts, which nobody outside can foresee. NULL texts are left out. */
uint64_t serve_secret_hash(const void *const *parts, const size_t *n_bytes, int32_t n);
/** "sha256-" and the digest in base64, as a Content-Security-Policy names a script. */
void serve_policy_hash(const char *text, size_t n, char out[64]);
/** n random letters and digits, and a NUL. */
void serve_random_letters(char *out, int32_t n);

#endif

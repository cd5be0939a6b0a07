/* Fuzzes the reader of requests' bodies. What jansson reads as an object is read, too, unless it has a NUL,
 * which jansson skips after a number. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/mutator.h"
#include "tools/serve/base/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static int wants(void *user, const char *name)
{
    return *name != *(const char *)user;
}

static void leaves(void *user, const char *name)
{
    (void)user, (void)name;
}

static int hold(void *user, size_t n_bytes)
{
    (void)user, (void)n_bytes;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const serve_body_opts opts = {.wants = wants, .leaves = leaves, .hold = hold, .user = "u"};
    serve_body body;
    serve_error error = {.id = SERVE_OK};
    json_t *value = n_bytes && memchr(data, '\0', n_bytes)
                        ? NULL
                        : json_loadb((const char *)data, n_bytes, JSON_ALLOW_NUL, NULL);
    char *text = malloc(n_bytes + 1);
    if (!text)
        return 0;
    if (n_bytes)
        memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    const int ok = serve_body_read(text, n_bytes, &opts, &body, &error);
    if (ok != (error.id == SERVE_OK) ||
        (json_is_object(value) && !ok && !strstr(error.message, "nest deeper")))
        abort();
    json_decref(body.root);
    json_decref(value);
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed)
{
    return mutate_json(data, n_bytes, most, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed)
{
    return cross_json(data, n_bytes, other, n_other, out, most, seed);
}

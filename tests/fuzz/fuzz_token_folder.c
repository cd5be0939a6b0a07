/* Fuzzes a folder of tokenizer files: the first byte chooses the file with the vocabulary; it and the files
 * beside it follow, with a byte 0xFF between two. Whatever opens must encode and decode a fixed text. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tokenizer.h"

enum { PATH_BYTES = 256 };

static char folder[64];

static void name_file(const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

/* Writes bytes up to the next 0xFF; an empty file is left out. Returns what follows. */
static size_t write_part(const char *name, const uint8_t *data, size_t n, size_t at)
{
    const uint8_t *end = at < n ? memchr(data + at, 0xFF, n - at) : NULL;
    const size_t stop = end ? (size_t)(end - data) : n;
    char path[PATH_BYTES];
    name_file(name, path);
    remove(path);
    if (stop > at) {
        FILE *file = fopen(path, "wb");
        if (file) {
            fwrite(data + at, 1, stop - at, file);
            fclose(file);
        }
    }
    return end ? stop + 1 : n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const vocabularies[] = {"tokenizer.json", "tokenizer.model", "spiece.model",
                                               "vocab.json", "vocab.txt"};
    static const char *const beside[] = {"tokenizer_config.json", "config.json", "special_tokens_map.json",
                                         "added_tokens.json", "merges.txt"};
    static const char text[] = "Hello  it's <s>12 \xC3\xA9 \xF0\x9F\xA6\x99 \xE2\x96\x81\xFF x .";
    char path[PATH_BYTES], *back = NULL;
    clef_tokenizer *tok = NULL;
    int32_t *ids = NULL, n_ids = 0;
    size_t at = 1, n_back = 0;
    if (!folder[0])
        snprintf(folder, sizeof folder, "%s/clef-fuzz-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (strstr(folder, "XXXXXX") && !mkdtemp(folder))
        abort();
    if (n == 0)
        return 0;
    at = write_part(vocabularies[data[0] % 5], data, n, at);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        at = write_part(beside[i], data, n, at);
    if (clef_tokenizer_open(folder, &tok, NULL) == CLEF_OK) {
        if (clef_tokenizer_encode(tok, text, sizeof text - 1, CLEF_SPECIAL_ADD, &ids, &n_ids, NULL) ==
            CLEF_OK)
            clef_tokenizer_decode(tok, ids, n_ids, &back, &n_back, NULL);
        clef_tokens_free(ids);
        clef_text_free(back);
    }
    clef_tokenizer_close(tok);
    name_file(vocabularies[data[0] % 5], path);
    remove(path);
    return 0;
}

/* The digest of a tokenizer: files of tokens are kept under it. */
#include <stdlib.h>
#include <string.h>

#include "model/file/gguf.h"
#include "model/tokenizer/read/formats.h"
#include "runtime/os/os.h"
#include "runtime/os/sha256.h"

static const char *base_name(const char *path)
{
    const char *name = path;
    for (const char *c = path; *c; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    return name;
}

/* The name counts: it decides the reader, and a tiktoken file's regex. */
static clef_status add_file(clef_sha256 *s, const char *path, clef_error *err)
{
    char *data;
    size_t n;
    const clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &data, &n, err);
    if (st)
        return st;
    const uint64_t length = n;
    clef__sha256_add(s, base_name(path), strlen(base_name(path)) + 1);
    clef__sha256_add(s, &length, sizeof length);
    clef__sha256_add(s, data, n);
    free(data);
    return CLEF_OK;
}

/* All that is before the first tensor's data. */
static clef_status add_gguf(clef_sha256 *s, const char *path, clef_error *err)
{
    clef_gguf gguf;
    const clef_status st = clef__gguf_open(path, &gguf, err);
    if (st)
        return st;
    const char *begin = gguf.file.data, *end = begin + gguf.file.n_bytes;
    for (uint64_t i = 0; i < gguf.n_tensors; i++)
        if (gguf.tensors[i].data && (const char *)gguf.tensors[i].data < end)
            end = gguf.tensors[i].data;
    clef__sha256_add(s, begin, (size_t)(end - begin));
    clef__gguf_close(&gguf);
    return CLEF_OK;
}

static int is_gguf(const char *path)
{
    clef_mapping file;
    if (clef__os_map(path, &file, NULL))
        return 0;
    const int is = file.n_bytes >= 4 && memcmp(file.data, "GGUF", 4) == 0;
    clef__os_unmap(&file);
    return is;
}

clef_status clef__tokenizer_digest(const clef_tokenizer *tok, unsigned char out[32], clef_error *err)
{
    char vocab[CLEF_TOKENIZER_PATH], merges[CLEF_TOKENIZER_PATH];
    clef_sha256 s;
    if (!tok->file)
        return clef__fail(err, CLEF_E_NOT_FOUND, "tokenizer: it was not read from a file");
    clef__sha256_init(&s);
    clef__sha256_add(&s, &tok->stages.bert, sizeof tok->stages.bert); /* from the files beside vocab.txt */
    clef__sha256_add(&s, tok->beside, sizeof tok->beside);
    clef_status st;
    const char *name = base_name(tok->file);
    if (strcmp(name, "vocab.json") == 0 || strcmp(name, "merges.txt") == 0) {
        st = clef__beside(tok->file, "vocab.json", vocab, sizeof vocab, err);
        if (st == CLEF_OK)
            st = clef__beside(tok->file, "merges.txt", merges, sizeof merges, err);
        if (st == CLEF_OK)
            st = add_file(&s, vocab, err);
        if (st == CLEF_OK)
            st = add_file(&s, merges, err);
    } else {
        st = is_gguf(tok->file) ? add_gguf(&s, tok->file, err) : add_file(&s, tok->file, err);
    }
    clef__sha256_finish(&s, out);
    return st;
}

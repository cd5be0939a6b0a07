/* Fuzzes the readers of tokenizers: the bytes are a tokenizer.json, a SentencePiece model, tiktoken's lines
 * and a GGUF file. Whatever opens must encode and decode a fixed text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "model/file/gguf.h"
#include "model/tokenizer/read/formats.h"

static void use_tokenizer(const clef_tokenizer *tok)
{
    static const char text[] =
        "Hello  it's\n\t <s>12345 \xC3\xA9\xCC\x81 \xF0\x9F\xA6\x99 \xE2\x96\x81\xFF x";
    clef_encoded pair;
    char *back = NULL;
    size_t n_back = 0;
    if (clef_tokenizer_encode_pair(tok, text, sizeof text - 1, text, 5, &(clef_encode_opts){.max_tokens = 40},
                                   &pair, NULL) == CLEF_OK)
        clef_tokenizer_decode(tok, pair.ids, pair.n, &back, &n_back, NULL);
    clef_encoded_finish(&pair);
    clef_text_free(back);
}

static clef_status read_gguf(clef_tokenizer *tok, const void *data, size_t n, const char *name,
                             clef_error *err)
{
    clef_gguf gguf;
    clef_status st = clef__gguf_parse(data, n, name, &gguf, err);
    if (st)
        return st;
    st = clef__tokenizer_parse_gguf(tok, &gguf, name, err);
    clef__gguf_close(&gguf);
    return st;
}

static clef_status read_json(clef_tokenizer *tok, const void *data, size_t n, const char *name,
                             clef_error *err)
{
    return clef__tokenizer_parse_json(tok, data, n, name, err);
}

static clef_status read_tiktoken(clef_tokenizer *tok, const void *data, size_t n, const char *name,
                                 clef_error *err)
{
    (void)name;
    return clef__tokenizer_parse_tiktoken(tok, data, n, "cl100k_fuzz", err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static clef_status (*const readers[])(clef_tokenizer *, const void *, size_t, const char *,
                                          clef_error *) = {read_json, clef__tokenizer_parse_spm,
                                                           read_tiktoken, read_gguf};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        clef_tokenizer *tok = clef__tokenizer_new();
        clef_error err;
        if (tok && readers[i](tok, data, n, "fuzz", &err) == CLEF_OK)
            use_tokenizer(tok);
        clef_tokenizer_close(tok);
    }
    return 0;
}

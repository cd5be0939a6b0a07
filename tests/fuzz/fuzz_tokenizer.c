/* Bytes as a tokenizer.json, and as a SentencePiece model: whatever opens must encode and decode a fixed text. */
#include <stddef.h>
#include <stdint.h>

#include "model/tokenizer.h"

static void use(const clef_tokenizer *tok)
{
    static const char text[] = "Hello  it's\n\t <s>12345 \xC3\xA9\xCC\x81 \xF0\x9F\xA6\x99 \xE2\x96\x81\xFF x";
    int32_t *ids = NULL, n = 0;
    char *back = NULL;
    size_t n_back = 0;
    if (clef_tokenizer_encode(tok, text, sizeof text - 1, CLEF_SPECIAL_ADD, &ids, &n, NULL) == CLEF_OK)
        clef_tokenizer_decode(tok, ids, n, &back, &n_back, NULL);
    clef_tokens_free(ids);
    clef_text_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    clef_tokenizer *json = clef__tokenizer_new(), *spm = clef__tokenizer_new();
    clef_error err;
    if (json && clef__tokenizer_parse_json(json, (const char *)data, n, "fuzz", &err) == CLEF_OK)
        use(json);
    if (spm && clef__tokenizer_parse_spm(spm, data, n, "fuzz", &err) == CLEF_OK)
        use(spm);
    clef_tokenizer_close(json);
    clef_tokenizer_close(spm);
    return 0;
}

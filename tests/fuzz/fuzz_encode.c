/* Fuzzes encoding: the bytes are a text for small tokenizers of each kind. Encoding must succeed, and the
 * pieces of a stream must be complete characters that add up to the decoded text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/read/formats.h"

#define MARK "\xE2\x96\x81"
#define ADDED                                                                                                \
    "\"added_tokens\":[{\"id\":9,\"content\":\"<|x|>\",\"special\":true},{\"id\":10,\"content\":\" "         \
    "y\",\"lstrip\":true,\"rstrip\":true}]"

static const char *const jsons[] = {
    "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":"
    "\"ByteLevel\"}," ADDED ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u00c3\":3,"
    "\"\\u00a9\":4,\"\\u00c3\\u00a9\":5,\"\\u0120\":6},"
    "\"merges\":[\"a b\",\"\\u00c3 \\u00a9\"]}}",
    "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK
    "\"},\"decoder\":{\"type\":\"ByteFallback\"}," ADDED
    ",\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"?\",\"vocab\":{\"?"
    "\":0,\"a\":1,\"b\":2,\"ab\":3,"
    "\"" MARK "\":4,\"<0xC3>\":5,\"<0xA9>\":6,\"<0x0A>\":7},\"merges\":[\"a b\"]}}",
    "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"decoder\":{\"type\":\"WordPiece\"}"
    "," ADDED ",\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"##b\":2,"
    "\"##c\":3,\"ab\":4,\".\":5}}}",
    "{\"normalizer\":{\"type\":\"NFKD\"},\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"decoder\":{\"type\":"
    "\"Metaspace\"}," ADDED ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"" MARK
    "\",-2],[\"a\",-3],[\"b\",-3.5],[\"ab\",-4],"
    "[\"" MARK "a\",-3.2],[\"bab\",-5]]}}",
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\d{1,3}(?=(?:\\\\d{3})*\\\\b)\"},"
    "\"behavior\":\"Isolated\"}," ADDED
    ",\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"1\":1,\"111\":2}}}",
};

enum { N_TOKENIZERS = sizeof jsons / sizeof *jsons };

static void check_stream(const clef_tokenizer *tok, const int32_t *ids, int32_t n)
{
    clef_stream stream = {.tok = tok};
    char *text = NULL, piece[CLEF_MAX_PIECE];
    size_t n_text = 0, done = 0, size;
    if (clef_tokenizer_decode(tok, ids, n, &text, &n_text, NULL) != CLEF_OK)
        abort();
    for (int32_t i = 0; i <= n; i++) {
        const clef_status st = i < n ? clef_stream_push(&stream, ids[i], piece, sizeof piece, &size, NULL)
                                     : clef_stream_finish(&stream, piece, sizeof piece, &size, NULL);
        if (st || !clef__utf8_valid(piece, size) || size > n_text - done ||
            memcmp(piece, text + done, size) != 0)
            abort();
        done += size;
    }
    if (done != n_text)
        abort();
    clef_text_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static clef_tokenizer *toks[N_TOKENIZERS];
    for (size_t i = 0; i < N_TOKENIZERS; i++) {
        int32_t *ids = NULL, n_ids = 0;
        clef_error err;
        if (!toks[i] &&
            (!(toks[i] = clef__tokenizer_new()) ||
             clef__tokenizer_parse_json(toks[i], jsons[i], strlen(jsons[i]), "fuzz", &err) != CLEF_OK))
            abort();
        if (clef_tokenizer_encode(toks[i], (const char *)data, n, CLEF_SPECIAL_NONE, &ids, &n_ids, &err) !=
            CLEF_OK)
            abort();
        check_stream(toks[i], ids, n_ids);
        clef_tokens_free(ids);
    }
    return 0;
}

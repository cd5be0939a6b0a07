/* What the tests of tokenizers share: parts of small tokenizer.json files, and exact checks of ids and
 * texts. Define TEST_NAME as for files.h. */
#ifndef CLEF_TESTS_TOKENIZERS_H
#define CLEF_TESTS_TOKENIZERS_H

#include "tests/files.h"

#include <stdlib.h>
#include <string.h>

#include "clef/tokenizer.h"
#include "model/file/utf8.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

#define META_SPACE "\xE2\x96\x81" /* U+2581 */

/* ---- small tokenizer.json files */

/* Like GPT-2's: a space is \u0120, a newline \u010a, the bytes of U+00E9 are \u00c3 and \u00a9. */
#define BYTE_VOCAB                                                                                           \
    "{\"a\":0,\"b\":1,\"c\":2,\"\\u0120\":3,\"\\u00c3\":4,\"\\u00a9\":5,\"ab\":6,\"\\u0120a\":7,\"abc\":8,"  \
    "\"\\u010a\":9,\"<|end|>\":10,\"1\":11}"
#define BYTE_MODEL "{\"type\":\"BPE\",\"vocab\":" BYTE_VOCAB ",\"merges\":[\"a b\",\"\\u0120 a\",\"ab c\"]}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define BYTE_ADDED "[{\"id\":10,\"content\":\"<|end|>\",\"special\":true,\"normalized\":false}]"

/* Like Llama's. */
#define SPACE_VOCAB                                                                                          \
    "{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"" META_SPACE "\":3,\"a\":4,\"b\":5,\"" META_SPACE                   \
    "a\":6,\"<0xC3>\":7,\"<0xA9>\":8,\"<0x0A>\":9}"
#define SPACE_MODEL                                                                                          \
    "{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\","                    \
    "\"vocab\":" SPACE_VOCAB ",\"merges\":[[\"" META_SPACE "\",\"a\"]]}"
#define SPACE_NORMALIZER                                                                                     \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" META_SPACE                \
    "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":"                                                     \
    "\" \"},\"content\":\"" META_SPACE "\"}]}"
#define SPACE_DECODER                                                                                        \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" META_SPACE       \
    "\"},\"content\":\" \"},{\"type\":"                                                                      \
    "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define SPACE_ADDED                                                                                          \
    "[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":true},{"   \
    "\"id\":2,\"content\":\"</s>\","                                                                         \
    "\"special\":true}]"
#define TEMPLATE                                                                                             \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{"       \
    "\"id\":\"A\"}}],"                                                                                       \
    "\"special_tokens\":{\"<s>\":{\"ids\":[1]}}}"

#define ROOT(normalizer, pre, model, decoder, post, added)                                                   \
    "{\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre ",\"model\":" model ",\"decoder\":" decoder      \
    ",\"post_processor\":" post ",\"added_tokens\":" added "}"

#define BYTE_JSON ROOT("null", BYTE_LEVEL, BYTE_MODEL, BYTE_LEVEL, BYTE_LEVEL, BYTE_ADDED)
#define SPACE_JSON ROOT(SPACE_NORMALIZER, "null", SPACE_MODEL, SPACE_DECODER, TEMPLATE, SPACE_ADDED)

/* A file with one stage of a kind, and nothing else of note. */
#define SPLIT(pattern, behavior, more)                                                                       \
    "{\"type\":\"Split\",\"pattern\":{" pattern "},\"behavior\":\"" behavior "\"" more "}"
#define PRE(first)                                                                                           \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" first                                                       \
    ",{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"
#define META(more) "{\"type\":\"Metaspace\",\"replacement\":\"" META_SPACE "\"" more "}"
#define BYTE_ROOT(pre, model, added) ROOT("null", pre, model, "null", "null", added)
#define MODEL(vocab, merges)                                                                                 \
    BYTE_ROOT("null", "{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}", "[]")
#define NORMAL(normalizer) ROOT(normalizer, "null", BYTE_MODEL, "null", "null", "[]")

static inline clef_status open_json(const char *text, clef_tokenizer **out, clef_error *err)
{
    const char *path = temp_path("tokenizer.json");
    write_text(path, text);
    const clef_status st = clef_tokenizer_open(path, out, err);
    clef__os_remove(path);
    return st;
}

static inline clef_tokenizer *must_open_json(const char *text)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    if (open_json(text, &tok, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    return tok;
}

/* Checks the ids of a text, given as "8 3 6". */
static inline void check_ids(const clef_tokenizer *tok, const char *text, size_t n_text, clef_special special,
                             const char *wanted)
{
    int32_t *ids = NULL, n = -1;
    clef_error err = {0};
    char *copy = exact(text, n_text);
    if (clef_tokenizer_encode(tok, copy, n_text, special, &ids, &n, &err) != CLEF_OK)
        fail_msg("\"%s\": %s", text, err.text);
    free(copy);
    char *end;
    int32_t i = 0;
    for (const char *at = wanted;; at = end, i++) {
        const long id = strtol(at, &end, 10);
        if (end == at)
            break;
        if (i >= n || ids[i] != id)
            fail_msg("\"%s\": id %d is %d, expected %ld of %s", text, i, i < n ? ids[i] : -1, id, wanted);
    }
    if (i != n)
        fail_msg("\"%s\": %d ids, expected %s", text, n, wanted);
    assert_true(n > 0 || ids == NULL);
    clef_tokens_free(ids);
}

/* Checks that the ids decode to a text, at once and as a stream whose pieces are complete characters. */
static inline void check_text(const clef_tokenizer *tok, const int32_t *ids, int32_t n, const char *wanted,
                              size_t n_wanted)
{
    clef_error err = {0};
    clef_stream stream = {.tok = tok};
    char *text = NULL, *pieces = malloc((size_t)(n + 1) * CLEF_MAX_PIECE);
    size_t n_text = 0, n_pieces = 0, size;
    assert_non_null(pieces);
    if (clef_tokenizer_decode(tok, ids, n, &text, &n_text, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    if (n_text != n_wanted || memcmp(text, wanted, n_text) != 0)
        fail_msg("\"%s\" (%zu bytes), expected \"%s\" (%zu)", text, n_text, wanted, n_wanted);
    for (int32_t i = 0; i <= n; i++) {
        char *to = pieces + n_pieces;
        assert_int_equal(i < n ? clef_stream_push(&stream, ids[i], to, CLEF_MAX_PIECE, &size, &err)
                               : clef_stream_finish(&stream, to, CLEF_MAX_PIECE, &size, &err),
                         CLEF_OK);
        assert_true(clef__utf8_valid(to, size));
        n_pieces += size;
    }
    assert_int_equal(n_pieces, n_text);
    assert_memory_equal(pieces, text, n_text);
    clef_text_free(text);
    free(pieces);
}

#define IDS(tok, text, wanted) check_ids(tok, text, sizeof(text) - 1, CLEF_SPECIAL_NONE, wanted)
#define WITH_SPECIAL(tok, text, wanted) check_ids(tok, text, sizeof(text) - 1, CLEF_SPECIAL_ADD, wanted)
#define TEXT(tok, wanted, ...)                                                                               \
    check_text(tok, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4, wanted,      \
               sizeof(wanted) - 1)

#endif

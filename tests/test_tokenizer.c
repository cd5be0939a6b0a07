/* Tokenizers: exact ids, texts and statuses, on small ones made here, on the bundled model's, and on real ones where the shared data is. */
#define TEST_NAME "test-tokenizer"
#include "tests/files.h"

#include <jansson.h>
#include <math.h>

#include "clef/tokenizer.h"
#include "model/tokenizer.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

#define MARK "\xE2\x96\x81" /* U+2581 */

/* ---- small tokenizer.json files ---------------------------------------------------------------------------------------------------- */

/* A GPT-2-like one: a space is \u0120, a newline \u010a, the bytes of U+00E9 are \u00c3 and \u00a9. */
#define BYTE_VOCAB                                                                                                                         \
    "{\"a\":0,\"b\":1,\"c\":2,\"\\u0120\":3,\"\\u00c3\":4,\"\\u00a9\":5,\"ab\":6,\"\\u0120a\":7,\"abc\":8,\"\\u010a\":9,\"1\":11}"
#define BYTE_MODEL "{\"type\":\"BPE\",\"vocab\":" BYTE_VOCAB ",\"merges\":[\"a b\",\"\\u0120 a\",\"ab c\"]}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define BYTE_ADDED "[{\"id\":10,\"content\":\"<|end|>\",\"special\":true,\"normalized\":false}]"

/* A Llama-like one. */
#define SPACE_VOCAB                                                                                                                        \
    "{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"" MARK "\":3,\"a\":4,\"b\":5,\"" MARK "a\":6,\"<0xC3>\":7,\"<0xA9>\":8,\"<0x0A>\":9}"
#define SPACE_MODEL                                                                                                                        \
    "{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\",\"vocab\":" SPACE_VOCAB ",\"merges\":[[\"" MARK    \
    "\",\"a\"]]}"
#define SPACE_NORMALIZER                                                                                                                   \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK                                                    \
    "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":"                                                                                   \
    "\" \"},\"content\":\"" MARK "\"}]}"
#define SPACE_DECODER                                                                                                                      \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"},{\"type\":"       \
    "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define SPACE_ADDED                                                                                                                        \
    "[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":\"</s>\","   \
    "\"special\":true}]"
#define TEMPLATE                                                                                                                           \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"                     \
    "\"special_tokens\":{\"<s>\":{\"ids\":[1]}}}"

#define ROOT(normalizer, pre, model, decoder, post, added)                                                                                 \
    "{\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre ",\"model\":" model ",\"decoder\":" decoder ",\"post_processor\":" post        \
    ",\"added_tokens\":" added "}"

static const char byte_json[] = ROOT("null", BYTE_LEVEL, BYTE_MODEL, BYTE_LEVEL, BYTE_LEVEL, BYTE_ADDED);
static const char space_json[] = ROOT(SPACE_NORMALIZER, "null", SPACE_MODEL, SPACE_DECODER, TEMPLATE, SPACE_ADDED);

static clef_status open_json(const char *text, clef_tokenizer **out, clef_error *err)
{
    const char *path = temp_path("tokenizer.json");
    write_text(path, text);
    const clef_status st = clef_tokenizer_open(path, out, err);
    clef__os_remove(path);
    return st;
}

static clef_tokenizer *must_open_json(const char *text)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    if (open_json(text, &tok, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    return tok;
}

/* `ids` as numbers in text: "8 3 6". */
static void check_ids(const clef_tokenizer *tok, const char *text, size_t n_text, clef_special special, const char *wanted)
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
            fail_msg("\"%s\": id %d is %d, wanted %ld of %s", text, i, i < n ? ids[i] : -1, id, wanted);
    }
    if (i != n)
        fail_msg("\"%s\": %d ids, wanted %s", text, n, wanted);
    assert_true(n > 0 || ids == NULL);
    clef_tokens_free(ids);
}

static void check_text(const clef_tokenizer *tok, const int32_t *ids, int32_t n, const char *wanted)
{
    clef_error err = {0};
    clef_stream stream = {.tok = tok};
    char *text = NULL, pieces[2 * CLEF_MAX_PIECE];
    size_t n_text = 0, n_pieces = 0, size;
    if (clef_tokenizer_decode(tok, ids, n, &text, &n_text, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    assert_string_equal(text, wanted);
    assert_int_equal(n_text, strlen(wanted));
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(clef_stream_push(&stream, ids[i], pieces + n_pieces, CLEF_MAX_PIECE, &size, &err), CLEF_OK);
        n_pieces += size;
    }
    assert_int_equal(clef_stream_finish(&stream, pieces + n_pieces, CLEF_MAX_PIECE, &size, &err), CLEF_OK);
    assert_int_equal(n_pieces + size, n_text);
    assert_memory_equal(pieces, text, n_text);
    clef_text_free(text);
}

#define IDS(tok, text, wanted) check_ids(tok, text, sizeof(text) - 1, CLEF_SPECIAL_NONE, wanted)
#define MARKED(tok, text, wanted) check_ids(tok, text, sizeof(text) - 1, CLEF_SPECIAL_ADD, wanted)
#define TEXT(tok, wanted, ...) check_text(tok, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4, wanted)

static void test_byte_level(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(byte_json);
    assert_int_equal(clef_tokenizer_n_tokens(tok), 12);
    assert_int_equal(clef_tokenizer_bos(tok), -1);
    assert_int_equal(clef_tokenizer_eos(tok), -1);
    IDS(tok, "", "");
    MARKED(tok, "", "");
    IDS(tok, "abc ab\n", "8 3 6 9");
    IDS(tok, " a", "7");
    IDS(tok, "a1b", "0 11 1");
    IDS(tok, "\xC3\xA9", "4 5");
    IDS(tok, "axb", "6"); /* x has no token and no <unk>: it vanishes, and its neighbours merge, as in Hugging Face */
    IDS(tok, "ab<|end|>c", "6 10 2");
    IDS(tok, "ab<|end|", "6");
    IDS(tok, "a\0b", "0 1");
    TEXT(tok, "abc ab\n", 8, 3, 6, 9);
    TEXT(tok, "\xC3\xA9", 4, 5);
    TEXT(tok, "\xEF\xBF\xBD", 4);
    TEXT(tok,
         "a\xEF\xBF\xBD"
         "b",
         0, 4, 1);
    TEXT(tok, "ab", 0, 10, 1); /* special tokens are left out */
    clef_tokenizer_close(tok);
}

static void test_byte_fallback(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(space_json);
    assert_int_equal(clef_tokenizer_bos(tok), 1);
    assert_int_equal(clef_tokenizer_eos(tok), 2);
    MARKED(tok, "", "1");
    MARKED(tok, "a b", "1 6 3 5");
    IDS(tok, "a b", "6 3 5");
    IDS(tok, "\xC3\xA9", "3 7 8");
    IDS(tok, "\n", "3 9");
    IDS(tok, "zz", "3 0");
    IDS(tok, "azzb", "6 0 5");
    IDS(tok, "a</s>b", "6 2 3 5");
    IDS(tok, "\xFF", "3 0"); /* U+FFFD */
    TEXT(tok, "a b", 1, 6, 3, 5, 2);
    TEXT(tok, " b", 3, 3, 5);
    TEXT(tok, "\xC3\xA9", 3, 7, 8);
    TEXT(tok, "\xEF\xBF\xBD\xEF\xBF\xBD", 7, 7);
    TEXT(tok, "", 3);
    clef_tokenizer_close(tok);
}

static void test_stream(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(byte_json);
    clef_stream stream = {.tok = tok};
    clef_error err = {0};
    char out[8];
    size_t n = 9;
    assert_int_equal(clef_stream_push(&stream, 4, out, sizeof out, &n, &err), CLEF_OK);
    assert_int_equal(n, 0);
    assert_int_equal(clef_stream_push(&stream, 5, out, 1, &n, &err), CLEF_E_LIMIT);
    assert_int_equal(clef_stream_push(&stream, 5, out, sizeof out, &n, &err), CLEF_OK); /* nothing was lost */
    assert_int_equal(n, 2);
    assert_memory_equal(out, "\xC3\xA9", 2);
    assert_int_equal(clef_stream_push(&stream, 4, out, sizeof out, &n, &err), CLEF_OK);
    assert_int_equal(clef_stream_finish(&stream, out, 2, &n, &err), CLEF_E_LIMIT);
    assert_int_equal(clef_stream_finish(&stream, out, sizeof out, &n, &err), CLEF_OK);
    assert_int_equal(n, 3);
    assert_int_equal(clef_stream_finish(&stream, out, sizeof out, &n, &err), CLEF_OK);
    assert_int_equal(n, 0);
    assert_int_equal(clef_stream_push(&stream, -1, out, sizeof out, &n, &err), CLEF_E_ARG);
    assert_int_equal(clef_stream_push(&stream, 12, out, sizeof out, &n, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "id 12 is outside the vocabulary of 12"));
    assert_int_equal(clef_stream_push(&(clef_stream){0}, 0, out, sizeof out, &n, &err), CLEF_E_ARG);
    assert_int_equal(clef_stream_push(&(clef_stream){.tok = tok, .n_pending = 9}, 0, out, sizeof out, &n, &err), CLEF_E_ARG);
    clef_tokenizer_close(tok);
}

static void test_arguments(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(byte_json), *none = tok;
    int32_t *ids = NULL, n = 0;
    char *text = NULL;
    clef_error err = {0};
    assert_int_equal(clef_tokenizer_open(NULL, &none, &err), CLEF_E_ARG);
    assert_null(none);
    assert_int_equal(clef_tokenizer_open("x", NULL, &err), CLEF_E_ARG);
    assert_int_equal(clef_tokenizer_encode(NULL, "a", 1, CLEF_SPECIAL_NONE, &ids, &n, &err), CLEF_E_ARG);
    assert_int_equal(clef_tokenizer_encode(tok, NULL, 1, CLEF_SPECIAL_NONE, &ids, &n, &err), CLEF_E_ARG);
    assert_int_equal(clef_tokenizer_encode(tok, NULL, 0, CLEF_SPECIAL_NONE, &ids, &n, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_decode(tok, (const int32_t[]){0, 99}, 2, &text, NULL, &err), CLEF_E_ARG);
    assert_null(text);
    assert_int_equal(clef_tokenizer_decode(tok, NULL, 0, &text, NULL, &err), CLEF_OK);
    assert_string_equal(text, "");
    clef_text_free(text);
    clef_tokenizer_close(tok);
    clef_tokenizer_close(NULL);
    assert_int_equal(clef_tokenizer_n_tokens(NULL), 0);
}

/* ---- stages: one tokenizer a row, with the byte model ------------------------------------------------------------------------------- */

#define SPLIT(pattern, behavior, more) "{\"type\":\"Split\",\"pattern\":{" pattern "},\"behavior\":\"" behavior "\"" more "}"
#define PRE(first)                                                                                                                         \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" first ",{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"

static const struct {
    const char *normalizer, *pre, *text, *ids;
} stages[] = {
    {"null", PRE(SPLIT("\"Regex\":\"b\"", "Isolated", "")), "abcab", "0 1 2 0 1"},
    {"null", PRE(SPLIT("\"Regex\":\"b\"", "Removed", "")), "abcab", "0 2 0"},
    {"null", PRE(SPLIT("\"String\":\"b\"", "MergedWithPrevious", "")), "abcab", "6 2 6"},
    {"null", PRE(SPLIT("\"String\":\"a\"", "MergedWithNext", "")), "babc", "1 8"},
    {"null", PRE(SPLIT("\"String\":\"a\"", "MergedWithNext", "")), "bca", "1 2 0"},
    {"null", PRE(SPLIT("\"Regex\":\"[ab]\"", "Contiguous", "")), "abcab", "6 2 6"},
    {"null", PRE(SPLIT("\"Regex\":\"[ab]+\"", "Removed", ",\"invert\":true")), "abcab", "6 6"},
    {"null", PRE(SPLIT("\"Regex\":\"(?=b)\"", "Isolated", "")), "ab", "0 1"},
    {"null", PRE(SPLIT("\"Regex\":\"\\\\s\"", "Removed", "")),
     "a b\xE1\xA0\x8E"
     "c",
     "0 1 2"}, /* U+180E is no space */
    {"null", PRE("{\"type\":\"Digits\",\"individual_digits\":true}"), "ab1", "6 11"},
    {"null", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", "ab", "3 6"},
    {"null", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", " ab", "3 6"},
    {"{\"type\":\"NFC\"}", BYTE_LEVEL, "e\xCC\x81", "4 5"},
    {"{\"type\":\"NFD\"}", BYTE_LEVEL, "\xC3\xA9", ""},
    {"{\"type\":\"NFKC\"}", BYTE_LEVEL, "\xEF\xBD\x81\xEF\xBD\x82", "6"},
    {"{\"type\":\"NFKD\"}", BYTE_LEVEL, "\xE2\x91\xA0", "11"},
    {"{\"type\":\"Lowercase\"}", BYTE_LEVEL, "AB\xC3\x89", "6 4 5"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", BYTE_LEVEL, " \n ab\xC2\xA0", "6"},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", BYTE_LEVEL, " a\n", "7"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":\"b\"}", BYTE_LEVEL, "axxxc", "8"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"xx\"},\"content\":\"\"}", BYTE_LEVEL, "axxb", "6"},
    {"{\"type\":\"Prepend\",\"prepend\":\"a\"}", BYTE_LEVEL, "b", "6"},
};

static void test_stages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        char json[4096];
        snprintf(json, sizeof json, ROOT("%s", "%s", "%s", BYTE_LEVEL, "null", "[]"), stages[i].normalizer, stages[i].pre, BYTE_MODEL);
        clef_tokenizer *tok = must_open_json(json);
        check_ids(tok, stages[i].text, strlen(stages[i].text), CLEF_SPECIAL_NONE, stages[i].ids);
        clef_tokenizer_close(tok);
    }
}

#define META(more) "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\"" more "}"

static const struct {
    const char *metaspace, *text, *ids;
} metaspaces[] = {
    {META(",\"prepend_scheme\":\"always\""), "a a</s>a", "6 6 2 6"},
    {META(",\"prepend_scheme\":\"first\""), "a a</s>a", "6 6 2 4"},
    {META(",\"prepend_scheme\":\"never\""), "a a</s>a", "4 6 2 4"},
    {META(",\"add_prefix_space\":false"), "a", "4"},
    {META(",\"add_prefix_space\":true"), " a", "6"},
    {META(",\"prepend_scheme\":\"always\",\"split\":false"), "b a", "3 5 6"},
};

static void test_metaspace(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof metaspaces / sizeof *metaspaces; i++) {
        char json[4096];
        snprintf(json, sizeof json, ROOT("null", "%s", "%s", "%s", "null", "%s"), metaspaces[i].metaspace, SPACE_MODEL,
                 metaspaces[i].metaspace, SPACE_ADDED);
        clef_tokenizer *tok = must_open_json(json);
        check_ids(tok, metaspaces[i].text, strlen(metaspaces[i].text), CLEF_SPECIAL_NONE, metaspaces[i].ids);
        if (i == 0)
            TEXT(tok, "a b", 6, 3, 5);
        clef_tokenizer_close(tok);
    }
}

static void test_added(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(
        ROOT("null", BYTE_LEVEL, BYTE_MODEL, BYTE_LEVEL, "{\"type\":\"RobertaProcessing\",\"sep\":[\"r\",13],\"cls\":[\"l\",12]}",
             "[{\"id\":12,\"content\":\"<l>\",\"lstrip\":true,\"special\":true},{\"id\":13,\"content\":\"<r>\",\"rstrip\":true,"
             "\"special\":true},{\"id\":14,\"content\":\"word\",\"single_word\":true},{\"id\":15,\"content\":\"<l><r>\",\"normalized\":"
             "false}]"));
    MARKED(tok, "ab", "12 6 13");
    IDS(tok, "a  <l> a", "0 12 7");
    IDS(tok, "a <r>  b", "0 3 13 1");
    IDS(tok, "a<l><r>b", "0 15 1"); /* the longest */
    IDS(tok, "word", "14");
    IDS(tok, "aword", "0");
    IDS(tok, "word1", "11");
    IDS(tok, "1 word ", "11 3 14 3");
    TEXT(tok, "wordab", 14, 12, 6);
    clef_tokenizer_close(tok);
}

/* ---- refusals -------------------------------------------------------------------------------------------------------------------------
 */

#define BYTE_ROOT(pre, model, added) ROOT("null", pre, model, "null", "null", added)
#define MODEL(vocab, merges) BYTE_ROOT("null", "{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}", "[]")
#define NORMAL(normalizer) ROOT(normalizer, "null", BYTE_MODEL, "null", "null", "[]")
#define DECODE(decoder) ROOT("null", "null", BYTE_MODEL, decoder, "null", "[]")
#define POST(post) ROOT("null", "null", BYTE_MODEL, "null", post, "[]")

static const struct {
    const char *json;
    clef_status status;
    const char *piece;
} refusals[] = {
    {"", CLEF_E_FORMAT, "empty"},
    {"{", CLEF_E_FORMAT, "line 1"},
    {"[]", CLEF_E_FORMAT, "an array, wanted an object"},
    {"{}", CLEF_E_FORMAT, "model is nothing"},
    {"{\"model\":{\"vocab\":{},\"vocab\":{}}}", CLEF_E_FORMAT, "duplicate"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", CLEF_E_UNSUPPORTED, "model \"WordPiece\" is not supported; known: BPE"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", CLEF_E_UNSUPPORTED, "model \"Unigram\""},
    {"{\"model\":{\"vocab\":[]}}", CLEF_E_UNSUPPORTED, "Unigram"},
    {MODEL("[]", "[]"), CLEF_E_FORMAT, "the vocabulary is an array"},
    {MODEL("{}", "[]"), CLEF_E_FORMAT, "0 tokens"},
    {MODEL("{\"a\":-1}", "[]"), CLEF_E_FORMAT, "token \"a\" has no id of 0 .."},
    {MODEL("{\"a\":9000000000}", "[]"), CLEF_E_FORMAT, "token \"a\" has no id of 0 .."},
    {MODEL("{\"a\":2147483647}", "[]"), CLEF_E_FORMAT, "token \"a\" has no id of 0 .."},
    {MODEL("{\"a\":99999999999999999999}", "[]"), CLEF_E_FORMAT, "too big"},
    {MODEL("{\"a\":0,\"b\":0}", "[]"), CLEF_E_FORMAT, "id 0 is both \"a\" and \"b\""},
    {MODEL("{\"a\":\"0\"}", "[]"), CLEF_E_FORMAT, "token \"a\" has no id"},
    {MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\",\"a\"]"), CLEF_E_FORMAT, "merge 1 \"a\" is not two tokens"},
    {MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b c\"]"), CLEF_E_FORMAT, "merge 0 \"a b c\" is not two tokens"},
    {MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"   \"]"), CLEF_E_FORMAT, "merge 0 \"   \""},
    {MODEL("{\"a\":0,\"b\":1}", "[\"a b\"]"), CLEF_E_FORMAT, "result \"ab\" is not in the vocabulary"},
    {MODEL("{\"a\":0,\"b\":1}", "[[\"a\",\"c\"]]"), CLEF_E_FORMAT, "right part \"c\""},
    {MODEL("{\"a\":0,\"b\":1}", "[[\"c\",\"a\"]]"), CLEF_E_FORMAT, "left part \"c\""},
    {MODEL("{\"a\":0,\"b\":1}", "[[\"a\"]]"), CLEF_E_FORMAT, "merge 0 is neither"},
    {MODEL("{\"a\":0,\"b\":1}", "[7]"), CLEF_E_FORMAT, "merge 0 is neither"},
    {MODEL("{\"a\":0}", "{}"), CLEF_E_FORMAT, "merges is an object"},
    {MODEL("{\"a\":0}", "[],\"unk_token\":\"<unk>\""), CLEF_E_FORMAT, "unk_token \"<unk>\""},
    {MODEL("{\"a\":0}", "[],\"end_of_word_suffix\":\"</w>\""), CLEF_E_UNSUPPORTED, "end_of_word_suffix"},
    {MODEL("{\"a\":0}", "[],\"continuing_subword_prefix\":\"##\""), CLEF_E_UNSUPPORTED, "continuing_subword_prefix"},
    {MODEL("{\"a\":0}", "[],\"dropout\":0.1"), CLEF_E_UNSUPPORTED, "dropout"},
    {BYTE_ROOT("null", BYTE_MODEL, "{}"), CLEF_E_FORMAT, "added_tokens is an object"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"content\":\"x\"}]"), CLEF_E_FORMAT, "added token 0 has no id"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":20}]"), CLEF_E_FORMAT, "added token 0 has no content"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":99999999,\"content\":\"x\"}]"), CLEF_E_FORMAT, "added token 0 has no id of 0"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":20,\"content\":\"a\"}]"), CLEF_E_FORMAT, "\"a\" has id 20, but the vocabulary gives it 0"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":1,\"content\":\"x\"}]"), CLEF_E_FORMAT, "\"x\" has id 1, which the vocabulary gives to \"b\""},
    {NORMAL("{\"type\":\"BertNormalizer\"}"), CLEF_E_UNSUPPORTED, "normalizer \"BertNormalizer\" is not supported; known: Sequence"},
    {NORMAL("{}"), CLEF_E_FORMAT, "wanted an object with a \"type\""},
    {NORMAL("[]"), CLEF_E_FORMAT, "wanted an object with a \"type\""},
    {NORMAL("{\"type\":\"Sequence\",\"normalizers\":7}"), CLEF_E_FORMAT, "wanted an array"},
    {NORMAL("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\"}]}"), CLEF_E_UNSUPPORTED, "\"Precompiled\""},
    {NORMAL("{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}"), CLEF_E_FORMAT, "no pattern"},
    {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"), CLEF_E_FORMAT, "empty string"},
    {NORMAL("{\"type\":\"Prepend\",\"prepend\":7}"), CLEF_E_FORMAT, "prepend"},
    {BYTE_ROOT("{\"type\":\"BertPreTokenizer\"}", BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "pre_tokenizer \"BertPreTokenizer\""},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"(\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_FORMAT, "regex \"(\""},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"[a[b]]\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "a class inside a class"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"[a&&b]\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "&& in a class"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"\\\\h\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "this escape"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"(?m:a)\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "the option m"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"a{2}+\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "+ after {n,m}"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"a\"", "Sideways", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "behavior \"Sideways\""},
    {BYTE_ROOT(PRE(BYTE_LEVEL), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "a step after ByteLevel"},
    {BYTE_ROOT(META(",\"prepend_scheme\":\"often\""), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "prepend_scheme \"often\""},
    {DECODE("{\"type\":\"WordPiece\"}"), CLEF_E_UNSUPPORTED, "decoder \"WordPiece\""},
    {DECODE("{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"), CLEF_E_UNSUPPORTED, "Strip of anything but"},
    {DECODE("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"}"), CLEF_E_UNSUPPORTED, "Replace of a Regex"},
    {POST("{\"type\":\"Mystery\"}"), CLEF_E_UNSUPPORTED, "post_processor \"Mystery\""},
    {POST("{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",-5]}"), CLEF_E_FORMAT, "id -5 is outside"},
    {POST("{\"type\":\"RobertaProcessing\",\"cls\":7}"), CLEF_E_FORMAT, "cls and sep"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"), CLEF_E_UNSUPPORTED, "not exactly one Sequence A"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}"), CLEF_E_FORMAT, "item 0 of single"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}}]}"), CLEF_E_FORMAT, "names \"<x>\""},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        const clef_status st = open_json(refusals[i].json, &tok, &err);
        check_error(refusals[i].json, st, &err, refusals[i].status, refusals[i].piece);
        assert_null(tok);
    }
}

/* A token's text fits a stream's place, or the file is refused. */
static void test_long_token(void **state)
{
    (void)state;
    char text[6000], json[8000];
    for (int i = 0; i < 2; i++) {
        const size_t n = i ? 5000 : 1021;
        memset(text, 'x', n);
        text[n] = 0;
        snprintf(json, sizeof json, BYTE_ROOT("null", "{\"type\":\"BPE\",\"vocab\":{\"%s\":0},\"merges\":[]}", "[]"), text);
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        check_error("a long token", open_json(json, &tok, &err), &err, CLEF_E_LIMIT, "token 0");
    }
}

static void test_regex_limit(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(BYTE_ROOT(PRE(SPLIT("\"Regex\":\"(?:a+)+[bc]\"", "Isolated", "")), BYTE_MODEL, "[]"));
    char text[64];
    int32_t *ids = NULL, n = 0;
    clef_error err = {0};
    memset(text, 'a', sizeof text);
    check_error("(?:a+)+[bc]", clef_tokenizer_encode(tok, text, sizeof text, CLEF_SPECIAL_NONE, &ids, &n, &err), &err, CLEF_E_LIMIT,
                "regex");
    assert_null(ids);
    clef_tokenizer_close(tok);
}

/* ---- files and folders ------------------------------------------------------------------------------------------------------------------
 */

static void test_folder(void **state)
{
    (void)state;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    check_error("no folder", clef_tokenizer_open(temp_path("nothing"), &tok, &err), &err, CLEF_E_IO, "nothing");
    check_error("an empty folder", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_NOT_FOUND, "no tokenizer.json");
    write_text(temp_path("vocab.json"), "{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3}");
    check_error("no merges.txt", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_IO, "merges.txt");
    write_text(temp_path("merges.txt"), "#version: 0.2\r\na b\r\n\n");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    MARKED(tok, "ab<|endoftext|>ba", "2 3 1 0");
    assert_int_equal(clef_tokenizer_bos(tok), 3);
    assert_int_equal(clef_tokenizer_eos(tok), 3);
    clef_tokenizer_close(tok);
    assert_int_equal(clef_tokenizer_open(temp_path("merges.txt"), &tok, &err), CLEF_OK);
    clef_tokenizer_close(tok);
    write_text(temp_path("merges.txt"), "a b c\n");
    check_error("a broken merge", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_FORMAT, "merge 0 \"a b c\"");
    clef__os_remove(temp_path("vocab.json"));
    clef__os_remove(temp_path("merges.txt"));
}

static void test_config(void **state)
{
    (void)state;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    write_text(temp_path("tokenizer.json"), byte_json);
    write_text(temp_path("config.json"), "{\"bos_token_id\":1,\"eos_token_id\":[2,3]}");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_bos(tok), 1);
    assert_int_equal(clef_tokenizer_eos(tok), 2);
    MARKED(tok, "a", "0");
    clef_tokenizer_close(tok);
    write_text(temp_path("tokenizer_config.json"), "{\"model_max_length\":1000000000000000019884624838656,\"add_bos_token\":true,"
                                                   "\"add_eos_token\":true,\"bos_token\":{\"content\":\"<|end|>\"},\"eos_token\":\"c\"}");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_bos(tok), 10);
    MARKED(tok, "a", "10 0 2");
    IDS(tok, "a", "0");
    clef_tokenizer_close(tok);
    write_text(temp_path("tokenizer_config.json"), "{");
    check_error("a bad config", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_FORMAT, "tokenizer_config.json");
    clef__os_remove(temp_path("tokenizer.json"));
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path("tokenizer_config.json"));
}

/* ---- SentencePiece
 * ------------------------------------------------------------------------------------------------------------------------ */

static void put_field(blob *b, unsigned number, const blob *message)
{
    put_int(b, number << 3 | 2, 1);
    put_int(b, message->n, 1); /* all are shorter than 128 bytes */
    put(b, message->p, message->n);
}

static void put_spm_piece(blob *b, const char *text, float score, int type)
{
    blob piece = {.n = 0}, words = {.n = 0};
    put(&words, text, strlen(text));
    put_field(&piece, 1, &words);
    put_int(&piece, 2 << 3 | 5, 1);
    put(&piece, &score, 4);
    put_int(&piece, 3 << 3, 1);
    put_int(&piece, (uint64_t)type, 1);
    put_field(b, 1, &piece);
}

/* `trainer` and `normalizer` in the language of files.h. */
static blob make_spm(const char *trainer, const char *normalizer)
{
    blob b = {.n = 0}, spec = {.n = 0}, rules = {.n = 0};
    put_spm_piece(&b, "<unk>", 0, 2);
    put_spm_piece(&b, "<s>", 0, 3);
    put_spm_piece(&b, "</s>", 0, 3);
    put_spm_piece(&b, "<0xC3>", 0, 6);
    put_spm_piece(&b, "<0xA9>", 0, 6);
    put_spm_piece(&b, MARK, -9, 1);
    put_spm_piece(&b, "a", -8, 1);
    put_spm_piece(&b, "b", -7, 1);
    put_spm_piece(&b, "ab", -1, 1);
    put_spm_piece(&b, MARK "a", -2, 1);
    put_spm_piece(&b, "ba", -3, 5);
    put_spm_piece(&b, "[X]", 0, 4);
    assemble(&spec, trainer);
    put_field(&b, 2, &spec);
    assemble(&rules, normalizer);
    put_field(&b, 3, &rules);
    return b;
}

#define SPM_BPE "1:24 1:2"
#define SPM_FALLBACK " 1:0x98 1:2 1:1" /* field 35 */
#define SPM_KEEP "1:32 1:0"            /* remove_extra_whitespaces: false */

static clef_status open_spm(const blob *b, clef_tokenizer **out, clef_error *err)
{
    const char *path = temp_path("tokenizer.model");
    write_file(path, b->p, b->n);
    const clef_status st = clef_tokenizer_open(temp_dir, out, err);
    clef__os_remove(path);
    return st;
}

static void test_spm(void **state)
{
    (void)state;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    blob b = make_spm(SPM_BPE SPM_FALLBACK, SPM_KEEP);
    assert_int_equal(open_spm(&b, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_n_tokens(tok), 12);
    assert_int_equal(clef_tokenizer_bos(tok), 1);
    assert_int_equal(clef_tokenizer_eos(tok), 2);
    MARKED(tok, "", "1");
    MARKED(tok, "ab", "1 5 8"); /* "ab" has a better score than "_a" */
    IDS(tok, "a", "9");
    IDS(tok, "ba  b", "5 7 6 5 5 7"); /* "ba" is unused */
    IDS(tok, "\xC3\xA9x", "5 3 4 0");
    IDS(tok, "a[X]b</s>", "9 11 7 2");
    TEXT(tok, "ab", 1, 5, 8);
    TEXT(tok, " \xC3\xA9", 5, 5, 3, 4);
    TEXT(tok, "a[X]", 9, 11);
    clef_tokenizer_close(tok);
    b = make_spm(SPM_BPE, "1:32 1:1");
    assert_int_equal(open_spm(&b, &tok, &err), CLEF_OK);
    IDS(tok, "  b   b ", "5 7 5 7");
    IDS(tok, "   ", "");
    IDS(tok, "xyz\xC3\xA9", "5 0");
    TEXT(tok, "b", 5, 5, 7);
    clef_tokenizer_close(tok);
}

static void test_spm_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *trainer, *normalizer;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"", "", CLEF_E_UNSUPPORTED, "model type Unigram (1) is not supported; known: BPE"},
        {"1:24 1:4", "", CLEF_E_UNSUPPORTED, "model type Char"},
        {"1:24 1:9", "", CLEF_E_UNSUPPORTED, "model type ? (9)"},
        {SPM_BPE, "1:10 1:4 t:nfkc 1:18 1:2 t:xx", CLEF_E_UNSUPPORTED, "normalizer \"nfkc\" is not supported; known: identity"},
        {SPM_BPE " 1:0xC0 1:1 1:1", "", CLEF_E_UNSUPPORTED, "treat_whitespace_as_suffix"},
        {SPM_BPE " 1:0x98", "", CLEF_E_FORMAT, "a field runs over its end"},
        {SPM_BPE " 1:10 1:99", "", CLEF_E_FORMAT, "a field runs over its end"},
        {SPM_BPE " 1:11", "", CLEF_E_FORMAT, "a field runs over its end"},
    };
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const blob b = make_spm(rows[i].trainer, rows[i].normalizer);
        check_error(rows[i].trainer, open_spm(&b, &tok, &err), &err, rows[i].status, rows[i].piece);
    }
    blob b = {.n = 0};
    check_error("an empty file", open_spm(&b, &tok, &err), &err, CLEF_E_FORMAT, "it has no pieces");
    b = make_spm(SPM_BPE, SPM_KEEP);
    put_spm_piece(&b, "ab", NAN, 1);
    check_error("NaN", open_spm(&b, &tok, &err), &err, CLEF_E_FORMAT, "the score of token 12");
    b = make_spm(SPM_BPE, SPM_KEEP);
    put_spm_piece(&b, "q", 0, 7);
    check_error("type 7", open_spm(&b, &tok, &err), &err, CLEF_E_FORMAT, "token 12 has type 7");
    for (size_t n = 1; n < 60; n++) { /* a file that is cut off: refused, or opened as far as it goes */
        b = make_spm(SPM_BPE, SPM_KEEP);
        clef_tokenizer *cut = clef__tokenizer_new();
        void *data = exact(b.p + n, b.n - n);
        clef__tokenizer_parse_spm(cut, data, b.n - n, "cut", &err);
        free(data);
        clef_tokenizer_close(cut);
    }
}

/* ---- GGUF ------------------------------------------------------------------------------------------------------------------------------
 */

#define GGUF_HEAD(keys) "t:GGUF 4:3 8:0 8:" keys " "
#define T "tokenizer.ggml."
#define GGUF_TEXT(key, value) "s:" T key " 4:8 s:" value " "
#define GGUF_BOOL(key, value) "s:" T key " 4:7 1:" value " "
#define GGUF_ID(key, value) "s:" T key " 4:4 4:" value " "
#define GGUF_GPT2 GGUF_TEXT("model", "gpt2") "s:" T "tokens 4:9 4:8 8:4 s:a s:b s:ab s:<x> s:" T "merges 4:9 4:8 8:1 8:3 t:a 1:32 t:b "
#define GGUF_TYPES "s:" T "token_type 4:9 4:5 8:4 4:1 4:1 4:1 4:3 "
#define GGUF_LLAMA                                                                                                                         \
    GGUF_TEXT("model", "llama")                                                                                                            \
    "s:" T "tokens 4:9 4:8 8:6 s:<unk> s:<s> s:" MARK " s:a s:" MARK "a s:<0x0A> s:" T "scores 4:9 4:6 8:6 f:0 f:0 f:-3 f:-2 f:-1 f:0 "

static clef_status open_gguf(const char *spec, clef_tokenizer **out, clef_error *err)
{
    const char *path = temp_path("tiny.gguf");
    blob b = {.n = 0};
    assemble(&b, spec);
    write_file(path, b.p, b.n);
    const clef_status st = clef_tokenizer_open(path, out, err);
    clef__os_remove(path);
    return st;
}

static void test_gguf(void **state)
{
    (void)state;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *gpt2 = GGUF_HEAD("6") GGUF_GPT2 GGUF_TYPES GGUF_TEXT("pre", "llama-bpe") GGUF_ID("bos_token_id", "3");
    assert_int_equal(open_gguf(gpt2, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_bos(tok), 3);
    assert_int_equal(clef_tokenizer_eos(tok), -1);
    MARKED(tok, "ab<x>b", "3 2 3 1");
    TEXT(tok, "abb", 2, 3, 1);
    clef_tokenizer_close(tok);
    const char *llama =
        GGUF_HEAD("6") GGUF_LLAMA GGUF_BOOL("add_eos_token", "1") GGUF_ID("eos_token_id", "1") GGUF_ID("padding_token_id", "-1");
    assert_int_equal(open_gguf(llama, &tok, &err), CLEF_OK);
    MARKED(tok, "a a\n", "1 4 4 5 1");
    MARKED(tok, "", "1 1");
    IDS(tok, "<s>a", "1 4");
    TEXT(tok, "a a\n", 1, 4, 4, 5);
    clef_tokenizer_close(tok);
    llama = GGUF_HEAD("5") GGUF_LLAMA GGUF_BOOL("add_bos_token", "0") GGUF_BOOL("add_space_prefix", "0");
    assert_int_equal(open_gguf(llama, &tok, &err), CLEF_OK);
    MARKED(tok, "a a", "3 4");
    TEXT(tok, " aa", 4, 3);
    clef_tokenizer_close(tok);
}

static void test_gguf_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        clef_status status;
        const char *piece;
    } rows[] = {
        {GGUF_HEAD("0"), CLEF_E_NOT_FOUND, "has no tokenizer"},
        {GGUF_HEAD("1") GGUF_TEXT("model", "bert"), CLEF_E_UNSUPPORTED, "tokenizer model \"bert\" is not supported; known: gpt2, llama"},
        {GGUF_HEAD("1") GGUF_TEXT("model", "gpt2"), CLEF_E_FORMAT, "tokens is missing"},
        {GGUF_HEAD("4") GGUF_GPT2 GGUF_TEXT("pre", "mystery"), CLEF_E_UNSUPPORTED,
         "pre-tokenizer \"mystery\" is not supported; known: gpt-2"},
        {GGUF_HEAD("2") GGUF_TEXT("model", "gpt2") "s:" T "tokens 4:9 4:8 8:1 s:a", CLEF_E_FORMAT, "merges is missing"},
        {GGUF_HEAD("2") GGUF_TEXT("model", "llama") "s:" T "tokens 4:9 4:8 8:1 s:a", CLEF_E_FORMAT, "scores has 0 numbers, wanted 1"},
        {GGUF_HEAD("4") GGUF_LLAMA "s:" T "token_type 4:9 4:5 8:1 4:1", CLEF_E_FORMAT, "token_type has 1 items, wanted 6"},
        {GGUF_HEAD("3") GGUF_TEXT("model", "gpt2") "s:" T "tokens 4:9 4:8 8:1 s:a s:" T "merges 4:9 4:8 8:1 8:3 t:a 1:32 t:b",
         CLEF_E_FORMAT, "merge 0: right part \"b\" is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        check_error(rows[i].spec, open_gguf(rows[i].spec, &tok, &err), &err, rows[i].status, rows[i].piece);
    }
}

/* ---- time: a megabyte of the same must not be quadratic (ctest's limit would stop it)
 * ------------------------------------------------------ */

static void test_long_runs(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static const char *const jsons[] = {byte_json, space_json, NORMAL("{\"type\":\"NFC\"}")};
    static const char *const units[] = {"a", "ab", " ", "\n ", "\xCC\x81\xCC\xA3", "\xFF", "<|end|", "zz"};
    char *text = malloc(N);
    assert_non_null(text);
    for (size_t j = 0; j < sizeof jsons / sizeof *jsons; j++) {
        clef_tokenizer *tok = must_open_json(jsons[j]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            int32_t *ids = NULL, n = 0;
            for (size_t i = 0; i < N; i++)
                text[i] = units[u][i % strlen(units[u])];
            assert_int_equal(clef_tokenizer_encode(tok, text, N, CLEF_SPECIAL_NONE, &ids, &n, NULL), CLEF_OK);
            clef_tokens_free(ids);
        }
        clef_tokenizer_close(tok);
    }
    free(text);
}

/* ---- real tokenizers
 * ------------------------------------------------------------------------------------------------------------------------ */

/* A folder with expected.json: the prompts' ids. */
static void check_folder(const char *folder)
{
    char path[1024];
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    snprintf(path, sizeof path, "%s/expected.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *cases = json_object_get(root, "cases");
    if (clef_tokenizer_open(folder, &tok, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *wanted = json_object_get(one, "prompt_ids");
        const char *prompt = json_string_value(json_object_get(one, "prompt"));
        int32_t *ids = NULL, n = 0;
        char *back = NULL;
        assert_int_equal(clef_tokenizer_encode(tok, prompt, strlen(prompt), CLEF_SPECIAL_ADD, &ids, &n, &err), CLEF_OK);
        assert_int_equal(n, json_array_size(wanted));
        for (int32_t k = 0; k < n; k++)
            assert_int_equal(ids[k], json_integer_value(json_array_get(wanted, (size_t)k)));
        assert_int_equal(clef_tokenizer_decode(tok, ids, n, &back, NULL, &err), CLEF_OK);
        assert_string_equal(back, prompt);
        clef_text_free(back);
        clef_tokens_free(ids);
    }
    clef_tokenizer_close(tok);
    json_decref(root);
}

static void test_demo(void **state)
{
    (void)state;
    check_folder(CLEF_SOURCE_DIR "/model/demo");
}

static const char *shared(const char *file)
{
    static char path[2][1024];
    static int turn;
    const char *folder = clef__os_env("CLEF_SHARED");
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/data/%s", folder ? folder : CLEF_SOURCE_DIR "/../shared", file);
    return path[turn];
}

static int no_shared(void)
{
    if (clef__os_is_dir(shared("vocab")))
        return 0;
    skip();
    return 1;
}

/* llama.cpp's cases: texts in .inp between separators, a line of ids for each in .out. */
static void check_vocab(const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[1200];
    char *texts = NULL, *ids = NULL;
    size_t n_texts, n_ids;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    snprintf(path, sizeof path, "%s.inp", shared(name));
    assert_int_equal(clef__os_read(path, 1 << 20, &texts, &n_texts, &err), CLEF_OK);
    snprintf(path, sizeof path, "%s.out", shared(name));
    assert_int_equal(clef__os_read(path, 1 << 20, &ids, &n_ids, &err), CLEF_OK);
    if (clef_tokenizer_open(shared(name), &tok, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    char *line = ids;
    for (char *text = texts, *next; text; text = next) {
        char *end = strstr(text, separator), *line_end = strchr(line, '\n');
        next = end ? end + strlen(separator) : NULL;
        if (end)
            *end = 0;
        if (line_end)
            *line_end = 0;
        check_ids(tok, text, strlen(text), CLEF_SPECIAL_NONE, line);
        line = line_end ? line_end + 1 : ids + n_ids;
    }
    clef_tokenizer_close(tok);
    free(texts);
    free(ids);
}

static void test_vocabs(void **state)
{
    (void)state;
    if (no_shared())
        return;
    check_vocab("vocab/ggml-vocab-gpt-2.gguf");
    check_vocab("vocab/ggml-vocab-llama-bpe.gguf");
    check_vocab("vocab/ggml-vocab-llama-spm.gguf");
    check_vocab("vocab/ggml-vocab-qwen2.gguf");
    check_folder(shared("tinystories-656k"));
}

static void test_llama2(void **state)
{
    (void)state;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    if (no_shared())
        return;
    assert_int_equal(clef_tokenizer_open(shared("tokenizers/llama2/tokenizer.model"), &tok, &err), CLEF_OK);
    MARKED(tok, "", "1");
    MARKED(tok, "I believe the meaning of life is", "1 306 4658 278 6593 310 2834 338");
    MARKED(tok, "Simply put, the theory of relativity states that ", "1 3439 17632 1925 29892 278 6368 310 14215 537 5922 393 29871");
    clef_tokenizer_close(tok);
    assert_int_equal(clef_tokenizer_open(shared("stories260K/stories260K.gguf"), &tok, &err), CLEF_OK);
    MARKED(tok, "Once upon a time", "1 403 407 261 378");
    clef_tokenizer_close(tok);
}

static void test_real_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"tokenizers/llama2", CLEF_E_FORMAT, "merge 18917 \"   \" is not two tokens"},
        {"tokenizers/t5", CLEF_E_UNSUPPORTED, "Unigram"},
        {"tokenizers/t5/spiece.model", CLEF_E_UNSUPPORTED, "Unigram"},
        {"tokenizers/sentencepiece/test_sentencepiece_bpe.model", CLEF_E_UNSUPPORTED, "\"nmt_nfkc\""},
        {"tokenizers/bert", CLEF_E_NOT_FOUND, "no tokenizer.json"},
        {"vocab/ggml-vocab-bert-bge.gguf", CLEF_E_UNSUPPORTED, "\"bert\""},
    };
    if (no_shared())
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        check_error(rows[i].path, clef_tokenizer_open(shared(rows[i].path), &tok, &err), &err, rows[i].status, rows[i].piece);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),    cmocka_unit_test(test_byte_fallback), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_arguments),     cmocka_unit_test(test_stages),        cmocka_unit_test(test_metaspace),
        cmocka_unit_test(test_added),         cmocka_unit_test(test_refusals),      cmocka_unit_test(test_long_token),
        cmocka_unit_test(test_regex_limit),   cmocka_unit_test(test_folder),        cmocka_unit_test(test_config),
        cmocka_unit_test(test_spm),           cmocka_unit_test(test_spm_refusals),  cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_gguf_refusals), cmocka_unit_test(test_long_runs),     cmocka_unit_test(test_demo),
        cmocka_unit_test(test_vocabs),        cmocka_unit_test(test_llama2),        cmocka_unit_test(test_real_refusals),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_dir);
}

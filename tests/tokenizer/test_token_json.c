/* The parts of a tokenizer.json: each stage on small vocabularies, and refusals. */
#define TEST_NAME "test-token-json"
#include "tests/tokenizer/tokenizers.h"

#include "model/tokenizer/read/formats.h"

/* ---- stages: one tokenizer a row, with the byte model */

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
     "0 1 2"}, /* U+180E is not a space */
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
    {"{\"type\":\"StripAccents\"}", BYTE_LEVEL,
     "a\xCC\x81"
     "b",
     "6"},
    {"{\"type\":\"Nmt\"}", BYTE_LEVEL,
     "a\x01"
     "b\xE2\x80\x8B"
     "a",
     "6 7"}, /* U+200B is a space here */
    {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"DAAAAAAAAQBBDQAAAAAAgGEA\"}", BYTE_LEVEL,
     "A\xE1\xAB\x8F"
     "b\xEF\xBF\xB0\xCC\x81"
     "A",
     "6 0"}, /* A becomes a, with the mark (U+1ACF, since Unicode 17) of its grapheme */
    {"{\"type\":\"ByteLevel\"}", "null", "a b", "0 3 1"},
    {"{\"type\":\"BertNormalizer\",\"lowercase\":true}", BYTE_LEVEL,
     "\xC3\x81"
     "B\tA\x07",
     "6 7"},
    {"{\"type\":\"BertNormalizer\",\"lowercase\":false}", BYTE_LEVEL, "Aab", "6"},
    {"{\"type\":\"NFC\"}", BYTE_LEVEL, "e\xE0\xBA\xBA\xCC\x81",
     ""}, /* U+0EBA is a combining mark since Unicode 12, which is newer than the library's */
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"},{\"type\":"
     "\"Lowercase\"}]}",
     BYTE_LEVEL,
     "\xC3\x81"
     "B",
     "6"},
    {"null", PRE("{\"type\":\"BertPreTokenizer\"}"), "a1 ab,c", "0 11 6 2"},
    {"null", PRE("{\"type\":\"WhitespaceSplit\"}"), "a b\nc", "0 1 2"},
    {"null", PRE("{\"type\":\"Whitespace\"}"), "ab..c", "6 2"},
    {"null", PRE("{\"type\":\"Punctuation\",\"behavior\":\"Removed\"}"), "a.b", "0 1"},
    {"null", PRE("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"1\"}"), "a1b1abc", "0 1 8"},
    {"null", PRE("{\"type\":\"FixedLength\",\"length\":2}"), "abcabc", "6 2 0 1 2"},
    {"null", PRE("{\"type\":\"Digits\",\"individual_digits\":false}"), "a11b", "0 11 11 1"},
    {"null", PRE(SPLIT("\"Regex\":\"\\\\d{1,3}(?=(?:\\\\d{3})*\\\\b)\"", "Removed", "")), "a1111b 11111 c",
     "0 11 11 11 11 1 3 3 2"},
    {"null", PRE(SPLIT("\"Regex\":\"\\\\b\"", "Isolated", "")), "ab c", "6 3 2"},
    {"null", PRE(SPLIT("\"Regex\":\"[[:alpha:]]\"", "Removed", "")), "a1b", "11"},
    {"null", PRE(SPLIT("\"Regex\":\"[^\\\\w\\\\s]+\"", "Removed", "")),
     "a\xC2\xB2"
     "b",
     "0 1"}, /* U+00B2 is in \w, but not inside a class */
    {"null", PRE(SPLIT("\"Regex\":\"\\\\w+\"", "Removed", "")),
     "a\xC2\xB2"
     "b",
     ""},
};

static void test_stages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        char json[4096];
        snprintf(json, sizeof json, ROOT("%s", "%s", "%s", BYTE_LEVEL, "null", "[]"), stages[i].normalizer,
                 stages[i].pre, BYTE_MODEL);
        clef_tokenizer *tok = must_open_json(json);
        check_ids(tok, stages[i].text, strlen(stages[i].text), CLEF_SPECIAL_NONE, stages[i].ids);
        clef_tokenizer_close(tok);
    }
}

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

/* ---- decoders: the text of all tokens of a small vocabulary, and of one twice */

#define DECODED                                                                                              \
    "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"##b\":1,\"c</w>\":2,\"" META_SPACE                         \
    "d\":3,\"<0x41>\":4,\".\":5,\"|\":6,\"<pad>\":7}}"

static const struct {
    const char *decoder, *text, *repeated; /* of 0 1 2 .. 7, of 0 0 */
} decoders[] = {
    {"null", "a ##b c</w> " META_SPACE "d <0x41> . | <pad>", "a a"},
    {"{\"type\":\"Fuse\"}", "a##bc</w>" META_SPACE "d<0x41>.|<pad>", "aa"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
     "ab c</w> " META_SPACE "d <0x41>. | <pad>", "a a"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false}",
     "ab c</w> " META_SPACE "d <0x41> . | <pad>", "a a"},
    {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", "a##bc " META_SPACE "d<0x41>.|<pad>", "aa"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"" META_SPACE "\",\"prepend_scheme\":\"always\"}",
     "a##bc</w> d<0x41>.|<pad>", "aa"},
    {"{\"type\":\"ByteFallback\"}", "a##bc</w>" META_SPACE "dA.|<pad>", "aa"},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":true}",
     "a##bc</w>" META_SPACE "d<0x41>. ", "a"},
    {"{\"type\":\"Strip\",\"content\":\"#\",\"start\":1,\"stop\":0}", "a#bc</w>" META_SPACE "d<0x41>.|<pad>",
     "aa"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a-c]\"},\"content\":\"x\"}",
     "x##xx</w>" META_SPACE "d<0x41>.|<pxd>", "xx"},
};

static void test_decoders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
        char json[2048];
        snprintf(json, sizeof json, ROOT("null", "null", DECODED, "%s", "null", "[]"), decoders[i].decoder);
        clef_tokenizer *tok = must_open_json(json);
        check_text(tok, (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, decoders[i].text,
                   strlen(decoders[i].text));
        check_text(tok, (const int32_t[]){0, 0}, 2, decoders[i].repeated, strlen(decoders[i].repeated));
        clef_tokenizer_close(tok);
    }
}

static void test_metaspace(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof metaspaces / sizeof *metaspaces; i++) {
        char json[4096];
        snprintf(json, sizeof json, ROOT("null", "%s", "%s", "%s", "null", "%s"), metaspaces[i].metaspace,
                 SPACE_MODEL, metaspaces[i].metaspace, SPACE_ADDED);
        clef_tokenizer *tok = must_open_json(json);
        check_ids(tok, metaspaces[i].text, strlen(metaspaces[i].text), CLEF_SPECIAL_NONE, metaspaces[i].ids);
        if (i == 0)
            TEXT(tok, "a b", 6, 3, 5);
        clef_tokenizer_close(tok);
    }
}

/* ---- refusals */

static const struct {
    const char *json;
    clef_status status;
    const char *piece;
} refusals[] = {
    {"", CLEF_E_FORMAT, "empty"},
    {"{", CLEF_E_FORMAT, "line 1"},
    {"[]", CLEF_E_FORMAT, "an array, expected an object"},
    {"{}", CLEF_E_FORMAT, "model is nothing"},
    {"{\"model\":{\"vocab\":{},\"vocab\":{}}}", CLEF_E_FORMAT, "duplicate"},
    {"{\"model\":{\"type\":\"Mystery\"}}", CLEF_E_UNSUPPORTED,
     "model \"Mystery\" is not supported; known: BPE, WordPiece, WordLevel, Unigram"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", CLEF_E_FORMAT, "0 tokens"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", CLEF_E_FORMAT,
     "unk_token \"[UNK]\" is not in the vocabulary"},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":7}}", CLEF_E_FORMAT, "the vocabulary is"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", CLEF_E_FORMAT, "0 tokens"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", CLEF_E_FORMAT,
     "a Unigram vocabulary that is an object"},
    {"{\"model\":{\"vocab\":[[\"a\",0]],\"unk_id\":1}}", CLEF_E_FORMAT, "with unk_id 1"},
    {"{\"model\":{\"vocab\":[[\"a\",\"0\"]]}}", CLEF_E_FORMAT,
     "piece 0 of the vocabulary: expected [text, score]"},
    {"{\"model\":{\"vocab\":[[\"a\",0],[\"b\"]]}}", CLEF_E_FORMAT, "piece 1 of the vocabulary"},
    {MODEL("[]", "[]"), CLEF_E_FORMAT, "the vocabulary is an array"},
    {MODEL("{}", "[]"), CLEF_E_FORMAT, "0 tokens"},
    {MODEL("{\"a\":-1}", "[]"), CLEF_E_FORMAT, "token \"a\": expected an id of 0 .."},
    {MODEL("{\"a\":9000000000}", "[]"), CLEF_E_FORMAT, "token \"a\": expected an id of 0 .."},
    {MODEL("{\"a\":2147483647}", "[]"), CLEF_E_FORMAT, "token \"a\": expected an id of 0 .."},
    {MODEL("{\"a\":99999999999999999999}", "[]"), CLEF_E_FORMAT, "too big"},
    {MODEL("{\"a\":0,\"b\":0}", "[]"), CLEF_E_FORMAT, "id 0 is both \"a\" and \"b\""},
    {MODEL("{\"a\":\"0\"}", "[]"), CLEF_E_FORMAT, "token \"a\": expected an id"},
    {MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\",\"a\"]"), CLEF_E_FORMAT,
     "merge 1 \"a\" is not two tokens"},
    {MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b c\"]"), CLEF_E_FORMAT,
     "merge 0 \"a b c\" is not two tokens"},
    {MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"   \"]"), CLEF_E_FORMAT, "merge 0 \"   \""},
    {MODEL("{\"a\":0,\"b\":1}", "[\"a b\"]"), CLEF_E_FORMAT, "result \"ab\" is not in the vocabulary"},
    {MODEL("{\"a\":0,\"b\":1}", "[[\"a\",\"c\"]]"), CLEF_E_FORMAT, "right part \"c\""},
    {MODEL("{\"a\":0,\"b\":1}", "[[\"c\",\"a\"]]"), CLEF_E_FORMAT, "left part \"c\""},
    {MODEL("{\"a\":0,\"b\":1}", "[[\"a\"]]"), CLEF_E_FORMAT, "merge 0: expected"},
    {MODEL("{\"a\":0,\"b\":1}", "[7]"), CLEF_E_FORMAT, "merge 0: expected"},
    {MODEL("{\"a\":0}", "{}"), CLEF_E_FORMAT, "merges is an object"},
    {MODEL("{\"a\":0}", "[],\"unk_token\":\"<unk>\""), CLEF_E_FORMAT, "unk_token \"<unk>\""},
    {MODEL("{\"a\":0}", "[],\"dropout\":0.1"), CLEF_E_UNSUPPORTED, "dropout"},
    {BYTE_ROOT("null", BYTE_MODEL, "{}"), CLEF_E_FORMAT, "added_tokens is an object"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"content\":\"x\"}]"), CLEF_E_FORMAT, "added token 0: expected an id"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":20}]"), CLEF_E_FORMAT, "added token 0 has no content"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":99999999,\"content\":\"x\"}]"), CLEF_E_FORMAT,
     "added token 0: expected an id of 0"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":20,\"content\":\"a\"}]"), CLEF_E_FORMAT,
     "\"a\" has id 20, expected 0 as in the vocabulary"},
    {BYTE_ROOT("null", BYTE_MODEL, "[{\"id\":1,\"content\":\"x\"}]"), CLEF_E_FORMAT,
     "\"x\" has id 1, which is \"b\" in the vocabulary"},
    {NORMAL("{\"type\":\"Mystery\"}"), CLEF_E_UNSUPPORTED,
     "normalizer \"Mystery\" is not supported; known: Sequence"},
    {NORMAL("{}"), CLEF_E_FORMAT, "expected an object with a \"type\""},
    {NORMAL("[]"), CLEF_E_FORMAT, "expected an object with a \"type\""},
    {NORMAL("{\"type\":\"Sequence\",\"normalizers\":7}"), CLEF_E_FORMAT, "expected an array"},
    {NORMAL("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Mystery\"}]}"), CLEF_E_UNSUPPORTED,
     "\"Mystery\""},
    {NORMAL("{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}"), CLEF_E_FORMAT,
     "Replace: expected a pattern"},
    {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"), CLEF_E_FORMAT,
     "empty string"},
    {NORMAL("{\"type\":\"Prepend\",\"prepend\":7}"), CLEF_E_FORMAT, "prepend"},
    {BYTE_ROOT("{\"type\":\"Mystery\"}", BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED, "pre_tokenizer \"Mystery\""},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"(\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_FORMAT,
     "regex \"(\""},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"[a[b]]\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "a class inside a class"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"[[:graph:]]\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "this POSIX class"},
    {BYTE_ROOT("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"ab\"}", BYTE_MODEL, "[]"), CLEF_E_FORMAT,
     "is not one character"},
    {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"), CLEF_E_FORMAT,
     "a charsmap of 3 bytes"},
    {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"}"), CLEF_E_FORMAT, "base64"},
    {DECODE("{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}"), CLEF_E_FORMAT,
     "Strip of an empty string"},
    {DECODE("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]}"),
     CLEF_E_UNSUPPORTED, "ByteFallback after Fuse"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"[a&&b]\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "&& in a class"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"\\\\h\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "this escape"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"(?m:a)\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "the option m"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"a{2}+\"", "Isolated", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "+ after {n,m}"},
    {BYTE_ROOT(PRE(SPLIT("\"Regex\":\"a\"", "Sideways", "")), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "behavior \"Sideways\""},
    {BYTE_ROOT(META(",\"prepend_scheme\":\"often\""), BYTE_MODEL, "[]"), CLEF_E_UNSUPPORTED,
     "prepend_scheme \"often\""},
    {DECODE("{\"type\":\"Mystery\"}"), CLEF_E_UNSUPPORTED, "decoder \"Mystery\""},
    {POST("{\"type\":\"Mystery\"}"), CLEF_E_UNSUPPORTED, "post_processor \"Mystery\""},
    {POST("{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",-5]}"), CLEF_E_FORMAT,
     "id -5 is outside"},
    {POST("{\"type\":\"RobertaProcessing\",\"cls\":7}"), CLEF_E_FORMAT, "cls and sep"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"), CLEF_E_UNSUPPORTED,
     "not exactly one Sequence A"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}"), CLEF_E_FORMAT,
     "item 0 of single"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}}]}"),
     CLEF_E_FORMAT, "names \"<x>\""},
};

/* ---- Jais 2's spaces */

static size_t put_spaces(char *to, size_t n, const char *space)
{
    const size_t size = strlen(space);
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * size, space, size);
    return n * size;
}

/* Opens a tokenizer that cuts with Jais 2's regex and `more` after it; runs of 1, 2, 4 .. 512 spaces are
 * tokens. */
static clef_tokenizer *open_jais(const char *more)
{
    static char json[32768];
    size_t n = (size_t)snprintf(json, sizeof json,
                                "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                                "\"Split\",\"behavior\":\"Isolated\","
                                "\"pattern\":{\"Regex\":\"");
    for (const char *at = clef__jais2_regex; *at; at++) {
        if (*at == '\\')
            json[n++] = '\\';
        json[n++] = *at;
    }
    n += (size_t)snprintf(json + n, sizeof json - n,
                          "%s\"}},{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}]},"
                          "\"decoder\":{\"type\":"
                          "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u010a\":1",
                          more);
    for (size_t size = 1, id = 2; size <= 512; size *= 2, id++) {
        n += (size_t)snprintf(json + n, sizeof json - n, ",\"");
        n += put_spaces(json + n, size, "\xC4\xA0");
        n += (size_t)snprintf(json + n, sizeof json - n, "\":%zu", id);
    }
    n += (size_t)snprintf(json + n, sizeof json - n, "},\"merges\":[");
    for (size_t size = 1; size < 512; size *= 2) {
        n += (size_t)snprintf(json + n, sizeof json - n, "%s[\"", size > 1 ? "," : "");
        n += put_spaces(json + n, size, "\xC4\xA0");
        n += (size_t)snprintf(json + n, sizeof json - n, "\",\"");
        n += put_spaces(json + n, size, "\xC4\xA0");
        n += (size_t)snprintf(json + n, sizeof json - n, "\"]");
    }
    snprintf(json + n, sizeof json - n, "]}}");
    return must_open_json(json);
}

/* Counting spaces gives the same ids as the regex. The second regex has one more branch, which never
 * matches, so it is run as a regex. */
static void test_many_spaces(void **state)
{
    static const size_t runs[] = {1, 2, 3, 510, 511, 512, 513, 1023, 1024, 1025, 2600};
    static const char *const ends[] = {"", "a", "\n", "\na", "a\n", "\n \n   a"};
    clef_tokenizer *counted = open_jais(""), *plain = open_jais("|a");
    char text[8192];
    (void)state;
    for (size_t i = 0; i < 11; i++)
        for (size_t k = 0; k < 6 * 6; k++) {
            clef_error err = {0};
            size_t n = (size_t)snprintf(text, sizeof text, "%s", ends[k / 6]);
            n += put_spaces(text + n, runs[i], " ");
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", ends[k % 6]);
            n += put_spaces(text + n, runs[(i + k) % 11], " ");
            clef_encoded a, b;
            assert_int_equal(clef_tokenizer_encode_pair(counted, text, n, NULL, 0, NULL, &a, &err), CLEF_OK);
            assert_int_equal(clef_tokenizer_encode_pair(plain, text, n, NULL, 0, NULL, &b, &err), CLEF_OK);
            assert_int_equal(a.n, b.n);
            assert_memory_equal(a.ids, b.ids, (size_t)a.n * sizeof *a.ids);
            clef_encoded_finish(&a);
            clef_encoded_finish(&b);
        }
    clef_tokenizer_close(counted);
    clef_tokenizer_close(plain);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),      cmocka_unit_test(test_decoders), cmocka_unit_test(test_metaspace),
        cmocka_unit_test(test_many_spaces), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_dir);
}

/* The models of a tokenizer.json other than plain BPE, on small vocabularies and with the stages that go
 * with them. Also pairs of texts, and their truncation. The expected ids are those of Hugging Face's
 * tokenizers. */
#define TEST_NAME "test-token-models"
#include "tests/tokenizer/tokenizers.h"

#define SPECIAL(id, text) "{\"id\":" id ",\"content\":\"" text "\",\"special\":true}"

/* ---- WordPiece, WordLevel */

#define WORDS                                                                                                \
    "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"ab\":3,\"##c\":4,\"##cd\":5,\"d\":6,\".\":7,\"\\u4e2d\":8,\"##." \
    "\":9,\"abc\":10}"
#define BERT_MODEL                                                                                           \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"max_input_chars_per_word\":5,\"vocab\":" WORDS "}"
#define BERT_POST "{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",1],\"sep\":[\"[SEP]\",2]}"
#define BERT_JSON                                                                                            \
    ROOT("{\"type\":\"BertNormalizer\"}", "{\"type\":\"BertPreTokenizer\"}", BERT_MODEL,                     \
         "{\"type\":\"WordPiece\"}", BERT_POST, "[" SPECIAL("1", "[CLS]") "," SPECIAL("2", "[SEP]") "]")

static void test_wordpiece(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(BERT_JSON);
    WITH_SPECIAL(tok, "", "1 2");
    WITH_SPECIAL(tok, "ABC d.", "1 10 6 7 2");
    IDS(tok, "abcc ABCD abx", "10 4 0 0"); /* the longest piece first, without backtracking */
    IDS(tok,
        "ab\xE4\xB8\xAD"
        "d",
        "3 8 6");
    IDS(tok, "abcccc abccc", "0 10 4 4"); /* a word of six characters is too long */
    IDS(tok,
        "\xC3\xA1"
        "b [SEP]d",
        "3 2 6");
    TEXT(tok, "abc d.", 1, 10, 6, 7, 2);
    TEXT(tok, "ab \xE4\xB8\xAD d", 3, 8, 6);
    assert_int_equal(clef_tokenizer_find(tok, "abc"), 10);
    assert_int_equal(clef_tokenizer_find(tok, "abcd"), -1);
    clef_tokenizer_close(tok);
}

static void test_wordlevel(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(
        ROOT("null", "{\"type\":\"WhitespaceSplit\"}",
             "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"ab\":1,\"c\":2}}", "null",
             "null", "[]"));
    IDS(tok, "ab c  x", "1 2 0");
    IDS(tok, "abc", "0");
    IDS(tok, "", "");
    TEXT(tok, "ab c ?", 1, 2, 0);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_UNK), 0);
    clef_tokenizer_close(tok);
}

/* ---- Unigram */

#define PIECES                                                                                               \
    "[[\"<unk>\",0.0],[\"" META_SPACE "\",-2.0],[\"a\",-3.0],[\"b\",-3.5],[\"ab\",-4.0],[\"" META_SPACE      \
    "a\",-3.2],[\"bab\",-5.5],"                                                                              \
    "[\"<0xC3>\",-9.0],[\"<0xA9>\",-9.0]]"
#define UNIGRAM(fallback)                                                                                    \
    "{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":" fallback ",\"vocab\":" PIECES "}"
#define UNIGRAM_JSON(fallback) ROOT("null", META(""), UNIGRAM(fallback), META(""), "null", "[]")

static void test_unigram(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(UNIGRAM_JSON("false"));
    IDS(tok, "ab", "1 4"); /* -2 - 4 is more than -3.2 - 3.5 */
    IDS(tok, "a bab", "5 1 6");
    IDS(tok, "abab", "5 6");
    IDS(tok, "zz a\xC3\xA9", "1 0 5 0"); /* a run of unknown characters is one */
    IDS(tok, "bb", "1 3 3");
    IDS(tok, "", "");
    TEXT(tok, "a bab", 5, 1, 6);
    clef_tokenizer_close(tok);
    tok = must_open_json(UNIGRAM_JSON("true"));
    IDS(tok, "zz a\xC3\xA9", "1 0 5 7 8");
    clef_tokenizer_close(tok);
}

/* ---- BPE whose symbols know where in a word they are */

#define SUFFIXED                                                                                             \
    "{\"type\":\"BPE\",\"unk_token\":\"<|e|>\",\"end_of_word_suffix\":\"</"                                  \
    "w>\",\"vocab\":{\"a\":0,\"b\":1,\"a</w>\":2,\"b</w>\":3,"                                               \
    "\"ab</w>\":4,\"ab\":5,\"<|e|>\":6},\"merges\":[\"a b</w>\",\"a b\"]}"
#define PREFIXED                                                                                             \
    "{\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0,\"##b\":1,\"ab\":2,\"##a\":"  \
    "3,\"##ba\":4},"                                                                                         \
    "\"merges\":[\"##b ##a\",\"a ##b\"]}"

static void test_affixes(void **state)
{
    (void)state;
    clef_tokenizer *tok = must_open_json(ROOT("null", "{\"type\":\"WhitespaceSplit\"}", SUFFIXED,
                                              "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", "null", "[]"));
    IDS(tok, "ab a", "4 2");
    IDS(tok, "abab b", "5 4 3");
    IDS(tok, "x ab", "6 4");
    TEXT(tok, "ab a", 4, 2);
    TEXT(tok, "abab b", 5, 4, 3);
    clef_tokenizer_close(tok);
    tok = must_open_json(ROOT("null", "{\"type\":\"Whitespace\"}", PREFIXED, "null", "null", "[]"));
    IDS(tok, "ab", "2");
    IDS(tok, "aba abab", "0 4 0 4 1");
    IDS(tok, "b", "");
    clef_tokenizer_close(tok);
}

/* ---- pairs */

typedef struct pair_case {
    const char *a, *b; /* b NULL: one text */
    clef_encode_opts opts;
    const char *ids, *types;
    int32_t n_cut;
} pair_case;

static void check_numbers(const char *what, const int32_t *got, int32_t n, const char *wanted)
{
    char text[256] = "";
    for (int32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "", got[i]);
    if (strcmp(text, wanted) != 0)
        fail_msg("%s: %s, expected %s", what, text, wanted);
}

static void check_pairs(const clef_tokenizer *tok, const pair_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const pair_case *c = &cases[i];
        clef_encoded out;
        clef_error err = {0};
        if (clef_tokenizer_encode_pair(tok, c->a, strlen(c->a), c->b, c->b ? strlen(c->b) : 0, &c->opts, &out,
                                       &err) != CLEF_OK)
            fail_msg("case %zu: %s", i, err.text);
        check_numbers(c->a, out.ids, out.n, c->ids);
        check_numbers(c->a, out.types, out.n, c->types);
        assert_int_equal(out.n_cut, c->n_cut);
        clef_encoded_finish(&out);
    }
}

static void test_bert_pairs(void **state)
{
    (void)state;
    static const pair_case cases[] = {
        {"ab", "d", {0}, "1 3 2 6 2", "0 0 0 1 1", 0},
        {"", "d .", {0}, "1 2 6 7 2", "0 0 1 1 1", 0},
        {"ab", NULL, {0}, "1 3 2", "0 0 0", 0},
        {"ab", "d", {.special = CLEF_SPECIAL_NONE}, "3 6", "0 1", 0},
        {"ab d . d", NULL, {.max_tokens = 4}, "1 3 6 2", "0 0 0 0", 2},
        {"ab d . d", "ab", {.max_tokens = 6}, "1 3 6 2 3 2", "0 0 0 0 1 1", 2},
        {"ab d . d", "ab d", {.max_tokens = 5}, "1 3 2 3 2", "0 0 0 1 1", 4},
        {"ab d", "ab d . d", {.max_tokens = 8}, "1 3 6 2 3 6 7 2", "0 0 0 0 1 1 1 1", 1},
        {"ab d .",
         "d d",
         {.max_tokens = 6, .truncate = CLEF_TRUNCATE_FIRST},
         "1 3 2 6 6 2",
         "0 0 0 1 1 1",
         2},
        {"ab d .",
         "d d",
         {.max_tokens = 7, .truncate = CLEF_TRUNCATE_SECOND},
         "1 3 6 7 2 6 2",
         "0 0 0 0 0 1 1",
         1},
    };
    clef_tokenizer *tok = must_open_json(BERT_JSON);
    clef_encoded out;
    clef_error err = {0};
    check_pairs(tok, cases, sizeof cases / sizeof *cases);
    check_error(
        "no room for the marks",
        clef_tokenizer_encode_pair(tok, "ab", 2, "d", 1, &(clef_encode_opts){.max_tokens = 2}, &out, &err),
        &err, CLEF_E_ARG, "max_tokens is 2, expected at least the 3 special tokens");
    check_error("the other text is too long",
                clef_tokenizer_encode_pair(
                    tok, "ab", 2, "d d d", 5,
                    &(clef_encode_opts){.max_tokens = 5, .truncate = CLEF_TRUNCATE_FIRST}, &out, &err),
                &err, CLEF_E_LIMIT, "text 2 has 3 tokens");
    assert_null(out.ids);
    clef_tokenizer_close(tok);
}

#define TWO                                                                                                  \
    "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"[C]\":3,\"[S]\":4}}"
#define MARK_ITEM(id, type) "{\"SpecialToken\":{\"id\":\"" id "\",\"type_id\":" type "}}"
#define TEXT_ITEM(id, type) "{\"Sequence\":{\"id\":\"" id "\",\"type_id\":" type "}}"
#define TURNED                                                                                               \
    "{\"type\":\"TemplateProcessing\",\"single\":[" MARK_ITEM("[C]", "0") "," TEXT_ITEM(                     \
        "A",                                                                                                 \
        "0") "," MARK_ITEM("[S]",                                                                            \
                           "0") "],"                                                                         \
                                "\"pair\":[" MARK_ITEM("[C]", "0") "," TEXT_ITEM("B", "1") "," MARK_ITEM(    \
                                    "[S]", "1") "," TEXT_ITEM("A",                                           \
                                                              "2") "],"                                      \
                                                                   "\"special_tokens\":{\"[C]\":{\"ids\":["  \
                                                                   "3]},\"[S]\":{\"ids\":[4]}}}"

/* A template may put the second text first and set its own types. */
static void test_templates(void **state)
{
    (void)state;
    static const pair_case cases[] = {
        {"a b", NULL, {0}, "3 1 2 4", "0 0 0 0", 0},
        {"a b", "b", {0}, "3 2 4 1 2", "0 1 1 2 2", 0},
        {"", "", {0}, "3 4", "0 1", 0},
        {"a b", "b", {.max_tokens = 4}, "3 2 4 1", "0 1 1 2", 1},
    };
    clef_tokenizer *tok = must_open_json(ROOT("null", "{\"type\":\"WhitespaceSplit\"}", TWO, "null", TURNED,
                                              "[" SPECIAL("3", "[C]") "," SPECIAL("4", "[S]") "]"));
    check_pairs(tok, cases, sizeof cases / sizeof *cases);
    clef_tokenizer_close(tok);
}

/* RoBERTa puts two special tokens between its texts, all of type 0. */
static void test_roberta_pairs(void **state)
{
    (void)state;
    static const pair_case cases[] = {
        {"a", NULL, {0}, "3 1 4", "0 0 0", 0},
        {"a", "b", {0}, "3 1 4 4 2 4", "0 0 0 0 0 0", 0},
    };
    clef_tokenizer *tok = must_open_json(
        ROOT("null", "{\"type\":\"WhitespaceSplit\"}", TWO, "null",
             "{\"type\":\"RobertaProcessing\",\"cls\":[\"[C]\",3],\"sep\":[\"[S]\",4]}", "[]"));
    check_pairs(tok, cases, sizeof cases / sizeof *cases);
    clef_tokenizer_close(tok);
}

/* ---- files of lines: vocab.txt, tiktoken */

static void test_vocab_txt(void **state)
{
    (void)state;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    write_text(temp_path("vocab.txt"), "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nab\n##c\nd\n");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "ABC [MASK] d", "2 5 6 4 7 3");
    IDS(tok, "abd", "1");
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_PAD), 0);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_UNK), 1);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_CLS), 2);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_SEP), 3);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_MASK), 4);
    clef_tokenizer_close(tok);
    write_text(temp_path("tokenizer_config.json"), "{\"do_lower_case\":false}");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    IDS(tok, "ABC abc", "1 5 6");
    clef_tokenizer_close(tok);
    clef__os_remove(temp_path("tokenizer_config.json"));
    write_text(temp_path("vocab.txt"), "a\nb\n");
    check_error("no [UNK]", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_FORMAT, "without [UNK]");
    write_text(temp_path("vocab.txt"), "");
    check_error("an empty file", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_FORMAT, "empty");
    clef__os_remove(temp_path("vocab.txt"));
}

static void test_tiktoken(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text;
        clef_status status;
        const char *piece;
    } bad[] = {
        {"new_base.tiktoken", "YQ== 0\n", CLEF_E_UNSUPPORTED,
         "expected a name that begins with one of o200k, cl100k"},
        {"cl100k_base.tiktoken", "YQ== 0\nYg==\n", CLEF_E_FORMAT, "line 2: expected \"base64 rank\""},
        {"cl100k_base.tiktoken", "YQ== 0\nYg== 0\n", CLEF_E_FORMAT, "id 0 is both \"a\" and \"b\""},
        {"cl100k_base.tiktoken", "YQ== 0\nYg== 9999999\n", CLEF_E_FORMAT, "a rank of 9999999 among 2 tokens"},
    };
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *path = temp_path("cl100k_base.tiktoken");
    write_text(path, "YQ== 0\nYg== 1\nIA== 2\nYWI= 3\nIGE= 4\nw6k= 5\n\n"); /* a b space ab " a" U+00E9 */
    assert_int_equal(clef_tokenizer_open(path, &tok, &err), CLEF_OK);
    IDS(tok,
        "ab a\xC3\xA9"
        "b",
        "3 4 5 1");
    IDS(tok, "a<|endoftext|>b", "0 100257 1");
    TEXT(tok, "ab a\xC3\xA9", 3, 4, 5, 100257);
    assert_int_equal(clef_tokenizer_eos(tok), 100257);
    clef_tokenizer_close(tok);
    clef__os_remove(path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        path = temp_path(bad[i].file);
        write_text(path, bad[i].text);
        check_error(bad[i].text, clef_tokenizer_open(path, &tok, &err), &err, bad[i].status, bad[i].piece);
        clef__os_remove(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece),     cmocka_unit_test(test_wordlevel),
        cmocka_unit_test(test_unigram),       cmocka_unit_test(test_affixes),
        cmocka_unit_test(test_bert_pairs),    cmocka_unit_test(test_templates),
        cmocka_unit_test(test_roberta_pairs), cmocka_unit_test(test_vocab_txt),
        cmocka_unit_test(test_tiktoken),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_dir);
}

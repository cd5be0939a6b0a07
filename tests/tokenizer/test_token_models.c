/* The models of a tokenizer.json other than plain BPE, on small vocabularies and with the stages that go
 * with them. Also pairs of texts, and their truncation. The expected ids are those of Hugging Face's
 * tokenizers. */
#define TEST_NAME "test-token-models"
#include "tests/cases.h"
#include "tests/tokenizer/tokenizers.h"

/* ---- cases: tests/fixtures/tokenizer_models.json */

static clef_tokenizer *open_case(const json_t *c)
{
    char *json = json_dumps(case_value(c, "tokenizer"), JSON_REAL_PRECISION(15));
    clef_tokenizer *tok = must_open_json(json);
    free(json);
    return tok;
}

static void check_encoding(const clef_tokenizer *tok, const json_t *c, const char *key, clef_special special)
{
    const json_t *list = case_value(c, key), *row;
    size_t i;
    json_array_foreach(list, i, row) {
        const json_t *text = json_array_get(row, 0);
        check_ids(tok, json_string_value(text), json_string_length(text), special,
                  json_string_value(json_array_get(row, 1)));
    }
}

static void check_decoding(const clef_tokenizer *tok, const json_t *c)
{
    const json_t *list = case_value(c, "texts"), *row;
    size_t i;
    json_array_foreach(list, i, row) {
        int32_t ids[16], n = 0;
        const char *text = json_string_value(json_array_get(row, 0));
        char *at = (char *)(uintptr_t)json_string_value(json_array_get(row, 1));
        for (char *end; n < 16; at = end, n++) {
            ids[n] = (int32_t)strtol(at, &end, 10);
            if (end == at)
                break;
        }
        check_text(tok, ids, n, text, strlen(text));
    }
}

static void check_numbers(const json_t *pair, const char *key, const int32_t *got, int32_t n)
{
    char text[256] = "";
    for (int32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "", got[i]);
    if (strcmp(text, case_text(pair, key)) != 0)
        fail_case(pair, "%s: got %s", key, text);
}

static void check_pairs(const clef_tokenizer *tok, const json_t *c)
{
    const json_t *list = case_value(c, "pairs"), *pair;
    size_t i;
    json_array_foreach(list, i, pair) {
        const char *a = case_text(pair, "a"), *b = case_text(pair, "b"),
                   *truncate = case_text(pair, "truncate");
        const clef_encode_opts opts = {.special =
                                           case_text(pair, "special") ? CLEF_SPECIAL_NONE : CLEF_SPECIAL_ADD,
                                       .max_tokens = (int32_t)case_number(pair, "max_tokens", 0),
                                       .truncate = !truncate                        ? CLEF_TRUNCATE_LONGEST
                                                   : strcmp(truncate, "first") == 0 ? CLEF_TRUNCATE_FIRST
                                                                                    : CLEF_TRUNCATE_SECOND};
        clef_encoded out;
        clef_error err = {0};
        ok(clef_tokenizer_encode_pair(tok, a, strlen(a), b, b ? strlen(b) : 0, &opts, &out, &err), &err);
        check_numbers(pair, "ids", out.ids, out.n);
        check_numbers(pair, "types", out.types, out.n);
        assert_int_equal(out.n_cut, case_number(pair, "n_cut", 0));
        clef_encoded_finish(&out);
    }
}

static void check_model(const json_t *c)
{
    clef_tokenizer *tok = open_case(c);
    check_encoding(tok, c, "ids", CLEF_SPECIAL_NONE);
    check_encoding(tok, c, "special", CLEF_SPECIAL_ADD);
    check_decoding(tok, c);
    check_pairs(tok, c);
    assert_int_equal(clef_tokenizer_n_tokens(tok), case_number(c, "n_tokens", clef_tokenizer_n_tokens(tok)));
    assert_int_equal(clef_tokenizer_bos(tok), case_number(c, "bos", clef_tokenizer_bos(tok)));
    assert_int_equal(clef_tokenizer_eos(tok), case_number(c, "eos", clef_tokenizer_eos(tok)));
    clef_tokenizer_close(tok);
}

TEST(test_models)
{
    for_each_case("tokenizer_models.json", "models", check_model);
}

/* What is asked of the first model, a WordPiece with BERT's pairs, and of the second, a WordLevel. */
TEST(test_wordpiece)
{
    const json_t *models = case_file("tokenizer_models.json", "models");
    clef_tokenizer *tok = open_case(json_array_get(models, 0));
    clef_encoded out;
    clef_error err = {0};
    assert_int_equal(clef_tokenizer_find(tok, "abc"), 10);
    assert_int_equal(clef_tokenizer_find(tok, "abcd"), -1);
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
    tok = open_case(json_array_get(models, 1));
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_UNK), 0);
    clef_tokenizer_close(tok);
}

/* ---- files of lines: vocab.txt, tiktoken */

TEST(test_vocab_txt)
{
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

TEST(test_tiktoken)
{
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

TESTS(make_temp_dir, remove_temp_dir)

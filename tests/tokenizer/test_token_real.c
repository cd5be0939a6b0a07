/* Tokenizers of real models: the bundled one, and those of the shared data if it exists. */
#define TEST_NAME "test-token-real"
#include "tests/skip.h"
#include "tests/tokenizer/tokenizers.h"

#include <jansson.h>

/* Checks the ids of the prompts in a folder's expected.json. */
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
        assert_int_equal(clef_tokenizer_encode(tok, prompt, strlen(prompt), CLEF_SPECIAL_ADD, &ids, &n, &err),
                         CLEF_OK);
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

TEST(test_demo)
{
    check_folder(CLEF_SOURCE_DIR "/share/demo");
}

static const char *shared(const char *file)
{
    static char path[2][1024];
    static int turn;
    const char *folder = clef__os_env("CLEF_SHARED");
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/data/%s", folder ? folder : CLEF_SOURCE_DIR "/../shared",
             file);
    return path[turn];
}

static int is_shared(void)
{
    return clef__os_is_dir(shared("vocab"));
}

static void check_case(const clef_tokenizer *tok, const char *file, const json_t *one)
{
    const json_t *text = json_array_get(one, 0), *wanted = json_array_get(one, 1),
                 *back = json_array_get(one, 2);
    const size_t n_wanted = json_array_size(wanted);
    int32_t *ids = NULL, n = 0;
    assert_int_equal(clef_tokenizer_encode(tok, json_string_value(text), json_string_length(text),
                                           CLEF_SPECIAL_NONE, &ids, &n, NULL),
                     CLEF_OK);
    for (int32_t k = 0; k < n && (size_t)k < n_wanted; k++)
        if (ids[k] != json_integer_value(json_array_get(wanted, (size_t)k)))
            fail_msg("%s: \"%s\": id %d is %d, expected %d", file, json_string_value(text), k, ids[k],
                     (int)json_integer_value(json_array_get(wanted, (size_t)k)));
    if ((size_t)n != n_wanted)
        fail_msg("%s: \"%s\": %d ids, expected %zu", file, json_string_value(text), n, n_wanted);
    back = back ? back : text;
    check_text(tok, ids, n, json_string_value(back), json_string_length(back));
    clef_tokens_free(ids);
}

/* Checks llama.cpp's n_cases cases: .inp has texts between separators, .out a line of ids for each. */
static void check_vocab(const char *name, int n_cases)
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
        n_cases--;
    }
    assert_int_equal(n_cases, 0);
    clef_tokenizer_close(tok);
    free(texts);
    free(ids);
}

TEST(test_vocabs)
{
    if (!is_shared())
        skip_without("vocabularies");
    check_vocab("vocab/ggml-vocab-bert-bge.gguf", 47);
    check_vocab("vocab/ggml-vocab-gemma-4.gguf", 46);
    check_vocab("vocab/ggml-vocab-gpt-2.gguf", 47);
    check_vocab("vocab/ggml-vocab-llama-bpe.gguf", 47);
    check_vocab("vocab/ggml-vocab-llama-spm.gguf", 47);
    check_vocab("vocab/ggml-vocab-qwen2.gguf", 47);
    check_folder(shared("tinystories-656k"));
}

/* Checks 500 texts with the ids of Hugging Face's tokenizers and sentencepiece (oracle_tokenizers.py
 * --fixture). A case has a third item if its ids decode to another text. */
TEST(test_fixture)
{
    json_t *root = json_load_file(CLEF_SOURCE_DIR "/tests/fixtures/tokenizers.json", JSON_ALLOW_NUL, NULL),
           *cases;
    size_t n_cases = 0;
    const char *file;
    assert_non_null(root);
    json_object_foreach(root, file, cases) {
        char path[200];
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        n_cases += json_array_size(cases);
        if (!clef__os_is_dir(shared("tokenizers")))
            continue;
        snprintf(path, sizeof path, "tokenizers/%s", file);
        if (clef_tokenizer_open(shared(path), &tok, &err) != CLEF_OK)
            fail_msg("%s", err.text);
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(tok, file, json_array_get(cases, i));
        clef_tokenizer_close(tok);
    }
    json_decref(root);
    assert_int_equal(n_cases, 500);
    if (!is_shared())
        skip_without("vocabularies");
}

TEST(test_llama2)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    if (!is_shared())
        skip_without("vocabularies");
    assert_int_equal(clef_tokenizer_open(shared("tokenizers/llama2/tokenizer.model"), &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "", "1");
    WITH_SPECIAL(tok, "I believe the meaning of life is", "1 306 4658 278 6593 310 2834 338");
    WITH_SPECIAL(tok, "Simply put, the theory of relativity states that ",
                 "1 3439 17632 1925 29892 278 6368 310 14215 537 5922 393 29871");
    clef_tokenizer_close(tok);
    assert_int_equal(clef_tokenizer_open(shared("stories260K/stories260K.gguf"), &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "Once upon a time", "1 403 407 261 378");
    clef_tokenizer_close(tok);
}

TEST(test_real_refusals)
{
    static const struct {
        const char *path;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"tokenizers/llama2", CLEF_E_FORMAT,
         "llama2/tokenizer.json: BPE: merge 18917 \"   \" is not two tokens"},
        {"tokenizers/bert", CLEF_E_NOT_FOUND, "no tokenizer file; expected one of tokenizer.json"},
    };
    if (!is_shared())
        skip_without("vocabularies");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        check_error(rows[i].path, clef_tokenizer_open(shared(rows[i].path), &tok, &err), &err, rows[i].status,
                    rows[i].piece);
    }
}

TESTS(make_temp_dir, remove_temp_dir)

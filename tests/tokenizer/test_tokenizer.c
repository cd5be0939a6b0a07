/* Tokenizers assembled here: exact ids, texts and statuses; streams, added tokens, folders, limits. */
#define TEST_NAME "test-tokenizer"
#include "tests/tokenizer/tokenizers.h"

TEST(test_invalid_bytes)
{
    clef_tokenizer *tok = must_open_json(SPACE_JSON);
    IDS(tok, "\xFF", "3 0"); /* U+FFFD */
    clef_tokenizer_close(tok);
}

TEST(test_stream)
{
    clef_tokenizer *tok = must_open_json(BYTE_JSON);
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
    assert_non_null(strstr(err.text, "id -1 is outside the vocabulary of 12"));
    assert_int_equal(clef_stream_push(&stream, 12, out, sizeof out, &n, &err), CLEF_OK); /* no text */
    assert_int_equal(n, 0);
    assert_int_equal(clef_stream_push(&(clef_stream){0}, 0, out, sizeof out, &n, &err), CLEF_E_ARG);
    assert_int_equal(
        clef_stream_push(&(clef_stream){.tok = tok, .n_pending = 9}, 0, out, sizeof out, &n, &err),
        CLEF_E_ARG);
    clef_tokenizer_close(tok);
}

TEST(test_arguments)
{
    clef_tokenizer *tok = must_open_json(BYTE_JSON), *none = tok;
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

/* A token's text fits a stream's output, or the file is refused. */
TEST(test_long_token)
{
    char text[6000], json[8000];
    for (int i = 0; i < 2; i++) {
        const size_t n = i ? 5000 : 1021;
        memset(text, 'x', n);
        text[n] = 0;
        snprintf(json, sizeof json,
                 BYTE_ROOT("null", "{\"type\":\"BPE\",\"vocab\":{\"%s\":0},\"merges\":[]}", "[]"), text);
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        check_error("a long token", open_json(json, &tok, &err), &err, CLEF_E_LIMIT, "token 0");
    }
}

TEST(test_regex_limit)
{
    clef_tokenizer *tok =
        must_open_json(BYTE_ROOT(PRE(SPLIT("\"Regex\":\"(?:a+)+[bc]\"", "Isolated", "")), BYTE_MODEL, "[]"));
    char text[64];
    int32_t *ids = NULL, n = 0;
    clef_error err = {0};
    memset(text, 'a', sizeof text);
    check_error("(?:a+)+[bc]",
                clef_tokenizer_encode(tok, text, sizeof text, CLEF_SPECIAL_NONE, &ids, &n, &err), &err,
                CLEF_E_LIMIT, "regex");
    assert_null(ids);
    clef_tokenizer_close(tok);
}

/* ---- files and folders */

TEST(test_folder)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    check_error("no folder", clef_tokenizer_open(temp_path("nothing"), &tok, &err), &err, CLEF_E_IO,
                "nothing");
    check_error("an empty folder", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_NOT_FOUND,
                "no tokenizer file; expected one of tokenizer.json, tokenizer.model");
    write_text(temp_path("vocab.json"), "{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3}");
    check_error("no merges.txt", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_IO, "merges.txt");
    write_text(temp_path("merges.txt"), "#version: 0.2\r\na b\r\n\n");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "ab<|endoftext|>ba", "2 3 1 0");
    assert_int_equal(clef_tokenizer_bos(tok), 3);
    assert_int_equal(clef_tokenizer_eos(tok), 3);
    clef_tokenizer_close(tok);
    assert_int_equal(clef_tokenizer_open(temp_path("merges.txt"), &tok, &err), CLEF_OK);
    clef_tokenizer_close(tok);
    write_text(temp_path("merges.txt"), "a b c\n");
    check_error("a broken merge", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_FORMAT,
                "merge 0 \"a b c\"");
    clef__os_remove(temp_path("vocab.json"));
    clef__os_remove(temp_path("merges.txt"));
}

TEST(test_config)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    write_text(temp_path("tokenizer.json"), BYTE_JSON);
    write_text(temp_path("config.json"), "{\"bos_token_id\":1,\"eos_token_id\":[2,3]}");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_bos(tok), 1);
    assert_int_equal(clef_tokenizer_eos(tok), 2);
    WITH_SPECIAL(tok, "a", "0");
    clef_tokenizer_close(tok);
    write_text(temp_path("tokenizer_config.json"),
               "{\"model_max_length\":1000000000000000019884624838656,\"add_bos_token\":true,"
               "\"add_eos_token\":true,\"bos_token\":{\"content\":\"<|end|>\"},\"eos_token\":\"c\"}");
    assert_int_equal(clef_tokenizer_open(temp_dir, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_bos(tok), 10);
    WITH_SPECIAL(tok, "a", "0"); /* tokenizer.json's post-processor counts */
    IDS(tok, "a", "0");
    clef_tokenizer_close(tok);
    write_text(temp_path("tokenizer_config.json"), "{");
    check_error("a bad config", clef_tokenizer_open(temp_dir, &tok, &err), &err, CLEF_E_FORMAT,
                "tokenizer_config.json");
    clef__os_remove(temp_path("tokenizer.json"));
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path("tokenizer_config.json"));
}

/* A word of 256 bytes or more is cut between characters that no token has side by side. The ids are those
 * of its parts. */
TEST(test_long_words)
{
    enum { N = 200 };
    clef_tokenizer *tok = must_open_json(SPACE_JSON);
    char text[5 * N + 1] = "", wanted[16 * N] = "";
    for (int i = 0; i < N; i++) {
        strcat(text, i % 2 ? "a zz " : "ab a ");
        strcat(wanted, i % 2 ? "6 3 0 " : "6 5 6 ");
    }
    strcat(wanted, "3"); /* the space at the end */
    check_ids(tok, text, strlen(text), CLEF_SPECIAL_NONE, wanted);
    memset(text, 'z', 5 * N); /* unknown characters are one, however many */
    IDS(tok, "z", "3 0");
    check_ids(tok, text, 5 * N, CLEF_SPECIAL_NONE, "3 0");
    clef_tokenizer_close(tok);
}

/* ---- time: a megabyte of the same must not be quadratic (ctest's limit would stop it) */

TEST(test_long_runs)
{
    enum { N = 1 << 20 };
    static const char *const jsons[] = {BYTE_JSON, SPACE_JSON, NORMAL("{\"type\":\"NFC\"}")};
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

TESTS(make_temp_dir, remove_temp_dir)

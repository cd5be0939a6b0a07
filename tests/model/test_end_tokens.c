/* Tokens that end a text by their text: which of them, beside the ids that a file names. */
#define TEST_NAME "test-end-tokens"
#include "tests/files.h"

#include "model/open/end_tokens.h"

static void put_text(blob *b, const char *text)
{
    put_int(b, strlen(text), 8);
    put(b, text, strlen(text));
}

/* The ids that end a text, of a GGUF file with these tokens (separated by spaces) that names `eos` and `more`
 * (-1: none), and with more keys. Written as "2 5": the named ones first. */
static void check_ends(const char *tokens, int32_t eos, int32_t more, const char *key, int32_t id,
                       const char *wanted)
{
    blob b = {.n = 0}, list = {.n = 0};
    uint64_t n = 0;
    clef_gguf gguf;
    clef_error err = {0};
    clef_hparams hp = {.eos = eos, .eos_more = {more}, .n_eos_more = more >= 0};
    char got[256] = "", copy[256];
    snprintf(copy, sizeof copy, "%s", tokens);
    for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "), n++)
        put_text(&list, at);
    assemble(&b, key ? "t:GGUF 4:3 8:0 8:2" : "t:GGUF 4:3 8:0 8:1");
    put_text(&b, "tokenizer.ggml.tokens");
    assemble(&b, "4:9 4:8");
    put_int(&b, n, 8);
    put(&b, list.p, list.n);
    if (key) {
        put_text(&b, key);
        put_int(&b, 4, 4);
        put_int(&b, (uint64_t)id, 4);
    }
    if (clef__gguf_parse(b.p, b.n, "m.gguf", &gguf, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    clef__end_tokens_of_gguf(&gguf, &hp);
    if (hp.eos >= 0)
        snprintf(got, sizeof got, "%d ", (int)hp.eos);
    for (int32_t i = 0; i < hp.n_eos_more; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%d ", (int)hp.eos_more[i]);
    if (strncmp(got, wanted, strlen(wanted)) != 0 || strlen(got) != strlen(wanted) + (*wanted != 0))
        fail_msg("%s: %s, expected %s", tokens, got, wanted);
    assert_int_equal(hp.n_eos_by_text, hp.n_eos_more - (more >= 0));
    clef__gguf_close(&gguf);
}

TEST(test_texts)
{
    check_ends("a b c", 1, -1, NULL, 0, "1");
    check_ends("a <|eot_id|> c", 2, -1, NULL, 0, "2 1");
    check_ends("a <|eot_id|> <|im_end|> <|im_start|>", 0, 1, NULL, 0, "0 1 2");
    check_ends("<end_of_turn> <eos> x", 1, -1, NULL, 0, "1 0");
    check_ends("<|endoftext|> _<EOT> <EOT>", -1, -1, NULL, 0, "0 2 1");
    check_ends("<|im_end|>x x<|im_end|>", -1, -1, NULL, 0, "");
}

TEST(test_exceptions)
{
    check_ends("<|end|> <|return|> x", 2, -1, NULL, 0, "2 0 1");
    check_ends("<|end|> <|return|> <|call|>", 1, -1, NULL, 0,
               "1 2"); /* gpt-oss ends a message with <|end|> */
    check_ends("<|end|> <|flush|> <|calls|> x", 3, -1, NULL, 0, "3 1 2");
    check_ends("</s> <|tool_response> x", 2, -1, NULL, 0, "2 1");
    check_ends("</s> <|plamo:eos|> x", 1, -1, NULL, 0, "1");
    check_ends("</s> <|plamo:eos|> x", 2, -1, NULL, 0, "2 0");
}

/* A token between files ends a text. Its key counts before its usual texts. */
TEST(test_between_files)
{
    check_ends("<|file_sep|> <|fim_pad|> <|repo_name|> x", 3, -1, NULL, 0, "3 1 2 0");
    check_ends("x <|fim_pad|> y z", 2, -1, "tokenizer.ggml.fim_pad_token_id", 3, "2 3");
    check_ends("x y", 1, -1, "tokenizer.ggml.fim_sep_token_id", 7, "1");
}

TESTS(make_temp_dir, remove_temp_dir)

/* The tokenizer.ggml.* keys of GGUF files, made here. */
#define TEST_NAME "test-token-gguf"
#include "tests/cases.h"
#include "tests/tokenizer/tokenizers.h"

#include "model/tokenizer/read/gguf_pre.h"

#define GGUF_HEAD(keys) "t:GGUF 4:3 8:0 8:" keys " "
#define T "tokenizer.ggml."
#define GGUF_TEXT(key, value) "s:" T key " 4:8 s:" value " "
#define GGUF_BOOL(key, value) "s:" T key " 4:7 1:" value " "
#define GGUF_ID(key, value) "s:" T key " 4:4 4:" value " "
#define GGUF_ARCH(value) "s:general.architecture 4:8 s:" value " "
#define GGUF_GPT2                                                                                            \
    GGUF_TEXT("model", "gpt2")                                                                               \
    "s:" T "tokens 4:9 4:8 8:4 s:a s:b s:ab s:<x> s:" T "merges 4:9 4:8 8:1 8:3 t:a 1:32 t:b "
#define GGUF_TYPES "s:" T "token_type 4:9 4:5 8:4 4:1 4:1 4:1 4:3 "
#define GGUF_LLAMA                                                                                           \
    GGUF_TEXT("model", "llama")                                                                              \
    "s:" T "tokens 4:9 4:8 8:6 s:<unk> s:<s> s:" META_SPACE " s:a s:" META_SPACE "a s:<0x0A> s:" T           \
    "scores 4:9 4:6 8:6 f:0 f:0 f:-3 f:-2 f:-1 f:0 "

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

TEST(test_gguf)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *gpt2 =
        GGUF_HEAD("6") GGUF_GPT2 GGUF_TYPES GGUF_TEXT("pre", "llama-bpe") GGUF_ID("bos_token_id", "3");
    assert_int_equal(open_gguf(gpt2, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_bos(tok), 3);
    assert_int_equal(clef_tokenizer_eos(tok), -1);
    WITH_SPECIAL(tok, "ab<x>b", "3 2 3 1");
    TEXT(tok, "abb", 2, 3, 1);
    clef_tokenizer_close(tok);
    const char *llama = GGUF_HEAD("6") GGUF_LLAMA GGUF_BOOL("add_eos_token", "1") GGUF_ID("eos_token_id", "1")
        GGUF_ID("padding_token_id", "-1");
    assert_int_equal(open_gguf(llama, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_leading_bos(tok), 1);
    WITH_SPECIAL(tok, "a a\n", "1 4 4 5 1");
    WITH_SPECIAL(tok, "", "1 1");
    IDS(tok, "<s>a", "1 4");
    TEXT(tok, "a a\n", 1, 4, 4, 5);
    clef_tokenizer_close(tok);
    llama = GGUF_HEAD("5") GGUF_LLAMA GGUF_BOOL("add_bos_token", "0") GGUF_BOOL("add_space_prefix", "0");
    assert_int_equal(open_gguf(llama, &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "a a", "3 4");
    TEXT(tok, " aa", 4, 3);
    assert_int_equal(clef_tokenizer_bos(tok), 1);
    assert_int_equal(clef_tokenizer_leading_bos(tok), -1); /* no text begins with it */
    clef_tokenizer_close(tok);
    assert_int_equal(clef_tokenizer_leading_bos(NULL), -1);
}

TEST(test_gguf_roles_of_code)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *code =
        GGUF_HEAD("5") GGUF_LLAMA GGUF_ID("fim_pre_token_id", "3") GGUF_ID("fim_suf_token_id", "4");
    assert_int_equal(open_gguf(code, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_FIM_PREFIX), 3);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_FIM_SUFFIX), 4);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_FIM_MIDDLE), -1);
    clef_tokenizer_close(tok);
    code = GGUF_HEAD("4") GGUF_LLAMA GGUF_ID("fim_mid_token_id", "5");
    assert_int_equal(open_gguf(code, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_FIM_MIDDLE), 5);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_FIM_PREFIX), -1);
    clef_tokenizer_close(tok);
}

TEST(test_ids_begin_with_an_id)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    int32_t *ids = NULL, n = 0;
    assert_int_equal(open_gguf(GGUF_HEAD("3") GGUF_LLAMA, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_encode(tok, "", 0, CLEF_SPECIAL_NONE, &ids, &n, &err), CLEF_OK);
    for (int32_t i = 0; i < 2; i++) { /* the second time it is there */
        assert_int_equal(clef_tokens_begin_with(1, &ids, &n, &err), CLEF_OK);
        assert_int_equal(n, 1);
        assert_int_equal(ids[0], 1);
    }
    assert_int_equal(clef_tokens_begin_with(7, &ids, &n, &err), CLEF_OK);
    assert_int_equal(n, 2);
    assert_memory_equal(ids, ((const int32_t[]){7, 1}), 2 * sizeof *ids);
    clef_tokens_free(ids);
    clef_tokenizer_close(tok);
}

/* User-defined pieces, which llama.cpp's converter writes with spaces, are found before any merge. */
TEST(test_gguf_spaces)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *gemma = GGUF_HEAD("6")
        GGUF_TEXT("model", "llama") "s:" T "tokens 4:9 4:8 8:8 s:<unk> s:" META_SPACE " s:a s:" META_SPACE
                                    "a 8:2 1:32 1:32 8:3 1:32 1:32 1:32 8:1 1:10 s:<t> s:" T
                                    "scores 4:9 4:6 8:8 f:0 f:-3 f:-2 f:-1 f:-9 f:-9 f:-9 f:-9 s:" T
                                    "token_type 4:9 4:5 8:8 4:2 4:1 4:1 4:1 4:4 4:4 4:4 4:4 " GGUF_BOOL(
                                        "add_bos_token", "0") GGUF_BOOL("add_space_prefix", "0");
    assert_int_equal(open_gguf(gemma, &tok, &err), CLEF_OK);
    IDS(tok, "a a  a   a    a", "2 3 4 2 5 2 5 3");
    IDS(tok, "  \n <t>  a", "4 6 1 7 4 2");
    TEXT(tok, "a  a\n   a", 2, 4, 2, 6, 5, 2);
    clef_tokenizer_close(tok);
}

#define GGUF_BERT                                                                                            \
    GGUF_TEXT("model", "bert")                                                                               \
    "s:" T "tokens 4:9 4:8 8:6 s:[UNK] s:[CLS] s:[SEP] s:" META_SPACE "ab s:c s:" META_SPACE "d s:" T        \
    "token_type 4:9 4:5 8:6 4:2 4:3 4:3 4:1 4:1 "                                                            \
    "4:1 "

/* Pieces that begin a word have U+2581 before them; the others have lost their "##". */
TEST(test_gguf_bert)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *bert = GGUF_HEAD("6") GGUF_BERT GGUF_ID("unknown_token_id", "0") GGUF_ID("cls_token_id", "1")
        GGUF_ID("seperator_token_id", "2");
    assert_int_equal(open_gguf(bert, &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "ABC d", "1 3 4 5 2");
    IDS(tok, "abd c", "0 0");
    IDS(tok, "\u00e4b", "3");
    IDS(tok, "ab[SEP]d", "3 2 5");
    TEXT(tok, "abc d", 1, 3, 4, 5, 2);
    assert_int_equal(clef_tokenizer_role(tok, CLEF_ROLE_SEP), 2);
    clef_tokenizer_close(tok);
    bert =
        GGUF_HEAD("5") GGUF_BERT GGUF_ID("unknown_token_id", "0") GGUF_BOOL("normalizer.strip_accents", "0");
    assert_int_equal(open_gguf(bert, &tok, &err), CLEF_OK);
    IDS(tok, "\u00e4b Ab", "0 3");
    clef_tokenizer_close(tok);
}

#define GGUF_T5                                                                                              \
    GGUF_TEXT("model", "t5")                                                                                 \
    "s:" T "tokens 4:9 4:8 8:6 s:<pad> s:</s> s:<unk> s:" META_SPACE " s:a s:" META_SPACE "a s:" T           \
    "scores 4:9 4:6 8:6 f:0 f:0 f:0 f:-3 f:-2 f:-4 s:" T "token_type 4:9 4:5 8:6 4:3 4:3 4:2 4:1 4:1 4:1 "

TEST(test_gguf_t5)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *t5 = GGUF_HEAD("5") GGUF_T5
        "s:" T "precompiled_charsmap 4:9 4:0 8:18 4:12 4:0x10000 4:0xD41 4:0x80000000 t:a 1:0 ";
    assert_int_equal(open_gguf(t5, &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "A  aa", "5 5 4 1"); /* the charsmap makes A an a; -4 is more than -3 - 2 */
    IDS(tok, "xy", "3 2");
    TEXT(tok, "a aa", 5, 5, 4, 1);
    clef_tokenizer_close(tok);
    t5 = GGUF_HEAD("6") GGUF_T5 GGUF_BOOL("add_eos_token", "0") GGUF_BOOL("remove_extra_whitespaces", "0");
    assert_int_equal(open_gguf(t5, &tok, &err), CLEF_OK);
    WITH_SPECIAL(tok, "A  a", "3 2 3 5");
    clef_tokenizer_close(tok);
}

/* Opens a vocabulary for every name that a refusal lists, and checks that no letter, digit or space is
 * lost. */
TEST(test_gguf_names)
{
    clef_error err = {0};
    const clef__gguf_pre *pre = NULL;
    char names[sizeof err.text];
    int n_names = 0;
    assert_int_equal(clef__gguf_pre_find("mystery", "f", &pre, &err), CLEF_E_UNSUPPORTED);
    assert_null(strstr(err.text, " more"));
    snprintf(names, sizeof names, "%s", strstr(err.text, "known: ") + strlen("known: "));
    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "), n_names++) {
        char spec[1024];
        clef_tokenizer *tok = NULL;
        snprintf(spec, sizeof spec,
                 GGUF_HEAD("4") GGUF_TEXT("model", "gpt2")
                     GGUF_TEXT("pre", "%s") "s:" T "tokens 4:9 4:8 8:6 s:a s:b s:1 s:\xC4\xA0 s:" META_SPACE
                                            " s:ab s:" T "merges 4:9 4:8 8:1 8:3 t:a 1:32 t:b",
                 name);
        if (open_gguf(spec, &tok, &err) != CLEF_OK)
            fail_msg("%s: %s", name, err.text);
        clef_encoded out;
        assert_int_equal(clef_tokenizer_encode_pair(tok, "ab b 11", 7, NULL, 0,
                                                    &(clef_encode_opts){.special = CLEF_SPECIAL_NONE}, &out,
                                                    &err),
                         CLEF_OK);
        const int32_t space = clef__gguf_pre_find(name, "f", &pre, &err) == CLEF_OK && pre->escapes ? 4 : 3,
                      wanted[] = {5, space, 1, space, 2, 2};
        assert_int_equal(out.n, 6);
        assert_memory_equal(out.ids, wanted, sizeof wanted);
        clef_encoded_finish(&out);
        clef_tokenizer_close(tok);
    }
    assert_true(n_names >= 89);
    char path[2000];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(clef__gguf_pre_find("mystery", path, &pre, &err), CLEF_E_UNSUPPORTED);
    assert_int_equal(clef__gguf_pre_find("mystery", path + 1500, &pre, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, " more"));
}

/* Without tokenizer.ggml.pre, Gemma 4's model cuts at line ends and escapes spaces, and GPT-2's
 * architecture cuts as GPT-2 does. */
TEST(test_gguf_without_pre)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    const char *gemma = GGUF_HEAD("5") GGUF_ID("bos_token_id", "1") GGUF_BOOL("add_bos_token", "0")
        GGUF_TEXT("model", "gemma4") "s:" T "tokens 4:9 4:8 8:5 s:a s:" META_SPACE " s:" META_SPACE
                                     "a s:<0x0A> s:<0x41> s:" T "merges 4:9 4:8 8:1 8:5 t:" META_SPACE
                                     " 1:32 t:a";
    assert_int_equal(open_gguf(gemma, &tok, &err), CLEF_OK);
    IDS(tok, "a a\nA", "0 2 3 4");
    TEXT(tok, "a a\nA", 0, 2, 3, 4);
    WITH_SPECIAL(tok, "a", "1 0"); /* early files say no, and their models want it */
    clef_tokenizer_close(tok);
    assert_int_equal(open_gguf(GGUF_HEAD("4") GGUF_ARCH("gpt2") GGUF_GPT2, &tok, &err), CLEF_OK);
    IDS(tok, "ab", "2");
    clef_tokenizer_close(tok);
}

/* What GGUF does not say: <|end|> is not an ordinary token, and Phi-3's take the spaces behind them. */
TEST(test_gguf_phi3)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
#define GGUF_PHI(arch)                                                                                       \
    GGUF_HEAD("6")                                                                                           \
    GGUF_ARCH(arch)                                                                                          \
    GGUF_TEXT("model", "llama")                                                                              \
    GGUF_BOOL("add_bos_token", "0")                                                                          \
    "s:" T "tokens 4:9 4:8 8:6 s:<unk> s:<s> s:</s> s:" META_SPACE " s:a s:<|end|> s:" T                     \
    "scores 4:9 4:6 8:6 f:0 f:0 f:0 f:-3 f:-2 f:0 s:" T "token_type 4:9 4:5 8:6 4:2 4:3 4:1 4:1 4:1 4:1 "
    assert_int_equal(open_gguf(GGUF_PHI("phi3"), &tok, &err), CLEF_OK);
    IDS(tok, "a<|end|> \n a<s> a", "3 4 5 3 4 1 3 3 4");
    TEXT(tok, "a", 4, 5);
    clef_tokenizer_close(tok);
    assert_int_equal(open_gguf(GGUF_PHI("llama"), &tok, &err), CLEF_OK);
    IDS(tok, "a<|end|> a", "3 4 5 3 3 4");
    clef_tokenizer_close(tok);
}

static void check_refusal(const json_t *c)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    check_case(c, open_gguf(case_text(c, "spec"), &tok, &err), &err);
    assert_null(tok);
}

TEST(test_gguf_refusals)
{
    for_each_case("tokenizer_parts.json", "refused_gguf", check_refusal);
}

TESTS(make_temp_dir, remove_temp_dir)

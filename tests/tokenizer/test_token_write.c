/* A folder's tokenizer under GGUF's keys: reading them back gives the ids, special tokens and texts of the
 * folder. */
#define TEST_NAME "test-token-write"
#include "tests/tokenizer/tokenizers.h"

#include "model/convert/quantize.h"

static char note[1024];

static void keep_note(void *user, const char *text)
{
    (void)user;
    const size_t n = strlen(note);
    snprintf(note + n, sizeof note - n, "%s\n", text);
}

/* Writes the keys of temp_dir's tokenizer to tiny.gguf. */
static clef_status write_keys(int32_t no_tokenizer, clef_error *err)
{
    clef_model model = {.path = temp_dir, .hparams = {.n_vocab = 4, .bos = -1, .eos = -1}};
    const clef_quantize_opts opts = {.no_tokenizer = no_tokenizer, .note = keep_note};
    clef_gguf_writer w = {0};
    clef_os_file *file = NULL;
    note[0] = 0;
    clef_status st = clef__quantize_tokenizer(&model, &opts, &w, err);
    if (st == CLEF_OK)
        st = clef__os_file_begin(temp_path("tiny.gguf"), &file, err);
    if (st == CLEF_OK)
        st = clef__gguf_write_head(&w, file, err);
    if (st == CLEF_OK)
        st = clef__os_file_commit(file, err);
    clef__gguf_writer_finish(&w);
    return st;
}

static void same_encoding(const clef_tokenizer *a, const clef_tokenizer *b, const char *text,
                          const char *second)
{
    clef_error err = {0};
    clef_encoded x, y;
    const size_t n = strlen(text), n_second = second ? strlen(second) : 0;
    assert_int_equal(clef_tokenizer_encode_pair(a, text, n, second, n_second, NULL, &x, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_encode_pair(b, text, n, second, n_second, NULL, &y, &err), CLEF_OK);
    if (x.n != y.n || (x.n > 0 && memcmp(x.ids, y.ids, (size_t)x.n * sizeof *x.ids) != 0))
        fail_msg("\"%s\": %d ids of the folder, %d of the file, or others", text, x.n, y.n);
    if (x.n > 0)
        assert_memory_equal(x.types, y.types, (size_t)x.n * sizeof *x.types);
    clef_encoded_finish(&x);
    clef_encoded_finish(&y);
}

static void same_text(const clef_tokenizer *a, const clef_tokenizer *b, int32_t id)
{
    clef_error err = {0};
    char *x = NULL, *y = NULL;
    size_t n_x, n_y;
    const int32_t ids[] = {id, id};
    assert_int_equal(clef_tokenizer_decode(a, ids, 2, &x, &n_x, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_decode(b, ids, 2, &y, &n_y, &err), CLEF_OK);
    if (n_x != n_y || memcmp(x, y, n_x) != 0)
        fail_msg("token %d: \"%s\" of the folder, \"%s\" of the file", id, x, y);
    clef_text_free(x);
    clef_text_free(y);
}

/* Compares the folder with its GGUF file. The folder's file has `content`. `model` is the expected
 * tokenizer.ggml.model, NULL for none. `lost` is part of the note, "" for no note. */
static void comes_back(const char *name, const void *content, size_t n_content, const char *model,
                       const char *lost)
{
    static const char *const texts[] = {"",
                                        "a",
                                        "ab abc  b",
                                        "  a\xC3\xA9 a\n",
                                        "<s>a</s><unk> ab",
                                        "A \xC3\x89\xE4\xB8\x80 b.",
                                        "<|end|>ab[MASK]a",
                                        "1234 b",
                                        "ba[X]ba a",
                                        "\xF0\x9F\x8C\x8D \t",
                                        "aaaaaaaabbbbabab",
                                        "x\xE2\x96\x81y [A]"};
    clef_error err = {0};
    clef_tokenizer *folder = NULL, *file = NULL;
    clef_gguf gguf;
    char got[32];
    write_file(temp_path(name), content, n_content);
    if (write_keys(0, &err) != CLEF_OK)
        fail_msg("%s: %s", name, err.text);
    if (lost[0] ? !strstr(note, lost) : strstr(note, "cannot say") != NULL)
        fail_msg("%s: expected a note of \"%s\", got \"%s\"", name, lost, note);
    assert_int_equal(clef__gguf_open(temp_path("tiny.gguf"), &gguf, &err), CLEF_OK);
    clef__gguf_text(&gguf, "tokenizer.ggml.model", got, sizeof got);
    assert_string_equal(got, model ? model : "");
    assert_int_equal(clef__gguf_find(&gguf, "tokenizer.huggingface.json") != NULL, lost[0] != 0);
    clef__gguf_close(&gguf);
    assert_int_equal(clef_tokenizer_open(temp_dir, &folder, &err), CLEF_OK);
    if (clef_tokenizer_open(temp_path("tiny.gguf"), &file, &err) != CLEF_OK)
        fail_msg("%s: %s", name, err.text);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        same_encoding(folder, file, texts[i], NULL);
        same_encoding(folder, file, texts[i], texts[(i + 5) % (sizeof texts / sizeof *texts)]);
    }
    for (int32_t id = 0; id < clef_tokenizer_n_tokens(folder); id++)
        same_text(folder, file, id);
    for (int role = 0; role <= CLEF_ROLE_FIM_MIDDLE; role++)
        assert_int_equal(clef_tokenizer_role(folder, (clef_token_role)role),
                         clef_tokenizer_role(file, (clef_token_role)role));
    clef_tokenizer_close(folder);
    clef_tokenizer_close(file);
    clef__os_remove(temp_path(name));
    clef__os_remove(temp_path("tiny.gguf"));
}

static void json_comes_back(const char *json, const char *model, const char *lost)
{
    comes_back("tokenizer.json", json, strlen(json), model, lost);
}

TEST(test_byte_level)
{
    json_comes_back(BYTE_JSON, "gpt2", "");
    json_comes_back(ROOT("{\"type\":\"NFC\"}", BYTE_LEVEL, BYTE_MODEL, BYTE_LEVEL, BYTE_LEVEL, BYTE_ADDED),
                    "gpt2", "normalizer NFC");
    json_comes_back(
        ROOT("{\"type\":\"Lowercase\"}", BYTE_LEVEL, BYTE_MODEL, BYTE_LEVEL, BYTE_LEVEL, BYTE_ADDED), NULL,
        "normalizer Lowercase");
    json_comes_back(ROOT("null", PRE(SPLIT("\"Regex\":\"a+\"", "Isolated", "")), BYTE_MODEL, BYTE_LEVEL,
                         BYTE_LEVEL, BYTE_ADDED),
                    NULL, "pre_tokenizer Sequence");
    json_comes_back(ROOT("null", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", BYTE_MODEL, BYTE_LEVEL,
                         BYTE_LEVEL, BYTE_ADDED),
                    "gpt2", "the space");
    json_comes_back(ROOT("null", BYTE_LEVEL, BYTE_MODEL, BYTE_LEVEL, BYTE_LEVEL,
                         "[{\"id\":10,\"content\":\"<|end|>\",\"special\":true,\"rstrip\":true}]"),
                    "gpt2", "added token \"<|end|>\"");
    json_comes_back(ROOT("null",
                         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_"
                         "digits\":true}," BYTE_LEVEL "]}",
                         BYTE_MODEL, BYTE_LEVEL, BYTE_LEVEL, BYTE_ADDED),
                    "gpt2", "");
}

TEST(test_sentencepiece_json)
{
    json_comes_back(SPACE_JSON, "llama", "merges");
    json_comes_back(ROOT("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Strip\"}]}",
                         META(""),
                         "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"<s>\",0],[\"</"
                         "s>\",0],[\"" META_SPACE "\",-2.5],[\"a\",-3],"
                         "[\"" META_SPACE "a\",-2],[\"b\",-4],[\"ab\",-5.25]]}",
                         META(""), TEMPLATE, SPACE_ADDED),
                    "t5", "Unigram");
}

#define WORDS                                                                                                \
    "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"[PAD]\":3,\"[MASK]\":4,\"a\":5,\"##b\":6,\"b\":7,\"##a\":8,\"."  \
    "\":9,\"e\":10,\"q\":11,\"x\":12}"
#define WORDPIECE                                                                                            \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"vocab\":" WORDS  \
    "}"
#define WORD_ADDED(more)                                                                                     \
    "[{\"id\":0,\"content\":\"[UNK]\",\"special\":true},{\"id\":1,\"content\":\"[CLS]\",\"special\":true},"  \
    "{\"id\":2,\"content\":\"[SEP]\",\"special\":true},{\"id\":3,\"content\":\"[PAD]\",\"special\":true},{"  \
    "\"id\":4,\"content\":\"[MASK]"                                                                          \
    "\",\"special\":true}" more "]"
#define WORD_POST "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}"
#define WORD_ROOT(normal, added)                                                                             \
    ROOT(normal, "{\"type\":\"BertPreTokenizer\"}", WORDPIECE, "{\"type\":\"WordPiece\"}", WORD_POST, added)

TEST(test_wordpiece)
{
    json_comes_back(WORD_ROOT("{\"type\":\"BertNormalizer\"}", WORD_ADDED("")), "bert", "");
    json_comes_back(
        WORD_ROOT("{\"type\":\"BertNormalizer\",\"lowercase\":false,\"handle_chinese_chars\":false}",
                  WORD_ADDED("")),
        "bert", "");
    json_comes_back(
        WORD_ROOT("{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":false}", WORD_ADDED("")),
        "bert", "");
    json_comes_back(WORD_ROOT("{\"type\":\"BertNormalizer\"}",
                              WORD_ADDED(",{\"id\":13,\"content\":\"[A]\",\"special\":false}")),
                    "bert", "[A]");
    json_comes_back(WORD_ROOT("{\"type\":\"Lowercase\"}", WORD_ADDED("")), "bert", "normalizer Lowercase");
    json_comes_back(ROOT("null", "{\"type\":\"Whitespace\"}",
                         "{\"type\":\"WordLevel\",\"unk_token\":\"[UNK]\",\"vocab\":" WORDS "}", "null",
                         "null", WORD_ADDED("")),
                    NULL, "WordLevel");
    const char *words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nb\n##a\n[unused1]\n.\n\na\n";
    comes_back("vocab.txt", words, strlen(words), "bert", "");
    write_text(temp_path("tokenizer_config.json"),
               "{\"do_lower_case\":false,\"tokenize_chinese_chars\":false}");
    comes_back("vocab.txt", words, strlen(words), "bert", "");
    clef__os_remove(temp_path("tokenizer_config.json"));
}

TEST(test_pair)
{
    const char *plain = "{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"<|endoftext|>\":4,\"\\u0120a\":5}",
               *roberta = "{\"<s>\":0,\"<pad>\":1,\"</"
                          "s>\":2,\"<unk>\":3,\"a\":4,\"b\":5,\"ab\":6,\"\\u0120\":7,\"<mask>\":8}";
    write_text(temp_path("merges.txt"), "#version: 0.2\na b\n");
    comes_back("vocab.json", roberta, strlen(roberta), "gpt2", "");
    write_text(temp_path("merges.txt"), "#version: 0.2\n\xC4\xA0 a\na b\n");
    comes_back("vocab.json", plain, strlen(plain), "gpt2", "");
    clef__os_remove(temp_path("merges.txt"));
}

/* ---- SentencePiece's own file */

static void put_field(blob *b, unsigned number, const blob *message)
{
    put_int(b, number << 3 | 2, 1);
    put_int(b, message->n, 1); /* all are shorter than 128 bytes */
    put(b, message->p, message->n);
}

static void put_piece(blob *b, const char *text, float score, int type)
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

/* Assembles every type of piece; `trainer` and `normalizer` are written as in files.h. */
static void spm_comes_back(const char *trainer, const char *normalizer, const char *model, const char *lost)
{
    static const struct {
        const char *text;
        float score;
        int type;
    } pieces[] = {{"<unk>", 0, 2},   {"<s>", 0, 3},           {"</s>", 0, 3}, {"<0xC3>", 0, 6},
                  {"<0xA9>", 0, 6},  {META_SPACE, -9, 1},     {"a", -8, 1},   {"b", -7.5, 1},
                  {"ab", -1.25f, 1}, {META_SPACE "a", -2, 1}, {"ba", -3, 5},  {"[X]", 0, 4},
                  {"aa", 0.5f, 1}};
    blob b = {.n = 0}, spec = {.n = 0}, rules = {.n = 0};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        put_piece(&b, pieces[i].text, pieces[i].score, pieces[i].type);
    assemble(&spec, trainer);
    put_field(&b, 2, &spec);
    assemble(&rules, normalizer);
    put_field(&b, 3, &rules);
    comes_back("tokenizer.model", b.p, b.n, model, lost);
}

#define SPM_BPE "1:24 1:2"
#define SPM_FALLBACK " 1:0x98 1:2 1:1" /* field 35 */
#define SPM_NO_PREFIX "1:24 1:0 "
#define SPM_NO_SQUEEZE "1:32 1:0 "
#define SPM_NO_ESCAPE "1:40 1:0 "
#define SPM_CHARSMAP "1:18 1:18 4:12 4:0x10000 4:0xD41 4:0x80000000 t:a 1:0 " /* A becomes a */

TEST(test_sentencepiece)
{
    spm_comes_back(SPM_BPE SPM_FALLBACK, SPM_NO_SQUEEZE, "llama", "merges");
    spm_comes_back(SPM_BPE, SPM_CHARSMAP SPM_NO_PREFIX, "llama", "merges");
    spm_comes_back(SPM_BPE SPM_FALLBACK, SPM_NO_ESCAPE, "llama", "merges");
    spm_comes_back("1:24 1:1" SPM_FALLBACK, SPM_CHARSMAP, "t5", "Unigram");
    spm_comes_back("1:24 1:1", SPM_NO_SQUEEZE, "t5", "Unigram");
    write_text(temp_path("tokenizer_config.json"),
               "{\"add_bos_token\":true,\"add_eos_token\":true,\"pad_token\":\"</s>\"}");
    spm_comes_back(SPM_BPE SPM_FALLBACK, SPM_NO_SQUEEZE, "llama", "merges");
    clef__os_remove(temp_path("tokenizer_config.json"));
}

/* ---- what is refused */

TEST(test_refused)
{
    clef_error err = {0};
    assert_int_equal(write_keys(0, &err), CLEF_OK);
    assert_non_null(strstr(note, "no tokenizer"));
    write_text(temp_path("vocab.txt"), "[UNK]\n[CLS]\n[SEP]\n##[a]\n");
    assert_int_equal(write_keys(0, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "##[a]"));
    assert_non_null(strstr(err.text, "--no-tokenizer"));
    assert_int_equal(write_keys(1, &err), CLEF_OK);
    clef__os_remove(temp_path("vocab.txt"));
    write_text(temp_path("tokenizer.json"), "{\"model\":{\"type\":\"Mystery\"}}");
    assert_int_equal(write_keys(0, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "Mystery"));
    clef__os_remove(temp_path("tokenizer.json"));
    write_text(temp_path("qwen.tiktoken"), "YQ== 0\nYg== 1\n");
    assert_int_equal(write_keys(0, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tiktoken"));
    clef__os_remove(temp_path("qwen.tiktoken"));
    clef__os_remove(temp_path("tiny.gguf"));
}

TESTS(make_temp_dir, remove_temp_dir)

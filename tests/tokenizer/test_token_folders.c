/* Folders of tokenizer files with added tokens, special tokens and settings beside the vocabulary: the ids
 * and texts that transformers gives (tests/tokenizer/folders.py writes tests/fixtures/token_folders.json). */
#define TEST_NAME "test-token-folders"
#include "tests/tokenizer/tokenizers.h"

#include <jansson.h>

#include "model/tokenizer/tokenizer.h"

static void write_folder(const json_t *files)
{
    const char *name;
    json_t *content;
    json_object_foreach((json_t *)files, name, content) {
        const size_t n = json_string_length(content), n_name = strlen(name);
        char *data = NULL;
        size_t n_data = 0;
        if (n_name > 6 && strcmp(name + n_name - 6, ".model") == 0) {
            assert_int_equal(clef__base64(json_string_value(content), n, &data, &n_data, NULL), CLEF_OK);
            write_file(temp_path(name), data, n_data);
            free(data);
        } else {
            write_file(temp_path(name), json_string_value(content), n);
        }
    }
}

static void remove_files(const json_t *files)
{
    const char *name;
    json_t *content;
    json_object_foreach((json_t *)files, name, content)
        clef__os_remove(temp_path(name));
}

static void check_same(const char *what, const char *text, const json_t *wanted, const int32_t *ids,
                       int32_t n)
{
    for (int32_t i = 0; i < n && (size_t)i < json_array_size(wanted); i++)
        if (ids[i] != json_integer_value(json_array_get(wanted, (size_t)i)))
            fail_msg("%s: \"%s\": id %d is %d, expected %d", what, text, (int)i, (int)ids[i],
                     (int)json_integer_value(json_array_get(wanted, (size_t)i)));
    if ((size_t)n != json_array_size(wanted))
        fail_msg("%s: \"%s\": %d ids, expected %zu", what, text, (int)n, json_array_size(wanted));
}

/* One case: a text, its ids, its ids with special tokens, and the text of these. */
static void check_case(const char *what, const clef_tokenizer *tok, const json_t *one)
{
    const json_t *text = json_array_get(one, 0), *back = json_array_get(one, 3);
    for (int around = 0; around < 2; around++) {
        int32_t *ids = NULL, n = 0;
        assert_int_equal(clef_tokenizer_encode(tok, json_string_value(text), json_string_length(text),
                                               around ? CLEF_SPECIAL_ADD : CLEF_SPECIAL_NONE, &ids, &n, NULL),
                         CLEF_OK);
        check_same(what, json_string_value(text), json_array_get(one, 1 + (size_t)around), ids, n);
        if (around)
            check_text(tok, ids, n, json_string_value(back), json_string_length(back));
        clef_tokens_free(ids);
    }
}

TEST(test_folders)
{
    json_t *root = json_load_file(CLEF_SOURCE_DIR "/tests/fixtures/token_folders.json", 0, NULL), *folder;
    size_t i, k, n_cases = 0;
    json_array_foreach(root, i, folder) {
        const char *what = json_string_value(json_object_get(folder, "what"));
        const json_t *files = json_object_get(folder, "files"), *cases = json_object_get(folder, "cases");
        clef_tokenizer *tok = NULL;
        clef_error err = {0};
        write_folder(files);
        if (clef_tokenizer_open(temp_dir, &tok, &err) != CLEF_OK)
            fail_msg("%s: %s", what, err.text);
        for (k = 0; k < json_array_size(cases); k++, n_cases++)
            check_case(what, tok, json_array_get(cases, k));
        clef_tokenizer_close(tok);
        remove_files(files);
    }
    assert_int_equal(n_cases, 6 * json_array_size(root));
    assert_true(n_cases >= 150);
    json_decref(root);
}

/* ---- what cannot be followed is refused by name */

static void refuse(const char *config, clef_status status, const char *why)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    write_text(temp_path("tokenizer_config.json"), config);
    check_error(config, clef_tokenizer_open(temp_dir, &tok, &err), &err, status, why);
    clef__os_remove(temp_path("tokenizer_config.json"));
}

TEST(test_refusals)
{
    write_text(temp_path("tokenizer.json"), BYTE_JSON);
    refuse("{\"split_special_tokens\":true}", CLEF_E_UNSUPPORTED, "split_special_tokens");
    refuse("{\"fix_mistral_regex\":true}", CLEF_E_UNSUPPORTED, "fix_mistral_regex");
    refuse("{\"fast_tokenizer_files\":[\"tokenizer.4.0.0.json\"]}", CLEF_E_UNSUPPORTED,
           "tokenizer.4.0.0.json");
    refuse("{\"tokenizer_class\":\"T5Tokenizer\"}", CLEF_E_UNSUPPORTED, "T5Tokenizer expects a Unigram");
    refuse("{\"tokenizer_class\":\"MarianTokenizer\"}", CLEF_E_UNSUPPORTED,
           "expected a tokenizer class that clef builds, got MarianTokenizer");
    refuse("{\"tokenizer_class\":\"WhisperTokenizer\"}", CLEF_E_UNSUPPORTED,
           "WhisperTokenizer expects a token <|startoftranscript|>, got none");
    refuse("{\"tokenizer_class\":\"MBart50Tokenizer\"}", CLEF_E_UNSUPPORTED, "MBart50Tokenizer expects a");
    refuse("{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":\"yes\"}", CLEF_E_FORMAT,
           "add_prefix_space is a string");
    refuse("{\"bos_token\":7}", CLEF_E_FORMAT, "bos_token");
    refuse("{\"extra_special_tokens\":[[]]}", CLEF_E_FORMAT, "extra_special_tokens");
    refuse("{\"added_tokens_decoder\":{\"x\":{\"content\":\"a\"}}}", CLEF_E_FORMAT, "added_tokens_decoder");
    refuse("[]", CLEF_E_FORMAT, "tokenizer_config.json");
    write_text(temp_path("added_tokens.json"), "{\"<x>\":\"11\"}");
    refuse("{}", CLEF_E_FORMAT, "added_tokens.json: token \"<x>\"");
    clef__os_remove(temp_path("added_tokens.json"));
    clef__os_remove(temp_path("tokenizer.json"));
    write_text(temp_path("vocab.json"), "{\"a\":0}");
    write_text(temp_path("merges.txt"), "");
    refuse("{\"tokenizer_class\":\"BlenderbotSmallTokenizer\"}", CLEF_E_UNSUPPORTED,
           "BlenderbotSmallTokenizer");
    refuse("{\"tokenizer_class\":\"WhisperTokenizer\"}", CLEF_E_UNSUPPORTED,
           "WhisperTokenizer expects tokenizer.json");
    write_text(temp_path("config.json"), "{\"model_type\":\"biogpt\"}");
    refuse("{}", CLEF_E_UNSUPPORTED, "BioGptTokenizer");
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path("merges.txt"));
    clef__os_remove(temp_path("vocab.json"));
}

/* The token of tokenizer.json's padding is special, unless another one is the pad_token. */
TEST(test_padding)
{
    static const char *const configs[] = {"{}", "{\"pad_token\":\"a\"}"};
    char json[4096];
    snprintf(json, sizeof json, "{\"padding\":{\"pad_token\":\"b\"},%s", BYTE_JSON + 1);
    write_text(temp_path("tokenizer.json"), json);
    for (int i = 0; i < 2; i++) {
        clef_tokenizer *tok = NULL;
        write_text(temp_path("tokenizer_config.json"), configs[i]);
        assert_int_equal(clef_tokenizer_open(temp_dir, &tok, NULL), CLEF_OK);
        assert_int_equal(clef_tokenizer_is_special(tok, clef_tokenizer_find(tok, "b")), i == 0);
        assert_int_equal(clef_tokenizer_is_special(tok, clef_tokenizer_find(tok, "a")), i == 1);
        clef_tokenizer_close(tok);
    }
    clef__os_remove(temp_path("tokenizer_config.json"));
    clef__os_remove(temp_path("tokenizer.json"));
}

/* The texts are those of Python's replacements. A stream gives what is held back at its end, and the whole
 * text is the same however it is cut. */
TEST(test_cleaning)
{
    static const char *const texts[][2] = {{"do n't , it 's . ' a ' ?", "don't, it's.'a '?"},
                                           {"  .  ,   !", " . ,  !"},
                                           {"a ' 's b 've c 'ver n't n' t '", "a''s b've c'vern't n' t '"},
                                           {" ' ' '", "'' '"},
                                           {"ends with n'", "ends with n'"},
                                           {"ends with ", "ends with "}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t cut = 0; cut <= strlen(texts[i][0]); cut++) {
            char out[256], part[128], work[128];
            uint32_t clean = 0;
            size_t n = 0;
            for (int half = 0; half < 2; half++) {
                const char *from = half ? texts[i][0] + cut : texts[i][0];
                const size_t n_part = half ? strlen(from) : cut;
                memcpy(part, from, n_part);
                const size_t kept = half ? clef__clean_finish(&clean, part, n_part, work)
                                         : clef__clean_spaces(&clean, part, n_part, work);
                memcpy(out + n, part, kept);
                n += kept;
            }
            out[n] = 0;
            assert_string_equal(out, texts[i][1]);
        }
}

TESTS(make_temp_dir, remove_temp_dir)

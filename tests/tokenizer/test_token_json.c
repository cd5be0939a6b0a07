/* The parts of a tokenizer.json: each stage on small vocabularies, and refusals. */
#define TEST_NAME "test-token-json"
#include "tests/cases.h"
#include "tests/tokenizer/tokenizers.h"

#include "model/tokenizer/read/formats.h"

/* ---- cases: tests/fixtures/tokenizer_parts.json */

/* A member of a case as text, which is valid until the call after the next. */
static const char *json_of(const json_t *c, const char *key)
{
    static char *texts[2];
    static int turn;
    turn = !turn;
    free(texts[turn]);
    texts[turn] = json_dumps(case_value(c, key), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    assert_non_null(texts[turn]);
    return texts[turn];
}

/* One tokenizer a case, with the byte model. */
static void check_stage(const json_t *c)
{
    char json[4096];
    snprintf(json, sizeof json, ROOT("%s", "%s", "%s", BYTE_LEVEL, "null", "[]"), json_of(c, "normalizer"),
             json_of(c, "pre_tokenizer"), BYTE_MODEL);
    clef_tokenizer *tok = must_open_json(json);
    check_ids(tok, case_text(c, "text"), strlen(case_text(c, "text")), CLEF_SPECIAL_NONE,
              case_text(c, "ids"));
    clef_tokenizer_close(tok);
}

TEST(test_stages)
{
    for_each_case("tokenizer_parts.json", "stages", check_stage);
}

#define DECODED                                                                                              \
    "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"##b\":1,\"c</w>\":2,\"" META_SPACE                         \
    "d\":3,\"<0x41>\":4,\".\":5,\"|\":6,\"<pad>\":7}}"

/* The text of all tokens of a small vocabulary, 0 1 2 .. 7, and of one twice, 0 0. */
static void check_decoder(const json_t *c)
{
    char json[2048];
    const char *text = case_text(c, "text"), *repeated = case_text(c, "repeated");
    snprintf(json, sizeof json, ROOT("null", "null", DECODED, "%s", "null", "[]"), json_of(c, "decoder"));
    clef_tokenizer *tok = must_open_json(json);
    check_text(tok, (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, text, strlen(text));
    check_text(tok, (const int32_t[]){0, 0}, 2, repeated, strlen(repeated));
    clef_tokenizer_close(tok);
}

TEST(test_decoders)
{
    for_each_case("tokenizer_parts.json", "decoders", check_decoder);
}

static clef_tokenizer *open_metaspace(const json_t *c)
{
    char json[4096];
    const char *metaspace = json_of(c, "metaspace");
    snprintf(json, sizeof json, ROOT("null", "%s", "%s", "%s", "null", "%s"), metaspace, SPACE_MODEL,
             metaspace, SPACE_ADDED);
    return must_open_json(json);
}

static void check_metaspace(const json_t *c)
{
    clef_tokenizer *tok = open_metaspace(c);
    check_ids(tok, case_text(c, "text"), strlen(case_text(c, "text")), CLEF_SPECIAL_NONE,
              case_text(c, "ids"));
    clef_tokenizer_close(tok);
}

TEST(test_metaspace)
{
    for_each_case("tokenizer_parts.json", "metaspaces", check_metaspace);
    clef_tokenizer *tok = open_metaspace(json_array_get(case_file("tokenizer_parts.json", "metaspaces"), 0));
    TEXT(tok, "a b", 6, 3, 5);
    clef_tokenizer_close(tok);
}

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
TEST(test_many_spaces)
{
    static const size_t runs[] = {1, 2, 3, 510, 511, 512, 513, 1023, 1024, 1025, 2600};
    static const char *const ends[] = {"", "a", "\n", "\na", "a\n", "\n \n   a"};
    clef_tokenizer *counted = open_jais(""), *plain = open_jais("|a");
    char text[8192];
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

static void check_refusal(const json_t *c)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    check_case(c, open_json(case_text(c, "json"), &tok, &err), &err);
    assert_null(tok);
}

TEST(test_refusals)
{
    for_each_case("tokenizer_parts.json", "refused", check_refusal);
}

TESTS(make_temp_dir, remove_temp_dir)

/* Learned tokenizers: the merges are those of the definition, which counts all pairs anew after each merge;
 * what is in the files; texts and options that are refused; and memory that runs out. */
#define TEST_NAME "test-bpe-train"
#include <jansson.h>

#include "tests/check.h"
#include "tests/failing_alloc.h"
#include "tests/folders.h"

#include "model/tokenizer/bpe_train.h"

/* ---- the definition ------------------------------------------------------------------------------ */

enum { MOST_WORDS = 64, MOST_SYMBOLS = 48, MOST_VOCAB = 160 };

typedef struct sample {
    int32_t symbols[MOST_WORDS][MOST_SYMBOLS];
    size_t n[MOST_WORDS];
    int64_t counts[MOST_WORDS];
    size_t n_words;
} sample;

static uint64_t state_of_numbers;

static uint32_t number_below(uint32_t n)
{
    state_of_numbers = state_of_numbers * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state_of_numbers >> 33) % n;
}

static void draw(sample *s, uint64_t seed, int32_t n_symbols)
{
    state_of_numbers = seed;
    s->n_words = 1 + number_below(MOST_WORDS);
    for (size_t i = 0; i < s->n_words; i++) {
        s->n[i] = number_below(MOST_SYMBOLS + 1);
        s->counts[i] = 1 + number_below(9);
        for (size_t k = 0; k < s->n[i]; k++)
            s->symbols[i][k] = (int32_t)number_below((uint32_t)n_symbols);
    }
}

/* Counts all pairs and returns the most frequent one; of equal ones that with the lowest numbers. */
static int64_t most_frequent(const sample *s, int32_t *left, int32_t *right)
{
    static int64_t counts[MOST_VOCAB][MOST_VOCAB];
    int64_t most = 0;
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < s->n_words; i++)
        for (size_t k = 0; k + 1 < s->n[i]; k++)
            counts[s->symbols[i][k]][s->symbols[i][k + 1]] += s->counts[i];
    for (int32_t a = 0; a < MOST_VOCAB; a++)
        for (int32_t b = 0; b < MOST_VOCAB; b++)
            if (counts[a][b] > most) {
                most = counts[a][b];
                *left = a;
                *right = b;
            }
    return most;
}

static void merge_all(sample *s, int32_t left, int32_t right, int32_t result)
{
    for (size_t i = 0; i < s->n_words; i++) {
        int32_t *w = s->symbols[i];
        size_t n = 0;
        for (size_t k = 0; k < s->n[i]; k++) {
            const int is_pair = k + 1 < s->n[i] && w[k] == left && w[k + 1] == right;
            w[n++] = is_pair ? result : w[k];
            k += (size_t)is_pair;
        }
        s->n[i] = n;
    }
}

static int32_t always_new(void *user, int32_t left, int32_t right, int32_t next)
{
    (void)user, (void)left, (void)right;
    return next;
}

static void check_sample(uint64_t seed, int32_t n_symbols, int64_t min_frequency)
{
    static sample s;
    static int32_t symbols[MOST_WORDS * MOST_SYMBOLS];
    static size_t first[MOST_WORDS + 1];
    clef__learned_merge *merges = NULL;
    clef_error err = {0};
    size_t n = 0, at = 0;
    draw(&s, seed, n_symbols);
    for (size_t i = 0; i < s.n_words; i++) {
        memcpy(symbols + first[i], s.symbols[i], s.n[i] * sizeof *symbols);
        first[i + 1] = first[i] + s.n[i];
    }
    clef__bpe_words words = {.symbols = symbols, .first = first, .counts = s.counts, .n_words = s.n_words};
    const clef__bpe_learn_opts opts = {
        .n_vocab = MOST_VOCAB, .min_frequency = min_frequency, .join = always_new};
    ok(clef__bpe_learn(&words, n_symbols, &opts, &merges, &n, &err), &err);
    for (int32_t left = 0, right = 0, next = n_symbols; next < MOST_VOCAB; next++, at++) {
        const int64_t count = most_frequent(&s, &left, &right);
        if (count < 1 || count < min_frequency)
            break;
        if (at >= n || merges[at].left != left || merges[at].right != right || merges[at].result != next)
            fail_msg("seed %llu: merge %zu of %zu: expected %d %d, which occur %lld times, got %d %d",
                     (unsigned long long)seed, at, n, left, right, (long long)count,
                     at < n ? merges[at].left : -1, at < n ? merges[at].right : -1);
        merge_all(&s, left, right, next);
    }
    assert_int_equal(at, n);
    free(merges);
}

static void merges_are_those_of_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++)
        check_sample(seed, 1 + (int32_t)(seed % 6), (int64_t)(seed % 4));
}

static void a_long_word(void **state)
{
    enum { N = 1 << 21, MERGES = 20 };
    (void)state;
    int32_t *symbols = calloc(N, sizeof *symbols);
    size_t first[] = {0, N}, n = 0;
    int64_t counts[] = {1};
    clef__learned_merge *merges = NULL;
    clef_error err = {0};
    clef__bpe_words words = {symbols, first, counts, 1};
    ok(clef__bpe_learn(&words, 1, &(clef__bpe_learn_opts){.n_vocab = 1 + MERGES, .join = always_new}, &merges,
                       &n, &err),
       &err);
    assert_int_equal(n, MERGES); /* 0 0, then 1 1, ... */
    for (int32_t i = 0; i < MERGES; i++)
        assert_true(merges[i].left == i && merges[i].right == i && merges[i].result == i + 1);
    free(merges);
    free(symbols);
}

/* ---- files --------------------------------------------------------------------------------------- */

static clef_status train(const char *text, clef_tokenizer_train_opts opts, clef_error *err)
{
    static char path[600], folder[600];
    static const char *files[] = {path};
    snprintf(path, sizeof path, "%s", temp_path("text.txt"));
    snprintf(folder, sizeof folder, "%s", temp_path("out"));
    if (text)
        write_text(path, text);
    if (!opts.files) {
        opts.files = files;
        opts.n_files = 1;
    }
    return clef_tokenizer_train(&opts, folder, err);
}

static json_t *load(const char *name)
{
    json_error_t why;
    char path[700];
    snprintf(path, sizeof path, "%s/%s", temp_path("out"), name);
    json_t *out = json_load_file(path, 0, &why);
    if (!out)
        fail_msg("%s: %s", path, why.text);
    return out;
}

/* The merges that a text gives, each "left right" in quotes. */
static void check_merges(const char *text, clef_tokenizer_train_opts opts, const char *wanted)
{
    char got[2048] = "";
    clef_error err = {0};
    ok(train(text, opts, &err), &err);
    json_t *root = load("tokenizer.json"),
           *merges = json_object_get(json_object_get(root, "model"), "merges");
    assert_true(json_is_array(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *pair = json_array_get(merges, i);
        snprintf(got + strlen(got), sizeof got - strlen(got), "'%s %s'",
                 json_string_value(json_array_get(pair, 0)), json_string_value(json_array_get(pair, 1)));
    }
    json_decref(root);
    assert_string_equal(got, wanted);
}

static void check_ids(const char *text, const int32_t *wanted, int32_t n_wanted)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    int32_t *ids = NULL, n = 0;
    char *back = NULL;
    size_t n_back = 0;
    ok(clef_tokenizer_open(temp_path("out"), &tok, &err), &err);
    ok(clef_tokenizer_encode(tok, text, strlen(text), CLEF_SPECIAL_ADD, &ids, &n, &err), &err);
    assert_int_equal(n, n_wanted);
    assert_memory_equal(ids, wanted, (size_t)n * sizeof *ids);
    ok(clef_tokenizer_decode(tok, ids, n, &back, &n_back, &err), &err);
    assert_string_equal(back, text);
    clef_tokens_free(ids);
    clef_text_free(back);
    clef_tokenizer_close(tok);
}

/* Counted by hand. The bytes' characters are ordered by code point: '!' is the first, and a space, U+0120, is
 * one of the last. */
static void small_texts(void **state)
{
    (void)state;
    /* abab twice, and a space: a b 4, then "ab ab" 2, then the space and "abab" 1. */
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 300}, "'a b''ab ab''\xC4\xA0 abab'");
    check_ids("abab abab", (int32_t[]){258, 259}, 2);
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 258}, "'a b'");
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 300, .min_frequency = 2},
                 "'a b''ab ab'");
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 257}, "");
    /* Equal counts: the lowest ids first, and those of new tokens are the highest. Of the two pairs of "aaa"
     * one is merged. */
    check_merges("dc ba\naaa", (clef_tokenizer_train_opts){.n_vocab = 300},
                 "'a a''b a''d c''\xC4\xA0 ba''aa a'");
    /* Lines are cut before words are: the space before a line end is a word of its own with it. */
    check_merges("a \nb", (clef_tokenizer_train_opts){.n_vocab = 300}, "'\xC4\xA0 \xC4\x8A'");
    check_merges("a\n\n\n", (clef_tokenizer_train_opts){.n_vocab = 300}, "");
    check_merges("", (clef_tokenizer_train_opts){.n_vocab = 300}, "");
    check_ids("!a", (int32_t[]){1, 65}, 2);
    /* U+1C89, U+1C8A: letters since Unicode 16. So they are words together with others. */
    check_merges("a\xE1\xB2\x89", (clef_tokenizer_train_opts){.n_vocab = 300},
                 "'a \xC3\xA1''\xC2\xB2 \xC4\xAB''a\xC3\xA1 \xC2\xB2\xC4\xAB'");
}

/* A pair that would make a token of more bytes than clef reads is passed over, and others are merged. */
static void long_tokens(void **state)
{
    enum { N = 6000 };
    (void)state;
    static char text[2 * N + 2];
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    char *longest = NULL;
    size_t n_longest = 0;
    memset(text, 'a', N);
    memset(text + N, 'b', N);
    text[2 * N] = '\n';
    ok(train(text, (clef_tokenizer_train_opts){.n_vocab = 300}, &err), &err);
    ok(clef_tokenizer_open(temp_path("out"), &tok, &err), &err);
    assert_true(clef_tokenizer_n_tokens(tok) > 270);
    for (int32_t id = 257; id < clef_tokenizer_n_tokens(tok); id++) {
        char *piece = NULL;
        size_t n = 0;
        ok(clef_tokenizer_decode(tok, &id, 1, &piece, &n, &err), &err);
        if (n > n_longest) {
            clef_text_free(longest);
            longest = piece;
            n_longest = n;
        } else {
            clef_text_free(piece);
        }
    }
    assert_true(n_longest > 512 && n_longest <= 1000);
    assert_non_null(strstr(text, longest));
    clef_text_free(longest);
    clef_tokenizer_close(tok);
}

static void special_tokens(void **state)
{
    (void)state;
    static const char *const two[] = {"<s>", "</s>", "<s>"}, *const word[] = {"<x>", "abab"},
                             *const letter[] = {"b"};
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 259, .special = two, .n_special = 3},
                 "'a b'");
    check_ids("a", (int32_t[]){66}, 1);
    json_t *root = load("tokenizer.json");
    assert_int_equal(json_array_size(json_object_get(root, "added_tokens")), 2);
    json_decref(root);
    root = load("tokenizer_config.json");
    assert_string_equal(json_string_value(json_object_get(root, "eos_token")), "<s>");
    json_decref(root);
    /* A merge that gives a special token's text gives its id, and adds none. */
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 260, .special = word, .n_special = 2},
                 "'a b''ab ab''\xC4\xA0 abab'");
    root = load("vocab.json");
    assert_int_equal(json_object_size(root), 260);
    assert_int_equal(json_integer_value(json_object_get(root, "abab")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "\xC4\xA0"
                                                              "abab")),
                     259);
    json_decref(root);
    /* A byte whose character is a special token has its id. */
    check_merges("ab ab", (clef_tokenizer_train_opts){.n_vocab = 257, .special = letter, .n_special = 1},
                 "'a b'");
}

static void files_agree(void **state)
{
    (void)state;
    char text[1024] = "#version: 0.2\n";
    clef_mapping file = {0};
    clef_error err = {0};
    ok(train("abab abab", (clef_tokenizer_train_opts){.n_vocab = 300}, &err), &err);
    json_t *root = load("tokenizer.json"), *vocab = load("vocab.json"),
           *model = json_object_get(root, "model"), *merges = json_object_get(model, "merges");
    assert_true(json_equal(vocab, json_object_get(model, "vocab")));
    for (size_t i = 0; i < json_array_size(merges); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s\n",
                 json_string_value(json_array_get(json_array_get(merges, i), 0)),
                 json_string_value(json_array_get(json_array_get(merges, i), 1)));
    ok(clef__os_map(temp_path("out/merges.txt"), &file, &err), &err);
    assert_int_equal(file.n_bytes, strlen(text));
    assert_memory_equal(file.data, text, file.n_bytes);
    clef__os_unmap(&file);
    json_decref(root);
    json_decref(vocab);
}

/* Several files are one text, but a word does not go on in the next one. */
static void several_files(void **state)
{
    (void)state;
    static char a[600], b[600];
    snprintf(a, sizeof a, "%s", temp_path("a.txt"));
    snprintf(b, sizeof b, "%s", temp_path("b.txt"));
    write_text(a, "abab");
    write_text(b, "");
    static const char *const files[] = {a, b, a};
    check_merges(NULL, (clef_tokenizer_train_opts){.files = files, .n_files = 3, .n_vocab = 300},
                 "'a b''ab ab'");
}

/* ---- what is refused ----------------------------------------------------------------------------- */

static int stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    assert_true(done <= total);
    return --*(int *)user < 0;
}

static void refused(void **state)
{
    (void)state;
    static const char *const missing[] = {"/no/such/file"}, *const empty[] = {""}, *const latin[] = {"\xE9"},
                             *const two[] = {"<s>", "</s>"};
    clef_error err = {0};
    remove_tree(temp_path("out"));
    check_error("Latin-1", train("abc\ncaf\xE9\n", (clef_tokenizer_train_opts){.n_vocab = 300}, &err), &err,
                CLEF_E_FORMAT, "text.txt: byte 7");
    check_error("a cut character", train("ab\xE3\x81", (clef_tokenizer_train_opts){.n_vocab = 300}, &err),
                &err, CLEF_E_FORMAT, "byte 2");
    check_error("a surrogate", train("\xED\xA0\x80", (clef_tokenizer_train_opts){.n_vocab = 300}, &err), &err,
                CLEF_E_FORMAT, "byte 0");
    check_error("no file",
                train("a", (clef_tokenizer_train_opts){.n_vocab = 300, .files = missing, .n_files = 1}, &err),
                &err, CLEF_E_IO, "/no/such/file");
    check_error("no files", train("a", (clef_tokenizer_train_opts){.n_vocab = 300, .files = missing}, &err),
                &err, CLEF_E_ARG, "text file");
    check_error("few tokens", train("a", (clef_tokenizer_train_opts){.n_vocab = 256}, &err), &err, CLEF_E_ARG,
                "257");
    check_error("few tokens for two special ones",
                train("a", (clef_tokenizer_train_opts){.n_vocab = 257, .special = two, .n_special = 2}, &err),
                &err, CLEF_E_ARG, "258");
    check_error(
        "an empty special token",
        train("a", (clef_tokenizer_train_opts){.n_vocab = 300, .special = empty, .n_special = 1}, &err), &err,
        CLEF_E_ARG, "special token 1");
    check_error(
        "a special token in Latin-1",
        train("a", (clef_tokenizer_train_opts){.n_vocab = 300, .special = latin, .n_special = 1}, &err), &err,
        CLEF_E_ARG, "special token 1");
    for (int steps = 0; steps < 4; steps++) { /* while words are counted, and while pairs are merged */
        int left = steps;
        check_error(
            "cancelled",
            train("ab\nab\nababab",
                  (clef_tokenizer_train_opts){.n_vocab = 300, .progress = stop, .progress_user = &left},
                  &err),
            &err, CLEF_E_CANCELLED, "cancelled");
    }
    assert_int_equal(look_into(temp_path("out")).n, 0);
}

static void a_full_disk_keeps_what_was_there(void **state)
{
    (void)state;
    clef_error err = {0};
    check_merges("abab abab", (clef_tokenizer_train_opts){.n_vocab = 258}, "'a b'");
    write_text(temp_path("text.txt"), "cdcd");
    limit_files(3000);
    check_error("a full disk", train(NULL, (clef_tokenizer_train_opts){.n_vocab = 258}, &err), &err,
                CLEF_E_IO, "");
    limit_files(0);
    check_ids("ab", (int32_t[]){257}, 1);
    assert_int_equal(look_into(temp_dir).n, 2); /* the text and the folder; nothing half-written */
}

/* Each allocation in turn fails, also those of the JSON library. */
static void memory_runs_out(void **state)
{
    (void)state;
    clef_error err = {0};
    int n_failures = 0;
    json_set_alloc_funcs(__wrap_malloc, free);
    write_text(temp_path("text.txt"), "abab abab\ncdcdcd dc\n");
    for (int i = 1;; i += i < 400 ? 1 : 37) {
        remove_tree(temp_path("out"));
        n_allocations = 0;
        fail_allocation = i;
        const clef_status st = train(NULL, (clef_tokenizer_train_opts){.n_vocab = 300}, &err);
        const long n = n_allocations;
        fail_allocation = 0;
        if (n < i) {
            ok(st, &err);
            break;
        }
        if (st) {
            assert_int_equal(st, CLEF_E_NOMEM);
            assert_true(err.text[0] != 0);
            assert_int_equal(look_into(temp_path("out")).n, 0);
            n_failures++;
        } else {
            check_ids("abab", (int32_t[]){259}, 1);
        }
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n_failures > 100);
    check_ids("abab", (int32_t[]){259}, 1);
}

static int tidy(void **state)
{
    remove_tree(temp_dir);
    return make_temp_dir(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_of_the_definition),
        cmocka_unit_test(a_long_word),
        cmocka_unit_test(small_texts),
        cmocka_unit_test(long_tokens),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(files_agree),
        cmocka_unit_test(several_files),
        cmocka_unit_test(refused),
        cmocka_unit_test_setup(a_full_disk_keeps_what_was_there, tidy),
        cmocka_unit_test_setup(memory_runs_out, tidy),
    };
    return cmocka_run_group_tests_name("bpe_train", tests, make_temp_dir, remove_temp_tree);
}

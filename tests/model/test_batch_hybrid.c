/* Speculation with recurrent layers: their memory returns to what it was before draft tokens that were wrong,
 * so the texts are those without speculation, to the last bit. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#define TEST_NAME "batch_hybrid"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_graph.h"
#include "tests/debug.h"
#include "tests/folders.h"
#include "tests/model/batch_texts.h"
#include "tests/model/hybrid.h"
#include "tests/skip.h"

enum { MOST_GENERATED = 300 };

static clef_device *dev;
static clef_model *model;

static clef_batch *open_batch(clef_batch_opts opts)
{
    clef_error err = {0};
    clef_batch *b;
    opts.n_context = 512;
    opts.repeatable = opts.spec_always = 1;
    opts.compile = (clef_compile_opts){.no_tune = 1, .no_proof = 1};
    ok(clef_batch_create(dev, model, &opts, &b, &err), &err);
    return b;
}

static clef_batch_stats run_all(clef_batch_opts opts, const test_request *requests,
                                const test_arrival *arrival, test_text texts[MOST_REQUESTS])
{
    memset(texts, 0, MOST_REQUESTS * sizeof *texts);
    clef_batch *b = open_batch(opts);
    run_requests(b, requests, MOST_REQUESTS, arrival, texts);
    const clef_batch_stats end = clef_batch_describe(b);
    assert_int_equal(end.n_pages_running, 0);
    clef_batch_destroy(b);
    return end;
}

static void check_texts(const test_text *got, const test_text *want)
{
    for (int32_t i = 0; i < MOST_REQUESTS; i++) {
        assert_memory_equal(got[i].ids, want[i].ids, sizeof want[i].ids);
        assert_memory_equal(got[i].logprobs, want[i].logprobs, sizeof want[i].logprobs);
    }
}

/* Few and many at once, in small and large steps, with the prefix cache and without, and preempted. */
static const clef_batch_opts kinds[] = {
    {.max_sequences = 1, .no_prefix_cache = 1},
    {.max_sequences = 3, .step_tokens = 12},
    {.max_sequences = 8, .step_tokens = 80, .kv_tokens = 320, .spec_max_sequences = 8},
    {.max_sequences = 2, .step_tokens = 2},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void check_kind(int32_t k, clef_batch_opts opts, float temperature)
{
    static test_request requests[MOST_REQUESTS];
    static test_text want[MOST_REQUESTS], got[MOST_REQUESTS];
    const test_arrival alone = {.temperature = temperature, .one_by_one = 1};
    test_arrival many = {.temperature = temperature, .seed = 5 + (uint64_t)k, .one_by_one = k == 0};
    make_requests(clef_model_hparams(model), 90, requests, MOST_REQUESTS);
    run_all((clef_batch_opts){.max_sequences = 1, .no_prefix_cache = 1}, requests, &alone, want);
    const clef_batch_stats end = run_all(opts, requests, &many, got);
    check_texts(got, want);
    assert_true(end.n_drafted > end.n_accepted && (end.n_accepted > 0 || k == 3));
    assert_true(k != 2 || end.n_preemptions > 0);
}

/* Generates from a prompt; returns what was found in the prefix cache. */
static int32_t go_on(clef_batch *b, const int32_t *ids, int32_t n, int32_t *out, int32_t n_out)
{
    clef_error err = {0};
    clef_batch_token t = {0};
    int64_t number;
    int32_t n_rows = 1, i = 0;
    const clef_request r = {
        .ids = ids, .n = n, .n_max = n_out, .ignore_eos = 1, .sampling = {.temperature = 0.8f, .seed = 3}};
    ok(clef_batch_add(b, &r, &number, &err), &err);
    while (n_rows) {
        ok(clef_batch_step(b, &n_rows, &err), &err);
        for (; clef_batch_take(b, &t, 1); i++)
            out[i] = t.id;
    }
    assert_int_equal(i, n_out);
    return t.n_cached;
}

/* Steps with draft tokens end at the places where states are kept, so a text that is continued is found. */
static void check_long_text(clef_batch_opts spec)
{
    int32_t text[16 + MOST_GENERATED], want[16 + MOST_GENERATED], more[2][8];
    clef_batch *plain = open_batch((clef_batch_opts){.max_sequences = 1}), *b;
    for (int32_t i = 0; i < 16; i++)
        text[i] = want[i] = 3 + i * 7 % 30;
    spec.max_sequences = 1;
    b = open_batch(spec);
    go_on(plain, want, 16, want + 16, MOST_GENERATED);
    go_on(b, text, 16, text + 16, MOST_GENERATED);
    assert_memory_equal(text, want, sizeof want);
    text[300] = (text[300] + 1) % HYBRID_VOCAB;
    assert_int_equal(go_on(plain, text, 16 + MOST_GENERATED, more[0], 8), 256);
    assert_int_equal(go_on(b, text, 16 + MOST_GENERATED, more[1], 8), 256);
    assert_memory_equal(more[0], more[1], sizeof more[0]);
    const clef_batch_stats end = clef_batch_describe(b);
    assert_true(end.n_drafted > end.n_accepted && end.n_accepted > 0);
    clef_batch_destroy(plain);
    clef_batch_destroy(b);
}

/* Each kind and the long text, at both temperatures, by tokens of the text and by the further layer. */
TEST(texts_are_those_without_drafts)
{
    enum { N = 4 * (N_KINDS + 1) };
    for (int32_t i = 0; i < N; i++) {
        const int32_t k = i / 4;
        clef_batch_opts opts = k < N_KINDS ? kinds[k] : (clef_batch_opts){0};
        opts.ngram_min = i % 2;
        opts.ngram_max = 2 * (i % 2);
        opts.mtp = i % 2 == 0;
        if (is_in_turn(i, N))
            k < N_KINDS ? check_kind(k, opts, i % 4 < 2 ? 0 : 0.8f) : check_long_text(opts);
    }
}

TEST(a_model_without_that_layer)
{
    clef_error err = {0};
    clef_model *plain;
    clef_batch *b;
    write_hybrid(temp_path("plain"), 11, 1);
    ok(clef_model_open(temp_path("plain"), &plain, &err), &err);
    const clef_batch_opts opts = {.mtp = 1}, both = {.mtp = 1, .ngram_max = 2};
    assert_int_equal(clef_batch_create(dev, plain, &opts, &b, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "layer that predicts further tokens"));
    assert_int_equal(clef_batch_create(dev, model, &both, &b, &err), CLEF_E_ARG);
    clef_model_close(plain);
    remove_hybrid(temp_path("plain"));
}

/* ---- pages in files ---------------------------------------------------------------------------- */

static void say_line(void *user, const char *text)
{
    snprintf(user, 256, "%.255s", text);
}

/* A batch that keeps its pages in temp_path("pages"). */
static clef_batch *open_on_disk(clef_model *m, int32_t n_context, char said[256])
{
    clef_error err = {0};
    clef_batch *b;
    const clef_batch_opts opts = {.n_context = n_context,
                                  .repeatable = 1,
                                  .compile = {.no_tune = 1, .no_proof = 1},
                                  .disk_dir = temp_path("pages"),
                                  .disk_bytes = 64 << 20,
                                  .disk_notice = say_line,
                                  .disk_user = said};
    ok(clef_batch_create(dev, m, &opts, &b, &err), &err);
    return b;
}

/* A second batch finds `cached` of n tokens, and says the same; so with further tokens behind them. */
static void check_restart(clef_model *m, int32_t n_context, int32_t n, int32_t cached)
{
    const int32_t n_vocab = clef_model_hparams(m)->n_vocab;
    int32_t ids[512], first[8], again[8];
    char said[256] = "";
    for (int32_t i = 0; i < n + 5; i++)
        ids[i] = 3 + (i * 7 + i / 11) % (n_vocab - 4);
    clef_batch *b = open_on_disk(m, n_context, said);
    assert_int_equal(go_on(b, ids, n, first, 8), 0);
    clef_batch_destroy(b);
    b = open_on_disk(m, n_context, said);
    assert_int_equal(go_on(b, ids, n, again, 8), cached);
    assert_memory_equal(first, again, sizeof first);
    go_on(b, ids, n + 5, first, 8);
    clef_batch_destroy(b);
    b = open_on_disk(m, n_context, said);
    assert_int_equal(go_on(b, ids, n + 5, again, 8), cached);
    assert_memory_equal(first, again, sizeof first);
    assert_null(strstr(said, "damaged"));
    clef_batch_destroy(b);
    remove_tree(temp_path("pages"));
}

/* Where the prompt ends with a block, its memory is kept as well: 325 tokens find 320 of those. */
TEST(another_batch_finds_pages_and_memory)
{
    int32_t ids[512], out[8];
    char said[256] = "";
    check_restart(model, 512, 300, 256);
    for (int32_t i = 0; i < 325; i++)
        ids[i] = 3 + i * 11 % 30;
    clef_batch *b = open_on_disk(model, 512, said);
    go_on(b, ids, 320, out, 8);
    clef_batch_destroy(b);
    b = open_on_disk(model, 512, said);
    assert_int_equal(go_on(b, ids, 325, out, 8), 320);
    clef_batch_destroy(b);
    remove_tree(temp_path("pages"));
}

TEST(pages_with_the_further_layer_are_refused)
{
    clef_error err = {0};
    clef_batch *b;
    const clef_batch_opts opts = {.mtp = 1, .disk_dir = temp_path("pages"), .disk_bytes = 1 << 20};
    assert_int_equal(clef_batch_create(dev, model, &opts, &b, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cache on disk"));
}

TEST(so_with_sliding_layers)
{
    static const char *const names[] = {"gemma3", "gpt-oss", "mistral", "llama"};
    const char *shared = getenv("CLEF_SHARED");
    int32_t n_there = 0;
    for (int32_t i = 0; shared && i < (int32_t)(sizeof names / sizeof *names); i++) {
        clef_error err = {0};
        clef_model *m = NULL;
        char path[1024];
        snprintf(path, sizeof path, "%s/oracle/models/%s", shared, names[i]);
        if (clef_model_open(path, &m, &err) != CLEF_OK)
            continue;
        n_there++;
        if (is_in_turn(i, sizeof names / sizeof *names))
            check_restart(m, 256, 200, 192);
        clef_model_close(m);
    }
    if (!n_there)
        skip_without("model with sliding layers");
}

static int setup(void **state)
{
    clef_error err = {0};
    if (make_temp_dir(state))
        return 1;
    set_debug("fused", "0"); /* PoCL compiles a fused step for seconds */
    write_hybrid(temp_path("model"), 11, 0);
    dev = test_device();
    if (!dev || clef_model_open(temp_path("model"), &model, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return 0;
}

static int teardown(void **state)
{
    clef_model_close(model);
    clef_device_close(dev);
    remove_hybrid(temp_path("model"));
    return remove_temp_dir(state);
}

TESTS(setup, teardown)

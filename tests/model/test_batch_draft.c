/* Speculation with a draft: the texts are those without one, to the last bit. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_graph.h"
#include "tests/debug.h"
#include "tests/model/batch_texts.h"

static clef_device *dev;
static clef_model *model, *rough; /* rough: the same with coarser weights */
static test_request requests[MOST_REQUESTS];
static const char rough_path[] = "test_batch_draft.gguf";

static clef_batch *open_batch(clef_batch_opts opts)
{
    clef_error err = {0};
    clef_batch *b;
    opts.n_context = 256;
    opts.repeatable = 1;
    opts.compile = (clef_compile_opts){.no_tune = 1, .no_proof = 1};
    ok(clef_batch_create(dev, model, &opts, &b, &err), &err);
    return b;
}

static clef_batch_stats run_batch(clef_batch_opts opts, const test_arrival *arrival,
                                  test_text texts[MOST_REQUESTS])
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

/* Alone and with neighbours, with room and preempted; prompts longer than a step of the draft. */
static void check_draft(clef_model *draft, float temperature)
{
    static test_text want[MOST_REQUESTS], got[MOST_REQUESTS];
    const test_arrival alone = {.temperature = temperature, .one_by_one = 1};
    run_batch((clef_batch_opts){.max_sequences = 1, .no_prefix_cache = 1}, &alone, want);
    for (int32_t k = 0; k < 4; k++) {
        const test_arrival many = {
            .temperature = temperature, .seed = 60 + (uint64_t)k, .one_by_one = k == 3};
        const clef_batch_stats end = run_batch((clef_batch_opts){.max_sequences = k == 1 ? 3 : 8,
                                                                 .step_tokens = 24 + 60 * k,
                                                                 .kv_tokens = k == 2 ? 320 : 0,
                                                                 .spec_max_sequences = k == 2 ? 8 : 3,
                                                                 .spec_always = 1,
                                                                 .draft = draft,
                                                                 .draft_tokens = 1 + 2 * k},
                                               &many, got);
        check_texts(got, want);
        assert_true(end.n_drafted > 0 && end.n_accepted > 0 && end.n_accepted <= end.n_drafted);
        assert_true(end.n_spec_steps > 0 && end.n_spec_steps <= end.n_steps);
        assert_true(k != 2 || end.n_preemptions > 0);
        if (draft == model && temperature == 0) /* its likeliest tokens are the target's */
            assert_int_equal(end.n_accepted, end.n_drafted);
    }
}

TEST(the_model_itself)
{
    check_draft(model, 0);
    check_draft(model, 0.8f);
}

TEST(a_rougher_model)
{
    check_draft(rough, 0);
    check_draft(rough, 0.8f);
}

/* Without spec_always the times decide, which no test can know; the texts are the same either way. */
TEST(chosen_by_the_step)
{
    static test_text want[MOST_REQUESTS], got[MOST_REQUESTS];
    const test_arrival many = {.seed = 9};
    run_batch((clef_batch_opts){.max_sequences = 4}, &many, want);
    run_batch((clef_batch_opts){.max_sequences = 4, .draft = model}, &many, got);
    check_texts(got, want);
    const clef_batch_stats crowded =
        run_batch((clef_batch_opts){.max_sequences = 1, .spec_max_sequences = 1, .draft = model}, &many, got);
    check_texts(got, want);
    assert_true(crowded.n_accepted <= crowded.n_drafted);
}

/* While more than spec_max_sequences run, nothing is drafted. */
TEST(off_while_many_run)
{
    clef_error err = {0};
    int32_t n_rows;
    clef_batch *b = open_batch(
        (clef_batch_opts){.max_sequences = 4, .spec_max_sequences = 2, .spec_always = 1, .draft = model});
    for (int32_t i = 0; i < 3; i++) {
        const int32_t id = 5 + i;
        int64_t number;
        const clef_request r = {.ids = &id, .n = 1, .n_max = i ? 40 : 6, .ignore_eos = 1};
        ok(clef_batch_add(b, &r, &number, &err), &err);
    }
    for (int32_t i = 0; i < 6; i++) {
        ok(clef_batch_step(b, &n_rows, &err), &err);
        assert_int_equal(n_rows, 3);
    }
    assert_int_equal(clef_batch_describe(b).n_drafted, 0);
    ok(clef_batch_step(b, &n_rows, &err), &err); /* the first one has ended */
    assert_int_equal(n_rows, 2 * (1 + 4));
    assert_int_equal(clef_batch_describe(b).n_accepted, 8);
    ok(clef_batch_cancel(b, 1, &err), &err);
    ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_int_equal(n_rows, 1 + 4);
    clef_batch_destroy(b);
}

TEST(a_forced_text)
{
    const int32_t prompt[] = {5, 6, 7}, forced[] = {40, 41, 42, 43, 44, 45}, wrong[] = {1 << 20};
    clef_error err = {0};
    int64_t number;
    int32_t n_rows = 1, n = 0;
    clef_batch *b = open_batch((clef_batch_opts){.max_sequences = 1, .spec_always = 1, .ngram_max = 2});
    clef_request r = {.ids = prompt, .n = 3, .n_max = 8, .ignore_eos = 1, .forced = forced, .n_forced = 6};
    ok(clef_batch_add(b, &r, &number, &err), &err);
    while (n_rows) {
        clef_batch_token t;
        ok(clef_batch_step(b, &n_rows, &err), &err);
        for (; clef_batch_take(b, &t, 1); n++)
            assert_true(n >= 6 || t.id == forced[n]);
    }
    assert_int_equal(n, 8);
    r.n_max = 5;
    assert_int_equal(clef_batch_add(b, &r, &number, &err), CLEF_E_ARG);
    r.n_forced = 1;
    r.forced = wrong;
    assert_int_equal(clef_batch_add(b, &r, &number, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "token 0 of the text is 1048576"));
    clef_batch_destroy(b);
}

TEST(wrong_options_are_refused)
{
    const clef_batch_opts wrong[] = {{.draft = model, .draft_tokens = 9},
                                     {.draft = model, .draft_tokens = -1},
                                     {.draft = model, .ngram_max = 3},
                                     {.draft = model, .spec_max_sequences = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        clef_error err = {0};
        clef_batch *b;
        assert_int_equal(clef_batch_create(dev, model, &wrong[i], &b, &err), CLEF_E_ARG);
        assert_null(b);
        assert_true(err.text[0]);
    }
}

static int setup(void **state)
{
    clef_error err = {0};
    (void)state;
    set_debug("fused", "0"); /* PoCL compiles a fused step for seconds */
    dev = test_device();
    if (!dev || clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err) ||
        clef_model_quantize(model, rough_path, &(clef_quantize_opts){.type = "q4_0"}, &err) ||
        clef_model_open(rough_path, &rough, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    make_requests(clef_model_hparams(model), MOST_PROMPT, requests, MOST_REQUESTS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clef_model_close(rough);
    clef_model_close(model);
    clef_device_close(dev);
    remove(rough_path);
    return 0;
}

TESTS(setup, teardown)

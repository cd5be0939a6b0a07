/* Batches: each text is what its prompt gives alone; with `repeatable` to the last bit. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_graph.h"
#include "tests/debug.h"
#include "tests/model/batch_texts.h"
#include "text/constrain/constraint.h"

static clef_device *dev;
static clef_model *model;
static test_request requests[MOST_REQUESTS];

static clef_batch *open_batch(clef_batch_opts opts)
{
    clef_error err = {0};
    clef_batch *b;
    opts.compile = (clef_compile_opts){.no_tune = 1, .no_proof = 1};
    ok(clef_batch_create(dev, model, &opts, &b, &err), &err);
    return b;
}

/* ---- texts ------------------------------------------------------------------------------------- */

static float logprob_of(const float *logits, int32_t n, int32_t id)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)logits[id]);
    return (float)-log(sum);
}

static void run_alone(clef_session *s, const test_request *r, test_text *out)
{
    const int32_t n_vocab = clef_model_hparams(model)->n_vocab;
    clef_error err = {0};
    clef_sampler *greedy;
    const float *logits;
    ok(clef_sampler_create(n_vocab, NULL, &greedy, &err), &err);
    ok(clef_session_reset(s, &err), &err);
    ok(clef_session_feed(s, r->ids, r->n, &logits, &err), &err);
    for (out->n = 0; out->n < N_GENERATED; out->n++) {
        const int32_t id = out->ids[out->n] = clef_sampler_pick(greedy, logits);
        out->logprobs[out->n] = logprob_of(logits, n_vocab, id);
        ok(clef_session_feed(s, &id, 1, &logits, &err), &err);
    }
    clef_sampler_destroy(greedy);
}

TEST(texts_are_those_of_a_session)
{
    const clef_session_opts alone = {.n_context = 256, .compile = {.no_tune = 1, .no_proof = 1}};
    static const int32_t sequences[] = {1, 3, 8};
    static test_text want[MOST_REQUESTS];
    clef_error err = {0};
    clef_session *s;
    ok(clef_session_create(dev, model, &alone, &s, &err), &err);
    for (int32_t i = 0; i < MOST_REQUESTS; i++)
        run_alone(s, &requests[i], &want[i]);
    clef_session_destroy(s);
    for (size_t k = 0; k < sizeof sequences / sizeof *sequences; k++) {
        static test_text got[MOST_REQUESTS];
        memset(got, 0, sizeof got);
        clef_batch *b =
            open_batch((clef_batch_opts){.n_context = 256, .max_sequences = sequences[k], .step_tokens = 48});
        run_requests(b, requests, MOST_REQUESTS, &(test_arrival){.seed = 5 + k}, got);
        for (int32_t i = 0; i < MOST_REQUESTS; i++) {
            assert_memory_equal(got[i].ids, want[i].ids, sizeof want[i].ids);
            for (int32_t t = 0; t < N_GENERATED; t++)
                assert_true(fabsf(got[i].logprobs[t] - want[i].logprobs[t]) < 1e-4f);
        }
        clef_batch_destroy(b);
    }
}

/* The same bits alone, with neighbours, from the prefix cache, and after set-backs; the same tokens if the
 * device samples them. */
static void check_repeatable(float temperature)
{
    static test_text want[MOST_REQUESTS], got[MOST_REQUESTS];
    const test_arrival alone = {.temperature = temperature, .one_by_one = 1};
    memset(want, 0, sizeof want);
    clef_batch *b = open_batch(
        (clef_batch_opts){.n_context = 256, .max_sequences = 1, .no_prefix_cache = 1, .repeatable = 1});
    run_requests(b, requests, MOST_REQUESTS, &alone, want);
    clef_batch_destroy(b);
    for (int32_t k = 0; k < 5; k++) {
        const test_arrival many = {
            .temperature = temperature, .seed = 40 + (uint64_t)k, .no_logprobs = k == 4};
        memset(got, 0, sizeof got);
        b = open_batch((clef_batch_opts){.n_context = 256,
                                         .max_sequences = k == 1 ? 3 : 8,
                                         .step_tokens = 40 + 20 * k,
                                         .kv_tokens = k == 0 ? 0 : 512,
                                         .no_prefix_cache = k == 2,
                                         .ngram_max = k % 2 ? 0 : 2,
                                         .ngram_min = k % 2 ? 0 : 1,
                                         .spec_max_sequences = 8,
                                         .spec_always = 1,
                                         .repeatable = 1});
        run_requests(b, requests, MOST_REQUESTS, &many, got);
        const clef_batch_stats end = clef_batch_describe(b);
        assert_true(k == 0 || k == 1 || end.n_preemptions > 0);
        assert_true(k == 2 ? end.n_cached == 0 : end.n_cached > 0);
        assert_true(k % 2 ? end.n_drafted == 0 : end.n_drafted > 0);
        assert_int_equal(end.n_pages_running, 0);
        for (int32_t i = 0; i < MOST_REQUESTS; i++) {
            assert_memory_equal(got[i].ids, want[i].ids, sizeof want[i].ids);
            if (!many.no_logprobs)
                assert_memory_equal(got[i].logprobs, want[i].logprobs, sizeof want[i].logprobs);
        }
        clef_batch_destroy(b);
    }
}

TEST(repeatable_greedy)
{
    check_repeatable(0);
}

TEST(repeatable_draws)
{
    check_repeatable(0.8f);
}

/* ---- speculation ------------------------------------------------------------------------------- */

enum { LONG_TEXT = 90 };

/* Generates after a prompt that repeats itself. */
static clef_batch_stats repeat_text(int32_t ngram_max, float temperature, int32_t out[LONG_TEXT])
{
    int32_t ids[60], n_rows = 1, n = 0;
    clef_error err = {0};
    int64_t number;
    for (int32_t i = 0; i < 60; i++)
        ids[i] = 40 + i % 12 * 9;
    clef_batch *b = open_batch((clef_batch_opts){
        .n_context = 256, .max_sequences = 2, .repeatable = 1, .ngram_max = ngram_max, .spec_always = 1});
    const clef_request r = {.ids = ids,
                            .n = 60,
                            .n_max = LONG_TEXT,
                            .ignore_eos = 1,
                            .sampling = {.temperature = temperature, .top_k = 5, .seed = 3}};
    ok(clef_batch_add(b, &r, &number, &err), &err);
    while (n_rows) {
        clef_batch_token t[16];
        ok(clef_batch_step(b, &n_rows, &err), &err);
        const int32_t more = clef_batch_take(b, t, 16);
        assert_true(n + more <= LONG_TEXT);
        for (int32_t i = 0; i < more; i++)
            out[n++] = t[i].id;
    }
    assert_int_equal(n, LONG_TEXT);
    const clef_batch_stats stats = clef_batch_describe(b);
    clef_batch_destroy(b);
    return stats;
}

TEST(speculation_changes_no_token)
{
    static const float temperatures[] = {0, 0.3f, 1};
    for (size_t i = 0; i < sizeof temperatures / sizeof *temperatures; i++) {
        int32_t want[LONG_TEXT], got[LONG_TEXT];
        const clef_batch_stats plain = repeat_text(0, temperatures[i], want),
                               with = repeat_text(3, temperatures[i], got);
        assert_memory_equal(want, got, sizeof want);
        assert_int_equal(plain.n_drafted, 0);
        assert_true(with.n_drafted > 0 && with.n_accepted <= with.n_drafted);
        assert_true(i ||
                    (with.n_accepted > 20 && with.n_steps < plain.n_steps - 20)); /* a greedy text repeats */
    }
}

/* ---- the prefix cache -------------------------------------------------------------------------- */

/* Runs one request alone and returns the cached tokens of its prompt. */
static int32_t cached_of(clef_batch *b, const int32_t *ids, int32_t n, uint64_t salt)
{
    clef_error err = {0};
    int64_t number;
    int32_t n_rows = 1, n_cached = -1;
    const clef_request r = {.ids = ids, .n = n, .n_max = 2, .ignore_eos = 1, .salt = salt};
    ok(clef_batch_add(b, &r, &number, &err), &err);
    while (n_rows) {
        clef_batch_token t[4];
        ok(clef_batch_step(b, &n_rows, &err), &err);
        for (int32_t i = clef_batch_take(b, t, 4); i-- > 0;)
            n_cached = t[i].n_cached;
    }
    return n_cached;
}

/* The second prompt shares a part of the only page, of which there is no room for a copy. */
TEST(a_pool_of_one_page_serves_each_prompt)
{
    int32_t ids[40];
    for (int32_t i = 0; i < 40; i++)
        ids[i] = 3 + i * 7 % 300;
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 64, .max_sequences = 1, .kv_tokens = 64});
    assert_int_equal(clef_batch_describe(b).n_pages, 1);
    assert_int_equal(cached_of(b, ids, 40, 0), 0);
    ids[20] = 2;
    assert_int_equal(cached_of(b, ids, 40, 0), 0);
    clef_batch_destroy(b);
}

TEST(prefixes_are_exact_to_the_token)
{
    int32_t ids[150];
    for (int32_t i = 0; i < 150; i++)
        ids[i] = 3 + i * 7 % 300;
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = 2});
    assert_int_equal(cached_of(b, ids, 77, 0), 0);
    assert_int_equal(cached_of(b, ids, 77, 0), 76);
    ids[51] = 2;
    assert_int_equal(cached_of(b, ids, 77, 0), 51);
    assert_int_equal(cached_of(b, ids, 150, 0), 77);
    assert_int_equal(cached_of(b, ids, 150, 0), 149);
    assert_int_equal(cached_of(b, ids, 128, 0), 127);
    assert_int_equal(cached_of(b, ids, 129, 0), 128);
    assert_int_equal(cached_of(b, ids, 77, 1), 0); /* another salt */
    ids[0] = 2;
    assert_int_equal(cached_of(b, ids, 77, 0), 0);
    clef_batch_destroy(b);
}

/* Sequences that come at the same time hold their common prefix once. */
TEST(a_common_prefix_is_held_once)
{
    enum { N = 8, COMMON = 130 };
    int32_t ids[COMMON + 3], n_rows;
    clef_error err = {0};
    for (int32_t i = 0; i < COMMON; i++)
        ids[i] = 3 + i * 5 % 300;
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = N, .step_tokens = 64});
    for (int32_t i = 0; i < N; i++) {
        int64_t number;
        ids[COMMON] = i;
        const clef_request r = {.ids = ids, .n = COMMON + 3, .n_max = 40, .ignore_eos = 1};
        ids[COMMON + 1] = ids[COMMON + 2] = 7;
        ok(clef_batch_add(b, &r, &number, &err), &err);
    }
    for (int32_t i = 0; i < 8; i++)
        ok(clef_batch_step(b, &n_rows, &err), &err);
    const clef_batch_stats now = clef_batch_describe(b);
    assert_int_equal(now.n_running, N);
    assert_int_equal(now.n_pages_running, COMMON / CLEF_KV_PAGE + N); /* and a last page for each */
    clef_batch_destroy(b);
}

/* ---- requests ---------------------------------------------------------------------------------- */

TEST(what_cannot_fit_is_refused)
{
    const int32_t ids[200] = {1}, wrong[] = {1, 2, 1 << 20};
    clef_error err = {0};
    int64_t number;
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = 2, .kv_tokens = 128});
    const struct {
        clef_request r;
        clef_status status;
        const char *text;
    } cases[] = {
        {{.ids = ids, .n = 100, .n_max = 29}, CLEF_E_LIMIT, "100 prompt tokens and 29 to generate"},
        {{.ids = ids, .n = 200}, CLEF_E_LIMIT, "the pool of keys and values 128"},
        {{.ids = ids, .n = 0}, CLEF_E_ARG, "0 prompt tokens"},
        {{.ids = wrong, .n = 3}, CLEF_E_ARG, "token 2 of the prompt is 1048576"},
        {{.ids = ids, .n = 3, .source = ids, .n_source = 2}, CLEF_E_ARG, "only an encoder-decoder has one"},
        {{.ids = ids, .n = 3, .sampling.temperature = -1}, CLEF_E_ARG, "temperature -1"},
        {{.ids = ids, .n = 3, .logprobs = 3}, CLEF_E_ARG, "logprobs 3: expected 0 to 2"},
        {{.ids = ids, .n = 3, .logprobs = -1}, CLEF_E_ARG, "logprobs -1: expected 0 to 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(clef_batch_add(b, &cases[i].r, &number, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
    }
    assert_int_equal(clef_batch_cancel(b, 0, &err), CLEF_E_NOT_FOUND);
    assert_int_equal(clef_batch_describe(b).n_waiting, 0);
    clef_batch_destroy(b);
}

/* With logprobs 2 those that are left are all that a token is drawn from. */
TEST(logprobs_of_draws)
{
    enum { TOP_K = 3, N_TOP = 5 };
    clef_error err = {0};
    int64_t number;
    int32_t n_rows = 1, n = 0;
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = 1});
    const clef_request r = {.ids = requests[0].ids,
                            .n = requests[0].n,
                            .n_max = N_GENERATED,
                            .ignore_eos = 1,
                            .sampling = {.temperature = 0.8f, .top_k = TOP_K, .seed = 3},
                            .logprobs = 2,
                            .n_top = N_TOP};
    ok(clef_batch_add(b, &r, &number, &err), &err);
    while (n_rows) {
        clef_batch_token t;
        ok(clef_batch_step(b, &n_rows, &err), &err);
        for (; clef_batch_take(b, &t, 1); n++) {
            double sum = 0;
            int32_t n_drawn = 0;
            assert_int_equal(t.n_top, TOP_K);
            for (int32_t i = 0; i < t.n_top; i++) {
                sum += exp((double)t.top[i].logprob);
                assert_true(!i || t.top[i].logprob <= t.top[i - 1].logprob);
                if (t.top[i].id == t.id) {
                    assert_true(fabsf(t.top[i].logprob - t.logprob) < 1e-5f);
                    n_drawn++;
                }
            }
            assert_int_equal(n_drawn, 1);
            assert_true(fabs(sum - 1) < 1e-4);
        }
    }
    assert_int_equal(n, N_GENERATED);
    clef_batch_destroy(b);
}

TEST(cancelling_frees_everything)
{
    int32_t ids[100] = {1}, n_rows;
    int64_t first, second;
    clef_error err = {0};
    clef_batch_token t[8];
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = 2});
    const clef_request r = {.ids = ids, .n = 100, .n_max = 20, .ignore_eos = 1};
    ok(clef_batch_add(b, &r, &first, &err), &err);
    ids[0] = 2;
    ok(clef_batch_add(b, &r, &second, &err), &err);
    ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_int_equal(clef_batch_describe(b).n_running, 2);
    ok(clef_batch_cancel(b, first, &err), &err);
    assert_int_equal(clef_batch_cancel(b, first, &err), CLEF_E_NOT_FOUND);
    for (int32_t i = clef_batch_take(b, t, 8); i-- > 0;)
        assert_int_equal(t[i].sequence, second);
    ok(clef_batch_cancel(b, second, &err), &err);
    assert_int_equal(clef_batch_take(b, t, 8), 0);
    ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_int_equal(n_rows, 0);
    assert_int_equal(clef_batch_describe(b).n_pages_running, 0);
    clef_batch_destroy(b);
}

/* The tokens of a sequence that a step sampled, added to out. */
static void collect(clef_batch *b, int64_t sequence, int32_t *out, int32_t *n)
{
    clef_batch_token t;
    while (clef_batch_take(b, &t, 1))
        if (t.sequence == sequence)
            out[(*n)++] = t.id;
}

/* A long prompt that waits for pages is not passed by short ones that come later. */
TEST(who_waits_for_room_is_next)
{
    enum { PAGE = CLEF_KV_PAGE };
    clef_error err = {0};
    static int32_t ids[4 * PAGE];
    int64_t first, later, short_one[8];
    int32_t n_rows, n_past, n_cached;
    clef_batch *b =
        open_batch((clef_batch_opts){.n_context = 4 * PAGE, .max_sequences = 8, .kv_tokens = 4 * PAGE});
    for (int32_t i = 0; i < 4 * PAGE; i++)
        ids[i] = 3 + i * 7 % 200;
    ok(clef_batch_add(b, &(clef_request){.ids = ids, .n = PAGE + 5, .n_max = PAGE / 2, .ignore_eos = 1},
                      &first, &err),
       &err);
    ok(clef_batch_step(b, &n_rows, &err), &err);
    const clef_request waits = {.ids = ids + 1, .n = 3 * PAGE - 9, .n_max = 4, .ignore_eos = 1};
    ok(clef_batch_add(b, &waits, &later, &err), &err);
    for (int32_t i = 0; i < 8; i++) {
        const clef_request passes = {.ids = ids + 2 + i, .n = 9, .n_max = PAGE / 2, .ignore_eos = 1};
        ok(clef_batch_add(b, &passes, &short_one[i], &err), &err);
    }
    while (clef_batch_find(b, first, &n_past, &n_cached) >= 0) {
        for (int32_t i = 0; i < 8; i++)
            assert_true(clef_batch_find(b, later, &n_past, &n_cached) != 0 ||
                        clef_batch_find(b, short_one[i], &n_past, &n_cached) == 0);
        ok(clef_batch_step(b, &n_rows, &err), &err);
    }
    ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_int_equal(clef_batch_find(b, later, &n_past, &n_cached), 1);
    clef_batch_destroy(b);
}

/* A text that was paused goes on as if it had not been, and others run meanwhile. */
TEST(pauses_change_no_text)
{
    clef_error err = {0};
    int32_t want[N_GENERATED], got[N_GENERATED], other[N_GENERATED], n = 0, n_other = 0, n_rows, n_past,
                                                                     n_cached;
    int64_t sequence, beside;
    const clef_request r = {.ids = requests[0].ids,
                            .n = requests[0].n,
                            .n_max = N_GENERATED,
                            .ignore_eos = 1},
                       o = {
                           .ids = requests[1].ids, .n = requests[1].n, .n_max = N_GENERATED, .ignore_eos = 1};
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = 1, .repeatable = 1});
    ok(clef_batch_add(b, &r, &sequence, &err), &err);
    while (n < N_GENERATED) {
        ok(clef_batch_step(b, &n_rows, &err), &err);
        collect(b, sequence, want, &n);
    }
    ok(clef_batch_add(b, &r, &sequence, &err), &err);
    ok(clef_batch_add(b, &o, &beside, &err), &err);
    for (n = 0; n < N_GENERATED / 2; collect(b, sequence, got, &n))
        ok(clef_batch_step(b, &n_rows, &err), &err);
    ok(clef_batch_pause(b, sequence, &err), &err);
    assert_int_equal(clef_batch_find(b, sequence, &n_past, &n_cached), 0);
    for (; n_other < N_GENERATED; collect(b, beside, other, &n_other))
        ok(clef_batch_step(b, &n_rows, &err), &err);
    ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_int_equal(n_rows, 0); /* all that is left is paused */
    ok(clef_batch_resume(b, sequence, &err), &err);
    for (; n < N_GENERATED; collect(b, sequence, got, &n))
        ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(clef_batch_pause(b, sequence, NULL), CLEF_E_NOT_FOUND);
    assert_int_equal(clef_batch_resume(b, 12345, NULL), CLEF_E_NOT_FOUND);
    clef_batch_destroy(b);
}

/* As the states of other texts with the same constraint would make it do. */
static void begin_generation(clef_constraint *c)
{
    clef_constraint_state state;
    clef_error err = {0};
    c->machine.work.status = CLEF_E_LIMIT;
    ok(clef_constraint_begin(c, &state, &err), &err);
}

/* A text with a constraint goes on after a pause, although others have needed much memory meanwhile. */
TEST(pauses_keep_the_place_in_a_constraint)
{
    static const char pattern[] = "[a-z ]{400}";
    const int32_t end = clef_model_hparams(model)->eos;
    clef_error err = {0};
    clef_constraint *c = NULL;
    clef_token_trie *trie = NULL;
    int32_t want[N_GENERATED], got[N_GENERATED], n = 0, n_rows;
    int64_t sequence, beside;
    ok(clef_constraint_create(CLEF_CONSTRAIN_REGEX, pattern, sizeof pattern - 1, NULL, &c, NULL, &err), &err);
    ok(clef_token_trie_create(clef_model_tokenizer(model, &err), &end, 1, &trie, &err), &err);
    const clef_guide guide = {.constraint = c, .trie = trie};
    const clef_request r = {.ids = requests[0].ids,
                            .n = requests[0].n,
                            .n_max = N_GENERATED,
                            .guide = &guide},
                       o = {.ids = requests[1].ids, .n = requests[1].n, .n_max = 40, .ignore_eos = 1};
    clef_batch *b = open_batch((clef_batch_opts){.n_context = 256, .max_sequences = 2, .repeatable = 1});
    ok(clef_batch_add(b, &r, &sequence, &err), &err);
    for (; n < N_GENERATED; collect(b, sequence, want, &n))
        ok(clef_batch_step(b, &n_rows, &err), &err);
    ok(clef_batch_add(b, &r, &sequence, &err), &err);
    ok(clef_batch_add(b, &o, &beside, &err), &err);
    for (n = 0; n < N_GENERATED / 2; collect(b, sequence, got, &n))
        ok(clef_batch_step(b, &n_rows, &err), &err);
    ok(clef_batch_pause(b, sequence, &err), &err);
    for (int i = 0; i < 3; i++) {
        begin_generation(c);
        ok(clef_batch_step(b, &n_rows, &err), &err);
    }
    ok(clef_batch_resume(b, sequence, &err), &err);
    for (int i = 0; i < 30 && n < N_GENERATED; i++, collect(b, sequence, got, &n))
        ok(clef_batch_step(b, &n_rows, &err), &err);
    assert_int_equal(n, N_GENERATED);
    assert_memory_equal(got, want, sizeof want);
    clef_batch_destroy(b);
    clef_token_trie_destroy(trie);
    clef_constraint_destroy(c);
}

TEST(wrong_options_are_refused)
{
    static const clef_batch_opts wrong[] = {{.n_context = 1 << 30},
                                            {.max_sequences = -1},
                                            {.max_sequences = 8, .step_tokens = 4},
                                            {.kv_tokens = -5},
                                            {.kv_tokens = INT64_MAX / 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        clef_error err = {0};
        clef_batch *b;
        assert_int_not_equal(clef_batch_create(dev, model, &wrong[i], &b, &err), CLEF_OK);
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
    if (!dev || clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err))
        return 1;
    make_requests(clef_model_hparams(model), MOST_PROMPT, requests, MOST_REQUESTS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clef_model_close(model);
    clef_device_close(dev);
    return 0;
}

TESTS(setup, teardown)

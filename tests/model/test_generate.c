/* Generation with the bundled model on the device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "run_graph.h"
#include "tests/check.h"
#include "tests/skip.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

static clef_device *dev;
static clef_model *model;
static json_t *expected;

static int32_t ids_of(const json_t *list, int32_t *ids, int32_t capacity)
{
    const int32_t n = (int32_t)json_array_size(list);
    assert_true(n > 0 && n <= capacity);
    for (int32_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

/* ---- sessions -------------------------------------------------------------------------------- */

static void greedy_is_pytorchs(clef_gemm gemm, int32_t n_batch)
{
    clef_error err = {0};
    clef_session *session;
    clef_sampler *greedy;
    ok(clef_session_create(dev, model, &(clef_session_opts){.compile.gemm = gemm, .n_batch = n_batch},
                           &session, &err),
       &err);
    ok(clef_sampler_create(clef_model_hparams(model)->n_vocab, NULL, &greedy, &err), &err);
    const json_t *cases = json_object_get(expected, "cases");
    for (size_t c = 0; c < json_array_size(cases); c++) {
        int32_t ids[256], want[256];
        const float *logits;
        const int32_t n = ids_of(json_object_get(json_array_get(cases, c), "prompt_ids"), ids, 256);
        const int32_t n_new = ids_of(json_object_get(json_array_get(cases, c), "new_ids"), want, 256);
        ok(clef_session_reset(session, &err), &err);
        ok(clef_session_feed(session, ids, n, &logits, &err), &err);
        for (int32_t i = 0; i < n_new; i++) {
            const int32_t id = clef_sampler_pick(greedy, logits);
            if (id != want[i])
                fail_msg("case %zu, token %d: %d, PyTorch gave %d", c, i, id, want[i]);
            ok(clef_session_feed(session, &id, 1, &logits, &err), &err);
        }
        assert_int_equal(clef_session_n_past(session), n + n_new);
    }
    clef_sampler_destroy(greedy);
    clef_session_destroy(session);
}

TEST(greedy_own)
{
    greedy_is_pytorchs(CLEF_GEMM_OWN, 0);
}

TEST(greedy_clblast)
{
#if !defined(CLEF_HAVE_CLBLAST)
    skip(); /* this build has none */
#endif
    greedy_is_pytorchs(CLEF_GEMM_CLBLAST, 0);
}

TEST(prompt_in_chunks)
{
    greedy_is_pytorchs(CLEF_GEMM_OWN, 3);
}

TEST(wrong_feeds)
{
    clef_error err = {0};
    clef_session *session;
    const float *logits;
    int32_t ids[40] = {0};
    ok(clef_session_create(dev, model, &(clef_session_opts){.n_context = 32}, &session, &err), &err);
    assert_int_equal(clef_session_feed(session, ids, 0, &logits, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_feed(session, ids, 33, &logits, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "33"));
    assert_non_null(strstr(err.text, "32"));
    ids[1] = 1024;
    assert_int_equal(clef_session_feed(session, ids, 2, &logits, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "1024"));
    ids[1] = -1;
    assert_int_equal(clef_session_feed(session, ids, 2, &logits, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_n_past(session), 0); /* nothing was fed */
    ids[1] = 5;
    ok(clef_session_feed(session, ids, 32, &logits, &err), &err);
    assert_int_equal(clef_session_feed(session, ids, 1, &logits, &err), CLEF_E_LIMIT);
    clef_session_destroy(session);
    assert_int_equal(clef_session_create(dev, model, &(clef_session_opts){.n_context = 257}, &session, &err),
                     CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "257"));
    assert_int_equal(clef_session_create(dev, model, &(clef_session_opts){.n_context = -1}, &session, &err),
                     CLEF_E_LIMIT);
    assert_int_equal(clef_session_create(dev, model, &(clef_session_opts){.n_batch = -1}, &session, &err),
                     CLEF_E_ARG);
}

static int stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return strcmp(what, "prompt") == 0 && ++*(int *)user == 2;
}

TEST(prompt_can_be_interrupted)
{
    clef_error err = {0};
    clef_session *session;
    const float *logits;
    int32_t ids[10] = {1, 2, 3};
    int calls = 0;
    ok(clef_session_create(
           dev, model,
           &(clef_session_opts){.n_batch = 2, .compile.progress = stop, .compile.progress_user = &calls},
           &session, &err),
       &err);
    assert_int_equal(clef_session_feed(session, ids, 10, &logits, &err), CLEF_E_CANCELLED);
    assert_int_equal(clef_session_n_past(session), 0); /* as before the call */
    clef_session_destroy(session);
}

/* The model's graph with taps gives the same logits fused and not, and attention weights that are weights. */
TEST(taps)
{
    enum { T = 11, V = 1024, H = 6 };
    static const char *const names[] = {"attention_0", "hidden_last", "layer1.out"};
    static float logits[2][T * V], p[H * T * T];
    clef_error err = {0};
    const int32_t ids[T] = {5, 900, 17, 3, 3, 44, 260, 261, 1023, 0, 8}, pos = 0;
    for (int32_t n_taps = 0; n_taps <= 3; n_taps += 3) {
        clef_graph *g;
        clef_plan *plan;
        ok(clef_model_build(
               model,
               &(clef_build_opts){
                   .n_context = T, .n_batch = T, .all_logits = 1, .taps = names, .n_taps = n_taps},
               &g, &err),
           &err);
        ok(clef_graph_optimize(g, NULL, &err), &err);
        ok(clef_plan_create(dev, g, &(clef_plan_opts){.weights = clef_model_weight, .weights_user = model},
                            &plan, &err),
           &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "input_ids"), ids, sizeof ids, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "pos"), &pos, sizeof pos, &err), &err);
        ok(clef_plan_run(plan, &err), &err);
        ok(clef_plan_read(plan, clef_plan_output(plan, "logits"), logits[n_taps / 3], sizeof logits[0], &err),
           &err);
        if (n_taps)
            ok(clef_plan_read(plan, clef_plan_output(plan, "attention_0"), p, sizeof p, &err), &err);
        clef_plan_destroy(plan);
        clef_graph_destroy(g);
    }
    for (int i = 0; i < T * V; i++)
        assert_true(fabsf(logits[0][i] - logits[1][i]) < 1e-3f);
    for (int r = 0; r < H * T; r++) {
        float sum = 0;
        for (int s = 0; s < T; s++) {
            assert_true(s <= r % T || p[r * T + s] == 0);
            sum += p[r * T + s];
        }
        assert_true(fabsf(sum - 1) < 1e-5f);
    }
    clef_graph *g;
    static const char *const none[] = {"nosuch"};
    assert_int_equal(clef_model_build(model, &(clef_build_opts){.taps = none, .n_taps = 1}, &g, &err),
                     CLEF_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "nosuch"));
}

/* Rows of a batch do not see each other, and a padded row gives what it gives alone. */
TEST(batch_with_padding)
{
    enum { T = 7, V = 1024 };
    static float both[2 * T * V], alone[4 * V];
    const int32_t ids[2 * T] = {5, 900, 17, 3, 3, 44, 260, 261, 1023, 0, 8, 1, 1, 1}, pos[2] = {0, 0};
    const int32_t mask[2 * T] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
    clef_error err = {0};
    for (int one = 0; one < 2; one++) {
        clef_graph *g;
        clef_plan *plan;
        const int32_t B = one ? 1 : 2, n = one ? 4 : T;
        ok(clef_model_build(
               model,
               &(clef_build_opts){
                   .n_context = n, .n_batch = n, .n_sequences = B, .all_logits = 1, .padding_mask = 1},
               &g, &err),
           &err);
        ok(clef_graph_optimize(g, NULL, &err), &err);
        ok(clef_plan_create(dev, g, &(clef_plan_opts){.weights = clef_model_weight, .weights_user = model},
                            &plan, &err),
           &err);
        const size_t bytes = (size_t)(B * n) * sizeof *ids;
        ok(clef_plan_write(plan, clef_plan_input(plan, "input_ids"), ids + (one ? T : 0), bytes, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "attention_mask"), mask + (one ? T : 0), bytes, &err),
           &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "pos"), pos, (size_t)B * sizeof *pos, &err), &err);
        ok(clef_plan_run(plan, &err), &err);
        ok(clef_plan_read(plan, clef_plan_output(plan, "logits"), one ? alone : both,
                          one ? sizeof alone : sizeof both, &err),
           &err);
        clef_plan_destroy(plan);
        clef_graph_destroy(g);
    }
    for (int i = 0; i < 4 * V; i++)
        assert_true(fabsf(both[T * V + i] - alone[i]) < 1e-4f);
}

/* ---- sampling on the device ------------------------------------------------------------------- */

static const clef_logit_bias biases[] = {{5, 2}, {17, -INFINITY}};
static const clef_sampler_opts ways[] = {
    {0},
    {.temperature = 1, .seed = 5},
    {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .seed = 1},
    {.temperature = 1.5f, .top_p = 0.9f, .seed = 2},
    {.temperature = 1.2f, .min_p = 0.02f, .seed = 3},
    {.temperature = 0.9f, .top_k = 7, .repeat_penalty = 1.4f, .repeat_last_n = 11, .seed = 4},
    {.repeat_penalty = 1.3f},
    /* on the host */
    {.temperature = 0.8f, .typical = 0.9f, .min_p = 0.02f, .seed = 6},
    {.temperature = 0.9f, .presence_penalty = 0.5f, .frequency_penalty = 0.3f, .seed = 7},
    {.dry_multiplier = 0.8f},
    {.temperature = 1.1f, .dry_multiplier = 0.8f, .xtc_probability = 0.5f, .seed = 8},
    {.temperature = 1, .top_n_sigma = 1, .biases = biases, .n_biases = 2, .seed = 9},
    {.temperature = 1, .mirostat = 2, .mirostat_tau = 3, .seed = 10},
    {.temperature = 0.7f,
     .top_p = 0.9f,
     .min_p = 0.1f,
     .samplers = {CLEF_SAMPLER_MIN_P, CLEF_SAMPLER_TOP_P, CLEF_SAMPLER_TEMPERATURE},
     .seed = 11},
    /* on the device, with the temperature first */
    {.temperature = 1.5f,
     .top_p = 0.9f,
     .samplers = {CLEF_SAMPLER_TEMPERATURE, CLEF_SAMPLER_TOP_P},
     .seed = 12},
};

/* What the host samples, one token fed at a time. */
static void host_text(clef_session *session, const clef_sampler_opts *opts, const int32_t *ids, int32_t n,
                      int32_t *out, int32_t n_out)
{
    clef_error err = {0};
    clef_sampler *sampler;
    const float *logits;
    ok(clef_sampler_create(clef_model_hparams(model)->n_vocab, opts, &sampler, &err), &err);
    ok(clef_session_reset(session, &err), &err);
    for (int32_t i = 0; i < n; i++)
        clef_sampler_accept(sampler, ids[i]);
    ok(clef_session_feed(session, ids, n, &logits, &err), &err);
    for (int32_t i = 0; i < n_out; i++) {
        out[i] = clef_sampler_pick(sampler, logits);
        clef_sampler_accept(sampler, out[i]);
        if (i + 1 < n_out)
            ok(clef_session_feed(session, &out[i], 1, &logits, &err), &err);
    }
    clef_sampler_destroy(sampler);
}

/* The device samples what the host samples, token for token, whatever the options and however the prompt is
 * cut. */
TEST(device_samples_as_the_host)
{
    enum { N = 9, N_NEW = 100 };
    const int32_t ids[N] = {5, 900, 17, 3, 3, 44, 260, 261, 8};
    clef_error err = {0};
    for (int32_t n_batch = 0; n_batch <= 4; n_batch += 4) {
        clef_session *session;
        ok(clef_session_create(dev, model, &(clef_session_opts){.n_batch = n_batch}, &session, &err), &err);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            int32_t want[N_NEW], id;
            host_text(session, &ways[w], ids, N, want, N_NEW);
            ok(clef_session_reset(session, &err), &err);
            ok(clef_session_generate(session, ids, N, w % 2 ? N_NEW : 0, &ways[w], &err), &err);
            for (int32_t i = 0; i < N_NEW; i++) {
                ok(clef_session_next(session, &id, &err), &err);
                if (id != want[i])
                    fail_msg("way %zu, token %d: the device sampled %d, the host %d", w, i, id, want[i]);
                assert_int_equal(clef_session_n_past(session), N + i);
            }
        }
        clef_session_destroy(session);
    }
}

/* Whoever stops early goes on as if nobody had run ahead. */
TEST(stopped_generation)
{
    const int32_t ids[] = {5, 900, 17}, more[] = {44, 45};
    clef_error err = {0};
    clef_session *session;
    const float *logits;
    float want[2][16];
    int32_t id[4];
    for (int stops = 0; stops < 2; stops++) {
        ok(clef_session_create(dev, model, NULL, &session, &err), &err);
        ok(clef_session_generate(session, ids, 3, stops ? 0 : 4, NULL, &err), &err);
        for (int i = 0; i < 4; i++)
            ok(clef_session_next(session, &id[i], &err), &err);
        assert_int_equal(clef_session_n_past(session), 6);
        if (!stops) { /* nothing ran ahead, and there is no fifth token */
            int32_t none;
            assert_int_equal(clef_session_next(session, &none, &err), CLEF_E_LIMIT);
            assert_int_equal(none, -1);
        }
        ok(clef_session_feed(session, &id[3], 1, &logits, &err), &err);
        ok(clef_session_feed(session, more, 2, &logits, &err), &err);
        assert_int_equal(clef_session_n_past(session), 9);
        memcpy(want[stops], logits, sizeof want[0]);
        assert_int_equal(clef_session_next(session, id, &err), CLEF_E_ARG);
        ok(clef_session_generate(session, more, 1, 0, NULL, &err), &err); /* destroyed while it runs */
        clef_session_destroy(session);
    }
    assert_memory_equal(want[0], want[1], sizeof want[0]);
}

TEST(generation_to_the_end_of_the_context)
{
    const int32_t ids[] = {5, 900, 17};
    clef_error err = {0};
    clef_session *session;
    int32_t id;
    ok(clef_session_create(dev, model, &(clef_session_opts){.n_context = 8}, &session, &err), &err);
    assert_int_equal(clef_session_next(session, &id, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_generate(session, ids, 3, -1, NULL, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_generate(session, ids, 3, 0, &(clef_sampler_opts){.top_p = 2}, &err),
                     CLEF_E_ARG);
    assert_int_equal(clef_session_generate(session, ids, 0, 0, NULL, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_n_past(session), 0);
    ok(clef_session_generate(session, ids, 3, 0, NULL, &err), &err);
    for (int i = 0; i < 6; i++) /* five fit behind the prompt, and the last of them samples one more */
        ok(clef_session_next(session, &id, &err), &err);
    assert_int_equal(clef_session_n_past(session), 8);
    assert_int_equal(clef_session_next(session, &id, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "8"));
    assert_int_equal(clef_session_generate(session, ids, 1, 0, NULL, &err), CLEF_E_LIMIT);
    clef_session_destroy(session);
}

/* ---- linear attention: a memory that cannot be written over ---------------------------------- */

enum { MEMORY_V = 384, MEMORY_N = 6 };
static const int32_t memory_ids[MEMORY_N] = {5, 300, 17, 44, 45, 260};

/* $CLEF_SHARED: a model with random weights; NULL without it. */
static clef_model *memory_model(void)
{
    const char *shared = getenv("CLEF_SHARED");
    char path[1024];
    clef_model *m = NULL;
    clef_error err = {0};
    snprintf(path, sizeof path, "%s/oracle/models/qwen3.5/config.json", shared ? shared : "");
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    fclose(f);
    *strrchr(path, '/') = 0;
    ok(clef_model_open(path, &m, &err), &err);
    return m;
}

/* The logits after the ids, fed to a new session: a memory as it should be. */
static void fresh_logits(clef_model *m, const int32_t *ids, int32_t n, float *out)
{
    clef_error err = {0};
    clef_session *session;
    const float *logits;
    ok(clef_session_create(dev, m, NULL, &session, &err), &err);
    ok(clef_session_feed(session, ids, n, &logits, &err), &err);
    memcpy(out, logits, MEMORY_V * sizeof *out);
    clef_session_destroy(session);
}

static void assert_near(const float *a, const float *b)
{
    for (int i = 0; i < MEMORY_V; i++)
        if (!(fabsf(a[i] - b[i]) < 1e-4f))
            fail_msg("logit %d is %g, expected %g", i, (double)a[i], (double)b[i]);
}

/* Neither the step ahead of a generation that is stopped nor the steps of an interrupted prompt stay in the
 * memory. */
TEST(memory_goes_back)
{
    clef_error err = {0};
    clef_session *session;
    clef_model *m = memory_model();
    const float *logits;
    float want[MEMORY_V];
    int32_t ids[9];
    int calls = 100; /* the second call stops, and none after it */
    if (!m)
        skip_without("qwen3.5");
    memcpy(ids, memory_ids, sizeof memory_ids);
    ok(clef_session_create(
           dev, m,
           &(clef_session_opts){.n_batch = 2, .compile.progress = stop, .compile.progress_user = &calls},
           &session, &err),
       &err);
    ok(clef_session_generate(session, ids, MEMORY_N, 0, NULL, &err), &err);
    for (int i = 0; i < 2; i++)
        ok(clef_session_next(session, &ids[MEMORY_N + i], &err), &err);
    ids[MEMORY_N + 2] = 9;
    ok(clef_session_feed(session, ids + MEMORY_N + 1, 2, &logits, &err), &err);
    fresh_logits(m, ids, 9, want);
    assert_near(logits, want);
    calls = 0;
    assert_int_equal(clef_session_feed(session, memory_ids, MEMORY_N, &logits, &err), CLEF_E_CANCELLED);
    assert_int_equal(clef_session_n_past(session), 9);
    ok(clef_session_reset(session, &err), &err);
    ok(clef_session_feed(session, memory_ids, 4, &logits, &err), &err);
    calls = 0;
    assert_int_equal(clef_session_feed(session, memory_ids, MEMORY_N, &logits, &err), CLEF_E_CANCELLED);
    ok(clef_session_feed(session, memory_ids + 4, 2, &logits, &err), &err);
    fresh_logits(m, memory_ids, MEMORY_N, want);
    assert_near(logits, want);
    clef_session_destroy(session);
    clef_model_close(m);
}

/* A beam's score is what its tokens have when they are fed one by one: each beam has the memory of its own
 * text. */
TEST(memory_goes_with_the_beams)
{
    enum { N = 8, BEAMS = 3 };
    clef_error err = {0};
    clef_session *session;
    clef_hypothesis *texts;
    clef_model *m = memory_model();
    float logits[MEMORY_V];
    int32_t n_texts, ids[MEMORY_N + N];
    if (!m)
        skip_without("qwen3.5");
    memcpy(ids, memory_ids, sizeof memory_ids);
    ok(clef_session_create(dev, m, &(clef_session_opts){.n_beams = BEAMS}, &session, &err), &err);
    ok(clef_session_beams(session, memory_ids, MEMORY_N,
                          &(clef_beam_opts){.n_best = BEAMS, .n_max = N, .ignore_eos = 1}, &texts, &n_texts,
                          &err),
       &err);
    clef_session_destroy(session);
    assert_int_equal(n_texts, BEAMS);
    for (int t = 0; t < BEAMS; t++) {
        double sum = 0;
        assert_int_equal(texts[t].n, N);
        for (int i = 0; i < N; i++) {
            double all = 0;
            fresh_logits(m, ids, MEMORY_N + i, logits);
            for (int v = 0; v < MEMORY_V; v++)
                all += exp((double)logits[v]);
            ids[MEMORY_N + i] = texts[t].ids[i];
            sum += (double)logits[texts[t].ids[i]] - log(all);
        }
        if (!(fabs(sum - (double)texts[t].score) < 1e-3))
            fail_msg("text %d scores %g, its tokens %g", t, (double)texts[t].score, sum);
    }
    clef_hypotheses_free(texts, n_texts);
    clef_model_close(m);
}

static int setup(void **state)
{
    (void)state;
    clef_error err = {0};
    json_error_t why;
    expected = json_load_file(CLEF_SOURCE_DIR "/share/demo/expected.json", 0, &why);
    dev = test_device();
    if (clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err))
        fprintf(stderr, "%s\n", err.text);
    return !expected || !dev || !model;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(expected);
    clef_model_close(model);
    clef_device_close(dev);
    return 0;
}

TESTS(setup, teardown)

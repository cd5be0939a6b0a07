/* Generation with the bundled model on the device, and the sampler without one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "run_graph.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

static clef_device *dev;
static clef_model *model;
static json_t *expected;

static void ok(clef_status s, const clef_error *err)
{
    if (s)
        fail_msg("%s: %s", clef_status_name(s), err->text);
}

static int32_t ids_of(const json_t *list, int32_t *ids, int32_t capacity)
{
    const int32_t n = (int32_t)json_array_size(list);
    assert_true(n > 0 && n <= capacity);
    for (int32_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

/* ---- sessions --------------------------------------------------------------------------------------------------------------------- */

static void greedy_is_pytorchs(clef_gemm gemm, int32_t n_batch)
{
    clef_error err = {0};
    clef_session *session;
    clef_sampler *greedy;
    ok(clef_session_create(dev, model, &(clef_session_opts){.gemm = gemm, .n_batch = n_batch}, &session, &err), &err);
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

static void greedy_own(void **state)
{
    (void)state;
    greedy_is_pytorchs(CLEF_GEMM_OWN, 0);
}

static void greedy_clblast(void **state)
{
    (void)state;
    greedy_is_pytorchs(CLEF_GEMM_CLBLAST, 0);
}

static void prompt_in_chunks(void **state)
{
    (void)state;
    greedy_is_pytorchs(CLEF_GEMM_OWN, 3);
}

static void wrong_feeds(void **state)
{
    (void)state;
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
    assert_int_equal(clef_session_create(dev, model, &(clef_session_opts){.n_context = 257}, &session, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "257"));
    assert_int_equal(clef_session_create(dev, model, &(clef_session_opts){.n_context = -1}, &session, &err), CLEF_E_LIMIT);
    assert_int_equal(clef_session_create(dev, model, &(clef_session_opts){.n_batch = -1}, &session, &err), CLEF_E_ARG);
}

static int stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return strcmp(what, "prompt") == 0 && ++*(int *)user == 2;
}

static void prompt_can_be_interrupted(void **state)
{
    (void)state;
    clef_error err = {0};
    clef_session *session;
    const float *logits;
    int32_t ids[10] = {1, 2, 3};
    int calls = 0;
    ok(clef_session_create(dev, model, &(clef_session_opts){.n_batch = 2, .progress = stop, .progress_user = &calls}, &session, &err),
       &err);
    assert_int_equal(clef_session_feed(session, ids, 10, &logits, &err), CLEF_E_CANCELLED);
    assert_int_equal(clef_session_n_past(session), 0); /* as before the call */
    clef_session_destroy(session);
}

/* The model's graph with taps gives the same logits fused and not, and attention weights that are weights. */
static void taps(void **state)
{
    (void)state;
    enum { T = 11, V = 1024, H = 6 };
    static const char *const names[] = {"attention_0", "hidden_last", "layer1.out"};
    static float logits[2][T * V], p[H * T * T];
    clef_error err = {0};
    const int32_t ids[T] = {5, 900, 17, 3, 3, 44, 260, 261, 1023, 0, 8}, pos = 0;
    for (int32_t n_taps = 0; n_taps <= 3; n_taps += 3) {
        clef_graph *g;
        clef_plan *plan;
        ok(clef_model_build(model, &(clef_build_opts){.n_context = T, .n_batch = T, .all_logits = 1, .taps = names, .n_taps = n_taps}, &g,
                            &err),
           &err);
        ok(clef_graph_optimize(g, NULL, &err), &err);
        ok(clef_plan_create(dev, g, &(clef_plan_opts){.weights = clef_model_weight, .weights_user = model}, &plan, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "input_ids"), ids, sizeof ids, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "pos"), &pos, sizeof pos, &err), &err);
        ok(clef_plan_run(plan, &err), &err);
        ok(clef_plan_read(plan, clef_plan_output(plan, "logits"), logits[n_taps / 3], sizeof logits[0], &err), &err);
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
    assert_int_equal(clef_model_build(model, &(clef_build_opts){.taps = none, .n_taps = 1}, &g, &err), CLEF_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "nosuch"));
}

/* Rows of a batch do not see each other, and a padded row gives what it gives alone. */
static void batch_with_padding(void **state)
{
    (void)state;
    enum { T = 7, V = 1024 };
    static float both[2 * T * V], alone[4 * V];
    const int32_t ids[2 * T] = {5, 900, 17, 3, 3, 44, 260, 261, 1023, 0, 8, 1, 1, 1}, pos[2] = {0, 0};
    const int32_t mask[2 * T] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
    clef_error err = {0};
    for (int one = 0; one < 2; one++) {
        clef_graph *g;
        clef_plan *plan;
        const int32_t B = one ? 1 : 2, n = one ? 4 : T;
        ok(clef_model_build(model, &(clef_build_opts){.n_context = n, .n_batch = n, .n_sequences = B, .all_logits = 1, .padding_mask = 1},
                            &g, &err),
           &err);
        ok(clef_graph_optimize(g, NULL, &err), &err);
        ok(clef_plan_create(dev, g, &(clef_plan_opts){.weights = clef_model_weight, .weights_user = model}, &plan, &err), &err);
        const size_t bytes = (size_t)(B * n) * sizeof *ids;
        ok(clef_plan_write(plan, clef_plan_input(plan, "input_ids"), ids + (one ? T : 0), bytes, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "attention_mask"), mask + (one ? T : 0), bytes, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "pos"), pos, (size_t)B * sizeof *pos, &err), &err);
        ok(clef_plan_run(plan, &err), &err);
        ok(clef_plan_read(plan, clef_plan_output(plan, "logits"), one ? alone : both, one ? sizeof alone : sizeof both, &err), &err);
        clef_plan_destroy(plan);
        clef_graph_destroy(g);
    }
    for (int i = 0; i < 4 * V; i++)
        assert_true(fabsf(both[T * V + i] - alone[i]) < 1e-4f);
}

/* ---- the sampler --------------------------------------------------------------------------------------------------------------------- */

enum { N_VOCAB = 500 };

static int32_t pick(clef_sampler_opts opts, const float *logits)
{
    clef_error err = {0};
    clef_sampler *s;
    ok(clef_sampler_create(N_VOCAB, &opts, &s, &err), &err);
    const int32_t id = clef_sampler_pick(s, logits);
    clef_sampler_destroy(s);
    return id;
}

static void random_logits(float *logits)
{
    uint32_t x = 12345;
    for (int i = 0; i < N_VOCAB; i++) {
        x = x * 1664525 + 1013904223;
        logits[i] = (float)(x >> 8) / (1 << 22) - 2;
    }
    logits[77] = 9;
    logits[78] = 8.5f;
}

static void sampler_greedy(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    random_logits(logits);
    assert_int_equal(pick((clef_sampler_opts){0}, logits), 77);
    logits[12] = 9;
    assert_int_equal(pick((clef_sampler_opts){0}, logits), 12); /* of equals the lowest id */
    logits[3] = NAN;
    assert_int_equal(pick((clef_sampler_opts){0}, logits), 12);
}

/* Each limit, strict enough, leaves the best alone, whatever the draw. */
static void sampler_limits(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    random_logits(logits);
    for (uint64_t seed = 0; seed < 50; seed++) {
        assert_int_equal(pick((clef_sampler_opts){.temperature = 5, .seed = seed, .top_k = 1}, logits), 77);
        assert_int_equal(pick((clef_sampler_opts){.temperature = 5, .seed = seed, .top_p = 1e-6f}, logits), 77);
        assert_int_equal(pick((clef_sampler_opts){.temperature = 0.5f, .seed = seed, .min_p = 0.99f}, logits), 77);
        const int32_t two = pick((clef_sampler_opts){.temperature = 5, .seed = seed, .top_k = 2}, logits);
        assert_true(two == 77 || two == 78);
    }
}

static void sampler_draws_by_probability(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    clef_error err = {0};
    clef_sampler *a, *b;
    const clef_sampler_opts opts = {.temperature = 1, .seed = 7};
    int n0 = 0;
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = -INFINITY;
    logits[10] = logf(0.7f);
    logits[20] = logf(0.3f);
    ok(clef_sampler_create(N_VOCAB, &opts, &a, &err), &err);
    ok(clef_sampler_create(N_VOCAB, &opts, &b, &err), &err);
    for (int i = 0; i < 20000; i++) {
        const int32_t id = clef_sampler_pick(a, logits);
        assert_true(id == 10 || id == 20);
        assert_int_equal(id, clef_sampler_pick(b, logits)); /* the same seed, the same draws */
        n0 += id == 10;
    }
    assert_true(abs(n0 - 14000) < 4 * 65); /* four standard deviations of a binomial(20000, 0.7) */
    clef_sampler_destroy(a);
    clef_sampler_destroy(b);
}

static void sampler_repeat_penalty(void **state)
{
    (void)state;
    float logits[N_VOCAB] = {0};
    clef_error err = {0};
    clef_sampler *s;
    logits[5] = 2;
    logits[6] = 1.5f;
    logits[7] = -0.1f;
    ok(clef_sampler_create(N_VOCAB, &(clef_sampler_opts){.repeat_penalty = 1.5f, .repeat_last_n = 3}, &s, &err), &err);
    clef_sampler_accept(s, 5);
    clef_sampler_accept(s, 5);
    assert_int_equal(clef_sampler_pick(s, logits), 6); /* 2 / 1.5, once */
    clef_sampler_accept(s, 1);
    clef_sampler_accept(s, 1);
    clef_sampler_accept(s, 1); /* 5 is out of sight */
    assert_int_equal(clef_sampler_pick(s, logits), 5);
    clef_sampler_accept(s, -1); /* no token: ignored */
    clef_sampler_accept(s, N_VOCAB);
    clef_sampler_destroy(s);
}

static void sampler_refuses(void **state)
{
    (void)state;
    static const struct {
        clef_sampler_opts opts;
        const char *says;
    } bad[] = {
        {{.temperature = -1}, "temperature"},
        {{.temperature = NAN}, "temperature"},
        {{.top_k = -1}, "top-k"},
        {{.top_p = 1.5f}, "top-p"},
        {{.min_p = -0.1f}, "min-p"},
        {{.repeat_penalty = -1}, "repeat-penalty"},
        {{.repeat_last_n = -1}, "repeat-last-n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clef_error err = {0};
        clef_sampler *s;
        assert_int_equal(clef_sampler_create(N_VOCAB, &bad[i].opts, &s, &err), CLEF_E_ARG);
        assert_non_null(strstr(err.text, bad[i].says));
        assert_null(s);
    }
}

static int setup(void **state)
{
    (void)state;
    clef_error err = {0};
    json_error_t why;
    expected = json_load_file(CLEF_SOURCE_DIR "/model/demo/expected.json", 0, &why);
    dev = test_device();
    if (clef_model_open(CLEF_SOURCE_DIR "/model/demo", &model, &err))
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_own),
        cmocka_unit_test(greedy_clblast),
        cmocka_unit_test(prompt_in_chunks),
        cmocka_unit_test(wrong_feeds),
        cmocka_unit_test(prompt_can_be_interrupted),
        cmocka_unit_test(taps),
        cmocka_unit_test(batch_with_padding),
        cmocka_unit_test(sampler_greedy),
        cmocka_unit_test(sampler_limits),
        cmocka_unit_test(sampler_draws_by_probability),
        cmocka_unit_test(sampler_repeat_penalty),
        cmocka_unit_test(sampler_refuses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

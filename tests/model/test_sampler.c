/* The sampler on the host, and the device's samples against it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/session/sampler.h"
#include "run_graph.h"
#include "tests/check.h"

/* ---- the sampler ----------------------------------------------------------------------------- */

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

TEST(sampler_greedy)
{
    float logits[N_VOCAB];
    random_logits(logits);
    assert_int_equal(pick((clef_sampler_opts){0}, logits), 77);
    logits[12] = 9;
    assert_int_equal(pick((clef_sampler_opts){0}, logits), 12); /* of equals the lowest id */
}

/* -inf is a number that masks write. Nothing is sampled from a row with NaN or +inf, or of -inf alone, by
 * what the device does, too, nor by the chain, whatever is allowed. */
TEST(sampler_not_finite)
{
    static const clef_sampler_opts ways[] = {
        {0}, {.temperature = 1}, {.temperature = 0.8f, .top_k = 5, .top_p = 0.9f}, {.presence_penalty = 1}};
    const float bad[] = {NAN, INFINITY, -NAN};
    uint32_t mask[(N_VOCAB + 31) / 32] = {0};
    float logits[N_VOCAB];
    clef_error err = {0};
    mask[12 / 32] |= 1u << 12 % 32;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        clef_sampler *s;
        ok(clef_sampler_create(N_VOCAB, &ways[w], &s, &err), &err);
        random_logits(logits);
        logits[0] = logits[N_VOCAB - 1] = -INFINITY;
        assert_true(clef_sampler_pick(s, logits) > 0);
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            random_logits(logits);
            logits[N_VOCAB - 1] = bad[b];
            assert_int_equal(clef_sampler_pick(s, logits), -2);
            assert_int_equal(clef_sampler_pick_masked(s, logits, mask), -2);
        }
        for (int i = 0; i < N_VOCAB; i++)
            logits[i] = -INFINITY;
        assert_int_equal(clef_sampler_pick(s, logits), -2);
        clef_sampler_destroy(s);
    }
}

/* Each limit, strict enough, leaves the best alone, whatever the draw. */
TEST(sampler_limits)
{
    float logits[N_VOCAB];
    random_logits(logits);
    for (uint64_t seed = 0; seed < 50; seed++) {
        assert_int_equal(pick((clef_sampler_opts){.temperature = 5, .seed = seed, .top_k = 1}, logits), 77);
        assert_int_equal(pick((clef_sampler_opts){.temperature = 5, .seed = seed, .top_p = 1e-6f}, logits),
                         77);
        assert_int_equal(pick((clef_sampler_opts){.temperature = 0.5f, .seed = seed, .min_p = 0.99f}, logits),
                         77);
        const int32_t two = pick((clef_sampler_opts){.temperature = 5, .seed = seed, .top_k = 2}, logits);
        assert_true(two == 77 || two == 78);
    }
}

TEST(sampler_draws_by_probability)
{
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

TEST(sampler_repeat_penalty)
{
    float logits[N_VOCAB] = {0};
    clef_error err = {0};
    clef_sampler *s;
    logits[5] = 2;
    logits[6] = 1.5f;
    logits[7] = -0.1f;
    ok(clef_sampler_create(N_VOCAB, &(clef_sampler_opts){.repeat_penalty = 1.5f, .repeat_last_n = 3}, &s,
                           &err),
       &err);
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

TEST(sampler_refuses)
{
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

/* Draws come as the formula in double says: chi-square over what a chain of limits leaves, p < 0.001 at 27.9
 * for 9 degrees of freedom. */
TEST(sampler_follows_the_formula)
{
    enum { KEPT = 10, N_DRAWS = 40000 };
    float logits[N_VOCAB];
    clef_error err = {0};
    clef_sampler *s;
    int32_t count[KEPT] = {0};
    double p[KEPT], sum = 0, chi = 0;
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = i % 50 == 7 ? 3 - 0.2f * (float)(i / 50) : -2; /* ids 7, 57 .. 457 stand out */
    ok(clef_sampler_create(N_VOCAB, &(clef_sampler_opts){.temperature = 0.7f, .top_k = KEPT, .seed = 99}, &s,
                           &err),
       &err);
    for (int i = 0; i < KEPT; i++)
        sum += p[i] = exp((double)logits[50 * i + 7] / (double)0.7f);
    for (int i = 0; i < N_DRAWS; i++) {
        const int32_t id = clef_sampler_pick(s, logits);
        assert_int_equal(id % 50, 7);
        count[id / 50]++;
    }
    for (int i = 0; i < KEPT; i++)
        chi += pow(count[i] - (double)N_DRAWS * p[i] / sum, 2) / ((double)N_DRAWS * p[i] / sum);
    assert_true(chi < 27.9);
    clef_sampler_destroy(s);
}

/* ---- the device against the host ------------------------------------------------------------- */

static uint64_t random_state = 1;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}

/* Logits of a language model's kind: most of them far below a few; every third row in steps, so that many are
 * equal, or some -inf; every twentieth with one that is not finite. */
static void row_of_logits(float *logits, int32_t n, int32_t row)
{
    const double spread = 1 + 6 * uniform();
    for (int32_t i = 0; i < n; i++) {
        double z = spread * sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform());
        if (row % 3 == 0)
            z = floor(z * 4) / 4;
        logits[i] = row % 3 == 1 && uniform() < 0.01 ? -INFINITY : (float)z;
    }
    if (row % 20 == 19)
        logits[(int32_t)(uniform() * n)] = row % 40 == 19 ? NAN : INFINITY;
}

static const clef_sampler_opts ways[] = {
    {0},
    {.temperature = 1},
    {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
    {.temperature = 0.8f, .top_k = 40, .min_p = 0.05f},
    {.temperature = 2, .top_k = 1000},
    {.temperature = 1, .top_p = 0.9f},
    {.temperature = 0.01f, .top_p = 0.999f},
    {.temperature = 100, .min_p = 0.9f},
    {.temperature = 1e-30f},
    {.temperature = 3e38f, .top_k = 3},
    {.temperature = 1, .top_p = 1e-30f},
    {.temperature = 1, .min_p = 1},
};

/* One row of n logits a run, each with another draw: the samples are equal, without exception. */
static void agree_on(int32_t n, int32_t n_rows)
{
    enum { TEXT = 400 };
    char text[TEXT];
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    float *logits = malloc((size_t)n * sizeof *logits);
    clef_candidate *c = malloc((size_t)n * sizeof *c);
    assert_true(logits && c);
    const int length = snprintf(
        text, sizeof text,
        "input x f32 [1, 1, %d]\nstate h i32 [1, 4]\ninput i i32 [1, 1]\ninput p i32 [1]\ninput o i32 [16]\n"
        "y = sample(x, h, i, p, o)\noutput y\n",
        n);
    ok(clef_graph_parse(text, (size_t)length, "sample", &g, &err), &err);
    ok(clef_plan_create(shared_device, g, NULL, &plan, &err), &err);
    for (int32_t row = 0; row < n_rows; row++) {
        const int32_t id = 0, pos = row;
        row_of_logits(logits, n, row);
        ok(clef_plan_write(plan, clef_plan_input(plan, "x"), logits, (size_t)n * sizeof *logits, &err), &err);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            clef_sampler_opts opts = ways[w];
            sample_options o;
            int32_t got;
            opts.seed = 1000 * w + 0xfedcba9876543210u;
            ok(clef__sampler_options(&opts, 1, &o, &err), &err);
            ok(clef_plan_write(plan, clef_plan_input(plan, "o"), &o, sizeof o, &err), &err);
            ok(clef_plan_write(plan, clef_plan_input(plan, "i"), &id, sizeof id, &err), &err);
            ok(clef_plan_write(plan, clef_plan_input(plan, "p"), &pos, sizeof pos, &err), &err);
            ok(clef_plan_run(plan, &err), &err);
            ok(clef_plan_read(plan, clef_plan_output(plan, "y"), &got, sizeof got, &err), &err);
            const int32_t want = clef__sample_pick(&o, logits, n, NULL, 0, (uint64_t)row, 0, c);
            if (got != want)
                fail_msg("%d logits, row %d, way %zu: the device sampled %d, the host %d", n, row, w, got,
                         want);
        }
    }
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
    free(logits);
    free(c);
}

TEST(device_agrees_on_small_vocabularies)
{
    agree_on(3, 30);
    agree_on(1000, 60);
}

TEST(device_agrees_on_large_vocabularies)
{
    agree_on(20011, 12);
    agree_on(151936, 3);
}

TESTS(open_shared_device, close_shared_device)

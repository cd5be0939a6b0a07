/* Each sampler against numbers computed by hand, draws against the distribution that is told, and masks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clef/sampler.h"
#include "tests/check.h"

enum { MOST = 6, LINES = 12 };

/* ---- vectors --------------------------------------------------------------------------------- */

typedef struct lines {
    int32_t n;
    char name[LINES][32];
    double p[LINES][MOST];
} lines;

static void keep_line(void *user, const char *name, const double *p, int32_t n)
{
    lines *all = user;
    assert_true(all->n < LINES && n <= MOST);
    snprintf(all->name[all->n], sizeof all->name[0], "%s", name);
    for (int32_t i = 0; i < n; i++)
        all->p[all->n][i] = p[i];
    all->n++;
}

static clef_sampler *sampler_of(const clef_sampler_opts *opts, int32_t n, const int32_t *text, int32_t n_text)
{
    clef_error err = {0};
    clef_sampler *s;
    ok(clef_sampler_create(n, opts, &s, &err), &err);
    for (int32_t i = 0; i < n_text; i++)
        clef_sampler_accept(s, text[i]);
    return s;
}

static void logits_of(const double *p, int32_t n, float *logits)
{
    for (int32_t i = 0; i < n; i++)
        logits[i] = p[i] > 0 ? (float)log(p[i]) : -INFINITY;
}

typedef struct vector {
    const char *name; /* of the last line */
    clef_sampler_opts opts;
    double in[MOST], out[MOST];
    int32_t text[16], n_text;
} vector;

#define HOT .temperature = 1
static const int32_t breaker_3[] = {3, -1}, breaker_31[] = {3, 1, -1};
static const clef_logit_bias some[] = {{0, 0.6931472f}, {2, -INFINITY}}, twice[] = {{1, 1}, {1, -1}};

/* Four tokens each. e = 2.718282; a sum of 1 - 0.4 + 0.4 / e = 0.747152 for a penalty of 1 at 0.4. */
static const vector vectors[] = {
    {"top_k", {HOT, .top_k = 2}, {.1, .2, .3, .4}, {0, 0, 3. / 7, 4. / 7}, {0}, 0},
    {"top_k", {HOT, .top_k = 9}, {.1, .2, .3, .4}, {.1, .2, .3, .4}, {0}, 0},
    {"top_k", {HOT, .top_k = 1}, {.3, .4, .4, .1}, {0, 1, 0, 0}, {0}, 0}, /* of equals the lower id */
    {"top_p", {HOT, .top_p = 0.69f}, {.1, .2, .3, .4}, {0, 0, 3. / 7, 4. / 7}, {0}, 0},
    {"top_p", {HOT, .top_p = 0.71f}, {.1, .2, .3, .4}, {0, 2. / 9, 3. / 9, 4. / 9}, {0}, 0},
    {"top_p", {HOT, .top_p = 0.01f}, {.1, .2, .3, .4}, {0, 0, 0, 1}, {0}, 0},
    {"min_p", {HOT, .min_p = 0.49f}, {.1, .2, .3, .4}, {0, 2. / 9, 3. / 9, 4. / 9}, {0}, 0},
    {"min_p", {HOT, .min_p = 0.51f}, {.1, .2, .3, .4}, {0, 0, 3. / 7, 4. / 7}, {0}, 0},
    /* entropy 1.2799; |-ln p - H| = 1.0227, 0.3295, 0.0759, 0.3636 */
    {"typical", {HOT, .typical = 0.45f}, {.1, .2, .3, .4}, {0, .4, .6, 0}, {0}, 0},
    {"typical", {HOT, .typical = 0.29f}, {.1, .2, .3, .4}, {0, 0, 1, 0}, {0}, 0},
    /* ln p: -2.302585 -1.609438 -1.203973 -0.916291; s = 0.518983 */
    {"top_n_sigma", {HOT, .top_n_sigma = 1}, {.1, .2, .3, .4}, {0, 0, 3. / 7, 4. / 7}, {0}, 0},
    {"top_n_sigma", {HOT, .top_n_sigma = 1.34f}, {.1, .2, .3, .4}, {0, 2. / 9, 3. / 9, 4. / 9}, {0}, 0},
    {"xtc", {HOT, .xtc_probability = 1}, {.05, .2, .3, .45}, {.2, .8, 0, 0}, {0}, 0},
    {"xtc", {HOT, .xtc_probability = 1, .xtc_threshold = 0.4f}, {.1, .2, .3, .4}, {.1, .2, .3, .4}, {0}, 0},
    {"xtc", {HOT, .xtc_probability = 1, .xtc_threshold = 0.6f}, {.1, .2, .7, 0}, {.1, .2, .7, 0}, {0}, 0},
    {"temperature", {.temperature = 0.5f}, {.1, .2, .3, .4}, {1. / 30, 4. / 30, 9. / 30, 16. / 30}, {0}, 0},
    {"temperature", {.temperature = 0}, {.1, .4, .1, .4}, {0, 1, 0, 0}, {0}, 0},
    /* logits are below 0: times 2 */
    {"penalties",
     {HOT, .repeat_penalty = 2},
     {.1, .2, .3, .4},
     {.1 / .76, .2 / .76, .3 / .76, .16 / .76},
     {3, 3},
     2},
    {"penalties",
     {HOT, .presence_penalty = 1},
     {.1, .2, .3, .4},
     {.1 / .747152, .2 / .747152, .3 / .747152, .147152 / .747152},
     {3, 3},
     2},
    {"penalties",
     {HOT, .frequency_penalty = 0.5f},
     {.1, .2, .3, .4},
     {.1 / .747152, .2 / .747152, .3 / .747152, .147152 / .747152},
     {3, 3},
     2},
    {"penalties",
     {HOT, .presence_penalty = 1, .repeat_last_n = 1},
     {.1, .2, .3, .4},
     {.1, .2, .3, .4},
     {3},
     0},
    /* 0 1 2 | 0 1: two tokens repeat, and 2 followed them: 1.75^0; with 3 before both: 1.75^1 */
    {"dry",
     {HOT, .dry_multiplier = 1},
     {.1, .2, .4, .3},
     {.1 / .747152, .2 / .747152, .147152 / .747152, .3 / .747152},
     {0, 1, 2, 0, 1},
     5},
    {"dry",
     {HOT, .dry_multiplier = 1},
     {.1, .2, .4, .3},
     {.1 / .669510, .2 / .669510, .069510 / .669510, .3 / .669510},
     {3, 0, 1, 2, 3, 0, 1},
     7},
    {"dry",
     {HOT, .dry_multiplier = 1, .dry_allowed_length = 3},
     {.1, .2, .4, .3},
     {.1, .2, .4, .3},
     {0, 1, 2, 0, 1},
     5},
    {"dry",
     {HOT, .dry_multiplier = 1, .dry_last_n = 4},
     {.1, .2, .4, .3},
     {.1, .2, .4, .3},
     {0, 1, 2, 0, 1},
     5},
    /* a breaker inside: 3 0 1 counts as 0 1 */
    {"dry",
     {HOT, .dry_multiplier = 1, .dry_breakers = breaker_3, .n_dry_breakers = 2},
     {.1, .2, .4, .3},
     {.1 / .747152, .2 / .747152, .147152 / .747152, .3 / .747152},
     {3, 0, 1, 2, 3, 0, 1},
     7},
    {"dry",
     {HOT, .dry_multiplier = 1, .dry_breakers = breaker_31, .n_dry_breakers = 3},
     {.1, .2, .4, .3},
     {.1, .2, .4, .3},
     {3, 1, 0, 2, 3, 1, 0},
     7},
    {"logit_bias", {HOT, .biases = some, .n_biases = 2}, {.1, .2, .3, .4}, {.25, .25, 0, .5}, {0}, 0},
    {"logit_bias", {HOT, .biases = twice, .n_biases = 2}, {.1, .2, .3, .4}, {.1, .2, .3, .4}, {0}, 0},
    /* mu = 2 tau; -log2 p = 3.3219 2.3219 1.7370 1.3219 */
    {"mirostat",
     {HOT, .mirostat = 2, .mirostat_tau = 0.9f},
     {.1, .2, .3, .4},
     {0, 0, 3. / 7, 4. / 7},
     {0},
     0},
    {"mirostat", {HOT, .mirostat = 2, .mirostat_tau = 0.5f}, {.1, .2, .3, .4}, {0, 0, 0, 1}, {0}, 0},
    {"mirostat", {HOT, .mirostat = 2, .top_k = 1}, {.1, .2, .3, .4}, {.1, .2, .3, .4}, {0}, 0},
    /* orders */
    {"min_p",
     {HOT, .top_p = 0.6f, .min_p = 0.4f, .samplers = {CLEF_SAMPLER_TOP_P, CLEF_SAMPLER_MIN_P}},
     {.1, .2, .3, .4},
     {0, 0, 3. / 7, 4. / 7},
     {0},
     0},
    {"top_p",
     {HOT, .top_p = 0.35f, .typical = 0.29f, .samplers = {CLEF_SAMPLER_TYPICAL, CLEF_SAMPLER_TOP_P}},
     {.1, .2, .3, .4},
     {0, 0, 1, 0},
     {0},
     0},
    {"temperature",
     {.temperature = 0.5f, .min_p = 0.3f},
     {.1, .2, .3, .4},
     {0, 4. / 29, 9. / 29, 16. / 29},
     {0},
     0},
    {"min_p",
     {.temperature = 0.5f, .min_p = 0.3f, .samplers = {CLEF_SAMPLER_TEMPERATURE, CLEF_SAMPLER_MIN_P}},
     {.1, .2, .3, .4},
     {0, 0, .36, .64},
     {0},
     0},
    {"logits",
     {HOT, .top_k = 1, .samplers = {CLEF_SAMPLER_MIN_P}},
     {.1, .2, .3, .4},
     {.1, .2, .3, .4},
     {0},
     0},
};

static void samplers_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const vector *v = &vectors[i];
        float logits[4];
        clef_error err = {0};
        lines all = {0};
        logits_of(v->in, 4, logits);
        clef_sampler *s = sampler_of(&v->opts, 4, v->text, v->n_text);
        ok(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), &err);
        clef_sampler_destroy(s);
        assert_string_equal(all.name[0], "logits");
        assert_string_equal(all.name[all.n - 1], v->name);
        for (int k = 0; k < 4; k++)
            if (!(fabs(all.p[all.n - 1][k] - v->out[k]) < 1e-5))
                fail_msg("vector %zu (%s), token %d: %.7f, expected %.7f", i, v->name, k, all.p[all.n - 1][k],
                         v->out[k]);
    }
}

static void the_default_order(void **state)
{
    (void)state;
    static const char *const names[] = {"logits",  "logit_bias", "penalties", "dry", "top_n_sigma", "top_k",
                                        "typical", "top_p",      "min_p",     "xtc", "temperature"};
    const clef_sampler_opts opts = {.temperature = 0.9f,
                                    .top_k = 3,
                                    .top_p = 0.9f,
                                    .min_p = 0.01f,
                                    .repeat_penalty = 1.1f,
                                    .dry_multiplier = 1,
                                    .xtc_probability = 0.5f,
                                    .typical = 0.9f,
                                    .top_n_sigma = 2,
                                    .biases = twice,
                                    .n_biases = 2};
    const double p[4] = {.1, .2, .3, .4};
    float logits[4];
    lines all = {0};
    clef_error err = {0};
    logits_of(p, 4, logits);
    clef_sampler *s = sampler_of(&opts, 4, NULL, 0);
    ok(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), &err);
    clef_sampler_destroy(s);
    assert_int_equal(all.n, 11);
    for (int i = 0; i < 11; i++)
        assert_string_equal(all.name[i], names[i]);
    assert_null(clef_sampler_name(CLEF_SAMPLER_END));
    assert_null(clef_sampler_name(CLEF_N_SAMPLERS));
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* 100,000 draws against the told distribution: chi-square below its 0.999 quantile for the tokens that are
 * left. */
static void draws_follow_the_distribution(void **state)
{
    (void)state;
    static const double quantile[MOST] = {0, 10.828, 13.816, 16.266, 18.467, 20.515};
    static const clef_sampler_opts ways[] = {
        {HOT, .seed = 1},
        {.temperature = 1.7f, .top_p = 0.9f, .seed = 2}, /* on the device */
        {.temperature = 0.6f, .typical = 0.8f, .seed = 3},
        {HOT, .presence_penalty = 0.7f, .frequency_penalty = 0.4f, .seed = 4},
        {HOT, .top_n_sigma = 1.2f, .seed = 5},
        {HOT, .xtc_probability = 1, .xtc_threshold = 0.2f, .seed = 6},
        {HOT, .dry_multiplier = 0.5f, .seed = 7},
        {.temperature = 1.3f, .biases = some, .n_biases = 2, .seed = 8},
        {HOT, .mirostat = 2, .mirostat_tau = 1.2f, .mirostat_eta = 1e-9f, .seed = 9},
    };
    enum { N = 100000 };
    const double p[MOST] = {.3, .05, .2, .25, .12, .08};
    const int32_t text[] = {4, 0, 3, 2, 4, 0, 3};
    float logits[MOST];
    logits_of(p, MOST, logits);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        lines all = {0};
        clef_error err = {0};
        int32_t count[MOST] = {0}, left = 0;
        double chi = 0;
        clef_sampler *s = sampler_of(&ways[w], MOST, text, 7);
        ok(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), &err);
        for (int i = 0; i < N; i++)
            count[clef_sampler_pick(s, logits)]++;
        clef_sampler_destroy(s);
        for (int i = 0; i < MOST; i++) {
            const double want = all.p[all.n - 1][i] * (double)N;
            assert_true(want > 0 || count[i] == 0);
            chi += want > 0 ? (count[i] - want) * (count[i] - want) / want : 0;
            left += want > 0;
        }
        if (chi >= quantile[left - 1])
            fail_msg("way %zu: chi-square %.2f for %d tokens", w, chi, left);
    }
}

/* XTC acts with its chance: 3 of 10 draws are of a distribution without the likely tokens. */
static void xtc_by_chance(void **state)
{
    (void)state;
    enum { N = 100000 };
    const double p[3] = {.5, .45, .05};
    float logits[3];
    int32_t likely = 0;
    logits_of(p, 3, logits);
    clef_sampler *s = sampler_of(&(clef_sampler_opts){HOT, .xtc_probability = 0.3f, .seed = 3}, 3, NULL, 0);
    for (int i = 0; i < N; i++)
        likely += clef_sampler_pick(s, logits) == 0;
    clef_sampler_destroy(s);
    assert_true(fabs(likely / (double)N - 0.35) < 4 * sqrt(0.35 * 0.65 / (double)N));
}

/* The mean surprise comes to tau. */
static void mirostat_holds_the_surprise(void **state)
{
    (void)state;
    enum { V = 400, N = 20000 };
    static float logits[V];
    static double p[V];
    double sum = 0, bits = 0;
    clef_error err = {0};
    clef_sampler *s;
    for (int i = 0; i < V; i++)
        sum += p[i] = 1 / (i + 1.0); /* Zipf */
    for (int i = 0; i < V; i++)
        logits[i] = (float)log(p[i] / sum);
    ok(clef_sampler_create(V, &(clef_sampler_opts){HOT, .mirostat = 2, .mirostat_tau = 3, .seed = 5}, &s,
                           &err),
       &err);
    for (int i = 0; i < N; i++) { /* of the tokens that were left: the first mu picks of all */
        const int32_t id = clef_sampler_pick(s, logits);
        bits -= log2(p[id] / sum);
    }
    clef_sampler_destroy(s);
    assert_true(bits / (double)N > 3 &&
                bits / (double)N < 4.5); /* a little above tau, since what is left adds up to less than 1 */
}

/* ---- masks, texts ---------------------------------------------------------------------------- */

static void masks(void **state)
{
    (void)state;
    enum { V = 70 };
    static const clef_sampler_opts ways[] = {{0},
                                             {HOT, .seed = 1},
                                             {HOT, .top_k = 2, .seed = 2},
                                             {HOT, .typical = 0.9f, .seed = 3},
                                             {.dry_multiplier = 1}};
    float logits[V];
    for (int i = 0; i < V; i++)
        logits[i] = (float)(i % 7);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const uint32_t none[3] = {0}, all[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
                       two[3] = {1u << 7, 0, 1u << 1};
        clef_sampler *a = sampler_of(&ways[w], V, NULL, 0), *b = sampler_of(&ways[w], V, NULL, 0);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(clef_sampler_pick_masked(a, logits, none), -1); /* takes no draw */
            assert_int_equal(clef_sampler_pick_masked(a, logits, all), clef_sampler_pick(b, logits));
            const int32_t id = clef_sampler_pick_masked(a, logits, two);
            assert_true(id == 7 || id == 65);
            clef_sampler_pick(b, logits);
        }
        logits[7] = -INFINITY;
        logits[65] = -INFINITY;
        assert_int_equal(clef_sampler_pick_masked(a, logits, two), 7); /* the lowest that is allowed */
        logits[7] = 0;
        logits[65] = 2;
        clef_sampler_destroy(a);
        clef_sampler_destroy(b);
    }
}

/* DRY over a text that grows beyond the first room, against a short one that ends alike. */
static void long_texts(void **state)
{
    (void)state;
    const double p[4] = {.1, .2, .4, .3};
    float logits[4];
    const clef_sampler_opts opts = {HOT, .dry_multiplier = 1, .dry_breakers = breaker_3, .n_dry_breakers = 2};
    clef_error err = {0};
    lines all = {0};
    logits_of(p, 4, logits);
    clef_sampler *s = sampler_of(&opts, 4, (int32_t[]){0, 1, 2}, 3);
    for (int i = 0; i < 20000; i++)
        clef_sampler_accept(s, 3);
    clef_sampler_accept(s, 0);
    clef_sampler_accept(s, 1);
    ok(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), &err);
    clef_sampler_destroy(s);
    assert_true(fabs(all.p[1][2] - .147152 / .747152) < 1e-5);
}

static void infinite_logits(void **state)
{
    (void)state;
    const clef_sampler_opts opts = {HOT, .typical = 0.5f};
    clef_error err = {0};
    lines all = {0};
    float logits[4] = {0, INFINITY, INFINITY, NAN};
    clef_sampler *s = sampler_of(&opts, 4, NULL, 0);
    assert_int_equal(clef_sampler_pick(s, logits), -2);
    assert_int_equal(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), CLEF_E_ARG);
    for (int i = 0; i < 4; i++)
        logits[i] = -INFINITY;
    assert_int_equal(clef_sampler_pick(s, logits), -2);
    assert_int_equal(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), CLEF_E_ARG);
    clef_sampler_destroy(s);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refuses(void **state)
{
    (void)state;
    static const int32_t open_end[] = {1}, empty[] = {-1}, far[] = {9, -1};
    static const clef_logit_bias beyond[] = {{4, 1}}, high[] = {{1, INFINITY}};
    static const struct {
        clef_sampler_opts opts;
        const char *says;
    } bad[] = {
        {{.presence_penalty = 101}, "presence-penalty"},
        {{.frequency_penalty = -101}, "frequency-penalty"},
        {{.dry_multiplier = -1}, "dry-multiplier"},
        {{.dry_base = 0.5f}, "dry-base"},
        {{.dry_allowed_length = -1}, "dry-allowed-length"},
        {{.dry_last_n = -2}, "dry-last-n"},
        {{.dry_breakers = open_end, .n_dry_breakers = 1}, "dry-breakers"},
        {{.dry_breakers = empty, .n_dry_breakers = 1}, "dry-breakers"},
        {{.dry_breakers = far, .n_dry_breakers = 2}, "dry-breakers"},
        {{.xtc_probability = 1.5f}, "xtc-probability"},
        {{.xtc_threshold = -1}, "xtc-threshold"},
        {{.typical = 2}, "typical"},
        {{.top_n_sigma = NAN}, "top-n-sigma"},
        {{.biases = beyond, .n_biases = 1}, "logit-bias"},
        {{.biases = high, .n_biases = 1}, "logit-bias"},
        {{.mirostat = 1}, "mirostat"},
        {{.mirostat_tau = -1}, "mirostat-tau"},
        {{.mirostat_eta = INFINITY}, "mirostat-eta"},
        {{.samplers = {77}}, "samplers"},
        {{.samplers = {CLEF_SAMPLER_XTC, CLEF_SAMPLER_XTC}}, "xtc"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clef_error err = {0};
        clef_sampler *s;
        assert_int_equal(clef_sampler_create(4, &bad[i].opts, &s, &err), CLEF_E_ARG);
        if (!strstr(err.text, bad[i].says))
            fail_msg("expected %s in: %s", bad[i].says, err.text);
        assert_null(s);
    }
}

static void on_device(void **state)
{
    (void)state;
    static const clef_sampler_opts here[] = {
        {0},
        {HOT, .top_k = 40, .top_p = 0.9f, .min_p = 0.1f, .repeat_penalty = 1.1f},
        {.top_n_sigma = 1},
        {.temperature = 0.5f, .top_p = 0.5f, .samplers = {CLEF_SAMPLER_TEMPERATURE, CLEF_SAMPLER_TOP_P}}};
    static const clef_sampler_opts there[] = {
        {HOT, .typical = 0.5f},
        {.presence_penalty = 1},
        {.mirostat = 2},
        {.biases = some, .n_biases = 1},
        {HOT, .xtc_probability = 0.1f},
        {.dry_multiplier = 1},
        {HOT, .top_n_sigma = 1},
        {HOT, .top_k = 4, .top_p = 0.5f, .samplers = {CLEF_SAMPLER_TOP_P, CLEF_SAMPLER_TOP_K}}};
    assert_int_equal(clef_sampler_on_device(NULL), 1);
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        assert_int_equal(clef_sampler_on_device(&here[i]), 1);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        assert_int_equal(clef_sampler_on_device(&there[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samplers_by_hand),
        cmocka_unit_test(the_default_order),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(xtc_by_chance),
        cmocka_unit_test(mirostat_holds_the_surprise),
        cmocka_unit_test(masks),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(infinite_logits),
        cmocka_unit_test(refuses),
        cmocka_unit_test(on_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Each sampler against numbers computed by hand, draws against the distribution that is reported, and masks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/sampler.h"
#include "tests/cases.h"

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

#define HOT .temperature = 1
static const int32_t breaker_3[] = {3, -1};
static const clef_logit_bias some[] = {{0, 0.6931472f}, {2, -INFINITY}}, twice[] = {{1, 1}, {1, -1}};

/* ---- cases: tests/fixtures/samplers.json --------------------------------------------------------- */

enum { MOST_ITEMS = 8 };

/* Options of a case, and what they point to. */
typedef struct case_opts {
    clef_sampler_opts opts;
    int32_t breakers[MOST_ITEMS];
    clef_logit_bias biases[MOST_ITEMS];
} case_opts;

/* JSON has no infinity and no NaN: these are texts. */
static double number_of(const json_t *value)
{
    return json_is_string(value) ? strtod(json_string_value(value), NULL) : json_number_value(value);
}

static uint8_t kind_of(const json_t *item)
{
    const char *name = json_string_value(item);
    if (!name)
        return (uint8_t)json_integer_value(item);
    int kind = CLEF_SAMPLER_END + 1;
    while (kind < CLEF_N_SAMPLERS && strcmp(clef_sampler_name((clef_sampler_kind)kind), name) != 0)
        kind++;
    assert_true(kind < CLEF_N_SAMPLERS);
    return (uint8_t)kind;
}

static void set_list(case_opts *o, const char *key, const json_t *list)
{
    const size_t n = json_array_size(list);
    assert_true(n <= MOST_ITEMS);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        if (strcmp(key, "samplers") == 0)
            o->opts.samplers[i] = kind_of(item);
        else if (strcmp(key, "dry_breakers") == 0)
            o->breakers[i] = (int32_t)json_integer_value(item);
        else
            o->biases[i] = (clef_logit_bias){(int32_t)json_integer_value(json_array_get(item, 0)),
                                             (float)number_of(json_array_get(item, 1))};
    }
    if (strcmp(key, "dry_breakers") == 0) {
        o->opts.dry_breakers = o->breakers;
        o->opts.n_dry_breakers = (int32_t)n;
    } else if (strcmp(key, "biases") == 0) {
        o->opts.biases = o->biases;
        o->opts.n_biases = (int32_t)n;
    }
}

static void read_opts(case_opts *o, const json_t *c)
{
#define FIELD(name)                                                                                          \
    {                                                                                                        \
#        name, offsetof(clef_sampler_opts, name)                                                             \
    }
    static const struct {
        const char *name;
        size_t at;
    } floats[] = {FIELD(temperature),
                  FIELD(top_p),
                  FIELD(min_p),
                  FIELD(repeat_penalty),
                  FIELD(presence_penalty),
                  FIELD(frequency_penalty),
                  FIELD(dry_multiplier),
                  FIELD(xtc_probability),
                  FIELD(xtc_threshold),
                  FIELD(typical),
                  FIELD(top_n_sigma),
                  FIELD(mirostat_tau),
                  FIELD(mirostat_eta),
                  FIELD(dry_base)},
      ints[] = {FIELD(top_k), FIELD(repeat_last_n), FIELD(dry_allowed_length), FIELD(dry_last_n),
                FIELD(mirostat)};
    const json_t *opts = case_value(c, "opts");
    const char *key;
    json_t *value;
    size_t n_read = 0;
    *o = (case_opts){.opts = {0}};
    json_object_foreach((json_t *)(uintptr_t)opts, key, value) {
        n_read += json_is_array(value);
        if (json_is_array(value))
            set_list(o, key, value);
        for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
            if (strcmp(key, floats[i].name) == 0 && ++n_read)
                *(float *)(void *)((char *)&o->opts + floats[i].at) = (float)number_of(value);
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
            if (strcmp(key, ints[i].name) == 0 && ++n_read)
                *(int32_t *)(void *)((char *)&o->opts + ints[i].at) = (int32_t)json_integer_value(value);
    }
    assert_int_equal(n_read, json_object_size(opts));
}

static void check_vector(const json_t *c)
{
    double p[4];
    float logits[4];
    int32_t text[16];
    const size_t n_text = json_array_size(case_value(c, "text"));
    clef_error err = {0};
    lines all = {0};
    case_opts o;
    read_opts(&o, c);
    for (size_t i = 0; i < n_text; i++)
        text[i] = (int32_t)json_integer_value(json_array_get(case_value(c, "text"), i));
    for (size_t i = 0; i < 4; i++)
        p[i] = json_number_value(json_array_get(case_value(c, "in"), i));
    logits_of(p, 4, logits);
    clef_sampler *s = sampler_of(&o.opts, 4, text, (int32_t)n_text);
    ok(clef_sampler_explain(s, logits, NULL, keep_line, &all, &err), &err);
    clef_sampler_destroy(s);
    assert_string_equal(all.name[0], "logits");
    assert_string_equal(all.name[all.n - 1], case_text(c, "last"));
    for (size_t k = 0; k < 4; k++) {
        const double want = json_number_value(json_array_get(case_value(c, "out"), k));
        if (!(fabs(all.p[all.n - 1][k] - want) < 1e-5))
            fail_case(c, "token %zu: %.7f", k, all.p[all.n - 1][k]);
    }
}

TEST(samplers_by_hand)
{
    for_each_case("samplers.json", "vectors", check_vector);
}

TEST(the_default_order)
{
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

/* 100,000 draws against the reported distribution: chi-square below its 0.999 quantile for the tokens that
 * are left. */
TEST(draws_follow_the_distribution)
{
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
TEST(xtc_by_chance)
{
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
TEST(mirostat_holds_the_surprise)
{
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
    for (int i = 0; i < N; i++) { /* of the tokens that were left: the first mu draws of all */
        const int32_t id = clef_sampler_pick(s, logits);
        bits -= log2(p[id] / sum);
    }
    clef_sampler_destroy(s);
    assert_true(bits / (double)N > 3 &&
                bits / (double)N < 4.5); /* a little above tau, since what is left adds up to less than 1 */
}

/* ---- masks, texts ---------------------------------------------------------------------------- */

TEST(masks)
{
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
TEST(long_texts)
{
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

TEST(infinite_logits)
{
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

static void check_refused(const json_t *c)
{
    case_opts o;
    clef_error err = {0};
    clef_sampler *s;
    read_opts(&o, c);
    check_case(c, clef_sampler_create(4, &o.opts, &s, &err), &err);
    assert_null(s);
}

TEST(refuses)
{
    for_each_case("samplers.json", "refused", check_refused);
}

static void check_place(const json_t *c)
{
    case_opts o;
    read_opts(&o, c);
    if (clef_sampler_on_device(&o.opts) != (int32_t)case_number(c, "on_device", 0))
        fail_case(c, "got the other answer");
}

TEST(on_device)
{
    assert_int_equal(clef_sampler_on_device(NULL), 1);
    for_each_case("samplers.json", "places", check_place);
}

TESTS(NULL, NULL)

/* Sums of gradients over ranks, bucket by bucket: which launch completes a bucket, that the sums are the same
 * while the backward pass runs and after it, with each executor and kind of memory, and what is left after
 * failures. The other rank is imitated: it contributes what this one does, so a sum is twice as much. Runs
 * under tests/layers/count_layer.c (OPENCL_LAYERS). */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "run_graph.h"
#include "runtime/plan/plan.h"
#include "tests/check.h"
#include "tests/debug.h"
#include "tests/layers/count.h"
#include "train/plan/train_buckets.h"

enum { WIDTH = 1024, N_ROWS = 2, N_PARAMETERS = 4, N_BUCKETS = 3, MOST_SUMS = 64 };

/* From the last parameter on: b2 and most of w2; the rest of w2, b1 and most of w1; the rest of w1. */
static const char text[] = "input x f32 [2, 1024]\ninput y f32 [2, 1024]\n"
                           "weight w1 f32 [1024, 1024]\nweight b1 f32 [1024]\n"
                           "weight w2 f32 [1024, 1024]\nweight b2 f32 [1024]\n"
                           "p = matmul(x, w1, b1) transpose_b=1\nh = tanh(p)\n"
                           "q = matmul(h, w2, b2) transpose_b=1\n"
                           "e = sub(q, y)\ns = square(e)\nall = sum_axes(s) axes=3\n"
                           "loss = reshape(all) : f32 []\noutput loss\n";
static const size_t bucket_floats[N_BUCKETS] = {1 << 20, 1 << 20, 2 * WIDTH};

static count_layer layer;

/* ---- the other rank --------------------------------------------------------------------------- */

static size_t sums[MOST_SUMS];      /* floats of each */
static clef__wire wires[MOST_SUMS]; /* how each crosses */
static int n_sums, fails_at;        /* the number of the sum that fails; -1: none */

static clef_status twice(clef__group *group, float *x, size_t n, clef__wire wire, clef_error *err)
{
    (void)group;
    if (n_sums < MOST_SUMS) {
        sums[n_sums] = n;
        wires[n_sums] = wire;
    }
    if (n_sums++ == fails_at)
        return clef__fail(err, CLEF_E_NOMEM, "the sum that fails");
    for (size_t i = 0; i < n; i++)
        x[i] *= 2;
    return CLEF_OK;
}

/* The other rank's weights are 0. */
static clef_status gather(clef__group *group, const void *mine, void *all, const size_t *n_bytes,
                          clef_error *err)
{
    (void)group, (void)err;
    memmove(all, mine, n_bytes[0]);
    memset((char *)all + n_bytes[0], 0, n_bytes[1]);
    return CLEF_OK;
}

static const char *host(const clef__transport *t, int32_t rank)
{
    (void)t, (void)rank;
    return "here";
}

static void at(clef__transport *t, const char *what, int64_t number)
{
    (void)t, (void)what, (void)number;
}

static const clef__transport_calls calls = {
    .host = host, .all_reduce = twice, .all_gather = gather, .at = at};
static clef__transport transport = {.size = 2, .local_size = 2, .n_nodes = 1, .calls = &calls};
static clef_ranks two = {.transport = &transport, .layout = {.width = 1, .stages = 1}, .apart = 1};

/* ---- trainers --------------------------------------------------------------------------------- */

static const void *starting_values(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    static float x[WIDTH * WIDTH];
    uint32_t state = (uint32_t)name[0] * 31u + (uint32_t)name[1];
    (void)user;
    assert_int_equal(dtype, CLEF_F32);
    assert_true(n_bytes <= sizeof x);
    for (size_t i = 0; i < n_bytes / sizeof *x; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) / 16;
    }
    return x;
}

static clef_device *open_device(int profile)
{
    clef_error err = {0};
    clef_device *dev = NULL;
    clef_device_opts opts = test_device_opts() ? *test_device_opts() : (clef_device_opts){0};
    opts.profile = profile;
    ok(clef_device_open(getenv("CLEF_TEST_DEVICE"), &opts, &dev, &err), &err);
    return dev;
}

static clef_status make(clef_device *dev, clef_ranks *ranks, clef_trainer **out, clef_error *err)
{
    clef_graph *graph;
    clef_train_opts opts = clef_train_defaults();
    opts.weights = starting_values;
    opts.compile.no_tune = 1;
    opts.ranks = ranks;
    ok(clef_graph_parse(text, strlen(text), "the model", &graph, err), err);
    const clef_status s = clef_trainer_create(dev, graph, "loss", &opts, out, err);
    clef_graph_destroy(graph);
    return s;
}

/* Adds n parts, each with other inputs, and updates. */
static clef_status step(clef_trainer *t, int n, clef_error *err)
{
    float x[N_ROWS * WIDTH], y[N_ROWS * WIDTH];
    clef_train_result result;
    clef_status s = CLEF_OK;
    for (int part = 0; part < n && !s; part++) {
        for (int i = 0; i < N_ROWS * WIDTH; i++) {
            x[i] = (float)((i * 7 + part) % 13) / 13 - 0.5f;
            y[i] = (float)((i * 5 + 3 * part) % 11) / 11;
        }
        s = clef_trainer_write(t, "x", x, sizeof x, err);
        if (!s)
            s = clef_trainer_write(t, "y", y, sizeof y, err);
        if (!s)
            s = clef_trainer_add(t, err);
    }
    n_sums = 0;
    return s ? s : clef_trainer_update(t, &result, err);
}

static float *gradient(clef_trainer *t, int32_t i)
{
    clef_error err = {0};
    const int64_t n = clef_trainer_parameter(t, i).n;
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    ok(clef_trainer_read(t, i, CLEF_TRAIN_GRADIENT, x, n, &err), &err);
    return x;
}

/* ---- which launch completes a bucket ---------------------------------------------------------- */

static int uses(const clef_launch *l, const clef_value *state)
{
    for (uint32_t k = 0; k < l->n_bufs; k++)
        if (l->bufs[k] && l->bufs[k] != CLEF__SCRATCH && clef__base(l->bufs[k]) == state)
            return 1;
    return 0;
}

static const clef__plan_state *find(const clef__plan_state *states, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(states[i].value->name, name) == 0)
            return &states[i];
    fail_msg("there is no state %s", name);
    return NULL;
}

TEST(completed_by)
{
    enum { MOST = 16 };
    clef_error err = {0};
    clef_trainer *t;
    clef__plan_state states[MOST];
    clef_device *dev = open_device(0);
    ok(make(dev, NULL, &t, &err), &err);
    clef_plan *plan = clef_trainer_plan(t);
    const int32_t n = clef__plan_states(plan, states, MOST);
    assert_in_range(n, 2 * N_PARAMETERS, MOST);
    clef__train_piece pieces[] = {{.state = find(states, n, "gradients/w2")},
                                  {.state = find(states, n, "gradients/b2")},
                                  {.state = find(states, n, "gradients/w1")}};
    for (int32_t from = 0; from < 3; from++)
        for (int32_t to = from + 1; to <= 3; to++) {
            const int32_t last = clef__train_completed_by(plan, pieces + from, to - from);
            assert_in_range(last, 0, plan->n_launches - 1);
            int is_used = 0;
            for (int32_t i = last; i < plan->n_launches; i++)
                for (int32_t k = from; k < to; k++) {
                    const int here = uses(&plan->launches[i], pieces[k].state->value);
                    assert_true(!here || i == last);
                    is_used |= here;
                }
            assert_true(is_used);
        }
    /* the backward pass reaches the second layer first */
    assert_true(clef__train_completed_by(plan, pieces, 2) < clef__train_completed_by(plan, pieces + 2, 1));
    assert_int_equal(clef__train_completed_by(plan, pieces, 0), -1);
    clef_trainer_destroy(t);
    clef_device_close(dev);
}

/* ---- the sums --------------------------------------------------------------------------------- */

static int n_marks_with_event(clef_trainer *t)
{
    const clef_plan *plan = clef_trainer_plan(t);
    int n = 0;
    for (int32_t i = 0; i < plan->n_marks; i++) {
        assert_true(i == 0 || plan->marks[i - 1].launch < plan->marks[i].launch);
        n += plan->marks[i].ended != NULL;
    }
    return n;
}

typedef struct way {
    const char *overlap, *caps; /* rank_overlap, caps of CLEF_DEBUG */
    int profile, n_parts;
    clef__wire wire;
} way;

/* Gradients are twice those of a trainer alone, whatever happens when, in each of some steps. */
static void sums_are_right(const way *w, int n_steps)
{
    clef_error err = {0};
    clef_trainer *t, *alone;
    set_debug("rank_overlap", w->overlap);
    set_debug("caps", w->caps);
    const long n_events = layer.live("event");
    two.wire = w->wire;
    clef_device *dev = open_device(w->profile);
    ok(make(dev, &two, &t, &err), &err);
    ok(make(dev, NULL, &alone, &err), &err);
    for (int k = 0; k < n_steps; k++) {
        for (int32_t i = 0; i < N_PARAMETERS; i++) { /* the same weights, without those of the other rank */
            const int64_t n = clef_trainer_parameter(t, i).n;
            const float *values = starting_values(NULL, clef_trainer_parameter(t, i).name, CLEF_F32,
                                                  (uint64_t)n * sizeof *values);
            ok(clef_trainer_set(t, i, CLEF_TRAIN_WEIGHT, values, n, &err), &err);
            ok(clef_trainer_set(alone, i, CLEF_TRAIN_WEIGHT, values, n, &err), &err);
        }
        ok(step(alone, w->n_parts, &err), &err);
        ok(step(t, w->n_parts, &err), &err);
        assert_in_range(n_sums, N_BUCKETS + 1, N_BUCKETS + 2); /* also norm and loss, and what to choose */
        for (int i = 0; i < N_BUCKETS; i++) {
            assert_int_equal(sums[i], bucket_floats[i]);
            assert_int_equal(wires[i], w->wire);
        }
        if (w->overlap)
            assert_int_equal(n_marks_with_event(t), *w->overlap == '1' ? 2 : 0);
        for (int32_t i = 0; i < N_PARAMETERS; i++) {
            float *got = gradient(t, i), *half = gradient(alone, i);
            for (int64_t e = 0; e < clef_trainer_parameter(t, i).n; e++)
                if (got[e] != 2 * half[e])
                    fail_msg("step %d, %s: element %d is %g, expected %g", k,
                             clef_trainer_parameter(t, i).name, (int)e, (double)got[e], 2 * (double)half[e]);
            free(got);
            free(half);
        }
    }
    clef_trainer_destroy(t);
    clef_trainer_destroy(alone);
    clef_device_close(dev);
    set_debug("rank_overlap", NULL);
    set_debug("caps", NULL);
    two.wire = CLEF__WIRE_F32;
    assert_int_equal(layer.live("event"), n_events);
    assert_int_equal(layer.live(NULL), layer.live("event"));
}

TEST(each_way)
{
    const way ways[] = {
        {"0", NULL, 0, 1, CLEF__WIRE_F32},
        {"1", NULL, 0, 1, CLEF__WIRE_F16},
        {"1", NULL, 0, 3, CLEF__WIRE_Q8},
        {"1", NULL, 1, 1, CLEF__WIRE_F32}, /* each launch has an event already, of the profile */
        {"0", "-unified_memory", 0, 2, CLEF__WIRE_F32},
        {"1", "-unified_memory", 0, 2, CLEF__WIRE_F32},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        sums_are_right(&ways[i], 3);
}

/* Each of the first steps goes one way or the other, until there is a choice. */
TEST(chosen)
{
    sums_are_right(&(way){NULL, NULL, 0, 1, CLEF__WIRE_F32}, 10);
}

TEST(wrong_variable)
{
    clef_error err = {0};
    clef_trainer *t;
    const long n_live = layer.live(NULL);
    clef_device *dev = open_device(0);
    set_debug("rank_overlap", "yes");
    assert_int_equal(make(dev, &two, &t, &err), CLEF_E_ARG);
    assert_string_equal(err.text, "CLEF_DEBUG: rank_overlap: expected 0 or 1, got 'yes'");
    set_debug("rank_overlap", NULL);
    clef_device_close(dev);
    assert_int_equal(layer.live(NULL), n_live);
}

/* ---- failures --------------------------------------------------------------------------------- */

/* A sum that fails: its reason is reported, nothing stays mapped, and a step later works. */
TEST(sum_fails)
{
    for (int unified = 0; unified < 2; unified++)
        for (int k = 0; k < N_BUCKETS; k++) {
            clef_error err = {0};
            clef_trainer *t;
            const long n_live = layer.live(NULL);
            set_debug("rank_overlap", "1");
            set_debug("caps", unified ? NULL : "-unified_memory");
            clef_device *dev = open_device(0);
            ok(make(dev, &two, &t, &err), &err);
            fails_at = k;
            assert_int_equal(step(t, 1, &err), CLEF_E_NOMEM);
            assert_string_equal(err.text, "the sum that fails");
            fails_at = -1;
            ok(step(t, 1, &err), &err);
            clef_trainer_destroy(t);
            clef_device_close(dev);
            assert_int_equal(layer.live(NULL), n_live);
        }
    set_debug("caps", NULL);
    set_debug("rank_overlap", NULL);
}

/* Each OpenCL call of a step fails once. */
TEST(every_call_may_fail)
{
    clef_error err = {0};
    clef_trainer *t;
    long n = 1;
    const long n_live = layer.live(NULL);
    set_debug("rank_overlap", "1");
    clef_device *dev = open_device(0);
    ok(make(dev, &two, &t, &err), &err);
    ok(step(t, 1, &err), &err);
    for (int done = 0; !done; n++) {
        layer.fail_at(NULL, n, 0);
        const clef_status s = step(t, 1, &err);
        done = layer.count(NULL) < n;
        layer.fail_at(NULL, 0, 0);
        assert_int_equal(s, done ? CLEF_OK : CLEF_E_CL);
    }
    assert_true(n > 3 * N_BUCKETS);
    clef_trainer_destroy(t);
    clef_device_close(dev);
    set_debug("rank_overlap", NULL);
    assert_int_equal(layer.live(NULL), n_live);
}

static int setup(void **state)
{
    (void)state;
    fails_at = -1;
    clef_device *dev = test_device();
    const int has_layer = dev && open_count_layer(&layer);
    clef_device_close(dev);
    return !has_layer;
}

TESTS(setup, NULL)

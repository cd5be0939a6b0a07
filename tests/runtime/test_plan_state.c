/* The states of a plan, read, written and copied: their bytes beside what the graph sees, ranges that do not
 * fit, several devices, and each OpenCL call made to fail once. Runs under tests/layers/count_layer.c
 * (OPENCL_LAYERS). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/value.h"
#include "run_graph.h"
#include "runtime/plan/plan_state.h"
#include "tests/check.h"
#include "tests/layers/count.h"

enum { HEADS = 2, POSITIONS = 6, WIDTH = 3, N = HEADS * POSITIONS * WIDTH, LINE = WIDTH * 4 };

static count_layer layer;
static clef_device *dev;

static int setup(void **state)
{
    (void)state;
    dev = test_device();
    return !dev || !open_count_layer(&layer);
}

static int teardown(void **state)
{
    (void)state;
    clef_device_close(dev);
    return layer.live && layer.live(NULL) ? 1 : 0;
}

/* Two layers, each with a cache whose content is an output. */
static const char text[] =
    "input x f32 [1, 2, 1, 3]\ninput p i32 [1]\n"
    "state layer0.k f32 [1, 2, 6, 3]\nstate layer1.k f32 [1, 2, 6, 3]\n"
    "layer0.w = cache_write(layer0.k, x, p)\nlayer0.seen = copy(layer0.w)\n"
    "layer1.x = mul(x, x)\nlayer1.w = cache_write(layer1.k, layer1.x, p)\nlayer1.seen = copy(layer1.w)\n"
    "output layer0.seen\noutput layer1.seen\n";

static clef_plan *make(clef_device *on, int describe_only)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    ok(clef_graph_parse(text, sizeof text - 1, "states.clef", &g, &err), &err);
    ok(clef_plan_create(on, g, &(clef_plan_opts){.describe_only = describe_only}, &plan, &err), &err);
    clef_graph_destroy(g);
    return plan;
}

static const float x[HEADS * WIDTH] = {2, 3, 4, 5, 6, 7};

/* Writes x at position p of both caches, and enqueues. */
static void run_at(clef_plan *plan, int32_t p)
{
    clef_error err = {0};
    ok(clef_plan_write(plan, clef_plan_input(plan, "x"), x, sizeof x, &err), &err);
    ok(clef_plan_write(plan, clef_plan_input(plan, "p"), &p, sizeof p, &err), &err);
    ok(clef_plan_run(plan, &err), &err);
}

static void number(float all[N])
{
    for (int i = 0; i < N; i++)
        all[i] = (float)(100 + i);
}

static const clef__state_rows whole = {.n_rows = 1, .n_bytes = N * 4};

static void read_whole(const clef__plan_state *s, float all[N])
{
    clef_error err = {0};
    ok(clef__plan_state_read(s, &whole, all, &err), &err);
}

/* What is written is what the graph sees, at each head's positions; what the graph writes is what is read. */
static void check_plan(clef_plan *plan)
{
    clef_error err = {0};
    clef__plan_state states[4] = {{0}};
    float want[N], seen[N];
    assert_int_equal(clef__plan_states(plan, NULL, 0), 2);
    assert_int_equal(clef__plan_states(plan, states, 4), 2);
    assert_string_equal(states[0].value->name, "layer0.k");
    assert_string_equal(states[1].value->name, "layer1.k");
    assert_int_equal(states[1].n_bytes, N * 4);
    number(want);
    ok(clef__plan_state_write(&states[1], &whole, want, &err), &err);
    run_at(plan, 4);
    for (int h = 0; h < HEADS; h++)
        for (int d = 0; d < WIDTH; d++)
            want[(h * POSITIONS + 4) * WIDTH + d] = x[h * WIDTH + d] * x[h * WIDTH + d];
    read_whole(&states[1], seen);
    assert_memory_equal(seen, want, sizeof want);
    ok(clef_plan_read(plan, clef_plan_output(plan, "layer1.seen"), seen, sizeof seen, &err), &err);
    assert_memory_equal(seen, want, sizeof want);
    read_whole(&states[0], seen); /* the other state has only what the run wrote */
    for (int i = 0; i < N; i++)
        assert_true(seen[i] ==
                    (i / WIDTH % POSITIONS == 4 ? x[i / (POSITIONS * WIDTH) * WIDTH + i % WIDTH] : 0));
}

TEST(one_device)
{
    clef_plan *plan = make(dev, 0);
    check_plan(plan);
    clef_plan_destroy(plan);
}

TEST(several_devices)
{
    const clef_device_info *info = clef_device_describe(dev);
    char twice[64];
    clef_error err = {0};
    clef_device *both;
    snprintf(twice, sizeof twice, "%d:%d,%d:%d", info->platform, info->index, info->platform, info->index);
    ok(clef_device_open(twice, &(clef_device_opts){.several = 1, .shares = (float[]){1, 1}, .n_shares = 2},
                        &both, &err),
       &err);
    clef_plan *plan = make(both, 0);
    clef__plan_state states[2];
    assert_int_equal(clef__plan_states(plan, states, 2), 2);
    assert_ptr_not_equal(states[0].stage, states[1].stage);
    check_plan(plan);
    clef_plan_destroy(plan);
    clef_device_close(both);
}

/* The first and the last positions of each head. */
TEST(rows_of_heads)
{
    clef_error err = {0};
    clef_plan *plan = make(dev, 0);
    clef__plan_state s;
    clef__plan_states(plan, &s, 1);
    float all[N], some[HEADS * 2 * WIDTH], seen[N];
    number(all);
    ok(clef__plan_state_write(&s, &whole, all, &err), &err);
    for (int first = 0; first <= 4; first += 4) {
        const clef__state_rows rows = {.offset = (uint64_t)first * LINE,
                                       .n_rows = HEADS,
                                       .n_bytes = 2 * LINE,
                                       .pitch = POSITIONS * LINE};
        ok(clef__plan_state_read(&s, &rows, some, &err), &err);
        for (int i = 0; i < HEADS * 2 * WIDTH; i++) {
            const int at = i / (2 * WIDTH) * POSITIONS * WIDTH + first * WIDTH + i % (2 * WIDTH);
            assert_true(some[i] == all[at]);
            all[at] = some[i] = (float)-i;
        }
        ok(clef__plan_state_write(&s, &rows, some, &err), &err);
        read_whole(&s, seen);
        assert_memory_equal(seen, all, sizeof all);
    }
    const clef__state_rows dense = {.n_rows = HEADS * POSITIONS, .n_bytes = LINE, .pitch = LINE};
    memset(seen, 0, sizeof seen);
    ok(clef__plan_state_read(&s, &dense, seen, &err), &err);
    assert_memory_equal(seen, all, sizeof all);
    clef_plan_destroy(plan);
}

/* A copy comes after the run before it, and before the run behind it. */
TEST(copies)
{
    clef_error err = {0};
    clef_plan *plan = make(dev, 0);
    clef__plan_state s;
    clef__plan_states(plan, &s, 1);
    float seen[N];
    run_at(plan, 0);
    ok(clef__plan_state_copy(&s, 3 * LINE, 0, LINE, &err), &err);
    ok(clef__plan_state_copy(&s, 4 * LINE, 3 * LINE, 0, &err), &err);
    run_at(plan, 5);
    ok(clef_plan_read(plan, clef_plan_output(plan, "layer0.seen"), seen, sizeof seen, &err), &err);
    for (int p = 0; p < POSITIONS; p++)
        assert_true(seen[p * WIDTH] == (p % 5 == 0 || p == 3 ? x[0] : 0));
    assert_true(seen[(POSITIONS + 3) * WIDTH] == 0); /* the other head was not copied */
    assert_int_equal(clef__plan_state_copy(&s, LINE, 0, LINE + 1, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "layer0.k"));
    assert_non_null(strstr(err.text, "overlaps"));
    ok(clef__plan_state_copy(&s, LINE, 0, LINE, &err), &err); /* side by side */
    clef_plan_destroy(plan);
}

TEST(wrong_ranges)
{
    static const clef__state_rows wrong[] = {
        {.n_rows = 1, .n_bytes = N * 4 + 1},
        {.offset = 1, .n_rows = 1, .n_bytes = N * 4},
        {.offset = UINT64_MAX, .n_rows = 1, .n_bytes = 2},
        {.n_rows = 1, .n_bytes = UINT64_MAX},
        {.n_rows = 3, .n_bytes = 4, .pitch = POSITIONS * LINE},
        {.n_rows = 2, .n_bytes = LINE + 1, .pitch = LINE},
        {.n_rows = 2, .n_bytes = 4, .pitch = UINT64_MAX},
        {.n_rows = UINT64_MAX, .n_bytes = 4, .pitch = 4},
    };
    clef_plan *plan = make(dev, 0), *described = make(dev, 1);
    clef__plan_state s, none;
    float room[N + 1];
    clef__plan_states(plan, &s, 1);
    assert_int_equal(clef__plan_states(described, &none, 1), 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        clef_error err = {0};
        assert_int_equal(clef__plan_state_read(&s, &wrong[i], room, &err), CLEF_E_ARG);
        assert_non_null(strstr(err.text, "layer0.k"));
        assert_int_equal(clef__plan_state_write(&s, &wrong[i], room, &err), CLEF_E_ARG);
    }
    clef_error err = {0};
    assert_int_equal(clef__plan_state_copy(&s, N * 4 - 4, 0, 8, &err), CLEF_E_ARG);
    assert_int_equal(clef__plan_state_copy(&s, 0, UINT64_MAX - 3, 8, &err), CLEF_E_ARG);
    assert_int_equal(clef__plan_state_read(&none, &whole, room, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "describe_only"));
    assert_int_equal(clef__plan_state_copy(&none, 0, 8, 4, &err), CLEF_E_ARG);
    clef_plan_destroy(described);
    clef_plan_destroy(plan);
}

/* ---- injected failures ----------------------------------------------------------------------- */

static clef_status use(const clef__plan_state *s, clef_error *err)
{
    const clef__state_rows rows = {.n_rows = HEADS, .n_bytes = LINE, .pitch = POSITIONS * LINE};
    float all[N] = {0};
    clef_status status = clef__plan_state_write(s, &whole, all, err);
    if (!status)
        status = clef__plan_state_write(s, &rows, all, err);
    if (!status)
        status = clef__plan_state_copy(s, LINE, 0, LINE, err);
    if (!status)
        status = clef__plan_state_read(s, &rows, all, err);
    return status ? status : clef__plan_state_read(s, &whole, all, err);
}

TEST(every_call_may_fail)
{
    clef_plan *plan = make(dev, 0);
    clef__plan_state s;
    clef__plan_states(plan, &s, 1);
    const long live = layer.live(NULL);
    long n = 1;
    for (int done = 0; !done; n++) {
        clef_error err = {0};
        layer.fail_at(NULL, n, 0);
        const clef_status status = use(&s, &err);
        done = layer.count(NULL) < n;
        layer.fail_at(NULL, 0, 0);
        assert_int_equal(status, done ? CLEF_OK : CLEF_E_CL);
        assert_true(done || strstr(err.text, "layer0.k"));
        assert_int_equal(layer.live(NULL), live);
    }
    assert_int_equal(n, 5 + 2); /* each use makes five calls */
    clef_plan_destroy(plan);
}

TESTS(setup, teardown)

/* Plans on the device: binding, writing, reading, states, errors; every OpenCL call and every allocation made
 * to fail once; and what a warm generation costs. Runs under tests/layers/count_layer.c (OPENCL_LAYERS), and
 * with malloc wrapped by the linker. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, setenv */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/value.h"
#include "run_graph.h"
#include "tests/check.h"
#include "tests/debug.h"
#include "tests/failing_alloc.h"
#include "tests/layers/count.h"
#include "tests/skip.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

/* ---- the layer ------------------------------------------------------------------------------- */

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
    dev = NULL;
    if (layer.live && layer.live(NULL)) {
        fprintf(stderr, "%ld OpenCL objects are left\n", layer.live(NULL));
        return 1;
    }
    return 0;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static const char sum_text[] = "symbol T <= 100\ninput x f32 [T, 3]\nstate s f32 [1, 1, 4, 3]\ninput p i32 "
                               "[1]\nconst c f32 [3] = 1, 2, 3\nweight w f32 [3]\n"
                               "y0 = add(x, c)\ny = mul(y0, w)\nx0 = slice(x) axis=0 start=-1 size=1\nx1 = "
                               "reshape(x0) : f32 [1, 1, 1, 3]\n"
                               "k = cache_write(s, x1, p)\nseen = copy(k)\nv = permute(x) axes=[1, "
                               "0]\noutput y\noutput seen\noutput v\noutput x0\n";
static const float sum_weight[3] = {10, 100, 1000};

static const void *weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user;
    return strcmp(name, "w") == 0 && dtype == CLEF_F32 && n_bytes == sizeof sum_weight ? sum_weight : NULL;
}

static clef_status make(clef_plan **plan, clef_error *err)
{
    clef_graph *g;
    *plan = NULL;
    clef_status s = clef_graph_parse(sum_text, strlen(sum_text), "sum.clef", &g, err);
    if (s)
        return s;
    s = clef_graph_optimize(g, NULL, err);
    if (!s)
        s = clef_plan_create(dev, g, &(clef_plan_opts){.weights = weight}, plan, err);
    clef_graph_destroy(g);
    return s;
}

static clef_status write_x(clef_plan *plan, int32_t T, clef_error *err)
{
    float x[100 * 3];
    for (int32_t i = 0; i < T * 3; i++)
        x[i] = (float)(i % 7) - 2;
    clef_status s = clef_plan_bind(plan, clef_plan_symbol(plan, "T"), T, err);
    return s ? s : clef_plan_write(plan, clef_plan_input(plan, "x"), x, (size_t)T * 12, err);
}

static clef_status run_once(clef_plan *plan, int32_t T, float *y, clef_error *err)
{
    clef_status s = write_x(plan, T, err);
    if (!s)
        s = clef_plan_run(plan, err);
    return s ? s : clef_plan_read(plan, clef_plan_output(plan, "y"), y, (size_t)T * 12, err);
}

TEST(lengths)
{
    clef_error err = {0};
    clef_plan *plan;
    float y[300], v[300], x0[3];
    ok(make(&plan, &err), &err);
    static const int32_t Ts[] = {5, 100, 1, 64, 5};
    for (size_t k = 0; k < sizeof Ts / sizeof *Ts; k++) {
        const int32_t T = Ts[k];
        ok(run_once(plan, T, y, &err), &err);
        for (int32_t i = 0; i < T * 3; i++)
            assert_true(y[i] == ((float)(i % 7) - 2 + (float)(i % 3 + 1)) * sum_weight[i % 3]);
        ok(clef_plan_read(plan, clef_plan_output(plan, "v"), v, (size_t)T * 12, &err),
           &err); /* a permuted view, made dense */
        for (int32_t i = 0; i < T * 3; i++)
            assert_true(v[i] == (float)((i % T * 3 + i / T) % 7) - 2);
        ok(clef_plan_read(plan, clef_plan_output(plan, "x0"), x0, 12, &err),
           &err); /* a view with an offset, read where it lies */
        for (int32_t i = 0; i < 3; i++)
            assert_true(x0[i] == (float)(((T - 1) * 3 + i) % 7) - 2);
        int32_t rank;
        int64_t dims[CLEF_MAX_DIMS];
        assert_int_equal(clef_plan_output_bytes(plan, clef_plan_output(plan, "y"), &rank, dims), T * 12);
        assert_true(rank == 2 && dims[0] == T && dims[1] == 3);
    }
    clef_plan_destroy(plan);
}

/* An argument that could not be set counts as never set: the next run at the same length sets it again. */
TEST(arguments_that_fail)
{
    static const char text[] = "symbol T <= 100\ninput x f32 [2, T]\ny = softmax(x)\noutput y\n";
    static const float x[18] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    clef_error err = {0};
    clef_plan *plan;
    clef_graph *g;
    float y[18];
    ok(clef_graph_parse(text, sizeof text - 1, "softmax.clef", &g, &err), &err);
    ok(clef_plan_create(dev, g, NULL, &plan, &err), &err);
    clef_graph_destroy(g);
    for (int32_t T = 5; T <= 9; T += 4) {
        ok(clef_plan_bind(plan, clef_plan_symbol(plan, "T"), T, &err), &err);
        ok(clef_plan_write(plan, clef_plan_input(plan, "x"), x, (size_t)T * 8, &err), &err);
        layer.fail_at("clSetKernelArg", T == 9, 0);
        assert_int_equal(clef_plan_run(plan, &err), T == 9 ? CLEF_E_CL : CLEF_OK);
    }
    layer.fail_at(NULL, 0, 0);
    ok(clef_plan_run(plan, &err), &err);
    ok(clef_plan_read(plan, clef_plan_output(plan, "y"), y, sizeof y, &err), &err);
    for (int32_t row = 0; row < 2; row++) {
        float sum = 0;
        for (int32_t i = 0; i < 9; i++)
            sum += y[row * 9 + i];
        assert_true(sum > 0.999f && sum < 1.001f);
    }
    assert_true(y[9] > 0.11f && y[9] < 0.12f); /* of equal numbers */
    clef_plan_destroy(plan);
}

TEST(states_live_and_reset)
{
    clef_error err = {0};
    clef_plan *plan;
    float y[300], seen[12];
    ok(make(&plan, &err), &err);
    for (int32_t p = 0; p < 3; p++) {
        ok(clef_plan_write(plan, clef_plan_input(plan, "p"), &p, sizeof p, &err), &err);
        ok(run_once(plan, p + 1, y, &err), &err);
    }
    ok(clef_plan_read(plan, clef_plan_output(plan, "seen"), seen, sizeof seen, &err), &err);
    static const float want[12] = {-2, -1, 0, 1, 2, 3, 4, -2, -1, 0, 0, 0};
    assert_memory_equal(seen, want, sizeof want);
    ok(clef_plan_reset(plan, &err), &err);
    ok(run_once(plan, 1, y, &err), &err);
    ok(clef_plan_read(plan, clef_plan_output(plan, "seen"), seen, sizeof seen, &err), &err);
    assert_true(seen[0] == 0 && seen[6] == -2);
    clef_plan_destroy(plan);
}

TEST(wrong_use)
{
    clef_error err = {0};
    clef_plan *plan;
    float y[300];
    ok(make(&plan, &err), &err);
    assert_int_equal(clef_plan_input(plan, "nosuch"), -1);
    assert_int_equal(clef_plan_output(plan, "nosuch"), -1);
    assert_int_equal(clef_plan_symbol(plan, "nosuch"), 0);
    assert_int_equal(clef_plan_bind(plan, 0, 1, &err), CLEF_E_ARG);
    assert_int_equal(clef_plan_bind(plan, 1, 101, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "symbol T: 101, expected 1 to 100"));
    assert_int_equal(clef_plan_write(plan, -1, y, 12, &err), CLEF_E_ARG);
    assert_int_equal(clef_plan_write(plan, clef_plan_input(plan, "x"), y, 13, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "input x"));
    assert_int_equal(clef_plan_read(plan, 99, y, 12, &err), CLEF_E_ARG);
    assert_int_equal(clef_plan_read(plan, clef_plan_output(plan, "y"), y, 12, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "output y"));
    clef_plan_destroy(plan);
    clef_plan_destroy(NULL);
}

TEST(missing_weight)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    ok(clef_graph_parse(sum_text, strlen(sum_text), "sum.clef", &g, &err), &err);
    assert_int_equal(clef_plan_create(dev, g, NULL, &plan, &err), CLEF_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "weight w"));
    assert_null(plan);
    clef_graph_destroy(g);
}

/* Stops when `what` has come to its first step after `after` of them. */
typedef struct stopper {
    const char *what;
    int after, seen;
    uint64_t done, total; /* of the last call that was about `what` */
    int is_backwards;
} stopper;

static int stop_in(void *user, const char *what, uint64_t done, uint64_t total)
{
    stopper *s = user;
    if (strcmp(s->what, what) != 0)
        return 0;
    s->is_backwards |= s->seen && (done < s->done || total != s->total);
    s->done = done;
    s->total = total;
    return ++s->seen == s->after;
}

TEST(progress_of_kernels)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    ok(clef_graph_parse(sum_text, strlen(sum_text), "sum.clef", &g, &err), &err);
    stopper all = {.what = "kernels"};
    ok(clef_plan_create(
           dev, g,
           &(clef_plan_opts){.weights = weight, .compile.progress = stop_in, .compile.progress_user = &all},
           &plan, &err),
       &err);
    assert_true(all.seen > clef_plan_describe(plan).n_launches); /* at each launch, at several lengths */
    assert_true(!all.is_backwards && all.done == all.total);
    clef_plan_destroy(plan);

    stopper middle = {.what = "kernels", .after = 3};
    const clef_plan_opts opts = {
        .weights = weight, .compile.progress = stop_in, .compile.progress_user = &middle};
    assert_int_equal(clef_plan_create(dev, g, &opts, &plan, &err), CLEF_E_CANCELLED);
    assert_true(middle.seen == 3 && middle.done == 2);
    assert_null(plan);
    clef_graph_destroy(g);
}

/* A plan keeps what it built: the next device with the same cache folder builds nothing. */
TEST(programs_are_kept)
{
    char dir[] = "/tmp/clef-plan-XXXXXX", command[64];
    clef_error err = {0};
    clef_device *keep = dev;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        clef_plan *plan = NULL;
        clef_status s =
            clef_device_open(getenv("CLEF_TEST_DEVICE"), &(clef_device_opts){.cache_dir = dir}, &dev, &err);
        if (!s)
            s = make(&plan, &err);
        const clef_plan_stats stats = s ? (clef_plan_stats){0} : clef_plan_describe(plan);
        clef_plan_destroy(plan);
        clef_device_close(dev);
        dev = keep;
        ok(s, &err);
        assert_true(i == 0 ? stats.n_kernels_built > 0
                           : stats.n_kernels_built == 0 && stats.n_kernels_cached > 0);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

TEST(profile)
{
    enum { MOST = 64 };
    clef_error err = {0};
    clef_device *keep = dev;
    clef_plan *plan = NULL;
    clef_launch_time times[MOST];
    float y[300];
    double flops = 0, us = 0;
    dev = NULL;
    clef_status s =
        clef_device_open(getenv("CLEF_TEST_DEVICE"), &(clef_device_opts){.profile = 1}, &dev, &err);
    if (!s)
        s = make(&plan, &err);
    if (!s)
        s = run_once(plan, 64, y, &err);
    clef_launch_time few[2] = {{0}};
    few[1].node = "untouched";
    const int32_t n = s ? 0 : clef_plan_profile(plan, times, MOST, &err),
                  one = s ? 0 : clef_plan_profile(plan, few, 1, &err),
                  none = s ? 0 : clef_plan_profile(plan, NULL, 0, &err);
    const clef_plan_stats stats = s ? (clef_plan_stats){0} : clef_plan_describe(plan);
    int named = 1;
    for (int32_t i = 0; i < n; i++) {
        named &= *times[i].node && *times[i].op && *times[i].kernel && times[i].us >= 0;
        flops += times[i].flops;
        us += times[i].us;
    }
    clef_plan_destroy(plan);
    clef_device_close(dev);
    dev = keep;
    ok(s, &err);
    assert_true(n == stats.n_launches && one == n && none == n && n > 2);
    assert_true(few[0].node && strcmp(few[1].node, "untouched") == 0);
    assert_true(named && us > 0);
    assert_true(flops == stats.run_flops);
}

TEST(profile_without_asking)
{
    clef_error err = {0};
    clef_plan *plan;
    clef_launch_time times[4];
    float y[300];
    ok(make(&plan, &err), &err);
    ok(run_once(plan, 5, y, &err), &err);
    assert_int_equal(clef_plan_profile(plan, times, 4, &err), 0);
    clef_plan_destroy(plan);
}

static int stop_at_once(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return ++*(int *)user >= 1;
}

TEST(cancelled)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    int calls = 0;
    ok(clef_graph_parse(sum_text, strlen(sum_text), "sum.clef", &g, &err), &err);
    const clef_plan_opts opts = {
        .weights = weight, .compile.progress = stop_at_once, .compile.progress_user = &calls};
    assert_int_equal(clef_plan_create(dev, g, &opts, &plan, &err), CLEF_E_CANCELLED);
    assert_int_equal(calls, 1);
    clef_graph_destroy(g);
}

TEST(too_large_for_the_device)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    const char *text = "input x f32 [1, 16, 1, 512]\nstate s f32 [1, 16, 500000, 512]\ny = cache_write(s, "
                       "x)\nz = slice(y) axis=2 size=1\noutput z\n";
    ok(clef_graph_parse(text, strlen(text), "large.clef", &g, &err), &err);
    assert_int_equal(clef_plan_create(dev, g, NULL, &plan, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "holds at most"));
    clef_graph_destroy(g);
}

/* ---- injected failures ----------------------------------------------------------------------- */

/* One whole use: device, plan, run. */
static clef_status whole_use(clef_error *err)
{
    clef_device *keep = dev;
    clef_plan *plan = NULL;
    float y[300];
    dev = NULL;
    clef_status s = clef_device_open(getenv("CLEF_TEST_DEVICE"), NULL, &dev, err);
    if (!s)
        s = make(&plan, err);
    if (!s)
        s = run_once(plan, 5, y, err);
    if (!s)
        s = clef_plan_reset(plan, err);
    clef_plan_destroy(plan);
    clef_device_close(dev);
    dev = keep;
    return s;
}

TEST(every_opencl_call_may_fail)
{
    const long live = layer.live(NULL);
    long n = 1;
    for (int done = 0; !done; n++) {
        clef_error err = {0};
        layer.fail_at(NULL, n, 0);
        const clef_status s = whole_use(&err);
        done = layer.count(NULL) < n; /* call n was never reached: all of them succeeded */
        layer.fail_at(NULL, 0, 0);
        assert_true(
            s == CLEF_OK ||
            (err.status == s && *err.text)); /* some calls can fail without harm: the cache, a size hint */
        assert_true(!done || s == CLEF_OK);
        if (layer.live(NULL) != live)
            fail_msg("call %ld failed: %ld objects are left", n, layer.live(NULL) - live);
    }
    assert_true(n > 20);
}

TEST(every_allocation_may_fail)
{
    const long live = layer.live(NULL);
    long n = 1;
    for (int done = 0; !done; n++) {
        clef_error err = {0};
        n_allocations = 0;
        fail_allocation = n;
        const clef_status s = whole_use(&err);
        done = n_allocations < n;
        fail_allocation = 0;
        if (s != CLEF_OK && s != CLEF_E_NOMEM)
            fail_msg("allocation %ld failed: %s: %s", n, clef_status_name(s), err.text);
        assert_true(!done || s == CLEF_OK);
        assert_int_equal(layer.live(NULL), live);
    }
    assert_true(n > 20);
}

/* ---- flushes --------------------------------------------------------------------------------- */

/* A chain of `n` launches, run once; the number of launches before each of its flushes. */
static void run_chain(int32_t n, long flushed[8], clef_error *err)
{
    char text[8192] = "input x f32 [1, 4]\ny0 = softmax(x)\n";
    size_t used = strlen(text);
    static const float x[4] = {1, 2, 3, 4};
    clef_graph *g;
    clef_plan *plan;
    for (int32_t i = 1; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "y%d = softmax(y%d)\n", i, i - 1);
    used += (size_t)snprintf(text + used, sizeof text - used, "output y%d\n", n - 1);
    ok(clef_graph_parse(text, used, "chain.clef", &g, err), err);
    ok(clef_plan_create(dev, g, NULL, &plan, err), err);
    clef_graph_destroy(g);
    ok(clef_plan_write(plan, clef_plan_input(plan, "x"), x, sizeof x, err), err);
    layer.reset();
    ok(clef_plan_run(plan, err), err);
    for (int i = 0; i < 8; i++)
        flushed[i] = layer.flushed(i);
    assert_int_equal(layer.count("clEnqueueNDRangeKernel"), n);
    clef_plan_destroy(plan);
}

/* A GPU begins with the first launches of a step while the host enqueues the others. */
TEST(flushes)
{
    static const struct {
        int32_t n;
        long gpu[8];
    } chains[] = {{15, {15, -1, -1, -1, -1, -1, -1, -1}},
                  {16, {16, -1, -1, -1, -1, -1, -1, -1}},
                  {40, {16, 32, 40, -1, -1, -1, -1, -1}},
                  {96, {16, 36, 56, 76, 96, -1, -1, -1}},
                  {218, {16, 67, 118, 169, 218, -1, -1, -1}}};
    clef_device *keep = dev;
    clef_error err = {0};
    for (int as_gpu = 0; as_gpu < 2; as_gpu++) {
        set_debug("caps", as_gpu ? "-cpu" : NULL);
        ok(clef_device_open(getenv("CLEF_TEST_DEVICE"), NULL, &dev, &err), &err);
        set_debug("caps", NULL);
        for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
            long flushed[8];
            run_chain(chains[i].n, flushed, &err);
            for (int k = 0; k < 8; k++)
                assert_int_equal(flushed[k], !clef_device_describe(dev)->caps.is_cpu ? chains[i].gpu[k]
                                             : k == 0                                ? chains[i].n
                                                                                     : -1);
        }
        clef_device_close(dev);
    }
    dev = keep;
}

/* ---- a warm generation ----------------------------------------------------------------------- */

static long count_all(const char *const *apis)
{
    long n = 0;
    for (; *apis; apis++)
        n += layer.count(*apis);
    return n;
}

static void feed(clef_session *session, int32_t n)
{
    int32_t ids[256];
    const float *logits;
    clef_error err = {0};
    for (int32_t i = 0; i < n; i++)
        ids[i] = 1 + i % 100;
    ok(clef_session_feed(session, ids, n, &logits, &err), &err);
}

/* Prompts of one step and of several, and a failed one, which leaves the session as it was. */
static void feed_prompts(clef_session *session)
{
    clef_error err = {0};
    const float *logits;
    ok(clef_session_reset(session, &err), &err);
    feed(session, 3);
    feed(session, 200);
    assert_int_equal(clef_session_n_past(session), 203);
    static const int32_t ids[] = {1, -1};
    assert_int_equal(clef_session_feed(session, ids, 2, &logits, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_n_past(session), 203);
    ok(clef_session_reset(session, &err), &err);
}

/* A CPU takes a step's launches as one, a fused step, whose list is written anew where more of the cache
 * comes into sight. */
enum { N_TABLES = 4, FUSED_ARGS = 20 };
static int32_t enqueues(int32_t n_launches)
{
    return clef_device_describe(dev)->caps.is_cpu ? 1 : n_launches;
}

/* The same with samples on the device: no write at all but the lists, and of all calls that wait one for each
 * token's 4 bytes. */
static void count_device_samples(clef_session *session, const char *const *makes)
{
    enum { N = 200, PROMPT = 3 };
    static const char *const waits[] = {"clFinish", "clEnqueueMapBuffer", "clGetEventProfilingInfo", NULL};
    const clef_sampler_opts opts = {
        .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .repeat_penalty = 1.1f, .seed = 1};
    const int32_t ids[PROMPT] = {1, 2, 3};
    clef_error err = {0};
    int32_t id;
    for (int warm = 0; warm < 2; warm++) {
        ok(clef_session_reset(session, &err), &err);
        ok(clef_session_generate(session, ids, PROMPT, N + 1, &opts, &err), &err);
        ok(clef_session_next(session, &id, &err), &err);
        layer.reset();
        n_allocations = 0;
        for (int i = 0; i < N; i++)
            ok(clef_session_next(session, &id, &err), &err);
    }
    const int32_t n_launches = clef_session_describe(session).n_launches;
    assert_int_equal(n_allocations, 0);
    assert_int_equal(count_all(makes), 0);
    assert_int_equal(count_all(waits), 0);
    assert_true(layer.count("clEnqueueWriteBuffer") <= N_TABLES);
    assert_int_equal(layer.count("clEnqueueReadBuffer"),
                     N - 1); /* the first was under way; behind the last comes none */
    assert_int_equal(layer.count("clWaitForEvents"), N);
    assert_int_equal(layer.count("clReleaseEvent"), N);
    assert_int_equal(layer.count("clEnqueueNDRangeKernel"), (long)(N - 1) * enqueues(n_launches));
    assert_true(layer.count("clSetKernelArg") <= (long)N_TABLES * (n_launches + FUSED_ARGS));
}

/* 200 tokens with the model at `path`: from the second step on a token costs launches, two small writes, and
 * one read-back. Once their lengths have been seen, prompts make nothing either. */
static void count_generation(const char *path)
{
    static const char *const makes[] = {"clCreateBuffer",
                                        "clCreateSubBuffer",
                                        "clCreateKernel",
                                        "clCreateProgramWithSource",
                                        "clCreateProgramWithBinary",
                                        "clBuildProgram",
                                        NULL};
    enum { N = 200 };
    clef_error err = {0};
    clef_model *model;
    clef_session *session;
    clef_sampler *sampler;
    const float *logits;
    ok(clef_model_open(path, &model, &err), &err);
    ok(clef_session_create(dev, model, &(clef_session_opts){.n_batch = 64}, &session, &err), &err);
    ok(clef_sampler_create(clef_model_hparams(model)->n_vocab, NULL, &sampler, &err), &err);
    feed_prompts(session);
    layer.reset();
    n_allocations = 0;
    feed_prompts(session);
    assert_int_equal(n_allocations, 0);
    assert_int_equal(count_all(makes), 0);
    assert_int_equal(layer.count("clEnqueueReadBuffer"), 2);
    assert_int_equal(layer.count("clEnqueueWriteBuffer"), 2 * 5); /* a step of 3; 64, 64, 64, 8 */
    int32_t id = 1;
    ok(clef_session_feed(session, &id, 1, &logits, &err), &err); /* warm */
    layer.reset();
    n_allocations = 0;
    for (int i = 0; i < N; i++) {
        id = clef_sampler_pick(sampler, logits);
        clef_sampler_accept(sampler, id);
        ok(clef_session_feed(session, &id, 1, &logits, &err), &err);
    }
    assert_int_equal(n_allocations, 0);
    assert_int_equal(count_all(makes), 0);
    assert_int_equal(layer.count("clFinish"), 0);
    assert_int_equal(layer.count("clWaitForEvents"), 0);
    assert_int_equal(layer.count("clEnqueueReadBuffer"), N);
    const int32_t n_launches = clef_session_describe(session).n_launches;
    assert_in_range(layer.count("clEnqueueWriteBuffer"), 2 * N, 2 * N + N_TABLES);
    assert_int_equal(layer.count("clEnqueueNDRangeKernel"), (long)N * enqueues(n_launches));
    /* between the steps at which more of the cache comes into sight no argument changes */
    assert_true(layer.count("clSetKernelArg") <= (long)N_TABLES * (n_launches + FUSED_ARGS));
    clef_sampler_destroy(sampler);
    count_device_samples(session, makes);
    clef_session_destroy(session);
    clef_model_close(model);
}

typedef struct stop_prompt {
    int at, seen;
} stop_prompt;

static int stop_between_steps(void *user, const char *what, uint64_t done, uint64_t total)
{
    stop_prompt *s = user;
    (void)done, (void)total;
    return strcmp(what, "prompt") == 0 && ++s->seen == s->at;
}

/* A prompt that stops midway leaves the session where it was, and able to go on. */
TEST(failed_feed)
{
    clef_error err = {0};
    clef_model *model;
    clef_session *session, *other;
    const float *logits;
    int32_t ids[40], last = 7;
    float want[2];
    stop_prompt stop = {0};
    for (int32_t i = 0; i < 40; i++)
        ids[i] = 1 + i;
    const clef_session_opts opts = {.n_context = 64,
                                    .n_batch = 8,
                                    .compile.progress = stop_between_steps,
                                    .compile.progress_user = &stop};
    ok(clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err), &err);
    set_debug("fused", "0"); /* launches are counted */
    ok(clef_session_create(dev, model, &opts, &session, &err), &err);
    ok(clef_session_create(dev, model, &(clef_session_opts){.n_context = 16, .n_batch = 8}, &other, &err),
       &err);
    ok(clef_session_feed(session, ids, 10, &logits, &err), &err);
    ok(clef_session_feed(session, &last, 1, &logits, &err), &err);
    memcpy(want, logits, sizeof want);

    ok(clef_session_reset(session, &err), &err);
    ok(clef_session_feed(session, ids, 10, &logits, &err), &err);
    stop = (stop_prompt){.at = 2};
    assert_int_equal(clef_session_feed(session, ids, 40, &logits, &err), CLEF_E_CANCELLED);
    assert_null(logits);
    assert_int_equal(clef_session_n_past(session), 10);
    layer.fail_at("clEnqueueNDRangeKernel", clef_session_describe(session).n_launches + 2,
                  0); /* in the second step */
    assert_int_equal(clef_session_feed(session, ids, 40, &logits, &err),
                     CLEF_E_CL); /* the other's plan would be lost with the context */
    layer.fail_at(NULL, 0, 0);
    assert_int_equal(clef_session_n_past(session), 10);
    ok(clef_session_feed(session, &last, 1, &logits, &err), &err);
    assert_memory_equal(logits, want, sizeof want);
    clef_session_destroy(other);
    layer.fail_at("clEnqueueNDRangeKernel", clef_session_describe(session).n_launches + 2,
                  0); /* alone, it gets its device back */
    ok(clef_session_feed(session, ids, 40, &logits, &err), &err);
    layer.fail_at(NULL, 0, 0);
    assert_int_equal(clef_session_n_past(session), 51);
    assert_int_equal(clef_device_reopen(dev, &err), CLEF_E_ARG);
    ok(clef_session_reset(session, &err), &err);
    ok(clef_session_feed(session, ids, 10, &logits, &err), &err);
    ok(clef_session_feed(session, &last, 1, &logits, &err), &err);
    assert_memory_equal(logits, want, sizeof want);
    clef_session_destroy(session);
    set_debug("fused", NULL);
    clef_model_close(model);
}

TEST(warm_generation_of_the_bundled_model)
{
    count_generation(CLEF_SOURCE_DIR "/share/demo");
}

TEST(warm_generation_of_stories260k)
{
    char path[512];
    const char *shared = getenv("CLEF_SHARED");
    snprintf(path, sizeof path, "%s/data/stories260K/stories260K.gguf",
             shared ? shared : CLEF_SOURCE_DIR "/../shared");
    FILE *f = fopen(path, "rb");
    if (!f)
        skip_without("stories260K.gguf");
    fclose(f);
    count_generation(path);
}

TESTS(setup, teardown)

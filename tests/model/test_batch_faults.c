/* Batches: every OpenCL call and allocation of create, add, step and cancel made to fail once. Runs under
 * tests/layers/count_layer.c (OPENCL_LAYERS), with malloc wrapped by the linker. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_graph.h"
#include "tests/debug.h"
#include "tests/failing_alloc.h"
#include "tests/layers/count.h"
#include "tests/model/batch_texts.h"

enum { N_REQUESTS = 3, SHORT_PROMPT = 70 };

static count_layer layer;
static clef_device *dev;
static clef_model *model;
static test_request requests[N_REQUESTS];
static test_text want[N_REQUESTS];

/* ---- a batch's life ------------------------------------------------------------------------------ */

static clef_batch_opts opts = {.n_context = 128,
                               .max_sequences = 2,
                               .step_tokens = 32,
                               .repeatable = 1,
                               .compile = {.no_tune = 1, .no_proof = 1}};

static clef_status add_all(clef_batch *b, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < N_REQUESTS && !s; i++) {
        const clef_request r = request_of(&requests[i], &(test_arrival){0}, i);
        int64_t number;
        s = clef_batch_add(b, &r, &number, err);
    }
    return s;
}

/* Steps until all texts have ended. A step that fails is repeated; its status is returned. */
static clef_status run_all(clef_batch *b, test_text *texts, clef_error *err)
{
    clef_status first = CLEF_OK;
    int32_t n_rows = 1, n_done = 0, n_failed = 0;
    while (n_rows) {
        const clef_status s = clef_batch_step(b, &n_rows, first ? NULL : err);
        first = first ? first : s;
        n_failed += s != CLEF_OK;
        n_rows = s ? 1 : n_rows;
        assert_true(n_failed <= 1);
        keep_tokens(b, texts, &n_done);
    }
    assert_int_equal(n_done, N_REQUESTS);
    return first;
}

/* Fails where the n-th call or allocation does; everything else must go on. */
static clef_status run_with_faults(clef_error *err)
{
    static test_text got[N_REQUESTS];
    clef_batch *b;
    memset(got, 0, sizeof got);
    clef_status s = clef_batch_create(dev, model, &opts, &b, err);
    if (s) {
        assert_null(b);
        return s;
    }
    s = add_all(b, err);
    if (s) {
        clef_batch_destroy(b);
        return s;
    }
    s = run_all(b, got, err);
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        assert_memory_equal(got[i].ids, want[i].ids, sizeof want[i].ids);
        assert_memory_equal(got[i].logprobs, want[i].logprobs, sizeof want[i].logprobs);
    }
    assert_int_equal(clef_batch_describe(b).n_pages_running, 0);
    clef_batch_destroy(b);
    return s;
}

/* What a batch makes. Programs belong to the device, which may come back with fewer or more. */
static const char *const kinds[] = {"mem", "kernel", "event"};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void count_live(long live[N_KINDS])
{
    for (int i = 0; i < N_KINDS; i++)
        live[i] = layer.live(kinds[i]);
}

static void check_live(const long live[N_KINDS])
{
    for (int i = 0; i < N_KINDS; i++)
        assert_int_equal(layer.live(kinds[i]), live[i]);
}

static void every_opencl_call_may_fail(void **state)
{
    long live[N_KINDS], n = 1, failed = 0;
    (void)state;
    count_live(live);
    for (int done = 0; !done; n += n < 400 ? 7 : 61) {
        clef_error err = {0};
        layer.fail_at(NULL, n, 0);
        const clef_status s = run_with_faults(&err);
        done = layer.count(NULL) < n;
        layer.fail_at(NULL, 0, 0);
        failed += s != CLEF_OK;
        assert_true(!s || err.text[0]);
        check_live(live);
    }
    assert_true(failed > 10);
}

static void every_allocation_may_fail(void **state)
{
    long live[N_KINDS], n = 1, failed = 0;
    (void)state;
    count_live(live);
    for (int done = 0; !done; n += n < 200 ? 5 : 43) {
        clef_error err = {0};
        n_allocations = 0;
        fail_allocation = n;
        const clef_status s = run_with_faults(&err);
        done = n_allocations < n;
        fail_allocation = 0;
        failed += s != CLEF_OK;
        assert_true(!s || err.text[0]);
        check_live(live);
    }
    assert_true(failed > 10);
}

/* Steps allocate nothing once their lengths have been seen. */
static void steps_do_not_allocate(void **state)
{
    clef_error err = {0};
    clef_batch *b;
    (void)state;
    clef_batch_opts no_cache = opts;
    no_cache.no_prefix_cache = 1;
    ok(clef_batch_create(dev, model, &no_cache, &b, &err), &err);
    for (int round = 0; round < 2; round++) {
        long during = 0;
        int32_t n_rows = 1;
        clef_batch_token t[8];
        ok(add_all(b, &err), &err);
        while (n_rows) {
            const long before = n_allocations;
            ok(clef_batch_step(b, &n_rows, &err), &err);
            during += n_allocations - before;
            while (clef_batch_take(b, t, 8))
                ;
        }
        assert_true(round == 0 || during == 0);
    }
    clef_batch_destroy(b);
}

static int use_draft(void **state)
{
    clef_error err = {0};
    (void)state;
    opts.draft = model;
    opts.spec_always = 1;
    return clef_model_tokenizer(model, &err) == NULL; /* opened once, by the first batch with a draft */
}

static int use_no_draft(void **state)
{
    (void)state;
    opts.draft = NULL;
    return 0;
}

static int setup(void **state)
{
    clef_error err = {0};
    clef_batch *b;
    (void)state;
    set_debug("fused", "0"); /* PoCL compiles a fused step for seconds */
    dev = test_device();
    if (!dev || !open_count_layer(&layer))
        return 1;
    if (clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err))
        return 1;
    make_requests(clef_model_hparams(model), SHORT_PROMPT, requests, N_REQUESTS);
    ok(clef_batch_create(dev, model, &opts, &b, &err), &err);
    ok(add_all(b, &err), &err);
    ok(run_all(b, want, &err), &err);
    clef_batch_destroy(b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clef_model_close(model);
    clef_device_close(dev);
    return layer.live(NULL) ? 1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_do_not_allocate),
        cmocka_unit_test(every_opencl_call_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test_setup_teardown(steps_do_not_allocate, use_draft, use_no_draft),
        cmocka_unit_test_setup_teardown(every_opencl_call_may_fail, use_draft, use_no_draft),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, use_draft, use_no_draft),
    };
    return cmocka_run_group_tests_name("batch_faults", tests, setup, teardown);
}

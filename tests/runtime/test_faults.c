/* The n-th OpenCL call fails, for each n until none did: loading a model, five tokens, freeing. Each time
 * there is a status with a text, or all went well without the call; no object is left, and the next use is as
 * good as the first. Runs under tests/layers/count_layer.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/layers/count.h"

enum { N_TOKENS = 5 };

static count_layer layer;
static clef_device *dev;
static clef_model *model;

static int setup(void **state)
{
    const char *shared = getenv("CLEF_SHARED");
    char path[1024];
    clef_error err = {0};
    (void)state;
    if (clef_device_open(getenv("CLEF_TEST_DEVICE"), NULL, &dev, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (!open_count_layer(&layer))
        return 1;
    snprintf(path, sizeof path, "%s/data/stories260K/stories260K.gguf", shared ? shared : "");
    FILE *there = fopen(path, "r");
    if (there)
        fclose(there);
    return clef_model_open(there ? path : clef_demo_model(), &model, &err) != CLEF_OK;
}

static int teardown(void **state)
{
    (void)state;
    clef_model_close(model);
    clef_device_close(dev);
    return layer.live && layer.live(NULL) ? 1 : 0;
}

/* A session, five tokens sampled on the device, freed. */
static clef_status use(int32_t ids[N_TOKENS], clef_error *err)
{
    static const int32_t prompt[] = {1, 2, 3};
    clef_session *session = NULL;
    clef_status s = clef_session_create(
        dev, model, &(clef_session_opts){.n_context = 64, .n_batch = 8, .compile.no_tune = 1}, &session, err);
    if (!s)
        s = clef_session_generate(session, prompt, 3, N_TOKENS, NULL, err);
    for (int32_t i = 0; i < N_TOKENS && !s; i++)
        s = clef_session_next(session, &ids[i], err);
    clef_session_destroy(session);
    return s;
}

/* But those of the device itself: one that comes back has only the programs that it was asked for since, one
 * that does not has nothing. */
static long others_live(void)
{
    return layer.live(NULL) - layer.live("program") - layer.live("context") - layer.live("queue");
}

static void check_failure(clef_status s, const clef_error *err, long n, long live, const int32_t *want,
                          const int32_t *got)
{
    if (s && (err->status != s || !*err->text))
        fail_msg("call %ld failed: status %s without a text", n, clef_status_name(s));
    if (!s && memcmp(want, got, N_TOKENS * sizeof *want) != 0)
        fail_msg("call %ld failed: no status, and other tokens", n);
    if (others_live() != live)
        fail_msg("call %ld failed: %ld objects are left", n, others_live() - live);
}

/* sticky: that call and all behind it, as of a lost device. step: only every so many calls. */
static void walk(int sticky, long step)
{
    int32_t want[N_TOKENS], ids[N_TOKENS];
    clef_error err = {0};
    assert_int_equal(use(want, &err), CLEF_OK);
    const long live = others_live();
    long n = 1, failed = 0;
    for (int done = 0; !done; n += done ? 0 : step) {
        err = (clef_error){0};
        layer.fail_at(NULL, n, sticky);
        const clef_status s = use(ids, &err);
        done = layer.count(NULL) < n; /* it was never reached */
        layer.fail_at(NULL, 0, 0);
        failed += s != CLEF_OK;
        check_failure(s, &err, n, live, want, ids);
    }
    print_message("%ld calls, every %ld made to fail%s: %ld statuses\n", n, step,
                  sticky ? " with all behind it" : "", failed);
    assert_true(failed > 50 / step);
    assert_int_equal(use(ids, &err), CLEF_OK);
    assert_memory_equal(want, ids, sizeof want);
}

TEST(each_call)
{
    walk(0, 1);
}

TEST(a_lost_device)
{
    walk(1, 7);
}

TESTS(setup, teardown)

/* A fused step that a child builds: the plan takes it over while a text is being written, which stays the
 * same; later plans have it at once. Counts launches with tests/layers/count_layer.c (OPENCL_LAYERS). */
#define _POSIX_C_SOURCE 200809L /* nanosleep, setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clef/generate.h"
#include "clef/plan.h"
#include "tests/check.h"
#include "tests/debug.h"
#include "tests/layers/count.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

enum { N = 48, MAX_ROUNDS = 400, TOKEN_MS = 5 };
static count_layer layer;
static clef_model *model;
static char dir[64], notice[400];

static void note(void *user, const char *text)
{
    (void)user;
    snprintf(notice, sizeof notice, "%s", text);
}

static clef_device *open_device(void)
{
    clef_error err = {0};
    clef_device *dev = NULL;
    const clef_device_opts opts = {.cache_dir = dir, .prover = getenv("CLEF"), .notice = note};
    if (clef_device_open(getenv("CLEF_TEST_DEVICE"), &opts, &dev, &err))
        fail_msg("%s", err.text);
    return dev;
}

static clef_session *make(clef_device *dev)
{
    clef_error err = {0};
    clef_session *session = NULL;
    const clef_session_opts opts = {.n_context = 128, .n_batch = 4, .compile.no_tune = 1};
    if (clef_session_create(dev, model, &opts, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

/* N tokens from the start, each after a while. Returns how many launches were enqueued. */
static long generate(clef_session *session, int32_t ids[N], long pause_ms)
{
    const struct timespec pause = {0, pause_ms * 1000000};
    const int32_t first = 3;
    clef_error err = {0};
    layer.reset();
    if (clef_session_reset(session, &err) || clef_session_generate(session, &first, 1, N, NULL, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < N; i++) {
        if (clef_session_next(session, &ids[i], &err))
            fail_msg("%s", err.text);
        nanosleep(&pause, NULL);
    }
    return layer.count("clEnqueueNDRangeKernel");
}

static int setup(void **state)
{
    clef_error err = {0};
    (void)state;
    snprintf(dir, sizeof dir, "fused-%d", (int)getpid());
    set_debug("background", "1");
    if (clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err))
        return 1;
    clef_device_close(open_device()); /* the loader has started */
    if (!getenv("CLEF")) {
        fprintf(stderr, "needs CLEF, the command (ctest sets it)\n");
        return 1;
    }
    return !open_count_layer(&layer);
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    clef_model_close(model);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    const struct timespec pause = {0, 200000000};
    int left = 1;
    for (int i = 0; i < 50 && left; i++) { /* provers may be writing there still */
        left = system(command) != 0;
        nanosleep(&pause, NULL);
    }
    return left;
}

TEST(taken_over)
{
    int32_t want[N], ids[N];
    clef_device *dev = open_device();
    if (!clef_device_describe(dev)->caps.is_cpu) {
        clef_device_close(dev);
        skip();
    }
    set_debug("fused", "0");
    clef_session *session = make(dev);
    const long plain = generate(session, want, 0);
    clef_session_destroy(session);
    set_debug("fused", NULL);

    session = make(dev);
    long n = generate(session, ids, 0);
    assert_memory_equal(ids, want, sizeof want);
    assert_int_equal(n, plain); /* a child takes seconds */
    int round = 0;
    for (; round < MAX_ROUNDS && n > 2 * N; round++) {
        n = generate(session, ids, TOKEN_MS);
        assert_memory_equal(ids, want, sizeof want);
    }
    assert_true(round < MAX_ROUNDS);
    assert_true(plain > 10 * n);
    clef_session_destroy(session);

    session = make(dev); /* another of this device, then of the next start */
    assert_true(generate(session, ids, 0) <= n);
    assert_memory_equal(ids, want, sizeof want);
    clef_session_destroy(session);
    clef_device_close(dev);
    dev = open_device();
    session = make(dev);
    assert_int_equal(clef_session_describe(session).n_kernels_built, 0);
    assert_true(generate(session, ids, 0) <= n);
    assert_memory_equal(ids, want, sizeof want);
    clef_session_destroy(session);
    clef_device_close(dev);
    assert_string_equal(notice, "");
}

TESTS(setup, teardown)

/* Proof at use: kernels that a plan did not want when it was made are proven before the run that wants them.
 * The prover is the command. */
#define _POSIX_C_SOURCE 200809L /* popen, setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clef/generate.h"
#include "clef/plan.h"
#include "tests/check.h"
#include "tests/debug.h"

enum { COLUMNS = 64, ROWS = 32, MOST = 40 };
/* One row takes a kernel of its own, many take another. */
static const char product[] =
    "symbol T <= 40\ninput x f32 [T, 64]\nweight w f32 [32, 64]\ny = matmul(x, w) transpose_b=1\noutput y\n";
static float w[ROWS * COLUMNS], x[MOST * COLUMNS], y[MOST * ROWS];
static int notices;
static char notice[400];

static void note(void *user, const char *text)
{
    (void)user;
    notices++;
    snprintf(notice, sizeof notice, "%s", text);
}

static const void *weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user, (void)name, (void)dtype;
    return n_bytes == sizeof w ? w : NULL;
}

static clef_device *open_device(const char *folder)
{
    char dir[200];
    clef_error err = {0};
    clef_device *dev = NULL;
    snprintf(dir, sizeof dir, "proof-%d-%s", (int)getpid(), folder);
    const clef_device_opts opts = {
        .cache_dir = dir, .prover = getenv("CLEF"), .notice = note, .no_background = 1};
    if (clef_device_open(getenv("CLEF_TEST_DEVICE"), &opts, &dev, &err))
        fail_msg("%s", err.text);
    notices = 0;
    return dev;
}

static clef_plan *make(clef_device *dev)
{
    clef_error err = {0};
    clef_graph *g = NULL;
    clef_plan *plan = NULL;
    const clef_plan_opts opts = {.compile.gemm = CLEF_GEMM_OWN,
                                 .as_stored = 1,
                                 .compile.no_tune = 1,
                                 .expected_length = 1,
                                 .weights = weight};
    if (clef_graph_parse(product, strlen(product), "product", &g, &err) ||
        clef_plan_create(dev, g, &opts, &plan, &err))
        fail_msg("%s", err.text);
    clef_graph_destroy(g);
    return plan;
}

/* The product of T rows, and its error against the sum in double. */
static clef_status run(clef_plan *plan, int32_t T, clef_error *err)
{
    clef_status s = clef_plan_bind(plan, clef_plan_symbol(plan, "T"), T, err);
    if (!s)
        s = clef_plan_write(plan, clef_plan_input(plan, "x"), x, (size_t)T * COLUMNS * sizeof *x, err);
    if (!s)
        s = clef_plan_run(plan, err);
    if (!s)
        s = clef_plan_read(plan, clef_plan_output(plan, "y"), y, (size_t)T * ROWS * sizeof *y, err);
    for (int32_t t = 0; t < T && !s; t++)
        for (int32_t r = 0; r < ROWS; r++) {
            double sum = 0;
            for (int32_t k = 0; k < COLUMNS; k++)
                sum += (double)x[t * COLUMNS + k] * (double)w[r * COLUMNS + k];
            assert_true((double)y[t * ROWS + r] - sum < 1e-4 && sum - (double)y[t * ROWS + r] < 1e-4);
        }
    return s;
}

/* How many kernels are known to be right. */
static int32_t n_right(clef_device *dev, const char *folder)
{
    char command[400];
    int32_t n = -1;
    (void)dev;
    snprintf(command, sizeof command, "cat proof-%d-%s/proof/*.txt | grep -c ' right '", (int)getpid(),
             folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

static void remove_cache(const char *folder)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf proof-%d-%s", (int)getpid(), folder);
    assert_int_equal(system(command), 0);
}

static void test_right_at_use(void **state)
{
    (void)state;
    clef_error err = {0};
    clef_device *dev = open_device("right");
    clef_plan *plan = make(dev);
    const int32_t made = n_right(dev, "right");
    assert_true(made > 0);
    assert_int_equal(run(plan, 1, &err), CLEF_OK);
    assert_int_equal(n_right(dev, "right"), made);
    assert_int_equal(run(plan, MOST, &err), CLEF_OK);
    const int32_t used = n_right(dev, "right");
    assert_true(used > made);
    assert_int_equal(run(plan, MOST - 1, &err), CLEF_OK); /* the same kernels */
    assert_int_equal(n_right(dev, "right"), used);
    assert_int_equal(notices, 0);
    clef_plan_destroy(plan);
    clef_device_close(dev);
    remove_cache("right");
}

/* The last variant of an op fails where many rows want it: that run says so, and one row goes on. */
static void test_wrong_at_use(void **state)
{
    (void)state;
    clef_error err = {0};
    clef_device *dev = open_device("wrong");
    clef_plan *plan = make(dev);
    set_debug("break", "matmul.gemm=wrong");
    assert_int_equal(run(plan, MOST, &err), CLEF_E_DEVICE);
    assert_non_null(strstr(err.text, "the kernels of matmul fail"));
    assert_int_equal(notices, 1);
    assert_non_null(strstr(notice, "matmul gemm gives wrong numbers"));
    assert_int_equal(run(plan, MOST, &err), CLEF_E_DEVICE); /* remembered */
    assert_int_equal(notices, 1);
    assert_int_equal(run(plan, 1, &err), CLEF_OK);
    set_debug("break", NULL);
    clef_plan_destroy(plan);
    clef_device_close(dev);
    remove_cache("wrong");
}

static int stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)done, (void)total;
    return strcmp(what, "proof") == 0;
}

/* Whoever waits can stop it; what was proven until then counts, and the next time it goes on. */
static void test_cancelled(void **state)
{
    (void)state;
    clef_error err = {0};
    clef_graph *g = NULL;
    clef_plan *plan = NULL;
    clef_device *dev = open_device("stop");
    clef_plan_opts opts = {.compile.gemm = CLEF_GEMM_OWN,
                           .as_stored = 1,
                           .compile.no_tune = 1,
                           .weights = weight,
                           .compile.progress = stop};
    assert_int_equal(clef_graph_parse(product, strlen(product), "product", &g, &err), CLEF_OK);
    assert_int_equal(clef_plan_create(dev, g, &opts, &plan, &err), CLEF_E_CANCELLED);
    opts.compile.progress = NULL;
    assert_int_equal(clef_plan_create(dev, g, &opts, &plan, &err), CLEF_OK);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
    clef_device_close(dev);
    remove_cache("stop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_at_use),
        cmocka_unit_test(test_wrong_at_use),
        cmocka_unit_test(test_cancelled),
    };
    unsetenv("CLEF_PROOF");
    set_debug("variant", NULL);
    for (int32_t i = 0; i < ROWS * COLUMNS; i++)
        w[i] = (float)(i * 7 % 13) / 13 - 0.5f;
    for (int32_t i = 0; i < MOST * COLUMNS; i++)
        x[i] = (float)(i * 5 % 11) / 11 - 0.5f;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

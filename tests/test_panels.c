/* What a plan makes of products with weights: panels give what the stored weights give; 8-bit activations stay within 1 % of a row's norm.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/pass.h"
#include "run_graph.h"

enum { M = 29, N = 150, K = 256 };

static clef_device *dev;
static float x[M * K], decoded[N * K];
static unsigned char stored[N * K * 4];
static int32_t n_released;

static const void *source(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user, (void)dtype;
    return strcmp(name, "w") == 0 && n_bytes <= sizeof stored ? stored : NULL;
}

static void released(void *user, const char *name)
{
    (void)user;
    assert_string_equal(name, "w");
    n_released++;
}

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (1 << 23) - 1;
}

static void fill(clef_dtype dtype)
{
    uint32_t state = 42;
    for (int i = 0; i < N * K; i++)
        decoded[i] = noise(&state);
    for (int i = 0; i < M * K; i++)
        x[i] = noise(&state) + noise(&state) + noise(&state); /* nearly normal */
    clef_dtype_encode(dtype, decoded, N * K, stored);
    clef_dtype_decode(dtype, stored, N * K, decoded);
}

static void product(clef_dtype dtype, const clef_plan_opts *opts, int32_t m, float *y)
{
    char text[256];
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan = NULL;
    snprintf(text, sizeof text, "symbol T <= %d\ninput x f32 [T, %d]\nweight w %s [%d, %d]\ny = matmul(x, w) transpose_b=1\noutput y\n", M,
             K, clef_dtype_name(dtype), N, K);
    clef_status s = clef_graph_parse(text, strlen(text), "product", &g, &err);
    if (!s)
        s = clef_plan_create(dev, g, opts, &plan, &err);
    if (!s)
        s = clef_plan_bind(plan, 1, m, &err);
    if (!s)
        s = clef_plan_write(plan, 0, x, (size_t)m * K * sizeof *x, &err);
    if (!s)
        s = clef_plan_run(plan, &err);
    if (!s)
        s = clef_plan_read(plan, 0, y, (size_t)m * N * sizeof *y, &err);
    if (s)
        fail_msg("%s: %s", clef_dtype_name(dtype), err.text);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

/* The largest error of a row, relative to the row's norm over the square root of its length. */
static double worst_row(const float *y, int32_t m)
{
    double worst = 0;
    for (int32_t t = 0; t < m; t++) {
        double norm = 0, error = 0;
        for (int32_t r = 0; r < N; r++) {
            double want = 0;
            for (int32_t k = 0; k < K; k++)
                want += (double)x[t * K + k] * (double)decoded[r * K + k];
            norm += want * want;
            error += ((double)y[t * N + r] - want) * ((double)y[t * N + r] - want);
        }
        worst = fmax(worst, sqrt(error / norm));
    }
    return worst;
}

static void products(void **state)
{
    static const clef_dtype dtypes[] = {CLEF_F32,  CLEF_F16,  CLEF_BF16, CLEF_Q8_0, CLEF_Q4_0,   CLEF_Q4_1,
                                        CLEF_Q5_0, CLEF_Q5_1, CLEF_Q4_K, CLEF_Q5_K, CLEF_Q6_K, CLEF_IQ4_NL, CLEF_MXFP4};
    static const int32_t ms[] = {13, 1, 2, 7, 12, 29};
    static float y[M * N];
    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        fill(dtypes[d]);
        const int quantised = clef_dtype_block_elems(dtypes[d]) > 1;
        const size_t n_ms = dtypes[d] <= CLEF_Q4_0 ? sizeof ms / sizeof *ms : 1; /* the others differ by how they are read alone */
        for (size_t i = 0; i < n_ms; i++) {
            product(dtypes[d], &(clef_plan_opts){.as_stored = 1, .weights = source}, ms[i], y);
            assert_true(worst_row(y, ms[i]) < 1e-5);
            product(dtypes[d], &(clef_plan_opts){.exact = 1, .weights = source}, ms[i], y);
            assert_true(worst_row(y, ms[i]) < 1e-5);
            product(dtypes[d], &(clef_plan_opts){.weights = source}, ms[i], y);
            assert_true(worst_row(y, ms[i]) < (quantised ? 1e-2 : 1e-5));
        }
    }
}

/* The source hears of a packed weight once, and of one used as it is stored never. */
static void sources_are_told(void **state)
{
    static float y[M * N];
    (void)state;
    fill(CLEF_F16);
    n_released = 0;
    product(CLEF_F16, &(clef_plan_opts){.as_stored = 1, .weights = source, .release = released}, 1, y);
    assert_int_equal(n_released, 0);
    product(CLEF_F16, &(clef_plan_opts){.weights = source, .release = released}, 1, y);
    assert_int_equal(n_released, clef_device_describe(dev)->caps.is_cpu ? 1 : 0);
}

static int count(const clef_graph *g, const char *op)
{
    int n = 0;
    for (int32_t i = 0; i < clef_graph_n_values(g); i++) {
        const char *name = clef_value_describe(clef_graph_value(g, i)).op;
        n += name && strcmp(name, op) == 0;
    }
    return n;
}

/* Products with one weight share its panels; an embedding keeps the stored rows. */
static void shares(void **state)
{
    static const char text[] =
        "input i i32 [2]\nweight e q8_0 [64, 32]\nweight w q4_0 [32, 32]\nx = gather(e, i)\na = matmul(x, w) transpose_b=1\n"
        "b = matmul(x, w) transpose_b=1 alpha=2\nc = add(a, b)\ny = matmul(c, e) transpose_b=1\noutput y\n";
    static const clef_caps cpu = {.is_cpu = 1}, gpu = {.is_gpu = 1};
    clef_error err = {0};
    clef_graph *g;
    (void)state;
    for (int gpu_too = 0; gpu_too < 2; gpu_too++) {
        assert_int_equal(clef_graph_parse(text, sizeof text - 1, "shares", &g, &err), CLEF_OK);
        assert_int_equal(clef__pass_choose(g, gpu_too ? &gpu : &cpu, CLEF_GEMM_AUTO, 0, &err), CLEF_OK);
        assert_int_equal(count(g, "panel_matmul"), gpu_too ? 0 : 3);
        assert_int_equal(count(g, "pack"), gpu_too ? 0 : 2);
        assert_int_equal(count(g, "gather"), 1);
        assert_int_equal(clef_graph_optimize(g, "verify", &err), CLEF_OK);
        clef_graph_destroy(g);
    }
}

static int setup(void **state)
{
    (void)state;
    dev = test_device();
    return !dev;
}

static int teardown(void **state)
{
    (void)state;
    clef_device_close(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(sources_are_told), cmocka_unit_test(shares)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

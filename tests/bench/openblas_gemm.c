/* openblas_gemm MxNxK [..]: GFLOP/s of OpenBLAS's sgemm and of clef's f32 product with a weight, round by
 * round in turn, on the device of CLEF_DEVICE. Both take as many threads as the device has units. For
 * developers; no test. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clef/clef.h"

void openblas_set_num_threads(int n); /* not every cblas.h declares it */

enum { ROUNDS = 12 };
static const double ROUND_SECONDS = 0.1;

typedef struct contest {
    int m, n, k;
    float *x, *w, *y, *z; /* [m, k], [n, k], results [m, n] of OpenBLAS and of clef */
    clef_plan *plan;
    int32_t first, all; /* outputs: a row, and the whole result */
} contest;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double by_openblas(contest *c, int repeats)
{
    const double start = now();
    for (int i = 0; i < repeats; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, c->m, c->n, c->k, 1, c->x, c->k, c->w, c->k, 0,
                    c->y, c->n);
    return now() - start;
}

static double by_clef(contest *c, int repeats, clef_error *err)
{
    const double start = now();
    for (int i = 0; i < repeats; i++)
        if (clef_plan_run(c->plan, err) != CLEF_OK)
            return 0;
    return clef_plan_read(c->plan, c->first, c->z, sizeof(float) * (size_t)c->n, err) == CLEF_OK
               ? now() - start
               : 0;
}

static const void *weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)name;
    (void)dtype;
    (void)n_bytes;
    return ((contest *)user)->w;
}

static clef_status make_plan(contest *c, clef_device *dev, clef_error *err)
{
    clef_graph *g = clef_graph_create();
    if (!g)
        return CLEF_E_NOMEM;
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_2(clef_n(c->m), clef_n(c->k)));
    clef_value *w = clef_weight(g, "w", CLEF_F32, clef_shape_2(clef_n(c->n), clef_n(c->k)));
    clef_value *y = clef_matmul(g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1});
    clef_output(g, "first", clef_copy(g, clef_slice(g, y, &(clef_slice_opts){.size = clef_n(1)})));
    clef_output(g, "all", y);
    clef_status s = clef_graph_error(g, err);
    if (s == CLEF_OK)
        s = clef_plan_create(
            dev, g, &(clef_plan_opts){.compile.gemm = CLEF_GEMM_OWN, .weights = weight, .weights_user = c},
            &c->plan, err);
    clef_graph_destroy(g);
    if (s != CLEF_OK)
        return s;
    c->first = clef_plan_output(c->plan, "first");
    c->all = clef_plan_output(c->plan, "all");
    return clef_plan_write(c->plan, clef_plan_input(c->plan, "x"), c->x,
                           sizeof(float) * (size_t)c->m * (size_t)c->k, err);
}

/* The largest difference of the two results in parts of the largest element; also warms both up. */
static clef_status compare(contest *c, double *difference, clef_error *err)
{
    const size_t n = (size_t)c->m * (size_t)c->n;
    double largest = 0, error = 0;
    by_openblas(c, 1);
    clef_status s = clef_plan_run(c->plan, err);
    if (s == CLEF_OK)
        s = clef_plan_read(c->plan, c->all, c->z, n * sizeof *c->z, err);
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)c->y[i]));
        error = fmax(error, fabs((double)c->y[i] - (double)c->z[i]));
    }
    *difference = largest > 0 ? error / largest : error;
    return s;
}

static clef_status hold(contest *c, clef_device *dev, clef_error *err)
{
    const double flops = 2e-9 * c->m * c->n * c->k;
    double best[2] = {0, 0}, sum[2] = {0, 0}, difference = 0;
    clef_status s = make_plan(c, dev, err);
    if (s == CLEF_OK)
        s = compare(c, &difference, err);
    if (s != CLEF_OK)
        return s;
    const double once = by_openblas(c, 1);
    const int repeats = once < ROUND_SECONDS ? (int)(ROUND_SECONDS / once) : 1;
    for (int round = 0; round < ROUNDS; round++) {
        const double seconds[2] = {by_openblas(c, repeats), by_clef(c, repeats, err)};
        if (seconds[1] <= 0)
            return CLEF_E_CL;
        for (int i = 0; i < 2; i++) {
            best[i] = fmax(best[i], flops * repeats / seconds[i]);
            sum[i] += flops * repeats / seconds[i];
        }
    }
    printf("%dx%dx%d: OpenBLAS %.1f GFLOP/s (mean %.1f), clef %.1f (%.1f): %.2f times, difference %.1e\n",
           c->m, c->n, c->k, best[0], sum[0] / ROUNDS, best[1], sum[1] / ROUNDS, best[1] / best[0],
           difference);
    return CLEF_OK;
}

static int contest_of(const char *text, clef_device *dev)
{
    contest c = {0};
    clef_error err = {0};
    if (sscanf(text, "%dx%dx%d", &c.m, &c.n, &c.k) != 3 || c.m < 1 || c.n < 1 || c.k < 1 || c.m > 16384 ||
        c.n > 16384 || c.k > 16384) {
        fprintf(stderr, "%s: expected MxNxK, sides of 1 to 16384\n", text);
        return 1;
    }
    const size_t m = (size_t)c.m, n = (size_t)c.n, k = (size_t)c.k;
    c.x = malloc(m * k * sizeof *c.x);
    c.w = malloc(n * k * sizeof *c.w);
    c.y = malloc(m * n * sizeof *c.y);
    c.z = malloc(m * n * sizeof *c.z);
    clef_status s = CLEF_E_NOMEM;
    if (c.x && c.w && c.y && c.z) {
        for (size_t i = 0; i < m * k; i++)
            c.x[i] = (float)(i * 7 % 61) / 61 - 0.5f;
        for (size_t i = 0; i < n * k; i++)
            c.w[i] = (float)(i * 5 % 59) / 59 - 0.5f;
        s = hold(&c, dev, &err);
    }
    if (s != CLEF_OK)
        fprintf(stderr, "%s: %s\n", text, err.text[0] ? err.text : clef_status_text(s));
    clef_plan_destroy(c.plan);
    free(c.x);
    free(c.w);
    free(c.y);
    free(c.z);
    return s != CLEF_OK;
}

int main(int argc, char **argv)
{
    clef_device *dev = NULL;
    clef_error err = {0};
    int failed = 0;
    if (clef_device_open(getenv("CLEF_DEVICE"), NULL, &dev, &err) != CLEF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    openblas_set_num_threads(clef_device_describe(dev)->caps.n_units);
    for (int i = 1; i < argc; i++)
        failed |= contest_of(argv[i], dev);
    clef_device_close(dev);
    return failed;
}

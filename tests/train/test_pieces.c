/* clef_linear_cross_entropy() in pieces of the vocabulary: the loss and the gradients are those of all logits
 * at once, in less memory. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run_graph.h"
#include "tests/check.h"

enum { ROWS = 96, WIDTH = 24, VOCABULARY = 4001, N_PARAMETERS = 3 };

static clef_device *device;

/* Numbers between -1/2 and 1/2 that depend on the name alone. */
static const void *starting_values(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    static float x[VOCABULARY * WIDTH];
    uint32_t state = (uint32_t)name[0];
    (void)user;
    assert_int_equal(dtype, CLEF_F32);
    assert_true(n_bytes <= sizeof x);
    for (size_t i = 0; i < n_bytes / sizeof *x; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    return x;
}

static clef_graph *make_graph(int32_t pieces)
{
    clef_graph *g = clef_graph_create();
    assert_non_null(g);
    clef_value *in = clef_input(g, "x", CLEF_F32, clef_shape_2(clef_n(ROWS), clef_n(WIDTH))),
               *labels = clef_input(g, "labels", CLEF_I32, clef_shape_1(clef_n(ROWS))),
               *turn = clef_weight(g, "turn", CLEF_F32, clef_shape_2(clef_n(WIDTH), clef_n(WIDTH))),
               *out = clef_weight(g, "out", CLEF_F32, clef_shape_2(clef_n(VOCABULARY), clef_n(WIDTH))),
               *bias = clef_weight(g, "bias", CLEF_F32, clef_shape_1(clef_n(VOCABULARY)));
    clef_value *x = clef_matmul(g, in, turn, NULL, &(clef_matmul_opts){.transpose_b = 1});
    clef_value *losses = clef_linear_cross_entropy(
        g, x, out, bias, labels, &(clef_linear_cross_entropy_opts){.alpha = 3, .pieces = pieces});
    clef_value *sum = clef_sum_axes(g, losses, &(clef_sum_axes_opts){1});
    clef_output(g, "loss", clef_reshape(g, sum, (clef_shape){0}));
    return g;
}

typedef struct result {
    double loss, evaluated;
    float *gradients[N_PARAMETERS];
    int64_t n[N_PARAMETERS];
    uint64_t activation_bytes;
} result;

static void run(int32_t pieces, const clef_train_opts *wanted, result *out)
{
    float x[ROWS * WIDTH];
    int32_t labels[ROWS];
    clef_train_opts opts = *wanted;
    clef_train_result step;
    clef_trainer *t;
    clef_error err = {0};
    clef_graph *g = make_graph(pieces);
    memcpy(x, starting_values(NULL, "x", CLEF_F32, sizeof x), sizeof x);
    for (int i = 0; i < ROWS; i++) /* some do not count */
        labels[i] = i % 7 == 3 ? -1 : i * 41 % VOCABULARY;
    labels[0] = VOCABULARY - 1;
    opts.weights = starting_values;
    opts.compile.no_tune = 1;
    ok(clef_trainer_create(device, g, "loss", &opts, &t, &err), &err);
    ok(clef_trainer_write(t, "x", x, sizeof x, &err), &err);
    ok(clef_trainer_write(t, "labels", labels, sizeof labels, &err), &err);
    ok(clef_trainer_evaluate(t, &out->evaluated, &err), &err);
    ok(clef_trainer_add(t, &err), &err);
    assert_int_equal(clef_trainer_n_parameters(t), N_PARAMETERS);
    for (int32_t i = 0; i < N_PARAMETERS; i++) {
        out->n[i] = clef_trainer_parameter(t, i).n;
        out->gradients[i] = malloc((size_t)out->n[i] * sizeof(float));
        assert_non_null(out->gradients[i]);
        ok(clef_trainer_read(t, i, CLEF_TRAIN_GRADIENT, out->gradients[i], out->n[i], &err), &err);
    }
    ok(clef_trainer_update(t, &step, &err), &err);
    out->loss = step.loss;
    out->activation_bytes = clef_trainer_describe(t).activation_bytes;
    clef_trainer_destroy(t);
    clef_graph_destroy(g);
}

static void finish(result *r)
{
    for (int i = 0; i < N_PARAMETERS; i++)
        free(r->gradients[i]);
}

/* The largest difference of a gradient, relative to the largest element. */
static double distance(const float *a, const float *b, int64_t n)
{
    double most = 0, apart = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i]));
        apart = fmax(apart, fabs((double)a[i] - (double)b[i]));
    }
    return apart / most;
}

static void compare(int32_t pieces, const clef_train_opts *opts, double tolerance)
{
    result whole, cut;
    run(1, opts, &whole);
    run(pieces, opts, &cut);
    assert_true(whole.loss > (double)ROWS); /* there is something to compare */
    assert_true(fabs(cut.loss - whole.loss) < tolerance * whole.loss);
    assert_true(fabs(cut.evaluated - whole.evaluated) < 1e-5 * whole.evaluated);
    for (int i = 0; i < N_PARAMETERS; i++) {
        assert_int_equal(cut.n[i], whole.n[i]);
        assert_true(distance(whole.gradients[i], cut.gradients[i], whole.n[i]) < tolerance);
    }
    finish(&whole);
    finish(&cut);
}

static void test_values(void **state)
{
    clef_train_opts opts = clef_train_defaults();
    (void)state;
    compare(2, &opts, 1e-5);
    compare(7, &opts, 1e-5);
    opts.recompute = 1;
    compare(7, &opts, 1e-5);
}

static void test_half(void **state)
{
    clef_train_opts opts = clef_train_defaults();
    (void)state;
    opts.compute = CLEF_BF16;
    compare(7, &opts, 2e-2);
}

/* Neither the logits nor their gradient are there as a whole. */
static void test_memory(void **state)
{
    const uint64_t logits = (uint64_t)ROWS * VOCABULARY * sizeof(float);
    const clef_train_opts opts = clef_train_defaults();
    result whole, cut;
    (void)state;
    run(1, &opts, &whole);
    run(32, &opts, &cut);
    assert_true(whole.activation_bytes > 2 * logits); /* of the gradients' plan, and of the evaluation's */
    assert_true(cut.activation_bytes < logits);
    finish(&whole);
    finish(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_half),
                                       cmocka_unit_test(test_memory)};
    device = test_device();
    const int code = cmocka_run_group_tests(tests, NULL, NULL);
    clef_device_close(device);
    return code;
}

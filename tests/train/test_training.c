/* Training against PyTorch: the first gradients, the losses, the norms of the gradients and the final weights
 * of a tiny GPT-2 and a tiny Llama (../shared/oracle/training, made by its make_training.py). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"
#include "run_graph.h"
#include "tests/check.h"

typedef struct run {
    clef_model *model;
    clef_tensor_file *wanted;
    clef_graph *graph;
    clef_trainer *trainer;
    int32_t *batches;
    int n_steps, n_rows, n_tokens; /* n_tokens: of a row, without the last label */
    double most;                   /* a larger error of a gradient is printed */
} run;

static clef_device *device;

static void check(clef_status s, const clef_error *err)
{
    if (s)
        fail_msg("%s", err->text);
}

/* The tensor `name` as f32 or i32; the caller frees it. */
static void *read_tensor(const run *r, const char *name, clef_dtype as, size_t *n)
{
    clef_error err;
    const int32_t i = clef_tensor_file_find(r->wanted, name);
    if (i < 0)
        fail_msg("training.safetensors has no %s", name);
    const clef_tensor_info info = clef_tensor_file_get(r->wanted, i);
    *n = 1;
    for (int32_t k = 0; k < info.rank; k++)
        *n *= (size_t)info.dims[k];
    void *data = malloc(*n * 4 + 4);
    assert_non_null(data);
    check(clef_tensor_file_read(r->wanted, i, as, data, *n, &err), &err);
    return data;
}

/* opts: NULL, or what is not default. */
static void open_run(run *r, const char *family, const clef_train_opts *wanted)
{
    char path[512];
    clef_error err = {0};
    size_t n;
    *r = (run){.most = 1e-4};
    snprintf(path, sizeof path, "%s/oracle/training/%s", getenv("CLEF_SHARED"), family);
    check(clef_model_open(path, &r->model, &err), &err);
    snprintf(path, sizeof path, "%s/oracle/training/%s/training.safetensors", getenv("CLEF_SHARED"), family);
    check(clef_tensor_file_open(path, &r->wanted, &err), &err);
    const clef_tensor_info info =
        clef_tensor_file_get(r->wanted, clef_tensor_file_find(r->wanted, "batches"));
    r->n_steps = (int)info.dims[0];
    r->n_rows = (int)info.dims[1];
    r->n_tokens = (int)info.dims[2] - 1;
    r->batches = read_tensor(r, "batches", CLEF_I32, &n);
    const clef_build_opts build = {.train = 1, .n_sequences = r->n_rows, .n_batch = r->n_tokens};
    check(clef_model_build(r->model, &build, &r->graph, &err), &err);
    clef_train_opts opts = wanted ? *wanted : clef_train_defaults();
    opts.weights = clef_model_weight;
    opts.weights_user = r->model;
    check(clef_trainer_create(device, r->graph, "loss", &opts, &r->trainer, &err), &err);
}

static void close_run(run *r)
{
    clef_trainer_destroy(r->trainer);
    clef_graph_destroy(r->graph);
    clef_tensor_file_close(r->wanted);
    clef_model_close(r->model);
    free(r->batches);
}

/* Rows first .. first + n - 1 of a step's batch; the graph's other rows do not count. */
static void write_rows(run *r, int step, int first, int n)
{
    const int T = r->n_tokens, B = r->n_rows;
    const size_t n_bytes = (size_t)(B * T) * sizeof(int32_t);
    int32_t *ids = calloc(4, n_bytes), *labels = ids + B * T, *positions = labels + B * T,
            *starts = positions + B * T;
    const float weight = 1 / (float)(B * T);
    clef_error err;
    assert_non_null(ids);
    for (int i = 0; i < B * T; i++)
        labels[i] = -1;
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) {
            const int32_t *row = r->batches + (step * B + first + (b < n ? b : 0)) * (T + 1);
            ids[b * T + t] = row[t];
            labels[b * T + t] = b < n ? row[t + 1] : -1;
            positions[b * T + t] = t;
        }
    check(clef_trainer_write(r->trainer, "input_ids", ids, n_bytes, &err), &err);
    check(clef_trainer_write(r->trainer, "labels", labels, n_bytes, &err), &err);
    if (clef_graph_find(r->graph, "positions"))
        clef_trainer_write(r->trainer, "positions", positions, n_bytes, &err); /* not every graph keeps it */
    check(clef_trainer_write(r->trainer, "first", starts, n_bytes, &err), &err);
    check(clef_trainer_write(r->trainer, "loss_weight", &weight, sizeof weight, &err), &err);
    free(ids);
}

/* The largest error, relative to the largest number. */
static double distance(const float *got, const float *want, size_t n)
{
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    }
    return worst / (most + 1e-12);
}

/* Gradients are read as they are on the device: times the loss scale, which is a power of two. */
static void undo_scale(const run *r, clef_train_array which, float *x, int64_t n)
{
    const float scale = which == CLEF_TRAIN_GRADIENT ? (float)clef_trainer_scale(r->trainer).scale : 1;
    for (int64_t i = 0; i < n; i++)
        x[i] /= scale;
}

/* The largest distance of an array of all parameters from the tensors called PREFIX.NAME. */
static double worst_of(run *r, const char *prefix, clef_train_array which)
{
    double worst = 0;
    clef_error err;
    for (int32_t i = 0; i < clef_trainer_n_parameters(r->trainer); i++) {
        const clef_train_parameter p = clef_trainer_parameter(r->trainer, i);
        char name[256];
        size_t n;
        snprintf(name, sizeof name, "%s.%s", prefix, p.name);
        float *want = read_tensor(r, name, CLEF_F32, &n), *got = malloc(n * sizeof *got);
        assert_non_null(got);
        assert_int_equal(n, p.n);
        check(clef_trainer_read(r->trainer, i, which, got, p.n, &err), &err);
        undo_scale(r, which, got, p.n);
        const double d = distance(got, want, n);
        if (d > r->most && which == CLEF_TRAIN_GRADIENT)
            print_error("%s: %.3g\n", name, d);
        worst = fmax(worst, d);
        free(want);
        free(got);
    }
    return worst;
}

static void train(run *r, const char *family)
{
    size_t n;
    float *losses = read_tensor(r, "loss", CLEF_F32, &n), *norms = read_tensor(r, "grad_norm", CLEF_F32, &n);
    double worst_loss = 0, worst_norm = 0, gradients = 0;
    clef_error err;
    for (int step = 0; step < r->n_steps; step++) {
        clef_train_result result;
        write_rows(r, step, 0, r->n_rows);
        check(clef_trainer_add(r->trainer, &err), &err);
        check(clef_trainer_update(r->trainer, &result, &err), &err);
        assert_true(result.is_finite);
        if (step == 0)
            gradients = worst_of(r, "grad", CLEF_TRAIN_GRADIENT);
        worst_loss = fmax(worst_loss, fabs(result.loss - (double)losses[step]));
        worst_norm = fmax(worst_norm, fabs(result.grad_norm / (double)norms[step] - 1));
    }
    const double final = worst_of(r, "final", CLEF_TRAIN_WEIGHT);
    print_message("%s: gradients within %.2g, losses %.2g, norms %.2g, final weights %.2g\n", family,
                  gradients, worst_loss, worst_norm, final);
    assert_true(gradients < 1e-4 && worst_loss < 1e-4 && worst_norm < 1e-3 && final < 1e-3);
    free(losses);
    free(norms);
}

static void test_family(void **state)
{
    run r;
    open_run(&r, *state, NULL);
    train(&r, *state);
    close_run(&r);
}

static void test_recompute(void **state)
{
    run r;
    clef_train_opts opts = clef_train_defaults();
    opts.recompute = 1;
    open_run(&r, *state, &opts);
    train(&r, *state);
    close_run(&r);
}

/* Two parts of half the rows give the gradients of one part of all rows. */
static void test_parts(void **state)
{
    run r;
    clef_train_result result;
    clef_error err;
    open_run(&r, *state, NULL);
    write_rows(&r, 0, 0, r.n_rows / 2);
    check(clef_trainer_add(r.trainer, &err), &err);
    write_rows(&r, 0, r.n_rows / 2, r.n_rows - r.n_rows / 2);
    check(clef_trainer_add(r.trainer, &err), &err);
    check(clef_trainer_update(r.trainer, &result, &err), &err);
    const double worst = worst_of(&r, "grad", CLEF_TRAIN_GRADIENT);
    print_message("%s in two parts: gradients within %.2g\n", (const char *)*state, worst);
    assert_true(worst < 1e-5);
    close_run(&r);
}

/* The same seed gives the same bits. */
static void test_repeats(void **state)
{
    double losses[2] = {0};
    for (int i = 0; i < 2; i++) {
        run r;
        clef_error err;
        open_run(&r, *state, NULL);
        for (int step = 0; step < 3; step++) {
            clef_train_result result;
            write_rows(&r, step, 0, r.n_rows);
            check(clef_trainer_add(r.trainer, &err), &err);
            check(clef_trainer_update(r.trainer, &result, &err), &err);
            losses[i] += result.loss + result.grad_norm;
        }
        close_run(&r);
    }
    assert_memory_equal(&losses[0], &losses[1], sizeof losses[0]);
}

/* ---- products of 16-bit operands -------------------------------------------------------------------- */

/* One part and the update. */
static clef_train_result step_once(run *r, int step)
{
    clef_train_result result;
    clef_error err;
    write_rows(r, step, 0, r->n_rows);
    check(clef_trainer_add(r->trainer, &err), &err);
    check(clef_trainer_update(r->trainer, &result, &err), &err);
    return result;
}

/* u: the most by which rounding changes a number, relative to it. On a way forwards and backwards through two
 * layers are some 50 roundings, with random signs: 7 u. A loss is a mean over many tokens, whose roundings
 * are independent. */
static void test_rounded(const char *family, clef_dtype compute, double u)
{
    run r;
    size_t n;
    clef_train_opts opts = clef_train_defaults();
    double first = 0, worst = 0;
    opts.compute = compute;
    open_run(&r, family, &opts);
    r.most = 7 * u;
    float *losses = read_tensor(&r, "loss", CLEF_F32, &n);
    for (int step = 0; step < r.n_steps; step++) {
        const clef_train_result result = step_once(&r, step);
        assert_true(result.is_finite && !result.is_scaled);
        assert_true(result.loss_scale == (compute == CLEF_F16 ? 65536 : 1));
        const double error = fabs(result.loss / (double)losses[step] - 1);
        if (step == 0)
            first = worst_of(&r, "grad", CLEF_TRAIN_GRADIENT);
        worst = fmax(worst, error);
    }
    print_message("%s in %s: gradients within %.2g u, losses %.2g u\n", family, clef_dtype_name(compute),
                  first / u, worst / u);
    assert_true(first > u / 100 && first < r.most && worst < u);
    free(losses);
    close_run(&r);
}

static void test_f16(void **state)
{
    test_rounded(*state, CLEF_F16, 0x1p-11);
}

static void test_bf16(void **state)
{
    test_rounded(*state, CLEF_BF16, 0x1p-8);
}

/* The plan keeps less for the backward pass: all but the residual stream and the logits in 16 bits. */
static void test_less_memory(void **state)
{
    run r;
    uint64_t bytes[3];
    open_run(&r, *state, NULL);
    for (int i = 0; i < 3; i++) {
        static const clef_dtype dtypes[] = {CLEF_F32, CLEF_F16, CLEF_BF16};
        const clef_build_opts build = {.train = 1, .n_sequences = 32, .n_batch = 64};
        clef_train_opts opts = clef_train_defaults();
        clef_graph *graph;
        clef_trainer *t;
        clef_error err;
        opts.compute = dtypes[i];
        opts.describe_only = 1;
        check(clef_model_build(r.model, &build, &graph, &err), &err);
        check(clef_trainer_create(device, graph, "loss", &opts, &t, &err), &err);
        bytes[i] = clef_trainer_describe(t).activation_bytes;
        clef_trainer_destroy(t);
        clef_graph_destroy(graph);
    }
    close_run(&r);
    print_message("%s: activations of %llu bytes, in 16 bits %llu\n", (const char *)*state,
                  (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
    assert_true((double)bytes[1] < 0.8 * (double)bytes[0]);
    assert_int_equal(bytes[1], bytes[2]);
}

static uint64_t hash_of_weights(run *r)
{
    uint64_t hash = CLEF__HASH_START;
    clef_error err;
    for (int32_t i = 0; i < clef_trainer_n_parameters(r->trainer); i++) {
        const int64_t n = clef_trainer_parameter(r->trainer, i).n;
        float *w = malloc((size_t)n * sizeof *w);
        assert_non_null(w);
        check(clef_trainer_read(r->trainer, i, CLEF_TRAIN_WEIGHT, w, n, &err), &err);
        hash = clef__hash(hash, w, (size_t)n * sizeof *w);
        free(w);
    }
    return hash;
}

/* A scale at which gradients are not finite is halved until they are; then the step is the one that it would
 * have been. */
static void test_overflow(void **state)
{
    run r;
    clef_train_opts opts = clef_train_defaults();
    size_t n;
    int n_again = 0;
    opts.compute = CLEF_F16;
    opts.loss_scale = 0x1p40;
    open_run(&r, *state, &opts);
    float *losses = read_tensor(&r, "loss", CLEF_F32, &n);
    const uint64_t before = hash_of_weights(&r);
    clef_train_result result = step_once(&r, 0);
    for (; result.is_scaled && n_again < 40; n_again++, result = step_once(&r, 0)) {
        assert_false(result.is_finite);
        assert_true(result.loss_scale == ldexp(1, 40 - n_again));
        assert_true(clef_trainer_scale(r.trainer).scale == result.loss_scale / 2);
        assert_int_equal(clef_trainer_step(r.trainer), 0);
        assert_true(hash_of_weights(&r) == before);
    }
    print_message("%s: finite at a loss scale of %g\n", (const char *)*state, result.loss_scale);
    assert_true(n_again > 0 && result.is_finite);
    assert_int_equal(clef_trainer_step(r.trainer), 1);
    assert_true(hash_of_weights(&r) != before);
    assert_true(fabs(result.loss / (double)losses[0] - 1) < 0x1p-11);
    free(losses);
    close_run(&r);
}

/* Gradients that are finite at no scale: the scale falls to 2^-14, and then it is an error. */
static void test_no_scale(void **state)
{
    run r;
    clef_train_opts opts = clef_train_defaults();
    clef_train_result result = {.is_scaled = 1};
    clef_error err;
    char name[256];
    const float weight = 1e30f;
    opts.compute = CLEF_F16;
    open_run(&r, *state, &opts);
    for (int i = 0; i <= 30; i++) {
        assert_true(result.is_scaled);
        write_rows(&r, 0, 0, r.n_rows);
        check(clef_trainer_write(r.trainer, "loss_weight", &weight, sizeof weight, &err), &err);
        check(clef_trainer_add(r.trainer, &err), &err);
        check(clef_trainer_update(r.trainer, &result, &err), &err);
        assert_true(isfinite(result.loss) && !result.is_finite);
    }
    assert_false(result.is_scaled);
    assert_true(clef_trainer_scale(r.trainer).scale == 0x1p-14);
    check(clef_trainer_find_not_finite(r.trainer, name, sizeof name, &err), &err);
    print_message("%s: not finite at any scale, first in %s\n", (const char *)*state, name);
    assert_string_not_equal(name, "");
    close_run(&r);
}

/* After 2000 updates the scale is doubled. A scale that is none is refused. */
static void test_growth(void **state)
{
    run r;
    clef_train_opts opts = clef_train_defaults();
    clef_error err;
    opts.compute = CLEF_F16;
    open_run(&r, *state, &opts);
    check(clef_trainer_set_scale(r.trainer, (clef_train_scale){1024, 1998}, &err), &err);
    assert_true(step_once(&r, 0).loss_scale == 1024 && step_once(&r, 1).loss_scale == 1024);
    assert_true(clef_trainer_scale(r.trainer).scale == 2048);
    assert_int_equal(clef_trainer_scale(r.trainer).n_updates, 0);
    assert_int_equal(clef_trainer_set_scale(r.trainer, (clef_train_scale){0, 0}, &err), CLEF_E_ARG);
    assert_int_equal(clef_trainer_set_scale(r.trainer, (clef_train_scale){NAN, 0}, &err), CLEF_E_ARG);
    assert_int_equal(clef_trainer_set_scale(r.trainer, (clef_train_scale){1, 2000}, &err), CLEF_E_ARG);
    assert_true(clef_trainer_scale(r.trainer).scale == 2048);
    close_run(&r);
}

static void test_refused(void **state)
{
    run r;
    clef_trainer *t;
    clef_error err;
    clef_train_opts opts = clef_train_defaults();
    open_run(&r, *state, NULL);
    opts.compute = CLEF_Q8_0;
    assert_int_equal(clef_trainer_create(device, r.graph, "loss", &opts, &t, &err), CLEF_E_ARG);
    assert_null(t);
    opts.compute = CLEF_F16;
    opts.loss_scale = -1;
    assert_int_equal(clef_trainer_create(device, r.graph, "loss", &opts, &t, &err), CLEF_E_ARG);
    close_run(&r);
}

/* A weight that is not a number: the update changes nothing, and the first value that has one is named. */
static void test_not_finite(void **state)
{
    run r;
    clef_train_result result;
    clef_error err;
    char name[256];
    open_run(&r, *state, NULL);
    const int64_t n = clef_trainer_parameter(r.trainer, 3).n;
    float *w = malloc((size_t)n * sizeof *w), *after = malloc((size_t)n * sizeof *after);
    assert_true(w && after);
    check(clef_trainer_read(r.trainer, 3, CLEF_TRAIN_WEIGHT, w, n, &err), &err);
    w[0] = INFINITY;
    check(clef_trainer_set(r.trainer, 3, CLEF_TRAIN_WEIGHT, w, n, &err), &err);
    write_rows(&r, 0, 0, r.n_rows);
    check(clef_trainer_add(r.trainer, &err), &err);
    check(clef_trainer_update(r.trainer, &result, &err), &err);
    assert_false(result.is_finite);
    check(clef_trainer_read(r.trainer, 3, CLEF_TRAIN_WEIGHT, after, n, &err), &err);
    assert_memory_equal(w, after, (size_t)n * sizeof *w);
    check(clef_trainer_find_not_finite(r.trainer, name, sizeof name, &err), &err);
    print_message("%s: not finite first in %s\n", (const char *)*state, name);
    assert_string_not_equal(name, "");
    free(w);
    free(after);
    close_run(&r);
}

static const void *weight_of_choice(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    static const float w[] = {1, 2, 3, 5}, bias[] = {0, 0, 0, 9};
    (void)user, (void)dtype, (void)n_bytes;
    return strcmp(name, "bias") == 0 ? bias : w;
}

/* A weight that only decides which numbers are chosen is not trained, and still decides. */
static void test_choice(void **state)
{
    (void)state;
    static const char text[] = "input x f32 [1, 4]\nweight w f32 [4]\nweight bias f32 [4]\n"
                               "biased = add(x, bias)\nchosen = topk(biased) k=1\nproducts = mul(x, w)\n"
                               "loss = gather_elements(products, chosen)\noutput loss\n";
    static const float x[] = {4, 3, 2, 1}, gradient[] = {0, 0, 0, 1};
    float got[4];
    clef_graph *g;
    clef_trainer *t;
    clef_train_result result;
    clef_error err = {0};
    clef_train_opts opts = clef_train_defaults();
    opts.weights = weight_of_choice;
    check(clef_graph_parse(text, strlen(text), "choice", &g, &err), &err);
    check(clef_trainer_create(device, g, "loss", &opts, &t, &err), &err);
    assert_int_equal(clef_trainer_n_parameters(t), 1);
    check(clef_trainer_write(t, "x", x, sizeof x, &err), &err);
    check(clef_trainer_add(t, &err), &err);
    check(clef_trainer_read(t, 0, CLEF_TRAIN_GRADIENT, got, 4, &err), &err);
    assert_memory_equal(got, gradient, sizeof got);
    check(clef_trainer_update(t, &result, &err), &err);
    assert_true(result.loss == 5);
    clef_trainer_destroy(t);
    clef_graph_destroy(g);
}

int main(void)
{
    static char gpt2[] = "gpt2", llama[] = "llama";
    const struct CMUnitTest tests[] = {
        {"gpt2", test_family, NULL, NULL, gpt2},
        {"llama", test_family, NULL, NULL, llama},
        {"gpt2 recomputed", test_recompute, NULL, NULL, gpt2},
        {"llama recomputed", test_recompute, NULL, NULL, llama},
        {"gpt2 in parts", test_parts, NULL, NULL, gpt2},
        {"llama in parts", test_parts, NULL, NULL, llama},
        {"gpt2 repeats", test_repeats, NULL, NULL, gpt2},
        {"gpt2 in f16", test_f16, NULL, NULL, gpt2},
        {"llama in f16", test_f16, NULL, NULL, llama},
        {"gpt2 in bf16", test_bf16, NULL, NULL, gpt2},
        {"llama in bf16", test_bf16, NULL, NULL, llama},
        {"llama in less memory", test_less_memory, NULL, NULL, llama},
        {"gpt2 overflows", test_overflow, NULL, NULL, gpt2},
        {"llama at no scale", test_no_scale, NULL, NULL, llama},
        {"gpt2 scale grows", test_growth, NULL, NULL, gpt2},
        {"options are refused", test_refused, NULL, NULL, gpt2},
        {"llama not finite", test_not_finite, NULL, NULL, llama},
        {"a choice", test_choice, NULL, NULL, NULL},
    };
    char path[512];
    snprintf(path, sizeof path, "%s/oracle/training/gpt2/config.json",
             getenv("CLEF_SHARED") ? getenv("CLEF_SHARED") : "");
    FILE *f = fopen(path, "r");
    if (!f) {
        puts("skipped: there are no results of PyTorch here");
        return 77;
    }
    fclose(f);
    device = test_device();
    const int code = cmocka_run_group_tests_name("training", tests, NULL, NULL);
    clef_device_close(device);
    return code;
}

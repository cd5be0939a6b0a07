/* A trainer on several ranks beside one of its own that adds the parts of all: after some steps weights and
 * moments are the same, all ranks have the same bits, and the moments of all ranks together are those of one.
 * usage: mpirun -n N train_ranks [sgd] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"

enum { N_IN = 5, N_OUT = 7, N_ROWS = 4, N_STEPS = 6, MOST = N_IN * N_OUT };

static const char graph_text[] = "input x f32 [4, 5]\n"
                                 "input y f32 [4, 7]\n"
                                 "weight w f32 [7, 5]\n"
                                 "weight b f32 [7]\n"
                                 "p = matmul(x, w, b) transpose_b=1\n"
                                 "e = sub(p, y)\n"
                                 "s = square(e)\n"
                                 "all = sum_axes(s) axes=3\n"
                                 "loss = reshape(all) : f32 []\n"
                                 "output loss\n";

static int n_failures;

static void must(clef_status s, const clef_error *err)
{
    if (s == CLEF_OK)
        return;
    fprintf(stderr, "FAIL %s\n", err->text);
    exit(1);
}

static void expect(int is_true, const char *what, int32_t rank)
{
    if (!is_true)
        printf("FAIL rank %d: %s\n", rank, what);
    n_failures += !is_true;
}

static const void *begin(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    static float values[MOST];
    (void)user, (void)name, (void)dtype;
    for (int i = 0; i < MOST; i++)
        values[i] = 0.1f * (float)(i % 7) - 0.3f;
    return n_bytes <= sizeof values ? values : NULL;
}

/* The part of one rank in a step. */
static void add(clef_trainer *t, int64_t step, int32_t rank)
{
    clef_error err = {0};
    float x[N_ROWS * N_IN], y[N_ROWS * N_OUT];
    for (int i = 0; i < N_ROWS * N_IN; i++)
        x[i] = sinf((float)(1 + i + 31 * rank + 7 * (int)step));
    for (int i = 0; i < N_ROWS * N_OUT; i++)
        y[i] = cosf((float)(1 + i * i + 13 * rank));
    must(clef_trainer_write(t, "x", x, sizeof x, &err), &err);
    must(clef_trainer_write(t, "y", y, sizeof y, &err), &err);
    must(clef_trainer_add(t, &err), &err);
}

static void compare_arrays(clef_trainer *t, clef_trainer *alone, clef_ranks *ranks, clef_train_array last,
                           int32_t rank)
{
    clef_error err = {0};
    for (int32_t i = 0; i < clef_trainer_n_parameters(t); i++)
        for (int which = CLEF_TRAIN_WEIGHT; which <= (int)last; which++) {
            const clef_train_parameter p = clef_trainer_parameter(t, i);
            float mine[MOST] = {0}, other[MOST] = {0};
            char text[16 + 9 * MOST];
            must(clef_trainer_read(t, i, (clef_train_array)which, mine, p.n, &err), &err);
            must(clef_trainer_read(alone, i, (clef_train_array)which, other, p.n, &err), &err);
            float worst = 0;
            size_t n = 0;
            for (int64_t k = 0; k < p.n; k++) {
                uint32_t bits;
                memcpy(&bits, &mine[k], sizeof bits);
                n += (size_t)snprintf(text + n, sizeof text - n, "%08x ", (unsigned)bits);
                worst = fmaxf(worst, fabsf(mine[k] - other[k]) / (fabsf(other[k]) + 1e-2f));
            }
            expect(worst < 1e-4f, "an array is not that of one process", rank);
            const clef_status s = clef_ranks_compare(ranks, text, &err);
            expect(s == CLEF_OK, "an array differs between ranks", rank);
        }
}

/* What was read of a moment can be set again. */
static void set_moments(clef_trainer *t, int32_t rank)
{
    clef_error err = {0};
    for (int32_t i = 0; i < clef_trainer_n_parameters(t); i++) {
        const clef_train_parameter p = clef_trainer_parameter(t, i);
        float twice[MOST] = {0}, again[MOST] = {0};
        must(clef_trainer_read(t, i, CLEF_TRAIN_MOMENT1, twice, p.n, &err), &err);
        for (int64_t k = 0; k < p.n; k++)
            twice[k] *= 2;
        must(clef_trainer_set(t, i, CLEF_TRAIN_MOMENT1, twice, p.n, &err), &err);
        must(clef_trainer_read(t, i, CLEF_TRAIN_MOMENT1, again, p.n, &err), &err);
        expect(memcmp(twice, again, sizeof twice) == 0, "a moment is not what was set", rank);
    }
}

int main(int argc, char **argv)
{
    clef_error err = {0};
    clef_device *dev = NULL;
    clef_graph *graph = NULL;
    clef_trainer *t = NULL, *alone = NULL;
    clef_ranks *ranks = NULL;
    clef_ranks_info info;
    clef_train_opts opts = clef_train_defaults();
    opts.optimizer = argc > 1 && strcmp(argv[1], "sgd") == 0 ? CLEF_SGD : CLEF_ADAMW;
    opts.rate = 0.01;
    opts.weights = begin;
    must(clef_ranks_open(&(clef_ranks_opts){.apart = 1}, &ranks, &err), &err);
    clef_ranks_describe(ranks, &info);
    must(clef_device_open(NULL, NULL, &dev, &err), &err);
    must(clef_graph_parse(graph_text, strlen(graph_text), "the model", &graph, &err), &err);
    must(clef_trainer_create(dev, graph, "loss", &opts, &alone, &err), &err);
    opts.ranks = ranks;
    must(clef_trainer_create(dev, graph, "loss", &opts, &t, &err), &err);
    expect(clef_ranks_lead(ranks, dev, &err) == CLEF_E_ARG, "ranks that are apart have a leader", info.rank);

    for (int step = 0; step < N_STEPS; step++) {
        clef_train_result result, other;
        add(t, step, info.rank);
        for (int32_t i = 0; i < info.n; i++)
            add(alone, step, i);
        must(clef_trainer_update(t, &result, &err), &err);
        must(clef_trainer_update(alone, &other, &err), &err);
        expect(fabs(result.loss - other.loss) < 1e-5 * other.loss, "another loss", info.rank);
        expect(fabs(result.grad_norm - other.grad_norm) < 1e-5 * other.grad_norm, "another norm", info.rank);
    }
    compare_arrays(t, alone, ranks, opts.optimizer == CLEF_SGD ? CLEF_TRAIN_MOMENT1 : CLEF_TRAIN_MOMENT2,
                   info.rank);
    double bytes = (double)clef_trainer_describe(t).moment_bytes;
    expect(bytes < (double)clef_trainer_describe(alone).moment_bytes, "it has all moments", info.rank);
    must(clef_ranks_sum(ranks, &bytes, 1, &err), &err);
    expect(bytes == (double)clef_trainer_describe(alone).moment_bytes, "moments are missing, or there twice",
           info.rank);
    set_moments(t, info.rank);

    clef_trainer_destroy(t);
    clef_trainer_destroy(alone);
    clef_graph_destroy(graph);
    clef_device_close(dev);
    clef_ranks_close(ranks);
    return n_failures > 0;
}

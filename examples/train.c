/* Trains a graph of one's own with a loss of one's own: a line y = w1 x1 + w2 x2 + b through points, by the
 * Huber-like loss log(cosh(error)), written in the text form of graphs.
 *
 *   cc -std=c17 -Iinclude examples/train.c -Lbuild -lclef -lm -Wl,-rpath,$PWD/build -o train && ./train */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"

/* log cosh(e) = |e| + log(1 + exp(-2 |e|)) - log 2, with |e| = sqrt(e^2 + 1e-12). Its slope is tanh(e): that
 * of the squared error near 0, and at most 1 for outliers. */
static const char graph_text[] = "input x f32 [64, 2]\n"
                                 "input y f32 [64, 1]\n"
                                 "weight w f32 [1, 2]\n"
                                 "weight b f32 [1]\n"
                                 "p = matmul(x, w, b) transpose_b=1\n"
                                 "e = sub(p, y)\n"
                                 "s = square(e)\n"
                                 "t = affine(s) scale=1 shift=1e-12\n"
                                 "a = sqrt(t)\n"
                                 "m = affine(a) scale=-2\n"
                                 "q = exp(m)\n"
                                 "r = affine(q) scale=1 shift=1\n"
                                 "l = log(r)\n"
                                 "each = add(a, l)\n"
                                 "all = sum_axes(each) axes=3\n"
                                 "one = reshape(all) : f32 []\n"
                                 "loss = affine(one) scale=0.015625 shift=-0.693147181\n"
                                 "output loss\n";

/* Both weights begin at 0. */
static const void *begin(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    static const float zeros[2];
    (void)user, (void)name;
    return dtype == CLEF_F32 && n_bytes <= sizeof zeros ? zeros : NULL;
}

static int fail(const clef_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int train(clef_trainer *t, clef_error *err)
{
    enum { ROWS = 64, STEPS = 400 };
    float x[ROWS][2], y[ROWS];
    for (int step = 0; step < STEPS; step++) {
        clef_train_result result;
        for (int i = 0; i < ROWS; i++) { /* points on y = 2 x1 - 3 x2 + 0.5; one in sixteen lies far off */
            x[i][0] = (float)rand() / (float)RAND_MAX * 2 - 1;
            x[i][1] = (float)rand() / (float)RAND_MAX * 2 - 1;
            y[i] = 2 * x[i][0] - 3 * x[i][1] + 0.5f + (i % 16 == 0 ? (i % 32 ? 20.0f : -20.0f) : 0);
        }
        if (clef_trainer_write(t, "x", x, sizeof x, err) || clef_trainer_write(t, "y", y, sizeof y, err) ||
            clef_trainer_add(t, err) || clef_trainer_update(t, &result, err))
            return fail(err);
        if (step % 100 == 0 || step == STEPS - 1)
            printf("step %d: loss %.4f, norm of the gradient %.4f\n", step + 1, result.loss,
                   result.grad_norm);
    }
    return 0;
}

static int print_weights(clef_trainer *t, clef_error *err)
{
    float w[2] = {0}, b[1] = {0};
    for (int32_t i = 0; i < clef_trainer_n_parameters(t); i++) {
        const clef_train_parameter p = clef_trainer_parameter(t, i);
        if (clef_trainer_read(t, i, CLEF_TRAIN_WEIGHT, strcmp(p.name, "w") == 0 ? w : b, p.n, err))
            return fail(err);
    }
    printf("y = %.2f x1 %c %.2f x2 %c %.2f\n", (double)w[0], w[1] < 0 ? '-' : '+', fabs((double)w[1]),
           b[0] < 0 ? '-' : '+', fabs((double)b[0]));
    return 0;
}

int main(void)
{
    clef_error err = {0};
    clef_device *dev = NULL;
    clef_graph *graph = NULL;
    clef_trainer *t = NULL;
    clef_train_opts opts = clef_train_defaults();
    opts.rate = 0.05;
    opts.decay = 0;
    opts.schedule = CLEF_SCHEDULE_LINEAR;
    opts.n_steps = 400;
    opts.weights = begin;
    int code = clef_device_open(NULL, NULL, &dev, &err) ||
                       clef_graph_parse(graph_text, strlen(graph_text), "the line", &graph, &err) ||
                       clef_trainer_create(dev, graph, "loss", &opts, &t, &err)
                   ? fail(&err)
                   : 0;
    if (!code)
        code = train(t, &err);
    if (!code)
        code = print_weights(t, &err);
    clef_trainer_destroy(t);
    clef_graph_destroy(graph);
    clef_device_close(dev);
    return code;
}

/* The trainer: three plans that share the parameters. One adds up loss and gradients, one updates, one
 * evaluates. On several ranks a fourth computes the norm, which the update then reads. */
#include "clef/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_state.h"
#include "train/plan/train_buckets.h"
#include "train/plan/train_graphs.h"
#include "train/plan/train_ranks.h"

/* The loss scale of f16: its begin, and the updates after which it is doubled (PyTorch's GradScaler), and its
 * bounds. 2^-14 is the least normal f16. */
#define FIRST_SCALE 65536.0
#define LEAST_SCALE 0x1p-14
#define MOST_SCALE 0x1p60
enum { UPDATES_TO_DOUBLE = 2000 };

struct clef_trainer {
    clef_train_opts opts;
    clef__train_graphs graphs;
    clef_plan *gradients, *update, *evaluation;
    clef_plan *norm_plan; /* on several ranks */
    clef__train_ranks ranks;
    clef__train_buckets buckets;                 /* on several ranks, unless the trainer is only described */
    int32_t keep, scale_at, numbers, norm, loss; /* inputs and outputs of the plans */
    int32_t norm_input;                          /* of the update, on several ranks */
    clef__plan_state *arrays[4]; /* by clef_train_array and parameter; a stage of NULL: there is none */
    clef__plan_state loss_sum;
    clef_train_scale scale;
    int64_t step;
    int32_t n_parts; /* of the present step */
};

clef_train_opts clef_train_defaults(void)
{
    return (clef_train_opts){.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1};
}

double clef_train_rate(const clef_train_opts *o, int64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step <= o->n_warmup)
        return o->rate * (double)step / (double)o->n_warmup;
    if (o->schedule == CLEF_SCHEDULE_CONSTANT || o->n_steps <= o->n_warmup)
        return o->rate;
    const double done = fmin((double)(step - o->n_warmup) / (double)(o->n_steps - o->n_warmup), 1);
    const double left = o->schedule == CLEF_SCHEDULE_COSINE ? (1 + cos(pi * done)) / 2 : 1 - done;
    return o->rate * (o->final_rate + (1 - o->final_rate) * left);
}

/* ---- plans ------------------------------------------------------------------------------------ */

static clef_status make_plan(clef_device *dev, const clef_graph *graph, const clef_train_opts *o,
                             clef_plan *states_of, clef_plan **out, clef_error *err)
{
    clef_plan_opts opts = {.compile = o->compile,
                           .describe_only = o->describe_only,
                           .no_fused_step = 1,
                           .states_of = states_of,
                           .weights = o->weights,
                           .weights_user = o->weights_user};
    opts.compile.exact = 1;
    return clef_plan_create(dev, graph, &opts, out, err);
}

/* Finds the states of one kind, of all parameters, by name. */
static void find_arrays(clef_trainer *t, clef_train_array which, const clef__plan_state *states, int32_t n)
{
    for (int32_t i = 0; i < t->graphs.n_parameters; i++) {
        char name[CLEF_NAME_BYTES];
        clef__train_array_name(t->graphs.parameters[i].name, which, name);
        for (int32_t k = 0; k < n; k++)
            if (strcmp(states[k].value->name, name) == 0)
                t->arrays[which][i] = states[k];
    }
}

static clef_status find_states(clef_trainer *t, clef_error *err)
{
    const int32_t n[] = {clef__plan_states(t->gradients, NULL, 0), clef__plan_states(t->update, NULL, 0)};
    const size_t n_parameters = (size_t)t->graphs.n_parameters + 1;
    clef__plan_state *states = calloc((size_t)(n[0] + n[1]) + 1, sizeof *states);
    for (int k = 0; k < 4; k++)
        t->arrays[k] = calloc(n_parameters, sizeof **t->arrays);
    if (!states || !t->arrays[0] || !t->arrays[1] || !t->arrays[2] || !t->arrays[3]) {
        free(states);
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for the lists of its parameters");
    }
    clef__plan_states(t->gradients, states, n[0]);
    for (int32_t k = 0; k < n[0]; k++)
        if (strcmp(states[k].value->name, CLEF__LOSS_SUM) == 0)
            t->loss_sum = states[k];
    find_arrays(t, CLEF_TRAIN_WEIGHT, states, n[0]);
    find_arrays(t, CLEF_TRAIN_GRADIENT, states, n[0]);
    clef__plan_states(t->update, states, n[1]);
    find_arrays(t, CLEF_TRAIN_MOMENT1, states, n[1]);
    find_arrays(t, CLEF_TRAIN_MOMENT2, states, n[1]);
    free(states);
    return CLEF_OK;
}

/* Writes the starting values of parameter i, decoded. */
static clef_status load_parameter(clef_trainer *t, int32_t i, clef_error *err)
{
    const clef__train_parameter *p = &t->graphs.parameters[i];
    const size_t blocks = (size_t)(p->n / clef_dtype_block_elems(p->stored));
    const uint64_t n_bytes = (uint64_t)blocks * (uint64_t)clef_dtype_block_bytes(p->stored);
    const void *data =
        t->opts.weights ? t->opts.weights(t->opts.weights_user, p->name, p->stored, n_bytes) : NULL;
    if (!data)
        return clef__fail(err, CLEF_E_NOT_FOUND, "weight %s: the source does not have it as %s", p->name,
                          clef_dtype_name(p->stored));
    if (p->stored == CLEF_F32)
        return clef_trainer_set(t, i, CLEF_TRAIN_WEIGHT, data, p->n, err);
    float *decoded = malloc((size_t)p->n * sizeof *decoded);
    if (!decoded)
        return clef__fail(err, CLEF_E_NOMEM, "weight %s: no memory for %lld floats", p->name,
                          (long long)p->n);
    clef_dtype_decode(p->stored, data, (size_t)p->n, decoded);
    const clef_status s = clef_trainer_set(t, i, CLEF_TRAIN_WEIGHT, decoded, p->n, err);
    free(decoded);
    return s;
}

static clef_status make_plans(clef_trainer *t, clef_device *dev, clef_error *err)
{
    clef_status s = make_plan(dev, t->graphs.gradients, &t->opts, NULL, &t->gradients, err);
    if (!s)
        s = make_plan(dev, t->graphs.update, &t->opts, t->gradients, &t->update, err);
    if (!s && t->graphs.norm)
        s = make_plan(dev, t->graphs.norm, &t->opts, t->gradients, &t->norm_plan, err);
    if (!s)
        s = make_plan(dev, t->graphs.evaluation, &t->opts, t->gradients, &t->evaluation, err);
    if (s)
        return s;
    t->keep = clef_plan_input(t->gradients, CLEF__KEEP);
    t->scale_at = clef_plan_input(t->gradients, CLEF__SCALE);
    t->numbers = clef_plan_input(t->update, CLEF__NUMBERS);
    t->norm = clef_plan_output(t->norm_plan ? t->norm_plan : t->update, CLEF__NORM);
    t->norm_input = clef_plan_input(t->update, CLEF__NORM);
    t->loss = clef_plan_output(t->evaluation, CLEF__LOSS);
    return find_states(t, err);
}

/* NULL if they are one. */
static clef_ranks *several(clef_ranks *ranks)
{
    clef_ranks_info info = {.n = 1};
    if (ranks)
        clef_ranks_describe(ranks, &info);
    return info.n > 1 ? ranks : NULL;
}

clef_status clef_trainer_create(clef_device *dev, const clef_graph *graph, const char *loss,
                                const clef_train_opts *opts, clef_trainer **out, clef_error *err)
{
    clef_trainer *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: out of memory");
    t->opts = opts ? *opts : clef_train_defaults();
    t->opts.ranks = several(t->opts.ranks);
    const double scale = t->opts.loss_scale != 0       ? t->opts.loss_scale
                         : t->opts.compute == CLEF_F16 ? FIRST_SCALE
                                                       : 1;
    clef_status s = dev->others
                        ? clef__fail(err, CLEF_E_UNSUPPORTED, "training on several devices: expected one")
                        : clef_trainer_set_scale(t, (clef_train_scale){.scale = scale}, err);
    if (!s)
        s = clef__train_graphs_make(graph, loss, &t->opts, &t->graphs, err);
    if (!s)
        s = make_plans(t, dev, err);
    if (!s && t->opts.ranks)
        s = clef__train_ranks_init(&t->ranks, t->opts.ranks, &t->graphs, err);
    if (!s && t->opts.ranks && !t->opts.describe_only)
        s = clef__train_buckets_init(&t->buckets, t->opts.ranks, &t->graphs, t->gradients,
                                     t->arrays[CLEF_TRAIN_GRADIENT], err);
    for (int32_t i = 0; i < t->graphs.n_parameters && !s && !t->opts.describe_only; i++)
        s = load_parameter(t, i, err);
    if (s)
        clef_trainer_destroy(t);
    else
        *out = t;
    return s;
}

void clef_trainer_destroy(clef_trainer *t)
{
    if (!t)
        return;
    clef__train_buckets_finish(&t->buckets);
    clef_plan_destroy(t->evaluation);
    clef_plan_destroy(t->norm_plan);
    clef_plan_destroy(t->update);
    clef_plan_destroy(t->gradients);
    clef__train_ranks_finish(&t->ranks);
    clef__train_graphs_free(&t->graphs);
    for (int k = 0; k < 4; k++)
        free(t->arrays[k]);
    free(t);
}

/* ---- steps ------------------------------------------------------------------------------------ */

clef_status clef_trainer_write(clef_trainer *t, const char *input, const void *data, size_t n_bytes,
                               clef_error *err)
{
    const int32_t at[] = {clef_plan_input(t->gradients, input), clef_plan_input(t->evaluation, input)};
    clef_status s = CLEF_OK;
    if (at[0] < 0 && at[1] < 0)
        return clef__fail(err, CLEF_E_NOT_FOUND, "the graph has no input '%s'", input);
    if (at[0] >= 0)
        s = clef_plan_write(t->gradients, at[0], data, n_bytes, err);
    if (!s && at[1] >= 0)
        s = clef_plan_write(t->evaluation, at[1], data, n_bytes, err);
    return s;
}

clef_status clef_trainer_add(clef_trainer *t, clef_error *err)
{
    const float keep = t->n_parts > 0;
    const float scale = (float)t->scale.scale;
    if (!t->n_parts && t->opts.ranks)
        clef__train_buckets_begin(&t->buckets);
    clef_status s = clef_plan_write(t->gradients, t->keep, &keep, sizeof keep, err);
    if (!s && t->scale_at >= 0)
        s = clef_plan_write(t->gradients, t->scale_at, &scale, sizeof scale, err);
    if (!s)
        s = clef_plan_run(t->gradients, err);
    t->n_parts += s == CLEF_OK;
    return s;
}

static clef_status write_numbers(clef_trainer *t, int64_t step, clef_error *err)
{
    const clef_train_opts *o = &t->opts;
    float k[CLEF_STEP_NUMBERS] = {0};
    k[CLEF_STEP_RATE] = (float)clef_train_rate(o, step);
    k[CLEF_STEP_BETA1] = (float)o->beta1;
    k[CLEF_STEP_BETA2] = (float)o->beta2;
    k[CLEF_STEP_EPS] = (float)o->eps;
    k[CLEF_STEP_DECAY] = (float)o->decay;
    k[CLEF_STEP_CORRECT1] = (float)(1 - pow(o->beta1, (double)step));
    k[CLEF_STEP_CORRECT2] = (float)(1 - pow(o->beta2, (double)step));
    k[CLEF_STEP_CLIP] = (float)o->clip;
    k[CLEF_STEP_SCALE] = (float)(1 / t->scale.scale);
    return clef_plan_write(t->update, t->numbers, k, sizeof k, err);
}

/* What a step comes to: the parts of the squared norm of its gradients, and its loss. */
typedef struct outcome {
    float norm[CLEF_NORM_PARTS], loss;
} outcome;

static clef_status read_outcome(clef_trainer *t, clef_plan *plan, outcome *o, clef_error *err)
{
    const clef_status s = clef_plan_read(plan, t->norm, o->norm, sizeof o->norm, err);
    return s ? s
             : clef__plan_state_read(
                   &t->loss_sum, &(clef__state_rows){.n_rows = 1, .n_bytes = sizeof o->loss}, &o->loss, err);
}

static void report(const clef_trainer *t, const outcome *o, clef_train_result *out)
{
    float sum = 0; /* as the kernel adds them up */
    for (int i = 0; i < CLEF_NORM_PARTS; i++)
        sum += o->norm[i];
    out->grad_norm = sqrt((double)sum) / t->scale.scale;
    out->loss = (double)o->loss;
    out->is_finite = isfinite(sum) && isfinite(o->loss);
}

static clef_status update_alone(clef_trainer *t, clef_train_result *out, clef_error *err)
{
    outcome o;
    clef_status s = write_numbers(t, out->step, err);
    if (!s)
        s = clef_plan_run(t->update, err);
    if (!s)
        s = read_outcome(t, t->update, &o, err);
    if (!s)
        report(t, &o, out);
    return s;
}

/* Every rank has the same sums, and so decides the same. The device may still run the last part when the sums
 * of its gradients begin. */
static clef_status update_together(clef_trainer *t, clef_train_result *out, clef_error *err)
{
    outcome o;
    clef__train_ranks_at(&t->ranks, out->step);
    clef_status s = clef__train_buckets_sum(&t->buckets, err);
    if (!s)
        s = clef_plan_run(t->norm_plan, err);
    if (!s)
        s = read_outcome(t, t->norm_plan, &o, err);
    if (!s)
        s = clef__train_ranks_sum_few(&t->ranks, &o.norm[0], sizeof o / sizeof o.norm[0], err);
    if (!s)
        s = clef__train_buckets_end(&t->buckets, err);
    if (s)
        return s;
    report(t, &o, out);
    if (!out->is_finite)
        return CLEF_OK;
    s = write_numbers(t, out->step, err);
    if (!s)
        s = clef_plan_write(t->update, t->norm_input, o.norm, sizeof o.norm, err);
    if (!s)
        s = clef_plan_run(t->update, err);
    return s ? s : clef__train_ranks_gather(&t->ranks, t->arrays[CLEF_TRAIN_WEIGHT], err);
}

/* Changes the scale after a step, so that it stays near the largest at which gradients are finite. A loss
 * that is not finite does not depend on it. */
static void adapt_scale(clef_trainer *t, clef_train_result *result)
{
    clef_train_scale *s = &t->scale;
    if (t->opts.compute != CLEF_F16)
        return;
    if (!result->is_finite) {
        result->is_scaled = isfinite(result->loss) && s->scale / 2 >= LEAST_SCALE;
        s->scale /= result->is_scaled ? 2 : 1;
        s->n_updates = 0;
    } else if (++s->n_updates == UPDATES_TO_DOUBLE) {
        s->scale = fmin(2 * s->scale, MOST_SCALE);
        s->n_updates = 0;
    }
}

clef_status clef_trainer_update(clef_trainer *t, clef_train_result *out, clef_error *err)
{
    const int64_t step = t->step + 1;
    if (!t->n_parts)
        return clef__fail(err, CLEF_E_ARG,
                          "an update of a step without a part: call clef_trainer_add() first");
    *out = (clef_train_result){
        .step = step, .rate = clef_train_rate(&t->opts, step), .loss_scale = t->scale.scale};
    clef_status s = t->opts.ranks ? update_together(t, out, err) : update_alone(t, out, err);
    if (s)
        return s;
    t->n_parts = 0;
    t->step += out->is_finite;
    adapt_scale(t, out);
    return CLEF_OK;
}

clef_status clef_trainer_evaluate(clef_trainer *t, double *loss, clef_error *err)
{
    float value = 0;
    clef_status s = clef_plan_run(t->evaluation, err);
    if (!s)
        s = clef_plan_read(t->evaluation, t->loss, &value, sizeof value, err);
    *loss = (double)value;
    return s;
}

/* ---- finding what is not finite ----------------------------------------------------------------- */

static clef_status copy_inputs(clef_trainer *t, clef_plan *to, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < t->gradients->n_inputs && !s; i++) {
        const clef_value *v = t->gradients->inputs[i].value;
        const int32_t at = clef_plan_input(to, v->name);
        const size_t n_bytes = (size_t)clef__bytes(v, NULL);
        if (at < 0)
            continue;
        void *data = malloc(n_bytes + 1);
        if (!data)
            return clef__fail(err, CLEF_E_NOMEM, "input %s: no memory for %zu bytes", v->name, n_bytes);
        s = t->gradients->kind->read_input(t->gradients, i, data, n_bytes, err);
        if (!s)
            s = clef_plan_write(to, at, data, n_bytes, err);
        free(data);
    }
    return s;
}

/* Whether output i has only finite elements. */
static clef_status look_at(clef_plan *plan, int32_t i, int *is_finite, clef_error *err)
{
    int32_t rank;
    const size_t n_bytes = clef_plan_output_bytes(plan, i, &rank, NULL), n = n_bytes / sizeof(float);
    float *x = malloc(n_bytes + 1);
    *is_finite = 1;
    if (!x)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for %zu bytes", n_bytes);
    const clef_status s = clef_plan_read(plan, i, x, n_bytes, err);
    for (size_t k = 0; k < n && !s && *is_finite; k++)
        *is_finite = isfinite(x[k]) != 0;
    free(x);
    return s;
}

clef_status clef_trainer_find_not_finite(clef_trainer *t, char *name, size_t n_bytes, clef_error *err)
{
    clef_graph *g = NULL;
    clef_plan *plan = NULL;
    *name = 0;
    t->n_parts = 0;
    clef_status s = clef__train_graph_with_all(t->graphs.gradients, &g, err);
    if (!s)
        s = make_plan(t->gradients->dev, g, &t->opts, t->gradients, &plan, err);
    if (!s)
        s = copy_inputs(t, plan, err);
    if (!s)
        s = clef_plan_run(plan, err);
    for (int32_t i = 0, is_finite = 1; !s && is_finite && clef_graph_output(g, i, NULL); i++) {
        s = look_at(plan, i, &is_finite, err);
        if (!s && !is_finite)
            snprintf(name, n_bytes, "%s", clef_value_describe(clef_graph_output(g, i, NULL)).name);
    }
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
    return s;
}

clef_status clef_trainer_tap(clef_trainer *t, int32_t i, float *data, int64_t n, clef_error *err)
{
    if (i < 0 || i >= t->opts.n_taps)
        return clef__fail(err, CLEF_E_ARG, "trainer: there is no tap %d of %d", i, t->opts.n_taps);
    return clef_plan_read(t->gradients, i, data, (size_t)n * sizeof *data, err);
}

/* ---- parameters ------------------------------------------------------------------------------- */

int32_t clef_trainer_n_parameters(const clef_trainer *t)
{
    return t->graphs.n_parameters;
}

clef_train_parameter clef_trainer_parameter(const clef_trainer *t, int32_t i)
{
    const clef__train_parameter *p = &t->graphs.parameters[i];
    return (clef_train_parameter){.name = p->name, .shape = p->shape, .n = p->n, .decays = p->decays};
}

static clef_status check_array(const clef_trainer *t, int32_t i, clef_train_array which, int64_t n,
                               clef_error *err)
{
    const int has_all = t->opts.optimizer == CLEF_ADAMW;
    if (i < 0 || i >= t->graphs.n_parameters ||
        (uint32_t)which > (has_all ? CLEF_TRAIN_MOMENT2 : CLEF_TRAIN_MOMENT1))
        return clef__fail(err, CLEF_E_ARG, "trainer: there is no array %d of parameter %d", (int)which, i);
    if (n != t->graphs.parameters[i].n)
        return clef__fail(err, CLEF_E_ARG, "%s: %lld elements, expected %lld", t->graphs.parameters[i].name,
                          (long long)n, (long long)t->graphs.parameters[i].n);
    return CLEF_OK;
}

/* The first element of an array that this rank has; *n_bytes: of all that it has. */
static int64_t own_part(const clef_trainer *t, int32_t i, clef_train_array which, uint64_t *n_bytes)
{
    const clef__train_parameter *p = &t->graphs.parameters[i];
    const int64_t row = clef__train_row(p), has_all = which < CLEF_TRAIN_MOMENT1;
    *n_bytes = (uint64_t)(has_all ? p->n : p->n_rows * row) * sizeof(float);
    return has_all ? 0 : p->first * row;
}

clef_status clef_trainer_read(clef_trainer *t, int32_t i, clef_train_array which, float *data, int64_t n,
                              clef_error *err)
{
    clef__state_rows own = {.n_rows = 1};
    clef_status s = check_array(t, i, which, n, err);
    if (s)
        return s;
    const int64_t first = own_part(t, i, which, &own.n_bytes);
    if (own.n_bytes)
        s = clef__plan_state_read(&t->arrays[which][i], &own, data + first, err);
    return s || !t->opts.ranks || which < CLEF_TRAIN_MOMENT1
               ? s
               : clef__train_ranks_join(&t->ranks, i, data, err);
}

clef_status clef_trainer_set(clef_trainer *t, int32_t i, clef_train_array which, const float *data, int64_t n,
                             clef_error *err)
{
    clef__state_rows own = {.n_rows = 1};
    const clef_status s = check_array(t, i, which, n, err);
    if (s)
        return s;
    const int64_t first = own_part(t, i, which, &own.n_bytes);
    return own.n_bytes ? clef__plan_state_write(&t->arrays[which][i], &own, data + first, err) : CLEF_OK;
}

int64_t clef_trainer_step(const clef_trainer *t)
{
    return t->step;
}

void clef_trainer_set_step(clef_trainer *t, int64_t step)
{
    t->step = step;
    t->n_parts = 0;
}

clef_train_scale clef_trainer_scale(const clef_trainer *t)
{
    return t->scale;
}

clef_status clef_trainer_set_scale(clef_trainer *t, clef_train_scale scale, clef_error *err)
{
    if (!(scale.scale > 0 && scale.scale <= MOST_SCALE) || scale.n_updates < 0 ||
        scale.n_updates >= UPDATES_TO_DOUBLE)
        return clef__fail(err, CLEF_E_ARG,
                          "trainer: a loss scale of %g after %lld updates, expected a positive number and "
                          "fewer than %d updates",
                          scale.scale, (long long)scale.n_updates, UPDATES_TO_DOUBLE);
    t->scale = scale;
    return CLEF_OK;
}

void clef_trainer_set_opts(clef_trainer *t, const clef_train_opts *opts)
{
    clef_train_opts now = *opts;
    now.optimizer = t->opts.optimizer;
    now.loss_scale = t->opts.loss_scale;
    now.compute = t->opts.compute;
    now.weights = t->opts.weights;
    now.weights_user = t->opts.weights_user;
    now.compile = t->opts.compile;
    now.ranks = t->opts.ranks;
    now.taps = t->opts.taps;
    now.n_taps = t->opts.n_taps;
    t->opts = now;
}

/* ---- looking at it ------------------------------------------------------------------------------ */

clef_train_stats clef_trainer_describe(const clef_trainer *t)
{
    const clef_plan_stats a = clef_plan_describe(t->gradients), b = clef_plan_describe(t->update),
                          c = clef_plan_describe(t->evaluation);
    clef_train_stats out = {.activation_bytes = a.arena_bytes + b.arena_bytes + c.arena_bytes,
                            .other_bytes = a.io_bytes + b.io_bytes + c.io_bytes + a.scratch_bytes +
                                           b.scratch_bytes + c.scratch_bytes,
                            .weight_bytes = a.weight_bytes + a.mapped_bytes,
                            .flops = a.run_flops + b.run_flops,
                            .n_launches = a.n_launches + b.n_launches,
                            .n_parameters = t->graphs.n_frozen};
    int64_t n_updated = 0;
    for (int32_t i = 0; i < t->graphs.n_parameters; i++) {
        const clef__train_parameter *p = &t->graphs.parameters[i];
        out.n_trained += p->n;
        n_updated += p->n_rows * clef__train_row(p);
    }
    out.n_parameters += out.n_trained;
    out.weight_bytes += (uint64_t)out.n_trained * sizeof(float);
    out.gradient_bytes = (uint64_t)out.n_trained * sizeof(float);
    out.moment_bytes = (uint64_t)n_updated * sizeof(float) * (t->opts.optimizer == CLEF_ADAMW ? 2 : 1);
    return out;
}

const clef_graph *clef_trainer_graph(const clef_trainer *t)
{
    return clef_plan_graph(t->gradients);
}

clef_plan *clef_trainer_plan(const clef_trainer *t)
{
    return t->gradients;
}

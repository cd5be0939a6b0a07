/* accumulate, sum_squares, adamw and sgd: what happens to gradients. Each changes states in place. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/op.h"

enum { SPAN = 16384 }; /* elements of a group */

static clef_status launch(clef_lowering *lo, const clef_value *n, const char *kernel, optimizer_args *args,
                          clef_error *err)
{
    const uint32_t wg = clef__fit_local(lo, 256);
    args->span = SPAN;
    clef_launch l = {.source = "optimizer",
                     .kernel = kernel,
                     .defs = {{"WG", (int32_t)wg}},
                     .args = args,
                     .args_bytes = sizeof *args,
                     .bufs = {n},
                     .n_bufs = 1,
                     .groups = {clef__ceil_div(args->n, SPAN)},
                     .local = {wg}};
    for (int32_t i = n->op == CLEF_OP_sum_squares ? 0 : 1; i < n->n_in; i++)
        l.bufs[l.n_bufs++] = n->in[i];
    if (n->op == CLEF_OP_sum_squares) {
        l.bufs[2] = n->in[1];
        l.n_bufs = 3;
        l.groups[0] = NORM_PARTS;
        args->span = clef__ceil_div(clef__ceil_div(args->n, NORM_PARTS), 16) * 16;
    }
    return clef__launch(lo, &l, err);
}

/* 1 for a state, and for rows of one. */
static int is_of_state(const clef_value *v)
{
    while (v->op == CLEF_OP_slice)
        v = v->in[0];
    return clef__is_cache(v);
}

static clef_status infer_update(clef_value *n, clef_error *err)
{
    char a[96], b[96];
    const int32_t n_equal = n->op == CLEF_OP_accumulate ? 2 : n->op == CLEF_OP_adamw ? 4 : 3;
    for (int32_t i = 1; i < n_equal; i++)
        if (!clef__shape_equal(&n->in[i]->shape, &n->in[0]->shape))
            return clef__fail(err, CLEF_E_SHAPE, "input %d %s, expected the shape of the parameter %s", i,
                              clef__shape_text(n->graph, &n->in[i]->shape, a),
                              clef__shape_text(n->graph, &n->in[0]->shape, b));
    for (int32_t i = 0; i < n_equal; i++)
        if (i != 1 && !is_of_state(n->in[i]))
            return clef__fail(err, CLEF_E_ARG, "input %d (%s) is neither a state nor rows of one", i,
                              n->in[i]->name);
    return clef__infer_same(n, err);
}

/* ---- accumulate ------------------------------------------------------------------------------- */

clef_value *clef_accumulate(clef_graph *g, clef_value *state, clef_value *x, clef_value *keep)
{
    return clef__node(g, CLEF_OP_accumulate, (clef_value *[]){state, x, keep}, 3, NULL);
}

static clef_status accumulate_infer(clef_value *n, clef_error *err)
{
    if (clef__elements(n->in[2], NULL) != 1)
        return clef__fail(err, CLEF_E_SHAPE, "keep has more than one element");
    return infer_update(n, err);
}

static void accumulate_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const double keep = in[2].x[0];
    (void)n;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++)
        out->x[i] = keep != 0 ? keep * in[0].x[i] + in[1].x[i] : in[1].x[i];
}

static clef_status accumulate_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    optimizer_args args = {.n = clef__size(lo, n),
                           .p = clef__view(lo, n).offset,
                           .grad = clef__view(lo, n->in[1]).offset,
                           .numbers = clef__view(lo, n->in[2]).offset};
    return launch(lo, n, "accumulate", &args, err);
}

const clef_op_def clef__op_accumulate = {
    .name = "accumulate",
    .formula = "state = keep state + x; x alone where keep is 0",
    .n_min = 3,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE},
    .infer = accumulate_infer,
    .ref = accumulate_ref,
    .flops = 12,
    .lower = accumulate_lower,
    .view = 1,
    .writes = 1,
    .proof = CLEF__PROOF_BY_CASES,
    .cases = "optimizer",
    .tol = 3e-7f, /* two roundings */
};

/* ---- sum_squares ------------------------------------------------------------------------------ */

clef_value *clef_sum_squares(clef_graph *g, clef_value *x, clef_value *before)
{
    return clef__node(g, CLEF_OP_sum_squares, (clef_value *[]){x, before}, 2, NULL);
}

static clef_status sum_squares_infer(clef_value *n, clef_error *err)
{
    const clef_shape parts = clef_shape_1(clef_n(CLEF_NORM_PARTS));
    char text[96];
    if (n->in[1] && !clef__shape_equal(&n->in[1]->shape, &parts))
        return clef__fail(err, CLEF_E_SHAPE, "before %s, expected [%d]",
                          clef__shape_text(n->graph, &n->in[1]->shape, text), CLEF_NORM_PARTS);
    n->dtype = CLEF_F32;
    n->shape = parts;
    return CLEF_OK;
}

static void sum_squares_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t size = in[0].n[0] * in[0].n[1] * in[0].n[2] * in[0].n[3],
                  each = ((size + NORM_PARTS - 1) / NORM_PARTS + 15) / 16 * 16;
    (void)n;
    for (int64_t part = 0; part < NORM_PARTS; part++) {
        double sum = in[1].x ? in[1].x[part] : 0;
        for (int64_t i = part * each; i < (part + 1) * each && i < size; i++)
            sum += in[0].x[i] * in[0].x[i];
        out->x[part] = sum;
    }
}

static clef_cost sum_squares_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = 2 * (double)clef__elements(n->in[0], symbols);
    return cost;
}

static clef_status sum_squares_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    optimizer_args args = {.n = clef__size(lo, n->in[0]),
                           .grad = clef__view(lo, n->in[0]).offset,
                           .norm = clef__view(lo, n->in[1]).offset};
    args.decays = n->in[1] != NULL;
    return launch(lo, n, "sum_squares", &args, err);
}

const clef_op_def clef__op_sum_squares = {
    .name = "sum_squares",
    .formula = "out [64] = before + the sums of the squares of 64 parts of x",
    .n_min = 1,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .infer = sum_squares_infer,
    .ref = sum_squares_ref,
    .cost = sum_squares_cost,
    .lower = sum_squares_lower,
    .tol = 1e-5f, /* chains of some 10^3 terms of one sign */
};

/* ---- steps ------------------------------------------------------------------------------------ */

clef_value *clef_adamw(clef_graph *g, clef_value *p, clef_value *grad, clef_value *m, clef_value *v,
                       clef_value *numbers, clef_value *norm, const clef_optimizer_opts *opts)
{
    return clef__node(g, CLEF_OP_adamw, (clef_value *[]){p, grad, m, v, numbers, norm}, 6, opts);
}

clef_value *clef_sgd(clef_graph *g, clef_value *p, clef_value *grad, clef_value *m, clef_value *numbers,
                     clef_value *norm, const clef_optimizer_opts *opts)
{
    return clef__node(g, CLEF_OP_sgd, (clef_value *[]){p, grad, m, numbers, norm}, 5, opts);
}

static const clef_attr_def optimizer_attrs[] = {
    {"decays", CLEF_ATTR_INT, offsetof(clef_optimizer_opts, decays), NULL},
    {NULL, 0, 0, NULL},
};

static clef_status step_infer(clef_value *n, clef_error *err)
{
    const int32_t numbers = n->op == CLEF_OP_adamw ? 4 : 3;
    const clef_shape wanted = clef_shape_1(clef_n(CLEF_STEP_NUMBERS)),
                     parts = clef_shape_1(clef_n(CLEF_NORM_PARTS));
    char a[96], b[96];
    if (!clef__shape_equal(&n->in[numbers]->shape, &wanted) ||
        !clef__shape_equal(&n->in[numbers + 1]->shape, &parts))
        return clef__fail(err, CLEF_E_SHAPE, "numbers %s and norm %s, expected [%d] and [%d]",
                          clef__shape_text(n->graph, &n->in[numbers]->shape, a),
                          clef__shape_text(n->graph, &n->in[numbers + 1]->shape, b), CLEF_STEP_NUMBERS,
                          CLEF_NORM_PARTS);
    return infer_update(n, err);
}

/* What the gradient is multiplied by; NaN: no step is made. */
static double gradient_factor(const double *numbers, const double *norm)
{
    double sum = 0;
    for (int i = 0; i < NORM_PARTS; i++)
        sum += norm[i];
    const double scale = numbers[CLEF_STEP_SCALE], length = fabs(scale) * sqrt(sum),
                 clip = numbers[CLEF_STEP_CLIP];
    if (!isfinite(length))
        return NAN;
    return clip > 0 && length + 1e-6 > clip ? scale * clip / (length + 1e-6) : scale;
}

static void adamw_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const double *k = in[4].x, factor = gradient_factor(k, in[5].x);
    const double decay =
        ((const clef_optimizer_opts *)(const void *)n->attr)->decays ? k[CLEF_STEP_DECAY] : 0;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {
        out->x[i] = in[0].x[i];
        if (isnan(factor))
            continue;
        const double g = factor * in[1].x[i];
        const double m = in[2].x[i] = k[CLEF_STEP_BETA1] * in[2].x[i] + (1 - k[CLEF_STEP_BETA1]) * g;
        const double v = in[3].x[i] = k[CLEF_STEP_BETA2] * in[3].x[i] + (1 - k[CLEF_STEP_BETA2]) * g * g;
        out->x[i] -= k[CLEF_STEP_RATE] * decay * out->x[i];
        out->x[i] -= k[CLEF_STEP_RATE] * m / k[CLEF_STEP_CORRECT1] /
                     (sqrt(v / k[CLEF_STEP_CORRECT2]) + k[CLEF_STEP_EPS]);
    }
}

static void sgd_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const double *k = in[3].x, factor = gradient_factor(k, in[4].x);
    const double decay =
        ((const clef_optimizer_opts *)(const void *)n->attr)->decays ? k[CLEF_STEP_DECAY] : 0;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {
        out->x[i] = in[0].x[i];
        if (isnan(factor))
            continue;
        const double g = factor * in[1].x[i] + decay * out->x[i];
        in[2].x[i] = k[CLEF_STEP_BETA1] * in[2].x[i] + g;
        out->x[i] -= k[CLEF_STEP_RATE] * in[2].x[i];
    }
}

static clef_status step_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const int is_adamw = n->op == CLEF_OP_adamw;
    const int32_t numbers = is_adamw ? 4 : 3;
    optimizer_args args = {.n = clef__size(lo, n),
                           .p = clef__view(lo, n).offset,
                           .grad = clef__view(lo, n->in[1]).offset,
                           .m = clef__view(lo, n->in[2]).offset,
                           .v = is_adamw ? clef__view(lo, n->in[3]).offset : 0,
                           .numbers = clef__view(lo, n->in[numbers]).offset,
                           .norm = clef__view(lo, n->in[numbers + 1]).offset,
                           .decays = ((const clef_optimizer_opts *)(const void *)n->attr)->decays != 0};
    return launch(lo, n, is_adamw ? "adamw" : "sgd", &args, err);
}

const clef_op_def clef__op_adamw = {
    .name = "adamw",
    .formula = "a step of AdamW: p, m and v change in place; out = p after it",
    .n_min = 6,
    .n_max = 6,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE,
           CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = optimizer_attrs,
    .attr_bytes = sizeof(clef_optimizer_opts),
    .infer = step_infer,
    .ref = adamw_ref,
    .flops = 12,
    .lower = step_lower,
    .view = 1,
    .writes = 1 << 0 | 1 << 2 | 1 << 3,
    .proof = CLEF__PROOF_BY_CASES,
    .cases = "optimizer_adamw",
    .tol = 5e-6f, /* some ten roundings; the sum of the norm's parts */
};

const clef_op_def clef__op_sgd = {
    .name = "sgd",
    .formula = "a step of SGD with momentum: p and m change in place; out = p after it",
    .n_min = 5,
    .n_max = 5,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE,
           CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = optimizer_attrs,
    .attr_bytes = sizeof(clef_optimizer_opts),
    .infer = step_infer,
    .ref = sgd_ref,
    .flops = 12,
    .lower = step_lower,
    .view = 1,
    .writes = 1 << 0 | 1 << 2,
    .proof = CLEF__PROOF_BY_CASES,
    .cases = "optimizer_sgd",
    .tol = 5e-6f,
};

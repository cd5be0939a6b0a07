/* gated_delta: linear attention with the gated delta rule (arXiv:2412.06464); selective_scan: Mamba 2's
 * (arXiv: 2405.21060). Both go token by token, and their memory is a state of the graph. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/lower/paging.h"
#include "graph/op/ways.h"

enum { Q, K, V, A, B, RATES, BIAS, STATE, POS, RUNS, N_IN };
/* the same inputs of the scan */
enum { C = Q, X = V, STEP = A, SKIP = B };

static const clef_attr_def delta_attrs[] = {
    {"eps", CLEF_ATTR_FLOAT, offsetof(clef_gated_delta_opts, eps), NULL},
    {"tiled", CLEF_ATTR_INT, offsetof(clef_gated_delta_opts, tiled), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_gated_delta(clef_graph *g, const clef_gated_delta_in *in, const clef_gated_delta_opts *opts)
{
    clef_value *const list[N_IN] = {in->q,     in->k,    in->v,     in->a,   in->b,
                                    in->rates, in->bias, in->state, in->pos, in->runs};
    return clef__node(g, CLEF_OP_gated_delta, list, N_IN, opts);
}

static const clef_attr_def scan_attrs[] = {
    {"min", CLEF_ATTR_FLOAT, offsetof(clef_selective_scan_opts, min), NULL},
    {"max", CLEF_ATTR_FLOAT, offsetof(clef_selective_scan_opts, max), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_selective_scan(clef_graph *g, const clef_selective_scan_in *in,
                                const clef_selective_scan_opts *opts)
{
    clef_value *const list[N_IN] = {in->c,     in->b,    in->x,     in->dt,  in->skip,
                                    in->rates, in->bias, in->state, in->pos, in->runs};
    return clef__node(g, CLEF_OP_selective_scan, list, N_IN, opts);
}

static int is_scan(const clef_value *n)
{
    return n->op == CLEF_OP_selective_scan;
}

/* 1 where each element of x has its own step. */
static int is_each(const clef_value *n)
{
    return is_scan(n) && n->in[STEP]->shape.rank == 4;
}

static int same(const clef_shape *a, const clef_shape *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!clef__dim_equal(a->dim[i], b->dim[i]))
            return 0;
    return 1;
}

static clef_status check_each(const clef_value *n, clef_error *err)
{
    const clef_shape *x = &n->in[X]->shape, *dt = &n->in[STEP]->shape, *rates = &n->in[RATES]->shape;
    const clef_dim H = x->dim[2], E = x->dim[3];
    const clef_shape of_x = clef_shape_2(H, E), of_rates = clef_shape_3(H, E, n->in[C]->shape.dim[3]);
    char a[96], b[96];
    if (same(dt, x, 4) && clef__shape_equal(&n->in[SKIP]->shape, &of_x) &&
        clef__shape_equal(&n->in[BIAS]->shape, &of_x) && clef__shape_equal(rates, &of_rates))
        return CLEF_OK;
    return clef__fail(err, CLEF_E_SHAPE,
                      "dt %s, rates %s: expected x's shape and [H, E, D], and skip and bias [H, E]",
                      clef__shape_text(n->graph, dt, a), clef__shape_text(n->graph, rates, b));
}

static clef_status delta_infer(clef_value *n, clef_error *err)
{
    const clef_shape *q = &n->in[Q]->shape, *k = &n->in[K]->shape, *v = &n->in[V]->shape,
                     *s = &n->in[STATE]->shape;
    char a[96], b[96], c[96], d[96];
    if (!clef__is_cache(n->in[STATE]))
        return clef__fail(err, CLEF_E_ARG, "%s is neither a state nor a cache_write", n->in[STATE]->name);
    int fits = q->rank == 4 && k->rank == 4 && v->rank == 4 && s->rank == 4 && same(q, k, 4) &&
               same(q, v, 2) && !q->dim[2].symbol && !q->dim[3].symbol && !v->dim[2].symbol &&
               !v->dim[3].symbol && v->dim[2].n % q->dim[2].n == 0 && n->in[STATE]->dtype == CLEF_F32 &&
               q->dim[3].n <= DELTA_MAX_KEY;
    fits = fits && clef__dim_equal(s->dim[1], v->dim[2]) && clef__dim_equal(s->dim[2], q->dim[3]) &&
           clef__dim_equal(s->dim[3], v->dim[3]) &&
           (n->in[RUNS] ? clef__dim_equal(q->dim[1], clef_n(1))
                        : clef__dim_at(n->graph, q->dim[0], NULL) <= s->dim[0].n);
    if (!fits)
        return clef__fail(
            err, CLEF_E_SHAPE,
            "q %s, k %s, v %s, state %s: expected [B, T, Hk, D] twice, [B, T, H, E] and f32 [at "
            "least B, H, D, E], H a multiple "
            "of Hk, D up to %d",
            clef__shape_text(n->graph, q, a), clef__shape_text(n->graph, k, b),
            clef__shape_text(n->graph, v, c), clef__shape_text(n->graph, s, d), DELTA_MAX_KEY);
    for (int32_t i = A; !is_each(n) && i <= (is_scan(n) ? STEP : B); i++)
        if (n->in[i]->shape.rank != 3 || !same(&n->in[i]->shape, v, 3))
            return clef__fail(err, CLEF_E_SHAPE, "%s %s is not [B, T, H] of v %s", n->in[i]->name,
                              clef__shape_text(n->graph, &n->in[i]->shape, a),
                              clef__shape_text(n->graph, v, b));
    for (int32_t i = is_scan(n) ? SKIP : RATES; !is_each(n) && i <= BIAS; i++)
        if (n->in[i]->shape.rank != 1 || !clef__dim_equal(n->in[i]->shape.dim[0], v->dim[2]))
            return clef__fail(err, CLEF_E_SHAPE, "%s %s is not [H] of v %s", n->in[i]->name,
                              clef__shape_text(n->graph, &n->in[i]->shape, a),
                              clef__shape_text(n->graph, v, b));
    if (is_each(n) && check_each(n, err))
        return err ? err->status : CLEF_E_SHAPE;
    if (n->in[POS] && (n->in[POS]->shape.rank != 1 || !clef__dim_equal(n->in[POS]->shape.dim[0], q->dim[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of q %s",
                          clef__shape_text(n->graph, &n->in[POS]->shape, a),
                          clef__shape_text(n->graph, q, b));
    n->dtype = CLEF_F32;
    n->shape = *v;
    return n->in[RUNS] ? clef__check_paging(n, NULL, n->in[POS], n->in[RUNS], NULL, q->dim[0], err) : CLEF_OK;
}

static double inverse_norm(const double *x, int64_t n, double eps)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return 1 / sqrt(sum + eps);
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

/* Goes on by the token in row t, with column e of head h's memory. */
static void scan_token(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out, int64_t t,
                       int64_t h, int64_t e, double *s)
{
    const clef_selective_scan_opts *o = (const void *)n->attr;
    const int64_t H = in[X].n[2], D = in[C].n[3], head = t * H + h,
                  row = (t * in[C].n[2] + h / (H / in[C].n[2])) * D;
    const int64_t E = in[X].n[3], own = is_each(n) ? h * E + e : h, place = is_each(n) ? head * E + e : head;
    const double x = in[X].x[head * E + e], raw = softplus(in[STEP].x[place] + in[BIAS].x[own]),
                 most = o->max > 0 ? (double)o->max : HUGE_VAL, step = fmin(fmax(raw, (double)o->min), most);
    double y = in[SKIP].x[own] * x;
    for (int64_t d = 0; d < D; d++) {
        const double decay = exp(in[RATES].x[is_each(n) ? own * D + d : h] * step);
        y += (s[d] = s[d] * decay + in[K].x[row + d] * step * x) * in[C].x[row + d];
    }
    out->x[head * E + e] = y;
}

static void delta_token(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out, int64_t t,
                        int64_t h, int64_t e, double *s)
{
    const clef_gated_delta_opts *o = (const void *)n->attr;
    const int64_t H = in[V].n[2], E = in[V].n[3], Hk = in[Q].n[2], D = in[Q].n[3], head = t * H + h,
                  row = (t * Hk + (o->tiled ? h % Hk : h / (H / Hk))) * D;
    const double *q = in[Q].x + row, *k = in[K].x + row;
    const double by_q = inverse_norm(q, D, (double)o->eps) / sqrt((double)D),
                 by_k = inverse_norm(k, D, (double)o->eps);
    const double decay = exp(in[RATES].x[h] * softplus(in[A].x[head] + in[BIAS].x[h])),
                 beta = 1 / (1 + exp(-in[B].x[head]));
    double seen = 0, y = 0;
    for (int64_t d = 0; d < D; d++)
        seen += (s[d] *= decay) * k[d] * by_k;
    for (int64_t d = 0; d < D; d++) {
        s[d] += k[d] * by_k * (in[V].x[head * E + e] - seen) * beta;
        y += s[d] * q[d] * by_q;
    }
    out->x[head * E + e] = y;
}

/* Computes one column of a head's memory for the tokens of a run. */
static void ref_column(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out,
                       clef__ref_run run, int is_kept, int64_t h, int64_t e)
{
    const int64_t H = in[V].n[2], E = in[V].n[3], D = in[Q].n[3];
    double s[DELTA_MAX_KEY];
    for (int64_t d = 0; d < D; d++)
        s[d] = is_kept ? in[STATE].x[((run.sequence * H + h) * D + d) * E + e] : 0;
    for (int64_t t = run.first; t < run.first + run.rows; t++)
        (is_scan(n) ? scan_token : delta_token)(n, in, out, t, h, e, s);
}

static void delta_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t T = in[V].n[1], columns = in[V].n[2] * in[V].n[3],
                  runs = in[RUNS].x ? in[RUNS].n[2] : in[V].n[0];
    for (int64_t i = 0; i < runs * columns; i++) {
        const int64_t r = i / columns, h = i / in[V].n[3] % in[V].n[2], e = i % in[V].n[3];
        const double *words = in[RUNS].x ? in[RUNS].x + r * RUN_WORDS : NULL;
        const clef__ref_run run =
            words ? (clef__ref_run){(int64_t)words[0], (int64_t)words[1], (int64_t)words[2]}
                  : (clef__ref_run){r, r * T, T};
        ref_column(n, in, out, run, in[POS].x && in[POS].x[words ? run.first : r] != 0, h, e);
    }
}

static clef_cost delta_cost(const clef_value *n, const int64_t *symbols)
{
    return clef__cost_elementwise(n, symbols, (is_scan(n) ? 5.0 : 7.0) * (double)n->in[Q]->shape.dim[3].n);
}

/* What both kernels take; `columns` are those of a group of wg work-items. */
static delta_args lower_args(clef_lowering *lo, const clef_value *n)
{
    const clef_value *const *in = (const clef_value *const *)n->in;
    delta_args args = {.group = clef__n(lo, n, 1) / clef__n(lo, in[Q], 1),
                       .n_k = clef__n(lo, in[Q], 1),
                       .q = clef__view(lo, in[Q]),
                       .k = clef__view(lo, in[K]),
                       .v = clef__view(lo, in[V]),
                       .a = clef__view(lo, in[A]),
                       .b = clef__view(lo, in[B]),
                       .rates = clef__view(lo, in[RATES]).offset,
                       .bias = clef__view(lo, in[BIAS]).offset,
                       .state = clef__view(lo, in[STATE]).offset,
                       .pos = clef__view(lo, in[POS]).offset,
                       .runs = clef__view(lo, in[RUNS]).offset};
    clef__n4(lo, n, args.n);
    if (in[RUNS])
        args.n[0] = clef__n(lo, in[RUNS], 1);
    return args;
}

static clef_status launch(clef_lowering *lo, const clef_value *n, const delta_args *args, clef_error *err)
{
    enum { CPU_COLUMNS = 16, GPU_ITEMS = 64 };
    const clef_value *const *in = (const clef_value *const *)n->in;
    uint32_t wg = clef__fit_local(lo, clef__n(lo, n, 0));
    wg = wg < GPU_ITEMS ? wg : GPU_ITEMS;
    const uint32_t columns = wg == 1 ? CPU_COLUMNS : wg;
    clef_launch l = {
        .source = is_scan(n) ? "scan" : "delta",
        .kernel = is_scan(n) ? "selective_scan" : "gated_delta",
        .defs = {{"WG", (int32_t)wg},
                 {"D", (int32_t)clef__n(lo, in[Q], 0)},
                 {"RATE_TYPE", (int32_t)in[RATES]->dtype},
                 {"BIAS_TYPE", (int32_t)in[BIAS]->dtype},
                 {"POS", in[POS] != NULL},
                 {"RUNS", in[RUNS] != NULL}},
        .args = args,
        .args_bytes = sizeof *args,
        .bufs = {n, in[Q], in[K], in[V], in[A], in[B], in[RATES], in[BIAS], in[STATE], in[POS], in[RUNS]},
        .n_bufs = in[RUNS] ? 11 : 10,
        .groups = {clef__ceil_div(args->n[3], columns) * args->n[2] * args->n[0]},
        .local = {wg}};
    if (is_scan(n)) {
        l.defs[6] = (clef_def){"SKIP_TYPE", (int32_t)in[SKIP]->dtype};
        l.defs[7] = (clef_def){"EACH", is_each(n)};
    }
    return clef__launch(lo, &l, err);
}

static clef_status delta_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_gated_delta_opts *o = (const void *)n->attr;
    delta_args args = lower_args(lo, n);
    args.eps = o->eps;
    args.group = o->tiled ? 1 : args.group;
    return launch(lo, n, &args, err);
}

static clef_status scan_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_selective_scan_opts *o = (const void *)n->attr;
    delta_args args = lower_args(lo, n);
    args.lo = o->min;
    args.hi = o->max > 0 ? o->max : FLT_MAX;
    return launch(lo, n, &args, err);
}

static int delta_draw(const clef_value *n, int32_t i, const int64_t *symbols, float *out)
{
    const int64_t rows = clef__dim_at(n->graph, n->in[V]->shape.dim[0], symbols);
    const clef__paging_in in = {.pos = n->in[POS], .runs = n->in[RUNS]};
    return in.runs && clef__draw_paging(&in, n->in[i], rows, symbols, out);
}

const clef_op_def clef__op_gated_delta = {
    .name = "gated_delta",
    .formula = "S = e^(rate softplus(a + bias)) S; S += k' (v - k' S) sigmoid(b); out = q' S / sqrt(D); k' = "
               "k / |k|, q' = q / |q|; S is "
               "the state",
    .n_min = 8,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS,
           CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_FLOAT | CLEF_IN_DENSE,
           CLEF_IN_FLOAT | CLEF_IN_DENSE, CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .draw = delta_draw,
    .attrs = delta_attrs,
    .attr_bytes = sizeof(clef_gated_delta_opts),
    .infer = delta_infer,
    .way = clef__way_gated_delta,
    .ref = delta_ref,
    .cost = delta_cost,
    .lower = delta_lower,
    .proof = CLEF__PROOF_BY_CASES,
    .writes = 1 << STATE,
    .tol = 1e-5f, /* a memory that 40 tokens have changed, D / 16 roundings of 6e-8 each */
};

const clef_op_def clef__op_selective_scan = {
    .name = "selective_scan",
    .formula =
        "S = e^(rate step) S + b (step x)^T, step = softplus(dt + bias) within min .. max; out = c S + "
        "skip x, of each head or of each element of x; S is the state",
    .n_min = 8,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS,
           CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_FLOAT | CLEF_IN_DENSE, CLEF_IN_FLOAT | CLEF_IN_DENSE,
           CLEF_IN_FLOAT | CLEF_IN_DENSE, CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .draw = delta_draw,
    .attrs = scan_attrs,
    .attr_bytes = sizeof(clef_selective_scan_opts),
    .infer = delta_infer,
    .way = clef__way_gated_delta,
    .ref = delta_ref,
    .cost = delta_cost,
    .lower = scan_lower,
    .proof = CLEF__PROOF_BY_CASES,
    .writes = 1 << STATE,
    .tol = 1e-5f, /* as gated_delta's */
};

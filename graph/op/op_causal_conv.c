/* causal_conv: a convolution of each channel over the last K positions. A state keeps the positions before
 * this step. */
#include <string.h>

#include "graph/lower/paging.h"
#include "graph/op/ways.h"

enum { X, W, STATE, POS, RUNS, N_IN }; /* indices of the inputs */

clef_value *clef_causal_conv(clef_graph *g, clef_value *x, clef_value *w, clef_value *state, clef_value *pos)
{
    return clef__node(g, CLEF_OP_causal_conv, (clef_value *[]){x, w, state, pos}, 4, NULL);
}

clef_value *clef_causal_conv_of_runs(clef_graph *g, clef_value *x, clef_value *w, clef_value *state,
                                     clef_value *pos, clef_value *runs)
{
    return clef__node(g, CLEF_OP_causal_conv, (clef_value *[]){x, w, state, pos, runs}, N_IN, NULL);
}

static clef_status conv_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *w = n->in[1], *state = n->in[2], *pos = n->in[3], *runs = n->in[RUNS];
    const clef_dim *s = state->shape.dim;
    char a[96], b[96], c[96];
    if (!clef__is_cache(state))
        return clef__fail(err, CLEF_E_ARG, "%s is neither a state nor a cache_write", state->name);
    const int fits = x->shape.rank == 3 && w->shape.rank == 2 && state->shape.rank == 4 &&
                     state->dtype == CLEF_F32 && !w->shape.dim[0].symbol && !w->shape.dim[1].symbol &&
                     clef__dim_equal(x->shape.dim[2], w->shape.dim[0]) && w->shape.dim[1].n >= 2 &&
                     w->shape.dim[1].n <= CONV_MAX_TAPS && s[1].n == 1 && !s[1].symbol &&
                     s[2].n == w->shape.dim[1].n - 1 && !s[2].symbol &&
                     clef__dim_equal(s[3], x->shape.dim[2]) &&
                     (runs ? clef__dim_equal(x->shape.dim[1], clef_n(1))
                           : clef__dim_at(n->graph, x->shape.dim[0], NULL) <= s[0].n);
    if (!fits)
        return clef__fail(
            err, CLEF_E_SHAPE,
            "x %s, w %s, state %s: expected [B, T, C], [C, K] and f32 [at least B, 1, K - 1, C], K 2 to %d",
            clef__shape_text(n->graph, &x->shape, a), clef__shape_text(n->graph, &w->shape, b),
            clef__shape_text(n->graph, &state->shape, c), CONV_MAX_TAPS);
    if (pos && (pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], x->shape.dim[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of x %s",
                          clef__shape_text(n->graph, &pos->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    const clef_status status =
        runs ? clef__check_paging(n, NULL, pos, runs, NULL, x->shape.dim[0], err) : CLEF_OK;
    return status ? status : clef__infer_same(n, err);
}

/* With runs a sequence's positions are the rows of its run. */
static void runs_ref(const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t C = in[X].n[3], K = in[W].n[3];
    for (int64_t i = 0; i < in[X].n[1] * C; i++) {
        const int64_t c = i % C, b = i / C;
        clef__ref_run run;
        double sum = 0;
        if (!clef__ref_find_run(&in[RUNS], b, &run))
            continue;
        for (int64_t j = 0; j < K; j++) {
            const int64_t at = b - run.first + j - (K - 1);
            sum += in[W].x[c * K + j] * (at >= 0 ? in[X].x[(run.first + at) * C + c]
                                         : in[POS].x[run.first] != 0
                                             ? in[STATE].x[(run.sequence * (K - 1) + at + K - 1) * C + c]
                                             : 0);
        }
        out->x[i] = sum;
    }
}

static void conv_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t T = in[0].n[2], C = in[0].n[3], K = in[1].n[3];
    (void)n;
    if (in[RUNS].x) {
        runs_ref(in, out);
        return;
    }
    for (int64_t i = 0; i < in[0].n[1] * T * C; i++) {
        const int64_t c = i % C, t = i / C % T, b = i / C / T;
        const int is_kept = in[3].x && in[3].x[b] != 0;
        double sum = 0;
        for (int64_t j = 0; j < K; j++) {
            const int64_t at = t + j - (K - 1);
            const double x = at >= 0   ? in[0].x[(b * T + at) * C + c]
                             : is_kept ? in[2].x[(b * (K - 1) + at + K - 1) * C + c]
                                       : 0;
            sum += in[1].x[c * K + j] * x;
        }
        out->x[i] = sum;
    }
}

static clef_cost conv_cost(const clef_value *n, const int64_t *symbols)
{
    return clef__cost_elementwise(n, symbols, 2.0 * (double)n->in[1]->shape.dim[1].n);
}

static clef_status conv_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { CPU_CHANNELS = 64 };
    const clef_value *x = n->in[0], *w = n->in[1], *state = n->in[2], *pos = n->in[3], *runs = n->in[RUNS];
    const uint32_t wg = clef__fit_local(lo, clef__n(lo, x, 0)), channels = wg == 1 ? CPU_CHANNELS : wg;
    const conv_args args = {.n_b = runs ? clef__n(lo, runs, 1) : clef__n(lo, x, 2),
                            .n_t = clef__n(lo, x, 1),
                            .n_c = clef__n(lo, x, 0),
                            .channels = channels,
                            .x = clef__view(lo, x),
                            .w = clef__view(lo, w).offset,
                            .state = clef__view(lo, state).offset,
                            .pos = clef__view(lo, pos).offset,
                            .runs = clef__view(lo, runs).offset};
    return clef__launch(lo,
                        &(clef_launch){.source = "conv",
                                       .kernel = "causal_conv",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"TAPS", (int32_t)clef__n(lo, w, 0)},
                                                {"W_TYPE", (int32_t)w->dtype},
                                                {"POS", pos != NULL},
                                                {"RUNS", runs != NULL}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, x, w, state, pos, runs},
                                       .n_bufs = runs ? 6 : 5,
                                       .groups = {clef__ceil_div(args.n_c, channels) * args.n_b},
                                       .local = {wg}},
                        err);
}

static int conv_draw(const clef_value *n, int32_t i, const int64_t *symbols, float *out)
{
    const int64_t rows = clef__dim_at(n->graph, n->in[X]->shape.dim[0], symbols);
    const clef__paging_in in = {.pos = n->in[POS], .runs = n->in[RUNS]};
    return in.runs && clef__draw_paging(&in, n->in[i], rows, symbols, out);
}

const clef_op_def clef__op_causal_conv = {
    .name = "causal_conv",
    .formula = "out[b, t, c] = sum_j w[c, j] x[b, t + j - K + 1, c]; what lies before the step comes from "
               "the state, which goes on",
    .n_min = 3,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_FLOAT | CLEF_IN_DENSE, CLEF_IN_DENSE,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .draw = conv_draw,
    .infer = conv_infer,
    .way = clef__way_causal_conv,
    .ref = conv_ref,
    .cost = conv_cost,
    .lower = conv_lower,
    .writes = 1 << 2,
    .tol = 1e-6f, /* up to 16 products summed, 6e-8 each */
};

/* sample: draws the next token and prepares the ids, positions and history for the next step. sample_rows:
 * draws a token of each row by options of its own. */
#include "graph/op/sample.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"

enum { LOGITS, HISTORY, IDS, POS, OPTIONS, N_IN };

/* Up to SMALL_VOCAB one launch does everything: more launches would cost more than they save. */
enum { SMALL_VOCAB = 8192, SPAN = 256 };

/* Rows that sample_rows samples for at once: each needs scratch memory of 16 bytes for each logit. */
enum { ROWS_AT_ONCE = 16 };

clef_value *clef_sample(clef_graph *g, clef_value *logits, clef_value *history, clef_value *ids,
                        clef_value *pos, clef_value *options)
{
    return clef__node(g, CLEF_OP_sample, (clef_value *[]){logits, history, ids, pos, options}, N_IN, NULL);
}

/* Checks that a value is an input or a state, since the op writes to it. */
static clef_status check_leaf(const clef_value *v, int32_t rank, const char *wanted, clef_error *err)
{
    char text[96];
    if (v->kind != CLEF_INPUT && v->kind != CLEF_STATE)
        return clef__fail(err, CLEF_E_ARG, "%s is computed, expected an input or a state", v->name);
    if (v->shape.rank != rank)
        return clef__fail(err, CLEF_E_SHAPE, "%s %s, expected %s", v->name,
                          clef__shape_text(v->graph, &v->shape, text), wanted);
    return CLEF_OK;
}

static clef_status check_logits(const clef_value *n, clef_error *err)
{
    const clef_shape *x = &n->in[LOGITS]->shape;
    char text[96];
    if (x->rank < 2 || x->rank > 3 || (x->rank == 3 && (x->dim[1].symbol || x->dim[1].n != 1)) ||
        x->dim[x->rank - 1].symbol)
        return clef__fail(err, CLEF_E_SHAPE, "logits %s, expected [B, V] or [B, 1, V]",
                          clef__shape_text(n->graph, x, text));
    return CLEF_OK;
}

static clef_status sample_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[LOGITS], *history = n->in[HISTORY], *ids = n->in[IDS], *pos = n->in[POS],
                     *o = n->in[OPTIONS];
    const clef_dim B = x->shape.dim[0];
    char a[96], b[96];
    clef_status s = check_logits(n, err);
    if (!s)
        s = check_leaf(history, 2, "[at least B, capacity]", err);
    if (!s)
        s = check_leaf(ids, 2, "[B, T]", err);
    if (!s)
        s = check_leaf(pos, 1, "[B]", err);
    if (s)
        return s;
    if (!clef__dim_equal(ids->shape.dim[0], B) || !clef__dim_equal(pos->shape.dim[0], B) ||
        clef__dim_at(n->graph, B, NULL) > clef__dim_at(n->graph, history->shape.dim[0], NULL))
        return clef__fail(
            err, CLEF_E_SHAPE, "logits %s and ids %s: they, pos and history have different batches",
            clef__shape_text(n->graph, &x->shape, a), clef__shape_text(n->graph, &ids->shape, b));
    if (o->shape.rank != 1 || o->shape.dim[0].symbol || o->shape.dim[0].n != SAMPLE_OPTIONS)
        return clef__fail(err, CLEF_E_SHAPE, "options %s, expected [%d]",
                          clef__shape_text(n->graph, &o->shape, a), SAMPLE_OPTIONS);
    n->dtype = CLEF_I32;
    n->shape = clef_shape_1(B);
    return CLEF_OK;
}

/* ---- reference ------------------------------------------------------------------------------- */

static sample_options options_of(const double *x)
{
    sample_options o;
    int32_t words[SAMPLE_OPTIONS];
    for (int i = 0; i < SAMPLE_OPTIONS; i++)
        words[i] = (int32_t)x[i];
    memcpy(&o, words, sizeof o);
    return o;
}

/* Finds the last tokens of row b, this step's included. Returns their number. */
static int32_t recent_of(const clef_ref_tensor *in, int64_t b, int32_t last_n, int32_t *out)
{
    const int64_t T = in[IDS].n[3], capacity = in[HISTORY].n[3], pos = (int64_t)in[POS].x[b];
    int32_t n = 0;
    for (int64_t q = pos + T - last_n < 0 ? 0 : pos + T - last_n; q < pos + T; q++)
        if (q >= pos)
            out[n++] = (int32_t)in[IDS].x[b * T + q - pos];
        else if (q < capacity)
            out[n++] = (int32_t)in[HISTORY].x[b * capacity + q];
    return n;
}

static void sample_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const sample_options o = options_of(in[OPTIONS].x);
    const int64_t V = in[LOGITS].n[3], B = out->n[3], T = in[IDS].n[3];
    const int64_t room = T + in[HISTORY].n[3], last_n = o.last_n < room ? o.last_n : room;
    (void)n;
    if (o.mode == SAMPLE_OFF)
        return;
    float *logits = calloc((size_t)V, sizeof *logits);
    clef_candidate *c = calloc((size_t)V, sizeof *c);
    int32_t *recent = calloc((size_t)room, sizeof *recent);
    for (int64_t b = 0; b < B && logits && c && recent; b++) {
        for (int64_t i = 0; i < V; i++)
            logits[i] = (float)in[LOGITS].x[b * V + i];
        const int32_t n_recent = recent_of(in, b, (int32_t)last_n, recent);
        const int64_t draw = (int64_t)in[POS].x[b] + T - o.first;
        out->x[b] =
            clef__sample_pick(&o, logits, (int32_t)V, recent, n_recent, (uint64_t)draw, (uint32_t)b, c);
    }
    free(logits);
    free(c);
    free(recent);
}

static clef_cost sample_cost(const clef_value *n, const int64_t *symbols)
{
    const double elements = (double)clef__elements(n->in[LOGITS], symbols);
    return (clef_cost){.flops = elements, .bytes = elements * sizeof(float)};
}

/* ---- lowering -------------------------------------------------------------------------------- */

/* Bytes of scratch for each row: ulong weights, uint distances and floats after penalties of the logits, and
 * three arrays of blocks. */
static uint64_t row_bytes(uint32_t blocks)
{
    return (uint64_t)blocks * SAMPLE_BLOCK * 16 + (uint64_t)blocks * 12;
}

/* Launches kernels[0] for n_rows rows, or [1] and [2] if one launch would take too long. */
static clef_status launch_rows(clef_lowering *lo, clef_launch *launch, const char *const kernels[3],
                               sample_args *args, uint32_t n_rows, int one, clef_error *err)
{
    const uint32_t wg = clef__fit_local(lo, args->n_vocab);
    args->blocks = clef__ceil_div(args->n_vocab, 16 * SAMPLE_BLOCK) * 16;
    args->span = one ? args->blocks : wg > 1 ? wg : SPAN;
    launch->kernel = kernels[!one];
    launch->defs[0] = (clef_def){"WG", (int32_t)wg};
    launch->defs[1] = (clef_def){"ALONE", one};
    launch->args = args;
    launch->args_bytes = sizeof *args;
    launch->groups[0] = clef__ceil_div(args->blocks, args->span);
    launch->groups[1] = n_rows;
    launch->local[0] = wg;
    launch->scratch_bytes = row_bytes(args->blocks) * n_rows;
    const clef_status s = clef__launch(lo, launch, err);
    if (s || one)
        return s;
    launch->kernel = kernels[2];
    launch->groups[0] = 1;
    return clef__launch(lo, launch, err);
}

static clef_status sample_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    static const char *const kernels[] = {"sample_whole", "sample_blocks", "sample_pick"};
    const clef_value *x = n->in[LOGITS];
    sample_args args = {.n_vocab = clef__n(lo, x, 0),
                        .length = clef__n(lo, n->in[IDS], 0),
                        .capacity = clef__n(lo, n->in[HISTORY], 0),
                        .logits = clef__view(lo, x).offset,
                        .options = clef__view(lo, n->in[OPTIONS]).offset};
    clef_launch launch = {
        .source = "sample",
        .bufs = {n, CLEF__SCRATCH, n->in[HISTORY], n->in[IDS], n->in[POS], x, n->in[OPTIONS]},
        .n_bufs = 7};
    /* a row's sample may not write ids that another row still reads */
    const int one = args.n_vocab <= SMALL_VOCAB && clef__bound_n(lo, n, 0) == 1;
    return launch_rows(lo, &launch, kernels, &args, clef__n(lo, n, 0), one, err);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static clef_row_range history_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = n->in[HISTORY]->shape.dim[1], .span = n->in[IDS]->shape.dim[1]};
}

const clef_op_def clef__op_sample = {
    .name = "sample",
    .formula = "out = the next token of each row by penalty, top-k, top-p, min-p and a draw; ids = out, pos "
               "+= T, history += ids",
    .n_min = N_IN,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE,
           CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .row_numbers = 1 << POS,
    .row_range = history_rows,
    .infer = sample_infer,
    .ref = sample_ref,
    .cost = sample_cost,
    .lower = sample_lower,
    .proof = CLEF__PROOF_BY_CASES,
    .writes = 1 << HISTORY | 1 << IDS | 1 << POS,
    .tol = 0, /* exact: the sums are of integers */
};

/* ---- sample_rows ------------------------------------------------------------------------------- */

enum { RECENT = 1, ROW_OPTIONS, N_ROWS_IN };

clef_value *clef_sample_rows(clef_graph *g, clef_value *logits, clef_value *recent, clef_value *options)
{
    return clef__node(g, CLEF_OP_sample_rows, (clef_value *[]){logits, recent, options}, N_ROWS_IN, NULL);
}

static clef_status sample_rows_infer(clef_value *n, clef_error *err)
{
    const clef_shape *x = &n->in[LOGITS]->shape, *recent = &n->in[RECENT]->shape,
                     *o = &n->in[ROW_OPTIONS]->shape;
    char a[96], b[96];
    const clef_status s = check_logits(n, err);
    if (s)
        return s;
    if (recent->rank != 2 || recent->dim[1].symbol || !clef__dim_equal(recent->dim[0], x->dim[0]))
        return clef__fail(err, CLEF_E_SHAPE, "recent tokens %s, expected [N, R] for logits %s",
                          clef__shape_text(n->graph, recent, a), clef__shape_text(n->graph, x, b));
    if (o->rank != 2 || o->dim[1].symbol || o->dim[1].n != SAMPLE_OPTIONS ||
        !clef__dim_equal(o->dim[0], x->dim[0]))
        return clef__fail(err, CLEF_E_SHAPE, "options %s, expected [N, %d] for logits %s",
                          clef__shape_text(n->graph, o, a), SAMPLE_OPTIONS, clef__shape_text(n->graph, x, b));
    n->dtype = CLEF_I32;
    n->shape = clef_shape_1(x->dim[0]);
    return CLEF_OK;
}

/* Samples for row b; the others' room is used again. */
static int32_t sample_of_row(const clef_ref_tensor *in, int64_t b, float *logits, int32_t *recent,
                             clef_candidate *c)
{
    const int64_t V = in[LOGITS].n[3], R = in[RECENT].n[3];
    const sample_options o = options_of(in[ROW_OPTIONS].x + b * SAMPLE_OPTIONS);
    const int64_t n_recent = o.last_n < R ? o.last_n : R;
    for (int64_t i = 0; i < V; i++)
        logits[i] = (float)in[LOGITS].x[b * V + i];
    for (int64_t i = 0; i < n_recent; i++)
        recent[i] = (int32_t)in[RECENT].x[(b + 1) * R - n_recent + i];
    return o.mode == SAMPLE_OFF ? 0
                                : clef__sample_pick(&o, logits, (int32_t)V, recent, (int32_t)n_recent,
                                                    (uint64_t)o.first, o.stream, c);
}

static void sample_rows_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    float *logits = calloc((size_t)in[LOGITS].n[3], sizeof *logits);
    clef_candidate *c = calloc((size_t)in[LOGITS].n[3], sizeof *c);
    int32_t *recent = calloc((size_t)in[RECENT].n[3], sizeof *recent);
    (void)n;
    for (int64_t b = 0; b < out->n[3] && logits && c && recent; b++)
        out->x[b] = sample_of_row(in, b, logits, recent, c);
    free(logits);
    free(c);
    free(recent);
}

static clef_status sample_rows_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    static const char *const kernels[] = {"sample_rows_whole", "sample_rows_blocks", "sample_rows_pick"};
    const uint32_t N = clef__n(lo, n, 0);
    sample_args args = {.n_vocab = clef__n(lo, n->in[LOGITS], 0),
                        .length = clef__n(lo, n->in[RECENT], 0),
                        .logits = clef__view(lo, n->in[LOGITS]).offset,
                        .ids = clef__view(lo, n->in[RECENT]).offset,
                        .options = clef__view(lo, n->in[ROW_OPTIONS]).offset};
    clef_status s = CLEF_OK;
    for (; args.first < N && !s; args.first += ROWS_AT_ONCE) {
        const uint32_t left = N - args.first;
        clef_launch launch = {.source = "sample_rows",
                              .bufs = {n, CLEF__SCRATCH, n->in[LOGITS], n->in[RECENT], n->in[ROW_OPTIONS]},
                              .n_bufs = 5};
        s = launch_rows(lo, &launch, kernels, &args, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE,
                        args.n_vocab <= SMALL_VOCAB, err);
    }
    return s;
}

const clef_op_def clef__op_sample_rows = {
    .name = "sample_rows",
    .formula =
        "out[n] = a token of row n by penalty of its recent tokens, top-k, top-p, min-p and a draw, by "
        "its own options",
    .n_min = N_ROWS_IN,
    .n_max = N_ROWS_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .infer = sample_rows_infer,
    .ref = sample_rows_ref,
    .cost = sample_cost,
    .lower = sample_rows_lower,
    .proof = CLEF__PROOF_BY_CASES,
    .tol = 0, /* exact: the sums are of integers */
};

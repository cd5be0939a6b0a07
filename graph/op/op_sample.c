/* sample: picks the next token and prepares the ids, positions and history for the next step. */
#include "graph/op/sample.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"

enum { LOGITS, HISTORY, IDS, POS, OPTIONS, N_IN };

/* Up to SMALL_VOCAB one launch does everything: more launches would cost more than they save. */
enum { SMALL_VOCAB = 8192, SPAN = 256 };

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

static clef_status sample_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[LOGITS], *history = n->in[HISTORY], *ids = n->in[IDS], *pos = n->in[POS],
                     *o = n->in[OPTIONS];
    const clef_dim B = x->shape.dim[0];
    char a[96], b[96];
    if (x->shape.rank < 2 ||
        !clef__dim_equal(clef__dim_right(&x->shape, 2), x->shape.rank == 2 ? clef_n(1) : B) ||
        x->shape.rank > 3 || (x->shape.rank == 3 && (x->shape.dim[1].symbol || x->shape.dim[1].n != 1)) ||
        x->shape.dim[x->shape.rank - 1].symbol)
        return clef__fail(err, CLEF_E_SHAPE, "logits %s, expected [B, V] or [B, 1, V]",
                          clef__shape_text(n->graph, &x->shape, a));
    clef_status s = check_leaf(history, 2, "[at least B, capacity]", err);
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

static sample_options options_of(const clef_ref_tensor *t)
{
    sample_options o;
    int32_t words[SAMPLE_OPTIONS];
    for (int i = 0; i < SAMPLE_OPTIONS; i++)
        words[i] = (int32_t)t->x[i];
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
    const sample_options o = options_of(&in[OPTIONS]);
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

static clef_status sample_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[LOGITS];
    const uint32_t V = clef__n(lo, x, 0), B = clef__n(lo, n, 0), B_bound = clef__bound_n(lo, n, 0);
    sample_args args = {.n_vocab = V,
                        .length = clef__n(lo, n->in[IDS], 0),
                        .capacity = clef__n(lo, n->in[HISTORY], 0),
                        .blocks = clef__ceil_div(V, 16 * SAMPLE_BLOCK) * 16,
                        .logits = clef__view(lo, x).offset,
                        .options = clef__view(lo, n->in[OPTIONS]).offset};
    const uint32_t wg = clef__fit_local(lo, V);
    const int one =
        V <= SMALL_VOCAB && B_bound == 1; /* a row's pick may not write ids that another row still reads */
    args.span = one ? args.blocks : wg > 1 ? wg : SPAN;
    clef_launch launch = {
        .source = "sample",
        .kernel = one ? "sample_whole" : "sample_blocks",
        .defs = {{"WG", (int32_t)wg}},
        .args = &args,
        .args_bytes = sizeof args,
        .bufs = {n, CLEF__SCRATCH, n->in[HISTORY], n->in[IDS], n->in[POS], x, n->in[OPTIONS]},
        .n_bufs = 7,
        .groups = {clef__ceil_div(args.blocks, args.span), B},
        .local = {wg},
        .scratch_bytes = row_bytes(args.blocks) * B};
    clef_status s = clef__launch(lo, &launch, err);
    if (s || one)
        return s;
    launch.kernel = "sample_pick";
    launch.groups[0] = 1;
    return clef__launch(lo, &launch, err);
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

/* sample: the next token, and the step's state made ready for the step that takes it. */
#include "graph/op/sample.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"

enum { LOGITS, HISTORY, IDS, POS, OPTIONS, N_IN };

/* Up to here one launch does it all: more would cost more than they save. */
enum { SMALL_VOCAB = 8192, SPAN = 256 };

clef_value *clef_sample(clef_graph *g, clef_value *logits, clef_value *history, clef_value *ids,
                        clef_value *pos, clef_value *options)
{
    return clef__node(g, CLEF_OP_sample, (clef_value *[]){logits, history, ids, pos, options}, N_IN, NULL);
}

/* What the op writes to has to be what the host writes to. */
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

/* ---- reference
 * ---------------------------------------------------------------------------------------------------------------
 */

static sample_options options_of(const clef_ref_tensor *t)
{
    sample_options o;
    int32_t words[SAMPLE_OPTIONS];
    for (int i = 0; i < SAMPLE_OPTIONS; i++)
        words[i] = (int32_t)t->x[i];
    memcpy(&o, words, sizeof o);
    return o;
}

/* The last of the tokens that row b has seen, this step's with them. Returns how many. */
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

/* ---- lowering
 * ----------------------------------------------------------------------------------------------------------------
 */

/* Bytes of scratch a row: ulong weights and uint distances of the logits looked at, floats after penalties,
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

/* ---- cases
 * -------------------------------------------------------------------------------------------------------------------
 */

/* Options as text: floats by their bits. 1067105082 is log2(e) / 0.8 ... see sample_options for the places.
 */
#define ROWS(B, V, T)                                                                                        \
    "input x f32 [" B ", 1, " V "]\nstate h i32 [3, 40]\ninput i i32 [" B ", " T "]\ninput p i32 [" B        \
    "]\nconst o i32 [16] = "
#define PICK "\ny = sample(x, h, i, p, o)\noutput y\n"
#define SCALE_1 "1069066811, 1065353216, 1065353216"         /* temperature 1, no penalty */
#define SCALE_08 "1072092362, 1065353216, 1065353216"        /* temperature 0.8 */
#define PENALTY "1069066811, 1073741824, 1056964608"         /* temperature 1, penalty 2 */
#define ALL "0, 0, 671088640, 7, 0, 0, 0, 0"                 /* no min-p, full reach, seed 7 */
#define MIN_P "-858993460, 12, 671088640, 9, 1, 0, 0, 0"     /* 0.05 */
#define MIN_P_NEAR "-858993460, 12, 72511598, 9, 1, 0, 0, 0" /* the same, and no farther than that */

static const clef_op_case sample_cases[] = {
    {.graph = "symbol T <= 5\n" ROWS("2", "67", "T") "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0" PICK,
     .int_hi = 9},
    {.graph = "symbol T <= 5\n" ROWS("1", "1", "T") "2, 0, 0, 0, " SCALE_1 ", 0, " ALL PICK, .int_hi = 1},
    {.graph = "symbol T <= 5\n" ROWS("2", "67", "T") "1, 0, 0, 0, " SCALE_1 ", 0, " ALL PICK, .int_hi = 9},
    {.graph = "symbol T <= 5\n" ROWS("2", "1031", "T") "1, 0, 8, 0, " PENALTY ", 0, " ALL PICK, .int_hi = 30},
    {.graph = "symbol T <= 5\n" ROWS("3", "1031", "T") "2, 0, 0, 0, " SCALE_1 ", 0, " ALL PICK, .int_hi = 30},
    {.graph = "symbol T <= 5\n" ROWS("1", "5003", "T") "2, 0, 0, 1, " SCALE_1 ", 0, " ALL PICK,
     .int_hi = 30,
     .spread = 4},
    {.graph = "symbol T <= 5\n" ROWS("3", "67", "T") "2, 5, 0, 0, " SCALE_08 ", 0, " ALL PICK, .int_hi = 30},
    {.graph = "symbol T <= 5\n" ROWS("2", "9001", "T") "2, 40, 20, 0, " PENALTY ", -214748365, " MIN_P PICK,
     .int_hi = 40,
     .spread = 3},
    {.graph = "symbol T <= 5\n" ROWS("1", "9001", "T") "2, 2000, 0, 0, " SCALE_08 ", 0, " ALL PICK,
     .int_hi = 40,
     .spread = 3},
    {.graph = "symbol T <= 5\n" ROWS("1", "30011", "T") "2, 0, 0, 0, " SCALE_08 ", -858993459, " ALL PICK,
     .int_hi = 40,
     .spread = 3},
    {.graph = "symbol T <= 5\n" ROWS("2", "9001", "T") "2, 0, 0, 0, " SCALE_1 ", 0, " MIN_P PICK,
     .int_hi = 40,
     .spread = 3},
    {.graph = "symbol T <= 5\n" ROWS("2", "9001", "T") "2, 40, 0, 0, " SCALE_1 ", 0, " MIN_P_NEAR PICK,
     .int_hi = 40,
     .spread = 3},
    /* ties at every limit, then NaNs and infinities */
    {.graph = "input k i32 [2, 1, 3000]\nconst t f32 [4] = 1, 2, 3, 4\nx = gather(t, k)\nstate h i32 [2, "
              "8]\ninput i i32 [2, 1]\n"
              "input p i32 [2]\nconst o i32 [16] = 2, 40, 0, 0, " SCALE_1 ", -429496730, " ALL PICK,
     .int_hi = 4},
    {.graph = "input k i32 [2, 1, 3000]\nconst t f32 [4] = 1, 2, 3, 4\nx = gather(t, k)\nstate h i32 [2, "
              "8]\ninput i i32 [2, 1]\n"
              "input p i32 [2]\nconst o i32 [16] = 2, 0, 0, 0, " SCALE_1 ", 1073741824, " ALL PICK,
     .int_hi = 4},
    {.graph = "input k i32 [3, 1, 300]\nconst t f32 [4] = 1, nan, -inf, 1.5\nx = gather(t, k)\nstate h i32 "
              "[3, 8]\ninput i i32 [3, 1]\n"
              "input p i32 [3]\nconst o i32 [16] = 2, 0, 4, 0, " PENALTY ", -429496730, " ALL PICK,
     .int_hi = 4},
    {.graph = "input k i32 [3, 1, 300]\nconst t f32 [4] = 1, nan, inf, -inf\nx = gather(t, k)\nstate h i32 "
              "[3, 8]\ninput i i32 [3, 1]\n"
              "input p i32 [3]\nconst o i32 [16] = 2, 0, 0, 0, " SCALE_1 ", -429496730, " ALL PICK,
     .int_hi = 4},
    {.graph = "const x f32 [2, 3] = nan, nan, nan, nan, -inf, -inf\nstate h i32 [2, 8]\ninput i i32 [2, "
              "1]\ninput p i32 [2]\n"
              "const o i32 [16] = 2, 0, 0, 0, " SCALE_1 ", 0, " ALL PICK,
     .int_hi = 3},
    {.graph = NULL},
};

const clef_op_def clef__op_sample = {
    .name = "sample",
    .formula = "out = the next token of each row by penalty, top-k, top-p, min-p and a draw; ids = out, pos "
               "+= T, history += ids",
    .n_min = N_IN,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE,
           CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .infer = sample_infer,
    .ref = sample_ref,
    .cost = sample_cost,
    .lower = sample_lower,
    .proof = CLEF__PROOF_BY_CASES,
    .writes = 1 << HISTORY | 1 << IDS | 1 << POS,
    .cases = sample_cases,
    .tol = 0, /* exact: the sums are of integers */
};

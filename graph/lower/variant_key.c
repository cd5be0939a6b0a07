/* Which nodes are alike to the tuner: the key of a node. */
#include "graph/lower/panel.h"
#include "graph/lower/variant.h"

int clef__tune_key_order(const clef_tune_key *a, const clef_tune_key *b)
{
    const int32_t x[] = {a->op, a->dtype, a->n, a->k, a->rows, a->form},
                  y[] = {b->op, b->dtype, b->n, b->k, b->rows, b->form};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int32_t rows_class(uint32_t rows)
{
    return rows == 1 ? CLEF_ROWS_ONE : rows <= CLEF_FEW_ROWS ? CLEF_ROWS_FEW : CLEF_ROWS_MANY;
}

/* form: 1 when b is [N, K]. */
static clef_tune_key matmul_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    return (clef_tune_key){.dtype = (int32_t)n->in[1]->dtype,
                           .n = (int32_t)clef__bound_n(lo, n, 0),
                           .k = (int32_t)clef__bound_n(lo, n->in[0], 0),
                           .rows = rows_class(clef__matmul_args(lo, n).m),
                           .form = o->transpose_b != 0};
}

/* n: rows of the packed weight; form: 1 when the activations are quantised, 2 when they are in half
 * precision, 3 when as the device likes. Rows that are to be alike among any number are of one class. */
static clef_tune_key panel_matmul_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return (clef_tune_key){.dtype = o->dtype,
                           .n = (int32_t)clef__panel_rows(o),
                           .k = o->k,
                           .rows = o->batch_invariant ? CLEF_ROWS_MANY : rows_class(clef__rows(lo, n)),
                           .form = o->quantise == 2 ? 3
                                   : o->quantise    ? 1
                                   : o->half        ? 2
                                                    : 0};
}

/* n: heads of q; k: the width of a head; rows: positions; form: heads of k and v. */
static clef_tune_key attention_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *q = n->in[0], *k = n->in[1];
    return (clef_tune_key){.dtype = (int32_t)k->dtype,
                           .n = (int32_t)clef__bound_n(lo, q, 2),
                           .k = (int32_t)clef__bound_n(lo, q, 0),
                           .rows = rows_class(clef__n(lo, q, 1)),
                           .form = (int32_t)clef__bound_n(lo, k, 2)};
}

/* By op; an op without a line here is alike where its weight's dtype, its last dims and its class of rows
 * are. */
static clef_tune_key (*const keys[CLEF_N_OPS])(const clef_lowering *lo, const clef_value *n) = {
    [CLEF_OP_matmul] = matmul_key,
    [CLEF_OP_panel_matmul] = panel_matmul_key,
    [CLEF_OP_attention] = attention_key,
};

static clef_tune_key any_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *w = n->in[1] ? n->in[1] : n->in[0];
    return (clef_tune_key){.dtype = w ? (int32_t)w->dtype : 0,
                           .n = (int32_t)clef__bound_n(lo, n, 0),
                           .k = w ? (int32_t)clef__bound_n(lo, w, 0) : 0,
                           .rows = rows_class(clef__rows(lo, n))};
}

clef_tune_key clef__tune_key(const clef_lowering *lo, const clef_value *n)
{
    clef_tune_key key = keys[n->op] ? keys[n->op](lo, n) : any_key(lo, n);
    key.op = (int32_t)n->op;
    return key;
}

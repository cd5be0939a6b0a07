/* attention_grad: the gradients of q, k and v of an attention, recomputed in tiles (arXiv:2307.08691). */
#include <math.h>
#include <string.h>

#include "graph/lower/attention/attention_grad.h"
#include "graph/op.h"

enum {
    Q = CLEF_ATTENTION_GRAD_Q,
    K = CLEF_ATTENTION_GRAD_K,
    V = CLEF_ATTENTION_GRAD_V,
    Y = CLEF_ATTENTION_GRAD_Y,
    DY = CLEF_ATTENTION_GRAD_DY,
    MASK = CLEF_ATTENTION_GRAD_MASK,
    POS = CLEF_ATTENTION_GRAD_POS,
    FIRST = CLEF_ATTENTION_GRAD_FIRST,
    N_IN = CLEF_ATTENTION_GRAD_N_IN
};

/* The input of attention that input i is; -1: none. */
static const int32_t in_attention[N_IN] = {
    CLEF_ATTENTION_Q,    CLEF_ATTENTION_K,   CLEF_ATTENTION_V,    -1, -1,
    CLEF_ATTENTION_MASK, CLEF_ATTENTION_POS, CLEF_ATTENTION_FIRST};

static const clef_attr_def attention_grad_attrs[] = {
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef_attention_opts, scale), NULL},
    {"softcap", CLEF_ATTR_FLOAT, offsetof(clef_attention_opts, softcap), NULL},
    {"causal", CLEF_ATTR_INT, offsetof(clef_attention_opts, causal), NULL},
    {"window", CLEF_ATTR_INT, offsetof(clef_attention_opts, window), NULL},
    {NULL, 0, 0, NULL},
};

clef_value clef__attention_of_grad(const clef_value *n)
{
    clef_value a = {.graph = n->graph, .op = CLEF_OP_attention, .dtype = CLEF_F32, .name = n->name};
    memcpy(a.attr, n->attr, sizeof a.attr);
    for (int32_t i = 0; i < N_IN; i++)
        if (in_attention[i] >= 0)
            a.in[in_attention[i]] = n->in[i];
    a.n_in = CLEF_ATTENTION_N_IN;
    a.shape = n->in[Y]->shape;
    return a;
}

/* ---- building ---------------------------------------------------------------------------------- */

/* `shape` [B, T, H, D] from `start` of the vector on, as [B, H, T, D]. */
static clef_value *part_of(clef_value *all, int64_t start, clef_shape shape)
{
    clef_graph *g = all->graph;
    const int64_t n = shape.dim[0].n * shape.dim[1].n * shape.dim[2].n * shape.dim[3].n;
    clef_value *part =
        clef_slice(g, all, &(clef_slice_opts){.axis = 0, .start = (int32_t)start, .size = clef_n(n)});
    return clef_permute(g, clef_reshape(g, part, shape), &(clef_permute_opts){{0, 2, 1, 3}});
}

clef__attention_gradients clef__attention_grad(clef_value *y, clef_value *dy)
{
    clef_value *const q = y->in[CLEF_ATTENTION_Q], *const k = y->in[CLEF_ATTENTION_K],
                      *const v = y->in[CLEF_ATTENTION_V];
    clef_value *in[N_IN] = {[Y] = y, [DY] = dy};
    for (int32_t i = 0; i < N_IN; i++)
        if (in_attention[i] >= 0)
            in[i] = y->in[in_attention[i]];
    clef_attention_opts opts = *(const clef_attention_opts *)(const void *)y->attr;
    opts.batch_invariant = 0;
    clef_value *all = clef__node(y->graph, CLEF_OP_attention_grad, in, N_IN, &opts);
    if (!all)
        return (clef__attention_gradients){0};
    const clef_dim *qd = q->shape.dim, *kd = k->shape.dim, *vd = v->shape.dim;
    const int64_t dk = clef__elements(q, NULL), dv = dk + clef__elements(k, NULL);
    return (clef__attention_gradients){.q = part_of(all, 0, clef_shape_4(qd[0], qd[2], qd[1], qd[3])),
                                       .k = part_of(all, dk, clef_shape_4(kd[0], kd[2], kd[1], kd[3])),
                                       .v = part_of(all, dv, clef_shape_4(vd[0], vd[2], vd[1], vd[3]))};
}

static clef_status attention_grad_infer(clef_value *n, clef_error *err)
{
    clef_value a = clef__attention_of_grad(n);
    char wanted[96], got[96];
    const clef_status s = clef__ops[CLEF_OP_attention]->infer(&a, err);
    int64_t size = 0;
    if (s)
        return s;
    for (int32_t i = Y; i <= DY; i++)
        if (!clef__shape_equal(&n->in[i]->shape, &a.shape))
            return clef__fail(err, CLEF_E_SHAPE, "%s %s, expected %s as attention's result",
                              i == Y ? "out" : "its gradient",
                              clef__shape_text(n->graph, &n->in[i]->shape, got),
                              clef__shape_text(n->graph, &a.shape, wanted));
    for (int32_t i = Q; i <= V; i++) {
        const clef_shape *x = &n->in[i]->shape;
        for (int32_t d = 0; d < 4; d++)
            if (x->dim[d].symbol)
                return clef__fail(err, CLEF_E_SHAPE, "%s %s: expected numbers as sizes", n->in[i]->name,
                                  clef__shape_text(n->graph, x, got));
        size += x->dim[0].n * x->dim[1].n * x->dim[2].n * x->dim[3].n;
    }
    n->dtype = CLEF_F32;
    n->shape = clef_shape_1(clef_n(size));
    return CLEF_OK;
}

/* ---- reference --------------------------------------------------------------------------------- */

/* The attention; the gradients of its inputs. */
typedef struct ref_call {
    clef__ref_attention attention;
    clef_ref_tensor in[CLEF_ATTENTION_N_IN];
    double *dq, *dk, *dv;
} ref_call;

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *to, double scale, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += scale * x[i];
}

/* Adds what one query gives to the gradients. */
static void ref_query(const ref_call *c, clef__ref_query r, const double *y, const double *dy)
{
    const clef_ref_tensor *q = &c->in[CLEF_ATTENTION_Q], *k = &c->in[CLEF_ATTENTION_K],
                          *v = &c->in[CLEF_ATTENTION_V];
    const int64_t H = q->n[1], Hk = k->n[1], D = q->n[3], S = k->n[2], E = v->n[3], hk = r.h / (H / Hk);
    const double *x = clef__attention_ref_row(c->in, CLEF_ATTENTION_Q, r, 0);
    const double mean = dot(y, dy, E);
    double most = -INFINITY, sum = 0, slope;
    for (int64_t s = 0; s < S; s++)
        most = fmax(most, clef__attention_ref_logit(&c->attention, r, s, x, &slope));
    most = most > -INFINITY ? most : 0;
    for (int64_t s = 0; s < S; s++)
        sum += exp(clef__attention_ref_logit(&c->attention, r, s, x, &slope) - most);
    for (int64_t s = 0; s < S; s++) {
        const double z = clef__attention_ref_logit(&c->attention, r, s, x, &slope);
        if (z == -INFINITY)
            continue;
        const double *key = clef__attention_ref_row(c->in, CLEF_ATTENTION_K, r, s),
                     *value = clef__attention_ref_row(c->in, CLEF_ATTENTION_V, r, s);
        const double p = exp(z - most) / sum, ds = p * (dot(dy, value, E) - mean) * slope;
        add_scaled(c->dq + ((r.b * q->n[2] + r.t) * H + r.h) * D, ds, key, D);
        add_scaled(c->dk + ((r.b * S + s) * Hk + hk) * D, ds, x, D);
        add_scaled(c->dv + ((r.b * S + s) * Hk + hk) * E, p, dy, E);
    }
}

static int64_t size_of(const clef_ref_tensor *x)
{
    return x->n[0] * x->n[1] * x->n[2] * x->n[3];
}

static void attention_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_value attention = clef__attention_of_grad(n);
    const clef_ref_tensor *q = &in[Q];
    const int64_t B = q->n[0], H = q->n[1], T = q->n[2], E = in[V].n[3];
    ref_call c = {.attention = {&attention, c.in, clef__attention_ref_row, c.in}, .dq = out->x};
    for (int32_t i = 0; i < n->n_in; i++)
        if (in_attention[i] >= 0)
            c.in[in_attention[i]] = in[i];
    c.dk = c.dq + size_of(q);
    c.dv = c.dk + size_of(&in[K]);
    memset(out->x, 0, (size_t)size_of(out) * sizeof *out->x);
    for (int64_t i = 0; i < B * T * H; i++) {
        const clef__ref_query r = {i / H / T, i % H, i / H % T, {-1, 0, 0}};
        ref_query(&c, r, in[Y].x + i * E, in[DY].x + i * E);
    }
}

/* ---- definition -------------------------------------------------------------------------------- */

/* The scores and four products in place of the two of attention. */
static clef_cost attention_grad_cost(const clef_value *n, const int64_t *symbols)
{
    const clef_value a = clef__attention_of_grad(n);
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = 2.5 * clef__ops[CLEF_OP_attention]->cost(&a, symbols).flops;
    return cost;
}

static int attention_grad_draw(const clef_value *n, int32_t i, const int64_t *symbols, float *out)
{
    return i == FIRST && clef__draw_documents(n->in[FIRST], symbols, out);
}

const clef_op_def clef__op_attention_grad = {
    .name = "attention_grad",
    .formula = "out = dq [B, T, H, D], dk [B, S, Hk, D], dv [B, S, Hk, E] of attention, one after the other",
    .n_min = 5,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_FLOAT | CLEF_IN_ROWS, CLEF_IN_FLOAT | CLEF_IN_ROWS,
           CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_MASK | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .draw = attention_grad_draw,
    .attrs = attention_grad_attrs,
    .attr_bytes = sizeof(clef_attention_opts),
    .infer = attention_grad_infer,
    .ref = attention_grad_ref,
    .cost = attention_grad_cost,
    .lower = clef__lower_variant,
    .tol = 5e-6f, /* weights as in attention, whose errors dp - mean does not enlarge beyond the largest */
};

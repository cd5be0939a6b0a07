/* attention: softmax(q k^T) v in one kernel, with an online softmax (arXiv:1805.02867). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/grad/gradient.h"
#include "graph/grad/softmax_grad.h"
#include "graph/lower/attention/attention_grad.h"
#include "graph/lower/paging.h"
#include "graph/op/ways.h"

/* Indices of the inputs. */
enum {
    Q = CLEF_ATTENTION_Q,
    K = CLEF_ATTENTION_K,
    V = CLEF_ATTENTION_V,
    MASK = CLEF_ATTENTION_MASK,
    POS = CLEF_ATTENTION_POS,
    SINKS = CLEF_ATTENTION_SINKS,
    RUNS = CLEF_ATTENTION_RUNS,
    PAGES = CLEF_ATTENTION_PAGES,
    FIRST = CLEF_ATTENTION_FIRST,
    N_IN = CLEF_ATTENTION_N_IN
};

static const clef_attr_def attention_attrs[] = {
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef_attention_opts, scale), NULL},
    {"softcap", CLEF_ATTR_FLOAT, offsetof(clef_attention_opts, softcap), NULL},
    {"causal", CLEF_ATTR_INT, offsetof(clef_attention_opts, causal), NULL},
    {"window", CLEF_ATTR_INT, offsetof(clef_attention_opts, window), NULL},
    {"batch_invariant", CLEF_ATTR_INT, offsetof(clef_attention_opts, batch_invariant), NULL},
    {"halves", CLEF_ATTR_INT, offsetof(clef__attention_attrs, halves), NULL},
    {NULL, 0, 0, NULL},
};

static clef_value *attention_node(clef_graph *g, clef_value *const *in, int32_t n_in,
                                  const clef_attention_opts *opts)
{
    const clef__attention_attrs attrs = {.opts = opts ? *opts : (clef_attention_opts){0}};
    return clef__node(g, CLEF_OP_attention, in, n_in, &attrs);
}

clef_value *clef_attention(clef_graph *g, clef_value *q, clef_value *k, clef_value *v, clef_value *mask,
                           clef_value *pos, const clef_attention_opts *opts)
{
    return clef_attention_with_sinks(g, q, k, v, mask, pos, NULL, opts);
}

clef_value *clef_attention_with_sinks(clef_graph *g, clef_value *q, clef_value *k, clef_value *v,
                                      clef_value *mask, clef_value *pos, clef_value *sinks,
                                      const clef_attention_opts *opts)
{
    return attention_node(g, (clef_value *[]){q, k, v, mask, pos, sinks}, 6, opts);
}

clef_value *clef_paged_attention(clef_graph *g, const clef_paged_attention_in *in,
                                 const clef_attention_opts *opts)
{
    clef_value *const list[N_IN] = {in->q,     in->k_pool, in->v_pool, in->mask, in->pos,
                                    in->sinks, in->runs,   in->pages,  in->first};
    return attention_node(g, list, N_IN, opts);
}

clef_value *clef_attention_of_documents(clef_graph *g, clef_value *q, clef_value *k, clef_value *v,
                                        clef_value *mask, clef_value *first, const clef_attention_opts *opts)
{
    clef_attention_opts causal = opts ? *opts : (clef_attention_opts){0};
    causal.causal = 1;
    return attention_node(g, (clef_value *[N_IN]){[Q] = q, [K] = k, [V] = v, [MASK] = mask, [FIRST] = first},
                          N_IN, &causal);
}

/* Shape [B, H, T, S] of the scores, which are never stored. With pages S is the mask's, or else all positions
 * that a sequence has pages for. */
static clef_shape scores_shape(const clef_value *n)
{
    const clef_dim *q = n->in[Q]->shape.dim;
    const clef_value *mask = n->in[MASK], *pages = n->in[PAGES];
    clef_dim keys = n->in[K]->shape.dim[2];
    if (pages) {
        keys = mask ? clef__dim_right(&mask->shape, 0) : clef_n(1);
        if (!keys.symbol && keys.n == 1) {
            keys = pages->shape.dim[1];
            keys.n *= KV_PAGE;
        }
    }
    return clef_shape_4(q[0], q[1], q[2], keys);
}

clef_attention_call clef__attention_call(const clef_lowering *lo, const clef_value *n)
{
    const clef_attention_opts *o = (const void *)n->attr;
    clef_value scores = *n;
    scores.shape = scores_shape(n);
    clef_attention_call call = {.out = n,
                                .q = n->in[0],
                                .k = n->in[1],
                                .v = n->in[2],
                                .mask = n->in[3],
                                .pos = n->in[POS],
                                .sinks = n->in[SINKS],
                                .runs = n->in[RUNS],
                                .pages = n->in[PAGES],
                                .first = n->in[FIRST],
                                .batch_invariant = o->batch_invariant,
                                .halves = ((const clef__attention_attrs *)o)->halves};
    call.args.a = (attention_args){.q = clef__view(lo, call.q),
                                   .k = clef__view(lo, call.k),
                                   .v = clef__view(lo, call.v),
                                   .mask = clef__view_as(lo, call.mask, &scores),
                                   .pos = clef__view(lo, call.pos).offset,
                                   .sinks = clef__view(lo, call.sinks).offset,
                                   .first = clef__view(lo, call.first).offset,
                                   .scale = o->scale != 0 ? o->scale : 1,
                                   .softcap = o->softcap,
                                   .causal = o->causal,
                                   .window = o->window,
                                   .paging = clef__paging_args(lo, call.runs, call.pages)};
    clef__n4(lo, &scores, call.args.a.n);
    call.args.a.group = call.args.a.n[1] / clef__n(lo, call.k, 2);
    return call;
}

static int head_fits(clef_dim d)
{
    return !d.symbol && d.n <= CLEF_MAX_HEAD;
}

/* With pages each row of the batch is one position, and sees what comes before it in its sequence. */
static clef_status check_pages(const clef_value *n, clef_error *err)
{
    const clef_attention_opts *o = (const void *)n->attr;
    const clef_shape *q = &n->in[Q]->shape;
    char text[96];
    if (!n->in[PAGES] && !n->in[RUNS])
        return CLEF_OK;
    if (!clef__dim_equal(q->dim[2], clef_n(1)) || !o->causal)
        return clef__fail(err, CLEF_E_ARG, "q %s, causal=%d: with pages expected [B, H, 1, D], causal=1",
                          clef__shape_text(n->graph, q, text), o->causal);
    const clef_status s =
        clef__check_paging(n, n->in[K], n->in[POS], n->in[RUNS], n->in[PAGES], q->dim[0], err);
    return s ? s : clef__check_paging(n, n->in[V], n->in[POS], n->in[RUNS], n->in[PAGES], q->dim[0], err);
}

static clef_status check_first(const clef_value *n, clef_error *err)
{
    const clef_attention_opts *o = (const void *)n->attr;
    const clef_value *first = n->in[FIRST];
    const clef_shape *q = &n->in[Q]->shape;
    char a[96], b[96];
    if (!first)
        return CLEF_OK;
    if (!o->causal)
        return clef__fail(err, CLEF_E_ARG, "first: expected causal=1, got causal=%d", o->causal);
    if (first->shape.rank != 2 || !clef__dim_equal(first->shape.dim[0], q->dim[0]) ||
        !clef__dim_equal(first->shape.dim[1], q->dim[2]))
        return clef__fail(err, CLEF_E_SHAPE, "first %s is not [B, T] of q %s",
                          clef__shape_text(n->graph, &first->shape, a), clef__shape_text(n->graph, q, b));
    return CLEF_OK;
}

static clef_status attention_infer(clef_value *n, clef_error *err)
{
    const clef_shape *q = &n->in[Q]->shape, *k = &n->in[K]->shape, *v = &n->in[V]->shape;
    const clef_value *mask = n->in[MASK], *pos = n->in[POS], *sinks = n->in[SINKS];
    char a[96], b[96], c[96];
    const int fits = q->rank == 4 && k->rank == 4 && v->rank == 4 &&
                     (n->in[PAGES] || clef__dim_equal(q->dim[0], k->dim[0])) &&
                     clef__dim_equal(k->dim[0], v->dim[0]) && clef__dim_equal(k->dim[1], v->dim[1]) &&
                     clef__dim_equal(k->dim[2], v->dim[2]) && clef__dim_equal(q->dim[3], k->dim[3]) &&
                     !q->dim[1].symbol && !k->dim[1].symbol && q->dim[1].n % k->dim[1].n == 0;
    if (!fits)
        return clef__fail(
            err, CLEF_E_SHAPE,
            "q %s, k %s, v %s: expected [B, H, T, D], [B, Hk, S, D] and [B, Hk, S, E], H a multiple of Hk",
            clef__shape_text(n->graph, q, a), clef__shape_text(n->graph, k, b),
            clef__shape_text(n->graph, v, c));
    if (!head_fits(k->dim[3]) || !head_fits(v->dim[3]))
        return clef__fail(err, CLEF_E_SHAPE, "k %s, v %s: the last dims are numbers up to %d",
                          clef__shape_text(n->graph, k, a), clef__shape_text(n->graph, v, b), CLEF_MAX_HEAD);
    for (int32_t i = 1; i < 3; i++)
        if (clef_dtype_block_elems(n->in[i]->dtype) > 1 && n->in[i]->dtype != CLEF_Q8_0)
            return clef__fail(err, CLEF_E_UNSUPPORTED, "%s is %s, expected f32, f16, bf16 or q8_0",
                              n->in[i]->name, clef_dtype_name(n->in[i]->dtype));
    const clef_attention_opts *o = (const void *)n->attr;
    if (o->window < 0 && !o->causal)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "chunks (window %d) without causal", o->window);
    const clef_shape scores = scores_shape(n);
    if (mask && !clef__broadcasts_to(&mask->shape, &scores))
        return clef__fail(err, CLEF_E_SHAPE, "mask %s does not broadcast to %s",
                          clef__shape_text(n->graph, &mask->shape, a),
                          clef__shape_text(n->graph, &scores, b));
    if (pos && (pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], q->dim[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of q %s",
                          clef__shape_text(n->graph, &pos->shape, a), clef__shape_text(n->graph, q, b));
    if (sinks && (sinks->shape.rank != 1 || !clef__dim_equal(sinks->shape.dim[0], q->dim[1])))
        return clef__fail(err, CLEF_E_SHAPE, "sinks %s are not [H] of q %s",
                          clef__shape_text(n->graph, &sinks->shape, a), clef__shape_text(n->graph, q, b));
    n->dtype = CLEF_F32;
    n->shape = clef_shape_4(q->dim[0], q->dim[2], q->dim[1], v->dim[3]);
    const clef_status s = check_first(n, err);
    return s ? s : check_pages(n, err);
}

/* ---- reference ------------------------------------------------------------------------------- */

const double *clef__attention_ref_row(const void *tensors, int32_t i, clef__ref_query r, int64_t s)
{
    const clef_ref_tensor *in = tensors, *c = &in[i];
    if (i == Q)
        return c->x + clef__ref_at(c, r.b, r.h, r.t, 0);
    const int64_t hk = r.h / (in[Q].n[1] / c->n[1]);
    if (!in[PAGES].x)
        return c->x + clef__ref_at(c, r.b, hk, s, 0);
    const int64_t row = clef__ref_pool_row(c, &in[PAGES], r.run.sequence, hk, s);
    return row < 0 ? NULL : c->x + row * c->n[3];
}

static int ref_sees(const clef_value *n, const clef_ref_tensor *in, clef__ref_query r, int64_t s)
{
    const clef_attention_opts *o = (const void *)n->attr;
    const int64_t at = r.t + (in[POS].x ? (int64_t)in[POS].x[r.b] : 0);
    const double from = in[FIRST].x ? in[FIRST].x[r.b * in[Q].n[2] + r.t] : 0;
    return !(o->causal && s > at) && (double)s >= from && !clef__beyond_window(o->window, s, at);
}

double clef__attention_ref_logit(const clef__ref_attention *c, clef__ref_query r, int64_t s, const double *q,
                                 double *slope)
{
    const clef_attention_opts *o = (const void *)c->n->attr;
    const clef_ref_tensor *mask = &c->in[MASK];
    const double scale = o->scale != 0 ? (double)o->scale : 1, cap = (double)o->softcap;
    const double *k = ref_sees(c->n, c->in, r, s) ? c->row(c->rows, K, r, s) : NULL;
    double z = 0;
    *slope = scale;
    if (!k) /* a page may have more rows than the mask */
        return -INFINITY;
    const double m = mask->x ? mask->x[clef__ref_at(mask, r.b, r.h, r.t, s)] : 0;
    const int keep = mask->x && c->n->in[MASK]->dtype != CLEF_F32;
    if (keep && m == 0)
        return -INFINITY;
    for (int64_t d = 0; d < c->in[K].n[3]; d++)
        z += q[d] * k[d];
    z *= scale;
    if (cap > 0) {
        const double t = tanh(z / cap);
        z = cap * t;
        *slope = scale * (1 - t * t);
    }
    return keep ? z : z + m;
}

/* With an online softmax, too, so that it allocates nothing. */
static void ref_query(const clef__ref_attention *c, clef__ref_query r, double *y)
{
    const clef_ref_tensor *in = c->in;
    const int64_t S = in[PAGES].x ? in[PAGES].n[3] * KV_PAGE : in[V].n[2], E = in[V].n[3];
    const double *q = c->row(c->rows, Q, r, 0), *sink = in[SINKS].x ? in[SINKS].x + r.h : NULL;
    double max = sink ? *sink : -INFINITY, sum = sink ? 1 : 0;
    memset(y, 0, (size_t)E * sizeof *y);
    for (int64_t s = 0; s < S; s++) {
        double slope;
        const double z = clef__attention_ref_logit(c, r, s, q, &slope);
        if (z == -INFINITY)
            continue;
        const double *v = c->row(c->rows, V, r, s);
        const double new_max = fmax(max, z), keep = exp(max - new_max), p = exp(z - new_max);
        max = new_max;
        sum = sum * keep + p;
        for (int64_t e = 0; e < E; e++)
            y[e] = y[e] * keep + p * v[e];
    }
    for (int64_t e = 0; e < E && sum != 0; e++)
        y[e] /= sum;
}

void clef__attention_ref(const clef__ref_attention *c, clef_ref_tensor *out)
{
    const clef_ref_tensor *in = c->in;
    const int64_t T = out->n[1], H = out->n[2], E = out->n[3];
    for (int64_t i = 0; i < out->n[0] * T * H; i++) {
        clef__ref_query r = {i / H / T, i % H, i / H % T, {-1, 0, 0}};
        if (in[PAGES].x && !clef__ref_find_run(&in[RUNS], r.b, &r.run))
            r.run = (clef__ref_run){-1, 0, 0};
        ref_query(c, r, out->x + i * E);
    }
}

static void attention_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    clef__attention_ref(&(clef__ref_attention){n, in, clef__attention_ref_row, in}, out);
}

static clef_cost attention_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    const clef_shape s = scores_shape(n);
    double scores = 1;
    for (int32_t i = 0; i < 4; i++)
        scores *= (double)clef__dim_at(n->graph, s.dim[i], symbols);
    cost.flops = scores * (double)(2 * n->in[1]->shape.dim[3].n + 2 * n->in[2]->shape.dim[3].n + 5);
    return cost;
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* With gradients of the mask or of sinks: computes the weights once more, as a matrix in memory, and
 * differentiates softmax(q k^T) v. */
static void unfused_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_attention_opts *o = (const void *)n->attr;
    clef_graph *g = n->graph;
    const clef_softmax_opts opts = {
        .scale = o->scale, .softcap = o->softcap, .causal = o->causal, .window = o->window};
    const clef_matmul_opts by_rows = {.transpose_b = 1};
    void (*const matmul_rule)(clef__gradients *, clef_value *, clef_value *) =
        clef__ops[CLEF_OP_matmul]->grad;
    clef_value *v = n->in[V], *z = clef_matmul(g, n->in[Q], n->in[K], NULL, &by_rows);
    clef_value *p = clef_softmax_with_sinks(g, z, n->in[MASK], n->in[POS], n->in[SINKS], &opts);
    clef_value *out = clef_matmul(g, p, v, NULL, NULL);
    d = clef_permute(g, d, &(clef_permute_opts){{0, 2, 1, 3}});
    if (clef__wants_gradient(gr, v) && out && d)
        matmul_rule(gr, out, d);
    const int wants_z = clef__wants_gradient(gr, n->in[Q]) || clef__wants_gradient(gr, n->in[K]);
    clef_value *dp = clef_matmul(g, d, v, NULL, &by_rows);
    clef_value *dz = dp ? clef__softmax_rule(gr, p, dp, wants_z) : NULL;
    if (dz)
        matmul_rule(gr, z, dz);
}

static void attention_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const int adds_mask = n->in[MASK] && clef__wants_gradient(gr, n->in[MASK]);
    const int has_blocks =
        clef_dtype_block_elems(n->in[K]->dtype) > 1 || clef_dtype_block_elems(n->in[V]->dtype) > 1;
    if (n->in[PAGES] || has_blocks || (n->in[FIRST] && (adds_mask || n->in[SINKS]))) {
        clef__graph_fail(n->graph, CLEF_E_UNSUPPORTED, "%s: no gradient of attention %s", n->name,
                         n->in[PAGES]   ? "over pages"
                         : has_blocks   ? "over keys and values in blocks"
                         : n->in[SINKS] ? "with sinks and documents"
                                        : "of a mask with documents");
        return;
    }
    if (adds_mask || n->in[SINKS]) {
        unfused_rule(gr, n, d);
        return;
    }
    const clef__attention_gradients all = clef__attention_grad(n, d);
    clef__add_gradient(gr, n->in[Q], all.q);
    clef__add_gradient(gr, n->in[K], all.k);
    clef__add_gradient(gr, n->in[V], all.v);
}

/* ---- cases ----------------------------------------------------------------------------------- */

int clef__draw_documents(const clef_value *first, const int64_t *symbols, float *out)
{
    const int64_t B = clef__dim_at(first->graph, first->shape.dim[0], symbols),
                  T = clef__dim_at(first->graph, first->shape.dim[1], symbols);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0, start = 0, length = 5 + 3 * b; t < T; t++) {
            if (t == start + length) { /* documents grow, so that some are longer than tiles */
                start = t;
                length += length / 2 + 1;
            }
            out[b * T + t] = (float)start;
        }
    return 1;
}

static int attention_draw(const clef_value *n, int32_t i, const int64_t *symbols, float *out)
{
    const int64_t rows = clef__dim_at(n->graph, n->in[Q]->shape.dim[0], symbols);
    const clef__paging_in in = {n->in[POS], n->in[RUNS], n->in[PAGES], n->in[K], n->in[MASK]};
    if (i == FIRST && !in.pages)
        return clef__draw_documents(n->in[FIRST], symbols, out);
    if (i == FIRST) { /* half of each row's position */
        clef__draw_paging(&in, in.pos, rows, symbols, out);
        for (int64_t b = 0; b < rows; b++)
            out[b] = floorf(out[b] / 2);
        return 1;
    }
    return in.pages && clef__draw_paging(&in, n->in[i], rows, symbols, out);
}

const clef_op_def clef__op_attention = {
    .name = "attention",
    .formula = "out[b, t, h, :] = softmax(cap(scale q k^T) + mask) v of each head; causal, window, sinks, "
               "documents",
    .n_min = 3,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_ROWS,
           CLEF_IN_MASK | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .draw = attention_draw,
    .attrs = attention_attrs,
    .attr_bytes = sizeof(clef__attention_attrs),
    .infer = attention_infer,
    .way = clef__way_attention,
    .ref = attention_ref,
    .cost = attention_cost,
    .lower = clef__lower_variant,
    .grad = attention_rule,
    .tune = &clef__tune_attention,
    .tol = 1e-5f, /* a score z has an error of (D / 16 + 5) 6e-8 |z|, which is also the relative error of
                     its weight; |z| < 20 here */
};

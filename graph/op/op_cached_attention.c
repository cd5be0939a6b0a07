/* cached_attention: norm, rope, cache writes and attention of a step in one node. The attention itself, from
 * its checks to its launches, is that of graph/op/op_attention.c. */
#include <math.h>
#include <string.h>

#include "graph/lower/attention/attention.h"
#include "graph/op/ways.h"

enum {
    Q,
    K,
    V,
    K_CACHE,
    V_CACHE,
    POS,
    FREQS,
    MASK,
    Q_NORM,
    K_NORM,
    RUNS,
    PAGES,
    N_IN
}; /* indices of the inputs */

/* The input of attention that input i is; -1: none. */
static const int32_t in_attention[N_IN] = {
    CLEF_ATTENTION_Q,    -1, -1, CLEF_ATTENTION_K,    CLEF_ATTENTION_V,    CLEF_ATTENTION_POS, -1,
    CLEF_ATTENTION_MASK, -1, -1, CLEF_ATTENTION_RUNS, CLEF_ATTENTION_PAGES};

static const clef_attr_def cached_attrs[] = {
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef_cached_attention_opts, scale), NULL},
    {"softcap", CLEF_ATTR_FLOAT, offsetof(clef_cached_attention_opts, softcap), NULL},
    {"causal", CLEF_ATTR_INT, offsetof(clef_cached_attention_opts, causal), NULL},
    {"window", CLEF_ATTR_INT, offsetof(clef_cached_attention_opts, window), NULL},
    {"pairing", CLEF_ATTR_ENUM, offsetof(clef_cached_attention_opts, pairing), clef__rope_pairings},
    {"rope_scale", CLEF_ATTR_FLOAT, offsetof(clef_cached_attention_opts, rope_scale), NULL},
    {"eps", CLEF_ATTR_FLOAT, offsetof(clef_cached_attention_opts, eps), NULL},
    {"batch_invariant", CLEF_ATTR_INT, offsetof(clef_cached_attention_opts, batch_invariant), NULL},
    {"halves", CLEF_ATTR_INT, offsetof(clef__cached_attention_attrs, halves), NULL},
    {NULL, 0, 0, NULL},
};
_Static_assert(sizeof(clef__cached_attention_attrs) <= CLEF_ATTR_BYTES, "the options fit a node");

clef_value *clef_cached_attention(clef_graph *g, const clef_cached_attention_in *in,
                                  const clef_cached_attention_opts *opts)
{
    clef_value *const list[N_IN] = {in->q,     in->k,    in->v,      in->k_cache, in->v_cache, in->pos,
                                    in->freqs, in->mask, in->q_norm, in->k_norm,  in->runs,    in->pages};
    const clef__cached_attention_attrs attrs = {.opts = opts ? *opts : (clef_cached_attention_opts){0}};
    return clef__node(g, CLEF_OP_cached_attention, list, N_IN, &attrs);
}

/* The state or cache_write that a cache is a slice of. */
static const clef_value *sliced(const clef_value *cache)
{
    while (cache->op == CLEF_OP_slice)
        cache = cache->in[0];
    return cache;
}

/* The attention over the caches once the step has written to them, as far as infer, ref, cost, draw and lower
 * of attention read it. *q becomes its queries: those of n as [B, H, T, D]. */
static clef_value attention_of(const clef_value *n, clef_value *q)
{
    const clef__cached_attention_attrs *attrs = (const void *)n->attr;
    const clef_cached_attention_opts *o = &attrs->opts;
    const clef__attention_attrs opts = {.opts = {.scale = o->scale,
                                                 .softcap = o->softcap,
                                                 .causal = o->causal,
                                                 .window = o->window,
                                                 .batch_invariant = o->batch_invariant},
                                        .halves = attrs->halves};
    const clef_permute_opts by_head = {{0, 2, 1, 3}};
    const clef_dim *d = n->in[Q]->shape.dim;
    clef_value a = {.graph = n->graph,
                    .op = CLEF_OP_attention,
                    .dtype = CLEF_F32,
                    .shape = n->shape,
                    .name = n->name,
                    .n_in = CLEF_ATTENTION_N_IN};
    for (int32_t i = 0; i < N_IN; i++)
        if (in_attention[i] >= 0)
            a.in[in_attention[i]] = n->in[i];
    *q = *n->in[Q];
    q->op = CLEF_OP_permute;
    q->in[0] = n->in[Q];
    q->shape = clef_shape_4(d[0], d[2], d[1], d[3]);
    memcpy(q->attr, &by_head, sizeof by_head);
    memcpy(a.attr, &opts, sizeof opts);
    a.in[CLEF_ATTENTION_Q] = q;
    return a;
}

/* ---- inference ------------------------------------------------------------------------------- */

static clef_status check_cache(const clef_value *n, int32_t i, clef_error *err)
{
    const clef_value *cache = n->in[i], *x = n->in[i == K_CACHE ? K : V];
    const clef_dim *c = cache->shape.dim, *d = x->shape.dim;
    char a[96], b[96];
    for (const clef_value *s = cache; s->op == CLEF_OP_slice; s = s->in[0]) {
        const clef_slice_opts *o = (const void *)s->attr;
        if (o->start || o->axis % 2)
            return clef__fail(err, CLEF_E_ARG,
                              "%s: expected the first sequences and the first rows of a cache", s->name);
    }
    if (!clef__is_cache(sliced(cache)))
        return clef__fail(err, CLEF_E_ARG, "%s is not a state, a cache_write or a slice of one", cache->name);
    if (cache->dtype != CLEF_F32 && cache->dtype != CLEF_F16 && cache->dtype != CLEF_Q8_0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "the cache %s is %s, expected f32, f16 or q8_0",
                          cache->name, clef_dtype_name(cache->dtype));
    if (cache->shape.rank != 4 || (!n->in[PAGES] && !clef__dim_equal(c[0], d[0])) ||
        !clef__dim_equal(c[1], d[2]) || !clef__dim_equal(c[3], d[3]))
        return clef__fail(
            err, CLEF_E_SHAPE, "%s %s does not fit the cache %s: expected [B, T, Hk, D] and [B, Hk, S, D]",
            x->name, clef__shape_text(n->graph, &x->shape, a), clef__shape_text(n->graph, &cache->shape, b));
    for (int32_t k = 0; k < n->n_in; k++)
        if (k != i && n->in[k] && clef__base(n->in[k]) == clef__base(cache))
            return clef__fail(err, CLEF_E_ARG, "%s is a part of a state that is written to; copy it first",
                              n->in[k]->name);
    return CLEF_OK;
}

static clef_status check_heads(const clef_value *n, clef_error *err)
{
    const clef_shape *q = &n->in[Q]->shape, *k = &n->in[K]->shape, *v = &n->in[V]->shape;
    char a[96], b[96], c[96];
    const int fits = q->rank == 4 && k->rank == 4 && v->rank == 4 && clef__dim_equal(q->dim[0], k->dim[0]) &&
                     clef__dim_equal(k->dim[0], v->dim[0]) && clef__dim_equal(q->dim[1], k->dim[1]) &&
                     clef__dim_equal(k->dim[1], v->dim[1]) && clef__dim_equal(k->dim[2], v->dim[2]) &&
                     clef__dim_equal(q->dim[3], k->dim[3]);
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE,
                          "q %s, k %s, v %s: expected [B, T, H, D], [B, T, Hk, D] and [B, T, Hk, E]",
                          clef__shape_text(n->graph, q, a), clef__shape_text(n->graph, k, b),
                          clef__shape_text(n->graph, v, c));
    return CLEF_OK;
}

/* What comes before the attention. */
static clef_status check_options(const clef_value *n, clef_error *err)
{
    const clef_value *freqs = n->in[FREQS];
    const clef_shape *q = &n->in[Q]->shape;
    const clef_rope_pairing pairing = ((const clef_cached_attention_opts *)(const void *)n->attr)->pairing;
    char a[96], b[96];
    if (freqs &&
        (freqs->shape.rank != 1 || freqs->shape.dim[0].symbol || freqs->shape.dim[0].n > q->dim[3].n / 2))
        return clef__fail(err, CLEF_E_SHAPE, "freqs %s, expected at most half the last dim of q %s",
                          clef__shape_text(n->graph, &freqs->shape, a), clef__shape_text(n->graph, q, b));
    if (!n->in[Q_NORM] != !n->in[K_NORM])
        return clef__fail(err, CLEF_E_ARG, "a norm of q or of k alone");
    if ((uint32_t)pairing > CLEF_ROPE_INTERLEAVED_TO_HALVES)
        return clef__fail(err, CLEF_E_ARG, "expected a clef_rope_pairing, got %d", (int)pairing);
    if (pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES && n->in[Q_NORM])
        return clef__fail(err, CLEF_E_ARG, "expected pairing=halves or interleaved beside norms, got %s",
                          clef__rope_pairings[pairing]);
    for (int32_t i = Q_NORM; i <= K_NORM; i++)
        if (n->in[i] && (n->in[i]->shape.rank != 1 || !clef__dim_equal(n->in[i]->shape.dim[0], q->dim[3]) ||
                         n->in[i]->dtype != n->in[Q_NORM]->dtype))
            return clef__fail(
                err, CLEF_E_SHAPE, "norm %s is not the last dim of q %s, or not of the other norm's dtype",
                clef__shape_text(n->graph, &n->in[i]->shape, a), clef__shape_text(n->graph, q, b));
    return CLEF_OK;
}

static clef_status cached_infer(clef_value *n, clef_error *err)
{
    clef_status s = check_heads(n, err);
    if (!s)
        s = check_cache(n, K_CACHE, err);
    if (!s)
        s = check_cache(n, V_CACHE, err);
    if (s)
        return s;
    clef_value q, attention = attention_of(n, &q);
    s = clef__ops[CLEF_OP_attention]->infer(&attention, err);
    n->dtype = attention.dtype;
    n->shape = attention.shape;
    return s ? s : check_options(n, err);
}

/* ---- reference ------------------------------------------------------------------------------- */

typedef struct ref_step {
    const clef_value *n;
    const clef_ref_tensor *in;
    clef_ref_tensor attention[CLEF_ATTENTION_N_IN]; /* its inputs, with the old rows of the caches */
    double *rows[CLEF_ATTENTION_V + 1];             /* the last ones of q, k and v */
} ref_step;

static int64_t ref_position(const ref_step *c, int64_t b, int64_t t)
{
    return t + (c->in[POS].x ? (int64_t)c->in[POS].x[b] : 0);
}

/* Where the step has the new row of position s: in row *b at *t. Returns 0 if the row is old. */
static int ref_is_new(const ref_step *c, clef__ref_query r, int64_t s, int64_t *b, int64_t *t)
{
    *b = r.b;
    *t = s - ref_position(c, r.b, 0);
    if (!c->in[PAGES].x)
        return *t >= 0 && *t < c->in[K].n[1];
    *t = 0;
    for (*b = r.run.first; *b < r.run.first + r.run.rows; ++*b)
        if (ref_position(c, *b, 0) == s)
            return 1;
    return 0;
}

/* Computes head h of q or k at position t of row b, after norm and rope. */
static void ref_head(const ref_step *c, int32_t i, int64_t b, int64_t t, int64_t h, double *x)
{
    const clef_cached_attention_opts *o = (const void *)c->n->attr;
    const clef_ref_tensor *from = &c->in[i], *norm = &c->in[i == Q ? Q_NORM : K_NORM], *freqs = &c->in[FREQS];
    const int64_t D = from->n[3];
    double squares = 0;
    memcpy(x, from->x + clef__ref_at(from, b, t, h, 0), (size_t)D * sizeof *x);
    for (int64_t d = 0; d < D; d++)
        squares += x[d] * x[d] / (double)D;
    for (int64_t d = 0; d < D && norm->x; d++)
        x[d] *= norm->x[d] / sqrt(squares + (double)o->eps);
    if (freqs->x)
        clef__ref_turn(x, freqs->x, freqs->n[3], (double)ref_position(c, b, t), o->pairing,
                       o->rope_scale != 0 ? (double)o->rope_scale : 1);
}

/* clef__ref_attention.row: computes new rows again for every query, so that it allocates nothing. */
static const double *ref_row(const void *step, int32_t i, clef__ref_query r, int64_t s)
{
    const ref_step *c = step;
    double *x = c->rows[i];
    int64_t b, t;
    if (i == CLEF_ATTENTION_Q) {
        ref_head(c, Q, r.b, r.t, r.h, x);
        return x;
    }
    if (!ref_is_new(c, r, s, &b, &t))
        return clef__attention_ref_row(c->attention, i, r, s);
    const clef_ref_tensor *v = &c->in[V];
    const int64_t hk = r.h / (c->in[Q].n[2] / v->n[2]);
    if (i == CLEF_ATTENTION_K)
        ref_head(c, K, b, t, hk, x);
    else
        memcpy(x, v->x + clef__ref_at(v, b, t, hk, 0), (size_t)v->n[3] * sizeof *x);
    clef__ref_keep(c->n->in[i == CLEF_ATTENTION_K ? K_CACHE : V_CACHE]->dtype, x, c->attention[i].n[3], x);
    return x;
}

static void cached_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    clef_value q;
    const clef_value attention = attention_of(n, &q);
    const int64_t *d = in[Q].n;
    double rows[CLEF_ATTENTION_V + 1][CLEF_MAX_HEAD];
    ref_step step = {.n = n, .in = in, .rows = {rows[0], rows[1], rows[2]}};
    for (int32_t i = 0; i < N_IN; i++)
        if (in_attention[i] >= 0)
            step.attention[in_attention[i]] = in[i];
    step.attention[CLEF_ATTENTION_Q] = (clef_ref_tensor){.n = {d[0], d[2], d[1], d[3]}};
    clef__attention_ref(&(clef__ref_attention){&attention, step.attention, ref_row, &step}, out);
}

static clef_cost cached_cost(const clef_value *n, const int64_t *symbols)
{
    clef_value q;
    const clef_value attention = attention_of(n, &q);
    clef_cost cost = clef__cost_elementwise(n, symbols, 0); /* the caches are read as far as they are seen */
    cost.flops = clef__ops[CLEF_OP_attention]->cost(&attention, symbols).flops;
    return cost;
}

/* ---- lowering -------------------------------------------------------------------------------- */

/* A view [B, T, H, D] as [B, H, T, D]. */
static view_args by_head(view_args view)
{
    return (view_args){view.offset, {view.stride[0], view.stride[2], view.stride[1], view.stride[3]}};
}

/* Positions of a sequence that a cache has room for. */
static uint32_t capacity_of(const clef_lowering *lo, const clef_value *n, int32_t cache)
{
    return n->in[PAGES] ? clef__n(lo, n->in[PAGES], 0) * KV_PAGE : clef__n(lo, sliced(n->in[cache]), 1);
}

clef_attention_call clef__cached_attention_call(const clef_lowering *lo, const clef_value *n)
{
    const clef_cached_attention_opts *o = (const void *)n->attr;
    clef_value q, *const *in = n->in;
    const clef_value attention = attention_of(n, &q);
    clef_attention_call call = clef__attention_call(lo, &attention);
    call.out = n;
    call.q = in[Q];
    call.new_k = in[K];
    call.new_v = in[V];
    call.freqs = in[FREQS];
    call.q_norm = in[Q_NORM];
    call.k_norm = in[K_NORM];
    call.pairing = o->pairing;
    call.args.heads = (attention_heads_args){.new_k = by_head(clef__view(lo, in[K])),
                                             .new_v = by_head(clef__view(lo, in[V])),
                                             .capacity = capacity_of(lo, n, K_CACHE),
                                             .freqs = clef__view(lo, in[FREQS]).offset,
                                             .q_norm = clef__view(lo, in[Q_NORM]).offset,
                                             .k_norm = clef__view(lo, in[K_NORM]).offset,
                                             .turn_scale = o->rope_scale != 0 ? o->rope_scale : 1,
                                             .eps = o->eps};
    return call;
}

/* The buffer that holds the heads of q or k between two launches, and their view as [B, T, H, D]. */
typedef struct heads {
    const clef_value *buf;
    view_args view;
} heads;

static heads in_scratch(const clef_lowering *lo, const clef_value *x)
{
    const uint32_t D = clef__n(lo, x, 0), H = clef__n(lo, x, 1), T = clef__n(lo, x, 2);
    return (heads){CLEF__SCRATCH, {0, {T * H * D, H * D, D, 1}}};
}

static clef_status norm_launch(clef_lowering *lo, const clef_value *n, const clef_value *x,
                               const clef_value *weight, clef_error *err)
{
    const clef_cached_attention_opts *o = (const void *)n->attr;
    norm_args args = {.x = clef__view(lo, x), .weight = clef__view(lo, weight).offset, .eps = o->eps};
    clef__n4(lo, x, args.n);
    const uint32_t wg = clef__fit_local(lo, clef__n(lo, x, 0));
    return clef__launch(lo,
                        &(clef_launch){.source = "norm",
                                       .kernel = "norm_rows",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"CENTER", 0},
                                                {"WEIGHT_TYPE", (int32_t)weight->dtype},
                                                {"BIAS_TYPE", DTYPE_NONE}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {CLEF__SCRATCH, x, weight, NULL},
                                       .n_bufs = 4,
                                       .groups = {clef__rows(lo, x)},
                                       .local = {wg}},
                        err);
}

/* Launches norm and rope of x. *out becomes the result in the scratch, or x itself if neither is needed. */
static clef_status make_heads(clef_lowering *lo, const clef_value *n, int32_t i, heads *out, clef_error *err)
{
    const clef_cached_attention_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[i], *norm = n->in[i == Q ? Q_NORM : K_NORM], *freqs = n->in[FREQS],
                     *pos = n->in[POS];
    clef_status s = norm ? norm_launch(lo, n, x, norm, err) : CLEF_OK;
    *out = norm ? in_scratch(lo, x) : (heads){x, clef__view(lo, x)};
    if (s || (!norm && !freqs))
        return s;
    if (freqs) {
        rope_args args = {.x = out->view,
                          .freqs = clef__view(lo, freqs).offset,
                          .pos = clef__view(lo, pos).offset,
                          .half_n = clef__n(lo, freqs, 0),
                          .scale = o->rope_scale != 0 ? o->rope_scale : 1};
        clef__n4(lo, x, args.n);
        s = clef__rope_launch(lo, args, CLEF__SCRATCH, out->buf, freqs, pos, o->pairing, 0, err);
        *out = in_scratch(lo, x);
    }
    if (!s)
        lo->launches[lo->n - 1].scratch_bytes = (uint64_t)clef__bytes(x, NULL);
    return s;
}

static clef_status write_launch(clef_lowering *lo, const clef_value *n, int32_t cache, heads x,
                                clef_error *err)
{
    const cache_write_args args = {
        .n = {clef__n(lo, n, 3), clef__n(lo, n->in[K], 1), clef__n(lo, n, 2), clef__n(lo, n->in[cache], 0)},
        .x = by_head(x.view),
        .cache = clef__view(lo, n->in[cache]),
        .pos = clef__view(lo, n->in[POS]).offset,
        .capacity = capacity_of(lo, n, cache),
        .paging = clef__paging_args(lo, n->in[RUNS], n->in[PAGES])};
    return clef__cache_write_launch(lo, &args, n->in[cache], x.buf, n->in[POS], n->in[RUNS], n->in[PAGES],
                                    err);
}

/* k is copied from the scratch to its cache before q is written to the scratch. */
clef_status clef__cached_attention_ready(clef_lowering *lo, const clef_value *n, clef_attention_call *call,
                                         clef_error *err)
{
    heads k, q;
    *call = clef__cached_attention_call(lo, n);
    if (!lo->caps->is_cpu)
        return clef__attention_gpu_heads_launch(lo, call, err);
    clef_status s = make_heads(lo, n, K, &k, err);
    if (!s)
        s = write_launch(lo, n, K_CACHE, k, err);
    if (!s)
        s = write_launch(lo, n, V_CACHE, (heads){n->in[V], clef__view(lo, n->in[V])}, err);
    if (!s)
        s = make_heads(lo, n, Q, &q, err);
    if (s)
        return s;
    call->q = q.buf;
    call->args.a.q = by_head(q.view);
    call->new_k = NULL;
    return CLEF_OK;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static clef_row_range cached_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = sliced(n->in[K_CACHE])->shape.dim[2], .span = n->in[Q]->shape.dim[1]};
}

static int cached_draw(const clef_value *n, int32_t i, const int64_t *symbols, float *out)
{
    clef_value q;
    const clef_value attention = attention_of(n, &q);
    return in_attention[i] >= 0 &&
           clef__ops[CLEF_OP_attention]->draw(&attention, in_attention[i], symbols, out);
}

const clef_op_def clef__op_cached_attention = {
    .name = "cached_attention",
    .formula = "out = attention(q', write(k_cache, k'), write(v_cache, v)), where q' and k' are "
               "rope(rms_norm()) of q and k",
    .n_min = 5,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_WEIGHT,
           CLEF_IN_WEIGHT, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_F32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_MASK | CLEF_IN_OPTIONAL,
           CLEF_IN_WEIGHT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_WEIGHT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .draw = cached_draw,
    .attrs = cached_attrs,
    .attr_bytes = sizeof(clef__cached_attention_attrs),
    .row_numbers = 1 << POS,
    .row_range = cached_rows,
    .infer = cached_infer,
    .way = clef__way_cached_attention,
    .ref = cached_ref,
    .cost = cached_cost,
    .lower = clef__lower_variant,
    .writes = 1 << K_CACHE | 1 << V_CACHE,
    .tol = 1e-5f, /* as for attention; angles and norms add a few roundings of 6e-8 */
};

/* panels: what surrounds products with panels is merged into them. It runs after choose, on a plan's own
 * graph. An output is never fused away, nor a value that another node still needs.
 *
 *   swiglu(product, product)      one product whose weight has the tiles of both, alternating
 *   act(product)                  act=
 *   products of one x             one product with the rows of all, cut in slices
 *   product(norm(x))              norm=, if only a few products use the norm
 *   r + product                   residual
 *   r + low_rank_add(product)     low_rank_add of the product with the residual */
#include "graph/lower/panel/panel.h"
#include "graph/names.h"
#include "graph/pass/pass.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MERGED = 4, MAX_NORM_USERS = 3 };

static const clef_panel_matmul_opts *opts_of(const clef_value *n)
{
    return (const void *)n->attr;
}

static int is_product(const clef_value *v)
{
    return v && v->op == CLEF_OP_panel_matmul;
}

/* 1 for a product that only one node uses. */
static int only_product(const clef_value *v)
{
    return is_product(v) && clef__only_use(v);
}

/* The fused node reads its inputs at the place of the later node, so no write may have changed them by
 * then. */
static int still_reads(const clef_value *n)
{
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && clef__overwritten_by(n->in[i]))
            return 0;
    return 1;
}

static clef_panel_inputs optional_inputs(const clef_value *n)
{
    return (clef_panel_inputs){.bias = n->in[PANEL_BIAS],
                               .norm_weight = n->in[PANEL_NORM_WEIGHT],
                               .norm_bias = n->in[PANEL_NORM_BIAS],
                               .residual = n->in[PANEL_RESIDUAL]};
}

static clef_value *rebuild_with(const clef_value *n, clef_value *x, const clef_panel_inputs *more,
                                const clef_panel_matmul_opts *opts)
{
    return clef__panel_matmul(n->graph, x, n->in[PANEL_PACKED], more, opts);
}

/* ---- what follows a product --------------------------------------------------------------------- */

/* 1 if one product can compute both: equal but for rows and biases, of the same x, with no activation or
 * residual yet. */
static int can_merge(const clef_value *a, const clef_value *b)
{
    const clef_panel_matmul_opts *o = opts_of(a), *p = opts_of(b);
    const clef_value *v = a->in[PANEL_PACKED], *w = b->in[PANEL_PACKED];
    if (a->in[PANEL_X] != b->in[PANEL_X] || o->k != p->k || o->dtype != p->dtype || o->alpha != p->alpha ||
        o->activations != p->activations || o->norm || p->norm || o->act || p->act || a->in[PANEL_RESIDUAL] ||
        b->in[PANEL_RESIDUAL])
        return 0;
    if (!a->in[PANEL_BIAS] != !b->in[PANEL_BIAS] ||
        (a->in[PANEL_BIAS] &&
         (a->in[PANEL_BIAS]->kind != CLEF_WEIGHT || b->in[PANEL_BIAS]->kind != CLEF_WEIGHT)))
        return 0;
    return v->op == CLEF_OP_pack && w->op == CLEF_OP_pack && v->n_in == 1 && w->n_in == 1 &&
           v->in[0]->kind == CLEF_WEIGHT && w->in[0]->kind == CLEF_WEIGHT &&
           ((const clef_pack_opts *)(const void *)v->attr)->in_out ==
               ((const clef_pack_opts *)(const void *)w->attr)->in_out;
}

/* Joins weights and biases of n products. Biases are joined when the plan is made. */
static clef_value *join_products(clef_value *const *products, int32_t n, int interleave, clef_value **bias)
{
    clef_value *weights[MAX_MERGED];
    clef_pack_opts pack = *(const clef_pack_opts *)(const void *)products[0]->in[PANEL_PACKED]->attr;
    *bias = products[0]->in[PANEL_BIAS];
    for (int32_t i = 0; i < n; i++) {
        weights[i] = products[i]->in[PANEL_PACKED]->in[0];
        if (i && *bias)
            *bias = clef_concat(products[i]->graph, *bias, products[i]->in[PANEL_BIAS], NULL);
    }
    pack.interleave = interleave;
    return clef__pack(products[0]->graph, weights, n, &pack);
}

static int64_t packed_bytes(const clef_value *p)
{
    return p->in[PANEL_PACKED]->shape.dim[0].n;
}

static clef_value *gate_product(clef_value *n, uint64_t max_alloc_bytes)
{
    clef_value *gate = n->in[0], *up = n->in[1], *bias;
    if (!only_product(gate) || !only_product(up) || gate == up || !can_merge(gate, up) ||
        opts_of(gate)->n != opts_of(up)->n ||
        (uint64_t)(packed_bytes(gate) + packed_bytes(up)) > max_alloc_bytes || !still_reads(gate) ||
        !still_reads(up))
        return n;
    clef_panel_matmul_opts opts = *opts_of(gate);
    opts.act = CLEF_PANEL_SWIGLU;
    clef_value *packed = join_products((clef_value *[]){gate, up}, 2, 1, &bias);
    return clef__panel_matmul(n->graph, gate->in[PANEL_X], packed, &(clef_panel_inputs){.bias = bias}, &opts);
}

static clef_value *activate_product(clef_value *n, clef_panel_act act)
{
    const clef_value *p = n->in[0];
    if (!only_product(p) || opts_of(p)->act || p->in[PANEL_RESIDUAL] || !still_reads(p))
        return n;
    const clef_panel_inputs more = optional_inputs(p);
    clef_panel_matmul_opts opts = *opts_of(p);
    opts.act = act;
    return rebuild_with(p, p->in[PANEL_X], &more, &opts);
}

static clef_value *fuse_act(clef_value *n, const void *user)
{
    switch (n->op) {
    case CLEF_OP_swiglu:
        return gate_product(n, *(const uint64_t *)user);
    case CLEF_OP_gelu:
        return activate_product(n, CLEF_PANEL_GELU);
    case CLEF_OP_gelu_tanh:
        return activate_product(n, CLEF_PANEL_GELU_TANH);
    case CLEF_OP_silu:
        return activate_product(n, CLEF_PANEL_SILU);
    case CLEF_OP_relu:
        return activate_product(n, CLEF_PANEL_RELU);
    default:
        return n;
    }
}

/* ---- products of one x ----------------------------------------------------------------------- */

/* A product that may become rows of a joint product; and that product as heads, once it is made. */
typedef struct merge_candidate {
    clef_value *product;
    struct merge_candidate *head; /* the first of the set, which continues by `next`; NULL: not in a set */
    struct merge_candidate *next;
    int64_t first; /* first row in the joint product */
    clef_value *heads;
    int64_t unit; /* rows of a head, if all its users are reshapes to heads; 0: it has other users; -1: it
                     has none */
} merge_candidate;

typedef struct members {
    merge_candidate *list;
    int32_t n;
    uint64_t max_alloc_bytes;
} members;

static merge_candidate *find_candidate(const members *m, const clef_value *v)
{
    for (int32_t i = 0; i < m->n && is_product(v); i++)
        if (m->list[i].product == v)
            return &m->list[i];
    return NULL;
}

/* 1 when reshape v cuts the last dim of x into heads, and changes no other dim. */
static int cuts_heads(const clef_value *v, const clef_value *x)
{
    const int32_t rank = x->shape.rank;
    int cuts = v->op == CLEF_OP_reshape && v->shape.rank == rank + 1 && !v->shape.dim[rank].symbol &&
               !v->shape.dim[rank - 1].symbol;
    for (int32_t i = 0; i + 1 < rank && cuts; i++)
        cuts = clef__dim_equal(v->shape.dim[i], x->shape.dim[i]);
    return cuts;
}

static void find_units(const clef_graph *g, const members *m)
{
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in; k++) {
            const clef_value *v = g->values[i];
            merge_candidate *x = find_candidate(m, v->in[k]);
            if (!x)
                continue;
            const int64_t unit = cuts_heads(v, x->product) ? v->shape.dim[v->shape.rank - 1].n : 0;
            x->unit = x->unit == -1 || x->unit == unit ? unit : 0;
        }
}

/* Finds sets of products that can be merged and whose users all cut them into heads of one size. Each product
 * but the last of a set has a multiple of PANEL_PAD rows. */
static void find_sets(const members *m)
{
    for (int32_t i = 0; i < m->n; i++) {
        merge_candidate *a = &m->list[i], *last = a;
        int64_t rows = opts_of(a->product)->n, bytes = packed_bytes(a->product);
        if (a->head || a->unit <= 0 || clef__is_output(a->product))
            continue;
        for (int32_t k = i + 1, n = 1; k < m->n && n < MAX_MERGED && rows % PANEL_PAD == 0; k++) {
            merge_candidate *b = &m->list[k];
            const int64_t more = opts_of(b->product)->n;
            if (b->head || b->unit != a->unit || clef__is_output(b->product) ||
                !can_merge(a->product, b->product) || rows + more > INT32_MAX ||
                (uint64_t)(bytes + packed_bytes(b->product)) > m->max_alloc_bytes)
                continue;
            bytes += packed_bytes(b->product);
            a->head = b->head = a;
            b->first = rows;
            rows += more;
            last->next = b;
            last = b;
            n++;
        }
    }
}

/* Names the product of a whole set after its members: q, k and v of one scope are "qkv". */
static int name_whole(const merge_candidate *head, clef_value *y)
{
    const char *dot = strrchr(head->product->name, '.');
    char name[CLEF_NAME_BYTES];
    int n = snprintf(name, sizeof name, "%.*s", dot ? (int)(dot + 1 - head->product->name) : 0,
                     head->product->name);
    for (const merge_candidate *i = head; i; i = i->next) {
        const char *own = strrchr(i->product->name, '.');
        if (!i->product->named || n >= (int)sizeof name)
            return 1;
        n += snprintf(name + n, sizeof name - (size_t)n, "%s", own ? own + 1 : i->product->name);
    }
    if (n >= (int)sizeof name || clef__names_find(y->graph->names, name))
        return 1;
    y->named = 1;
    y->scope = head->product->scope;
    return clef__graph_rename(y->graph, y, name);
}

/* The joint product of a set, as heads. It takes the place of the set's first product, because leaves come
 * before all nodes. */
static clef_value *whole_as_heads(const merge_candidate *head)
{
    clef_value *set[MAX_MERGED], *bias;
    clef_panel_matmul_opts opts = *opts_of(head->product);
    int32_t n = 0;
    opts.n = 0;
    for (const merge_candidate *i = head; i; i = i->next) {
        opts.n += opts_of(i->product)->n;
        set[n++] = i->product;
    }
    clef_value *packed = join_products(set, n, 0, &bias);
    clef_value *y = clef__panel_matmul(head->product->graph, set[0]->in[PANEL_X], packed,
                                       &(clef_panel_inputs){.bias = bias}, &opts);
    if (!y || !name_whole(head, y))
        return NULL;
    clef_shape shape = y->shape;
    shape.dim[shape.rank - 1] = clef_n(opts.n / head->unit);
    shape.dim[shape.rank++] = clef_n(head->unit);
    return clef_reshape(y->graph, y, shape);
}

/* The reshapes of the members become slices of the joint heads; then the members have no users. */
static clef_value *fuse_siblings(clef_value *n, const void *user)
{
    const members *m = user;
    merge_candidate *candidate = find_candidate(m, n),
                    *x = n->op == CLEF_OP_reshape ? find_candidate(m, n->in[0]) : NULL;
    if (candidate && candidate->head == candidate) {
        candidate->heads = whole_as_heads(candidate);
        return candidate->heads ? n : NULL;
    }
    if (!x || !x->head)
        return n;
    return clef_slice(n->graph, x->head->heads,
                      &(clef_slice_opts){.axis = n->shape.rank - 2,
                                         .start = (int32_t)(x->first / x->unit),
                                         .size = clef_n(opts_of(x->product)->n / x->unit)});
}

/* Moves leaves to the front, so that a node may use the weights of later ones. */
static clef_status leaves_first(clef_graph *g, clef_error *err)
{
    const int32_t n = g->n_values;
    clef_value **old = malloc((size_t)n * sizeof *old + 1);
    if (!old)
        return clef__fail(err, CLEF_E_NOMEM, "graph: no memory for a pass over %d values", n);
    memcpy(old, g->values, (size_t)n * sizeof *old);
    g->n_values = 0;
    for (int32_t nodes = 0; nodes < 2; nodes++)
        for (int32_t i = 0; i < n; i++)
            if ((old[i]->op != CLEF_OP_NONE) == nodes)
                clef__graph_append(g, old[i]); /* there is room */
    free(old);
    return clef_graph_error(g, err);
}

static clef_status merge_products(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err)
{
    members m = {.max_alloc_bytes = max_alloc_bytes};
    clef_status s = leaves_first(g, err);
    if (s)
        return s;
    m.list = calloc((size_t)g->n_values + 1, sizeof *m.list);
    if (!m.list)
        return clef__fail(err, CLEF_E_NOMEM, "graph: no memory for a pass over %d values", g->n_values);
    for (int32_t i = 0; i < g->n_values; i++)
        if (is_product(g->values[i]))
            m.list[m.n++] = (merge_candidate){.product = g->values[i], .unit = -1};
    find_units(g, &m);
    find_sets(&m);
    s = clef__rewrite(g, fuse_siblings, &m, err);
    free(m.list);
    return s;
}

/* ---- norms and residuals --------------------------------------------------------------------- */

static int is_float(const clef_value *v)
{
    return !v || clef_dtype_block_elems(v->dtype) == 1;
}

/* 1 if only a few products use this norm: each then computes it for itself. */
static int is_prologue(const clef_value *norm, const clef_graph *g)
{
    int32_t users = 0, uses = 0;
    if ((norm->op != CLEF_OP_rms_norm && norm->op != CLEF_OP_layer_norm) || clef__is_output(norm) ||
        !is_float(norm->in[1]) || !is_float(norm->in[2]))
        return 0;
    for (int32_t i = norm->id + 1; i < g->n_values; i++) {
        const clef_value *p = g->values[i];
        users += is_product(p) && p->in[PANEL_X] == norm && !opts_of(p)->norm;
        for (int32_t k = 0; k < p->n_in; k++)
            uses += p->in[k] == norm;
    }
    return users <= MAX_NORM_USERS && users == uses;
}

typedef struct norms {
    clef_value **list; /* norms that become a part of products */
    int32_t n;
} norms;

static clef_value *fuse_norm(clef_value *n, const void *user)
{
    const norms *prologues = user;
    const clef_value *x = is_product(n) ? n->in[PANEL_X] : NULL;
    int32_t i = 0;
    while (i < prologues->n && prologues->list[i] != x)
        i++;
    if (!x || i == prologues->n || !still_reads(x))
        return n;
    clef_panel_inputs more = optional_inputs(n);
    clef_panel_matmul_opts opts = *opts_of(n);
    more.norm_weight = x->in[1];
    more.norm_bias = x->in[2];
    opts.norm = x->op == CLEF_OP_rms_norm ? CLEF_PANEL_RMS : CLEF_PANEL_LAYER;
    opts.eps = ((const clef_norm_opts *)(const void *)x->attr)->eps;
    return rebuild_with(n, x->in[0], &more, &opts);
}

static clef_status fuse_norms(clef_graph *g, clef_error *err)
{
    norms found = {.list = malloc((size_t)g->n_values * sizeof *found.list + 1)};
    if (!found.list)
        return clef__fail(err, CLEF_E_NOMEM, "graph: no memory for a pass over %d values", g->n_values);
    for (int32_t i = 0; i < g->n_values; i++)
        if (is_prologue(g->values[i], g))
            found.list[found.n++] = g->values[i];
    const clef_status s = clef__rewrite(g, fuse_norm, &found, err);
    free(found.list);
    return s;
}

/* The product p plus the residual; NULL if p cannot add it. */
static clef_value *add_residual(const clef_value *p, clef_value *residual)
{
    if (!only_product(p) || p->in[PANEL_RESIDUAL] || residual == p || residual->dtype != CLEF_F32 ||
        !clef__shape_equal(&residual->shape, &p->shape) || !clef__is_dense(residual) || !still_reads(p))
        return NULL;
    clef_panel_inputs more = optional_inputs(p);
    more.residual = residual;
    return rebuild_with(p, p->in[PANEL_X], &more, opts_of(p));
}

/* The same where an adapter adds to the product: it adds to the sum instead. */
static clef_value *add_residual_before(const clef_value *v, clef_value *residual)
{
    if (v->op != CLEF_OP_low_rank_add || !clef__only_use(v) || !still_reads(v))
        return NULL;
    clef_value *y = add_residual(v->in[0], residual);
    return y ? clef_low_rank_add(v->graph, y, v->in[1], v->in[2], v->in[3], v->in[4]) : NULL;
}

static clef_value *fuse_residual(clef_value *n, const void *user)
{
    (void)user;
    for (int32_t i = 0; i < 2 && n->op == CLEF_OP_add; i++) {
        clef_value *sum = add_residual(n->in[i], n->in[1 - i]);
        if (!sum)
            sum = add_residual_before(n->in[i], n->in[1 - i]);
        if (sum)
            return sum;
    }
    return n;
}

clef_status clef__fuse_panels(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err)
{
    uint64_t most = clef__panel_most_bytes(max_alloc_bytes);
    clef_status s = clef__rewrite(g, fuse_act, &most, err);
    if (!s)
        s = clef__pass_drop(g, err);
    if (!s)
        s = merge_products(g, most, err);
    if (!s)
        s = clef__rewrite(g, fuse_residual, NULL, err);
    if (!s)
        s = clef__pass_drop(g, err);
    if (!s)
        s = fuse_norms(g, err);
    return s ? s : clef__pass_drop(g, err);
}

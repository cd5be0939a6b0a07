/* How parts of results are computed from parts of inputs, op by op. */
#include "graph/op/ways.h"

int clef__way_start(clef__way *way)
{
    *way = (clef__way){.lead = -1};
    for (int32_t i = 0; i < CLEF_MAX_INPUTS; i++)
        way->in[i] = (clef__way_in){.axis = CLEF__ALL, .mul = 1, .div = 1};
    return 1;
}

void clef__way_take(clef__way *way, int32_t i, int32_t axis)
{
    way->in[i].axis = axis;
}

/* Heads of an input that heads of the result share, as k's and v's in attention. */
static void take_shared(clef__way *way, int32_t i, int32_t axis, int64_t heads, int64_t kv_heads)
{
    way->in[i] = (clef__way_in){.axis = axis, .mul = 1, .div = heads / kv_heads};
    way->heads = (int32_t)heads;
    way->kv_heads = (int32_t)kv_heads;
}

/* Input i broadcasts to the result: it is taken along `axis`, or whole if it has 1 there. */
static void take_broadcast(const clef_value *n, int32_t i, int32_t axis, const clef_shape *to, clef__way *way)
{
    if (!n->in[i])
        return;
    const clef_shape *x = &n->in[i]->shape;
    const int32_t own = axis - (to->rank - x->rank);
    if (own >= 0 && clef__dim_equal(x->dim[own], to->dim[axis]) &&
        !(x->dim[own].n == 1 && !x->dim[own].symbol))
        clef__way_take(way, i, own);
}

int clef__way_elementwise(const clef_value *n, int32_t axis, clef__way *way)
{
    clef__way_start(way);
    for (int32_t i = 0; i < n->n_in; i++)
        take_broadcast(n, i, axis, &n->shape, way);
    return 1;
}

int clef__way_gate(const clef_value *n, int32_t axis, clef__way *way)
{
    clef__way_elementwise(n, axis, way);
    return way->needs_all_inputs = 1;
}

int clef__way_first_input(const clef_value *n, int32_t axis, clef__way *way)
{
    (void)n;
    clef__way_start(way);
    clef__way_take(way, 0, axis);
    return 1;
}

int clef__way_rows(const clef_value *n, int32_t axis, clef__way *way)
{
    return axis < n->shape.rank - 1 && clef__way_first_input(n, axis, way);
}

/* ---- products -------------------------------------------------------------------------------- */

static const clef_matmul_opts *product_of(const clef_value *n)
{
    return (const void *)n->attr;
}

/* A matrix of weights, which all rows share. */
static int is_weight(const clef_value *w)
{
    return w->kind == CLEF_WEIGHT && w->shape.rank == 2;
}

int clef__way_matmul(const clef_value *n, int32_t axis, clef__way *way)
{
    const clef_value *a = n->in[0], *b = n->in[1];
    const clef_matmul_opts *o = product_of(n);
    const int32_t rank = n->shape.rank;
    clef__way_start(way);
    if (axis == rank - 1) {
        clef__way_take(way, 1, b->shape.rank - (o->transpose_b ? 2 : 1));
        clef__way_take(way, 2, 0);
        return way->pays = is_weight(b), 1;
    }
    if (axis == rank - 2) {
        clef__way_take(way, 0, a->shape.rank - (o->transpose_a ? 1 : 2));
        return 1;
    }
    const int32_t of_a = axis - (rank - a->shape.rank), of_b = axis - (rank - b->shape.rank);
    if (of_a >= 0 && !(a->shape.dim[of_a].n == 1 && !a->shape.dim[of_a].symbol))
        clef__way_take(way, 0, of_a);
    if (of_b < 0 || b->shape.dim[of_b].symbol || n->shape.dim[axis].symbol)
        return of_b < 0 || (b->shape.dim[of_b].n == 1 && !b->shape.dim[of_b].symbol);
    take_shared(way, 1, of_b, n->shape.dim[axis].n, b->shape.dim[of_b].n);
    return 1;
}

int clef__sum_matmul(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    const clef_value *a = n->in[0], *b = n->in[1];
    const clef_matmul_opts *o = product_of(n);
    clef__way_start(way);
    way->in[2].axis = CLEF__FIRST;
    if (is_weight(b)) {
        way->lead = 0;
        clef__way_take(way, 0, a->shape.rank - (o->transpose_a ? 2 : 1));
        clef__way_take(way, 1, o->transpose_b ? 1 : 0);
        return 1;
    }
    if (partial[0] == partial[1])
        return 0;
    way->in[partial[0] ? 0 : 1].axis = CLEF__PARTIAL;
    return 1;
}

static int experts_transposed(const clef_value *n)
{
    return ((const clef_expert_matmul_opts *)(const void *)n->attr)->transpose_b;
}

int clef__way_expert_matmul(const clef_value *n, int32_t axis, clef__way *way)
{
    if (axis != n->shape.rank - 1)
        return 0;
    clef__way_start(way);
    clef__way_take(way, 1, experts_transposed(n) ? 1 : 2);
    clef__way_take(way, 3, 1);
    return way->pays = n->in[1]->kind == CLEF_WEIGHT, 1;
}

int clef__sum_expert_matmul(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    (void)partial;
    if (n->in[1]->kind != CLEF_WEIGHT)
        return 0;
    clef__way_start(way);
    way->lead = 0;
    way->in[3].axis = CLEF__FIRST;
    clef__way_take(way, 0, n->in[0]->shape.rank - 1);
    clef__way_take(way, 1, experts_transposed(n) ? 2 : 1);
    return 1;
}

int clef__way_low_rank_add(const clef_value *n, int32_t axis, clef__way *way)
{
    if (axis != n->shape.rank - 1)
        return 0;
    clef__way_start(way);
    clef__way_take(way, 0, axis);
    clef__way_take(way, 3, 2);
    return 1;
}

/* y is a product of x, which is cut along K; so the low-rank product of x is a sum, too. */
int clef__sum_low_rank_add(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    if (!partial[0])
        return 0;
    clef__way_start(way);
    way->lead = 1;
    way->in[0].axis = CLEF__PARTIAL;
    clef__way_take(way, 1, n->in[1]->shape.rank - 1);
    clef__way_take(way, 2, 2);
    return 1;
}

/* Each rank has some rows of the table; an id of another rank's rows gives zeros. */
int clef__sum_gather(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    const clef_gather_opts *o = (const void *)n->attr;
    (void)partial;
    if (o->axis || o->first || !is_weight(n->in[0]))
        return 0;
    clef__way_start(way);
    way->lead = 0;
    clef__way_take(way, 0, 0);
    return 1;
}

/* ---- attention ------------------------------------------------------------------------------- */

int clef__way_softmax(const clef_value *n, int32_t axis, clef__way *way)
{
    enum { X, MASK, POS, SINKS };
    if (axis >= n->shape.rank - 2) /* a row has its position by its number */
        return 0;
    clef__way_start(way);
    clef__way_take(way, X, axis);
    take_broadcast(n, MASK, axis, &n->shape, way);
    if (n->in[POS] && axis == 0)
        clef__way_take(way, POS, 0);
    if (n->n_in > SINKS && n->in[SINKS] && axis == 1)
        clef__way_take(way, SINKS, 0);
    return 1;
}

/* The mask, input i, broadcasts to [B, H, T, S]. */
static void take_mask(clef__way *way, const clef_value *n, int32_t i, int64_t heads)
{
    if (i >= n->n_in || !n->in[i])
        return;
    const clef_shape *mask = &n->in[i]->shape;
    const int32_t axis = mask->rank - 3;
    if (axis >= 0 && mask->dim[axis].n == heads && !mask->dim[axis].symbol && heads > 1)
        clef__way_take(way, i, axis);
}

int clef__way_attention(const clef_value *n, int32_t axis, clef__way *way)
{
    enum { Q, K, V, MASK, POS, SINKS };
    if (axis != 2 || n->in[Q]->shape.dim[1].symbol || n->in[K]->shape.dim[1].symbol)
        return 0;
    clef__way_start(way);
    const int64_t heads = n->in[Q]->shape.dim[1].n, kv_heads = n->in[K]->shape.dim[1].n;
    clef__way_take(way, Q, 1);
    take_shared(way, K, 1, heads, kv_heads);
    take_shared(way, V, 1, heads, kv_heads);
    take_mask(way, n, MASK, heads);
    if (n->n_in > SINKS && n->in[SINKS])
        clef__way_take(way, SINKS, 0);
    return way->pays = 1;
}

int clef__way_cached_attention(const clef_value *n, int32_t axis, clef__way *way)
{
    enum { Q, K, V, K_CACHE, V_CACHE, POS, FREQS, MASK };
    if (axis != 2)
        return 0;
    clef__way_start(way);
    const int64_t heads = n->in[Q]->shape.dim[2].n, kv_heads = n->in[K]->shape.dim[2].n;
    clef__way_take(way, Q, 2);
    take_shared(way, K, 2, heads, kv_heads);
    take_shared(way, V, 2, heads, kv_heads);
    take_shared(way, K_CACHE, 1, heads, kv_heads);
    take_shared(way, V_CACHE, 1, heads, kv_heads);
    take_mask(way, n, MASK, heads);
    return way->pays = 1;
}

int clef__way_cache_write(const clef_value *n, int32_t axis, clef__way *way)
{
    (void)n;
    if (axis != 1)
        return 0;
    clef__way_start(way);
    clef__way_take(way, 0, 1);
    clef__way_take(way, 1, 1);
    return 1;
}

int clef__way_rope(const clef_value *n, int32_t axis, clef__way *way)
{
    return axis == 2 && clef__way_first_input(n, axis, way);
}

int clef__way_relative_bias(const clef_value *n, int32_t axis, clef__way *way)
{
    (void)n;
    if (axis)
        return 0;
    clef__way_start(way);
    clef__way_take(way, 0, 1);
    return 1;
}

/* ---- memories of linear attention ------------------------------------------------------------ */

int clef__way_causal_conv(const clef_value *n, int32_t axis, clef__way *way)
{
    enum { X, W, STATE };
    (void)n;
    if (axis != 2)
        return 0;
    clef__way_start(way);
    clef__way_take(way, X, 2);
    clef__way_take(way, W, 0);
    clef__way_take(way, STATE, 3);
    return 1;
}

/* Mamba 1's scan, in which each channel has its own step: between channels, which share c and b. */
static int way_each(int32_t axis, clef__way *way)
{
    enum { C, B, X, STEP, SKIP, RATES, BIAS, STATE };
    if (axis != 3)
        return 0;
    clef__way_start(way);
    clef__way_take(way, X, 3);
    clef__way_take(way, STEP, 3);
    for (int32_t i = SKIP; i <= BIAS; i++)
        clef__way_take(way, i, 1);
    clef__way_take(way, STATE, 3);
    return way->pays = 1;
}

int clef__way_gated_delta(const clef_value *n, int32_t axis, clef__way *way)
{
    enum { Q, K, V, A, B, RATES, BIAS, STATE };
    const int64_t heads = n->in[V]->shape.dim[2].n, kv_heads = n->in[Q]->shape.dim[2].n;
    const clef_gated_delta_opts *o = (const void *)n->attr;
    const int is_tiled = n->op == CLEF_OP_gated_delta && o->tiled;
    if (n->op == CLEF_OP_selective_scan && n->in[A]->shape.rank == 4)
        return way_each(axis, way);
    if (axis != 2 || (is_tiled && kv_heads > 1)) /* tiled: neighbours among the heads share no head of k */
        return 0;
    clef__way_start(way);
    take_shared(way, Q, 2, heads, kv_heads);
    take_shared(way, K, 2, heads, kv_heads);
    clef__way_take(way, V, 2);
    clef__way_take(way, A, 2);
    clef__way_take(way, B, n->op == CLEF_OP_selective_scan ? 0 : 2);
    clef__way_take(way, RATES, 0);
    clef__way_take(way, BIAS, 0);
    clef__way_take(way, STATE, 1);
    return way->pays = 1;
}

/* ---- views and copies ------------------------------------------------------------------------ */

/* The product of the dims after `axis`. Returns 0 if a symbol is among them. */
static int inner_of(const clef_shape *s, int32_t axis, int64_t *inner)
{
    *inner = 1;
    for (int32_t i = axis + 1; i < s->rank; i++) {
        if (s->dim[i].symbol)
            return 0;
        *inner *= s->dim[i].n;
    }
    return 1;
}

/* The axis of the result and that of the input begin at the same place of memory's order, and one of them
 * counts elements that the other divides further. */
int clef__way_reshape(const clef_value *n, int32_t axis, clef__way *way)
{
    const clef_shape *out = &n->shape, *x = &n->in[0]->shape;
    int64_t inner, inner_x;
    if (out->dim[axis].symbol || !inner_of(out, axis, &inner))
        return 0;
    for (int32_t i = 0; i < x->rank; i++) {
        if (x->dim[i].symbol || !inner_of(x, i, &inner_x) || (x->dim[i].n == 1 && out->dim[axis].n > 1))
            continue;
        if (x->dim[i].n * inner_x != out->dim[axis].n * inner) /* another outermost part */
            continue;
        if (inner % inner_x && inner_x % inner)
            continue;
        clef__way_start(way);
        way->in[0] = (clef__way_in){.axis = i, .mul = inner, .div = inner_x};
        return 1;
    }
    return 0;
}

int clef__way_permute(const clef_value *n, int32_t axis, clef__way *way)
{
    clef__way_start(way);
    clef__way_take(way, 0, ((const clef_permute_opts *)(const void *)n->attr)->axes[axis]);
    return 1;
}

int clef__way_slice(const clef_value *n, int32_t axis, clef__way *way)
{
    const clef_slice_opts *o = (const void *)n->attr;
    const clef_dim whole = n->in[0]->shape.dim[o->axis];
    clef__way_first_input(n, axis, way);
    if (axis != o->axis)
        return 1;
    if (whole.symbol || o->size.symbol)
        return 0;
    way->in[0].add = o->start < 0 ? o->start + whole.n : o->start;
    return way->passes_input = 1;
}

int clef__way_concat(const clef_value *n, int32_t axis, clef__way *way)
{
    const clef_concat_opts *o = (const void *)n->attr;
    if (axis == (o->axis < 0 ? o->axis + n->shape.rank : o->axis))
        return 0;
    clef__way_first_input(n, axis, way);
    clef__way_take(way, 1, axis);
    return 1;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* a + b: what is not a sum itself is added on the first rank. */
int clef__sum_add(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    clef__way_start(way);
    for (int32_t i = 0; i < 2; i++) {
        if (partial[i] && !clef__shape_equal(&n->in[i]->shape, &n->shape))
            return 0;
        way->in[i].axis = partial[i] ? CLEF__PARTIAL : CLEF__FIRST;
    }
    return partial[0] || partial[1];
}

int clef__sum_sub(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    return partial[0] && clef__sum_add(n, partial, way);
}

int clef__sum_mul(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    (void)n;
    clef__way_start(way);
    way->in[partial[0] ? 0 : 1].axis = CLEF__PARTIAL;
    return partial[0] != partial[1];
}

int clef__sum_div(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    return !partial[1] && clef__sum_mul(n, partial, way);
}

int clef__sum_linear(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    (void)n;
    clef__way_start(way);
    way->in[0].axis = CLEF__PARTIAL;
    return partial[0];
}

int clef__sum_affine(const clef_value *n, const unsigned char *partial, clef__way *way)
{
    return ((const clef_affine_opts *)(const void *)n->attr)->shift == 0 && clef__sum_linear(n, partial, way);
}

/* What the rules of ops add up to: gradients of values, and of parts of them. */
#include "graph/grad/gradients.h"

/* The value that v computes once more; else v. */
static const clef_value *original(const clef_value *v)
{
    return v->recomputed && v->forward ? v->forward : v;
}

int clef__wants_gradient(const clef__gradients *gr, const clef_value *v)
{
    return v && original(v)->id < gr->n && gr->wanted[original(v)->id];
}

/* ---- sums ------------------------------------------------------------------------------------- */

clef_value *clef__as_rows(clef_value *x)
{
    if (!x || x->shape.rank == 2)
        return x;
    const int64_t N = clef__dim_right(&x->shape, 0).n;
    return clef_reshape(x->graph, x, clef_shape_2(clef_n(clef__elements(x, NULL) / N), clef_n(N)));
}

/* The sum of x over all dims in which `shape` has 1 and x has more, in that shape: what undoes a
 * broadcast. */
static clef_value *sum_to(clef_value *x, const clef_shape *shape)
{
    if (!x || clef__shape_equal(&x->shape, shape))
        return x;
    const int32_t extra = x->shape.rank - shape->rank;
    int32_t axes = 0;
    for (int32_t i = 0; i < x->shape.rank; i++)
        if (i < extra || !clef__dim_equal(x->shape.dim[i], shape->dim[i - extra]))
            axes |= 1 << i;
    return clef_reshape(x->graph, clef_sum_axes(x->graph, x, &(clef_sum_axes_opts){axes}), *shape);
}

void clef__keep_addend(clef__gradients *gr, const clef_value *v, clef__addend a)
{
    clef__addend **end = &gr->addends[original(v)->id];
    for (; *end; end = &(*end)->next)
        if (a.axis < 0 && (*end)->axis < 0) { /* added at once, so that only their sum is kept */
            (*end)->d = clef_add(gr->g, (*end)->d, a.d);
            return;
        }
    *end = clef__graph_alloc(gr->g, sizeof **end);
    if (*end)
        **end = a;
}

void clef__add_gradient(clef__gradients *gr, clef_value *v, clef_value *d)
{
    if (!d || !clef__wants_gradient(gr, v))
        return;
    d = sum_to(d, &v->shape);
    if (d)
        clef__keep_addend(gr, v, (clef__addend){.d = d, .axis = -1});
}

void clef__add_gradient_of_part(clef__gradients *gr, clef_value *v, int32_t axis, int32_t start,
                                clef_value *d)
{
    if (d && clef__wants_gradient(gr, v))
        clef__keep_addend(gr, v, (clef__addend){.d = d, .axis = axis, .start = start});
}

/* The part that begins at `start` of `axis`, taken out of the list; NULL if there is none. */
static clef_value *take_part(clef__addend *list, int32_t axis, int64_t start)
{
    for (; list; list = list->next)
        if (list->d && list->axis == axis && list->start == start) {
            clef_value *d = list->d;
            list->d = NULL;
            return d;
        }
    return NULL;
}

/* Parts along one axis that follow each other from the first element to the last are joined. NULL: they do
 * not. */
static clef_value *join_parts(const clef_value *v, clef__addend *list, int32_t axis)
{
    const int64_t size = v->shape.dim[axis].n;
    int64_t at = 0, n_parts = 0;
    for (const clef__addend *a = list; a; a = a->next)
        for (const clef__addend *p = list; p; p = p->next)
            if (p->d && p->axis == axis && p->start == at) {
                at += p->d->shape.dim[axis].n;
                n_parts++;
                break;
            }
    if (at != size || n_parts < 2)
        return NULL;
    clef_value *x = take_part(list, axis, 0);
    while (x && x->shape.dim[axis].n < size)
        x = clef_concat(v->graph, x, take_part(list, axis, x->shape.dim[axis].n), &(clef_concat_opts){axis});
    return x;
}

static clef_value *padded_part(const clef_value *v, const clef__addend *a)
{
    const int64_t after = v->shape.dim[a->axis].n - a->start - a->d->shape.dim[a->axis].n;
    return clef_pad(v->graph, a->d,
                    &(clef_pad_opts){.axis = a->axis, .before = a->start, .after = (int32_t)after});
}

clef_value *clef__sum_addends(const clef_value *v, clef__addend *list)
{
    clef_value *sum = NULL;
    for (int32_t axis = 0; axis < v->shape.rank; axis++) {
        clef_value *joined = join_parts(v, list, axis);
        if (joined)
            sum = sum ? clef_add(v->graph, sum, joined) : joined;
    }
    for (clef__addend *a = list; a; a = a->next) {
        clef_value *d = !a->d ? NULL : a->axis < 0 ? a->d : padded_part(v, a);
        if (d)
            sum = sum ? clef_add(v->graph, sum, d) : d;
    }
    return sum;
}

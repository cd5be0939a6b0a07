/* The arguments of every kernel for matrix products: sizes, strides, and batches folded into rows. */
#include "graph/lower/variant.h"

int64_t clef__head_group(const clef_shape *a, const clef_shape *b)
{
    if (a->rank != 4 || b->rank != 4 || a->dim[1].symbol || b->dim[1].symbol)
        return 1;
    const int64_t h = a->dim[1].n, hk = b->dim[1].n;
    if (h == hk || hk == 1 || h == 1)
        return 1;
    return h % hk ? 0 : h / hk;
}

/* Folds dim 1 into the rows, then moves dim 0 to dim 1, as long as b does not depend on it. Rows of a
 * transposed `a` are not strides apart, and stay. */
static void fold_batches(matmul_args *p, int transpose_a)
{
    for (int i = 0; i < 2; i++) {
        const int mergeable = !transpose_a && (p->m == 1 || p->a_stride[1] == p->m * p->a_stride[2]);
        if (p->n1 > 1 && (p->b_stride[1] || p->group > 1 || !mergeable))
            return;
        if (p->n1 > 1) {
            p->a_stride[2] = p->m == 1 ? p->a_stride[1] : p->a_stride[2];
            p->m *= p->n1;
        }
        p->n1 = p->n0;
        p->n0 = 1;
        p->a_stride[1] = p->a_stride[0];
        p->b_stride[1] = p->b_stride[0];
        p->a_stride[0] = p->b_stride[0] = 0;
        p->group = 1;
    }
}

matmul_args clef__matmul_args(const clef_lowering *lo, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *a = n->in[0], *b = n->in[1];
    const view_args va = clef__view_as(lo, a, n), bias = clef__view(lo, n->in[2]);
    view_args vb = clef__view(lo, b);
    args_uint out[4], nb[4];
    clef__n4(lo, n, out);
    clef__n4(lo, b, nb);
    for (int i = 0; i < 2; i++)
        if (nb[i] == 1)
            vb.stride[i] = 0;
    matmul_args p = {.m = out[2],
                     .n = out[3],
                     .k = clef__n(lo, a, o->transpose_a ? 1 : 0),
                     .n0 = out[0],
                     .n1 = out[1],
                     .group = (args_uint)clef__head_group(&a->shape, &b->shape),
                     .a = va.offset,
                     .a_stride = {va.stride[0], va.stride[1], va.stride[2]},
                     .b = vb.offset,
                     .b_stride = {vb.stride[0], vb.stride[1], vb.stride[2]},
                     .bias = bias.offset,
                     .alpha = o->alpha != 0 ? o->alpha : 1};
    fold_batches(&p, o->transpose_a);
    return p;
}

/* Lowers everything that works element by element. */
#include "graph/lower/elementwise.h"

#include <string.h>

enum { CPU_SPAN = 4096, GPU_SPAN = 2048 }; /* columns of a group */

#define ELEMENT_NAME(name) #name,
static const char *const element_names[] = {ELEMENT_OPS(ELEMENT_NAME)};

static int32_t element_op(const char *what)
{
    int32_t i = 0;
    while (strcmp(element_names[i], what) != 0)
        i++;
    return i;
}

view_args clef__dense_view(const args_uint n[4])
{
    return (view_args){.stride = {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1}};
}

static int can_join(const elementwise_args *a, int outer, int inner)
{
    return a->out.stride[outer] == a->out.stride[inner] * a->n[inner] &&
           a->x.stride[outer] == a->x.stride[inner] * a->n[inner] &&
           a->b.stride[outer] == a->b.stride[inner] * a->n[inner];
}

static void move_dim(elementwise_args *a, int from, int to)
{
    a->n[to] = a->n[from];
    a->out.stride[to] = a->out.stride[from];
    a->x.stride[to] = a->x.stride[from];
    a->b.stride[to] = a->b.stride[from];
}

/* Joins dims that are adjacent in all three views, and drops dims of 1, so that rows become as long as
 * possible. */
static void join_dims(elementwise_args *a)
{
    int to = 3;
    for (int i = 2; i >= 0; i--) {
        if (a->n[i] == 1)
            continue;
        if (a->n[to] == 1)
            move_dim(a, i, to);
        else if (can_join(a, i, to))
            a->n[to] *= a->n[i];
        else
            move_dim(a, i, --to);
    }
    while (to > 0)
        a->n[--to] = 1;
}

clef_status clef__launch_elementwise(clef_lowering *lo, const clef_elementwise *e, clef_error *err)
{
    elementwise_args args = {.n = {e->n[0], e->n[1], e->n[2], e->n[3]},
                             .out = e->out_view,
                             .x = e->x_view,
                             .b = e->b_view,
                             .p = e->p,
                             .q = e->q};
    join_dims(&args);
    const uint32_t wg = clef__fit_local(lo, 256);
    args.span = wg == 1 ? CPU_SPAN : GPU_SPAN;
    args.pieces = clef__ceil_div(args.n[3], args.span);
    return clef__launch(lo,
                        &(clef_launch){.source = "elementwise",
                                       .kernel = "elementwise",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"OP", element_op(e->what)},
                                                {"X_TYPE", (int32_t)e->x->dtype},
                                                {"B_TYPE", e->b ? (int32_t)e->b->dtype : DTYPE_NONE}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {e->out, e->x, e->b},
                                       .n_bufs = 3,
                                       .groups = {args.n[0] * args.n[1] * args.n[2] * args.pieces},
                                       .local = {wg},
                                       .scratch_bytes = e->scratch_bytes},
                        err);
}

clef_status clef__lower_elementwise(clef_lowering *lo, const clef_value *n, const char *what, float p,
                                    float q, clef_error *err)
{
    clef_elementwise e = {.what = what,
                          .out = n,
                          .x = n->in[0],
                          .b = n->in[1],
                          .x_view = clef__view_as(lo, n->in[0], n),
                          .b_view = clef__view_as(lo, n->in[1], n),
                          .p = p,
                          .q = q};
    clef__n4(lo, n, e.n);
    e.out_view = clef__dense_view(e.n);
    return clef__launch_elementwise(lo, &e, err);
}

clef_status clef__lower_named(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__lower_elementwise(lo, n, clef__ops[n->op]->name, 0, 0, err);
}

/* What the ops' lower functions call: numbers for symbols, layouts of views, and adding a launch. */
#include <inttypes.h>
#include <string.h>

#include "graph/op.h"

const clef_value clef__scratch_marker;

uint32_t clef__ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

uint32_t clef__n(const clef_lowering *lo, const clef_value *v, int32_t i)
{
    return (uint32_t)clef__dim_at(lo->graph, clef__dim_right(&v->shape, i), lo->symbols);
}

uint32_t clef__bound_n(const clef_lowering *lo, const clef_value *v, int32_t i)
{
    return (uint32_t)clef__dim_at(lo->graph, clef__dim_right(&v->shape, i), NULL);
}

void clef__n4(const clef_lowering *lo, const clef_value *v, args_uint n[4])
{
    for (int32_t i = 0; i < 4; i++)
        n[i] = clef__n(lo, v, 3 - i);
}

uint32_t clef__size(const clef_lowering *lo, const clef_value *v)
{
    return (uint32_t)clef__elements(v, lo->symbols);
}

uint32_t clef__rows(const clef_lowering *lo, const clef_value *v)
{
    return clef__n(lo, v, 3) * clef__n(lo, v, 2) * clef__n(lo, v, 1);
}

/* Strides of a dense value, by axis from the left. */
static void dense_strides(const clef_lowering *lo, const clef_value *v, int64_t stride[CLEF_MAX_DIMS])
{
    int64_t step = 1;
    for (int32_t i = v->shape.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= clef__dim_at(lo->graph, v->shape.dim[i], lo->symbols);
    }
}

/* Offset and strides of v in its base, in elements, by axis from the left. */
static int64_t strides_of(const clef_lowering *lo, const clef_value *v, int64_t stride[CLEF_MAX_DIMS])
{
    if (v->op == CLEF_OP_NONE || !clef__ops[v->op]->view) {
        dense_strides(lo, v, stride);
        return 0;
    }
    int64_t in[CLEF_MAX_DIMS];
    int64_t offset = strides_of(lo, v->in[0], in);
    if (v->op == CLEF_OP_reshape) {
        dense_strides(lo, v, stride);
    } else if (v->op == CLEF_OP_permute) {
        const clef_permute_opts *o = (const void *)v->attr;
        for (int32_t i = 0; i < v->shape.rank; i++)
            stride[i] = in[o->axes[i]];
    } else {
        memcpy(stride, in, sizeof in);
        if (v->op == CLEF_OP_slice) {
            const clef_slice_opts *o = (const void *)v->attr;
            const int64_t from_end =
                o->start < 0 ? clef__dim_at(lo->graph, v->in[0]->shape.dim[o->axis], lo->symbols) : 0;
            offset += (o->start + from_end) * in[o->axis];
        }
    }
    return offset;
}

view_args clef__view_as(const clef_lowering *lo, const clef_value *v, const clef_value *like)
{
    view_args view = {0};
    if (!v)
        return view;
    int64_t stride[CLEF_MAX_DIMS];
    view.offset = (args_uint)strides_of(lo, v, stride);
    for (int32_t i = 0; i < v->shape.rank; i++) { /* i counts from the right */
        const int32_t axis = v->shape.rank - 1 - i;
        const int stretched = clef__n(lo, v, i) == 1 && clef__n(lo, like, i) != 1;
        view.stride[3 - i] = stretched ? 0 : (args_uint)stride[axis];
    }
    return view;
}

view_args clef__view(const clef_lowering *lo, const clef_value *v)
{
    return clef__view_as(lo, v, v);
}

uint32_t clef__fit_local(const clef_lowering *lo, uint32_t n)
{
    if (lo->caps->is_cpu)
        return 1;
    uint32_t most = 256, wg = 1;
    if (most > (uint32_t)lo->caps->max_group)
        most = (uint32_t)lo->caps->max_group;
    if (most > (uint32_t)lo->caps->max_items[0])
        most = (uint32_t)lo->caps->max_items[0];
    while (wg * 2 <= most && wg < n)
        wg *= 2;
    return wg;
}

/* Kernels count elements in 32 bits. What they read of a view is within its base. */
static clef_status check_addresses(const clef_lowering *lo, const clef_launch *launch, clef_error *err)
{
    for (uint32_t i = 0; i < launch->n_bufs; i++) {
        const clef_value *v = launch->bufs[i];
        if (!v || !v->is_large)
            continue;
        const int64_t n = clef__elements(clef__base(v), lo->symbols);
        if (n > UINT32_MAX)
            return clef__fail(err, CLEF_E_LIMIT,
                              "%s: %s has %" PRId64 " elements there, but kernels can address %u",
                              lo->node->name, clef__base(v)->name, n, UINT32_MAX);
    }
    return CLEF_OK;
}

clef_status clef__launch(clef_lowering *lo, const clef_launch *launch, clef_error *err)
{
    uint64_t items = 1;
    if (lo->n == lo->cap)
        return clef__fail(err, CLEF_E_LIMIT, "%s: more than %d launches in the plan", lo->node->name,
                          lo->cap);
    if (launch->args_bytes > CLEF_MAX_ARGS_BYTES || launch->n_bufs > CLEF_MAX_BUFS)
        return clef__fail(err, CLEF_E_LIMIT, "%s: kernel %s takes more than %d argument bytes or %d buffers",
                          lo->node->name, launch->kernel, CLEF_MAX_ARGS_BYTES, CLEF_MAX_BUFS);
    const clef_status s = check_addresses(lo, launch, err);
    if (s)
        return s;
    clef_launch *to = &lo->launches[lo->n];
    *to = *launch;
    to->args = lo->args + (size_t)lo->n * CLEF_MAX_ARGS_BYTES;
    if (launch->args_bytes)
        memcpy(lo->args + (size_t)lo->n * CLEF_MAX_ARGS_BYTES, launch->args, launch->args_bytes);
    to->node = lo->node;
    to->variant = lo->serving;
    for (int32_t i = 0; i < 3; i++) {
        to->groups[i] = launch->groups[i] ? launch->groups[i] : 1;
        to->local[i] = launch->local[i] ? launch->local[i] : 1;
        items *= to->local[i];
        if (to->local[i] > (uint32_t)lo->caps->max_items[i])
            return clef__fail(err, CLEF_E_LIMIT,
                              "%s: kernel %s needs %u work-items in dim %d, the device allows %d",
                              lo->node->name, launch->kernel, to->local[i], i, lo->caps->max_items[i]);
    }
    if (launch->call == CLEF_CALL_KERNEL && items > (uint64_t)lo->caps->max_group)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: kernel %s needs groups of %llu work-items, the device allows %d",
                          lo->node->name, launch->kernel, (unsigned long long)items, lo->caps->max_group);
    lo->n++;
    return CLEF_OK;
}

/* Adds a node: the checks that every op shares, driven by its row of the table. */
#include <stdio.h>
#include <string.h>

#include "graph/names.h"
#include "graph/op.h"

const clef_op_def *const clef__ops[CLEF_N_OPS] = {
#define OP(name) &clef__op_##name,
#include "graph/ops.def"
#undef OP
};

const char *clef_op_name(int32_t i)
{
    return i >= 0 && i < CLEF_N_OPS ? clef__ops[i]->name : NULL;
}

const char *clef_op_formula(int32_t i)
{
    return i >= 0 && i < CLEF_N_OPS ? clef__ops[i]->formula : NULL;
}

int clef_value_row_range(const clef_value *v, int32_t i, clef_row_range *out)
{
    const clef_op_def *def = v->op == CLEF_OP_NONE ? NULL : clef__ops[v->op];
    if (!def || i < 0 || i >= v->n_in || !v->in[i] || !(def->row_numbers >> i & 1))
        return 0;
    *out = def->row_range(v);
    return 1;
}

static int dtype_fits(uint32_t flags, clef_dtype t)
{
    const uint32_t wanted =
        flags & (CLEF_IN_F32 | CLEF_IN_FLOAT | CLEF_IN_WEIGHT | CLEF_IN_I32 | CLEF_IN_MASK);
    const int is_float = t == CLEF_F32 || t == CLEF_F16 || t == CLEF_BF16;
    if (!wanted)
        return 1;
    return ((wanted & CLEF_IN_F32) && t == CLEF_F32) || ((wanted & CLEF_IN_FLOAT) && is_float) ||
           ((wanted & CLEF_IN_WEIGHT) && (is_float || clef_dtype_block_elems(t) > 1)) ||
           ((wanted & CLEF_IN_I32) && t == CLEF_I32) ||
           ((wanted & CLEF_IN_MASK) && (t == CLEF_F32 || t == CLEF_I32 || t == CLEF_I8));
}

static const char *dtypes_wanted(uint32_t flags)
{
    return flags & CLEF_IN_WEIGHT                              ? "a float or block format"
           : (flags & CLEF_IN_FLOAT) && (flags & CLEF_IN_MASK) ? "f32, f16, bf16, i32 or i8"
           : flags & CLEF_IN_FLOAT                             ? "f32, f16 or bf16"
           : flags & CLEF_IN_MASK                              ? "f32, i32 or i8"
           : flags & CLEF_IN_I32                               ? "i32"
                                                               : "f32";
}

/* A copy of v, if the op cannot read v's layout. */
static clef_value *as_the_op_reads(clef_graph *g, const clef_op_def *def, int32_t i, clef_value *v)
{
    const int needs_copy = ((def->in[i] & CLEF_IN_DENSE) && !clef__is_dense(v)) ||
                           ((def->in[i] & CLEF_IN_ROWS) && !clef__rows_dense(v));
    return needs_copy ? clef__node(g, CLEF_OP_copy, &v, 1, NULL) : v;
}

/* States change in place. So a value is refused if it shows a state as it was before a write, or would do so
 * after this node's write. */
static int states_fit(clef_graph *g, const clef_value *n, const char *name)
{
    for (int32_t i = 0; i < n->n_in; i++) {
        const clef_value *write = n->in[i] ? clef__overwritten_by(n->in[i]) : NULL;
        if (write) {
            clef__graph_fail(
                g, CLEF_E_ARG,
                "%s: input %d (%s) shows a state that %s has written since: use the result of the write",
                name, i, n->in[i]->name, write->name);
            return 0;
        }
    }
    for (int32_t i = 0; i < n->n_in; i++)
        for (int32_t k = 0; k < g->n_outputs && clef__ops[n->op]->writes >> i & 1; k++)
            if (clef__base(g->outputs[k].value) == clef__base(n->in[i])) {
                clef__graph_fail(g, CLEF_E_ARG, "%s: output %s shows the state %s as it is before this write",
                                 name, g->outputs[k].name, clef__base(n->in[i])->name);
                return 0;
            }
    return 1;
}

clef_value *clef__node(clef_graph *g, clef_op op, clef_value *const *in, int32_t n_in, const void *attr)
{
    const clef_op_def *def = clef__ops[op];
    char name[CLEF_NAME_BYTES];
    if (!g || g->error.status)
        return NULL;
    clef_value *viewed = def->with_views ? def->with_views(g, in, n_in, attr) : NULL;
    if (viewed || g->error.status)
        return viewed;
    clef_value *n = clef__graph_alloc(g, sizeof *n);
    if (!n || !clef__graph_make_name(g, g->prefix, strlen(g->prefix), op, name))
        return NULL;
    *n = (clef_value){.graph = g, .kind = CLEF_COMPUTED, .op = op, .scope = g->scope};
    if (attr)
        memcpy(n->attr, attr, def->attr_bytes);
    if (n_in > def->n_max)
        return clef__graph_fail(g, CLEF_E_ARG, "%s: %d inputs, expected at most %d", name, n_in, def->n_max);
    for (int32_t i = 0; i < n_in; i++) {
        if (!in[i] && (i < def->n_min || !(def->in[i] & CLEF_IN_OPTIONAL)))
            return clef__graph_fail(g, CLEF_E_ARG, "%s: input %d is missing", name, i);
        if (!in[i])
            continue;
        if (in[i]->graph != g)
            return clef__graph_fail(g, CLEF_E_ARG, "%s: input %d (%s) is a value of another graph", name, i,
                                    in[i]->name);
        if (!dtype_fits(def->in[i], in[i]->dtype))
            return clef__graph_fail(g, CLEF_E_SHAPE, "%s: input %d (%s) is %s, expected %s", name, i,
                                    in[i]->name, clef_dtype_name(in[i]->dtype), dtypes_wanted(def->in[i]));
        n->in[i] = as_the_op_reads(g, def, i, in[i]);
        if (!n->in[i])
            return NULL;
        n->n_in = i + 1;
    }
    if (n->n_in < def->n_min)
        return clef__graph_fail(g, CLEF_E_ARG, "%s: %d inputs, expected at least %d", name, n->n_in,
                                def->n_min);
    if (!states_fit(g, n, name))
        return NULL;
    if (def->view && n->in[0] && clef__view_depth(n->in[0]) >= CLEF_MAX_VIEWS)
        return clef__graph_fail(g, CLEF_E_LIMIT,
                                "%s: more than %d views and state writes in a row; copy %s first", name,
                                CLEF_MAX_VIEWS, n->in[0]->name);
    clef_error why;
    const clef_status s = def->infer(n, &why);
    if (s)
        return clef__graph_fail(g, s, "%s: %s", name, why.text);
    char shape[96];
    if (!clef__fits_bits(g, &n->shape, CLEF__VALUE_BITS))
        return clef__graph_fail(g, CLEF_E_LIMIT,
                                "%s: %s is too large, expected dims below 2^32 and less than 2^%d elements",
                                name, clef__shape_text(g, &n->shape, shape), CLEF__VALUE_BITS);
    n->is_large =
        !clef__fits_bits(g, &n->shape, CLEF__KERNEL_BITS) || (def->view && n->in[0] && n->in[0]->is_large);
    return clef__graph_rename(g, n, name) && clef__graph_append(g, n) ? n : NULL;
}

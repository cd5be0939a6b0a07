/* choose: the pass that depends on the device. Products with a weight become products with its panels, with
 * quantised activations if the weight is quantised and the device multiplies bytes. It runs when a plan is
 * made, and is not among the passes of clef_graph_optimize(), which know no device. */
#include "graph/lower/attention/attention.h"
#include "graph/lower/choose.h"
#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"
#include "graph/op/expert.h"
#include "graph/pass/pass.h"

enum { LEAST_GROUP = 32 }; /* work-items, for which there are kernels that read panels; CPUs take one */

typedef struct wishes {
    int exact;
    clef_gemm gemm;
    const clef_caps *caps;
} wishes;

/* On GPUs CLBlast multiplies matrices in f32, if it is allowed. */
static int left_alone(const wishes *wanted, const clef_value *w)
{
    return !wanted->caps->is_cpu && w->dtype == CLEF_F32 &&
           clef__clblast_may_serve(wanted->caps, wanted->gemm);
}

/* How a product with a weight in blocks rounds x. CPUs and GPUs with instructions for bytes round to 8 bits,
 * or to bf16 where units that multiply matrices of them are even faster. Other GPUs round to half precision
 * if they compute in halves. */
static clef_panel_activations rounding_of_blocks(const wishes *wanted)
{
    const clef_caps *caps = wanted->caps;
    if (wanted->exact)
        return CLEF_PANEL_F32;
    if (caps->is_cpu || clef__has_byte_products(caps))
        return caps->x86_amx || clef__matrix_multiplies(caps, CLEF_MATRIX_BF16) ? CLEF_PANEL_BY_DEVICE
                                                                                : CLEF_PANEL_INT8;
    return caps->fp16 || clef__matrix_multiplies(caps, CLEF_MATRIX_HALVES) ? CLEF_PANEL_HALF : CLEF_PANEL_F32;
}

/* How a product with another weight (of k columns) rounds x: like the weight, if a unit multiplies matrices
 * of its type, or a CPU has an instruction for it. */
static clef_panel_activations rounding_of_floats(const wishes *wanted, clef_dtype dtype, int64_t k)
{
    const int32_t type = dtype == CLEF_F16 ? CLEF_MATRIX_HALVES : dtype == CLEF_BF16 ? CLEF_MATRIX_BF16 : 0;
    const int multiplies = wanted->caps->is_cpu ? dtype == CLEF_BF16 && wanted->caps->arm64_bf16
                                                : type && clef__matrix_multiplies(wanted->caps, type);
    const int rounds = multiplies && !wanted->exact && k % 32 == 0;
    return rounds ? CLEF_PANEL_HALF : CLEF_PANEL_F32;
}

static clef_value *choose_panels(clef_value *n, const void *user)
{
    const wishes *wanted = user;
    clef_graph *g = n->graph;
    clef_value *w = n->in[1];
    const clef_matmul_opts *o = (const void *)n->attr;
    if (n->op != CLEF_OP_matmul || w->kind != CLEF_WEIGHT || w->shape.rank != 2 || o->transpose_a ||
        n->in[0]->dtype != CLEF_F32)
        return n;
    const int in_out = !o->transpose_b, quantised = clef_dtype_block_elems(w->dtype) > 1;
    const int64_t rows = w->shape.dim[in_out ? 1 : 0].n, columns = w->shape.dim[in_out ? 0 : 1].n;
    if (left_alone(wanted, w) || !clef__panel_has(w->dtype, columns) || (in_out && quantised) ||
        rows > INT32_MAX || columns > INT32_MAX)
        return n;
    const clef_panel_activations activations =
        quantised ? rounding_of_blocks(wanted) : rounding_of_floats(wanted, w->dtype, columns);
    const clef_panel_matmul_opts opts = {.n = (int32_t)rows,
                                         .k = (int32_t)columns,
                                         .dtype = w->dtype,
                                         .alpha = o->alpha,
                                         .activations = activations};
    clef_value *packed = clef__pack(g, &w, 1, &(clef_pack_opts){.in_out = in_out});
    return clef__panel_matmul(g, n->in[0], packed, &(clef_panel_inputs){.bias = n->in[2]}, &opts);
}

/* On CPUs experts in blocks are packed, and their x is rounded to 8 bits. */
static clef_value *choose_expert_panels(clef_value *n, const void *user)
{
    const wishes *wanted = user;
    clef_value *w = n->in[1];
    if (n->op != CLEF_OP_expert_matmul || wanted->exact || !wanted->caps->is_cpu || w->kind != CLEF_WEIGHT ||
        clef_dtype_block_elems(w->dtype) == 1 || !clef__expert_attrs_of(n)->opts.transpose_b)
        return n;
    const int64_t experts = w->shape.dim[0].n, rows = w->shape.dim[1].n, columns = w->shape.dim[2].n;
    if (!clef__panel_has(w->dtype, columns) || rows % PANEL_ROWS || experts * rows > INT32_MAX / columns ||
        (uint64_t)clef__bytes(w, NULL) > clef__panel_most_bytes(wanted->caps->max_alloc_bytes))
        return n;
    const clef__panel_experts_opts opts = {
        .n = (int32_t)rows, .k = (int32_t)columns, .experts = (int32_t)experts, .dtype = w->dtype};
    return clef__panel_experts(n->graph, n->in[0], clef__pack(n->graph, &w, 1, &(clef_pack_opts){0}),
                               n->in[2], n->in[3], &opts);
}

/* On GPUs x of experts is rounded where many rows gain from it: to 8 bits or bf16, or like a weight in floats
 * of 16 bits. */
static void choose_experts(clef_graph *g, const wishes *wanted)
{
    const int has_bytes = clef__has_byte_products(wanted->caps);
    for (int32_t i = 0; i < g->n_values && !wanted->exact && !wanted->caps->is_cpu; i++) {
        const clef_value *n = g->values[i];
        if (n->op != CLEF_OP_expert_matmul || n->in[1]->kind != CLEF_WEIGHT)
            continue;
        clef__expert_attrs *attrs = (void *)n->attr;
        const clef_shape *x = &n->in[0]->shape;
        attrs->int8 = has_bytes && clef__experts_have_bytes(n);
        attrs->half = attrs->opts.transpose_b &&
                      rounding_of_floats(wanted, n->in[1]->dtype, x->dim[x->rank - 1].n) == CLEF_PANEL_HALF;
    }
}

/* On GPUs whose units multiply matrices of halves, attention rounds queries and weights to them. */
static void choose_attention(clef_graph *g, const wishes *wanted)
{
    const int rounds =
        !wanted->exact && !wanted->caps->is_cpu && clef__matrix_multiplies(wanted->caps, CLEF_MATRIX_HALVES);
    for (int32_t i = 0; i < g->n_values && rounds; i++) {
        void *attr = g->values[i]->attr;
        if (g->values[i]->op == CLEF_OP_attention)
            ((clef__attention_attrs *)attr)->halves = 1;
        if (g->values[i]->op == CLEF_OP_cached_attention)
            ((clef__cached_attention_attrs *)attr)->halves = 1;
    }
}

clef_status clef__pass_choose(clef_graph *g, const clef_caps *caps, clef_gemm gemm, int exact,
                              clef_error *err)
{
    if (gemm == CLEF_GEMM_CLBLAST || (!caps->is_cpu && clef__group_most(caps) < LEAST_GROUP))
        return CLEF_OK;
    const wishes wanted = {.exact = exact, .gemm = gemm, .caps = caps};
    choose_experts(g, &wanted);
    choose_attention(g, &wanted);
    clef_status s = clef__rewrite(g, choose_panels, &wanted, err);
    if (!s)
        s = clef__rewrite(g, choose_expert_panels, &wanted, err);
    if (!s) /* several products of one x, or of one weight, share what was made for the first */
        s = clef__pass_merge(g, err);
    if (!s)
        s = clef__pass_drop(g, err);
    if (!s)
        s = clef__fuse_panels(g, caps->max_alloc_bytes, err);
    return s ? s : clef__fuse_experts(g, caps, err);
}

void clef__pass_batch_invariant(clef_graph *g)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        void *attr = g->values[i]->attr;
        if (g->values[i]->op == CLEF_OP_panel_matmul)
            ((clef_panel_matmul_opts *)attr)->batch_invariant = 1;
        if (g->values[i]->op == CLEF_OP_attention)
            ((clef_attention_opts *)attr)->batch_invariant = 1;
        if (g->values[i]->op == CLEF_OP_cached_attention)
            ((clef_cached_attention_opts *)attr)->batch_invariant = 1;
        if (g->values[i]->op == CLEF_OP_expert_matmul)
            ((clef__expert_attrs *)attr)->batch_invariant = 1;
        if (g->values[i]->op == CLEF_OP_panel_experts)
            ((clef__panel_experts_opts *)attr)->batch_invariant = 1;
    }
}

/* dropout: drops elements at random. The choice is a function of seed, step and place alone. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/op.h"
#include "graph/philox.h"

static const clef_attr_def dropout_attrs[] = {
    {"p", CLEF_ATTR_FLOAT, offsetof(clef_dropout_opts, p), NULL},
    {"stream", CLEF_ATTR_INT, offsetof(clef_dropout_opts, stream), NULL},
    {"first", CLEF_ATTR_INT, offsetof(clef_dropout_opts, first), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_dropout(clef_graph *g, clef_value *x, clef_value *random, const clef_dropout_opts *opts)
{
    return clef__node(g, CLEF_OP_dropout, (clef_value *[]){x, random}, 2, opts);
}

static clef_status dropout_infer(clef_value *n, clef_error *err)
{
    const clef_dropout_opts *o = (const void *)n->attr;
    const clef_shape wanted = clef_shape_1(clef_n(4));
    char text[96];
    if (!(o->p >= 0 && o->p < 1))
        return clef__fail(err, CLEF_E_ARG, "p %g, expected 0 <= p < 1", (double)o->p);
    if (o->first < 0)
        return clef__fail(err, CLEF_E_ARG, "first %d, expected 0 or more", o->first);
    if (!clef__shape_equal(&n->in[1]->shape, &wanted))
        return clef__fail(err, CLEF_E_SHAPE, "random %s, expected [4]",
                          clef__shape_text(n->graph, &n->in[1]->shape, text));
    return clef__infer_same(n, err);
}

/* The least word that keeps an element. */
static uint32_t least_word(const clef_dropout_opts *o)
{
    return (uint32_t)fmin((double)o->p * 4294967296.0, 4294967295.0);
}

/* Words as they are in a tensor of integers. */
static uint32_t word_of(double x)
{
    return (uint32_t)(int64_t)x;
}

static void dropout_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_dropout_opts *o = (const void *)n->attr;
    const double *random = in[1].x;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {
        const int64_t e = o->first + i;
        const clef__philox_words counter = {
            {(uint32_t)(e / 64 * 16 + e % 16), (uint32_t)o->stream, word_of(random[2]), word_of(random[3])}};
        const clef__philox_words words = clef__philox(counter, word_of(random[0]), word_of(random[1]));
        out->x[i] = words.word[e / 16 % 4] >= least_word(o) ? in[0].x[i] / (1 - (double)o->p) : 0;
    }
}

static clef_status dropout_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { SPAN = 8192 };
    const clef_dropout_opts *o = (const void *)n->attr;
    const uint32_t wg = clef__fit_local(lo, 256);
    const dropout_args args = {.n = clef__size(lo, n),
                               .span = SPAN,
                               .x = clef__view(lo, n->in[0]).offset,
                               .random = clef__view(lo, n->in[1]).offset,
                               .least = least_word(o),
                               .stream = (args_uint)o->stream,
                               .first = (args_uint)o->first,
                               .scale = (float)(1 / (1 - (double)o->p))};
    return clef__launch(lo,
                        &(clef_launch){.source = "dropout",
                                       .kernel = "dropout",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {clef__ceil_div(args.n, args.span)},
                                       .local = {wg}},
                        err);
}

/* The same elements of the gradient are dropped. */
static void dropout_grad(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0], clef_dropout(n->graph, d, n->in[1], (const void *)n->attr));
}

const clef_op_def clef__op_dropout = {
    .name = "dropout",
    .formula = "out = x / (1 - p) where a random word is at least p 2^32, else 0",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = dropout_attrs,
    .attr_bytes = sizeof(clef_dropout_opts),
    .infer = dropout_infer,
    .ref = dropout_ref,
    .flops = 16,
    .lower = dropout_lower,
    .grad = dropout_grad,
    .in_place = 1,
    .tol = 2e-7f, /* a product with a rounded number */
};

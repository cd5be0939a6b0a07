/* ONNX for what goes along a sequence with a memory (convolution, gated delta), and for mixtures of
 * experts. */
#include "export/onnx/onnx.h"

/* A state has new content in its first sequences; those behind them stay. */
static void keep_state(onnx_export *x, const clef_value *state, const char *now, clef_dim B)
{
    if (x->form == CLEF_ONNX_PLAIN) {
        const char *rest = ONNX(x, "Slice", clef__onnx_stored(x, state), clef__onnx_dim(x, B),
                                ONNX_I64S(x, INT64_MAX), ONNX_I64S(x, 0));
        ONNX(x, "Concat", now, rest);
        now = clef__onnx_int(x, "axis", 0);
    }
    x->names[state->id] = now;
    x->names[clef__base(state)->id] = now;
}

/* The state's first B sequences; zeros where pos[b] is 0 (pos NULL: everywhere), since a sequence begins
 * there. */
static const char *begin_state(onnx_export *x, const clef_value *state, const clef_value *pos, clef_dim B)
{
    const char *zero = clef__onnx_f32(x, 0);
    if (x->form != CLEF_ONNX_PLAIN)
        return clef__onnx_stored(x, state);
    const char *first =
        ONNX(x, "Slice", clef__onnx_stored(x, state), ONNX_I64S(x, 0), clef__onnx_dim(x, B), ONNX_I64S(x, 0));
    if (!pos)
        return ONNX(x, "Mul", first, zero);
    const char *goes_on = clef__onnx_cast(x, clef__onnx_stored(x, pos), ONNX_BOOL);
    return ONNX(x, "Where", ONNX(x, "Unsqueeze", goes_on, ONNX_I64S(x, 1, 2, 3)), first, zero);
}

static const char *swap_axes(onnx_export *x, const char *in)
{
    ONNX(x, "Transpose", in);
    return ONNX_INTS(x, "perm", 0, 2, 1);
}

/* Padding counts as 0, so it leaves no trace in the states of a sequence that begins behind it. */
EMIT(causal_conv)
{
    const clef_value *in = n->in[0], *w = n->in[1], *state = n->in[2];
    const int64_t C = w->shape.dim[0].n, K = w->shape.dim[1].n;
    const int is_plain = x->form == CLEF_ONNX_PLAIN; /* the state is [B, 1, K - 1, C], else [B, C, K - 1] */
    const char *before = begin_state(x, state, n->in[3], in->shape.dim[0]), *kept = clef__onnx_kept_tokens(x);
    const char *now = swap_axes(x, clef__onnx_value(x, in)); /* [B, C, T] */
    if (is_plain)
        before = swap_axes(x, ONNX(x, "Squeeze", before, ONNX_I64S(x, 1)));
    ONNX(x, "Concat", before, kept ? ONNX(x, "Mul", now, kept) : now);
    const char *all = clef__onnx_int(x, "axis", 2);
    ONNX(x, "Conv", all, clef__onnx_unsqueeze(x, clef__onnx_value(x, w), 1));
    const char *out = swap_axes(x, clef__onnx_int(x, "group", C));
    const char *last = clef__onnx_cut(x, all, 2, 1 - K, INT64_MAX, 1);
    keep_state(x, state, is_plain ? clef__onnx_unsqueeze(x, swap_axes(x, last), 1) : last, in->shape.dim[0]);
    return out;
}

/* ---- gated delta ----------------------------------------------------------------------------- */

/* Heads of `in` [B, T, Hk, D], each standing for the H / Hk of v that share it: [B, T, H, D]. */
static const char *for_all_heads(onnx_export *x, const char *name, const clef_value *in, const clef_value *v,
                                 int32_t is_tiled)
{
    const clef_dim *d = in->shape.dim, H = v->shape.dim[2], group = clef_n(H.n / d[2].n);
    if (group.n == 1)
        return name;
    const clef_dim wide[] = {d[0], d[1], is_tiled ? group : d[2], is_tiled ? d[2] : group, d[3]},
                   joined[] = {d[0], d[1], H, d[3]};
    name = ONNX(x, "Expand", clef__onnx_unsqueeze(x, name, is_tiled ? 2 : 3), clef__onnx_dims(x, wide, 5));
    return clef__onnx_reshape(x, name, &in->shape, joined, 4);
}

/* in / sqrt(|in|^2 + eps) for all heads. */
static const char *unit_heads(onnx_export *x, const clef_value *in, const clef_value *v,
                              const clef_gated_delta_opts *o)
{
    const char *name = clef__onnx_value(x, in);
    const char *sum = ONNX(x, "ReduceSum", ONNX(x, "Mul", name, name), ONNX_I64S(x, -1));
    const char *unit = ONNX(x, "Div", name, ONNX(x, "Sqrt", ONNX(x, "Add", sum, clef__onnx_f32(x, o->eps))));
    return for_all_heads(x, unit, in, v, o->tiled);
}

/* One token: S = decay S;  S += k beta (v - k^T S), of a scan k beta v;  y = q^T S. S [B, H, D, E]; q, k [B,
 * H, D]; v [B, H, E]; decay, beta [B, H]. */
static Onnx__Graph *delta_body(onnx_export *x, const clef_value *n)
{
    static const char *const parts[] = {"S", "q", "k", "v", "decay", "beta"};
    const clef_dim B = n->shape.dim[0], H = n->shape.dim[2], E = n->shape.dim[3], D = n->in[0]->shape.dim[3];
    const clef_shape shapes[] = {clef_shape_4(B, H, D, E), clef_shape_3(B, H, D), clef_shape_3(B, H, D),
                                 clef_shape_3(B, H, E),    clef_shape_2(B, H),    clef_shape_2(B, H)};
    Onnx__Graph *body = clef__onnx_alloc(x, sizeof *body);
    onnx_list nodes = {0}, inputs = {0}, outputs = {0}, *outer = x->nodes;
    const char *in[6];
    if (!body)
        return NULL;
    for (int i = 0; i < 6; i++) {
        in[i] = clef__onnx_text(x, "%s//%s", n->name, parts[i]);
        clef__onnx_push(x, &inputs, clef__onnx_info(x, in[i], ONNX_FLOAT, &shapes[i]));
    }
    x->nodes = &nodes;
    const char *S = ONNX(x, "Mul", in[0], ONNX(x, "Unsqueeze", in[4], ONNX_I64S(x, 2, 3)));
    const char *key = clef__onnx_unsqueeze(x, in[2], 2),
               *query = clef__onnx_unsqueeze(x, in[1], 2); /* [B, H, 1, D] */
    const char *off = clef__onnx_unsqueeze(x, in[3], 2);
    if (n->op == CLEF_OP_gated_delta)
        off = ONNX(x, "Sub", off, ONNX(x, "MatMul", key, S));
    off = ONNX(x, "Mul", off, ONNX(x, "Unsqueeze", in[5], ONNX_I64S(x, 2, 3)));
    S = ONNX(x, "Add", S, ONNX(x, "MatMul", clef__onnx_unsqueeze(x, in[2], 3), off));
    const char *y = ONNX(x, "Squeeze", ONNX(x, "MatMul", query, S), ONNX_I64S(x, 2));
    x->nodes = outer;
    clef__onnx_push(x, &outputs, clef__onnx_info(x, S, ONNX_FLOAT, &shapes[0]));
    clef__onnx_push(x, &outputs, clef__onnx_info(x, y, ONNX_FLOAT, &shapes[3]));
    onnx__graph__init(body);
    body->name = (char *)(uintptr_t)clef__onnx_text(x, "%s//step", n->name);
    body->node = (Onnx__Node **)nodes.items;
    body->n_node = nodes.n;
    body->input = (Onnx__ValueInfo **)inputs.items;
    body->n_input = inputs.n;
    body->output = (Onnx__ValueInfo **)outputs.items;
    body->n_output = outputs.n;
    return body;
}

/* Goes along the sequence; decay and beta are [B, T, H]. */
static const char *scan_tokens(onnx_export *x, const clef_value *n, const char *q, const char *k,
                               const char *decay, const char *beta)
{
    enum { V = 2, STATE = 7, POS = 8 };
    const clef_dim n_sequences = n->shape.dim[0];
    const char *state = begin_state(x, n->in[STATE], n->in[POS], n_sequences);
    Onnx__Graph *body = delta_body(x, n);
    char **outputs = clef__onnx_alloc(x, 2 * sizeof *outputs);
    const char *out = ONNX(x, "Scan", state, q, k, clef__onnx_value(x, n->in[V]), decay, beta);
    if (!outputs || x->status)
        return "";
    outputs[0] = (char *)(uintptr_t)clef__onnx_text(x, "%s.state", out);
    outputs[1] = (char *)(uintptr_t)out;
    x->last->output = outputs;
    x->last->n_output = 2;
    clef__onnx_graph(x, "body", body);
    clef__onnx_int(x, "num_scan_inputs", 5);
    ONNX_INTS(x, "scan_input_axes", 1, 1, 1, 1, 1);
    ONNX_INTS(x, "scan_output_axes", 1);
    keep_state(x, n->in[STATE], outputs[0], n_sequences);
    return out;
}

EMIT(gated_delta)
{
    enum { Q, K, V, A, B, RATES, BIAS };
    const clef_gated_delta_opts *o = (const void *)n->attr;
    const clef_value *const *in = (const clef_value *const *)n->in;
    const char *q = unit_heads(x, in[Q], in[V], o), *k = unit_heads(x, in[K], in[V], o);
    q = ONNX(x, "Div", q, ONNX(x, "Sqrt", clef__onnx_f32(x, (float)in[Q]->shape.dim[3].n)));
    const char *pace =
        ONNX(x, "Softplus", ONNX(x, "Add", clef__onnx_value(x, in[A]), clef__onnx_value(x, in[BIAS])));
    const char *decay = ONNX(x, "Exp", ONNX(x, "Mul", clef__onnx_value(x, in[RATES]), pace));
    return scan_tokens(x, n, q, k, decay, ONNX(x, "Sigmoid", clef__onnx_value(x, in[B])));
}

EMIT(selective_scan)
{
    enum { C, B, X, STEP, SKIP, RATES, BIAS };
    const clef_selective_scan_opts *o = (const void *)n->attr;
    const clef_value *const *in = (const clef_value *const *)n->in;
    if (in[STEP]->shape.rank == 4)
        return clef__onnx_fail(x, CLEF_E_UNSUPPORTED,
                               "ONNX: %s: a scan with a step for each element (Mamba 1) has no export",
                               n->name);
    const char *step =
        ONNX(x, "Softplus", ONNX(x, "Add", clef__onnx_value(x, in[STEP]), clef__onnx_value(x, in[BIAS])));
    if (o->min > 0)
        step = ONNX(x, "Max", step, clef__onnx_f32(x, o->min));
    if (o->max > 0)
        step = ONNX(x, "Min", step, clef__onnx_f32(x, o->max));
    const char *kept = clef__onnx_kept_tokens(x);
    if (kept) /* without a step, padding leaves no trace in the state */
        step = ONNX(x, "Mul", step, swap_axes(x, kept));
    const char *decay = ONNX(x, "Exp", ONNX(x, "Mul", clef__onnx_value(x, in[RATES]), step));
    const char *skip = clef__onnx_unsqueeze(x, clef__onnx_value(x, in[SKIP]), 1); /* [H, 1] */
    const char *out = scan_tokens(x, n, for_all_heads(x, clef__onnx_value(x, in[C]), in[C], in[X], 0),
                                  for_all_heads(x, clef__onnx_value(x, in[B]), in[B], in[X], 0), decay, step);
    return ONNX(x, "Add", out, ONNX(x, "Mul", clef__onnx_value(x, in[X]), skip));
}

/* ---- experts --------------------------------------------------------------------------------- */

EMIT(expert_matmul)
{
    const clef_expert_matmul_opts *o = (const void *)n->attr;
    const char *ids = clef__onnx_stored(x, n->in[2]);
    const char *w =
        ONNX(x, "Gather", clef__onnx_value(x, n->in[1]), ids); /* [B, T, k, N, K], or [.., K, N] */
    const char *in = clef__onnx_value(x, n->in[0]);
    if (n->in[0]->shape.rank == 3)
        in = clef__onnx_unsqueeze(x, in, 2);
    in = clef__onnx_unsqueeze(x, in, o->transpose_b ? 4 : 3);
    const char *out = o->transpose_b ? ONNX(x, "MatMul", w, in) : ONNX(x, "MatMul", in, w);
    out = ONNX(x, "Squeeze", out, ONNX_I64S(x, o->transpose_b ? 4 : 3));
    return n->in[3] ? ONNX(x, "Add", out, ONNX(x, "Gather", clef__onnx_value(x, n->in[3]), ids)) : out;
}

/* ONNX for products, softmax with its masks, RoPE and the KV cache. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "export/onnx/onnx.h"

static const char *swap_last(onnx_export *x, const char *in, int32_t rank)
{
    int64_t axes[CLEF_MAX_DIMS] = {0, 1, 2, 3};
    axes[rank - 1] = rank - 2;
    axes[rank - 2] = rank - 1;
    ONNX(x, "Transpose", in);
    return clef__onnx_ints(x, "perm", axes, rank);
}

/* a b with a [B, H, T, K] and b [B, Hk, K, N] by names; heads of a that share one of b are in an axis of
 * their own meanwhile. */
static const char *product(onnx_export *x, const char *a, const clef_shape *sa, const char *b,
                           const clef_shape *sb, clef_dim out)
{
    const int64_t h = sa->rank == 4 ? sa->dim[1].n : 1, hk = sb->rank == 4 ? sb->dim[1].n : 1;
    if (sa->rank != 4 || sb->rank != 4 || h == hk || hk == 1 || h == 1)
        return ONNX(x, "MatMul", a, b);
    const clef_dim split[] = {sa->dim[0], clef_n(hk), clef_n(h / hk), sa->dim[2], sa->dim[3]};
    const clef_shape grouped = {.rank = 4, .dim = {sa->dim[0], clef_n(hk), clef_n(h / hk), sa->dim[2]}};
    const char *y = ONNX(x, "MatMul", clef__onnx_reshape(x, a, sa, split, 5), clef__onnx_unsqueeze(x, b, 2));
    const clef_dim joined[] = {sa->dim[0], sa->dim[1], sa->dim[2], out};
    return clef__onnx_reshape(x, y, &grouped, joined, 4);
}

static const char *times(onnx_export *x, const char *in, float by)
{
    return by != 0 && by != 1 ? ONNX(x, "Mul", in, clef__onnx_f32(x, by)) : in;
}

EMIT(matmul)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *b = n->in[1];
    const char *second = clef__onnx_value(x, b);
    if (o->transpose_b)
        second = swap_last(x, second, b->shape.rank);
    const char *first = clef__onnx_value(x, n->in[0]);
    clef_shape of_first = n->in[0]->shape;
    if (o->transpose_a) {
        first = swap_last(x, first, of_first.rank);
        of_first.dim[of_first.rank - 1] = clef__dim_right(&n->in[0]->shape, 1);
        of_first.dim[of_first.rank - 2] = clef__dim_right(&n->in[0]->shape, 0);
    }
    const char *y = product(x, first, &of_first, second, &b->shape, clef__dim_right(&n->shape, 0));
    y = times(x, y, o->alpha);
    return n->in[2] ? ONNX(x, "Add", y, clef__onnx_value(x, n->in[2])) : y;
}

/* ---- softmax --------------------------------------------------------------------------------- */

typedef struct softmax_parts {
    const clef_value *mask, *pos, *sinks;
    float scale, softcap;
    int32_t causal, window, log;
    clef_shape shape; /* of the scores */
} softmax_parts;

static const char *both(onnx_export *x, const char *a, const char *b)
{
    return a && b ? ONNX(x, "And", a, b) : a ? a : b;
}

/* Which columns a row sees by its position, BOOL [T, S] or [B, 1, T, S]; NULL: all. */
static const char *seen(onnx_export *x, const softmax_parts *p)
{
    const clef_dim T = clef__dim_right(&p->shape, 1), S = clef__dim_right(&p->shape, 0);
    const char *key = clef__onnx_text(x, "//seen %d %d %s %" PRId64 "*%d %" PRId64 "*%d", p->causal,
                                      p->window, clef__onnx_stored(x, p->pos), T.n, T.symbol, S.n, S.symbol);
    const char *found = clef__onnx_shared(x, key), *keep = NULL;
    if ((!p->causal && p->window <= 0) || found)
        return found;
    const char *at = clef__onnx_rows(x, p->pos, T); /* [B, T], or [1, T] */
    at = p->pos ? ONNX(x, "Unsqueeze", at, ONNX_I64S(x, 1, 3)) : ONNX(x, "Transpose", at);
    const char *column = clef__onnx_range(x, S);
    if (p->causal)
        keep = ONNX(x, "LessOrEqual", column, at);
    if (p->window > 0) {
        const char *w = clef__onnx_i32(x, p->window);
        keep = both(x, keep, ONNX(x, "Greater", column, ONNX(x, "Sub", at, w)));
        keep = both(x, keep, ONNX(x, "Less", column, ONNX(x, "Add", at, w)));
    }
    if (p->window < 0) {
        const char *w = clef__onnx_i32(x, -p->window);
        if (x->mask) { /* the chunks of a text begin behind its padding */
            ONNX(x, "ArgMax", x->mask);
            const char *first = clef__onnx_cast(x, clef__onnx_int(x, "axis", -1), ONNX_INT32);
            first = ONNX(x, "Unsqueeze", first, ONNX_I64S(x, 1, 2));
            column = ONNX(x, "Sub", column, first);
            at = ONNX(x, "Sub", at, first);
        }
        keep = both(x, keep, ONNX(x, "Equal", ONNX(x, "Div", column, w), ONNX(x, "Div", at, w)));
    }
    return clef__onnx_share(x, key, keep);
}

/* Softmax over the columns and one more, which the sinks fill and which is dropped afterwards. */
static const char *with_sinks(onnx_export *x, const char *z, const softmax_parts *p)
{
    const clef_dim column[] = {p->shape.dim[0], p->shape.dim[1], p->shape.dim[2], clef_n(1)};
    const char *sinks = ONNX(x, "Reshape", clef__onnx_value(x, p->sinks), ONNX_I64S(x, 1, -1, 1, 1));
    ONNX(x, "Concat", z, ONNX(x, "Expand", sinks, clef__onnx_dims(x, column, 4)));
    ONNX(x, "Softmax", clef__onnx_int(x, "axis", 3));
    return clef__onnx_cut(x, clef__onnx_int(x, "axis", 3), 3, 0, -1, 1);
}

/* What is dropped gets the lowest float, so that a row that keeps nothing has no NaN, and its probability is
 * set to 0 afterwards. */
static const char *softmax(onnx_export *x, const char *z, const softmax_parts *p)
{
    const char *lowest = clef__onnx_f32(x, -FLT_MAX), *keep = seen(x, p);
    z = times(x, z, p->scale);
    if (p->softcap > 0)
        z = times(x, ONNX(x, "Tanh", ONNX(x, "Div", z, clef__onnx_f32(x, p->softcap))), p->softcap);
    if (p->mask && p->mask->dtype == CLEF_F32) {
        const char *mask = clef__onnx_stored(x, p->mask);
        keep = both(x, keep, ONNX(x, "Greater", mask, lowest));
        z = ONNX(x, "Add", z, mask);
    } else if (p->mask) {
        keep = both(x, keep, clef__onnx_cast(x, clef__onnx_stored(x, p->mask), ONNX_BOOL));
    }
    if (keep)
        z = ONNX(x, "Where", keep, z, lowest);
    if (p->sinks) {
        z = with_sinks(x, z, p);
    } else {
        ONNX(x, p->log ? "LogSoftmax" : "Softmax", z);
        z = clef__onnx_int(x, "axis", -1);
    }
    return keep ? ONNX(x, "Where", keep, z, clef__onnx_f32(x, p->log ? -INFINITY : 0)) : z;
}

EMIT(softmax)
{
    const clef_softmax_opts *o = (const void *)n->attr;
    const softmax_parts p = {.mask = n->in[1],
                             .pos = n->in[2],
                             .sinks = n->in[3],
                             .scale = o->scale,
                             .softcap = o->softcap,
                             .causal = o->causal,
                             .window = o->window,
                             .log = o->log,
                             .shape = n->in[0]->shape};
    return softmax(x, clef__onnx_value(x, n->in[0]), &p);
}

EMIT(attention)
{
    const clef_attention_opts *o = (const void *)n->attr;
    const clef_value *q = n->in[0], *k = n->in[1], *v = n->in[2];
    if (n->in[8])
        return clef__onnx_fail(x, CLEF_E_UNSUPPORTED, "ONNX: %s: attention of packed documents has no export",
                               n->name);
    const clef_shape scores =
        clef_shape_4(q->shape.dim[0], q->shape.dim[1], q->shape.dim[2], k->shape.dim[2]);
    const softmax_parts p = {.mask = n->in[3],
                             .pos = n->in[4],
                             .sinks = n->in[5],
                             .scale = o->scale,
                             .softcap = o->softcap,
                             .causal = o->causal,
                             .window = o->window,
                             .shape = scores};
    const char *kt = swap_last(x, clef__onnx_value(x, k), 4);
    const char *z = product(x, clef__onnx_value(x, q), &q->shape, kt, &k->shape, scores.dim[3]);
    ONNX(x, "Transpose",
         product(x, softmax(x, z, &p), &scores, clef__onnx_value(x, v), &v->shape, v->shape.dim[3]));
    return ONNX_INTS(x, "perm", 0, 2, 1, 3);
}

/* ---- RoPE ------------------------------------------------------------------------------------ */

/* `what` is Cos or Sin of the angles [B, T, 1, R / 2], times the scale. */
static const char *turn(onnx_export *x, const clef_value *n, const char *what)
{
    const clef_rope_opts *o = (const void *)n->attr;
    const clef_dim T = n->shape.dim[1];
    const char *freqs = clef__onnx_stored(x, n->in[1]);
    const char *key = clef__onnx_text(x, "//%s %s %s %" PRId64 "*%d %.9g", what, freqs,
                                      clef__onnx_stored(x, n->in[2]), T.n, T.symbol, (double)o->scale);
    const char *found = clef__onnx_shared(x, key);
    if (found)
        return found;
    const char *at = clef__onnx_cast(x, clef__onnx_positions(x, n->in[2], T), ONNX_FLOAT);
    const char *angle = ONNX(x, "Mul", ONNX(x, "Unsqueeze", at, ONNX_I64S(x, 2, 3)), freqs);
    return clef__onnx_share(x, key, times(x, ONNX(x, what, angle), o->scale));
}

EMIT(rope)
{
    const clef_rope_opts *o = (const void *)n->attr;
    const int64_t half = n->in[1]->shape.dim[0].n, R = 2 * half, D = n->shape.dim[3].n;
    const char *in = clef__onnx_value(x, n->in[0]), *cos_ = turn(x, n, "Cos"), *sin_ = turn(x, n, "Sin");
    const int is_split = o->pairing == CLEF_ROPE_HALVES; /* where pairs are read; else 2i and 2i + 1 */
    const char *a = is_split ? clef__onnx_cut(x, in, 3, 0, half, 1) : clef__onnx_cut(x, in, 3, 0, R, 2);
    const char *b = is_split ? clef__onnx_cut(x, in, 3, half, R, 1) : clef__onnx_cut(x, in, 3, 1, R, 2);
    const char *first = ONNX(x, "Sub", ONNX(x, "Mul", a, cos_), ONNX(x, "Mul", b, sin_));
    const char *second = ONNX(x, "Add", ONNX(x, "Mul", a, sin_), ONNX(x, "Mul", b, cos_));
    const char *rest = D > R ? clef__onnx_cut(x, in, 3, R, D, 1) : NULL; /* passes unchanged */
    if (o->pairing == CLEF_ROPE_INTERLEAVED) { /* pairs side by side: [.., R / 2, 2] as [.., R] */
        ONNX(x, "Concat", clef__onnx_unsqueeze(x, first, 4), clef__onnx_unsqueeze(x, second, 4));
        first = ONNX(x, "Reshape", clef__onnx_int(x, "axis", 4), ONNX_I64S(x, 0, 0, 0, R));
        if (!rest)
            return first;
        ONNX(x, "Concat", first, rest);
    } else if (rest) {
        ONNX(x, "Concat", first, second, rest);
    } else {
        ONNX(x, "Concat", first, second);
    }
    return clef__onnx_int(x, "axis", 3);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* I64 [B, H, T, 3]: the row of the cache that each row of x goes to. */
static const char *cache_rows(onnx_export *x, const clef_value *n)
{
    const clef_dim *d = n->in[1]->shape.dim;
    const char *key =
        clef__onnx_text(x, "//cells %s %" PRId64 "*%d %" PRId64 " %" PRId64 "*%d",
                        clef__onnx_stored(x, n->in[2]), d[0].n, d[0].symbol, d[1].n, d[2].n, d[2].symbol);
    const char *found = clef__onnx_shared(x, key);
    if (found)
        return found;
    const char *dims = clef__onnx_dims(x, d, 3);
    const char *b = ONNX(x, "Unsqueeze", clef__onnx_range(x, d[0]), ONNX_I64S(x, 1, 2));
    const char *h = ONNX(x, "Unsqueeze", clef__onnx_range(x, d[1]), ONNX_I64S(x, 0, 2));
    const char *t = ONNX(x, "Unsqueeze", clef__onnx_rows(x, n->in[2], d[2]), ONNX_I64S(x, 1));
    const char *all[] = {b, h, t};
    for (int i = 0; i < 3; i++)
        all[i] = clef__onnx_unsqueeze(x, ONNX(x, "Expand", clef__onnx_cast(x, all[i], ONNX_INT64), dims), 3);
    ONNX(x, "Concat", all[0], all[1], all[2]);
    return clef__onnx_share(x, key, clef__onnx_int(x, "axis", 3));
}

EMIT(cache_write)
{
    const char *in = clef__onnx_value(x, n->in[1]);
    if (n->dtype != CLEF_F32)
        in = clef__onnx_cast(x, in, clef__onnx_type(n->dtype));
    if (x->form == CLEF_ONNX_NO_CACHE)
        return in;
    if (x->form == CLEF_ONNX_PAST) {
        ONNX(x, "Concat", clef__onnx_stored(x, n->in[0]), in);
        return clef__onnx_int(x, "axis", 2);
    }
    return ONNX(x, "ScatterND", clef__onnx_stored(x, n->in[0]), cache_rows(x, n), in);
}

/* The first rows come in their new order, the sequences and rows behind them stay. */
EMIT(cache_reorder)
{
    const clef_cache_reorder_opts *o = (const void *)n->attr;
    const char *cache = clef__onnx_stored(x, n->in[0]), *zero = ONNX_I64S(x, 0), *two = ONNX_I64S(x, 2);
    const char *end = ONNX_I64S(x, INT64_MAX), *rows = o->rows.n ? clef__onnx_dim(x, o->rows) : end;
    const char *first = ONNX(x, "Slice", cache, zero, rows, two),
               *B = clef__onnx_dim(x, n->in[1]->shape.dim[0]);
    const char *moved = ONNX(x, "Gather", first, clef__onnx_stored(x, n->in[1]));
    ONNX(x, "Concat", moved, ONNX(x, "Slice", first, B, end, zero));
    moved = clef__onnx_int(x, "axis", 0);
    if (!o->rows.n)
        return moved;
    ONNX(x, "Concat", moved, ONNX(x, "Slice", cache, rows, end, two));
    return clef__onnx_int(x, "axis", 2);
}

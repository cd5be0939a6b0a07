/* rope: rotary position embedding. */
#include <math.h>
#include <string.h>

#include "graph/grad/gradient.h"
#include "graph/lower/attention/attention.h"
#include "graph/op/ways.h"

const char *const clef__rope_pairings[] = {"halves", "interleaved", "interleaved_to_halves", NULL};

static const clef_attr_def rope_attrs[] = {
    {"pairing", CLEF_ATTR_ENUM, offsetof(clef_rope_opts, pairing), clef__rope_pairings},
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef_rope_opts, scale), NULL},
    {"inverse", CLEF_ATTR_INT, offsetof(clef_rope_opts, inverse), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_rope(clef_graph *g, clef_value *x, clef_value *freqs, clef_value *pos,
                      const clef_rope_opts *opts)
{
    return clef__node(g, CLEF_OP_rope, (clef_value *[]){x, freqs, pos}, 3, opts);
}

static clef_status rope_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *freqs = n->in[1], *pos = n->in[2];
    char a[96], b[96];
    if (x->shape.rank != 4)
        return clef__fail(err, CLEF_E_SHAPE, "x %s, expected [B, T, H, D]",
                          clef__shape_text(n->graph, &x->shape, a));
    if (freqs->shape.rank != 1 || freqs->shape.dim[0].symbol || x->shape.dim[3].symbol ||
        freqs->shape.dim[0].n > x->shape.dim[3].n / 2)
        return clef__fail(err, CLEF_E_SHAPE, "freqs %s, expected at most half the last dim of x %s",
                          clef__shape_text(n->graph, &freqs->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    if (pos && (pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], x->shape.dim[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of x %s",
                          clef__shape_text(n->graph, &pos->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    const clef_rope_pairing pairing = ((const clef_rope_opts *)(const void *)n->attr)->pairing;
    if ((uint32_t)pairing > CLEF_ROPE_INTERLEAVED_TO_HALVES)
        return clef__fail(err, CLEF_E_ARG, "expected a clef_rope_pairing, got %d", (int)pairing);
    return clef__infer_same(n, err);
}

/* If pairs move to other places, a pair would be overwritten before it is read. */
static int stays_in_place(const clef_value *n)
{
    return ((const clef_rope_opts *)(const void *)n->attr)->pairing != CLEF_ROPE_INTERLEAVED_TO_HALVES;
}

/* The angle is a product in f32, as in the training of the models. At position 100000 its rounding is
 * visible. */
void clef__ref_turn(double *x, const double *freqs, int64_t half, double position, clef_rope_pairing pairing,
                    double scale)
{
    const int is_interleaved = pairing == CLEF_ROPE_INTERLEAVED;
    for (int64_t i = 0; i < half && pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES; i++) { /* x[2i] goes to i */
        const double moved = x[2 * i];
        memmove(x + i + 1, x + i, (size_t)i * sizeof *x);
        x[i] = moved;
    }
    for (int64_t i = 0; i < half; i++) {
        const int64_t i0 = is_interleaved ? 2 * i : i, i1 = is_interleaved ? 2 * i + 1 : i + half;
        const double angle = (double)((float)position * (float)freqs[i]), c = cos(angle) * scale,
                     s = sin(angle) * scale;
        const double re = x[i0], im = x[i1];
        x[i0] = re * c - im * s;
        x[i1] = im * c + re * s;
    }
}

/* The inverse of clef__ref_turn(), times the square of the scale. */
static void turn_back(double *x, const double *freqs, int64_t half, double position, const clef_rope_opts *o)
{
    double from[2 * CLEF_MAX_HEAD];
    const double scale = o->scale != 0 ? (double)o->scale : 1;
    const int reads_halves = o->pairing != CLEF_ROPE_INTERLEAVED,
              writes_halves = o->pairing == CLEF_ROPE_HALVES;
    memcpy(from, x, (size_t)(2 * half) * sizeof *from);
    for (int64_t i = 0; i < half; i++) {
        const double angle = (double)((float)position * (float)freqs[i]), c = cos(angle) * scale,
                     s = sin(angle) * scale;
        const double re = from[reads_halves ? i : 2 * i], im = from[reads_halves ? i + half : 2 * i + 1];
        x[writes_halves ? i : 2 * i] = re * c + im * s;
        x[writes_halves ? i + half : 2 * i + 1] = im * c - re * s;
    }
}

static void rope_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_rope_opts *o = (const void *)n->attr;
    const int64_t T = out->n[1], H = out->n[2], D = out->n[3];
    for (int64_t r = 0; r < out->n[0] * T * H; r++) {
        const double at = (double)(r / H % T) + (in[2].x ? in[2].x[r / H / T] : 0);
        memcpy(out->x + r * D, in[0].x + r * D, (size_t)D * sizeof *out->x);
        if (o->inverse) {
            turn_back(out->x + r * D, in[1].x, in[1].n[3], at, o);
            continue;
        }
        clef__ref_turn(out->x + r * D, in[1].x, in[1].n[3], at, o->pairing,
                       o->scale != 0 ? (double)o->scale : 1);
    }
}

static void rope_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef_rope_opts back = *(const clef_rope_opts *)(const void *)n->attr;
    back.inverse = !back.inverse;
    clef__add_gradient(gr, n->in[0], clef_rope(n->graph, d, n->in[1], n->in[2], &back));
}

/* .defs of the kernel: the places that pairs are read from and written to, and the direction. */
static int32_t kernel_pairing(clef_rope_pairing pairing, int inverse)
{
    enum { FROM_HALVES = 3 };
    return inverse && pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES ? FROM_HALVES : (int32_t)pairing;
}

clef_status clef__rope_launch(clef_lowering *lo, rope_args args, const clef_value *out, const clef_value *x,
                              const clef_value *freqs, const clef_value *pos, clef_rope_pairing pairing,
                              int inverse, clef_error *err)
{
    const uint32_t wg = clef__fit_local(lo, args.n[3] / 2);
    args.heads = wg == 1 ? args.n[2] : 1; /* a CPU computes the sines once a token */
    return clef__launch(lo,
                        &(clef_launch){
                            .source = "rope",
                            .kernel = "rope",
                            .defs = {{"WG", (int32_t)wg},
                                     {"PAIRING", kernel_pairing(pairing, inverse)},
                                     {"POS", pos != NULL},
                                     {"INVERSE", inverse != 0}},
                            .args = &args,
                            .args_bytes = sizeof args,
                            .bufs = {out, x, freqs, pos},
                            .n_bufs = 4,
                            .groups = {args.n[0] * args.n[1] * (args.n[2] / args.heads)},
                            .local = {wg},
                        },
                        err);
}

static clef_status rope_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_rope_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *freqs = n->in[1], *pos = n->in[2];
    rope_args args = {.x = clef__view(lo, x),
                      .freqs = clef__view(lo, freqs).offset,
                      .pos = clef__view(lo, pos).offset,
                      .half_n = clef__n(lo, freqs, 0),
                      .scale = o->scale != 0 ? o->scale : 1};
    clef__n4(lo, x, args.n);
    return clef__rope_launch(lo, args, n, x, freqs, pos, o->pairing, o->inverse, err);
}

const clef_op_def clef__op_rope = {
    .name = "rope",
    .formula = "out = x with pairs of dims turned by position freqs[i]",
    .n_min = 2,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_DENSE,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = rope_attrs,
    .attr_bytes = sizeof(clef_rope_opts),
    .infer = rope_infer,
    .way = clef__way_rope,
    .ref = rope_ref,
    .flops = 3,
    .lower = rope_lower,
    .grad = rope_rule,
    .fixed = 1 << 1,
    .in_place = 1,
    .in_place_if = stays_in_place,
    .tol = 1e-6f, /* sin and cos to 4 ulp (OpenCL 1.2, 7.4), two products and a sum, of 6e-8 */
};

/* panel_matmul: the product with a packed weight. A norm and rounding to 8 bits may precede it; an activation
 * and a residual may follow it. */
#include <math.h>
#include <stdlib.h>

#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"
#include "graph/shrink.h"

#define NAME_OF(name) #name,
static const char *const activation_names[] = {"f32", "int8", "half", "by_device", NULL};
static const char *const norm_names[] = {PANEL_NORMS(NAME_OF) NULL};
static const char *const act_names[] = {PANEL_ACTS(NAME_OF) NULL};

static const clef_attr_def panel_attrs[] = {
    {"n", CLEF_ATTR_INT, offsetof(clef_panel_matmul_opts, n), NULL},
    {"k", CLEF_ATTR_INT, offsetof(clef_panel_matmul_opts, k), NULL},
    {"dtype", CLEF_ATTR_DTYPE, offsetof(clef_panel_matmul_opts, dtype), NULL},
    {"alpha", CLEF_ATTR_FLOAT, offsetof(clef_panel_matmul_opts, alpha), NULL},
    {"activations", CLEF_ATTR_ENUM, offsetof(clef_panel_matmul_opts, activations), activation_names},
    {"norm", CLEF_ATTR_ENUM, offsetof(clef_panel_matmul_opts, norm), norm_names},
    {"eps", CLEF_ATTR_FLOAT, offsetof(clef_panel_matmul_opts, eps), NULL},
    {"act", CLEF_ATTR_ENUM, offsetof(clef_panel_matmul_opts, act), act_names},
    {"batch_invariant", CLEF_ATTR_INT, offsetof(clef_panel_matmul_opts, batch_invariant), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__panel_matmul(clef_graph *g, clef_value *x, clef_value *packed,
                               const clef_panel_inputs *more, const clef_panel_matmul_opts *opts)
{
    static const clef_panel_inputs none;
    if (!more)
        more = &none;
    return clef__node(g, CLEF_OP_panel_matmul,
                      (clef_value *[PANEL_INPUTS]){x, packed, more->bias, more->norm_weight, more->norm_bias,
                                                   more->residual},
                      PANEL_INPUTS, opts);
}

static clef_status options_fit(const clef_panel_matmul_opts *o, clef_error *err)
{
    const int norm_known = o->norm >= 0 && o->norm <= CLEF_PANEL_LAYER,
              act_known = o->act >= 0 && o->act <= CLEF_PANEL_RELU;
    if (o->n < 1 || o->k < 1 || (uint32_t)o->dtype >= CLEF_N_DTYPES ||
        !clef__panel_has((clef_dtype)o->dtype, o->k) || !norm_known || !act_known)
        return clef__fail(err, CLEF_E_ARG,
                          "n %d, k %d, dtype %d, norm %d, act %d: expected a matrix of a dtype with panels",
                          o->n, o->k, o->dtype, o->norm, o->act);
    if (o->activations < 0 || o->activations > CLEF_PANEL_BY_DEVICE)
        return clef__fail(err, CLEF_E_ARG, "activations %d: expected 0 to %d", o->activations,
                          CLEF_PANEL_BY_DEVICE);
    const int blocks = clef_dtype_block_elems((clef_dtype)o->dtype) > 1,
              takes_halves = blocks || o->dtype == CLEF_F16 || o->dtype == CLEF_BF16;
    if (o->activations != CLEF_PANEL_F32 && ((clef__is_int8(o) && !blocks) || !takes_halves || o->k % 32))
        return clef__fail(err, CLEF_E_ARG,
                          "activations=%s with %s of %d columns: expected a format of blocks (half: or f16, "
                          "bf16), and whole blocks of 32",
                          activation_names[o->activations], clef_dtype_name((clef_dtype)o->dtype), o->k);
    return CLEF_OK;
}

/* Fails if v is given and is not [wanted]. */
static clef_status is_row(const clef_value *v, const char *what, int64_t wanted, clef_error *err)
{
    char text[96];
    if (!v || (v->shape.rank == 1 && clef__dim_equal(v->shape.dim[0], clef_n(wanted))))
        return CLEF_OK;
    return clef__fail(err, CLEF_E_SHAPE, "%s %s, expected [%lld]", what,
                      clef__shape_text(v->graph, &v->shape, text), (long long)wanted);
}

static clef_status panel_infer(clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[PANEL_X], *w = n->in[PANEL_PACKED], *residual = n->in[PANEL_RESIDUAL];
    char text[2][96];
    clef_status s = options_fit(o, err);
    if (s)
        return s;
    if (w->shape.rank != 1 || w->dtype != CLEF_I8 || w->shape.dim[0].symbol ||
        w->shape.dim[0].n != clef__panel_bytes((clef_dtype)o->dtype, clef__panel_rows(o), o->k))
        return clef__fail(err, CLEF_E_SHAPE, "packed weight %s is not of n %d, k %d, act %s and %s",
                          clef__shape_text(n->graph, &w->shape, text[0]), o->n, o->k, act_names[o->act],
                          clef_dtype_name((clef_dtype)o->dtype));
    if (!x->shape.rank || !clef__dim_equal(x->shape.dim[x->shape.rank - 1], clef_n(o->k)))
        return clef__fail(err, CLEF_E_SHAPE, "x %s: expected rows of %d",
                          clef__shape_text(n->graph, &x->shape, text[0]), o->k);
    s = is_row(n->in[PANEL_BIAS], "bias", o->act == CLEF_PANEL_SWIGLU ? 2 * (int64_t)o->n : o->n, err);
    if (!s)
        s = is_row(n->in[PANEL_NORM_WEIGHT], "norm weight", o->k, err);
    if (!s)
        s = is_row(n->in[PANEL_NORM_BIAS], "norm bias", o->k, err);
    if (!s && !o->norm && (n->in[PANEL_NORM_WEIGHT] || n->in[PANEL_NORM_BIAS]))
        s = clef__fail(err, CLEF_E_ARG, "a norm's weight or bias without norm=");
    if (s)
        return s;
    n->dtype = CLEF_F32;
    n->shape = x->shape;
    n->shape.dim[x->shape.rank - 1] = clef_n(o->n);
    if (residual && !clef__shape_equal(&residual->shape, &n->shape))
        return clef__fail(err, CLEF_E_SHAPE, "residual %s, expected %s",
                          clef__shape_text(n->graph, &residual->shape, text[0]),
                          clef__shape_text(n->graph, &n->shape, text[1]));
    return CLEF_OK;
}

/* ---- reference ------------------------------------------------------------------------------- */

static void norm_row(const clef_panel_matmul_opts *o, const double *x, const double *weight,
                     const double *bias, double *out)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < o->k && o->norm == CLEF_PANEL_LAYER; i++)
        mean += x[i] / o->k;
    for (int64_t i = 0; i < o->k; i++)
        square += (x[i] - mean) * (x[i] - mean) / o->k;
    for (int64_t i = 0; i < o->k; i++)
        out[i] = o->norm ? (x[i] - mean) / sqrt(square + (double)o->eps) * (weight ? weight[i] : 1) +
                               (bias ? bias[i] : 0)
                         : x[i];
}

void clef__panel_quantise_row(double *x, int64_t k)
{
    for (int64_t b = 0; b < k; b += 32) {
        float most = 0;
        for (int64_t i = b; i < b + 32; i++)
            most = fmaxf(most, fabsf((float)x[i]));
        const float d = most / 127.0f, inverse = d > 0 ? 1.0f / d : 0;
        for (int64_t i = b; i < b + 32; i++)
            x[i] = (double)d * (double)rintf((float)x[i] * inverse);
    }
}

static double apply(clef_panel_act act, double x)
{
    switch (act) {
    case CLEF_PANEL_GELU:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    case CLEF_PANEL_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case CLEF_PANEL_SILU:
    case CLEF_PANEL_SWIGLU:
        return x / (1 + exp(-x));
    case CLEF_PANEL_RELU:
        return x > 0 ? x : 0;
    default:
        return x;
    }
}

/* alpha x . row r of the packed weight + bias[at] */
static double product(const clef_panel_matmul_opts *o, const clef_ref_tensor *in, const double *x, int64_t r,
                      int64_t at)
{
    double sum = 0;
    for (int64_t k = 0; k < o->k; k++)
        sum += x[k] *
               clef__panel_element((clef_dtype)o->dtype, clef__panel_rows(o), o->k, in[PANEL_PACKED].x, r, k);
    return (o->alpha != 0 ? (double)o->alpha : 1) * sum + (in[PANEL_BIAS].x ? in[PANEL_BIAS].x[at] : 0);
}

static void panel_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const int64_t m = out->n[0] * out->n[1] * out->n[2];
    double *x = malloc((size_t)o->k * sizeof *x);
    for (int64_t row = 0; row < m; row++) {
        if (x)
            norm_row(o, in[PANEL_X].x + row * o->k, in[PANEL_NORM_WEIGHT].x, in[PANEL_NORM_BIAS].x, x);
        if (x && o->activations == CLEF_PANEL_INT8)
            clef__panel_quantise_row(x, o->k);
        for (int64_t r = 0; r < o->n; r++) {
            const int64_t at = row * o->n + r, gate = r / PANEL_ROWS * PANEL_PAD + r % PANEL_ROWS;
            double y = NAN; /* no memory */
            if (x && o->act == CLEF_PANEL_SWIGLU)
                y = apply(o->act, product(o, in, x, gate, r)) *
                    product(o, in, x, gate + PANEL_ROWS, o->n + r);
            else if (x)
                y = apply(o->act, product(o, in, x, r, r));
            out->x[at] = y + (in[PANEL_RESIDUAL].x ? in[PANEL_RESIDUAL].x[at] : 0);
        }
    }
    free(x);
}

static clef_cost panel_cost(const clef_value *n, const int64_t *symbols)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return clef__cost_elementwise(n, symbols, (o->act == CLEF_PANEL_SWIGLU ? 4.0 : 2.0) * o->k);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Each sum of 16 products is rounded by 2^-11 of it. Codes without a sign make such sums large; 8 bits make
 * more of them. */
#define HALF_TOL 4e-3f
#define BYTES_TOL 1e-2f /* x is rounded to 8 bits relative to the largest of a block, or to bf16 */

static clef_value *panel_shrink(clef__shrinker *s, const clef_value *n)
{
    clef_panel_matmul_opts o = *(const clef_panel_matmul_opts *)(const void *)n->attr;
    const clef_value *bias = n->in[PANEL_BIAS], *residual = n->in[PANEL_RESIDUAL];
    int32_t rows = 0;
    clef_value *in[PANEL_INPUTS] = {0};
    in[PANEL_PACKED] = clef__shrink_pack(s, n->in[PANEL_PACKED], &rows);
    if (!in[PANEL_PACKED])
        return NULL;
    o.n = o.act == CLEF_PANEL_SWIGLU ? rows / 2 : rows;
    in[PANEL_X] = clef__shrink_copy(s, n->in[PANEL_X]);
    in[PANEL_NORM_WEIGHT] = clef__shrink_copy(s, n->in[PANEL_NORM_WEIGHT]);
    in[PANEL_NORM_BIAS] = clef__shrink_copy(s, n->in[PANEL_NORM_BIAS]);
    if (bias)
        in[PANEL_BIAS] = clef__shrink_cut(s, bias, 0, rows);
    if (residual)
        in[PANEL_RESIDUAL] = clef__shrink_cut(s, residual, residual->shape.rank - 1, o.n);
    return clef__node(clef__shrink_graph(s), CLEF_OP_panel_matmul, in, PANEL_INPUTS, &o);
}

static float panel_tol(const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return o->activations == CLEF_PANEL_BY_DEVICE ||
                   (o->activations == CLEF_PANEL_HALF && o->dtype == CLEF_BF16)
               ? BYTES_TOL
           : o->activations == CLEF_PANEL_HALF ? HALF_TOL
                                               : 5e-6f; /* as for matmul and the norms; integers are exact */
}

const clef_op_def clef__op_panel_matmul = {
    .name = "panel_matmul",
    .formula = "out = act(alpha norm(x) W^T + bias) + residual, W packed; norm(x) as it is or in 8 bits",
    .n_min = 2,
    .n_max = PANEL_INPUTS,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_DENSE, CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_F32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = panel_attrs,
    .attr_bytes = sizeof(clef_panel_matmul_opts),
    .infer = panel_infer,
    .ref = panel_ref,
    .cost = panel_cost,
    .lower = clef__lower_variant,
    .shrink = panel_shrink,
    .tune = &clef__tune_panel_matmul,
    .in_place = 1 << PANEL_RESIDUAL,
    .tol_of = panel_tol,
    .tol = 5e-6f,
};

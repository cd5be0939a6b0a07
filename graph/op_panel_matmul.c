/* panel_matmul: the product with a packed weight, of f32 or quantised activations. */
#include <string.h>

#include "graph/panel.h"

static const clef_attr_def panel_attrs[] = {
    {"n", CLEF_ATTR_INT, offsetof(clef_panel_matmul_opts, n), NULL},
    {"k", CLEF_ATTR_INT, offsetof(clef_panel_matmul_opts, k), NULL},
    {"dtype", CLEF_ATTR_INT, offsetof(clef_panel_matmul_opts, dtype), NULL},
    {"alpha", CLEF_ATTR_FLOAT, offsetof(clef_panel_matmul_opts, alpha), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_panel_matmul(clef_graph *g, clef_value *x, clef_value *packed, clef_value *bias, const clef_panel_matmul_opts *opts)
{
    return clef__node(g, CLEF_OP_panel_matmul, (clef_value *[]){x, packed, bias}, 3, opts);
}

static int is_quantised(const clef_value *n)
{
    return n->in[0]->dtype == CLEF_I8;
}

static clef_status panel_infer(clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    char text[96];
    if (o->n < 1 || o->k < 1 || (uint32_t)o->dtype >= CLEF_N_DTYPES || !clef__panel_has((clef_dtype)o->dtype, o->k) || w->shape.rank != 1 ||
        w->dtype != CLEF_I8 || w->shape.dim[0].n != clef__panel_bytes((clef_dtype)o->dtype, o->n, o->k))
        return clef__fail(err, CLEF_E_SHAPE, "packed weight %s is not of n %d, k %d and dtype %d",
                          clef__shape_text(n->graph, &w->shape, text), o->n, o->k, o->dtype);
    const int floats = o->dtype == CLEF_F32 || o->dtype == CLEF_F16 || o->dtype == CLEF_BF16;
    const int64_t columns = is_quantised(n) ? (int64_t)o->k / 8 * 11 : o->k;
    if ((x->dtype != CLEF_F32 && (x->dtype != CLEF_I8 || floats)) || !x->shape.rank ||
        !clef__dim_equal(x->shape.dim[x->shape.rank - 1], clef_n(columns)))
        return clef__fail(err, CLEF_E_SHAPE, "x %s %s: wanted rows of %lld, f32%s", clef_dtype_name(x->dtype),
                          clef__shape_text(n->graph, &x->shape, text), (long long)columns, floats ? "" : " or quantised");
    if (bias && (bias->shape.rank != 1 || !clef__dim_equal(bias->shape.dim[0], clef_n(o->n))))
        return clef__fail(err, CLEF_E_SHAPE, "bias %s, wanted [%d]", clef__shape_text(n->graph, &bias->shape, text), o->n);
    n->dtype = CLEF_F32;
    n->shape = x->shape;
    n->shape.dim[x->shape.rank - 1] = clef_n(o->n);
    return CLEF_OK;
}

static double four_bytes(const double *x, int is_float)
{
    unsigned char raw[4];
    float f;
    int32_t i;
    for (int j = 0; j < 4; j++)
        raw[j] = (unsigned char)(int)x[j];
    memcpy(&f, raw, 4);
    memcpy(&i, raw, 4);
    return is_float ? (double)f : (double)i;
}

/* Element (row, col) of x, whatever its form. */
static double activation(const clef_value *n, const clef_ref_tensor *x, int64_t m, int64_t row, int64_t col)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    if (!is_quantised(n))
        return x->x[row * o->k + col];
    int64_t start, nt;
    clef__token_block(m, row, &start, &nt);
    const double *base = x->x + start * x->n[3], *scales = base + nt * o->k;
    const int64_t at = col / 32 * nt + row - start;
    return base[at * 32 + col % 32] * four_bytes(scales + at * 4, 1);
}

static void panel_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const int64_t m = in[0].n[0] * in[0].n[1] * in[0].n[2];
    for (int64_t row = 0; row < m; row++)
        for (int64_t r = 0; r < o->n; r++) {
            double sum = 0;
            for (int64_t k = 0; k < o->k; k++)
                sum += activation(n, &in[0], m, row, k) * clef__panel_element((clef_dtype)o->dtype, o->n, o->k, in[1].x, r, k);
            out->x[row * o->n + r] = (o->alpha != 0 ? (double)o->alpha : 1) * sum + (in[2].x ? in[2].x[r] : 0);
        }
}

static clef_cost panel_cost(const clef_value *n, const int64_t *symbols)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    clef_cost cost = clef__cost_elementwise(n, symbols, 2.0 * o->k);
    return cost;
}

/* A launch for each size of block that the tokens make: twelves (f32: eights) first, then one each of what is left. */
static clef_status panel_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    const int quantised = is_quantised(n);
    panel_args args = {.n = (args_uint)o->n,
                       .k = (args_uint)o->k,
                       .m = clef__rows(lo, n),
                       .x = clef__view(lo, x).offset,
                       .x_stride = (args_uint)o->k,
                       .bias = clef__view(lo, bias).offset,
                       .alpha = o->alpha != 0 ? o->alpha : 1};
    const uint32_t tiles = clef__ceil_div(args.n, PANEL_PAD) * (quantised ? PANEL_PAD / PANEL_ROWS : 1);
    const int floats = clef_dtype_block_elems((clef_dtype)o->dtype) == 1;
    const char *stem = floats ? "panel_f" : quantised ? "panel_q" : "panel_exact"; /* of the file and of the kernel in it */
    clef_status status = CLEF_OK;
    for (uint32_t size = quantised ? TOKEN_BLOCK : 8; size && !status && args.first < args.m; size = size == TOKEN_BLOCK ? 8 : size / 2) {
        const uint32_t blocks = (args.m - args.first) / size;
        if (!blocks)
            continue;
        status = clef__launch(lo,
                              &(clef_launch){.source = stem,
                                             .kernel = stem,
                                             .defs = {{"NT", (int32_t)size},
                                                      {"W_TYPE", o->dtype},
                                                      {"BIAS_TYPE", bias ? (int32_t)bias->dtype : DTYPE_NONE},
                                                      {floats ? NULL : "DOT", lo->caps->x86_vnni}},
                                             .args = &args,
                                             .args_bytes = sizeof args,
                                             .bufs = {n, x, w, bias},
                                             .n_bufs = 4,
                                             .groups = {blocks, tiles}},
                              err);
        args.first += blocks * size;
    }
    return status;
}

#define PANEL_CASES(dtype, number)                                                                                                         \
    {.graph = "symbol T <= 27\ninput x f32 [T, 96]\nweight w " dtype " [70, 96]\np = pack(w)\nweight b f32 [70]\n"                         \
              "y = panel_matmul(x, p, b) n=70 k=96 dtype=" number " alpha=0.5\noutput y\n"},                                               \
    {                                                                                                                                      \
        .graph = "symbol T <= 3\ninput x f32 [2, T, 512]\nweight w " dtype " [37, 512]\np = pack(w)\n"                                     \
                 "y = panel_matmul(x, p) n=37 k=512 dtype=" number "\noutput y\n"                                                          \
    }
#define QUANTISED_CASES(dtype, number)                                                                                                     \
    {.graph = "symbol T <= 27\ninput x f32 [T, 96]\nq = quantize(x)\nweight w " dtype " [70, 96]\np = pack(w)\nweight b f16 [70]\n"        \
              "y = panel_matmul(q, p, b) n=70 k=96 dtype=" number "\noutput y\n"},                                                         \
    {                                                                                                                                      \
        .graph = "symbol T <= 14\ninput x f32 [T, 512]\nq = quantize(x)\nweight w " dtype " [37, 512]\np = pack(w)\n"                      \
                 "y = panel_matmul(q, p) n=37 k=512 dtype=" number " alpha=-2\noutput y\n"                                                 \
    }

static const clef_op_case panel_cases[] = {
    PANEL_CASES("f32", "0"),
    PANEL_CASES("f16", "1"),
    PANEL_CASES("bf16", "2"),
    PANEL_CASES("q8_0", "5"),
    PANEL_CASES("q4_0", "6"),
    QUANTISED_CASES("q8_0", "5"),
    QUANTISED_CASES("q4_0", "6"),
    {.graph = "input x f32 [3, 33]\nweight w f32 [33, 40]\np = pack(w) in_out=1\ny = panel_matmul(x, p) n=40 k=33\noutput y\n"},
    {.graph = NULL},
};

const clef_op_def clef__op_panel_matmul = {
    .name = "panel_matmul",
    .formula = "out = alpha x W^T (+ bias), W packed; x f32 or quantised to 8 bits",
    .n_min = 2,
    .n_max = 3,
    .in = {CLEF_IN_DENSE, CLEF_IN_DENSE, CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = panel_attrs,
    .attr_bytes = sizeof(clef_panel_matmul_opts),
    .infer = panel_infer,
    .ref = panel_ref,
    .cost = panel_cost,
    .lower = panel_lower,
    .cases = panel_cases,
    .tol = 5e-6f, /* as matmul; the integer products are exact */
};

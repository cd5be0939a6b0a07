/* matmul by CLBlast's strided batched GEMM. Operands that are not f32 are first decoded to scratch memory.
 * The bias is written to the result before the product is added. */
#include "graph/lower/elementwise.h"
#include "graph/lower/variant.h"

enum { MIN_SIDE = 64 }; /* smallest side: below it, CLBlast's launches cost more than they save */

/* The product as calls over `outer` x `middle` pairs of one batch each. */
typedef struct gemm_batches {
    uint32_t n0, n1, batch;                /* calls: n0 x n1 */
    uint32_t a[2], b[2], c[2];             /* steps in elements from call to call, for each dim of the
                                              calls */
    uint32_t a_stride, b_stride, c_stride; /* within a call */
} gemm_batches;

static int is_decoded(const clef_value *operand)
{
    return operand->dtype != CLEF_F32;
}

/* Splits grouped heads: either a call for each head of b with its group as the batch, or a call for each
 * place in the group with b's heads as the batch. */
static gemm_batches split_batches(const matmul_args *p)
{
    const uint32_t mn = p->m * p->n, heads = p->n1 / p->group;
    const uint32_t ha = p->a_stride[1], hb = p->b_stride[1];
    gemm_batches s = {.n0 = p->n0, .a = {p->a_stride[0]}, .b = {p->b_stride[0]}, .c = {p->n1 * mn}};
    if (heads < p->group) {
        s.n1 = heads;
        s.batch = p->group;
        s.a[1] = p->group * ha;
        s.b[1] = hb;
        s.c[1] = p->group * mn;
        s.a_stride = ha;
        s.c_stride = mn;
    } else {
        s.n1 = p->group;
        s.batch = heads;
        s.a[1] = ha;
        s.c[1] = mn;
        s.a_stride = p->group * ha;
        s.b_stride = hb;
        s.c_stride = p->group * mn;
    }
    if (s.n1 == 1 && s.a[0] == s.batch * s.a_stride && s.b[0] == s.batch * s.b_stride &&
        s.c[0] == s.batch * s.c_stride) {
        s.batch *= s.n0;
        s.n0 = 1;
    }
    return s;
}

/* The leading dimension of a single row may be any number that is large enough. */
static uint32_t leading_dim(uint32_t stride, uint32_t rows, uint32_t width)
{
    return rows == 1 && stride < width ? width : stride;
}

static int clblast_expresses(const clef_lowering *lo, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const matmul_args p = clef__matmul_args(lo, n);
    const uint32_t a_rows = o->transpose_a ? p.k : p.m, a_width = o->transpose_a ? p.m : p.k;
    const uint32_t b_rows = o->transpose_b ? p.n : p.k, b_width = o->transpose_b ? p.k : p.n;
    if (leading_dim(p.a_stride[2], a_rows, a_width) < a_width ||
        leading_dim(p.b_stride[2], b_rows, b_width) < b_width)
        return 0;
    return !(is_decoded(n->in[0]) && p.n0 * p.n1 > 1) &&
           !(is_decoded(n->in[1]) && (p.b_stride[0] || p.b_stride[1]));
}

int clef__clblast_may_serve(const clef_caps *caps, clef_gemm gemm)
{
    return gemm == CLEF_GEMM_CLBLAST || (gemm == CLEF_GEMM_AUTO && caps->is_gpu);
}

static int clblast_fits(const clef_lowering *lo, const clef_value *n)
{
    return clef__clblast_may_serve(lo->caps, lo->gemm) && clblast_expresses(lo, n);
}

/* Used without a measurement only where it is known to be much faster: with f32 operands, or with two of 16
 * bits, as training has them. */
static int clblast_pays(const clef_lowering *lo, const clef_value *n)
{
    const matmul_args p = clef__matmul_args(lo, n);
    const int is_mixed = is_decoded(n->in[1]) && !is_decoded(n->in[0]);
    return lo->gemm == CLEF_GEMM_CLBLAST || !(is_mixed || p.m < MIN_SIDE || p.n < MIN_SIDE || p.k < MIN_SIDE);
}

/* A matrix in memory: rows that are `stride` elements apart. */
typedef struct matrix {
    uint32_t rows, width, offset, stride;
} matrix;

/* Decodes x to dense f32 in the scratch memory, at element `at`, and says where it is then. */
static clef_status decode(clef_lowering *lo, const clef_value *x, uint32_t at, uint64_t scratch_bytes,
                          matrix *place, clef_error *err)
{
    clef_elementwise e = {.what = "copy",
                          .out = CLEF__SCRATCH,
                          .x = x,
                          .n = {1, 1, place->rows, place->width},
                          .x_view = {.offset = place->offset, .stride = {0, 0, place->stride, 1}},
                          .scratch_bytes = scratch_bytes};
    e.out_view = clef__dense_view(e.n);
    e.out_view.offset = at;
    place->offset = at;
    place->stride = place->width;
    return clef__launch_elementwise(lo, &e, err);
}

/* Decodes the operands that are not f32, one after the other. */
static clef_status decode_operands(clef_lowering *lo, const clef_value *n, matrix *a, matrix *b,
                                   clef_error *err)
{
    const uint64_t n_a = is_decoded(n->in[0]) ? (uint64_t)a->rows * a->width : 0,
                   n_b = is_decoded(n->in[1]) ? (uint64_t)b->rows * b->width : 0,
                   n_bytes = (n_a + n_b) * sizeof(float);
    clef_status s = n_a ? decode(lo, n->in[0], 0, n_bytes, a, err) : CLEF_OK;
    return !s && n_b ? decode(lo, n->in[1], (uint32_t)n_a, n_bytes, b, err) : s;
}

static clef_status lay_bias(clef_lowering *lo, const clef_value *n, const matmul_args *p, clef_error *err)
{
    clef_elementwise e = {
        .what = "copy", .out = n, .x = n->in[2], .x_view = {.offset = p->bias, .stride = {0, 0, 0, 1}}};
    clef__n4(lo, n, e.n);
    e.out_view = clef__dense_view(e.n);
    return clef__launch_elementwise(lo, &e, err);
}

static clef_status clblast_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const matmul_args p = clef__matmul_args(lo, n);
    const gemm_batches s = split_batches(&p);
    matrix a = {o->transpose_a ? p.k : p.m, o->transpose_a ? p.m : p.k, p.a, p.a_stride[2]},
           b = {o->transpose_b ? p.n : p.k, o->transpose_b ? p.k : p.n, p.b, p.b_stride[2]};
    clef_status status = decode_operands(lo, n, &a, &b, err);
    if (!status && n->in[2])
        status = lay_bias(lo, n, &p, err);
    for (uint32_t i = 0; i < s.n0 * s.n1 && !status; i++) {
        const uint32_t i0 = i / s.n1, i1 = i % s.n1;
        const clef_gemm_call call = {.m = p.m,
                                     .n = p.n,
                                     .k = p.k,
                                     .batch = s.batch,
                                     .transpose_a = o->transpose_a != 0,
                                     .transpose_b = o->transpose_b != 0,
                                     .a_offset = a.offset + i0 * s.a[0] + i1 * s.a[1],
                                     .b_offset = b.offset + i0 * s.b[0] + i1 * s.b[1],
                                     .c_offset = i0 * s.c[0] + i1 * s.c[1],
                                     .a_ld = leading_dim(a.stride, a.rows, a.width),
                                     .b_ld = leading_dim(b.stride, b.rows, b.width),
                                     .c_ld = p.n,
                                     .a_stride = s.a_stride,
                                     .b_stride = s.b_stride,
                                     .c_stride = s.c_stride,
                                     .alpha = p.alpha,
                                     .beta = n->in[2] ? 1.0f : 0.0f};
        status = clef__launch(lo,
                              &(clef_launch){.call = CLEF_CALL_CLBLAST_GEMM,
                                             .source = "clblast",
                                             .kernel = "gemm",
                                             .args = &call,
                                             .args_bytes = sizeof call,
                                             .bufs = {n, is_decoded(n->in[0]) ? CLEF__SCRATCH : n->in[0],
                                                      is_decoded(n->in[1]) ? CLEF__SCRATCH : n->in[1]},
                                             .n_bufs = 3},
                              err);
    }
    return status;
}

const clef_variant clef__matmul_clblast = {
    .name = "clblast",
    .shape_text = "products without strange strides, on GPUs or with --gemm clblast",
    .fits = clblast_fits,
    .is_default = clblast_pays,
    .clblast = 1,
    .lower = clblast_lower};

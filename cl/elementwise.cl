/* out[i] = op(x[i], b[i]) over n0 x n1 x n2 rows of n3 columns. out, x and b have strides of their own; a
 * broadcast dim has stride 0. out may be x or b.
 * Launch: one group for each piece of `span` columns of a row; the pieces of a row are adjacent.
 *   -D WG      work-items in a group
 *   -D OP      index of the function in ELEMENT_OPS (args.h)
 *   -D X_TYPE  dtype of x. out has the same if OP is copy and x is I32 or I8; else out is F32
 *   -D B_TYPE  dtype of b, DTYPE_NONE (-1) for a function of one input */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(OP) || !defined(X_TYPE) || !defined(B_TYPE)
#  error "elementwise.cl needs WG, OP, X_TYPE and B_TYPE"
#endif

#define ENUMERATE(name) ELEMENT_##name,
enum { ELEMENT_OPS(ENUMERATE) };

#if B_TYPE < 0
typedef float b_elem;
#  define LOAD_B(i)   0.0f
#  define LOAD16_B(i) (float16)(0.0f)
#else
typedef ELEM(B_TYPE) b_elem;
#  define LOAD_B(i)   LOAD(B_TYPE, b, i)
#  define LOAD16_B(i) LOAD16(B_TYPE, b, i)
#endif

/* gelu_tanh: (1 + tanh u) / 2 is computed as 1 / (1 + exp(-2u)), which stays accurate where tanh u is near
 * -1. */
#define DEFINE_APPLY(name, T)                                                      \
    static T name(T x, T b, float p, float q)                                      \
    {                                                                              \
        switch (OP) {                                                              \
        case ELEMENT_gelu:                                                         \
            return 0.5f * x * (1.0f + erf(x * M_SQRT1_2_F));                       \
        case ELEMENT_gelu_tanh:                                                    \
            return x / (1.0f + exp(-1.5957691216f * (x + 0.044715f * x * x * x))); \
        case ELEMENT_silu:                                                         \
            return x / (1.0f + exp(-x));                                           \
        case ELEMENT_swiglu:                                                       \
            return x / (1.0f + exp(-x)) * b;                                       \
        case ELEMENT_clamped_swiglu:                                               \
            x = x > q ? (T)q : x; /* NaN stays */                                  \
            b = b > q ? (T)q : b < -q ? (T)-q : b;                                 \
            return x / (1.0f + exp(-p * x)) * (b + 1.0f);                          \
        case ELEMENT_sigmoid:                                                      \
            return 1.0f / (1.0f + exp(-x));                                        \
        case ELEMENT_relu:                                                         \
            return fmax(x, 0.0f);                                                  \
        case ELEMENT_tanh:                                                         \
            return tanh(x);                                                        \
        case ELEMENT_exp:                                                          \
            return exp(x);                                                         \
        case ELEMENT_log:                                                          \
            return log(x);                                                         \
        case ELEMENT_neg:                                                          \
            return -x;                                                             \
        case ELEMENT_sqrt:                                                         \
            return sqrt(x);                                                        \
        case ELEMENT_rsqrt:                                                        \
            return rsqrt(x);                                                       \
        case ELEMENT_square:                                                       \
            return x * x;                                                          \
        case ELEMENT_affine:                                                       \
            return p * x + q;                                                      \
        case ELEMENT_add:                                                          \
            return x + b;                                                          \
        case ELEMENT_sub:                                                          \
            return x - b;                                                          \
        case ELEMENT_mul:                                                          \
            return x * b;                                                          \
        case ELEMENT_div:                                                          \
            return x / b;                                                          \
        case ELEMENT_gelu_grad: { /* b (Phi(x) + x phi(x)) */                          \
            const T slope = 0.3989422804f * x * exp(-0.5f * x * x);                    \
            return b * (0.5f * (1.0f + erf(x * M_SQRT1_2_F)) + slope);                 \
        }                                                                              \
        case ELEMENT_gelu_tanh_grad: { /* s = (1 + tanh u) / 2; s' = 2 s (1 - s) u' */ \
            const T s = 1.0f / (1.0f + exp(-1.5957691216f * (x + 0.044715f * x * x * x))); \
            return b * (s + x * s * (1.0f - s) * (1.5957691216f + 0.2140644488f * x * x)); \
        }                                                                              \
        case ELEMENT_silu_grad: {                                                      \
            const T s = 1.0f / (1.0f + exp(-x));                                       \
            return b * (s + x * s * (1.0f - s));                                       \
        }                                                                              \
        case ELEMENT_relu_grad:                                                        \
            return x > 0.0f ? b : (T)0.0f;                                             \
        default: /* copy */                                                        \
            return x;                                                              \
        }                                                                          \
    }

/* Integers can only be copied. */
#if X_TYPE == DTYPE_I32 || X_TYPE == DTYPE_I8
#  define INTEGERS 1
typedef ELEM(X_TYPE) out_elem;
#else
#  define INTEGERS 0
typedef float out_elem;
#endif

DEFINE_APPLY(apply, float)
#if WG == 1
DEFINE_APPLY(apply16, float16)

/* Scalar functions may round otherwise than those of vectors, and which elements are behind the last vector
 * depends on the number of rows: so these take the vector's function too, unless it rounds exactly. */
static float apply_1(float x, float b, float p, float q)
{
    switch (OP) {
    case ELEMENT_relu:
    case ELEMENT_neg:
    case ELEMENT_square:
    case ELEMENT_affine:
    case ELEMENT_add:
    case ELEMENT_sub:
    case ELEMENT_mul:
    case ELEMENT_div:
    case ELEMENT_relu_grad:
    case ELEMENT_copy:
        return apply(x, b, p, q);
    default:
        return apply16((float16)x, (float16)b, p, q).s0;
    }
}
#else
#  define apply_1 apply
#endif

static size_t row_start(const view_args *v, uint i0, uint i1, uint i2)
{
    return v->offset + i0 * (size_t)v->stride[0] + i1 * (size_t)v->stride[1] + i2 * (size_t)v->stride[2];
}

GROUP_KERNEL
void elementwise(STAGE_GROUP const elementwise_args a, global out_elem *out, global const ELEM(X_TYPE) *x,
                 global const b_elem *b)
{
    const uint row = group_id(0) / a.pieces, piece = group_id(0) % a.pieces;
    const uint i2 = row % a.n[2], i1 = row / a.n[2] % a.n[1], i0 = row / a.n[2] / a.n[1];
    const uint first = piece * a.span, n = min(a.span, a.n[3] - first);
    const uint out_step = a.out.stride[3], x_step = a.x.stride[3], b_step = a.b.stride[3];
    const size_t x0 = row_start(&a.x, i0, i1, i2) + first * (size_t)x_step,
                 b0 = row_start(&a.b, i0, i1, i2) + first * (size_t)b_step;
    uint i = local_id(0);
    out += row_start(&a.out, i0, i1, i2) + first * (size_t)out_step;

#if WG == 1 && !INTEGERS
    if (out_step == 1 && x_step == 1 && b_step == 1) {
        for (; i + 16 <= n; i += 16)
            vstore16(apply16(LOAD16(X_TYPE, x, x0 + i), LOAD16_B(b0 + i), a.p, a.q), 0, out + i);
    } else if (out_step == 1 && x_step == 1 && b_step == 0) {
        const float16 same = LOAD_B(b0);
        for (; i + 16 <= n; i += 16)
            vstore16(apply16(LOAD16(X_TYPE, x, x0 + i), same, a.p, a.q), 0, out + i);
    }
#endif
    for (; i < n; i += WG)
#if INTEGERS
        out[i * (size_t)out_step] = x[x0 + i * (size_t)x_step];
#else
        out[i * (size_t)out_step] =
            apply_1(LOAD(X_TYPE, x, x0 + i * (size_t)x_step), LOAD_B(b0 + i * (size_t)b_step), a.p, a.q);
#endif
}

/* Instructions that compute each lane by itself. */
#include <math.h>
#include <string.h>

#include "lab/gpu/gcn/gcn.h"
#include "lab/gpu/run/bits.h"

typedef uint32_t U;
typedef int32_t I;
typedef float F;
typedef uint16_t US;
typedef int16_t SS;
typedef double H; /* so that a product and a sum are rounded once */
typedef uint64_t Q;

/* ---- types ----------------------------------------------------------------------------------- */

static inline U of_U(uint32_t x)
{
    return x;
}
static inline I of_I(uint32_t x)
{
    return (I)x;
}
static inline US of_US(uint32_t x)
{
    return (US)x;
}
static inline SS of_SS(uint32_t x)
{
    return (SS)(x & 0xFFFF);
}
static inline F of_F(uint32_t x)
{
    return gpu_float_of(x);
}
static inline H of_H(uint32_t x)
{
    return gpu_half_of((uint16_t)x);
}
static inline uint32_t to_U(U x)
{
    return x;
}
static inline uint32_t to_I(I x)
{
    return (U)x;
}
static inline uint32_t to_US(U x)
{
    return x & 0xFFFF;
}
static inline uint32_t to_SS(I x)
{
    return (U)x & 0xFFFF;
}
static inline uint32_t to_F(F x)
{
    return gpu_float_bits(x);
}
static inline uint32_t to_H(H x)
{
    return gpu_half_bits(x);
}

/* ---- what C has no operator for -------------------------------------------------------------- */

static inline I gcn_signed_24(U a)
{
    return (I)(a << 8) >> 8;
}

static inline U gcn_signed_field(U a, U from, U n)
{
    return n ? (U)((I)(a >> from << (32 - n)) >> (32 - n)) : 0;
}

/* A NaN loses; -0 is less than 0. */
static inline F gcn_max(F a, F b)
{
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

static inline F gcn_min(F a, F b)
{
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static inline F gcn_middle(F a, F b, F c)
{
    if (a != a || b != b || c != c)
        return gcn_min(gcn_min(a, b), c);
    return gcn_max(gcn_min(a, b), gcn_min(gcn_max(a, b), c));
}

/* Bytes 0 .. 3 are b's, 4 .. 7 a's. */
static inline U gcn_permute(U a, U b, U selector)
{
    const Q both = (Q)a << 32 | b;
    U out = 0;
    for (int i = 0; i < 4; i++) {
        const U which = selector >> 8 * i & 255;
        const U byte = which < 8     ? (U)(both >> 8 * which) & 255
                       : which < 12  ? (both >> (16 * (which - 8) + 15) & 1 ? 255u : 0u)
                       : which == 12 ? 0u
                                     : 255u;
        out |= byte << 8 * i;
    }
    return out;
}

static inline U gcn_dot(U a, U b, int signed_a, int signed_b)
{
    I sum = 0;
    for (int i = 0; i < 32; i += 8) {
        const I x = signed_a ? (int8_t)(a >> i & 255) : (I)(a >> i & 255);
        const I y = signed_b ? (int8_t)(b >> i & 255) : (I)(b >> i & 255);
        sum += x * y;
    }
    return (U)sum;
}

static inline F gcn_dot_halves(U a, U b, F c)
{
    return (F)(of_H(a) * of_H(b) + of_H(a >> 16) * of_H(b >> 16) + (double)c);
}

static inline U gcn_half_to_zero(F a)
{
    U bits = to_H((double)a);
    if (a == a && fabs(of_H(bits)) > fabs((double)a)) /* was rounded away from zero */
        bits--;
    return bits;
}

static inline F gcn_mantissa(F a)
{
    int e;
    return isfinite(a) ? frexpf(a, &e) : a;
}

static inline I gcn_exponent(F a)
{
    int e = 0;
    if (isfinite(a) && a != 0)
        (void)frexpf(a, &e);
    return e;
}

/* ---- division: scale, steps by Newton, fix ---------------------------------------------------- */

static inline int exponent_bits(F a)
{
    return (int)(to_F(a) >> 23 & 255);
}

static inline int is_subnormal(F a)
{
    return a != 0 && exponent_bits(a) == 0;
}

/* b is the divisor, c what is divided, a one of them, which is scaled so that no step overflows or loses
 * bits. *scaled: the result has to be scaled back. */
static F gcn_div_scale(F a, F b, F c, int *scaled)
{
    const int is_divisor = to_F(a) == to_F(b);
    *scaled = 0;
    if (b == 0 || c == 0)
        return NAN;
    if (exponent_bits(c) - exponent_bits(b) >= 96) {
        *scaled = 1;
        return is_divisor ? ldexpf(a, 64) : a;
    }
    if (is_subnormal(b))
        return ldexpf(a, 64);
    const int tiny_inverse = is_subnormal(1 / b), tiny_ratio = is_subnormal((F)((double)c / (double)b));
    if (tiny_inverse && tiny_ratio) {
        *scaled = 1;
        return is_divisor ? ldexpf(a, 64) : a;
    }
    if (tiny_inverse)
        return ldexpf(a, -64);
    if (tiny_ratio) {
        *scaled = 1;
        return is_divisor ? a : ldexpf(a, 64);
    }
    return exponent_bits(c) <= 23 ? ldexpf(a, 64) : a;
}

static F gcn_div_fixup(F a, F b, F c)
{
    const F sign = signbit(b) != signbit(c) ? -1.0f : 1.0f;
    if (c != c)
        return c;
    if (b != b)
        return b;
    if ((b == 0 && c == 0) || (isinf(b) && isinf(c)))
        return NAN;
    if (b == 0 || isinf(c))
        return sign * INFINITY;
    if (isinf(b) || c == 0)
        return sign * 0.0f;
    return copysignf(a, sign);
}

static void div_scale(gcn_wave *w, const gcn_insn *i)
{
    const uint32_t *a = gcn_read(w, i, 0, 0), *b = gcn_read(w, i, 1, 0), *c = gcn_read(w, i, 2, 0);
    uint32_t *d = gcn_result(w, i, 0, 0);
    uint64_t mask = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        int scaled;
        d[l] = to_F(gcn_div_scale(of_F(a[l]), of_F(b[l]), of_F(c[l]), &scaled));
        mask |= (uint64_t)scaled << l;
    }
    gcn_written(w, i);
    gcn_set_scalar(w, &i->d[1], mask & w->exec);
}

static void div_fmas(gcn_wave *w, const gcn_insn *i)
{
    const uint32_t *a = gcn_read(w, i, 0, 0), *b = gcn_read(w, i, 1, 0), *c = gcn_read(w, i, 2, 0);
    const uint64_t scaled = w->s[GCN_VCC] | (uint64_t)w->s[GCN_VCC + 1] << 32;
    uint32_t *d = gcn_result(w, i, 0, 0);
    for (uint32_t l = 0; l < w->lanes; l++) {
        const F x = fmaf(of_F(a[l]), of_F(b[l]), of_F(c[l]));
        d[l] = to_F(scaled >> l & 1 ? x * 0x1p32f : x);
    }
    gcn_written(w, i);
}

/* ---- other instructions with forms of their own ------------------------------------------------ */

static void select_lanes(gcn_wave *w, const gcn_insn *i)
{
    const uint32_t *a = gcn_read(w, i, 0, 0), *b = gcn_read(w, i, 1, 0);
    const uint64_t mask = gcn_scalar(w, &i->s[2]);
    uint32_t *d = gcn_result(w, i, 0, 0);
    for (uint32_t l = 0; l < w->lanes; l++)
        d[l] = mask >> l & 1 ? b[l] : a[l];
    gcn_written(w, i);
}

/* The product of two words, plus 64 bits; the carry goes to a mask. */
static void multiply_add_64(gcn_wave *w, const gcn_insn *i, int is_signed)
{
    const uint32_t *a = gcn_read(w, i, 0, 0), *b = gcn_read(w, i, 1, 0);
    const uint32_t *low = gcn_read(w, i, 2, 0), *high = gcn_read(w, i, 2, 1);
    uint64_t mask = 0, sums[GCN_LANES];
    for (uint32_t l = 0; l < w->lanes; l++) {
        const Q product = is_signed ? (Q)((int64_t)of_I(a[l]) * of_I(b[l])) : (Q)a[l] * b[l];
        sums[l] = product + (low[l] | (Q)high[l] << 32);
        mask |= (uint64_t)(sums[l] < product) << l;
    }
    uint32_t *d = gcn_result(w, i, 0, 0), *e = gcn_result(w, i, 0, 1);
    for (uint32_t l = 0; l < w->lanes; l++) {
        d[l] = (uint32_t)sums[l];
        e[l] = (uint32_t)(sums[l] >> 32);
    }
    gcn_written(w, i);
    gcn_set_scalar(w, &i->d[1], mask & w->exec);
}

static void mad_u64(gcn_wave *w, const gcn_insn *i)
{
    multiply_add_64(w, i, 0);
}

static void mad_i64(gcn_wave *w, const gcn_insn *i)
{
    multiply_add_64(w, i, 1);
}

/* Bits of the second operand: -NaN, NaN, -infinity, -normal, -subnormal, -0, 0, subnormal, normal, infinity.
 */
static void compare_class(gcn_wave *w, const gcn_insn *i)
{
    const uint32_t *a = gcn_read(w, i, 0, 0), *b = gcn_read(w, i, 1, 0);
    uint64_t mask = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        const F x = of_F(a[l]);
        const int size = x == 0 ? 0 : is_subnormal(x) ? 1 : isinf(x) ? 3 : 2; /* from 0 on */
        const int is_quiet = (a[l] >> 22 & 1) != 0, bit = x != x       ? is_quiet
                                                          : signbit(x) ? 5 - size
                                                                       : 6 + size;
        mask |= (uint64_t)(b[l] >> bit & 1) << l;
    }
    gcn_set_scalar(w, &i->d[0], mask & w->exec);
}

/* Each source is a float, or where op_sel_hi has its bit one of a register's halves. */
static void fma_mixed(gcn_wave *w, const gcn_insn *i, int is_half)
{
    const uint32_t *s[3];
    uint32_t *d = gcn_result(w, i, 0, 0);
    for (int k = 0; k < 3; k++)
        s[k] = gcn_read(w, i, k, 0);
    for (uint32_t l = 0; l < w->lanes; l++) {
        F x[3];
        for (int k = 0; k < 3; k++)
            x[k] = i->op_sel_hi >> k & 1 ? (F)of_H(s[k][l]) : of_F(s[k][l]);
        const F sum = fmaf(x[0], x[1], x[2]);
        d[l] = is_half ? to_H((H)sum) : to_F(sum);
    }
    gcn_written(w, i);
}

static void fma_mix(gcn_wave *w, const gcn_insn *i)
{
    fma_mixed(w, i, 0);
}

static void fma_mix_half(gcn_wave *w, const gcn_insn *i)
{
    fma_mixed(w, i, 1);
}

/* Word `word` of the result takes a word of each source by op_sel, or for the second by op_sel_hi. */
static uint32_t packed_word(const gcn_insn *i, const uint32_t *const s[2], int k, int word, uint32_t l)
{
    const uint32_t x = s[(word ? i->op_sel_hi : i->op_sel) >> k & 1][l];
    return x ^ (uint32_t)((word ? i->neg_hi : i->neg_lo) >> k & 1) << 31;
}

static void packed_floats(gcn_wave *w, const gcn_insn *i, int how)
{
    const uint32_t *s[3][2];
    uint32_t out[2][GCN_LANES];
    for (int k = 0; k < i->n_s; k++)
        for (int word = 0; word < 2; word++)
            s[k][word] = gcn_read(w, i, k, word);
    for (int word = 0; word < 2; word++)
        for (uint32_t l = 0; l < w->lanes; l++) {
            const F a = of_F(packed_word(i, s[0], 0, word, l)), b = of_F(packed_word(i, s[1], 1, word, l));
            const F x = how == '+'   ? a + b
                        : how == '*' ? a * b
                                     : fmaf(a, b, of_F(packed_word(i, s[2], 2, word, l)));
            out[word][l] = to_F(x);
        }
    for (int word = 0; word < 2; word++)
        memcpy(gcn_result(w, i, 0, word), out[word], w->lanes * sizeof **out);
    gcn_written(w, i);
}

static void packed_add(gcn_wave *w, const gcn_insn *i)
{
    packed_floats(w, i, '+');
}

static void packed_multiply(gcn_wave *w, const gcn_insn *i)
{
    packed_floats(w, i, '*');
}

static void packed_fma(gcn_wave *w, const gcn_insn *i)
{
    packed_floats(w, i, 'f');
}

/* The first word from the first source, the second from the second. */
static void packed_move(gcn_wave *w, const gcn_insn *i)
{
    uint32_t out[2][GCN_LANES];
    for (int k = 0; k < 2; k++)
        memcpy(out[k], gcn_read(w, i, k, i->op_sel >> k & 1), w->lanes * sizeof **out);
    for (int k = 0; k < 2; k++)
        memcpy(gcn_result(w, i, 0, k), out[k], w->lanes * sizeof **out);
    gcn_written(w, i);
}

/* ---- a function for each row of vector.def ---------------------------------------------------- */

#define NAMED_(line) act_##line
#define NAMED(line) NAMED_(line)
#define ACT static void NAMED(__LINE__)(gcn_wave * w, const gcn_insn *i)
#define LANES_FREE _Pragma("GCC ivdep") for (uint32_t l = 0; l < lanes; l++)

#define WORDS_U 1
#define WORDS_I 1
#define WORDS_F 1
#define WORDS_US 1
#define WORDS_SS 1
#define WORDS_H 1
#define WORDS_Q 2
/* As what a result is computed. */
typedef U AS_U, AS_US, AS_Q;
typedef I AS_I, AS_SS;
typedef F AS_F;
typedef H AS_H;
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define IS_Q(T) (JOINED(WORDS_, T) == 2)
#define of_Q(x) ((Q)(x))
/* Lanes of a source: one word, or the lower and upper ones. */
#define SOURCE(T, x, k)                                                                                      \
    const uint32_t *const x##_ = gcn_read(w, i, k, 0), *const x##_high =                                     \
                                                           IS_Q(T) ? gcn_read(w, i, k, 1) : x##_;            \
    (void)x##_high;
#define TAKEN(T, x) const T x = IS_Q(T) ? (T)(x##_[l] | (Q)x##_high[l] << 32) : of_##T(x##_[l])

#define RESULT(R, takes, expr)                                                                               \
    {                                                                                                        \
        const uint32_t lanes = w->lanes;                                                                     \
        uint32_t *const d = gcn_result(w, i, 0, 0), *const high = IS_Q(R) ? gcn_result(w, i, 0, 1) : d;      \
        if (IS_Q(R))                                                                                         \
            for (uint32_t l = 0; l < lanes; l++) {                                                           \
                takes;                                                                                       \
                const Q x = (Q)(expr);                                                                       \
                d[l] = (uint32_t)x;                                                                          \
                high[l] = (uint32_t)(x >> 32);                                                               \
            }                                                                                                \
        else                                                                                                 \
            LANES_FREE                                                                                       \
            {                                                                                                \
                takes;                                                                                       \
                d[l] = to_##R((AS_##R)(expr));                                                               \
            }                                                                                                \
        gcn_written(w, i);                                                                                   \
    }
#define to_Q(x) ((uint32_t)(x))

#define ONE(name, R, A, expr)                                                                                \
    ACT                                                                                                      \
    {                                                                                                        \
        SOURCE(A, a, 0)                                                                                      \
        RESULT(R, TAKEN(A, a), expr)                                                                         \
    }
#define TWO(name, R, A, B, expr)                                                                             \
    ACT                                                                                                      \
    {                                                                                                        \
        SOURCE(A, a, 0)                                                                                      \
        SOURCE(B, b, 1)                                                                                      \
        RESULT(R, TAKEN(A, a); TAKEN(B, b), expr)                                                            \
    }
#define THREE(name, R, A, B, C, expr)                                                                        \
    ACT                                                                                                      \
    {                                                                                                        \
        SOURCE(A, a, 0)                                                                                      \
        SOURCE(B, b, 1)                                                                                      \
        SOURCE(C, c, 2)                                                                                      \
        RESULT(R, TAKEN(A, a); TAKEN(B, b); TAKEN(C, c), expr)                                               \
    }
#define MORE(name, R, A, B, expr)                                                                            \
    ACT                                                                                                      \
    {                                                                                                        \
        const uint32_t *const c_ = gcn_lanes_of(w, i->d[0].at);                                              \
        SOURCE(A, a, 0)                                                                                      \
        SOURCE(B, b, 1)                                                                                      \
        RESULT(R, TAKEN(A, a); TAKEN(B, b); const R c = of_##R(c_[l]), expr)                                 \
    }
#define SUM(name, operands, expr, has_in)                                                                    \
    ACT                                                                                                      \
    {                                                                                                        \
        const uint64_t carried = (has_in) ? gcn_scalar(w, &i->s[2]) : 0;                                     \
        const uint32_t *a_ = gcn_read(w, i, 0, 0), *b_ = gcn_read(w, i, 1, 0);                               \
        uint32_t *d = gcn_result(w, i, 0, 0);                                                                \
        uint64_t out = 0;                                                                                    \
        for (uint32_t l = 0; l < w->lanes; l++) {                                                            \
            const U a = a_[l], b = b_[l];                                                                    \
            const Q in = carried >> l & 1, x = (expr);                                                       \
            (void)in;                                                                                        \
            d[l] = (uint32_t)x;                                                                              \
            out |= (x >> 32 & 1) << l;                                                                       \
        }                                                                                                    \
        gcn_written(w, i);                                                                                   \
        gcn_set_scalar(w, &i->d[1], out & w->exec);                                                          \
    }
/* v_cmpx has EXEC as its result. */
#define COMPARE(how, type, T, expr)                                                                          \
    static uint64_t bits_##how##_##type(gcn_wave *w, const gcn_insn *i)                                      \
    {                                                                                                        \
        SOURCE(T, a, 0)                                                                                      \
        SOURCE(T, b, 1)                                                                                      \
        uint64_t bits = 0;                                                                                   \
        for (uint32_t l = 0; l < w->lanes; l++) {                                                            \
            TAKEN(T, a);                                                                                     \
            TAKEN(T, b);                                                                                     \
            bits |= (uint64_t)(expr) << l;                                                                   \
        }                                                                                                    \
        return bits & w->exec;                                                                               \
    }                                                                                                        \
    static void cmp_##how##_##type(gcn_wave *w, const gcn_insn *i)                                           \
    {                                                                                                        \
        gcn_set_scalar(w, &i->d[0], bits_##how##_##type(w, i));                                              \
    }                                                                                                        \
    static void cmpx_##how##_##type(gcn_wave *w, const gcn_insn *i)                                          \
    {                                                                                                        \
        gcn_set_exec(w, bits_##how##_##type(w, i));                                                          \
    }
#define HALF_OF(T, x, k, half)                                                                               \
    of_##T((x[l] >> 16 * ((half ? i->op_sel_hi : i->op_sel) >> k & 1) & 0xFFFF) ^                            \
           (U)((half ? i->neg_hi : i->neg_lo) >> k & 1) << 15)
#define PACKED(name, T, n, expr)                                                                             \
    ACT                                                                                                      \
    {                                                                                                        \
        const uint32_t *a_ = gcn_read(w, i, 0, 0), *b_ = gcn_read(w, i, 1, 0),                               \
                       *c_ = (n) > 2 ? gcn_read(w, i, 2, 0) : a_;                                            \
        uint32_t *d = gcn_result(w, i, 0, 0);                                                                \
        for (uint32_t l = 0; l < w->lanes; l++) {                                                            \
            uint32_t out[2];                                                                                 \
            for (int half = 0; half < 2; half++) {                                                           \
                const T a = HALF_OF(T, a_, 0, half), b = HALF_OF(T, b_, 1, half),                            \
                        c = HALF_OF(T, c_, 2, half);                                                         \
                (void)c;                                                                                     \
                out[half] = to_##T((AS_##T)(expr));                                                          \
            }                                                                                                \
            d[l] = out[0] | out[1] << 16;                                                                    \
        }                                                                                                    \
        gcn_written(w, i);                                                                                   \
    }
#include "vector.def"
#undef ONE
#undef TWO
#undef THREE
#undef MORE
#undef SUM
#undef COMPARE
#undef PACKED

/* ---- the table ------------------------------------------------------------------------------- */

#define LETTER_U "w"
#define LETTER_I "w"
#define LETTER_F "f"
#define LETTER_US "h"
#define LETTER_SS "h"
#define LETTER_H "h"
#define LETTER_Q "q"
#define ROW(name, letters) {name, letters, NAMED(__LINE__), GCN_PLAIN},
#define ONE(name, R, A, expr) ROW(name, LETTER_##R ":" LETTER_##A)
#define TWO(name, R, A, B, expr) ROW(name, LETTER_##R ":" LETTER_##A LETTER_##B)
#define THREE(name, R, A, B, C, expr) ROW(name, LETTER_##R ":" LETTER_##A LETTER_##B LETTER_##C)
#define MORE(name, R, A, B, expr) ROW(name, LETTER_##R ":" LETTER_##A LETTER_##B)
#define SUM(name, operands, expr, has_in) ROW(name, operands)
#define COMPARE(how, type, T, expr)                                                                          \
    {"v_cmp_" #how "_" #type, "m:" LETTER_##T LETTER_##T, cmp_##how##_##type, GCN_PLAIN},                    \
        {"v_cmpx_" #how "_" #type, ":" LETTER_##T LETTER_##T, cmpx_##how##_##type, GCN_PLAIN},
#define PACKED(name, T, n, expr) ROW(name, (n) == 2 ? "p:pp" : "p:ppp")

const gcn_row gcn_vector_rows[] = {
#include "vector.def"
    {"v_cndmask_b32", "f:ffm", select_lanes, GCN_PLAIN},
    {"v_mad_u64_u32", "qm:wwq", mad_u64, GCN_PLAIN},
    {"v_mad_i64_i32", "qm:wwq", mad_i64, GCN_PLAIN},
    {"v_div_scale_f32", "fm:fff", div_scale, GCN_PLAIN},
    {"v_div_fmas_f32", "f:fff", div_fmas, GCN_PLAIN},
    {"v_cmp_class_f32", "m:fw", compare_class, GCN_PLAIN},
    {"v_fma_mix_f32", "f:fff", fma_mix, GCN_PLAIN},
    {"v_fma_mixlo_f16", "h:fff", fma_mix_half, GCN_PLAIN},
    {"v_fma_mixhi_f16", "h:fff", fma_mix_half, GCN_PLAIN},
    {"v_pk_add_f32", "q:qq", packed_add, GCN_PLAIN},
    {"v_pk_mul_f32", "q:qq", packed_multiply, GCN_PLAIN},
    {"v_pk_fma_f32", "q:qqq", packed_fma, GCN_PLAIN},
    {"v_pk_mov_b32", "q:qq", packed_move, GCN_PLAIN},
    {0}};

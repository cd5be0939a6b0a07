/* Instructions that compute each lane by itself. */
#include <math.h>
#include <string.h>

#include "lab/gpu/ptx/warp.h"
#include "lab/gpu/run/bits.h"

/* ---- what C has no operator for -------------------------------------------------------------- */

static inline uint32_t ptx_field(uint32_t a, uint32_t from, uint32_t n)
{
    const uint32_t rest = from < 32 ? a >> from : 0;
    return n < 32 ? rest & ((1u << n) - 1) : rest;
}

/* The field's first bit fills the rest. */
static inline uint32_t ptx_signed_field(uint32_t a, uint32_t from, uint32_t n)
{
    if (!n)
        return 0;
    const uint32_t last = from + n - 1 < 31 ? from + n - 1 : 31, field = from < 32 ? a >> from : 0,
                   bits = from < 32 ? last - from + 1 : 0;
    const uint32_t fill = a >> last & 1 ? ~0u : 0;
    return bits >= 32 ? a : (field & ((1u << bits) - 1)) | fill << bits;
}

static inline uint64_t ptx_field64(uint64_t a, uint32_t from, uint32_t n)
{
    const uint64_t rest = from < 64 ? a >> from : 0;
    return n < 64 ? rest & (((uint64_t)1 << n) - 1) : rest;
}

static inline uint32_t ptx_permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t which = selector >> 4 * i & 15, byte = (uint32_t)(both >> 8 * (which & 7)) & 255;
        out |= (which & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return out;
}

static inline uint32_t ptx_dot(uint32_t a, uint32_t b, uint32_t c)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (int32_t)(int8_t)(a >> i & 255) * (int8_t)(b >> i & 255);
    return c + (uint32_t)sum;
}

static inline uint32_t ptx_to_half(float a)
{
    return a != a ? 0x7FFF : gpu_half_bits((double)a);
}

static inline uint32_t ptx_to_bf16(float a)
{
    const uint32_t bits = gpu_float_bits(a);
    return a != a ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

/* ---- a function for each row of alu.def ------------------------------------------------------ */

typedef uint32_t W;
typedef uint64_t Q;
typedef float F;

#define NAMED_(line) act_##line
#define NAMED(line) NAMED_(line)
#define ACT static void NAMED(__LINE__)(ptx_warp * w, const ptx_insn *i)
/* In all lanes where none keeps its value, which is the usual case. */
#define IN_LANES(d, value)                                                                                   \
    if (!w->partly)                                                                                          \
        LANES_FREE d[l] = value;                                                                             \
    else                                                                                                     \
        LANES_FREE d[l] = w->on[l] ? value : d[l]

#define UNARY(name, LD, TD, LA, TA, expr)                                                                    \
    static inline LD NAMED_VALUE(__LINE__)(LA a_)                                                            \
    {                                                                                                        \
        const TA a = (TA)a_;                                                                                 \
        return (LD)(TD)(expr);                                                                               \
    }                                                                                                        \
    ACT                                                                                                      \
    {                                                                                                        \
        LD *d = AT(LD, 0);                                                                                   \
        const LA *a = AT(LA, 1);                                                                             \
        IN_LANES(d, NAMED_VALUE(__LINE__)(a[l]));                                                            \
    }
#define NAMED_VALUE_(line) value_##line
#define NAMED_VALUE(line) NAMED_VALUE_(line)
#define OF_TWO(LD, LA, TA, LB, TB, expr)                                                                     \
    static inline LD NAMED_VALUE(__LINE__)(LA a_, LB b_)                                                     \
    {                                                                                                        \
        const TA a = (TA)a_;                                                                                 \
        const TB b = (TB)b_;                                                                                 \
        return (LD)(expr);                                                                                   \
    }                                                                                                        \
    ACT                                                                                                      \
    {                                                                                                        \
        LD *d = AT(LD, 0);                                                                                   \
        const LA *a = AT(LA, 1);                                                                             \
        const LB *b = AT(LB, 2);                                                                             \
        IN_LANES(d, NAMED_VALUE(__LINE__)(a[l], b[l]));                                                      \
    }
#define OF_THREE(L, T, LB, TB, expr)                                                                         \
    static inline L NAMED_VALUE(__LINE__)(L a_, LB b_, LB c_)                                                \
    {                                                                                                        \
        const T a = (T)a_;                                                                                   \
        const TB b = (TB)b_, c = (TB)c_;                                                                     \
        return (L)(expr);                                                                                    \
    }                                                                                                        \
    ACT                                                                                                      \
    {                                                                                                        \
        L *d = AT(L, 0);                                                                                     \
        const L *a = AT(L, 1);                                                                               \
        const LB *b = AT(LB, 2), *c = AT(LB, 3);                                                             \
        IN_LANES(d, NAMED_VALUE(__LINE__)(a[l], b[l], c[l]));                                                \
    }
#define BINARY(name, L, T, expr) OF_TWO(L, L, T, L, T, expr)
#define SHIFT(name, L, T, expr) OF_TWO(L, L, T, W, W, expr)
#define WIDE(name, T, expr) OF_TWO(Q, W, T, W, T, expr)
#define WIDE16(name, T, expr) OF_TWO(W, W, T, W, T, expr)
#define PAIR(name, expr) OF_TWO(W, F, F, F, F, expr)
#define TERNARY(name, L, T, expr) OF_THREE(L, T, L, T, expr)
#define FIELD(name, L, T, expr) OF_THREE(L, T, W, W, expr)
#define SPLIT(name, letters, L, T, low, high)                                                                \
    ACT                                                                                                      \
    {                                                                                                        \
        W *d = AT(W, 0), *e = AT(W, 1);                                                                      \
        const L *a = AT(L, 2);                                                                               \
        LANES                                                                                                \
        {                                                                                                    \
            const T s = a[l];                                                                                \
            d[l] = !w->partly || w->on[l] ? (W)(low) : d[l];                                                 \
            e[l] = !w->partly || w->on[l] ? (W)(high) : e[l];                                                \
        }                                                                                                    \
    }
#define SELECT(name, L)                                                                                      \
    ACT                                                                                                      \
    {                                                                                                        \
        L *d = AT(L, 0);                                                                                     \
        const L *a = AT(L, 1), *b = AT(L, 2);                                                                \
        const uint32_t p = *AT(uint32_t, 3);                                                                 \
        IN_LANES(d, (p >> l & 1 ? a[l] : b[l]));                                                             \
    }
#define PREDICATE(name, letters, expr)                                                                       \
    ACT                                                                                                      \
    {                                                                                                        \
        const uint32_t a = *AT(uint32_t, 1), b = *AT(uint32_t, 2);                                           \
        uint32_t *d = AT(uint32_t, 0);                                                                       \
        (void)b;                                                                                             \
        *d = (*d & ~w->mask) | ((expr)&w->mask);                                                             \
    }
#define COMPARE(how, type, L, T, expr)                                                                       \
    static void setp_##how##_##type(ptx_warp *w, const ptx_insn *i)                                          \
    {                                                                                                        \
        const L *a_ = AT(L, 1), *b_ = AT(L, 2);                                                              \
        uint32_t *d = AT(uint32_t, 0), bits = 0;                                                             \
        LANES                                                                                                \
        {                                                                                                    \
            const T a = (T)a_[l], b = (T)b_[l];                                                              \
            bits |= (uint32_t)(expr) << l;                                                                   \
        }                                                                                                    \
        *d = (*d & ~w->mask) | (bits & w->mask);                                                             \
    }
#include "alu.def"
#undef UNARY
#undef BINARY
#undef SHIFT
#undef WIDE
#undef WIDE16
#undef PAIR
#undef TERNARY
#undef FIELD
#undef SPLIT
#undef SELECT
#undef PREDICATE
#undef COMPARE

/* ---- the table ------------------------------------------------------------------------------- */

#define LETTER_W "w"
#define LETTER_Q "q"
#define LETTER_F "w"
#define ROW(name, letters) {name, letters, NAMED(__LINE__), PTX_PLAIN},
#define UNARY(name, LD, TD, LA, TA, expr) ROW(name, LETTER_##LD LETTER_##LA)
#define BINARY(name, L, T, expr) ROW(name, LETTER_##L LETTER_##L LETTER_##L)
#define SHIFT(name, L, T, expr) ROW(name, LETTER_##L LETTER_##L "w")
#define FIELD(name, L, T, expr) ROW(name, LETTER_##L LETTER_##L "ww")
#define WIDE(name, T, expr) ROW(name, "qww")
#define WIDE16(name, T, expr) ROW(name, "www")
#define PAIR(name, expr) ROW(name, "www")
#define TERNARY(name, L, T, expr) ROW(name, LETTER_##L LETTER_##L LETTER_##L LETTER_##L)
#define SPLIT(name, letters, L, T, x, y) ROW(name, letters)
#define SELECT(name, L) ROW(name, LETTER_##L LETTER_##L LETTER_##L "p")
#define PREDICATE(name, letters, expr) ROW(name, letters)
#define COMPARE(how, type, L, T, expr)                                                                       \
    {"setp." #how "." #type, "p" LETTER_##L LETTER_##L, setp_##how##_##type, PTX_PLAIN},

const ptx_row ptx_alu_rows[] = {
#include "alu.def"
    {0}};

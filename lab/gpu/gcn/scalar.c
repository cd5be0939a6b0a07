/* Instructions on scalar registers. */
#include "lab/gpu/gcn/gcn.h"

static inline int64_t int_of(uint64_t a)
{
    return (int32_t)(uint32_t)a;
}

/* An immediate value has 16 bits. */
static inline uint64_t short_of(uint64_t a)
{
    return (uint64_t)(uint32_t)(int32_t)(int16_t)(a & 0xFFFF);
}

static inline int overflows(int64_t a)
{
    return a != (int32_t)a;
}

static inline uint64_t reversed(uint64_t a)
{
    uint64_t out = 0;
    for (int i = 0; i < 32; i++)
        out |= (a >> i & 1) << (31 - i);
    return out;
}

static inline uint64_t signed_field(uint64_t a, uint64_t from, uint64_t n)
{
    if (!n)
        return 0;
    const uint64_t bits = from + n >= 32 ? 32 - from : n;
    return (uint64_t)((int64_t)(a << (64 - from - bits)) >> (64 - bits));
}

/* ---- a function for each row of scalar.def ----------------------------------------------------- */

#define OF(k, letter)                                                                                        \
    (i->n_s > (k) ? ((letter) == 'q' ? gcn_scalar(w, &i->s[k]) : (uint32_t)gcn_scalar(w, &i->s[k])) : 0)
#define RESULT(x, letter) ((letter) == 'q' ? (x) : (uint32_t)(x))
#define BEGIN(name, letters, result)                                                                         \
    static void act_##name(gcn_wave *w, const gcn_insn *i)                                                   \
    {                                                                                                        \
        const uint64_t a = OF(0, (letters)[(result) ? 2 : 0]), b = OF(1, (letters)[(result) ? 3 : 1]);       \
        const uint64_t carry = w->scc;                                                                       \
        (void)b, (void)carry;
#define PLAIN(name, letters, expr)                                                                           \
    BEGIN(name, letters, 1)                                                                                  \
    const uint64_t old = w->s[i->d[0].at];                                                                   \
    (void)old, (void)a;                                                                                      \
    gcn_set_scalar(w, &i->d[0], (expr));                                                                     \
    }
#define TESTED(name, letters, expr)                                                                          \
    BEGIN(name, letters, 1)                                                                                  \
    const uint64_t d = RESULT(expr, (letters)[0]);                                                           \
    gcn_set_scalar(w, &i->d[0], d);                                                                          \
    w->scc = d != 0;                                                                                         \
    }
#define FLAGGED(name, letters, expr, flag)                                                                   \
    BEGIN(name, letters, 1)                                                                                  \
    const uint64_t old = w->s[i->d[0].at], d = (expr);                                                       \
    (void)old;                                                                                               \
    w->scc = (flag) != 0;                                                                                    \
    gcn_set_scalar(w, &i->d[0], d);                                                                          \
    }
#define TEST(name, letters, flag)                                                                            \
    BEGIN(name, letters, 0)                                                                                  \
    w->scc = (flag) != 0;                                                                                    \
    }
#define SAVED(name, letters, expr)                                                                           \
    BEGIN(name, letters, 1)                                                                                  \
    const uint64_t exec = gcn_exec(w), d = RESULT(expr, (letters)[0]);                                       \
    gcn_set_scalar(w, &i->d[0], exec);                                                                       \
    gcn_set_exec(w, d);                                                                                      \
    w->scc = d != 0;                                                                                         \
    }
#include "scalar.def"
#undef PLAIN
#undef TESTED
#undef FLAGGED
#undef TEST
#undef SAVED

/* What follows adds the distance of a symbol: here it is the symbol's address. */
static void get_pc(gcn_wave *w, const gcn_insn *i)
{
    gcn_set_scalar(w, &i->d[0], 0);
}

static void move_if(gcn_wave *w, const gcn_insn *i)
{
    if (w->scc)
        gcn_set_scalar(w, &i->d[0], gcn_scalar(w, &i->s[0]));
}

#define PLAIN(name, letters, expr) {#name, letters, act_##name, GCN_PLAIN},
#define TESTED(name, letters, expr) {#name, letters, act_##name, GCN_PLAIN},
#define FLAGGED(name, letters, expr, flag) {#name, letters, act_##name, GCN_PLAIN},
#define TEST(name, letters, flag) {#name, ":" letters, act_##name, GCN_PLAIN},
#define SAVED(name, letters, expr) {#name, letters, act_##name, GCN_PLAIN},

const gcn_row gcn_scalar_rows[] = {
#include "scalar.def"
    {"s_getpc_b64", "q:", get_pc, GCN_PLAIN},
    {"s_cmov_b32", "w:w", move_if, GCN_PLAIN},
    {"s_cmov_b64", "q:q", move_if, GCN_PLAIN},
    {0}};

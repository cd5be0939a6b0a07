/* x86 AMX has eight tiles of 16 rows of 64 bytes, and an instruction that multiplies tiles of bf16. The
 * macros name tiles by number, as assembly does, because the compiler does not know them. A kernel that uses
 * tiles begins with AMX_BEGIN and ends with AMX_END, which releases them.
 *   AMX_ZERO(t)            tile t = 0
 *   AMX_LOAD(t, p, step)   row i from p + i step (bytes)
 *   AMX_STORE(t, p, step)
 *   AMX_DOT(c, a, b)       c[m][n] += sum over k of a[m][k] b[k][n]: c is f32 [16, 16], a is bf16 [16, 32].
 *                          b stores rows k and k + 1 in pairs: word n of row k / 2 holds column n of both.
 *                          Subnormal numbers count as 0. The three tiles must differ. */
#ifndef CLEF_CL_AMX_H
#define CLEF_CL_AMX_H

enum { AMX_TILE_BYTES = 1024, AMX_STEP = 64 };

/* Configures palette 1, in which all tiles have 16 rows of 64 bytes. */
#define AMX_BEGIN()                                                               \
    do {                                                                          \
        uchar config_[64] __attribute__((aligned(64)));                           \
        for (uint i_ = 0; i_ < 64; i_++)                                          \
            config_[i_] = i_ == 0 ? 1 : i_ < 16 ? 0 : i_ < 32 ? (i_ % 2 ? 0 : 64) \
                                                  : i_ >= 48 && i_ < 56 ? 16 : 0; \
        __asm__ volatile("ldtilecfg (%0)" : : "r"(config_) : "memory");           \
    } while (0)
#define AMX_END()      __asm__ volatile("tilerelease" : : :)
#define AMX_ZERO(t)    __asm__ volatile("tilezero %%tmm" #t : : :)
#define AMX_LOAD(t, p, step)                                                                                 \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(p), "r"((long)(step)) : "memory")
#define AMX_STORE(t, p, step)                                                                                \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(p), "r"((long)(step)) : "memory")
#define AMX_DOT(c, a, b)      __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : :)

/* Rounds 32 numbers to bf16 (to the nearest, ties to even). The numbers of lo come first. */
static inline int16 to_bf16(float16 lo, float16 hi)
{
    int16 both;
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(hi), "v"(lo));
    return both;
}

/* The rounding error of each number, where `rounded` is x as bf16. The error is 0 where `rounded` is
 * infinite. */
static inline float16 bf16_left(float16 x, float16 rounded)
{
    return isinf(rounded) ? (float16)0.0f : x - rounded;
}

/* The bf16 in the lower (upper) half of each word, as a float. */
#define BF16_LOWER(words) as_float16((words) << 16)
#define BF16_UPPER(words) as_float16((words) & (int)0xffff0000)

/* Word i holds a[i] in its lower half and b[i] in its upper half, as bf16 rounded to the nearest. NaNs are
 * not supported. */
static inline int16 bf16_pairs(float16 a, float16 b)
{
    return as_int16((as_uint16(a) + 0x8000u) >> 16u | ((as_uint16(b) + 0x8000u) & 0xffff0000u));
}

#endif

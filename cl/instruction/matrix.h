/* Hardware units that multiply small matrices. MATRIX_LANES work-items of a group share a unit. It computes
 * sums[r, t] += w[r] . x[t] for MATRIX_ROWS rows of w and MATRIX_TOKENS rows of x, over 8 words of each: 32
 * bytes, or 16 halves or bf16. Each work-item has a part of w, of x and of the sums, called a fragment. All
 * work-items of a unit must reach a product together.
 *   -D MATRIX        1 NVIDIA's mma.sync in PTX (sm_80 and later), 2 AMD's WMMA (gfx11, wave32), 3 Intel's
 *                    cl_intel_subgroup_matrix_multiply_accumulate (subgroups of 8: SUBGROUPS 1, SUBGROUP_SIZE
 *                    8), 4 AMD's MFMA (gfx908 and later of gfx9, wave64)
 *   -D MATRIX_PLAIN  1: plain C replaces the instruction, for tests on any device. It finds the fragments'
 *                    elements by the layouts below
 *
 *   matrix_load_w(from, stride, lane), matrix_load_x  loads a fragment of rows of 8 words, `stride` words
 *                                                     apart in local memory
 *   matrix_bytes(w, x, scratch)                       32 products of bytes
 *   matrix_half_bytes(w, x, part, scratch)            16 products of bytes: columns 16 part .. 16 part + 15
 *   matrix_float_bytes, matrix_float_half_bytes       the same, as floats, plus MATRIX_ADDS
 *   matrix_halves(w, x, sums, scratch), matrix_bf16   16 products, added to sums
 *   matrix_row(i, lane), matrix_token(i, lane)        row and token of element i of a fragment of sums
 *   matrix_exchange(x, mask, scratch)                 x of the unit's work-item lane ^ mask (WMMA: 16 alone;
 *                                                     not for Intel's)
 *   matrix_of_four(x, i)                              NVIDIA's alone: x of work-item i of the four that have
 *                                                     words of the same rows
 *   matrix_lane(), matrix_unit()                      index of this work-item in its unit; of the unit in its
 *                                                     group
 *   MATRIX_SCRATCH(name, items)                       declares what a kernel passes as scratch
 *   fast_exp2(x), fast_reciprocal(x)                  2^x, infinite from 128 on; 1 / x for x of at least 1,
 *                                                     0 if x is infinite. The device's approximations are
 *                                                     precise enough for sums of numbers that were rounded
 *                                                     to 16 bits
 *
 * Sources of the fragments' layouts: 1 PTX ISA, "Matrix Fragments for mma.m16n8k32", ".m16n8k16"; 2 AMD,
 * "RDNA3 Instruction Set Architecture", 7.9; 3 the extension's specification; 4 AMD, "Instinct MI200
 * Instruction Set Architecture", 7.1. A compiler without the unit fails here.
 * runtime/device/probe_matrix.c tests the unit before any kernel is built. */
#ifndef CLEF_CL_MATRIX_H
#define CLEF_CL_MATRIX_H

#if !defined(MATRIX) || !defined(MATRIX_PLAIN)
#  error "matrix.h needs MATRIX and MATRIX_PLAIN"
#endif

#include "inline.h"
#include "subgroup.h"

/* A function that takes local memory. In plain C it has to be inlined: for PoCL because of that memory
 * (inline.h), for Intel's CPU runtime because of the barriers in it (docs/drivers.md). */
#if MATRIX_PLAIN
#  define UNIT_INLINED INLINED
#else
#  define UNIT_INLINED static inline
#endif

#if MATRIX == 3
#  define MATRIX_LANES 8
#elif MATRIX == 4
#  define MATRIX_LANES 64
#else
#  define MATRIX_LANES 32
#endif

#if MATRIX == 3 && !MATRIX_PLAIN
static inline uint matrix_lane(void) { return subgroup_lane(); }
static inline uint matrix_unit(void) { return subgroup_index(); }
#else
static inline uint matrix_lane(void) { return get_local_id(0) % MATRIX_LANES; }
static inline uint matrix_unit(void) { return get_local_id(0) / MATRIX_LANES; }
#endif

/* ---- fragments ------------------------------------------------------------------------------- */

#if MATRIX == 1
/* The 32 work-items form eight groups of four. Item t of group g has words t and t + 4 of three rows: g and g
 * + 8 of w, and g of x. Its sums belong to rows g and g + 8 and to tokens 2 t and 2 t + 1. */
#  define MATRIX_ROWS   16
#  define MATRIX_TOKENS 8
#  define MATRIX_SUMS   4
typedef uint4 matrix_w;
typedef uint2 matrix_x;

static inline matrix_w matrix_load_w(local const uint *from, uint stride, uint lane)
{
    local const uint *first = from + lane / 4 * stride + lane % 4, *second = first + 8 * stride;
    return (uint4)(first[0], second[0], first[4], second[4]);
}

static inline matrix_x matrix_load_x(local const uint *from, uint stride, uint lane)
{
    from += lane / 4 * stride + lane % 4;
    return (uint2)(from[0], from[4]);
}

static inline uint matrix_row(uint i, uint lane) { return lane / 4 + i / 2 * 8; }
static inline uint matrix_token(uint i, uint lane) { return lane % 4 * 2 + i % 2; }
#elif MATRIX == 2
/* Work-items l and l + 16 have row l of w and row l of x. Their sums belong to row l. Element i of the sums
 * belongs to token 2 i in the first sixteen work-items, and to token 2 i + 1 in the others. */
#  define MATRIX_ROWS   16
#  define MATRIX_TOKENS 16
#  define MATRIX_SUMS   8
typedef uint8 matrix_w;
typedef uint8 matrix_x;

static inline matrix_w matrix_load_w(local const uint *from, uint stride, uint lane)
{
    from += lane % 16 * stride;
    return (uint8)(vload4(0, from), vload4(1, from));
}

static inline matrix_x matrix_load_x(local const uint *from, uint stride, uint lane)
{
    return matrix_load_w(from, stride, lane);
}

static inline uint matrix_row(uint i, uint lane) { return lane % 16; }
static inline uint matrix_token(uint i, uint lane) { return i * 2 + lane / 16; }
#elif MATRIX == 3
/* Work-item l has row l of w, word l of each row of x, and the sums of row l with all tokens. */
#  define MATRIX_ROWS   8
#  define MATRIX_TOKENS 8
#  define MATRIX_SUMS   8
typedef uint8 matrix_w;
typedef uint8 matrix_x;

static inline matrix_w matrix_load_w(local const uint *from, uint stride, uint lane)
{
    from += lane * stride;
    return (uint8)(vload4(0, from), vload4(1, from));
}

static inline matrix_x matrix_load_x(local const uint *from, uint stride, uint lane)
{
    from += lane;
    return (uint8)(from[0], from[stride], from[2 * stride], from[3 * stride], from[4 * stride],
                   from[5 * stride], from[6 * stride], from[7 * stride]);
}

static inline uint matrix_row(uint i, uint lane) { return lane; }
static inline uint matrix_token(uint i, uint lane) { return i; }
#elif MATRIX == 4
/* The 64 work-items form four groups of 16. Item t of group g has words g and g + 4 of row t of w and of
 * row t of x. Its sums belong to row t and to tokens 4 g .. 4 g + 3. */
#  define MATRIX_ROWS   16
#  define MATRIX_TOKENS 16
#  define MATRIX_SUMS   4
typedef uint2 matrix_w;
typedef uint2 matrix_x;

static inline matrix_w matrix_load_w(local const uint *from, uint stride, uint lane)
{
    from += lane % 16 * stride + lane / 16;
    return (uint2)(from[0], from[4]);
}

static inline matrix_x matrix_load_x(local const uint *from, uint stride, uint lane)
{
    return matrix_load_w(from, stride, lane);
}

static inline uint matrix_row(uint i, uint lane) { return lane % 16; }
static inline uint matrix_token(uint i, uint lane) { return lane / 16 * 4 + i; }
#else
#  error "matrix.h: no such MATRIX"
#endif

#if MATRIX_SUMS == 4
typedef int4 matrix_ints;
typedef float4 matrix_floats;
#  define MATRIX_TO_FLOATS convert_float4
#  define MATRIX_TO_INTS   convert_int4
#  define MATRIX_STORE     vstore4
#  define MATRIX_LOAD      vload4
#else
typedef int8 matrix_ints;
typedef float8 matrix_floats;
#  define MATRIX_TO_FLOATS convert_float8
#  define MATRIX_TO_INTS   convert_int8
#  define MATRIX_STORE     vstore8
#  define MATRIX_LOAD      vload8
#endif

/* ---- products -------------------------------------------------------------------------------- */

typedef local uint *matrix_scratch;

#if MATRIX_PLAIN
#  include "matrix_plain.h"
#else
#  define MATRIX_SCRATCH(name, items) matrix_scratch const name = 0
#endif

#if MATRIX == 1 && !MATRIX_PLAIN
/* volatile: the compiler must not move a product to a place that only some work-items of the warp reach. */
#  define MATRIX_MMA(type, letter, instruction)                                         \
      type a = sums.x, b = sums.y, c = sums.z, d = sums.w;                              \
      __asm__ volatile("mma.sync.aligned." instruction                                  \
                     " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                       : "+" letter(a), "+" letter(b), "+" letter(c), "+" letter(d)     \
                       : "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w), "r"(x.x), "r"(x.y));   \
      return (type##4)(a, b, c, d)

static inline matrix_ints matrix_add_bytes(matrix_w w, matrix_x x, matrix_ints sums)
{
    MATRIX_MMA(int, "r", "m16n8k32.row.col.s32.s8.s8.s32");
}

static inline matrix_ints matrix_add_half_bytes(matrix_w w, matrix_x x, uint part, matrix_ints sums)
{
    const uint first = part ? w.z : w.x, second = part ? w.w : w.y, of = part ? x.y : x.x;
    int a = sums.x, b = sums.y, c = sums.z, d = sums.w;
    __asm__ volatile(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(a), "+r"(b), "+r"(c), "+r"(d)
        : "r"(first), "r"(second), "r"(of));
    return (int4)(a, b, c, d);
}

UNIT_INLINED matrix_ints matrix_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return matrix_add_bytes(w, x, (int4)0);
}

UNIT_INLINED matrix_ints matrix_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return matrix_add_half_bytes(w, x, part, (int4)0);
}

UNIT_INLINED matrix_floats matrix_halves(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    MATRIX_MMA(float, "f", "m16n8k16.row.col.f32.f16.f16.f32");
}

UNIT_INLINED matrix_floats matrix_bf16(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    MATRIX_MMA(float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32");
}
#elif MATRIX == 2 && !MATRIX_PLAIN
#  if !__has_builtin(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32)
#    error "no WMMA"
#  endif
#  pragma OPENCL EXTENSION cl_khr_fp16 : enable

/* x is operand A of the instruction and w operand B, so that the sums of a work-item belong to one row of
 * w. */
UNIT_INLINED matrix_ints matrix_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, as_int4(part ? x.hi : x.lo), true,
                                                      as_int4(part ? w.hi : w.lo), (int8)0, false);
}

UNIT_INLINED matrix_ints matrix_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    const int8 sums = matrix_half_bytes(w, x, 0, s);
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, as_int4(x.hi), true, as_int4(w.hi), sums, false);
}

UNIT_INLINED matrix_floats matrix_halves(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(x), as_half16(w), sums);
}

UNIT_INLINED matrix_floats matrix_bf16(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(x), as_short16(w), sums);
}
#elif MATRIX == 3 && !MATRIX_PLAIN
/* x is operand A of the instruction and w operand B. */
UNIT_INLINED matrix_ints matrix_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return intel_sub_group_i8_i8_matrix_mad_k32(as_int8(x), as_int8(w), (int8)0);
}

/* The extension has no product of 16 columns, so the other 16 columns of w are set to zero. */
UNIT_INLINED matrix_ints matrix_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return matrix_bytes(part ? (uint8)((uint4)0, w.hi) : (uint8)(w.lo, (uint4)0), x, s);
}

UNIT_INLINED matrix_floats matrix_halves(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return intel_sub_group_f16_f16_matrix_mad_k16(as_int8(x), as_int8(w), sums);
}

UNIT_INLINED matrix_floats matrix_bf16(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return intel_sub_group_bf16_bf16_matrix_mad_k16(as_int8(x), as_int8(w), sums);
}
#elif MATRIX == 4 && !MATRIX_PLAIN
/* By name, because __has_builtin() knows functions that a GPU lacks, and the compiler dies of those. */
#  if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#    define MFMA_BYTES_32 1
#  elif defined(__gfx908__) || defined(__gfx90a__)
#    define MFMA_BYTES_32 0
#  else
#    error "no MFMA"
#  endif
#  pragma OPENCL EXTENSION cl_khr_fp16 : enable

/* x is operand A of the instruction and w operand B. */
#  if !MFMA_BYTES_32
UNIT_INLINED matrix_ints matrix_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return __builtin_amdgcn_mfma_i32_16x16x16i8(as_int(part ? x.y : x.x), as_int(part ? w.y : w.x), (int4)0,
                                                0, 0, 0);
}

UNIT_INLINED matrix_ints matrix_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return __builtin_amdgcn_mfma_i32_16x16x16i8(as_int(x.y), as_int(w.y), matrix_half_bytes(w, x, 0, s), 0, 0,
                                                0);
}
#  else
UNIT_INLINED matrix_ints matrix_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return __builtin_amdgcn_mfma_i32_16x16x32_i8(as_long(x), as_long(w), (int4)0, 0, 0, 0);
}

UNIT_INLINED matrix_ints matrix_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return matrix_bytes(part ? (uint2)(0, w.y) : (uint2)(w.x, 0), x, s);
}
#  endif

UNIT_INLINED matrix_floats matrix_halves(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
    return __builtin_amdgcn_mfma_f32_16x16x16f16(as_half4(x), as_half4(w), sums, 0, 0, 0);
}

UNIT_INLINED matrix_floats matrix_bf16(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch s)
{
#  ifndef __gfx908__
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(as_short4(x), as_short4(w), sums, 0, 0, 0);
#  else
    sums = __builtin_amdgcn_mfma_f32_16x16x8bf16(as_short2(x.x), as_short2(w.x), sums, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x8bf16(as_short2(x.y), as_short2(w.y), sums, 0, 0, 0);
#  endif
}
#endif

#if MATRIX == 1 && !MATRIX_PLAIN
UNIT_INLINED uint matrix_exchange(uint x, uint mask, matrix_scratch s)
{
    uint other;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(x), "r"(mask));
    return other;
}

static inline float matrix_of_four(float x, uint i)
{
    float other;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1c1f, 0xffffffff;" : "=f"(other) : "f"(x), "r"(i));
    return other;
}
#elif MATRIX == 2 && !MATRIX_PLAIN
UNIT_INLINED uint matrix_exchange(uint x, uint mask, matrix_scratch s)
{
    return __builtin_amdgcn_permlanex16(x, x, 0x76543210, 0xfedcba98, false, false);
}
#elif MATRIX == 4 && !MATRIX_PLAIN
UNIT_INLINED uint matrix_exchange(uint x, uint mask, matrix_scratch s)
{
    return (uint)__builtin_amdgcn_ds_bpermute((int)((matrix_lane() ^ mask) * 4), (int)x);
}
#endif

/* NVIDIA converts whole numbers to floats on a slow unit. Sums that begin with the bits of 1.5 2^23 are the
 * floats 1.5 2^23 + sum, as long as |sum| < 2^22; that of 32 products is below 2^20. */
#if MATRIX == 1 && !MATRIX_PLAIN
#  define MATRIX_ADDS 12582912.0f
enum { MATRIX_FLOAT_BITS = 0x4b400000 };

UNIT_INLINED matrix_floats matrix_float_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return as_float4(matrix_add_bytes(w, x, (int4)MATRIX_FLOAT_BITS));
}

UNIT_INLINED matrix_floats matrix_float_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return as_float4(matrix_add_half_bytes(w, x, part, (int4)MATRIX_FLOAT_BITS));
}
#else
#  define MATRIX_ADDS 0.0f
UNIT_INLINED matrix_floats matrix_float_bytes(matrix_w w, matrix_x x, matrix_scratch s)
{
    return MATRIX_TO_FLOATS(matrix_bytes(w, x, s));
}

UNIT_INLINED matrix_floats matrix_float_half_bytes(matrix_w w, matrix_x x, uint part, matrix_scratch s)
{
    return MATRIX_TO_FLOATS(matrix_half_bytes(w, x, part, s));
}
#endif

/* ---- approximate functions ------------------------------------------------------------------- */

#if MATRIX == 1 && !MATRIX_PLAIN
static inline float fast_exp2(float x)
{
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x));
    return x;
}

static inline float fast_reciprocal(float x)
{
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x));
    return x;
}
#elif MATRIX_PLAIN
static inline float fast_exp2(float x) { return exp(x * M_LN2_F); } /* PoCL 3.1 declares exp2 and has none */
static inline float fast_reciprocal(float x) { return 1.0f / x; }
#else
static inline float fast_exp2(float x) { return native_exp2(x); }
static inline float fast_reciprocal(float x) { return native_recip(x); }
#endif

#endif

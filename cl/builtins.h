/* The built-in functions that kernels in OpenCL C 1.2 use, as its section 6.12 declares them. PoCL reads
 * clang's opencl-c.h before each program: 16,000 lines with all built-in functions, and reading them takes
 * longer than compiling most kernels. -D _OPENCL_H_, its own guard, leaves it out; this file takes its
 * place (runtime/device/program_text.c). On PoCL, a function that is missing here shows as "use of undeclared
 * identifier". All macros begin with BUILTIN_, since they stay defined in the kernels. */
#ifndef CLEF_CL_BUILTINS_H
#define CLEF_CL_BUILTINS_H

#define BUILTIN_PURE    __attribute__((overloadable, const)) /* of its arguments alone */
#define BUILTIN_READING __attribute__((overloadable, pure))
#define BUILTIN_WRITING __attribute__((overloadable))
#define BUILTIN_JOINT   __attribute__((overloadable, convergent))

#define BUILTIN_EACH_FLOAT(X) X(float, int) X(float2, int2) X(float4, int4) X(float8, int8) X(float16, int16)
#define BUILTIN_EACH_INT(X)                                                                  \
    X(int, uint) X(int2, uint2) X(int4, uint4) X(int8, uint8) X(int16, uint16) X(uint, uint) \
    X(uint2, uint2) X(uint4, uint4) X(uint8, uint8) X(uint16, uint16) X(long, ulong)         \
    X(long8, ulong8) X(long16, ulong16) X(ulong, ulong) X(ulong8, ulong8) X(ulong16, ulong16)
#define BUILTIN_EACH_WIDTH(X, ...) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(8, __VA_ARGS__) X(16, __VA_ARGS__)
#define BUILTIN_EACH_TYPE(X) X(char) X(uchar) X(short) X(ushort) X(int) X(uint) X(long) X(ulong) X(float)

/* ---- work-items ---------------------------------------------------------------------------------- */
BUILTIN_PURE size_t get_global_id(uint);
BUILTIN_PURE size_t get_group_id(uint);
BUILTIN_PURE size_t get_local_id(uint);
BUILTIN_PURE size_t get_local_size(uint);
BUILTIN_PURE size_t get_num_groups(uint);
BUILTIN_JOINT void barrier(cl_mem_fence_flags);
BUILTIN_WRITING void mem_fence(cl_mem_fence_flags);

/* ---- numbers ------------------------------------------------------------------------------------- */
#define BUILTIN_FLOATS(type, mask)              \
    BUILTIN_PURE type clamp(type, type, type);  \
    BUILTIN_PURE type cos(type);                \
    BUILTIN_PURE type erf(type);                \
    BUILTIN_PURE type exp(type);                \
    BUILTIN_PURE type fabs(type);               \
    BUILTIN_PURE type fma(type, type, type);    \
    BUILTIN_PURE type fmax(type, type);         \
    BUILTIN_PURE type fmin(type, type);         \
    BUILTIN_PURE type log(type);                \
    BUILTIN_PURE type log1p(type);              \
    BUILTIN_PURE type mad(type, type, type);    \
    BUILTIN_PURE type rint(type);               \
    BUILTIN_PURE type round(type);              \
    BUILTIN_PURE type rsqrt(type);              \
    BUILTIN_PURE type sin(type);                \
    BUILTIN_PURE type sqrt(type);               \
    BUILTIN_PURE type tanh(type);               \
    BUILTIN_PURE mask isfinite(type);           \
    BUILTIN_PURE mask isgreater(type, type);    \
    BUILTIN_PURE mask isinf(type);              \
    BUILTIN_PURE mask isnan(type);              \
    BUILTIN_PURE type select(type, type, mask); \
    BUILTIN_PURE type select(type, type, u##mask);
BUILTIN_EACH_FLOAT(BUILTIN_FLOATS)
#define BUILTIN_FLOATS_AND_ONE(n, ...)                   \
    BUILTIN_PURE float##n clamp(float##n, float, float); \
    BUILTIN_PURE float##n fmax(float##n, float);         \
    BUILTIN_PURE float##n fmin(float##n, float);
BUILTIN_EACH_WIDTH(BUILTIN_FLOATS_AND_ONE, )
BUILTIN_PURE float dot(float, float);
BUILTIN_PURE float dot(float2, float2);
BUILTIN_PURE float dot(float4, float4);

#define BUILTIN_INTS(type, unsigned_type)      \
    BUILTIN_PURE type clamp(type, type, type); \
    BUILTIN_PURE type max(type, type);         \
    BUILTIN_PURE type min(type, type);         \
    BUILTIN_PURE type mul_hi(type, type);      \
    BUILTIN_PURE type select(type, type, unsigned_type);
BUILTIN_EACH_INT(BUILTIN_INTS)
#define BUILTIN_SIGNED_SELECT(type)             \
    BUILTIN_PURE type select(type, type, type); \
    BUILTIN_PURE u##type select(u##type, u##type, type);
#define BUILTIN_SIGNED_SELECTS(n, type)                              \
    BUILTIN_PURE type##n select(type##n, type##n, type##n);          \
    BUILTIN_PURE u##type##n select(u##type##n, u##type##n, type##n); \
    BUILTIN_PURE int any(type##n);
BUILTIN_SIGNED_SELECT(int) BUILTIN_SIGNED_SELECT(long)
BUILTIN_EACH_WIDTH(BUILTIN_SIGNED_SELECTS, int) BUILTIN_EACH_WIDTH(BUILTIN_SIGNED_SELECTS, long)
BUILTIN_PURE int any(int);
#define BUILTIN_INTS_AND_ONE(n, type)                \
    BUILTIN_PURE type##n clamp(type##n, type, type); \
    BUILTIN_PURE type##n max(type##n, type);         \
    BUILTIN_PURE type##n min(type##n, type);
BUILTIN_EACH_WIDTH(BUILTIN_INTS_AND_ONE, int) BUILTIN_EACH_WIDTH(BUILTIN_INTS_AND_ONE, uint)

/* ---- conversions --------------------------------------------------------------------------------- */
#define BUILTIN_CONVERT(n, from)                         \
    BUILTIN_PURE char##n convert_char##n(from##n);       \
    BUILTIN_PURE char##n convert_char##n##_sat(from##n); \
    BUILTIN_PURE ushort##n convert_ushort##n(from##n);   \
    BUILTIN_PURE int##n convert_int##n(from##n);         \
    BUILTIN_PURE uint##n convert_uint##n(from##n);       \
    BUILTIN_PURE long##n convert_long##n(from##n);       \
    BUILTIN_PURE ulong##n convert_ulong##n(from##n);     \
    BUILTIN_PURE float##n convert_float##n(from##n);
#define BUILTIN_CONVERT_FROM(from) BUILTIN_CONVERT(, from) BUILTIN_EACH_WIDTH(BUILTIN_CONVERT, from)
BUILTIN_EACH_TYPE(BUILTIN_CONVERT_FROM)

/* ---- memory -------------------------------------------------------------------------------------- */
#define BUILTIN_IN_SPACE(n, type, space)                          \
    BUILTIN_READING type##n vload##n(size_t, const space type *); \
    BUILTIN_WRITING void vstore##n(type##n, size_t, space type *);
#define BUILTIN_IN_SPACES(type)                                                                          \
    BUILTIN_EACH_WIDTH(BUILTIN_IN_SPACE, type, global) BUILTIN_EACH_WIDTH(BUILTIN_IN_SPACE, type, local) \
    BUILTIN_EACH_WIDTH(BUILTIN_IN_SPACE, type, private)
BUILTIN_EACH_TYPE(BUILTIN_IN_SPACES)
#define BUILTIN_HALVES(n, space)                                         \
    BUILTIN_READING float##n vload_half##n(size_t, const space half *);  \
    BUILTIN_WRITING void vstore_half##n(float##n, size_t, space half *); \
    BUILTIN_WRITING void vstore_half##n##_rte(float##n, size_t, space half *);
#define BUILTIN_HALVES_IN(space)                                   \
    BUILTIN_EACH_WIDTH(BUILTIN_HALVES, space)                      \
    BUILTIN_READING float vload_half(size_t, const space half *);  \
    BUILTIN_WRITING void vstore_half(float, size_t, space half *); \
    BUILTIN_WRITING void vstore_half_rte(float, size_t, space half *);
BUILTIN_HALVES_IN(global) BUILTIN_HALVES_IN(local) BUILTIN_HALVES_IN(private)

#define BUILTIN_ATOMICS(space, type)                              \
    BUILTIN_WRITING type atomic_add(volatile space type *, type); \
    BUILTIN_WRITING type atomic_inc(volatile space type *);       \
    BUILTIN_WRITING type atomic_xchg(volatile space type *, type);
BUILTIN_ATOMICS(global, int) BUILTIN_ATOMICS(global, uint)
BUILTIN_ATOMICS(local, int) BUILTIN_ATOMICS(local, uint)
BUILTIN_WRITING float atomic_xchg(volatile global float *, float);

BUILTIN_PURE float16 shuffle2(float16, float16, uint16);
BUILTIN_PURE int16 shuffle2(int16, int16, uint16);
BUILTIN_PURE uint16 shuffle2(uint16, uint16, uint16);

#endif

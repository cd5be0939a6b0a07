/* The built-in functions that kernels use, as OpenCL C 1.2, 6.12, declares them. PoCL reads clang's
 * opencl-c.h before each program: 16,000 lines with all built-in functions, which take longer than most
 * kernels. -D _OPENCL_H_, that file's own guard, leaves it out, and runtime/device/program_text.c puts this
 * file in its place. On PoCL, a function that is missing here shows as "use of undeclared identifier". */
#ifndef CLEF_CL_BUILTINS_H
#define CLEF_CL_BUILTINS_H

#define PURE_BUILTIN    __attribute__((overloadable, const)) /* of its arguments alone */
#define READING_BUILTIN __attribute__((overloadable, pure))
#define WRITING_BUILTIN __attribute__((overloadable))
#define JOINT_BUILTIN   __attribute__((overloadable, convergent))

#define EACH_FLOAT(X) X(float, int) X(float2, int2) X(float4, int4) X(float8, int8) X(float16, int16)
#define EACH_INT(X)                                                                             \
    X(int, uint) X(int2, uint2) X(int4, uint4) X(int8, uint8) X(int16, uint16) X(uint, uint)    \
    X(uint2, uint2) X(uint4, uint4) X(uint8, uint8) X(uint16, uint16) X(long, ulong)            \
    X(long8, ulong8) X(long16, ulong16) X(ulong, ulong) X(ulong8, ulong8) X(ulong16, ulong16)
#define EACH_WIDTH(X, ...) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(8, __VA_ARGS__) X(16, __VA_ARGS__)
#define EACH_TYPE(X) X(char) X(uchar) X(short) X(ushort) X(int) X(uint) X(long) X(ulong) X(float)

/* ---- work-items ---------------------------------------------------------------------------------- */
PURE_BUILTIN size_t get_global_id(uint);
PURE_BUILTIN size_t get_group_id(uint);
PURE_BUILTIN size_t get_local_id(uint);
PURE_BUILTIN size_t get_local_size(uint);
PURE_BUILTIN size_t get_num_groups(uint);
JOINT_BUILTIN void barrier(cl_mem_fence_flags);
WRITING_BUILTIN void mem_fence(cl_mem_fence_flags);

/* ---- numbers ------------------------------------------------------------------------------------- */
#define FLOATS(type, mask)                       \
    PURE_BUILTIN type ceil(type);                \
    PURE_BUILTIN type clamp(type, type, type);   \
    PURE_BUILTIN type cos(type);                 \
    PURE_BUILTIN type erf(type);                 \
    PURE_BUILTIN type exp(type);                 \
    PURE_BUILTIN type fabs(type);                \
    PURE_BUILTIN type floor(type);               \
    PURE_BUILTIN type fma(type, type, type);     \
    PURE_BUILTIN type fmax(type, type);          \
    PURE_BUILTIN type fmin(type, type);          \
    PURE_BUILTIN type log(type);                 \
    PURE_BUILTIN type log1p(type);               \
    PURE_BUILTIN type log2(type);                \
    PURE_BUILTIN type mad(type, type, type);     \
    PURE_BUILTIN type rint(type);                \
    PURE_BUILTIN type round(type);               \
    PURE_BUILTIN type rsqrt(type);               \
    PURE_BUILTIN type sign(type);                \
    PURE_BUILTIN type sin(type);                 \
    PURE_BUILTIN type sqrt(type);                \
    PURE_BUILTIN type tanh(type);                \
    PURE_BUILTIN mask isfinite(type);            \
    PURE_BUILTIN mask isgreater(type, type);     \
    PURE_BUILTIN mask isinf(type);               \
    PURE_BUILTIN mask isnan(type);               \
    PURE_BUILTIN type select(type, type, mask);  \
    PURE_BUILTIN type select(type, type, u##mask);
EACH_FLOAT(FLOATS)
#define FLOATS_AND_ONE(n, ...)                            \
    PURE_BUILTIN float##n clamp(float##n, float, float);  \
    PURE_BUILTIN float##n fmax(float##n, float);          \
    PURE_BUILTIN float##n fmin(float##n, float);
EACH_WIDTH(FLOATS_AND_ONE, )
PURE_BUILTIN float dot(float, float);
PURE_BUILTIN float dot(float2, float2);
PURE_BUILTIN float dot(float4, float4);

#define INTS(type, unsigned_type)                      \
    PURE_BUILTIN type clamp(type, type, type);         \
    PURE_BUILTIN type max(type, type);                 \
    PURE_BUILTIN type min(type, type);                 \
    PURE_BUILTIN type mul_hi(type, type);              \
    PURE_BUILTIN type select(type, type, unsigned_type);
EACH_INT(INTS)
#define SIGNED_SELECT(type)                                \
    PURE_BUILTIN type select(type, type, type);            \
    PURE_BUILTIN u##type select(u##type, u##type, type);
#define SIGNED_SELECTS(n, type)                                      \
    PURE_BUILTIN type##n select(type##n, type##n, type##n);          \
    PURE_BUILTIN u##type##n select(u##type##n, u##type##n, type##n); \
    PURE_BUILTIN int any(type##n);                                   \
    PURE_BUILTIN int all(type##n);
SIGNED_SELECT(int) SIGNED_SELECT(long)
EACH_WIDTH(SIGNED_SELECTS, int) EACH_WIDTH(SIGNED_SELECTS, long)
PURE_BUILTIN int any(int);
PURE_BUILTIN int all(int);
#define INTS_AND_ONE(n, type)                        \
    PURE_BUILTIN type##n clamp(type##n, type, type); \
    PURE_BUILTIN type##n max(type##n, type);         \
    PURE_BUILTIN type##n min(type##n, type);
EACH_WIDTH(INTS_AND_ONE, int) EACH_WIDTH(INTS_AND_ONE, uint)

/* ---- conversions --------------------------------------------------------------------------------- */
#define CONVERT(n, from)                             \
    PURE_BUILTIN char##n convert_char##n(from##n);   \
    PURE_BUILTIN char##n convert_char##n##_sat(from##n); \
    PURE_BUILTIN ushort##n convert_ushort##n(from##n); \
    PURE_BUILTIN int##n convert_int##n(from##n);     \
    PURE_BUILTIN uint##n convert_uint##n(from##n);   \
    PURE_BUILTIN long##n convert_long##n(from##n);   \
    PURE_BUILTIN ulong##n convert_ulong##n(from##n); \
    PURE_BUILTIN float##n convert_float##n(from##n);
#define CONVERT_FROM(from) CONVERT(, from) EACH_WIDTH(CONVERT, from)
EACH_TYPE(CONVERT_FROM)

/* ---- memory -------------------------------------------------------------------------------------- */
#define IN_SPACE(n, type, space)                                              \
    READING_BUILTIN type##n vload##n(size_t, const space type *);             \
    WRITING_BUILTIN void vstore##n(type##n, size_t, space type *);
#define IN_SPACES(type)                                                       \
    EACH_WIDTH(IN_SPACE, type, global) EACH_WIDTH(IN_SPACE, type, local)      \
    EACH_WIDTH(IN_SPACE, type, private)
EACH_TYPE(IN_SPACES)
#define HALVES(n, space)                                                      \
    READING_BUILTIN float##n vload_half##n(size_t, const space half *);       \
    WRITING_BUILTIN void vstore_half##n(float##n, size_t, space half *);      \
    WRITING_BUILTIN void vstore_half##n##_rte(float##n, size_t, space half *);
#define HALVES_IN(space)                                                      \
    EACH_WIDTH(HALVES, space)                                                 \
    READING_BUILTIN float vload_half(size_t, const space half *);             \
    WRITING_BUILTIN void vstore_half(float, size_t, space half *);            \
    WRITING_BUILTIN void vstore_half_rte(float, size_t, space half *);
HALVES_IN(global) HALVES_IN(local) HALVES_IN(private)

#define ATOMICS(space, type)                                          \
    WRITING_BUILTIN type atomic_add(volatile space type *, type);     \
    WRITING_BUILTIN type atomic_inc(volatile space type *);           \
    WRITING_BUILTIN type atomic_xchg(volatile space type *, type);
ATOMICS(global, int) ATOMICS(global, uint) ATOMICS(local, int) ATOMICS(local, uint)
WRITING_BUILTIN float atomic_xchg(volatile global float *, float);

PURE_BUILTIN float16 shuffle2(float16, float16, uint16);
PURE_BUILTIN int16 shuffle2(int16, int16, uint16);
PURE_BUILTIN uint16 shuffle2(uint16, uint16, uint16);

#endif

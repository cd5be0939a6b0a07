/* dot4s(acc, a, b): acc plus the four products of the signed bytes of a with those of b.
 *   -D INT_DOT  the instruction: 0 multiplications, 1 cl_khr_integer_dot_product (such programs are built as
 *               OpenCL C 3.0), 2 PTX (dp4a), 3 and 4 AMD's sdot4 and sudot4, 5
 *               cl_arm_integer_dot_product_accumulate_int8
 * A compiler that lacks the instruction fails here. runtime/device/probe_gpu.c tests the instruction before
 * any kernel is built. */
#ifndef CLEF_CL_DOT_H
#define CLEF_CL_DOT_H

#ifndef INT_DOT
#  error "dot.h needs INT_DOT"
#endif

#if INT_DOT == 1
#  ifndef __opencl_c_integer_dot_product_input_4x8bit_packed
#    error "no dot_4x8packed_ss_int"
#  endif
static inline int dot4s(int acc, uint a, uint b) { return acc + dot_4x8packed_ss_int(a, b); }
#elif INT_DOT == 2
static inline int dot4s(int acc, uint a, uint b)
{
    int sum;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(acc));
    return sum;
}
#elif INT_DOT == 3
#  if !__has_builtin(__builtin_amdgcn_sdot4)
#    error "no sdot4"
#  endif
static inline int dot4s(int acc, uint a, uint b)
{
    return __builtin_amdgcn_sdot4((int)a, (int)b, acc, false);
}
#elif INT_DOT == 4
#  if !__has_builtin(__builtin_amdgcn_sudot4)
#    error "no sudot4"
#  endif
static inline int dot4s(int acc, uint a, uint b)
{
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, acc, false);
}
#elif INT_DOT == 5
#  pragma OPENCL EXTENSION cl_arm_integer_dot_product_accumulate_int8 : enable
static inline int dot4s(int acc, uint a, uint b) { return arm_dot_acc(as_char4(a), as_char4(b), acc); }
#else
static inline int dot4s(int acc, uint a, uint b)
{
    const int4 p = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
    return acc + ((p.x + p.y) + (p.z + p.w));
}
#endif

#endif

/* Tests Arm's bfdot (runtime/device/probe.c): out[i] = 1 + w[2 i] x[2] + w[2 i + 1] x[3], with numbers that
 * bf16 represents exactly. Launch: one work-item. */
#include "arm.h"
#include "inline.h"

static void bfdot_whole(global float *out, global const float *w, global const float *x)
{
    BODY
    const uint16 even = as_uint16((float16)(vload16(0, w).even, vload16(1, w).even)),
                 odd = as_uint16((float16)(vload16(0, w).odd, vload16(1, w).odd));
    const int16 pairs = as_int16(even >> 16u | odd);
    const uint4 words = as_uint4(vload4(0, x));
    const int4 both = as_int4((uint4)(words.x >> 16 | words.y, words.z >> 16 | words.w, 0, 0));
    int16 acc = as_int16((float16)1.0f);
    ARM_DOT16(ARM_BFDOT + ARM_LANE(1), acc, pairs, both);
    vstore16(as_float16(acc), 0, out);
}

kernel void probe_bfdot(global float *out, global const float *w, global const float *x)
{
    bfdot_whole(out, w, x);
}

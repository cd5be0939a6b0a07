/* Tests x86 AMX (runtime/device/probe.c): out [16, 16] = x [16, 32] . w [16, 32]^T, with integers that bf16
 * represents exactly. Launch: one work-item. */
#include "amx.h"
#include "inline.h"

static void amx_whole(global float *out, global const float *x, global const float *w)
{
    BODY
    int a[16 * 16] __attribute__((aligned(64))), b[16 * 16] __attribute__((aligned(64)));
    for (uint row = 0; row < 16; row++)
        vstore16(to_bf16(vload16(2 * row, x), vload16(2 * row + 1, x)), row, a);
    for (uint k = 0; k < 32; k += 2) {
        float even[16], odd[16];
        for (uint n = 0; n < 16; n++) {
            even[n] = w[n * 32 + k];
            odd[n] = w[n * 32 + k + 1];
        }
        vstore16(bf16_pairs(vload16(0, even), vload16(0, odd)), k / 2, b);
    }
    AMX_BEGIN();
    AMX_ZERO(0);
    AMX_LOAD(4, a, AMX_STEP);
    AMX_LOAD(6, b, AMX_STEP);
    AMX_DOT(0, 4, 6);
    AMX_STORE(0, out, AMX_STEP);
    AMX_END();
}

kernel void probe_amx(global float *out, global const float *x, global const float *w)
{
    amx_whole(out, x, w);
}

/* Joins the results of the parts of the keys that attention_gpu_flash.cl and attention_gpu_decode.cl left.
 * Launch: B T H groups of WG work-items, one for each row of out.
 *   -D WG, E  E: last dim of v */
#include "args.h"
#include "group.h"

#ifndef E
#  error "attention_gpu_merge.cl needs WG and E"
#endif

#include "attention_gpu_record.h"

enum { PER_ITEM = (E + WG - 1) / WG }; /* elements of a row for each work-item */

GROUP_KERNEL
void attention_gpu_merge(const attention_flash_args f, global float *out, global const float *parts)
{
    const attention_args a = f.a;
    const size_t row = get_group_id(0);
    const uint lane = group_item();
    GROUP_SCRATCH(scratch);
    local float weights[WG];
    float most = -INFINITY, total = 0;
    parts += f.parts + row * a.splits * RECORD;
    for (uint p = lane; p < a.splits; p += WG)
        most = fmax(most, parts[p * RECORD]);
    most = group_max(most, scratch);
    const float base = base_of(most); /* a part without keys has weight 0; one with a NaN has a NaN sum */
    for (uint p = lane; p < a.splits; p += WG)
        total += weight_of(parts[p * RECORD], base) * parts[p * RECORD + 1];
    total = group_sum(total, scratch);
    const float scale = total != 0 ? 1.0f / total : 0.0f;
    out += row * E;
    float x[PER_ITEM];
#pragma unroll
    for (uint j = 0; j < PER_ITEM; j++)
        x[j] = 0;
    for (uint p0 = 0; p0 < a.splits; p0 += WG) { /* the weights of WG parts, then what they weigh */
        const uint n = min(a.splits - p0, (uint)WG);
        if (lane < n)
            weights[lane] = weight_of(parts[(p0 + lane) * RECORD], base);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint j = 0; j < PER_ITEM; j++) {
            const uint e = min(lane + j * WG, (uint)E - 1);
#pragma unroll 8
            for (uint p = 0; p < n; p++)
                x[j] = fma(weights[p], parts[(p0 + p) * RECORD + 4 + e], x[j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint j = 0; j < PER_ITEM; j++)
        if (lane + j * WG < E)
            out[lane + j * WG] = x[j] * scale;
}

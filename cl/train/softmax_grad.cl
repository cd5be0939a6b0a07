/* out = scale y (d - sum(y d)) for each row of n elements; with log scale (d - exp(y) sum(d)), and 0 where y
 * is -inf.
 * Launch: one group of WG work-items for each row. All are dense; out may be y or d.
 *   -D WG  work-items in a group, a power of two */
#include "args.h"
#include "group.h"

GROUP_KERNEL
void softmax_grad_rows(const softmax_grad_args a, global float *out, global const float *y,
                       global const float *d)
{
    const size_t row = get_group_id(0) * (size_t)a.n;
    GROUP_SCRATCH(scratch);
    float sum = 0;
    uint i = get_local_id(0);
    y += a.y + row;
    d += a.d + row;
    out += row;
#if WG == 1
    if (!a.log) {
        float16 wide = 0;
        for (; i + 16 <= a.n; i += 16)
            wide += vload16(0, y + i) * vload16(0, d + i);
        sum = wide.s0 + wide.s1 + wide.s2 + wide.s3 + wide.s4 + wide.s5 + wide.s6 + wide.s7 + wide.s8 +
                wide.s9 +
              wide.sa + wide.sb + wide.sc + wide.sd + wide.se + wide.sf;
    }
#endif
    for (; i < a.n; i += WG)
        sum += !a.log ? y[i] * d[i] : y[i] > -INFINITY ? d[i] : 0.0f;
    sum = group_sum(sum, scratch);
    i = get_local_id(0);
#if WG == 1
    for (; !a.log && i + 16 <= a.n; i += 16)
        vstore16(a.scale * vload16(0, y + i) * (vload16(0, d + i) - sum), 0, out + i);
#endif
    for (; i < a.n; i += WG)
        out[i] = a.scale * (!a.log ? y[i] * (d[i] - sum) : y[i] > -INFINITY ? d[i] - exp(y[i]) * sum : 0.0f);
}

/* Sums of x over some of its dims: out[part, i, j] = the sum over elements part * each .. of the summed dims.
 * Launch: {kept[0] pieces, parts} groups of WG work-items. x and out are dense.
 *   sum_columns   the last dim is kept: a work-item has a column (WG 1: 64 columns, 16 at a time)
 *   sum_elements  it is summed: a group has one sum
 *   -D WG  work-items in a group, a power of two */
#include "args.h"
#include "group.h"

/* The place of summed element i. */
#define SUMMED_AT(i) ((i) / a.summed[1] * (size_t)a.summed_stride[0] + (i) % a.summed[1] * \
        (size_t)a.summed_stride[1])

GROUP_KERNEL
void sum_columns(const sum_axes_args a, global float *out, global const float *x)
{
    const uint row = get_group_id(0) / a.pieces, first = get_group_id(0) % a.pieces * a.span,
               part = get_group_id(1);
    const uint begin = part * a.each, end = min(begin + a.each, a.summed[0] * a.summed[1]);
    const uint n = min(a.span, a.kept[1] - first);
    x += a.x + row * (size_t)a.kept_stride[0] + first;
    out += ((size_t)part * a.kept[0] + row) * a.kept[1] + first;
#if WG == 1
    uint c = 0;
    if (n == 64) {
        float16 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (uint i = begin; i < end; i++) {
            global const float *at = x + SUMMED_AT(i);
            s0 += vload16(0, at);
            s1 += vload16(1, at);
            s2 += vload16(2, at);
            s3 += vload16(3, at);
        }
        vstore16(s0, 0, out);
        vstore16(s1, 1, out);
        vstore16(s2, 2, out);
        vstore16(s3, 3, out);
        return;
    }
    for (; c + 16 <= n; c += 16) {
        float16 s = 0;
        for (uint i = begin; i < end; i++)
            s += vload16(0, x + SUMMED_AT(i) + c);
        vstore16(s, 0, out + c);
    }
#else
    uint c = get_local_id(0);
#endif
    for (; c < n; c += WG) {
        float s = 0;
        for (uint i = begin; i < end; i++)
            s += x[SUMMED_AT(i) + c];
        out[c] = s;
    }
}

GROUP_KERNEL
void sum_elements(const sum_axes_args a, global float *out, global const float *x)
{
    const uint row = get_group_id(0) / a.pieces, col = get_group_id(0) % a.pieces, part = get_group_id(1);
    const uint begin = part * a.each, end = min(begin + a.each, a.summed[0] * a.summed[1]);
    GROUP_SCRATCH(scratch);
    float s = 0;
    x += a.x + row * (size_t)a.kept_stride[0] + col * (size_t)a.kept_stride[1];
#if WG == 1
    float16 wide = 0;
    uint i = begin;
    if (a.summed_stride[1] == 1)
        while (i < end) { /* a run of adjacent elements at a time */
            const uint stop = min(end, (i / a.summed[1] + 1) * a.summed[1]);
            global const float *at = x + SUMMED_AT(i);
            const uint n = stop - i;
            uint k = 0;
            for (; k + 16 <= n; k += 16)
                wide += vload16(0, at + k);
            for (; k < n; k++)
                s += at[k];
            i = stop;
        }
    for (; i < end; i++)
        s += x[SUMMED_AT(i)];
    s += wide.s0 + wide.s1 + wide.s2 + wide.s3 + wide.s4 + wide.s5 + wide.s6 + wide.s7 + wide.s8 + wide.s9 +
         wide.sa + wide.sb + wide.sc + wide.sd + wide.se + wide.sf;
#else
    for (uint i = begin + get_local_id(0); i < end; i += WG)
        s += x[SUMMED_AT(i)];
#endif
    s = group_sum(s, scratch);
    if (get_local_id(0) == 0)
        out[((size_t)part * a.kept[0] + row) * a.kept[1] + col] = s;
}

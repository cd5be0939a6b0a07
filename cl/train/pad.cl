/* out = x where it lies within `inside` from `first` on, else 0.
 * Launch: one group of WG work-items for each piece of a row of out, which is dense.
 *   -D WG  work-items in a group */
#include "args.h"
#include "group.h"

GROUP_KERNEL
void pad(const pad_args a, global float *out, global const float *x)
{
    const uint row = get_group_id(0) / a.pieces, from = get_group_id(0) % a.pieces * a.span,
               end = min(from + a.span, a.n[3]);
    const uint i2 = row % a.n[2], i1 = row / a.n[2] % a.n[1], i0 = row / a.n[2] / a.n[1];
    /* differences of numbers below `first` wrap to large ones */
    const int is_inside = i0 - a.first[0] < a.inside[0] && i1 - a.first[1] < a.inside[1] && i2 - a.first[2]
            < a.inside[2];
    x += a.x.offset + (i0 - a.first[0]) * (size_t)a.x.stride[0] + (i1 - a.first[1]) * (size_t)a.x.stride[1] +
         (i2 - a.first[2]) * (size_t)a.x.stride[2];
    out += (size_t)row * a.n[3];
    for (uint i = from + get_local_id(0); i < end; i += WG) {
        const uint at = i - a.first[3];
        out[i] = is_inside && at < a.inside[3] ? x[at * (size_t)a.x.stride[3]] : 0.0f;
    }
}

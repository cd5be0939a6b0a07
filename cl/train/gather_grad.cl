/* out[r] = the sum of the rows i of d [n_ids, n] with ids[i] = first + r, in the order of i.
 * Launch: one group of WG work-items for `each` rows of out; a work-item has the columns lane, lane + WG ...
 *   -D WG  work-items in a group */
#include "args.h"
#include "group.h"

GROUP_KERNEL
void gather_grad(const gather_grad_args a, global float *out, global const float *d, global const int *ids)
{
    const uint from = get_group_id(0) * a.each, rows = min(a.each, a.rows - from), n = a.n;
    const uint lane = get_local_id(0);
    out += (size_t)from * n;
    for (uint r = 0; r < rows; r++)
        for (uint i = lane; i < n; i += WG)
            out[r * (size_t)n + i] = 0;
    ids += a.ids;
    d += a.d;
    for (uint t = 0; t < a.n_ids; t++) {
        const uint r = (uint)ids[t] - a.first - from; /* ids before these rows wrap to large numbers */
        if (r >= rows)
            continue;
        global float *to = out + r * (size_t)n;
        global const float *x = d + t * (size_t)n;
        uint i = lane;
#if WG == 1
        for (; i + 16 <= n; i += 16)
            vstore16(vload16(0, to + i) + vload16(0, x + i), 0, to + i);
#endif
        for (; i < n; i += WG)
            to[i] += x[i];
    }
}

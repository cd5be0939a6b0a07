/* out[i, h] = the sum of d [heads, queries, keys] over the pairs of query t and key s with distance i: s -
 * position + distances / 2, where what lies beyond the table belongs to its ends.
 * Launch: a work-item for each element of out, in groups of WG.
 *   -D WG   work-items in a group
 *   -D POS  1: positions are in pos */
#include "args.h"
#include "group.h"

GROUP_KERNEL
void relative_bias_grad(const relative_bias_args a, global float *out, global const float *d,
                        global const int *pos)
{
    const uint at = get_group_id(0) * WG + get_local_id(0), h = at % a.heads;
    const int i = (int)(at / a.heads), last = (int)a.distances - 1, keys = (int)a.keys;
    float sum = 0;
    if (at >= a.distances * a.heads)
        return;
    d += a.x + h * (size_t)a.queries * a.keys;
    for (uint t = 0; t < a.queries; t++, d += a.keys) {
#if POS
        const int from = a.each ? pos[a.pos + t] : pos[a.pos] + (int)t;
#else
        const int from = (int)t;
#endif
        const int s = from + i - (int)(a.distances / 2);
        const int begin = i == 0 ? 0 : max(s, 0), end = min(i == last ? keys : s + 1, keys);
        for (int k = begin; k < end; k++)
            sum += d[k];
    }
    out[at] = sum;
}

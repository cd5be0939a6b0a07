/* out[h, t, s] = x[clamp(s - (pos + t) + distances / 2), h] for x [distances, heads], both dense. With a.each
 * query t is at pos[t].
 * Launch: a group of one work-item for each row (h, t) of out.
 *   -D HAS_POS  1: pos[0] is the first query's position; 0: it is 0 */
#include "args.h"

#ifndef HAS_POS
#  error "relative.cl needs HAS_POS"
#endif

kernel void relative_bias(const relative_bias_args a, global float *out, global const float *x,
                          global const int *pos)
{
    const uint row = get_group_id(0), h = row / a.queries, t = row % a.queries;
#if HAS_POS
    const int at = a.each ? pos[a.pos + t] : (int)t + pos[a.pos];
#else
    const int at = (int)t;
#endif
    x += a.x + h;
    out += (size_t)row * a.keys;
    for (uint s = 0; s < a.keys; s++)
        out[s] = x[(size_t)clamp((int)s - at + (int)(a.distances / 2), 0, (int)a.distances - 1) * a.heads];
}

/* cache[b, h, pos[b] + t, :] = x[b, h, t, :] for x [B, H, T, D]; rows beyond the cache's capacity are dropped.
 * Launch: one group a row of x. No two rows meet.
 *   -D WG   work-items a group
 *   -D POS  1: with pos, else every sequence begins at row 0 */
#include "args.h"
#include "group.h"

#ifndef POS
#  error "cache.cl needs WG and POS"
#endif

GROUP_KERNEL
void cache_write(const cache_write_args a, global float *cache, global const float *x, global const int *pos)
{
    const uint row = get_group_id(0), t = row % a.n[2], h = row / a.n[2] % a.n[1], b = row / a.n[2] / a.n[1], n = a.n[3];
#if POS
    const int at = pos[a.pos + b] + (int)t;
#else
    const int at = (int)t;
#endif
    if (at < 0 || at >= (int)a.capacity)
        return;
    x += a.x.offset + b * (size_t)a.x.stride[0] + h * (size_t)a.x.stride[1] + t * (size_t)a.x.stride[2];
    cache += a.cache.offset + b * (size_t)a.cache.stride[0] + h * (size_t)a.cache.stride[1] + (uint)at * (size_t)a.cache.stride[2];
    for (uint i = get_local_id(0); i < n; i += WG)
        cache[i] = x[i];
}

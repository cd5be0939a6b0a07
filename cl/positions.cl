/* out[b, t] = pos[b] + t, int [B, length]. Launch: one work-item an element. */
#include "args.h"

kernel void positions(const positions_args a, global int *out, global const int *pos)
{
    const uint i = get_global_id(0);
    if (i < a.n)
        out[i] = pos[a.pos + i / a.length] + (int)(i % a.length);
}

/* out[b, t] = pos[b] + t, int [B, length]. Launch: one work-item for each element. */
#include "args.h"
#include "substep.h"

STAGE_KERNEL void positions(STAGE_GROUP const positions_args a, global int *out, global const int *pos)
{
    const uint i = group_id(0) * local_size(0) + local_id(0);
    if (i < a.n)
        out[i] = pos[a.pos + i / a.length] + (int)(i % a.length);
}

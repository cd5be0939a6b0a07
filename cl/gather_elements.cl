/* out[i] = x[i / k, ids[i]] for rows of n_row elements; an id outside the row gives 0. All tensors are dense.
 * The n_ids ids begin again where they end.
 * Launch: one work-item for each element of out. */
#include "args.h"

kernel void gather_elements(const gather_elements_args a, global float *out, global const float *x,
                            global const int *ids)
{
    const uint i = get_global_id(0);
    if (i >= a.n)
        return;
    const int id = ids[a.ids + i % a.n_ids];
    out[i] = id >= 0 && id < (int)a.n_row ? x[a.x + (size_t)(i / a.k) * a.n_row + (uint)id] : 0.0f;
}

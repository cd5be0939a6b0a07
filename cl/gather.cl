/* out[o, j, :] = table[o, ids[j] - first, :] for table [n_outer, n_axis, n_inner] and n_ids ids. An id
 * outside the table gives zeros.
 * Launch: one group for each row of out. Table, ids and out are dense.
 *   -D WG          work-items in a group
 *   -D TABLE_TYPE  dtype of table */
#include "args.h"
#include "group.h"
#include "weights.h"

#ifndef TABLE_TYPE
#  error "gather.cl needs WG and TABLE_TYPE"
#endif

GROUP_KERNEL
void gather(STAGE_GROUP const gather_args a, global float *out, global const ELEM(TABLE_TYPE) *table,
            global const int *ids)
{
    const uint row = group_id(0), j = row % a.n_ids, o = row / a.n_ids, n = a.n_inner;
    const int id = ids[a.ids + j] - (int)a.first;
    const int inside = id >= 0 && id < (int)a.n_axis;
    const size_t from = a.table + ((size_t)o * a.n_axis + (inside ? (uint)id : 0)) * n;
    uint i = local_id(0);
    out += (size_t)row * n;
#if WG == 1
    for (; i + 16 <= n; i += 16)
        vstore16(inside ? LOAD16(TABLE_TYPE, table, from + i) : (float16)(0.0f), 0, out + i);
#endif
    for (; i < n; i += WG)
        out[i] = inside ? LOAD(TABLE_TYPE, table, from + i) : 0.0f;
}

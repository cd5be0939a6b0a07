/* The gradients of gather_elements and of the weights of expert_matmul.
 * Launch: gather_elements_grad: a group for each row of n_row columns; expert_matmul_grad: {ceil(m / rows),
 * experts} groups, each for `rows` rows of an expert's matrix [m, n]. All are dense.
 *   -D WG  work-items in a group */
#include "args.h"
#include "group.h"

GROUP_KERNEL
void gather_elements_grad(const gather_elements_args a, global float *out, global const float *d,
                          global const int *ids)
{
    const size_t row = get_group_id(0);
    d += a.x + row * a.k;
    ids += a.ids + row * a.k;
    out += row * a.n_row;
    for (uint c = get_local_id(0); c < a.n_row; c += WG) {
        float sum = 0;
        for (uint j = 0; j < a.k; j++)
            sum += ids[j] == (int)c ? d[j] : 0.0f;
        out[c] = sum;
    }
}

GROUP_KERNEL
void expert_matmul_grad(const expert_grad_args p, global float *out, global const float *a,
                        global const float *b, global const int *ids)
{
    const uint first = get_group_id(0) * p.rows, rows = min(p.rows, p.m - first), lane = get_local_id(0);
    const int expert = (int)get_group_id(1);
    out += ((size_t)expert * p.m + first) * p.n;
    a += p.a + first;
    b += p.b;
    ids += p.ids;
    for (uint r = 0; r < rows; r++)
        for (uint i = lane; i < p.n; i += WG)
            out[r * (size_t)p.n + i] = 0;
    for (uint t = 0; t < p.n_ids; t++) {
        if (ids[t] != expert)
            continue;
        global const float *x = a + t / p.share_a * (size_t)p.m, *y = b + t / p.share_b * (size_t)p.n;
        for (uint r = 0; r < rows; r++) {
            global float *to = out + r * (size_t)p.n;
            const float factor = x[r];
            uint i = lane;
#if WG == 1
            for (; i + 16 <= p.n; i += 16)
                vstore16(vload16(0, to + i) + factor * vload16(0, y + i), 0, to + i);
#endif
            for (; i < p.n; i += WG)
                to[i] += factor * y[i];
        }
    }
}

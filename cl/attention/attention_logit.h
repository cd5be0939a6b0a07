/* The logit of one key, for the attention kernels in which each work-item has a key. Include it after
 * attention.h. */
#ifndef CLEF_CL_ATTENTION_LOGIT_H
#define CLEF_CL_ATTENTION_LOGIT_H

/* The logit z of key s after the mask; -INFINITY if the mask drops it. */
static float masked(const attention_args *a, global const mask_elem *mask, size_t mask_row, int s, float z)
{
#if MASK == DTYPE_F32
    z += mask[mask_row + s * (size_t)a->mask.stride[3]];
#elif MASK >= 0
    if (!mask[mask_row + s * (size_t)a->mask.stride[3]])
        return -INFINITY;
#endif
    return z;
}

/* The logit of key s, which the query may see, from the product q . k; -INFINITY if the mask drops it. */
static float logit(const attention_args *a, global const mask_elem *mask, size_t mask_row, int s,
                   float product)
{
    float z = a->scale * product;
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
    return masked(a, mask, mask_row, s, z);
}

#endif

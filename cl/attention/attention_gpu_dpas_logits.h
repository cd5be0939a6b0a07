/* For attention_gpu_flash_dpas.cl: logits and weights of eight keys. Needs attention.h and
 * attention_halves.h. */
#ifndef CLEF_CL_ATTENTION_GPU_DPAS_LOGITS_H
#define CLEF_CL_ATTENTION_GPU_DPAS_LOGITS_H

/* What the work-item's query sees. */
typedef struct sight {
    size_t mask_row;
    int begin, end; /* keys */
} sight;

INLINED float seen(const attention_args *a, const sight *see, global const mask_elem *mask, int s, float z)
{
    return s >= see->begin && s < see->end ? masked(a, mask, see->mask_row, s, z) : -INFINITY;
}

/* The logits of keys s to s + 7. */
INLINED float8 seen_eight(const attention_args *a, const sight *see, global const mask_elem *mask, int s,
                          float8 z)
{
    return (float8)(seen(a, see, mask, s, z.s0), seen(a, see, mask, s + 1, z.s1),
                    seen(a, see, mask, s + 2, z.s2), seen(a, see, mask, s + 3, z.s3),
                    seen(a, see, mask, s + 4, z.s4), seen(a, see, mask, s + 5, z.s5),
                    seen(a, see, mask, s + 6, z.s6), seen(a, see, mask, s + 7, z.s7));
}

INLINED float max_eight(float8 z, float most)
{
    const float first = fmax(fmax(fmax(fmax(most, z.s0), z.s1), z.s2), z.s3);
    return fmax(fmax(fmax(fmax(first, z.s4), z.s5), z.s6), z.s7);
}

INLINED float8 weights_of(float8 z, float base)
{
    return (float8)(weight_of(z.s0, base), weight_of(z.s1, base), weight_of(z.s2, base),
                    weight_of(z.s3, base), weight_of(z.s4, base), weight_of(z.s5, base),
                    weight_of(z.s6, base), weight_of(z.s7, base));
}

INLINED float sum_eight(float8 z)
{
    return ((z.s0 + z.s1) + (z.s2 + z.s3)) + ((z.s4 + z.s5) + (z.s6 + z.s7));
}

#endif

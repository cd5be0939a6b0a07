/* For attention_gpu_flash_mma.cl: writes what a unit has summed. Needs attention_gpu_mma_softmax.h. */
#ifndef CLEF_CL_ATTENTION_GPU_MMA_STORE_H
#define CLEF_CL_ATTENTION_GPU_MMA_STORE_H

/* Writes the work-item's sums of one of its queries, times scale. r: which of them it is. */
INLINED void store_row(global float *to, const matrix_floats *acc, float scale, uint r, uint lane)
{
#if MATRIX == 1 && E % 64 == 0 /* eight parts have adjacent elements */
#  define FOUR(j, s) ((float4)(acc[j].s, acc[j + 1].s, acc[j + 2].s, acc[j + 3].s) * scale)
#  pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j += 4) {
        global float *first = to + element_of(j, matrix_token(0, lane)), *second = first + 8;
        *(global float4 *)first = r ? FOUR(j, z) : FOUR(j, x);
        *(global float4 *)second = r ? FOUR(j, w) : FOUR(j, y);
    }
#elif MATRIX == 4
#  pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j++)
        *(global float4 *)(to + element_of(j, matrix_token(0, lane))) = acc[j] * scale;
#else
#  pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j++) {
        float each[MATRIX_SUMS];
        MATRIX_STORE(acc[j], 0, each);
#  pragma unroll
        for (uint i = 0; i < MATRIX_SUMS; i++)
            if (SUM_ROW(i) == r)
                to[element_of(j, matrix_token(i, lane))] = each[i] * scale;
    }
#endif
}

/* Writes the work-item's sums of query `query`: results, or, if the keys are cut, a record for the merge. r:
 * which of its queries it is. */
INLINED void store(global float *out, global float *parts, const attention_args *a, const place *p,
                   const own_query *own, const matrix_floats *acc, uint query, uint r, uint lane)
{
    if (query >= p->queries)
        return;
    global float *to = out + out_at(a, p->b, p->hk, query, E);
    const float sum = own->sum / LARGEST;
    if (a->splits > 1) {
        to = parts + (out_at(a, p->b, p->hk, query, 1) * a->splits + p->part) * RECORD;
        if (is_first_of_row(lane)) {
            to[0] = own->most;
            to[1] = sum;
        }
        to += 4;
    }
    const float scale = (a->splits > 1 ? 1.0f : sum != 0 ? 1.0f / sum : 0.0f) / LARGEST;
    store_row(to, acc, scale, r, lane);
}

#endif

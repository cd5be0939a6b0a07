/* For attention_gpu_flash_mma.cl: the online softmax of the queries that a work-item has, and their logits.
 * Needs N_LOGITS, attention_gpu_mma_fragments.h, attention_logit.h and attention_gpu_parts.h. */
#ifndef CLEF_CL_ATTENTION_GPU_MMA_SOFTMAX_H
#define CLEF_CL_ATTENTION_GPU_MMA_SOFTMAX_H

/* One of the work-item's queries: what it sees, and its online softmax. */
typedef struct own_query {
    size_t mask_row;
    int begin, end; /* keys */
    float factor;   /* of its products */
    float most, sum;
    float base, kept; /* now: what logits are relative to, and the factor of what was summed before */
} own_query;

/* exp(z - base), times LARGEST; base_for() is below. */
#if EXACT
INLINED float base_for(float high) { return base_of(high); }
INLINED float part_of(float z, float base) { return weight_of(z, base); }
INLINED float large_weight(float z, float base) { return weight_of(z, base) * LARGEST; }
#else
/* Weights are rounded to halves, so the device's fast function is good enough. Its argument is never a
 * difference of infinities. */
INLINED float base_for(float high) { return high < -FLT_MAX ? 0.0f : high; }
INLINED float part_of(float z, float base) { return fast_exp2((z - base) * M_LOG2E_F); }
INLINED float large_weight(float z, float base) { return fast_exp2(fma(z - base, M_LOG2E_F, 15.0f)); }
#endif

/* softcap tanh(z / softcap) */
INLINED float capped(float z, float softcap)
{
#if EXACT
    return softcap * tanh(z / softcap);
#else
    const float x = fast_exp2(z * (2 * M_LOG2E_F / softcap)); /* exp(2 z / softcap), also if it is infinite */
    return softcap - 2 * softcap / (x + 1);
#endif
}

/* The logit of key s; -INFINITY if the query does not see it. */
INLINED float seen(const attention_args *a, const own_query *own, global const mask_elem *mask, int s,
                   float z)
{
    return s >= own->begin && s < own->end ? masked(a, mask, own->mask_row, s, z) : -INFINITY;
}

/* Products become logits; those of keys that a query does not see become -INFINITY. s0: the first key. */
INLINED void mask_logits(float *z, const attention_args *a, const own_query *own,
                         global const mask_elem *mask, int s0, uint lane)
{
    int all = MASK < 0;
#pragma unroll
    for (uint r = 0; r < OWN; r++)
        all = all && s0 >= own[r].begin && s0 + KEYS <= own[r].end;
    if (all)
        return;
#pragma unroll
    for (uint i = 0; i < N_LOGITS; i++) {
        const uint key = i / MATRIX_SUMS * MATRIX_TOKENS + matrix_token(i % MATRIX_SUMS, lane);
        z[i] = seen(a, &own[SUM_ROW(i % MATRIX_SUMS)], mask, s0 + (int)key, z[i]);
    }
}

/* Logits become weights, times LARGEST. */
UNIT_INLINED void weigh(float *z, own_query *own, matrix_scratch scratch)
{
#pragma unroll
    for (uint r = 0; r < OWN; r++) {
        float high = own[r].most;
#pragma unroll
        for (uint i = 0; i < N_LOGITS; i++)
            if (SUM_ROW(i % MATRIX_SUMS) == r)
                high = fmax(high, z[i]);
        high = row_max(high, scratch);
        own[r].base = base_for(high);
        own[r].kept = part_of(own[r].most, own[r].base);
        own[r].most = high;
        own[r].sum *= own[r].kept;
    }
#pragma unroll
    for (uint i = 0; i < N_LOGITS; i++) {
        own_query *of = &own[SUM_ROW(i % MATRIX_SUMS)];
        z[i] = large_weight(z[i], of->base);
        of->sum += z[i];
    }
}

#endif

/* For the kernels that multiply in tiles on units for small matrices: writes a unit's fragments of results.
 * Needs matrix.h and panel_gpu_epilogue.h. The kernel defines
 *   PART_ROW(e, lane), PART_TOKEN(e, lane)  row and token of element e of a fragment of sums
 *   TOKEN_SCALES                            1: the sums of a token are still to be scaled */
#ifndef CLEF_CL_PANEL_GPU_MMA_FINISH_H
#define CLEF_CL_PANEL_GPU_MMA_FINISH_H

#if !defined(PART_ROW) || !defined(PART_TOKEN) || !defined(TOKEN_SCALES)
#  error "panel_gpu_mma_finish.h needs PART_ROW, PART_TOKEN and TOKEN_SCALES"
#endif

/* 1: each result is written before the next is made. Otherwise everything is read before the first is
 * written, so that the loads wait together. With MFMA that takes registers from the loop over the columns,
 * and gated results have little to read. */
enum { ONE_BY_ONE = MATRIX == 4 && GATED };

/* 1: a load of a residual may depend on a condition. NVIDIA's instructions have one; elsewhere it would be a
 * branch, and the loads would not wait together. */
enum { LOADS_CHOOSE = MATRIX == 1 };

/* Writes a fragment of results, from row `row` and token `token` on. gate, v: the sums, as finished() takes
 * them. In place of scales and biases beyond the last, the last are read. Where results take the place of
 * the residual, another work-item may have written the last of those: it is not read, or the work-item's own
 * first is, which has the least row and token. */
static inline void finish_part(const panel_args *a, global float *out, PANEL_OUT_BUFS,
                               global const float *scales, matrix_floats gate, matrix_floats v, uint row,
                               uint token, uint lane)
{
    const uint first_row = row + PART_ROW(0, lane), first_token = token + PART_TOKEN(0, lane);
    float gates[MATRIX_SUMS], values[MATRIX_SUMS];
    if (!LOADS_CHOOSE && (first_row >= a->n || first_token >= a->m))
        return;
    MATRIX_STORE(gate, 0, gates);
    MATRIX_STORE(v, 0, values);
#pragma unroll
    for (uint e = 0; e < MATRIX_SUMS; e++) {
        const uint at = row + PART_ROW(e, lane), of = token + PART_TOKEN(e, lane);
        const int is_inside = at < a->n && of < a->m;
        const float scale = TOKEN_SCALES ? scales[min(of, a->m - 1)] : 1.0f;
        values[e] = activated(a, bias, min(at, a->n - 1), gates[e] * scale, values[e] * scale);
        if (RESIDUAL && (is_inside || !LOADS_CHOOSE))
            values[e] += residual[a->residual + (size_t)(is_inside ? of : first_token) * a->n +
                                  (is_inside ? at : first_row)];
        if (ONE_BY_ONE && is_inside)
            out[(size_t)of * a->n + at] = values[e];
    }
#pragma unroll
    for (uint e = 0; e < MATRIX_SUMS; e++) {
        const uint at = row + PART_ROW(e, lane), of = token + PART_TOKEN(e, lane);
        if (!ONE_BY_ONE && at < a->n && of < a->m)
            out[(size_t)of * a->n + at] = values[e];
    }
}

#endif

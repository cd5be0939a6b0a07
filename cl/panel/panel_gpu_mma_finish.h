/* For the kernels that multiply in tiles on units for small matrices: writes a unit's fragments of results.
 * Needs matrix.h and panel_gpu_epilogue.h. The kernel defines
 *   PART_ROW(e, lane), PART_TOKEN(e, lane)  row and token of element e of a fragment of sums
 *   TOKEN_SCALES                            whether the sums of a token lack a scale */
#ifndef CLEF_CL_PANEL_GPU_MMA_FINISH_H
#define CLEF_CL_PANEL_GPU_MMA_FINISH_H

/* Whether each result is written before the next is made. Otherwise everything is read before the first is
 * written, so that the loads wait together. AMD's compiler then takes registers that the loop over columns
 * lacks, and gated results have little to read. */
enum { ONE_BY_ONE = MATRIX == 4 && GATED };

/* Writes a fragment of results, from row `row` and token `token` on. gate, v: the sums, as finished() takes
 * them. Beyond the last row or token the last is read. */
static inline void finish_part(const panel_args *a, global float *out, PANEL_OUT_BUFS,
                               global const float *scales, matrix_floats gate, matrix_floats v, uint row,
                               uint token, uint lane)
{
    float gates[MATRIX_SUMS], values[MATRIX_SUMS];
    MATRIX_STORE(gate, 0, gates);
    MATRIX_STORE(v, 0, values);
#pragma unroll
    for (uint e = 0; e < MATRIX_SUMS; e++) {
        const uint at = row + PART_ROW(e, lane), of = token + PART_TOKEN(e, lane),
                   near = min(at, a->n - 1), near_token = min(of, a->m - 1);
        const float scale = TOKEN_SCALES ? scales[near_token] : 1.0f;
        values[e] = finished(a, PANEL_OUT, near_token, near, gates[e] * scale, values[e] * scale);
        if (ONE_BY_ONE && at < a->n && of < a->m)
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

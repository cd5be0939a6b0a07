/* For the kernels that multiply in tiles on units for small matrices: writes a unit's fragments of results.
 * Needs matrix.h and panel_gpu_epilogue.h. The kernel defines
 *   PART_ROW(e, lane), PART_TOKEN(e, lane)  row and token of element e of a fragment of sums
 *   TOKEN_SCALES                            1: the sums of a token are still to be scaled */
#ifndef CLEF_CL_PANEL_GPU_MMA_FINISH_H
#define CLEF_CL_PANEL_GPU_MMA_FINISH_H

/* Results of which all that they need is read before the first is written, so that the loads wait together.
 * With MFMA and a gate it is one: more take registers from the loop over the columns. */
enum { AT_ONCE = MATRIX == 4 && GATED ? 1 : MATRIX_SUMS };

/* Writes a fragment of results, from row `row` and token `token` on. gate, v: the sums, as finished() takes
 * them. Of a work-item's elements the first has the least row and token. In place of one beyond the last row
 * or token it is read once more: no other work-item writes it. So the loads need no branch. */
static inline void finish_part(const panel_args *a, global float *out, PANEL_OUT_BUFS,
                               global const float *scales, matrix_floats gate, matrix_floats v, uint row,
                               uint token, uint lane)
{
    const uint first_row = row + PART_ROW(0, lane), first_token = token + PART_TOKEN(0, lane);
    float gates[MATRIX_SUMS], values[MATRIX_SUMS];
    if (first_row >= a->n || first_token >= a->m)
        return;
    MATRIX_STORE(gate, 0, gates);
    MATRIX_STORE(v, 0, values);
#pragma unroll
    for (uint begin = 0; begin < MATRIX_SUMS; begin += AT_ONCE) {
#pragma unroll
        for (uint e = begin; e < begin + AT_ONCE; e++) {
            const uint at = row + PART_ROW(e, lane), of = token + PART_TOKEN(e, lane),
                       own_row = at < a->n ? at : first_row, own_token = of < a->m ? of : first_token;
            const float scale = TOKEN_SCALES ? scales[own_token] : 1.0f;
            values[e] = finished(a, PANEL_OUT, own_token, own_row, gates[e] * scale, values[e] * scale);
        }
#pragma unroll
        for (uint e = begin; e < begin + AT_ONCE; e++) {
            const uint at = row + PART_ROW(e, lane), of = token + PART_TOKEN(e, lane);
            if (at < a->n && of < a->m)
                out[(size_t)of * a->n + at] = values[e];
        }
    }
}

#endif

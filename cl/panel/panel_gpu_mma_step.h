/* For panel_gpu_gemm_mma.cl: brings the x of a step into local memory. Needs the lengths that it defines. */
#ifndef CLEF_CL_PANEL_GPU_MMA_STEP_H
#define CLEF_CL_PANEL_GPU_MMA_STEP_H

/* A step's part of x that a work-item copies. */
typedef struct x_part {
    uint4 words[COPIES];
    float d[NUMBER_COPIES], sums[NUMBER_COPIES];
} x_part;

static inline void x_fetch(x_part *p, const x_rows *x, uint token, uint step, uint item)
{
#pragma unroll
    for (uint c = 0; c < COPIES; c++) {
        const uint i = min(item + c * WG, (uint)QUARTERS - 1), s = i / (X_ROWS * 2);
        const size_t at = ((size_t)(step * STEP_SLICES + s) * x->rows + token) * 2 + i % (X_ROWS * 2);
        p->words[c] = ((global const uint4 *)x->slices)[at];
    }
#if BY_BLOCKS
#  pragma unroll
    for (uint c = 0; c < NUMBER_COPIES; c++) {
        const uint i = min(item + c * WG, (uint)NUMBERS - 1);
        const size_t at = (size_t)(step * PARTS * STEP + i / X_ROWS) * x->rows + token + i % X_ROWS;
        p->d[c] = x->d[at];
        p->sums[c] = HAS_SUMS ? x->sums[at] : 0.0f;
    }
#endif
}

UNIT_INLINED void x_store(const x_part *p, local uint4 *words, local float *d, local float *sums, uint item)
{
#pragma unroll
    for (uint c = 0; c < COPIES; c++) {
        const uint i = item + c * WG;
        if (QUARTERS % WG == 0 || i < QUARTERS)
            words[i / 2 * (X_WORDS / 4) + i % 2] = p->words[c];
    }
#if BY_BLOCKS
#  pragma unroll
    for (uint c = 0; c < NUMBER_COPIES; c++) {
        const uint i = item + c * WG;
        if (NUMBERS % WG == 0 || i < NUMBERS) {
            d[i] = p->d[c];
            if (HAS_SUMS)
                sums[i] = p->sums[c];
        }
    }
#endif
}

#endif

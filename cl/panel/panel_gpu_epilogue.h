/* The epilogue of a panel product on GPUs, for one element at a time. panel_cpu_epilogue.h is the one for
 * CPUs. */
#ifndef CLEF_CL_PANEL_GPU_EPILOGUE_H
#define CLEF_CL_PANEL_GPU_EPILOGUE_H

#include "panel_epilogue.h"

/* x / (1 + exp(-z)) */
static inline float times_sigmoid(float x, float z)
{
#ifdef MATRIX /* sums of products that were rounded to 16 bits or fewer */
    return x * fast_reciprocal(1.0f + fast_exp2(z * -M_LOG2E_F));
#else
    return x / (1.0f + exp(-z));
#endif
}

static inline float act(float x)
{
    switch (ACT) {
    case ACT_gelu:
        return 0.5f * x * (1.0f + erf(x * M_SQRT1_2_F));
    case ACT_gelu_tanh: /* as in elementwise.cl */
        return times_sigmoid(x, 1.5957691216f * (x + 0.044715f * x * x * x));
    case ACT_silu:
    case ACT_swiglu:
        return times_sigmoid(x, x);
    case ACT_relu:
        return fmax(x, 0.0f);
    default:
        return x;
    }
}

/* alpha v + bias[at], for a sum v. */
static inline float biased(const panel_args *a, global const bias_elem *bias, float v, uint at)
{
#if BIAS_TYPE >= 0
    return fma(a->alpha, v, LOAD(BIAS_TYPE, bias, a->bias + at));
#else
    return a->alpha * v;
#endif
}

/* The result of row `row` (below a->n) from its sum v, without the residual. If GATED, `gate` is the sum of
 * the gate and v that of up; otherwise `gate` is ignored. */
static inline float activated(const panel_args *a, global const bias_elem *bias, uint row, float gate,
                              float v)
{
#if GATED
    return act(biased(a, bias, gate, row)) * biased(a, bias, v, a->n + row);
#else
    return act(biased(a, bias, v, row));
#endif
}

/* The result of row `row`, as activated() takes it. */
static inline float finished(const panel_args *a, PANEL_OUT_BUFS, uint token, uint row, float gate, float v)
{
    v = activated(a, bias, row, gate, v);
#if RESIDUAL
    v += residual[a->residual + (size_t)token * a->n + row];
#endif
    return v;
}

/* Writes it. */
static inline void finish(const panel_args *a, global float *out, PANEL_OUT_BUFS, uint token, uint row,
                          float gate, float v)
{
    out[(size_t)token * a->n + row] = finished(a, PANEL_OUT, token, row, gate, v);
}

#endif

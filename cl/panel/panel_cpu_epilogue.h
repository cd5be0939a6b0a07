/* The epilogue of a panel product: out[token, row ..] = act(alpha v + bias) + residual. Needs panel_args,
 * BIAS_TYPE and ACT (an index in PANEL_ACTS). A kernel declares PANEL_OUT_BUFS as its last arguments and
 * passes PANEL_OUT to finish(). A program takes longer to compile than a tile takes to ask whether there are
 * a bias and a residual, so one program serves all (panel_args.has_bias, .has_residual). */
#ifndef CLEF_CL_PANEL_OUT_H
#define CLEF_CL_PANEL_OUT_H

#include "inline.h"
#include "panel_epilogue.h"

/* erf(z) within 4e-7, as z P(z^2) / Q(z^2). The fit covers |z| < 3.92; beyond, |erf| is 1 in a float. PoCL's
 * own erf computes one lane at a time. */
INLINED float16 erf16(float16 z)
{
    const float16 x = clamp(z, -3.92f, 3.92f), s = x * x;
    float16 p = s * 1.9916758e-08f - 1.99385909e-06f, q = s * 0.00102384249f + 0.0148874801f;
    p = fma(p, s, 0.000148949432f);
    p = fma(p, s, 0.00397193199f);
    p = fma(p, s, 0.0513946973f);
    p = fma(p, s, 0.206095964f);
    p = fma(p, s, 1.12837875f);
    q = fma(q, s, 0.117556825f);
    q = fma(q, s, 0.515976548f);
    q = fma(q, s, 1.0f);
    return x * p / q;
}

/* e to the power of z, but finite: where a driver builds with finite maths, an infinity may become NaN. The
 * largest value is so large that x / (1 + it) is 0 to within 1e-36 x. */
INLINED float16 finite_exp(float16 z)
{
    return exp(fmin(z, 88.0f));
}

INLINED float16 act(float16 x)
{
    switch (ACT) {
    case ACT_gelu:
        return 0.5f * x * (1.0f + erf16(x * M_SQRT1_2_F));
    case ACT_gelu_tanh: /* as in elementwise.cl */
        return x / (1.0f + finite_exp(-1.5957691216f * (x + 0.044715f * x * x * x)));
    case ACT_silu:
    case ACT_swiglu:
        return x / (1.0f + finite_exp(-x));
    case ACT_relu:
        return fmax(x, 0.0f);
    default:
        return x;
    }
}

/* Elements i .. i + 15 of p. Only the first n exist; the others read as 0. */
INLINED float16 first_of(global const float *p, size_t i, uint n)
{
    float lanes[PANEL_ROWS];
    if (n >= PANEL_ROWS)
        return vload16(0, p + i);
    for (uint r = 0; r < PANEL_ROWS; r++)
        lanes[r] = r < n ? p[i + r] : 0.0f;
    return vload16(0, lanes);
}

/* alpha v + bias for the sums v of 16 rows of w, of which the first n exist. `at` is the first row's index in
 * the bias. */
INLINED float16 biased(const panel_args *a, global const bias_elem *bias, float16 v, uint at, uint n)
{
    float lanes[PANEL_ROWS];
    v *= a->alpha;
    if (!a->has_bias)
        return v;
    if (n >= PANEL_ROWS)
        return v + LOAD16(BIAS_TYPE, bias, a->bias + at);
    for (uint r = 0; r < PANEL_ROWS; r++)
        lanes[r] = r < n ? LOAD(BIAS_TYPE, bias, a->bias + at + r) : 0.0f;
    return v + vload16(0, lanes);
}

INLINED void finished(const panel_args *a, global float *out, global const float *residual, uint token,
                      uint row, float16 v)
{
    const size_t at = (size_t)token * a->n + row;
    const uint n = a->n - row;
    if (a->has_residual)
        v += first_of(residual, a->residual + at, n);
    if (n >= PANEL_ROWS) {
        vstore16(v, 0, out + at);
        return;
    }
    float lanes[PANEL_ROWS];
    vstore16(v, 0, lanes);
    for (uint r = 0; r < n; r++)
        out[at + r] = lanes[r];
}

/* Writes the 16 results of a tile for one token, from the sums v. */
INLINED void finish(const panel_args *a, global float *out, PANEL_OUT_BUFS, uint token, uint row, float16 v)
{
    finished(a, out, residual, token, row, act(biased(a, bias, v, row, a->n - row)));
}

/* SwiGLU epilogue: activates the gate tile's sums and multiplies them by the up tile's. */
INLINED void finish_gated(const panel_args *a, global float *out, PANEL_OUT_BUFS, uint token, uint row,
                          float16 gate, float16 up)
{
    gate = act(biased(a, bias, gate, row, a->n - row));
    finished(a, out, residual, token, row, gate * biased(a, bias, up, a->n + row, a->n - row));
}

#endif

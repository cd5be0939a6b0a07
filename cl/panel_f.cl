/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], x in f32 and w a panel of floats (cl/panel.h), for NT tokens and two tiles of 16 rows.
 * Launch: {blocks of NT tokens, pairs of tiles}, one item a group; consecutive groups share the panel.
 *   -D NT         tokens a group
 *   -D W_TYPE     dtype of w: F32, F16, BF16
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE without
 *   -D ACT        place in PANEL_ACTS; swiglu makes one tile of the result of the two
 *   -D RESIDUAL   1: there is one to add */
#define WG 1
#include "args.h"
#include "weights.h"

#if !defined(NT) || !defined(W_TYPE) || !defined(BIAS_TYPE)
#  error "panel_f.cl needs NT, W_TYPE and BIAS_TYPE"
#endif
#include "panel_out.h"

/* A chain of sums for each of `CHAINS` columns in turn: few tokens would wait for the multiplier otherwise. */
#if NT == 1
enum { CHAINS = 4 };
#elif NT == 2
enum { CHAINS = 2 };
#else
enum { CHAINS = 1 };
#endif

kernel void panel_f(const panel_args a, global float *out, global const float *x, global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
    const uint pair = get_group_id(1), token = a.first + get_group_id(0) * NT;
    w += (size_t)pair * PANEL_PAD * a.k;
    x += a.x + (size_t)token * a.x_stride;
    float16 s[CHAINS][NT], u[CHAINS][NT];
#pragma unroll
    for (int c = 0; c < CHAINS; c++)
#pragma unroll
        for (int t = 0; t < NT; t++)
            s[c][t] = u[c][t] = 0;
    const size_t next = (size_t)PANEL_ROWS * a.k;
    uint k = 0;
    for (; k + CHAINS <= a.k; k += CHAINS)
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            const float16 v0 = LOAD16(W_TYPE, w, (k + c) * PANEL_ROWS), v1 = LOAD16(W_TYPE, w, next + (k + c) * PANEL_ROWS);
#pragma unroll
            for (int t = 0; t < NT; t++) {
                const float16 xt = x[t * a.x_stride + k + c];
                s[c][t] = fma(v0, xt, s[c][t]);
                u[c][t] = fma(v1, xt, u[c][t]);
            }
        }
    for (; k < a.k; k++) {
        const float16 v0 = LOAD16(W_TYPE, w, k * PANEL_ROWS), v1 = LOAD16(W_TYPE, w, next + k * PANEL_ROWS);
#pragma unroll
        for (int t = 0; t < NT; t++) {
            s[0][t] = fma(v0, (float16)x[t * a.x_stride + k], s[0][t]);
            u[0][t] = fma(v1, (float16)x[t * a.x_stride + k], u[0][t]);
        }
    }
#pragma unroll
    for (int t = 0; t < NT; t++) {
#pragma unroll
        for (int c = 1; c < CHAINS; c++) {
            s[0][t] += s[c][t];
            u[0][t] += u[c][t];
        }
#if GATED
        finish_gated(&a, out, PANEL_OUT, token + t, pair * PANEL_ROWS, s[0][t], u[0][t]);
#else
        finish(&a, out, PANEL_OUT, token + t, pair * PANEL_PAD, s[0][t]);
        if (pair * PANEL_PAD + PANEL_ROWS < a.n)
            finish(&a, out, PANEL_OUT, token + t, pair * PANEL_PAD + PANEL_ROWS, u[0][t]);
#endif
    }
}

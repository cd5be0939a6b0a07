/* Linear attention by the gated delta rule (arXiv:2412.06464), for q, k [B, T, n_k, D], v [B, T, H, E] and
 * a, b [B, T, H], with n = {B, T, H, E}. For each head, token after token, with k' = k / |k| and q' = q /
 * |q| / sqrt(D):
 *   S = exp(rates softplus(a + bias)) S
 *   S += k' (v - k'^T S) sigmoid(b)
 *   out = q'^T S
 * S [B, H, D, E] is the state, kept from step to step. Where a sequence begins (pos[b] is 0) it counts as 0.
 * Launch: ceil(E / columns) H B groups. Each work-item has one column of S, or 16 of them if WG is 1. out is
 * dense.
 *   -D WG         work-items in a group
 *   -D D          last dim of q and k
 *   -D RATE_TYPE, BIAS_TYPE  dtypes of rates and bias
 *   -D POS        0: every sequence begins here
 *   -D RUNS       1: the batch is the rows of a step (cl/args.h): T is 1, b numbers runs, and a run has the
 *                 state of its sequence */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(D) || !defined(RATE_TYPE) || !defined(BIAS_TYPE) || !defined(POS) || !defined(RUNS)
#  error "delta.cl needs WG, D, RATE_TYPE, BIAS_TYPE, POS and RUNS"
#endif

#include "memory.h"

GROUP_KERNEL
void gated_delta(STAGE_GROUP const delta_args a, global float *out, global const float *q,
                 global const float *k, global const float *v, global const float *by_a,
                 global const float *by_b, global const ELEM(RATE_TYPE) *rates,
                 global const ELEM(BIAS_TYPE) *bias, global float *state, global const int *pos
#if RUNS
                 ,
                 global const int *runs
#endif
)
{
    const uint H = a.n[2], E = a.n[3], blocks = (E + WG * COLUMNS - 1) / (WG * COLUMNS);
    const uint block = group_id(0) % blocks, h = group_id(0) / blocks % H,
               b = group_id(0) / blocks / H;
    const uint e = (block * WG + local_id(0)) * COLUMNS;
    if (e >= E)
        return;
    const uint n = E - e, of_k = h / a.group % a.n_k;
    const float rate = LOAD(RATE_TYPE, rates, a.rates + h), shift = LOAD(BIAS_TYPE, bias, a.bias + h);
#if RUNS
    runs += a.runs + b * RUN_WORDS;
    const uint sequence = (uint)runs[0], first = (uint)runs[1], T = (uint)runs[2];
#else
    const uint sequence = b, first = b, T = a.n[1];
#endif
    state += a.state + ((size_t)sequence * H + h) * D * E + e;
    column s[D];
#if POS
    const int is_kept = pos[a.pos + first] != 0;
#else
    const int is_kept = 0;
#endif
    for (uint d = 0; d < D; d++)
        s[d] = is_kept ? load(state + d * (size_t)E, n) : (column)0.0f;
    /* What a token makes of S is computed where the next token, or the end, reads S: keep S + last add^T. */
    global const float *last = k;
    float keep = 1;
    column add = 0;
    for (uint step = 0; step < T; step++) {
        const uint row = RUNS ? first + step : b, t = RUNS ? 0 : step;
        global const float *qt = q + at(&a.q, row, t, of_k), *kt = k + at(&a.k, row, t, of_k);
        column qq = 0, kk = 0, qk = 0, seen = 0, y = 0;
        for (uint d = 0; d < D; d += COLUMNS) {
            const column some_q = load(qt + d, D - d), some_k = load(kt + d, D - d);
            qq = fma(some_q, some_q, qq);
            kk = fma(some_k, some_k, kk);
            qk = fma(some_q, some_k, qk);
        }
        for (uint d = 0; d < D; d++) {
            s[d] = fma((column)last[d], add, s[d] * keep);
            seen = fma(s[d], (column)kt[d], seen);
            y = fma(s[d], (column)qt[d], y);
        }
        const float scale_q = 1.0f / sqrt((total(qq) + a.eps) * D), scale_k = 1.0f / sqrt(total(kk) + a.eps);
        const float x = number(by_a, &a.a, row, t, h) + shift;
        const float beta = 1.0f / (1.0f + exp(-number(by_b, &a.b, row, t, h)));
        keep = exp(rate * (x > 20.0f ? x : log1p(exp(x))));
        add = (load(v + at(&a.v, row, t, h) + e, n) - seen * (keep * scale_k)) * (beta * scale_k);
        last = kt;
        store((y * keep + add * total(qk)) * scale_q, out + (((size_t)row * a.n[1] + t) * H + h) * E + e, n);
    }
    for (uint d = 0; d < D; d++)
        store(fma((column)last[d], add, s[d] * keep), state + d * (size_t)E, n);
}

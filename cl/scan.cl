/* The selective scan of Mamba 2 (arXiv:2405.21060), for c, b [B, T, n_k, D], x [B, T, H, E] and dt [B, T, H],
 * with n = {B, T, H, E}. For each head, token after token, with step = softplus(dt + bias) within lo .. hi:
 *   S = exp(rates step) S + b (step x)^T
 *   out = c^T S + skip x
 * With EACH dt is [B, T, H, E], skip and bias are [H, E], and rates [H, E, D]: each column of S has its
 * own.
 * S [B, H, D, E] is the state, kept from step to step. Where a sequence begins (pos[b] is 0) it counts as 0.
 * Launch: ceil(E / columns) H B groups. Each work-item has one column of S, or 16 of them if WG is 1. out is
 * dense.
 *   -D WG         work-items in a group
 *   -D D          last dim of c and b
 *   -D RATE_TYPE, BIAS_TYPE, SKIP_TYPE  dtypes of rates, bias and skip
 *   -D EACH       1: as above
 *   -D POS        0: every sequence begins here
 *   -D RUNS       1: the batch is the rows of a step (cl/args.h): T is 1, b numbers runs, and a run has the
 *                 state of its sequence */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(D) || !defined(RATE_TYPE) || !defined(BIAS_TYPE) || !defined(SKIP_TYPE) || !defined(POS) ||\
    !defined(RUNS) || !defined(EACH)
#  error "scan.cl needs WG, D, RATE_TYPE, BIAS_TYPE, SKIP_TYPE, EACH, POS and RUNS"
#endif

#include "memory.h"

#if EACH
LOAD_COLUMN(load_rates, RATE_TYPE)
LOAD_COLUMN(load_bias, BIAS_TYPE)
LOAD_COLUMN(load_skip, SKIP_TYPE)
typedef column pace;
#else
typedef float pace;
#endif

GROUP_KERNEL
void selective_scan(STAGE_GROUP const delta_args a, global float *out, global const float *by_c,
                    global const float *by_b, global const float *x, global const float *dt,
                    global const ELEM(SKIP_TYPE) *skip,
                    global const ELEM(RATE_TYPE) *rates, global const ELEM(BIAS_TYPE) *bias,
                    global float *state, global const int *pos
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
#if EACH
    const size_t first_of = (size_t)h * E + e;
    const pace shift = load_bias(bias, a.bias + first_of, 1, n),
               by = load_skip(skip, a.b.offset + first_of, 1, n);
    pace rate[D];
    for (uint d = 0; d < D; d++)
        rate[d] = load_rates(rates, a.rates + first_of * D + d, D, n);
#else
    const pace rate = LOAD(RATE_TYPE, rates, a.rates + h), shift = LOAD(BIAS_TYPE, bias, a.bias + h),
               by = LOAD(SKIP_TYPE, skip, a.b.offset + h);
#endif
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
    for (uint i = 0; i < T; i++) {
        const uint row = RUNS ? first + i : b, t = RUNS ? 0 : i;
        global const float *ct = by_c + at(&a.q, row, t, of_k), *bt = by_b + at(&a.k, row, t, of_k);
#if EACH
        const pace raw = load(dt + at(&a.a, row, t, h) + e, n) + shift;
#else
        const pace raw = number(dt, &a.a, row, t, h) + shift;
#endif
        const pace step = clamp(select(log1p(exp(raw)), raw, isgreater(raw, (pace)20.0f)), a.lo, a.hi);
        const column now = load(x + at(&a.v, row, t, h) + e, n), change = now * step;
        column y = now * by;
#if !EACH
        const pace decay = exp(rate * step);
#endif
        for (uint d = 0; d < D; d++) {
#if EACH
            s[d] = fma(s[d], exp(rate[d] * step), (column)bt[d] * change);
#else
            s[d] = fma(s[d], (column)decay, (column)bt[d] * change);
#endif
            y = fma(s[d], (column)ct[d], y);
        }
        store(y, out + (((size_t)row * a.n[1] + t) * H + h) * E + e, n);
    }
    for (uint d = 0; d < D; d++)
        store(s[d], state + d * (size_t)E, n);
}

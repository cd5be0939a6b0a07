/* out[b, t, c] = sum_j w[c, j] x[b, t + j - (TAPS - 1), c]. Positions before this step come from state[b,
 * .., c], which then receives the last TAPS - 1 positions of this step. Where a sequence begins (pos[b]
 * is 0) the state counts as 0.
 * Launch: ceil(n_c / channels) n_b groups. out is dense, and is not x.
 *   -D WG      work-items in a group
 *   -D TAPS    columns of w
 *   -D W_TYPE  dtype of w
 *   -D POS     0: every sequence begins here
 *   -D RUNS    1: b numbers the runs of a step's rows (cl/args.h): x is [rows, C], and a run has the
 *              state of its sequence */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(TAPS) || !defined(W_TYPE) || !defined(POS) || !defined(RUNS)
#  error "conv.cl needs WG, TAPS, W_TYPE, POS and RUNS"
#endif

#include "memory.h"

LOAD_COLUMN(load_by, W_TYPE)

GROUP_KERNEL
void causal_conv(STAGE_GROUP const conv_args a, global float *out, global const float *x,
                 global const ELEM(W_TYPE) *w, global float *state, global const int *pos
#if RUNS
                 ,
                 global const int *runs
#endif
)
{
    const uint blocks = (a.n_c + a.channels - 1) / a.channels, first = group_id(0) % blocks * a.channels,
               b = group_id(0) / blocks;
#if RUNS
    runs += a.runs + b * RUN_WORDS;
    const uint sequence = (uint)runs[0], row = (uint)runs[1], n_t = (uint)runs[2], step = a.x.stride[1];
#else
    const uint sequence = b, row = b * a.n_t, n_t = a.n_t, step = a.x.stride[2];
#endif
#if POS
    const int is_kept = pos[a.pos + (RUNS ? row : b)] != 0;
#else
    const int is_kept = 0;
#endif
    state += a.state + (size_t)sequence * (TAPS - 1) * a.n_c;
    x += a.x.offset + (RUNS ? row : b) * (size_t)a.x.stride[1];
    out += (size_t)row * a.n_c;
    for (uint c = first + local_id(0) * COLUMNS; c < min(first + a.channels, a.n_c); c += WG * COLUMNS) {
        const uint n = a.n_c - c;
        column seen[TAPS], by[TAPS]; /* the last one is the current position */
        for (uint j = 0; j < TAPS; j++)
            by[j] = load_by(w, a.w + (size_t)c * TAPS + j, TAPS, n);
        for (uint j = 0; j + 1 < TAPS; j++)
            seen[j] = is_kept ? load(state + j * (size_t)a.n_c + c, n) : (column)0.0f;
        for (uint t = 0; t < n_t; t++) {
            seen[TAPS - 1] = load(x + t * (size_t)step + c, n);
            column sum = 0;
            for (uint j = 0; j < TAPS; j++)
                sum = fma(by[j], seen[j], sum);
            store(sum, out + t * (size_t)a.n_c + c, n);
            for (uint j = 0; j + 1 < TAPS; j++)
                seen[j] = seen[j + 1];
        }
        for (uint j = 0; j + 1 < TAPS; j++)
            store(seen[j], state + j * (size_t)a.n_c + c, n);
    }
}

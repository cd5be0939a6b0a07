/* How a token is sampled from logits, to the bit: the host's sampler and the reference of the op `sample` are
 * this code, its kernels (cl/sample/sample.cl) the same arithmetic in another order. All sums are of
 * integers, so that no order of them changes a token.
 *
 *   penalty   z = logit; of a token among the last n: z / p where z > 0, else z p (arXiv:1909.05858); 1 / p
 *             is rounded to float before
 *   none      -1 where a z is NaN or +inf, or all are -inf
 *   distance  x = (max z - z) * scale; two float roundings; kept as X = floor(2^24 x), SAMPLE_FAR from 40
 *             on. scale = log2(e) / temperature, or log2(e) where limits cut at a temperature of 1
 *   weight    w = 2^-x in units of 2^-40, by a polynomial of degree 5 over integers (within 7e-8 of the
 *             true one)
 *   order     smaller X first, of equals the lower id
 *   top-k     the first k
 *   top-p     of these the fewest first whose weights reach floor(p sum), at least one (arXiv:1904.09751);
 *             p in 2^-32
 *   min-p     of these those with w >= floor(p 2^40) (arXiv:2407.01082)
 *   scale     with a draw_scale = log2(e) / temperature, what is left with w > 0 gets its weight by it
 *   draw      R = draw n of SplitMix64 (Steele, Lea, Flood 2014: a counter, mixed) for the seed; the first
 *             id, in rising order, with which the sum of weights goes beyond floor(R sum / 2^64)
 *   greedy    the lowest id of the largest z */
#ifndef CLEF_GRAPH_SAMPLE_H
#define CLEF_GRAPH_SAMPLE_H

#include <stdint.h>

#include "cl/args.h"

#define SAMPLE_FAR    INT32_MAX
#define SAMPLE_REACH  ((uint32_t)40 << 24)

typedef struct clef_candidate {
    float    z;
    uint32_t distance;
    uint64_t weight;
    int32_t  id;
} clef_candidate;

/** The token sampled from logits [n], or -1. o->last_n is not looked at: `recent` names the n_recent tokens
 *  to penalise (others than 0 .. n - 1 are passed over). draw: number of the draw, from 0; row: of the batch
 *  (row 0 draws what the seed says). c: room for n candidates. */
int32_t clef__sample_pick(const sample_options *o, const float *logits, int32_t n, const int32_t *recent,
                          int32_t n_recent, uint64_t draw, uint32_t row, clef_candidate *c);

/** The 64 random bits R of a draw. */
uint64_t clef__sample_bits(uint64_t seed, uint64_t draw, uint32_t row);

#endif

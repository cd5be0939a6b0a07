/* Where the rules of graph/op/sample.h cut a row, for sample.cl: rounded numbers, and limits found by
 * bisection. Needs WG. */
#ifndef CLEF_CL_SAMPLE_LIMITS_H
#define CLEF_CL_SAMPLE_LIMITS_H

#include "sample_blocks.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static wide_ulong as_mask(wide_int mask)
{
    return TO(ulong)(TO(long)(mask));
}

static wide_int distance_below(float most, wide_float z, float scale)
{
    const wide_float x = (most - z) * scale;
    return select((wide_int)FAR, TO(int)(x * 16777216.0f), x < 40.0f);
}

static wide_uint mul_high(wide_uint a, wide_uint b)
{
    return TO(uint)(TO(ulong)(a) * TO(ulong)(b) >> 32);
}

static wide_ulong weight(wide_int far)
{
    const wide_uint u = TO(uint)(far) << 8;
    wide_uint h = 39582419u - mul_high(4073454u, u);
    h = 237543469u - mul_high(h, u);
    h = 1031582456u - mul_high(h, u);
    h = 2977031600u - mul_high(h, u);
    h = mul_high(h, u);
    const wide_ulong w = ((wide_ulong)(1UL << 32) - TO(ulong)(h)) << 8 >> TO(ulong)(far >> 24);
    return w & as_mask(MASK(far < (40 << 24)));
}

static ulong mix_bits(ulong z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9UL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebUL;
    return z ^ z >> 31;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The first elements in order: those nearer than `far`, and of those at distance `far` the ones before index
 * `ties`. */
typedef struct limit {
    int  far;
    uint ties;
} limit;

static wide_int is_in(wide_int d, uint i, limit in)
{
    return MASK(d < in.far) | (MASK(d == in.far) & MASK((wide_int)(i * WIDE) + LANES < (wide_int)in.ties));
}

/* How many of the n distances x are within the limit, or, with w, the sum of their weights. n is a multiple
 * of 16. */
static ulong measure(global const int *x, global const ulong *w, uint n, limit in, sum_scratch s)
{
    wide_ulong sum = 0;
    wide_int count =
        0; /* counted down, here and below, because Oclgrind computes 255 for -(a < b) of vectors
              (docs/drivers.md) */
    for (uint i = local_id(0); i < n / WIDE; i += WG) {
        const wide_int mask = is_in(LOAD_WIDE(i, x), i, in);
        if (w)
            sum += LOAD_WIDE(i, w) & as_mask(mask);
        else
            count += mask;
    }
    return sum_all(sum_wide(w ? sum : TO(ulong)(-count)), s);
}

/* The distance of the k-th nearest of n: the largest distance to which fewer than k are nearer. */
static int kth_nearest(global const int *x, uint n, uint k, sum_scratch s)
{
    int at = 0;
    for (int bit = 1 << 30; bit > 0; bit >>= 1) {
        wide_int mine = 0;
        for (uint i = local_id(0); i < n / WIDE; i += WG)
            mine += MASK(LOAD_WIDE(i, x) < at + bit);
        at += sum_all(sum_wide(TO(ulong)(-mine)), s) < k ? bit : 0;
    }
    return at;
}

enum { FIRST_STEP, FAR_STEPS = 32, TIE_STEPS = 64 };

/* Tightens a limit to the fewest elements that top-k, then top-p allow: by bisection of the distance, then of
 * the index among equals. It is one loop with one call of measure(), because every inlined copy of its
 * barriers is expensive to compile. */
static limit limit_of(global const sample_options *o, row_memory m, uint n, sum_scratch s)
{
    limit in;
    in.far = FAR;
    in.ties = n;
    for (int stage = 0; stage < 2; stage++) {
        global const ulong *w = stage ? m.weights : 0;
        ulong wanted = 0;
        int lo = 0, hi = 0; /* of the distance */
        uint low = 0, high = 0; /* of the index */
        bool on = stage ? o->top_p != 0 : o->top_k > 0 && (uint)o->top_k < n;
        for (int step = FIRST_STEP; step < TIE_STEPS && on; step++) {
            limit at = in;
            if (step > FIRST_STEP && step < FAR_STEPS) {
                at.far = lo + (hi - lo) / 2;
                at.ties = at.far == in.far ? in.ties : n;
            } else if (step >= FAR_STEPS) {
                at.far = hi;
                at.ties = low + (high - low) / 2;
            }
            const ulong sum = measure(m.distances, w, n, at, s);
            if (step == FIRST_STEP) {
                wanted = stage ? max((sum >> 32) * o->top_p + ((sum & 0xffffffffUL) * o->top_p >> 32), 1UL)
                               : (ulong)o->top_k;
                hi = in.far;
            } else if (step < FAR_STEPS) {
                hi = sum >= wanted ? at.far : hi;
                lo = sum >= wanted ? lo : at.far + 1;
            } else {
                high = sum >= wanted ? at.ties : high;
                low = sum >= wanted ? low : at.ties + 1;
            }
            if (step == FAR_STEPS - 1)
                high = hi == in.far ? in.ties : n;
            on = step < FAR_STEPS || low < high;
        }
        if (high) {
            in.far = hi;
            in.ties = high;
        }
    }
    return in;
}

#endif

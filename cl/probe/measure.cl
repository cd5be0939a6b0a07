/* Measures a device's limits with kernels that only read, only copy, only multiply and add, or do nothing
 * (runtime/device/measure.c). Each stores a value that depends on all its work, so that no compiler can
 * remove it.
 * Launch: groups of WG work-items; a group has `span` of the n vectors.
 *   -D WG     work-items in a group, a power of two
 *   -D WIDTH  floats of a native vector: 1, 2, 4, 8 or 16
 *   -D FUSED  1: measure_mad uses fma(), 0: mad() */
#include "args.h"
#include "fetch.h"
#include "group.h"

#if !defined(WIDTH) || !defined(FUSED)
#  error "measure.cl needs WG, WIDTH and FUSED"
#endif

/* A work-item that is alone in its group reads a cache line at once. In a larger group the reads of
 * neighbours are adjacent. */
#if WG == 1
typedef uint16 words;
enum { WORDS = 16 };
#  define FIRST(w) (w).s0123 + (w).s4567 + (w).s89ab + (w).scdef
#else
typedef uint4 words;
enum { WORDS = 4 };
#  define FIRST(w) (w)
#endif

#if WIDTH == 1
typedef float lanes;
#elif WIDTH == 2
typedef float2 lanes;
#elif WIDTH == 4
typedef float4 lanes;
#elif WIDTH == 8
typedef float8 lanes;
#else
typedef float16 lanes;
#endif

/* Where fma() is one instruction, mad() may be two (it is in PoCL); elsewhere fma() is a long function. The
 * host tries both. */
#if FUSED
#  define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#  define MULTIPLY_ADD(a, b, c) mad(a, b, c)
#endif

/* x[i] = i, for each word. */
GROUP_KERNEL
void measure_fill(const measure_args a, global words *x)
{
    const uint first = get_group_id(0) * a.span, end = min(first + a.span, a.n);
    for (uint i = first + get_local_id(0); i < end; i += WG) {
        words w;
        for (uint k = 0; k < WORDS; k++)
            ((uint *)&w)[k] = i * WORDS + k;
        x[i] = w;
    }
}

/* out[item] = the sum of the words that the work-item read, modulo 2^32. */
GROUP_KERNEL
void measure_read(const measure_args a, global uint *out, global const words *x)
{
    const uint first = get_group_id(0) * a.span, end = min(first + a.span, a.n);
    words s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    uint i = first + get_local_id(0);
    for (; i + 3 * WG < end; i += 4 * WG) {
        s0 += x[i];
        s1 += x[i + WG];
        s2 += x[i + 2 * WG];
        s3 += x[i + 3 * WG];
    }
    for (; i < end; i += WG)
        s0 += x[i];
    s0 += s1 + s2 + s3;
    const uint4 s = FIRST(s0);
    out[get_global_id(0)] = s.x + s.y + s.z + s.w;
}

#if WG == 1
/* measure_read with prefetches, from four places of the span at once. Processors differ in which way is
 * fastest, and products read in both ways. */
enum { LINES_AHEAD = FETCH_AHEAD / LINE_BYTES };

GROUP_KERNEL
void measure_read_ahead(const measure_args a, global uint *out, global const words *x)
{
    const uint first = get_group_id(0) * a.span, end = min(first + a.span, a.n);
    words s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (uint i = first; i < end; i += 4) { /* spans are multiples of four */
        FETCH(x + i + LINES_AHEAD);
        FETCH(x + i + LINES_AHEAD + 1);
        FETCH(x + i + LINES_AHEAD + 2);
        FETCH(x + i + LINES_AHEAD + 3);
        s0 += x[i];
        s1 += x[i + 1];
        s2 += x[i + 2];
        s3 += x[i + 3];
    }
    s0 += s1 + s2 + s3;
    const uint4 s = FIRST(s0);
    out[get_group_id(0)] = s.x + s.y + s.z + s.w;
}

GROUP_KERNEL
void measure_read_streams(const measure_args a, global uint *out, global const words *x)
{
    const uint first = get_group_id(0) * a.span, apart = a.span / 4;
    words s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (uint i = first; i < first + apart; i++) {
        s0 += x[i];
        s1 += x[i + apart];
        s2 += x[i + 2 * apart];
        s3 += x[i + 3 * apart];
    }
    s0 += s1 + s2 + s3;
    const uint4 s = FIRST(s0);
    out[get_group_id(0)] = s.x + s.y + s.z + s.w;
}
#endif

GROUP_KERNEL
void measure_copy(const measure_args a, global words *out, global const words *x)
{
    const uint first = get_group_id(0) * a.span, end = min(first + a.span, a.n);
    for (uint i = first + get_local_id(0); i < end; i += WG)
        out[i] = x[i];
}

/* Ten independent chains: more than a multiply-add's latency in cycles times the number that a core starts in
 * a cycle. */
GROUP_KERNEL
void measure_mad(const measure_args a, global lanes *out)
{
    const lanes m = a.scale, c = a.shift;
    lanes r0 = 0.0f, r1 = 0.1f, r2 = 0.2f, r3 = 0.3f, r4 = 0.4f, r5 = 0.5f, r6 = 0.6f, r7 = 0.7f, r8 = 0.8f,
          r9 = 0.9f;
    for (uint i = 0; i < a.rounds; i++) {
        r0 = MULTIPLY_ADD(r0, m, c);
        r1 = MULTIPLY_ADD(r1, m, c);
        r2 = MULTIPLY_ADD(r2, m, c);
        r3 = MULTIPLY_ADD(r3, m, c);
        r4 = MULTIPLY_ADD(r4, m, c);
        r5 = MULTIPLY_ADD(r5, m, c);
        r6 = MULTIPLY_ADD(r6, m, c);
        r7 = MULTIPLY_ADD(r7, m, c);
        r8 = MULTIPLY_ADD(r8, m, c);
        r9 = MULTIPLY_ADD(r9, m, c);
    }
    out[get_global_id(0)] = r0 + r1 + r2 + r3 + r4 + r5 + r6 + r7 + r8 + r9;
}

GROUP_KERNEL
void measure_nothing(const measure_args a, global uint *out)
{
    if (get_local_id(0) == 0)
        out[get_group_id(0)] = a.n;
}

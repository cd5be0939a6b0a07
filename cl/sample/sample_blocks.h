/* Logits in blocks of 64, for sample.cl: a row's scratch memory, its vectors (work-items share a row, or a
 * single one processes 16 elements at once), sums and minima over the group, and the maximum of each block.
 * Needs WG. */
#ifndef CLEF_CL_SAMPLE_BLOCKS_H
#define CLEF_CL_SAMPLE_BLOCKS_H

#include "group.h"
#include "weights.h"

#define BLOCK SAMPLE_BLOCK
#define FAR   INT_MAX

/* A work-item alone processes 16 elements at once, else one. MASK and MASK_LONG: all bits are set where a
 * comparison is true. */
#if WG == 1
#  define WIDE 16
#  define MASK(c)      (c)
#  define MASK_LONG(c) as_ulong16(c)
#  define LANES        (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#  define LOAD_WIDE(i, p)     vload16(i, p)
#  define STORE_WIDE(x, i, p) vstore16(x, i, p)
#  define TO(type)     convert_##type##16
typedef float16 wide_float;
typedef int16 wide_int;
typedef uint16 wide_uint;
typedef ulong16 wide_ulong;
#  define GROUP_SYNC()
#  define STORE_SAME(p, x) (*(p) = (x))
#  define SUM_SCRATCH(name) ulong *const name = 0
typedef ulong *sum_scratch;
static ulong sum_all(ulong x, sum_scratch s) { return x; }
static ulong sum_before(ulong x, sum_scratch s) { return 0; }
static uint min_all(uint x, sum_scratch s) { return x; }

static ulong sum_wide(ulong16 v)
{
    const ulong8 a = v.lo + v.hi;
    const ulong4 b = a.lo + a.hi;
    return b.x + b.y + b.z + b.w;
}

static float max_wide(float16 v)
{
    return max16(v);
}

#else
#  define WIDE 1
#  define MASK(c)      (-(int)(c))
#  define MASK_LONG(c) ((ulong) - (long)(c))
#  define LANES        0
#  define LOAD_WIDE(i, p)     (p)[i]
#  define STORE_WIDE(x, i, p) ((p)[i] = (x))
#  define TO(type)     convert_##type
typedef float wide_float;
typedef int wide_int;
typedef uint wide_uint;
typedef ulong wide_ulong;
#  define GROUP_SYNC() barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE)
#    define STORE_SAME(p, x)                                                                                 \
        ((void)atomic_xchg((volatile global float *)(p),                                                     \
                           x)) /* several work-items may store the same value there */
#    define SUM_SCRATCH(name) local ulong name[WG]
typedef local ulong *sum_scratch;

static ulong sum_wide(ulong v)
{
    return v;
}

static float max_wide(float v)
{
    return v;
}

/* Each work-item adds up all values: this takes two barriers, where a tree has one for each step. */
static ulong sum_range(ulong x, uint n, sum_scratch s)
{
    s[local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    x = 0;
    for (uint j = 0; j < n; j++)
        x += s[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
}

static ulong sum_all(ulong x, sum_scratch s)
{
    return sum_range(x, WG, s);
}

static ulong sum_before(ulong x, sum_scratch s)
{
    return sum_range(x, local_id(0), s);
}

static uint min_all(uint x, sum_scratch s)
{
    s[local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < WG; j++)
        x = min(x, (uint)s[j]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
}
#endif

/* A row's part of the scratch memory; graph/op/op_sample.c computes its size. */
typedef struct row_memory {
    global ulong *weights;   /* of the examined logits, in the order of the blocks in `list` */
    global int   *distances;
    global float *z;         /* logits after penalties */
    global float *maxima;    /* of each block */
    global int   *nearest;   /* distance of each block's maximum from the largest */
    global uint  *list;      /* the examined blocks */
} row_memory;

static row_memory memory_of(const sample_args *a, global ulong *scratch, uint row)
{
    const size_t blocks = a->blocks, elements = blocks * BLOCK;
    row_memory m;
    m.weights = scratch + row * (elements * 2 + blocks / 2 * 3);
    m.distances = (global int *)(m.weights + elements);
    m.z = (global float *)(m.distances + elements);
    m.maxima = m.z + elements;
    m.nearest = (global int *)(m.maxima + blocks);
    m.list = (global uint *)(m.nearest + blocks);
    return m;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Logits of vector i; -inf beyond the row. */
static wide_float load_logits(global const float *z, uint i, uint n)
{
#if WG == 1
    if (i + 16 <= n)
        return vload16(0, z + i);
    float tail[16];
    for (uint k = 0; k < 16; k++)
        tail[k] = i + k < n ? z[i + k] : -INFINITY;
    return vload16(0, tail);
#else
    return i < n ? z[i] : -INFINITY;
#endif
}

static void keep_history(const sample_args *a, uint row, global int *history, global const int *ids, int pos)
{
    for (uint t = local_id(0); t < a->length; t += WG)
        if (pos >= 0 && (uint)pos + t < a->capacity)
            history[a->history + row * (size_t)a->capacity + pos + t] =
                ids[a->ids + row * (size_t)a->length + t];
}

/* Copies blocks [first, last) of the logits to z, with the penalty for recent tokens. */
static void penalise(const sample_args *a, global const sample_options *o, uint row, uint first, uint last,
                     global const int *history, global const int *ids, int pos, global const float *logits,
                     global float *z)
{
    const int end = pos + (int)a->length;
    const uint n = a->n_vocab, from = first * BLOCK, to = min(last * BLOCK, n);
    for (uint i = first * (BLOCK / WIDE) + local_id(0); i < last * (BLOCK / WIDE); i += WG)
        STORE_WIDE(load_logits(logits, i * WIDE, n), i, z);
    GROUP_SYNC();
    for (int q = max(end - o->last_n, 0) + (int)local_id(0); q < end; q += WG) {
        int id = -1;
        if (q >= pos)
            id = ids[a->ids + row * (size_t)a->length + (q - pos)];
        else if ((uint)q < a->capacity)
            id = history[a->history + row * (size_t)a->capacity + q];
        if (id >= (int)from && id < (int)to) /* applied to the original logit, so once for each token,
                                                however often it occurs */
            STORE_SAME(z + id, logits[id] > 0 ? logits[id] * o->inverse_penalty : logits[id] * o->penalty);
    }
    GROUP_SYNC();
}

static void blocks_of_row(const sample_args *a, global const sample_options *o, row_memory m, uint row,
                          uint first, uint last, global const int *history, global const int *ids, int pos,
                          global const float *logits)
{
    global const float *z = logits;
    if (o->last_n > 0) {
        penalise(a, o, row, first, last, history, ids, pos, logits, m.z);
        z = m.z;
    }
    for (uint b = first + local_id(0); b < last; b += WG) {
        wide_float most = -INFINITY; /* inf where a logit is NaN */
        for (uint k = 0; k < BLOCK; k += WIDE) {
            const wide_float x = load_logits(z, b * BLOCK + k, a->n_vocab);
            most = fmax(most, select(x, (wide_float)INFINITY, isnan(x)));
        }
        m.maxima[b] = max_wide(most);
    }
}

#endif

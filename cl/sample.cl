/* The next token of each row of logits [B, V], by the chain of graph/sample.h, to the bit: sums are of integers, so that their order does
 * not matter. Then ids[b] = token and pos[b] += T, for a next step of one token a row; history[b, pos[b] + t] = ids[b, t] before that.
 *   sample_blocks  launch: `span` blocks of 64 logits a group, rows in dim 1; the maximum of each block; penalties; history
 *   sample_pick    launch: one group a row
 *   sample_whole   launch: one group; both for a single row
 * Most rows are decided by few blocks: the k-th largest maximum of a block bounds the k-th largest logit from below, and blocks under it
 * are not looked at again. Limits are found by bisection of distances.
 *   -D WG  work-items a group */
#include "args.h"
#include "group.h"
#include "weights.h"

#define BLOCK SAMPLE_BLOCK
#define FAR   INT_MAX

/* A work-item alone takes 16 elements at once, one of many takes one. MASK and MASK_LONG: all bits set where a comparison holds. */
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
#  define SUM_SCRATCH(name) local ulong name[WG]
typedef local ulong *sum_scratch;

static ulong sum_wide(ulong v)
{
    return v;
}

static float max_wide(float v)
{
    return v;
}

/* Each adds what all have: two barriers, where a tree has one a step. */
static ulong sum_range(ulong x, uint n, sum_scratch s)
{
    s[get_local_id(0)] = x;
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
    return sum_range(x, get_local_id(0), s);
}

static uint min_all(uint x, sum_scratch s)
{
    s[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < WG; j++)
        x = min(x, (uint)s[j]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
}
#endif

/* What a row has in the scratch memory; graph/op_sample.c counts the bytes. */
typedef struct row_memory {
    global ulong *weights;   /* of the logits looked at, in blocks as `list` says */
    global int   *distances;
    global float *z;         /* logits after penalties */
    global float *maxima;    /* of each block */
    global int   *nearest;   /* distance of each block's maximum */
    global uint  *list;      /* the blocks looked at */
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

/* ---- blocks ------------------------------------------------------------------------------------------------------------------- */

/* -inf beyond the row. */
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
    for (uint t = get_local_id(0); t < a->length; t += WG)
        if (pos >= 0 && (uint)pos + t < a->capacity)
            history[a->history + row * (size_t)a->capacity + pos + t] = ids[a->ids + row * (size_t)a->length + t];
}

/* Blocks [first, last) of z = logits, with what came lately made less likely. */
static void penalise(const sample_args *a, global const sample_options *o, uint row, uint first, uint last, global const int *history,
                     global const int *ids, int pos, global const float *logits, global float *z)
{
    const int end = pos + (int)a->length;
    const uint n = a->n_vocab, from = first * BLOCK, to = min(last * BLOCK, n);
    for (uint i = first * (BLOCK / WIDE) + get_local_id(0); i < last * (BLOCK / WIDE); i += WG)
        STORE_WIDE(load_logits(logits, i * WIDE, n), i, z);
    GROUP_SYNC();
    for (int q = max(end - o->last_n, 0) + (int)get_local_id(0); q < end; q += WG) {
        int id = -1;
        if (q >= pos)
            id = ids[a->ids + row * (size_t)a->length + (q - pos)];
        else if ((uint)q < a->capacity)
            id = history[a->history + row * (size_t)a->capacity + q];
        if (id >= (int)from && id < (int)to) /* once, however often it came: from the logit */
            z[id] = logits[id] > 0 ? logits[id] * o->inverse_penalty : logits[id] * o->penalty;
    }
    GROUP_SYNC();
}

static void blocks_of_row(const sample_args *a, global const sample_options *o, row_memory m, uint row, uint first, uint last,
                          global int *history, global const int *ids, int pos, global const float *logits)
{
    global const float *z = logits;
    if (o->last_n > 0) {
        penalise(a, o, row, first, last, history, ids, pos, logits, m.z);
        z = m.z;
    }
    for (uint b = first + get_local_id(0); b < last; b += WG) {
        wide_float most = -INFINITY; /* fmax passes over NaNs */
        for (uint k = 0; k < BLOCK; k += WIDE)
            most = fmax(most, load_logits(z, b * BLOCK + k, a->n_vocab));
        m.maxima[b] = max_wide(most);
    }
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------ */

static wide_ulong as_mask(wide_int mask)
{
    return TO(ulong)(TO(long)(mask));
}

static wide_int distance(float most, wide_float z, float scale)
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

static ulong mix(ulong z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9UL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebUL;
    return z ^ z >> 31;
}

/* ---- limits ------------------------------------------------------------------------------------------------------------------- */

/* The first elements in order: those nearer than `far`, and of those at it the ones before index `ties`. */
typedef struct limit {
    int  far;
    uint ties;
} limit;

static wide_int is_in(wide_int d, uint i, limit in)
{
    return MASK(d < in.far) | (MASK(d == in.far) & MASK((wide_int)(i * WIDE) + LANES < (wide_int)in.ties));
}

/* How many of the n distances x are in, or, with w, their weight. n is a multiple of 16. */
static ulong measure(global const int *x, global const ulong *w, uint n, limit in, sum_scratch s)
{
    wide_ulong sum = 0;
    wide_int count = 0;
    for (uint i = get_local_id(0); i < n / WIDE; i += WG) {
        const wide_int mask = is_in(LOAD_WIDE(i, x), i, in);
        if (w)
            sum += LOAD_WIDE(i, w) & as_mask(mask);
        else
            count -= mask;
    }
    return sum_all(sum_wide(w ? sum : TO(ulong)(count)), s);
}

/* The distance of the k-th nearest of n: the largest that fewer than k are nearer than. */
static int kth_nearest(global const int *x, uint n, uint k, sum_scratch s)
{
    int at = 0;
    for (int bit = 1 << 30; bit > 0; bit >>= 1) {
        wide_int mine = 0;
        for (uint i = get_local_id(0); i < n / WIDE; i += WG)
            mine -= MASK(LOAD_WIDE(i, x) < at + bit);
        at += sum_all(sum_wide(TO(ulong)(mine)), s) < k ? bit : 0;
    }
    return at;
}

enum { FIRST_STEP, FAR_STEPS = 32, TIE_STEPS = 64 };

/* Tightens a limit to the fewest that top-k, then top-p want: by bisection of the distance, then of the index among equals. One loop and
 * one place that measures: what each inlined copy of its barriers costs a compiler is much. */
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
                wanted = stage ? max((sum >> 32) * o->top_p + ((sum & 0xffffffffUL) * o->top_p >> 32), 1UL) : (ulong)o->top_k;
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

/* ---- the pick ----------------------------------------------------------------------------------------------------------------- */

/* The lowest id whose logit is the largest. */
static uint first_of(const sample_args *a, row_memory m, global const float *z, float most, sum_scratch s)
{
    uint best = a->n_vocab;
    for (uint b = get_local_id(0); b < a->blocks; b += WG)
        if (m.maxima[b] == most && b * BLOCK < best)
            for (uint i = b * BLOCK; i < min((b + 1) * BLOCK, a->n_vocab); i++)
                if (z[i] == most)
                    best = min(best, i);
    best = min_all(best, s);
    return best < a->n_vocab && most > -INFINITY ? best : 0;
}

/* Lists the blocks that may hold what is picked, in rising order, and gives how many there are. */
static uint list_blocks(const sample_args *a, global const sample_options *o, row_memory m, float most, sum_scratch s)
{
    const uint n = a->blocks, lane = get_local_id(0);
    for (uint i = lane; i < n / WIDE; i += WG)
        STORE_WIDE(distance(most, LOAD_WIDE(i, m.maxima), o->scale), i, m.nearest);
    GROUP_SYNC();
    int reach = (int)o->reach;
    /* always, off or on: a branch around barriers costs a compiler more than this costs a device */
    const bool cuts = o->top_k > 0 && (uint)o->top_k <= n;
    reach = min(reach, kth_nearest(m.nearest, n, cuts ? (uint)o->top_k : n, s));
    const uint share = (n + WG - 1) / WG, from = min(lane * share, n), to = min(from + share, n);
    uint mine = 0;
    for (uint b = from; b < to; b++)
        mine += m.nearest[b] <= reach;
    uint at = (uint)sum_before(mine, s);
    const uint all = (uint)sum_all(mine, s);
    for (uint b = from; b < to; b++)
        if (m.nearest[b] <= reach)
            m.list[at++] = b;
    GROUP_SYNC();
    return all;
}

/* Weights that all limits leave, in vector i. */
static wide_ulong kept(global const sample_options *o, row_memory m, limit in, uint i)
{
    const wide_ulong w = LOAD_WIDE(i, m.weights);
    const ulong least = (ulong)o->min_weight_hi << 32 | o->min_weight_lo;
    return w & as_mask(is_in(LOAD_WIDE(i, m.distances), i, in)) & MASK_LONG(w >= (wide_ulong)least);
}

/* The id at which the sum of weights goes beyond floor(random sum / 2^64). */
static uint draw(const sample_args *a, global const sample_options *o, row_memory m, limit in, uint n, ulong random, sum_scratch s)
{
    const uint lane = get_local_id(0), share = (n / WIDE + WG - 1) / WG;
    const uint from = min(lane * share, n / WIDE), to = min(from + share, n / WIDE);
    ulong mine = 0;
    for (uint i = from; i < to; i++)
        mine += sum_wide(kept(o, m, in, i));
    const ulong before = sum_before(mine, s), all = sum_all(mine, s), at = mul_hi(random, all);
    uint best = a->n_vocab;
    if (at >= before && at - before < mine) {
        ulong left = at - before;
        for (uint i = from; i < to && best == a->n_vocab; i++) {
            const wide_ulong w = kept(o, m, in, i);
            const ulong sum = sum_wide(w);
            if (left >= sum) {
                left -= sum;
                continue;
            }
            ulong one[WIDE];
            STORE_WIDE(w, 0, one);
            uint k = 0;
            for (; k < WIDE - 1 && left >= one[k]; k++)
                left -= one[k];
            best = m.list[(i * WIDE + k) / BLOCK] * BLOCK + (i * WIDE + k) % BLOCK;
        }
    }
    return min_all(best, s);
}

static uint pick(const sample_args *a, global const sample_options *o, row_memory m, uint row, int pos, global const float *z,
                 group_scratch floats, sum_scratch s)
{
    const uint lane = get_local_id(0);
    wide_float wide = -INFINITY;
    for (uint i = lane; i < a->blocks / WIDE; i += WG)
        wide = fmax(wide, LOAD_WIDE(i, m.maxima));
    const float most = group_max(max_wide(wide), floats);
    if (o->mode != SAMPLE_DRAW || isinf(most))
        return first_of(a, m, z, most, s);
    const uint n = list_blocks(a, o, m, most, s) * BLOCK;
    for (uint i = lane; i < n / WIDE; i += WG) {
        const uint id = m.list[i * WIDE / BLOCK] * BLOCK + i * WIDE % BLOCK;
        const wide_int far = distance(most, load_logits(z, id, a->n_vocab), o->scale);
        STORE_WIDE(far, i, m.distances);
        STORE_WIDE(weight(far), i, m.weights);
    }
    GROUP_SYNC();
    const limit in = limit_of(o, m, n, s);
    const ulong seed = (ulong)o->seed_hi << 32 | o->seed_lo, number = (ulong)(pos + (int)a->length - o->first) + 1;
    return draw(a, o, m, in, n, mix(seed + mix(row) + number * 0x9e3779b97f4a7c15UL), s);
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------ */

#define PARAMETERS                                                                                                                         \
    const sample_args a, global int *out, global ulong *scratch, global int *history, global int *ids, global int *pos,                    \
        global const float *logits, global const int *options

static void finish(const sample_args *a, uint row, uint token, int at, global int *out, global int *ids, global int *pos)
{
    GROUP_SYNC(); /* all have read the state */
    if (get_local_id(0) != 0)
        return;
    out[row] = (int)token;
    ids[a->ids + row] = (int)token;
    pos[a->pos + row] = at + (int)a->length;
}

GROUP_KERNEL
void sample_blocks(PARAMETERS)
{
    global const sample_options *o = (global const sample_options *)(options + a.options);
    const uint row = get_group_id(1), first = get_group_id(0) * a.span, last = min(first + a.span, a.blocks);
    const int at = pos[a.pos + row];
    if (get_group_id(0) == 0)
        keep_history(&a, row, history, ids, at);
    if (o->mode == SAMPLE_OFF)
        return;
    blocks_of_row(&a, o, memory_of(&a, scratch, row), row, first, last, history, ids, at,
                  logits + a.logits + row * (size_t)a.n_vocab);
}

GROUP_KERNEL
void sample_pick(PARAMETERS)
{
    global const sample_options *o = (global const sample_options *)(options + a.options);
    const uint row = get_group_id(1);
    const int at = pos[a.pos + row];
    GROUP_SCRATCH(floats);
    SUM_SCRATCH(sums);
    if (o->mode == SAMPLE_OFF) {
        out[row] = 0;
        return;
    }
    const row_memory m = memory_of(&a, scratch, row);
    const uint token = pick(&a, o, m, row, at, o->last_n > 0 ? m.z : logits + a.logits + row * (size_t)a.n_vocab, floats, sums);
    finish(&a, row, token, at, out, ids, pos);
}

GROUP_KERNEL
void sample_whole(PARAMETERS)
{
    global const sample_options *o = (global const sample_options *)(options + a.options);
    const int at = pos[a.pos];
    GROUP_SCRATCH(floats);
    SUM_SCRATCH(sums);
    keep_history(&a, 0, history, ids, at);
    if (o->mode == SAMPLE_OFF) {
        out[0] = 0;
        return;
    }
    const row_memory m = memory_of(&a, scratch, 0);
    logits += a.logits;
    blocks_of_row(&a, o, m, 0, 0, a.blocks, history, ids, at, logits);
    GROUP_SYNC();
    const uint token = pick(&a, o, m, 0, at, o->last_n > 0 ? m.z : logits, floats, sums);
    finish(&a, 0, token, at, out, ids, pos);
}

/* Samples a token on the host. */
#include "graph/op/sample.h"

#include <math.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t clef__sample_bits(uint64_t seed, uint64_t draw, uint32_t row)
{
    return mix(seed + mix(row) + (draw + 1) * 0x9e3779b97f4a7c15u);
}

static uint64_t random_bits(const sample_options *o, uint64_t draw, uint32_t row)
{
    return clef__sample_bits((uint64_t)o->seed_hi << 32 | o->seed_lo, draw, row);
}

static uint32_t mul_high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* floor(a b / 2^64) */
static uint64_t mul_high64(uint64_t a, uint64_t b)
{
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t low = al * bl, mid = ah * bl + (low >> 32), mid2 = al * bh + (uint32_t)mid;
    return ah * bh + (mid >> 32) + (mid2 >> 32);
}

static uint32_t distance(float max, float z, float scale)
{
    const float x = (max - z) * scale;
    return x < 40.0f ? (uint32_t)(x * 16777216.0f) : SAMPLE_FAR;
}

static uint64_t weight(uint32_t far)
{
    if (far >= SAMPLE_REACH)
        return 0;
    const uint32_t u =
        far << 8; /* the fraction in 2^-32; 2^-u = 1 - u (c1 - u (c2 - u (c3 - u (c4 - u c5)))) */
    uint32_t h = 39582419u - mul_high(4073454u, u);
    h = 237543469u - mul_high(h, u);
    h = 1031582456u - mul_high(h, u);
    h = 2977031600u - mul_high(h, u);
    return (((uint64_t)1 << 32) - mul_high(h, u)) << 8 >> (far >> 24);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int before(const clef_candidate *a, const clef_candidate *b)
{
    return a->distance < b->distance || (a->distance == b->distance && a->id < b->id);
}

static void swap(clef_candidate *a, clef_candidate *b)
{
    const clef_candidate t = *a;
    *a = *b;
    *b = t;
}

/* Heapsort, since qsort may allocate. */
static void sift_down(clef_candidate *c, int32_t i, int32_t n)
{
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&c[child], &c[child + 1]))
            child++;
        if (!before(&c[i], &c[child]))
            return;
        swap(&c[i], &c[child]);
    }
}

static void sort_best_first(clef_candidate *c, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(c, i, n);
    for (int32_t last = n - 1; last > 0; last--) {
        swap(&c[0], &c[last]);
        sift_down(c, 0, last);
    }
}

/* Moves the k best to the front, in no order: quickselect with the middle as pivot. */
static void select_best(clef_candidate *c, int32_t n, int32_t k)
{
    int32_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const clef_candidate pivot = c[lo + (hi - lo) / 2];
        int32_t i = lo, j = hi;
        while (i <= j) {
            while (before(&c[i], &pivot))
                i++;
            while (before(&pivot, &c[j]))
                j--;
            if (i <= j)
                swap(&c[i++], &c[j--]);
        }
        if (k - 1 <= j)
            hi = j;
        else if (k - 1 >= i)
            lo = i;
        else
            return;
    }
}

/* ---- the chain ------------------------------------------------------------------------------- */

static void load(const sample_options *o, const float *logits, int32_t n, const int32_t *recent,
                 int32_t n_recent, clef_candidate *c)
{
    for (int32_t i = 0; i < n; i++)
        c[i] = (clef_candidate){.z = isnan(logits[i]) ? INFINITY : logits[i], .id = i};
    for (int32_t i = 0; i < n_recent; i++) /* a repeated token is penalised once, from its logit */
        if (recent[i] >= 0 && recent[i] < n && !isnan(logits[recent[i]])) {
            const float z = logits[recent[i]];
            c[recent[i]].z = z > 0 ? z * o->inverse_penalty : z * o->penalty;
        }
}

static int32_t largest(const clef_candidate *c, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (c[i].z > c[best].z)
            best = i;
    return best;
}

/* The number of candidates that top-p keeps, out of n that are sorted best first. */
static int32_t top_p(const sample_options *o, const clef_candidate *c, int32_t n)
{
    uint64_t sum = 0, reached = 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        sum += c[i].weight;
    const uint64_t limit = (sum >> 32) * o->top_p + ((sum & UINT32_MAX) * o->top_p >> 32);
    while (kept < n && (kept == 0 || reached < limit))
        reached += c[kept++].weight;
    return kept;
}

/* Sorts by rising ids again, since the draw walks through them in this order. */
static void sort_by_id(clef_candidate *c, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        c[i].distance = 0;
    sort_best_first(c, n);
}

/* Leaves the weights that min-p keeps, at the scale of the draw. Returns their sum. */
static uint64_t cut(const sample_options *o, float max, clef_candidate *c, int32_t n)
{
    const uint64_t least = (uint64_t)o->min_weight_hi << 32 | o->min_weight_lo;
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (c[i].weight < least)
            c[i].weight = 0;
        else if (c[i].weight && o->draw_scale > 0)
            c[i].weight = weight(distance(max, c[i].z, o->draw_scale));
        sum += c[i].weight;
    }
    return sum;
}

int32_t clef__sample_pick(const sample_options *o, const float *logits, int32_t n, const int32_t *recent,
                          int32_t n_recent, uint64_t draw, uint32_t row, clef_candidate *c)
{
    load(o, logits, n, recent, n_recent, c);
    const int32_t best = largest(c, n);
    const float max = c[best].z;
    if (isinf(max))
        return -1;
    if (o->mode != SAMPLE_DRAW)
        return best;
    for (int32_t i = 0; i < n; i++) {
        c[i].distance = distance(max, c[i].z, o->scale);
        c[i].weight = weight(c[i].distance);
    }
    int32_t kept = n;
    if (o->top_k > 0 && o->top_k < n)
        select_best(c, n, kept = o->top_k);
    if (o->top_p) {
        sort_best_first(c, kept);
        kept = top_p(o, c, kept);
    }
    if (kept < n || o->top_p)
        sort_by_id(c, kept);
    const uint64_t sum = cut(o, max, c, kept);
    uint64_t at = mul_high64(random_bits(o, draw, row), sum);
    for (int32_t i = 0; i < kept; i++) {
        if (at < c[i].weight)
            return c[i].id;
        at -= c[i].weight;
    }
    return best; /* not reached: the sum of the weights is above `at` */
}

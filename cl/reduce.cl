/* Reduces each row of x [n0, n1, n2, n3] to its sum, mean or max; to the index of its largest element; or to
 * the indices of its k largest. Of equal elements the lowest index comes first. A NaN makes sum, mean and max
 * NaN; for the indices it counts as -inf.
 * Launch: one group of WG work-items for each row.
 *   -D WG    work-items in a group, a power of two
 *   -D KIND  reduce_rows: 0 sum, 1 mean, 2 max; else 0 */
#include "args.h"
#include "group.h"
#include "weights.h"

#ifndef KIND
#  error "reduce.cl needs WG and KIND"
#endif

enum { MAX_K = 64 };

static global const float *row_of(const reduce_args *a, global const float *x)
{
    const uint row = get_group_id(0), i2 = row % a->n[2], i1 = row / a->n[2] % a->n[1],
               i0 = row / a->n[2] / a->n[1];
    return x + a->x.offset + i0 * (size_t)a->x.stride[0] + i1 * (size_t)a->x.stride[1] +
           i2 * (size_t)a->x.stride[2];
}

GROUP_KERNEL
void reduce_rows(const reduce_args a, global float *out, global const float *x)
{
    const uint n = a.n[3], whole = n / 16 * 16, lane = get_local_id(0);
    GROUP_SCRATCH(scratch);
    x = row_of(&a, x);
    float16 wide = KIND == 2 ? -INFINITY : 0.0f;
    float one = KIND == 2 ? -INFINITY : 0.0f;
#if KIND == 2
    int16 wide_nan = 0; /* fmax ignores NaNs, so they are counted separately */
    int one_nan = 0;
#endif
    for (uint i = lane * 16; i < whole; i += WG * 16) {
        const float16 z = vload16(0, x + i);
        wide = KIND == 2 ? fmax(wide, z) : wide + z;
#if KIND == 2
        wide_nan |= isnan(z);
#endif
    }
    for (uint i = whole + lane; i < n; i += WG) {
        one = KIND == 2 ? fmax(one, x[i]) : one + x[i];
#if KIND == 2
        one_nan |= isnan(x[i]);
#endif
    }
#if KIND == 2
    const float most = group_max(fmax(max16(wide), one), scratch);
    const float has_nan = group_max(any(wide_nan) || one_nan ? 1.0f : 0.0f, scratch);
    const float all = has_nan > 0 ? NAN : most;
#else
    const float all = group_sum(sum16(wide) + one, scratch) / (KIND == 1 ? (float)n : 1.0f);
#endif
    if (lane == 0)
        out[get_group_id(0)] = all;
}

static float number(float x)
{
    return isnan(x) ? -INFINITY : x;
}

/* 1 when (x, i) is ordered before (y, j). */
static int before(float x, int i, float y, int j)
{
    return x > y || (x == y && i < j);
}

#if WG == 1

GROUP_KERNEL
void argmax_rows(const reduce_args a, global int *out, global const float *x)
{
    const int n = a.n[3];
    int best = 0, i = 0;
    x = row_of(&a, x);
    float most = -INFINITY; /* no NaN compares as larger */
    for (; i + 16 <= n; i += 16) { /* examine single elements only if one of 16 is larger */
        if (max16(vload16(0, x + i)) > most)
            for (int j = i; j < i + 16; j++)
                if (x[j] > most) {
                    most = x[j];
                    best = j;
                }
    }
    for (; i < n; i++)
        if (x[i] > most) {
            most = x[i];
            best = i;
        }
    out[get_group_id(0)] = best;
}

typedef struct top_list {
    float value[MAX_K];
    int   index[MAX_K];
    int   n;
} top_list;

/* Inserts element i into the list of at most k. Indices arrive in rising order, so i goes after equal
 * elements. */
static void insert(top_list *top, int k, float x, int i)
{
    if (top->n == k && !(x > top->value[k - 1]))
        return;
    int at = top->n < k ? top->n++ : k - 1;
    for (; at > 0 && x > top->value[at - 1]; at--) {
        top->value[at] = top->value[at - 1];
        top->index[at] = top->index[at - 1];
    }
    top->value[at] = x;
    top->index[at] = i;
}

GROUP_KERNEL
void topk_rows(const reduce_args a, global int *out, global const float *x)
{
    const int n = a.n[3], k = a.k;
    top_list top;
    int i = 0;
    top.n = 0;
    x = row_of(&a, x);
    for (; i + 16 <= n; i += 16)
        if (top.n < k || max16(vload16(0, x + i)) > top.value[k - 1])
            for (int j = i; j < i + 16; j++)
                insert(&top, k, number(x[j]), j);
    for (; i < n; i++)
        insert(&top, k, number(x[i]), i);
    for (int j = 0; j < k; j++)
        out[get_group_id(0) * k + j] = top.index[j];
}

#else

/* The first element of the row in the order of before(), among those after (after, after_i). */
static int first_after(global const float *x, int n, float after, int after_i, local float *values,
                       local int *indices)
{
    const int lane = get_local_id(0);
    float most = -INFINITY;
    int best = INT_MAX;
    for (int i = lane; i < n; i += WG) {
        const float z = number(x[i]);
        if (before(after, after_i, z, i) && before(z, i, most, best)) {
            most = z;
            best = i;
        }
    }
    values[lane] = most;
    indices[lane] = best;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_n = WG / 2; half_n > 0; half_n /= 2) {
        if (lane < half_n &&
            before(values[lane + half_n], indices[lane + half_n], values[lane], indices[lane])) {
            values[lane] = values[lane + half_n];
            indices[lane] = indices[lane + half_n];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    best = indices[0];
    barrier(CLK_LOCAL_MEM_FENCE); /* the arrays may be reused at once */
    return best < n ? best : 0;
}

GROUP_KERNEL
void argmax_rows(const reduce_args a, global int *out, global const float *x)
{
    local float values[WG];
    local int indices[WG];
    const int best = first_after(row_of(&a, x), a.n[3], INFINITY, -1, values, indices);
    if (get_local_id(0) == 0)
        out[get_group_id(0)] = best;
}

/* One pass over the row for each of the k elements: the row stays in the cache, and k is small. */
GROUP_KERNEL
void topk_rows(const reduce_args a, global int *out, global const float *x)
{
    local float values[WG];
    local int indices[WG];
    float after = INFINITY;
    int after_i = -1;
    x = row_of(&a, x);
    for (uint j = 0; j < a.k; j++) {
        after_i = first_after(x, a.n[3], after, after_i, values, indices);
        after = number(x[after_i]);
        if (get_local_id(0) == 0)
            out[get_group_id(0) * a.k + j] = after_i;
    }
}

#endif

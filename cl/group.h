/* Reductions over a work-group of WG work-items (a power of two; 1 needs no barrier). Every work-item gets
 * the result. The order of the sums is fixed, so that results repeat. Call them from uniform control flow
 * only, because they contain barriers.
 *   -D SUBGROUPS, SUBGROUP_SIZE  as in subgroup.h: subgroups reduce first, and a group that is one subgroup
 *                                has no barrier
 * group_item() numbers the work-items so that those of a subgroup are adjacent. */
#ifndef CLEF_CL_GROUP_H
#define CLEF_CL_GROUP_H

#ifndef WG
#  error "group.h needs WG"
#endif

#include "subgroup.h"
#include "substep.h"

#ifdef STAGE
#  define GROUP_KERNEL STAGE_KERNEL
#else
#  define GROUP_KERNEL __attribute__((reqd_work_group_size(WG, 1, 1))) SUBGROUP_ATTRIBUTE kernel
#endif

#if SUBGROUPS
static inline uint group_item(void) { return subgroup_index() * subgroup_width() + subgroup_lane(); }
#else
static inline uint group_item(void) { return local_id(0); }
#endif

#if WG == 1
#  define GROUP_SCRATCH(name) float *const name = 0
typedef float *group_scratch;
static float group_sum(float x, group_scratch s) { return x; }
static float group_max(float x, group_scratch s) { return x; }
#elif SUBGROUPS
#  define GROUP_SCRATCH(name) local float name[WG]
typedef local float *group_scratch;

static float group_sum(float x, group_scratch s)
{
    const uint n = subgroup_count();
    x = subgroup_sum(x);
    if (n == 1)
        return x;
    if (subgroup_lane() == 0)
        s[subgroup_index()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    x = s[0];
    for (uint i = 1; i < n; i++)
        x += s[i];
    barrier(CLK_LOCAL_MEM_FENCE); /* so that s may be reused at once */
    return x;
}

static float group_max(float x, group_scratch s)
{
    const uint n = subgroup_count();
    x = subgroup_max(x);
    if (n == 1)
        return x;
    if (subgroup_lane() == 0)
        s[subgroup_index()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    x = s[0];
    for (uint i = 1; i < n; i++)
        x = fmax(x, s[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
}
#else
#  define GROUP_SCRATCH(name) local float name[WG]
typedef local float *group_scratch;

static float group_sum(float x, group_scratch s)
{
    const uint i = local_id(0);
    s[i] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_n = WG / 2; half_n > 0; half_n /= 2) {
        if (i < half_n)
            s[i] += s[i + half_n];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    x = s[0];
    barrier(CLK_LOCAL_MEM_FENCE); /* so that s may be reused at once */
    return x;
}

static float group_max(float x, group_scratch s)
{
    const uint i = local_id(0);
    s[i] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_n = WG / 2; half_n > 0; half_n /= 2) {
        if (i < half_n)
            s[i] = fmax(s[i], s[i + half_n]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    x = s[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
}
#endif

#endif

/* Subgroups: work-items of a group that run together. The code is right for any number of them, 1 included.
 *   -D SUBGROUPS      how they are used: 0 not at all; 1 by the built-ins of cl_khr_subgroups,
 *                     cl_intel_subgroups or OpenCL C 3.0; 2 by PTX, in groups of one dimension and whole
 *                     warps
 *   -D SUBGROUP_SIZE  0, or the size to demand (cl_intel_required_subgroup_size)
 *   subgroup_count()        subgroups in this group
 *   subgroup_index()        number of this subgroup; subgroup_width() work-items each (the last may have
 *                           fewer), of which this is subgroup_lane()
 *   subgroup_sum(x), subgroup_max(x)  over all its work-items, for each of them; a maximum ignores NaNs
 *   subgroup_xor(x, mask)   x of work-item lane ^ mask, which must exist; by cl_khr_subgroup_shuffle,
 *                           cl_intel_subgroups, or AMD's built-in */
#ifndef CLEF_CL_SUBGROUP_H
#define CLEF_CL_SUBGROUP_H

#ifndef SUBGROUPS
#  define SUBGROUPS 0
#endif

#if SUBGROUPS == 1
#  ifdef cl_khr_subgroups
#    pragma OPENCL EXTENSION cl_khr_subgroups : enable
#  endif
static inline uint subgroup_count(void) { return get_num_sub_groups(); }
static inline uint subgroup_index(void) { return get_sub_group_id(); }
static inline uint subgroup_width(void) { return get_max_sub_group_size(); }
static inline uint subgroup_lane(void) { return get_sub_group_local_id(); }
static inline float subgroup_sum(float x) { return sub_group_reduce_add(x); }
static inline float subgroup_max(float x) { return sub_group_reduce_max(isnan(x) ? -INFINITY : x); }
#  ifdef cl_khr_subgroup_shuffle
static inline float subgroup_xor(float x, uint mask) { return sub_group_shuffle_xor(x, mask); }
#  elif defined(cl_intel_subgroups)
static inline float subgroup_xor(float x, uint mask) { return intel_sub_group_shuffle_xor(x, mask); }
#  elif defined(__AMDGCN__)
static inline float subgroup_xor(float x, uint mask)
{
    return as_float(__builtin_amdgcn_ds_bpermute((int)((get_sub_group_local_id() ^ mask) * 4), as_int(x)));
}
#  endif
#elif SUBGROUPS == 2
enum { WARP = 32 };
static inline uint subgroup_count(void) { return get_local_size(0) / WARP; }
static inline uint subgroup_index(void) { return get_local_id(0) / WARP; }
static inline uint subgroup_width(void) { return WARP; }
static inline uint subgroup_lane(void) { return get_local_id(0) % WARP; }
static inline float subgroup_xor(float x, uint mask)
{
    float other;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(x), "r"(mask));
    return other;
}
static inline float subgroup_sum(float x)
{
    for (uint mask = WARP / 2; mask > 0; mask /= 2)
        x += subgroup_xor(x, mask);
    return x;
}
static inline float subgroup_max(float x)
{
    for (uint mask = WARP / 2; mask > 0; mask /= 2)
        x = fmax(x, subgroup_xor(x, mask));
    return x;
}
#endif

#if SUBGROUPS == 1 && SUBGROUP_SIZE > 0
#  define SUBGROUP_ATTRIBUTE __attribute__((intel_reqd_sub_group_size(SUBGROUP_SIZE)))
#else
#  define SUBGROUP_ATTRIBUTE
#endif

#endif

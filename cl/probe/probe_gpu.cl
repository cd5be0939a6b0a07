/* Tests what drivers of GPUs do not report, or report wrongly (runtime/device/probe_gpu.c).
 *   -D INT_DOT    builds probe_dot: dot.h
 *   -D SUBGROUPS  builds probe_subgroups: subgroup.h, with SUBGROUP_SIZE; SHUFFLES 1: subgroup_xor too
 *   -D BULK       builds probe_bulk: PTX's copies in bulk
 * Without any it builds probe_compiler. */
#if defined(INT_DOT)
#  include "dot.h"

/* out[i] = 1 + w[i] . x[0], by one work-item. */
kernel void probe_dot(global int *out, global const uint *w, global const uint *x)
{
    const uint i = get_global_id(0);
    out[i] = dot4s(1, w[i], x[0]);
}
#elif defined(SUBGROUPS)
#  include "subgroup.h"

/* For each work-item of one group: its subgroup, lane and width, the subgroup's sum and maximum of w, and w
 * of lane ^ 1 and of lane ^ half the width. */
SUBGROUP_ATTRIBUTE kernel
void probe_subgroups(global int *out, global const uint *w, global const uint *x)
{
    const uint i = get_local_id(0);
    const float mine = (float)w[i];
    global int *to = out + i * 8;
    to[0] = (int)subgroup_index();
    to[1] = (int)subgroup_lane();
    to[2] = (int)subgroup_width();
    to[3] = (int)subgroup_sum(mine);
    to[4] = (int)subgroup_max(mine);
#  if SHUFFLES
    to[5] = (int)subgroup_xor(mine, 1u);
    to[6] = (int)subgroup_xor(mine, subgroup_width() / 2);
#  endif
    to[7] = (int)(subgroup_count() + x[0]);
}
#elif defined(BULK)
/* out[0] = 1, after all of no copies in bulk. Only compilers for units that have them accept it. */
kernel void probe_bulk(global int *out, global const uint *w, global const uint *x)
{
    __asm__ volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    out[0] = 1;
}
#else
/* out[0]: the compiler's own extensions: 1 PTX, 2 AMD's built-ins. out[1]: with PTX the warps that a compute
 * unit holds at a time. */
kernel void probe_compiler(global int *out, global const uint *w, global const uint *x)
{
#  if defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
    out[0] = 1;
    uint warps;
    __asm__ volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
    out[1] = (int)warps;
#  elif defined(__AMDGCN__)
    out[0] = 2;
#  else
    out[0] = 0;
#  endif
}
#endif

/* Lets one source be a kernel or a function. As a kernel, STAGE_KERNEL means `kernel`, STAGE_GROUP nothing,
 * group_id(i) get_group_id(i), and so on. As a function it is the work of one group of one work-item, which
 * gets its group as a parameter: a substep of a fused step (fused_step.cl), or the body of a kernel that
 * contains nothing else (runtime/device/program_text.c).
 *   -D STAGE       number of the function; without it, the source is a kernel
 *   -D WHOLE_BODY  1: the compiler must not inline the function (WHOLE)
 *   -D STAGE_ARGS  address space of the argument block (default: global)
 * STAGE_ENTRY(name, args type, STAGE_BUFS_n) at the end of the source makes the function that the fused step
 * or the kernel calls. */
#ifndef CLEF_CL_STAGE_H
#define CLEF_CL_STAGE_H

#include "inline.h"

#ifndef STAGE
#  define STAGE_KERNEL kernel
#  define STAGE_GROUP
#  define group_id(i)   get_group_id(i)
#  define local_id(i)   get_local_id(i)
#  define local_size(i) get_local_size(i)
#  define group_count() get_num_groups(0)
#  define STAGE_LOCAL   local
#else
#  define STAGE_KERNEL INLINED
#  define STAGE_GROUP   const uint *stage_group,
#  define group_id(i)   stage_group[i]
#  define local_id(i)   0u
#  define local_size(i) 1u
#  define group_count() stage_group[3]
#  define STAGE_LOCAL   private /* what a group of one item shares with itself */
#  ifndef STAGE_ARGS
#    define STAGE_ARGS global
#  endif

#  define STAGE_BUFS_1  b[0]
#  define STAGE_BUFS_2  STAGE_BUFS_1, b[1]
#  define STAGE_BUFS_3  STAGE_BUFS_2, b[2]
#  define STAGE_BUFS_4  STAGE_BUFS_3, b[3]
#  define STAGE_BUFS_5  STAGE_BUFS_4, b[4]
#  define STAGE_BUFS_6  STAGE_BUFS_5, b[5]
#  define STAGE_BUFS_7  STAGE_BUFS_6, b[6]
#  define STAGE_BUFS_8  STAGE_BUFS_7, b[7]
#  define STAGE_BUFS_9  STAGE_BUFS_8, b[8]
#  define STAGE_BUFS_10 STAGE_BUFS_9, b[9]
#  define STAGE_BUFS_11 STAGE_BUFS_10, b[10]
#  define STAGE_BUFS_12 STAGE_BUFS_11, b[11]
#  define STAGE_BUFS_13 STAGE_BUFS_12, b[12]
#  define STAGE_BUFS_14 STAGE_BUFS_13, b[13]
#  define STAGE_BUFS_15 STAGE_BUFS_14, b[14]
#  define STAGE_ENTRY(name, type, ...)          STAGE_ENTRY_OF(STAGE, name, type, __VA_ARGS__)
#  define STAGE_ENTRY_OF(stage, name, type, ...) STAGE_ENTRY_NAMED(stage, name, type, __VA_ARGS__)
#  if WHOLE_BODY
#    define STAGE_INLINE
#  else
#    define STAGE_INLINE __attribute__((always_inline))
#  endif
#  define STAGE_ENTRY_NAMED(stage, name, type, ...)                                                         \
    void fused_stage_##stage(const uint *group, STAGE_ARGS const uint *args, global void *const *b);        \
    STAGE_INLINE void fused_stage_##stage(const uint *group, STAGE_ARGS const uint *args,                   \
                                          global void *const *b)                                            \
    {                                                                                                       \
        BODY                                                                                                \
        name(group, *(STAGE_ARGS const type *)args, __VA_ARGS__);                                           \
    }
#endif

#endif

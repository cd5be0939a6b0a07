/* A work-group while it runs, by one thread. */
#ifndef CLEF_LAB_GPU_GROUP_H
#define CLEF_LAB_GPU_GROUP_H

#include <setjmp.h>

#include "lab/gpu/run/kernel.h"

typedef struct gpu_group gpu_group;

typedef enum gpu_state { GPU_GOES_ON, GPU_AT_BARRIER, GPU_ENDED } gpu_state;

/* What all warps have; AMD calls a warp a wave. */
struct gpu_warp {
    unsigned char *file; /* registers */
    gpu_group *group;
    uint32_t first; /* work-item of lane 0 */
    uint32_t pc;
    int state;
};

typedef struct gpu_slot {
    unsigned char *memory;
    uint64_t n;
} gpu_slot;

/* What is known of a granule of local memory: (epoch << 11 | work-item) of the last write, and of the
 * last read, GPU_MANY for several. An epoch ends at each barrier. */
typedef struct gpu_shadow {
    uint32_t write, read;
} gpu_shadow;
enum { GPU_ITEM_BITS = 11, GPU_MANY = (1 << GPU_ITEM_BITS) - 1, GPU_MAX_EPOCH = 1 << 20 };

struct gpu_group {
    const gpu_launch *launch;
    const gpu_slot *slots;
    const unsigned char *params, *is_array; /* is_array: a byte for each granule of local memory */
    uint32_t at[3], n_items, n_warps;
    unsigned char *local, *privates;
    gpu_shadow *shadow;
    size_t local_bytes;
    uint32_t epoch, first_epoch;
    uint64_t random;
    unsigned char *warps;
    struct gpu_races *races; /* NULL: not asked for */
    gpu_count count;
    unsigned char spare[64]; /* what lanes access that do not take part */
    jmp_buf failed;
    char why[GPU_MESSAGE];
};

/** Ends the launch with a fault of one lane. */
_Noreturn void gpu_fault(gpu_warp *w, uint32_t lane, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Where a lane accesses n bytes, after all checks. The place has to be a multiple of `align` bytes. An atomic
 * access does not race. */
enum { GPU_READ, GPU_WRITE, GPU_ATOMIC };
unsigned char *gpu_global_place(gpu_warp *w, uint32_t lane, uint64_t address, unsigned n, unsigned align,
                                int how);
unsigned char *gpu_private_place(gpu_warp *w, uint32_t lane, uint64_t address, unsigned n, unsigned align,
                                 int how);
unsigned char *gpu_local_place(gpu_warp *w, uint32_t lane, uint64_t address, unsigned n, unsigned align,
                               int how);

/* The number in its group of a work-item, or of the first of its warp where that goes in step. */
static inline uint32_t gpu_user(const gpu_warp *w, uint32_t lane)
{
    return w->group->launch->kernel->in_step ? w->first : w->first + lane;
}

/* Number d of the work-item's three. */
static inline uint32_t gpu_item_id(const gpu_launch *launch, uint32_t item, int d)
{
    const uint32_t *n = launch->items;
    return d == 0 ? item % n[0] : d == 1 ? item / n[0] % n[1] : item / n[0] / n[1];
}

#endif

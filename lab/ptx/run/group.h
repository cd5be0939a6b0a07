/* A work-group while it runs, by one thread. */
#ifndef CLEF_LAB_PTX_GROUP_H
#define CLEF_LAB_PTX_GROUP_H

#include <setjmp.h>

#include "lab/ptx/run/warp.h"

typedef struct ptx_slot {
    unsigned char *memory;
    uint64_t n;
} ptx_slot;

/* What is known of a granule of local memory: (epoch << 11 | work-item) of the last write, and of the
 * last read, PTX_MANY for several. An epoch ends at each barrier. */
typedef struct ptx_shadow {
    uint32_t write, read;
} ptx_shadow;
enum { PTX_ITEM_BITS = 11, PTX_MANY = (1 << PTX_ITEM_BITS) - 1, PTX_MAX_EPOCH = 1 << 20 };

struct ptx_group {
    const ptx_launch *launch;
    const ptx_slot *slots;
    const unsigned char *params, *is_array; /* is_array: a byte for each granule of local memory */
    uint32_t at[3], n_items, n_warps;
    unsigned char *local, *privates;
    ptx_shadow *shadow;
    size_t local_bytes;
    uint32_t epoch, first_epoch;
    uint64_t random;
    ptx_warp *warps;
    struct ptx_races *races; /* NULL: not asked for */
    ptx_count count;
    unsigned char spare[64]; /* what lanes access that do not take part */
    jmp_buf failed;
    char why[PTX_MESSAGE];
};

#endif

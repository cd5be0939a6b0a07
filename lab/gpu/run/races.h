/* Races in global memory: two work-items of a launch that use the same bytes, one of which writes, in
 * different groups, or in one group between two barriers. Bytes are known by where they are on the host, so
 * that a buffer which is two arguments is one. */
#ifndef CLEF_LAB_GPU_RACES_H
#define CLEF_LAB_GPU_RACES_H

#include "lab/gpu/run/group.h"

typedef struct gpu_races gpu_races;

/** For one launch by one thread. bytes: of a granule. NULL: no memory. */
gpu_races *gpu_races_create(uint32_t bytes);
void gpu_races_destroy(gpu_races *races);
/** Notes an access by a work-item of the group. Faults if it is a race. */
void gpu_races_note(gpu_races *races, gpu_warp *w, uint32_t lane, const unsigned char *at, unsigned n,
                    int is_store);

#endif

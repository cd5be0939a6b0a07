/* Races in global memory: two work-items of a launch that use the same bytes, one of which writes, in
 * different groups, or in one group between two barriers. Bytes are known by where they are on the host, so
 * that a buffer which is two arguments is one. */
#ifndef CLEF_LAB_PTX_RACES_H
#define CLEF_LAB_PTX_RACES_H

#include "lab/ptx/run/warp.h"

typedef struct ptx_races ptx_races;

/** For one launch by one thread. bytes: of a granule. NULL: no memory. */
ptx_races *ptx_races_create(uint32_t bytes);
void ptx_races_destroy(ptx_races *races);
/** Notes an access by a work-item of the group. Faults if it is a race. */
void ptx_races_note(ptx_races *races, ptx_warp *w, int lane, const unsigned char *at, unsigned n,
                    int is_store);

#endif

/* Sums over ranks by the device itself (cl/exchange.cl), in memory that the ranks of a node share. A fused
 * step then runs through its sums: no launch ends there, and the host does not wake. */
#ifndef CLEF_RUNTIME_DEVICE_SUMS_H
#define CLEF_RUNTIME_DEVICE_SUMS_H

#include "runtime/plan/together.h"

/** Finds out whether devices can sum for this rank's stage. The kernel has to work in host memory in place,
 *  and to give the sums that the host would, bit by bit, in trials with the other ranks' devices. All ranks
 *  of the stage call it, each with its device; if one of them cannot, none will. Only for CPUs whose ranks
 *  have a core each, with sums in f32. CLEF_DEBUG=rank_fused=0: never. */
void clef__device_sums_find(struct clef_ranks *ranks, clef_device *dev);
/** For another opening of the same device. */
void clef__device_sums_reattach(struct clef_ranks *ranks, clef_device *dev);
/** clef__together.sums. */
const clef__device_sums *clef__ranks_sums(const clef_device *dev);

#endif

/* Values of a device with memory of its own, while ranks exchange them: their copies in host memory, and the
 * pieces in which long sums cross, so that the device copies one piece while the ranks sum another. */
#ifndef CLEF_RANKS_JOIN_COPIES_H
#define CLEF_RANKS_JOIN_COPIES_H

#include "runtime/device/device.h"
#include "ranks/join/ranks.h"

/** Host memory of at least n_bytes, the same as before unless that was smaller; then the queue is finished
 *  first, since it may still read the old memory. It is the driver's where the driver has some, so that the
 *  device copies by itself. It belongs to the device. NULL when out of memory. */
char *clef__ranks_copies(clef_device *dev, size_t n_bytes);

/** Agrees with the other ranks of the stage on ranks->piece_bytes, on each of them before its first plan:
 *  0 if all devices of the stage work in host memory, else rank_piece (CLEF_DEBUG) of the stage's first
 *  rank, or 1 MiB. CLEF_E_ARG: it is not a size, which the others do not notice. */
clef_status clef__ranks_choose_piece(clef_ranks *ranks, const clef_device *dev, clef_error *err);
/** Bytes of each piece but the last of a sum of n_bytes: a multiple of 128, for the scales of q8, that makes
 *  at most CLEF__MOST_PIECES pieces; n_bytes or more where it is not cut. All ranks of the stage get the
 *  same. */
enum { CLEF__MOST_PIECES = 16 };
size_t clef__ranks_piece(const clef_ranks *ranks, size_t n_bytes);

#endif

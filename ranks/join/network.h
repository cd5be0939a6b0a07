/* How long collectives and messages take between ranks. */
#ifndef CLEF_RUNTIME_NETWORK_H
#define CLEF_RUNTIME_NETWORK_H

#include "ranks/join/transport.h"

/** Seconds of some tries. */
typedef struct clef__network_time {
    double least, median;
} clef__network_time;

/** What one size takes. */
typedef struct clef__network_row {
    size_t n_bytes; /* of each rank's contribution, or of the message */
    clef__network_time all_reduce[3]; /* n_bytes / 4 elements over each clef__wire */
    clef__network_time all_gather;
    clef__network_time broadcast;     /* until the last rank has it */
    clef__network_time send;          /* one way, between the first and the last rank */
} clef__network_row;

/** Measures a group of two ranks or more. All of its ranks call it with the same sizes (multiples of 4); the
 *  figures are those of the group's first rank, and all get them. Before each all_reduce and all_gather the
 *  ranks compute for some 0.2 ms, and only what that takes alone is not counted: so the figures have what
 *  exchanges cost a rank later, while it computes. Takes up to about 0.3 s a size on a network that is not
 *  much slower than 1 Gbit/s. n is the group's size, and `ranks` its ranks. CLEF_E_NOMEM, and the statuses of
 *  the transport. */
clef_status clef__network_measure(clef__transport *t, clef__group *group, const int32_t *ranks, int32_t n,
                                  const size_t *sizes, int32_t n_sizes, clef__network_row *rows,
                                  clef_error *err);

#endif

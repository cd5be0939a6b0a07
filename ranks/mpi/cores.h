/* Dividing the processors of a node among its ranks. */
#ifndef CLEF_RANKS_MPI_CORES_H
#define CLEF_RANKS_MPI_CORES_H

#include <stdint.h>

#include "ranks/join/transport.h"

/** Divides the processors in `mask` into `parts` sets that do not overlap, and writes number `part` to `out`.
 *  With hwloc a set is as compact as can be: within a NUMA node, a cache and a core before it takes another.
 *  Without it, or where hwloc cannot read the machine, processors are dealt out in the order of their
 *  numbers. Returns 0, and writes nothing, if there are fewer processors than parts, or a single part. */
int clef__mpi_cores_divide(const unsigned char mask[CLEF__TRANSPORT_CORE_BYTES], int32_t part, int32_t parts,
                           unsigned char out[CLEF__TRANSPORT_CORE_BYTES]);

#endif

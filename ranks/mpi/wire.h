/* How f32 values are written to cross between ranks. */
#ifndef CLEF_RANKS_MPI_WIRE_H
#define CLEF_RANKS_MPI_WIRE_H

#include <stddef.h>

#include "ranks/join/transport.h"

/** Q8 has a scale for each block of 32. Parts of a tensor that begin at multiples of 32 are written as they
 *  are in the whole. */
enum { CLEF__WIRE_BLOCK = 32 };

/** Bytes of n values; a block of Q8 is always written whole. */
size_t clef__wire_bytes(clef__wire wire, size_t n);
/** Rounds x[n] and writes clef__wire_bytes() to `out`, which is aligned to 4 bytes. */
void   clef__wire_pack(clef__wire wire, const float *x, size_t n, void *out);
/** x[i] = the sum of parts[0..n_parts-1] at i, added in this order in f32. Each part is what
 *  clef__wire_pack() wrote. A part of F32 may be x itself. */
void   clef__wire_sum(clef__wire wire, const void *const *parts, int32_t n_parts, float *x, size_t n);

#endif

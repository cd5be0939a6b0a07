/* How the shape of a GPU kernel's groups is chosen: each kernel names a few candidates, and what a group of
 * each needs and takes. */
#ifndef CLEF_GRAPH_CHOOSE_H
#define CLEF_GRAPH_CHOOSE_H

#include "graph/op.h"

typedef struct clef__candidate {
    uint32_t items;       /* of a group */
    uint64_t local_bytes; /* of a group */
    uint32_t n_groups;
    uint32_t time;        /* of a group, in any unit */
} clef__candidate;

enum { CLEF__MOST_CANDIDATES = 8 };

/** Compute units of the device, at least 1. */
uint32_t clef__units(const clef_caps *caps);
/** The largest one-dimensional group that the device allows, up to 256. */
uint32_t clef__group_most(const clef_caps *caps);
/** 1 if the device can run such a group. */
int clef__candidate_fits(const clef_caps *caps, const clef__candidate *c);
/** Of those that fit, the candidate with which the busiest of the processors is done first; a later one must
 *  be sooner by a tenth. -1: none fits. */
int32_t clef__fastest(const clef_caps *caps, const clef__candidate *candidates, int32_t n,
                      uint32_t n_processors);

#endif

/* Chooses the shape of a GPU kernel's groups. */
#include "graph/lower/choose.h"

uint32_t clef__units(const clef_caps *caps)
{
    return caps->n_units > 1 ? (uint32_t)caps->n_units : 1;
}

uint32_t clef__group_most(const clef_caps *caps)
{
    enum { MOST = 256 };
    const int32_t most = caps->max_group < caps->max_items[0] ? caps->max_group : caps->max_items[0];
    return most < MOST ? (uint32_t)most : MOST;
}

int clef__candidate_fits(const clef_caps *caps, const clef__candidate *c)
{
    return clef__group_most(caps) >= c->items && caps->local_bytes >= c->local_bytes;
}

int32_t clef__fastest(const clef_caps *caps, const clef__candidate *candidates, int32_t n,
                      uint32_t n_processors)
{
    int32_t best = -1;
    uint64_t least = UINT64_MAX;
    for (int32_t i = 0; i < n; i++) {
        const clef__candidate *c = &candidates[i];
        const uint64_t busiest = (uint64_t)clef__ceil_div(c->n_groups, n_processors) * c->time;
        if (clef__candidate_fits(caps, c) && busiest < least - least / 10) {
            best = i;
            least = busiest;
        }
    }
    return best;
}

/* The pairs of a tile, as expert_order.cl sorted them. */
#ifndef CLEF_CL_EXPERT_EXPERT_PAIRS_H
#define CLEF_CL_EXPERT_EXPERT_PAIRS_H

/* The pair of entry i of a tile that begins at `entry` of the list and has n entries. Beyond the last it is
 * the last again. A plan's first launch, which only lets the driver finish compiling, finds any numbers in
 * `order`, so they are kept inside. */
static inline uint pair_at(const expert_tiles_args *p, global const int *order, uint entry, uint i, uint n)
{
    const uint last = p->pairs - 1;
    return min((uint)order[min(min(entry, last) + min(i, n - 1), last)], last);
}

static inline uint row_of(const expert_args *a, uint pair) { return a->each ? pair : pair / a->chosen; }

#endif

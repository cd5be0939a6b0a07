/* The ops by which ranks exchange values, and how an axis is divided among ranks. Only sharding builds them
 * (ranks/shard/shard.h). */
#ifndef CLEF_GRAPH_COLLECTIVE_H
#define CLEF_GRAPH_COLLECTIVE_H

#include "graph/value.h"

/** A range of an axis. */
typedef struct clef__range {
    int64_t start, size;
} clef__range;

/** Part number `part` of `parts` of `size` elements. Parts begin at multiples of `grain` and differ by one
 *  grain at most; the last one also has what is left. */
clef__range clef__part_of(int64_t size, int64_t grain, int32_t part, int32_t parts);

/** out = the sum of x over the ranks of a stage; F32. */
clef_value *clef__all_reduce(clef_graph *g, clef_value *x);

/** out = the ranks' parts of `axis`, joined. x is part number `part` of `parts` of an axis of `size` elements
 *  (clef__part_of()); F32. */
typedef struct clef__all_gather_opts {
    int32_t axis, size, grain, part, parts;
} clef__all_gather_opts;
clef_value *clef__all_gather(clef_graph *g, clef_value *x, const clef__all_gather_opts *opts);

/** send: x goes to the rank, which has a receive for it. receive: x, an input or a state, becomes what the
 *  rank has sent. Messages between two ranks arrive in their order. Both return x. */
typedef struct clef__peer_opts {
    int32_t rank;
} clef__peer_opts;
clef_value *clef__send(clef_graph *g, clef_value *x, int32_t to);
clef_value *clef__receive(clef_graph *g, clef_value *x, int32_t from);

#endif

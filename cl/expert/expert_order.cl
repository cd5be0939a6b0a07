/* Sorts pairs (token, choice) by the chosen expert, for expert_tiles.cl. Pairs of one expert keep their
 * order. Ids outside the experts count as those of one more expert, whose number is `experts`.
 *   order  the list of pairs, then tiles: see expert_order_args. Expert e, whose first entry in the list is f
 *          and who has n of them, owns the tiles f / rows + e to (f + n) / rows + e. That is at least as many
 *          as it fills, and no other expert owns them: a tile's place depends on no other expert's tiles.
 *          Tiles that it does not fill have 0 entries.
 * Launch: {experts + 1} groups, one for each expert, which reads all ids.
 *   -D WG  work-items in a group */
#include "args.h"
#include "group.h"

GROUP_KERNEL
void expert_order(const expert_order_args a, global int *order, global const int *ids)
{
    local uint2 counts[WG]; /* of a work-item's ids: those of smaller experts, and those of this one */
    const uint e = get_group_id(0), lane = get_local_id(0), span = (a.pairs + WG - 1) / WG;
    const uint begin = min(lane * span, a.pairs), end = min(begin + span, a.pairs);
    uint2 mine = 0, all = 0;
    uint at = 0;
    order += a.order;
    for (uint i = begin; i < end; i++) {
        const uint id = min((uint)ids[a.ids + i], a.experts); /* a negative id is a large one */
        mine += (uint2)(id < e, id == e);
    }
    counts[lane] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < WG; i++) {
        at += i < lane ? counts[i].y : 0;
        all += counts[i];
    }
    at += all.x;
    for (uint i = begin; i < end; i++)
        if (min((uint)ids[a.ids + i], a.experts) == e)
            order[at++] = (int)i;
    const uint first_tile = all.x / a.rows + e, n_tiles = (all.x + all.y) / a.rows + e + 1 - first_tile;
    global int *tiles = order + a.pairs + (size_t)first_tile * EXPERT_TILE_WORDS;
    for (uint i = lane; i < n_tiles; i += WG) {
        const uint entry = i * a.rows;
        tiles[i * EXPERT_TILE_WORDS] = (int)e;
        tiles[i * EXPERT_TILE_WORDS + 1] = (int)(all.x + entry);
        tiles[i * EXPERT_TILE_WORDS + 2] = entry < all.y ? (int)min(a.rows, all.y - entry) : 0;
    }
}

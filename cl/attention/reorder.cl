/* cache[b, h, s, :] = old cache[order[b], h, s, :] for b < n and s < rows, in place: a work-item reads a word
 * of every sequence before it writes one. An order[b] outside 0 .. n_sources - 1 counts as b.
 * Launch: a group for each (h, s).
 *   -D WG     work-items in a group
 *   -D WORD   bytes of a word: 2 or 4
 *   -D BEAMS  bound of n */
#include "args.h"
#include "group.h"

#if !defined(WORD) || !defined(BEAMS)
#  error "reorder.cl needs WG, WORD and BEAMS"
#endif

#if WORD == 4
typedef uint word;
#else
typedef ushort word;
#endif

GROUP_KERNEL
void cache_reorder(const cache_reorder_args a, global word *cache, global const int *order)
{
    const uint row = get_group_id(0), h = row / a.rows, s = row % a.rows;
    int from[BEAMS];
    word x[BEAMS];
    int moves = 0;
    for (uint b = 0; b < a.n; b++) {
        from[b] = order[a.order + b];
        if (from[b] < 0 || from[b] >= (int)a.n_sources)
            from[b] = (int)b;
        moves |= from[b] != (int)b;
    }
    if (!moves)
        return;
    cache += a.cache + h * (size_t)a.stride[1] + s * (size_t)a.stride[2];
    for (uint i = get_local_id(0); i < a.words; i += WG) {
        for (uint b = 0; b < a.n; b++)
            x[b] = cache[(uint)from[b] * (size_t)a.stride[0] + i];
        for (uint b = 0; b < a.n; b++)
            cache[b * (size_t)a.stride[0] + i] = x[b];
    }
}

/* Puts pairs (token, choice) with the same expert in blocks, for expert_panels.cl. Ids outside the experts
 * count as those of one more expert. expert_panel_args describes the result.
 * Launch: expert_blocks one work-item; expert_block_rows one for each block, which rounds the rows of x of
 * its pairs to 8 bits. Copies of the first row fill a block.
 *   -D ROWS  1: builds expert_block_rows, 0: expert_blocks */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#ifndef ROWS
#  error "expert_blocks.cl needs ROWS"
#endif

#include "expert_panels.h"

#if ROWS

kernel void expert_block_rows(const expert_panel_args a, global uchar *scratch, global const float *x)
{
    const blocks_of b = blocks_at(&a, scratch);
    const uint block = get_group_id(0);
    global const int *pairs = b.pairs + block * EXPERT_BLOCK;
    if (block >= (uint)*b.n)
        return;
    for (uint t = 0; t < EXPERT_BLOCK; t++)
        prepare_pair(&a.a, x, (uint)(pairs[t] < 0 ? pairs[0] : pairs[t]),
                     scratch + (size_t)block * EXPERT_BLOCK * TOKEN_BYTES(a.a.k, a.words), t, EXPERT_BLOCK,
                     a.words);
}

#else

kernel void expert_blocks(const expert_panel_args a, global uchar *scratch, global const int *ids)
{
    const blocks_of b = blocks_at(&a, scratch);
    uint tile = 0, block = 0;
    ids += a.a.ids;
    for (uint e = 0; e <= a.a.experts; e++)
        b.next[e] = 0;
    for (uint i = 0; i < a.pairs; i++)
        b.next[min((uint)ids[i], a.a.experts)]++; /* a negative id is a large one */
    for (uint e = 0; e <= a.a.experts; e++) {
        const uint n = ((uint)b.next[e] + EXPERT_BLOCK - 1) / EXPERT_BLOCK;
        b.next[e] = (int)(block * EXPERT_BLOCK);
        for (uint i = 0; i < n; i += EXPERT_BLOCKS, tile++) {
            b.tiles[tile * EXPERT_TILE_WORDS] = (int)e;
            b.tiles[tile * EXPERT_TILE_WORDS + 1] = (int)(block + i);
            b.tiles[tile * EXPERT_TILE_WORDS + 2] = (int)min((uint)EXPERT_BLOCKS, n - i);
        }
        block += n;
    }
    *b.n = (int)block;
    for (; tile < a.tiles; tile++)
        b.tiles[tile * EXPERT_TILE_WORDS + 2] = 0;
    for (uint i = 0; i < block * EXPERT_BLOCK; i++)
        b.pairs[i] = -1;
    for (uint i = 0; i < a.pairs; i++)
        b.pairs[b.next[min((uint)ids[i], a.a.experts)]++] = (int)i;
}

#endif

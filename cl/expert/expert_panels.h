/* What kernels for experts in panels share: the blocks of pairs, and rows of x in 8 bits. */
#ifndef CLEF_CL_EXPERT_PANELS_H
#define CLEF_CL_EXPERT_PANELS_H

#ifndef ROWS_SPACE
#    define ROWS_SPACE global
#endif
#define QUANTISE 1
#define NORM_WEIGHT_TYPE 0 /* there is no norm */
#define NORM_BIAS_TYPE 0
#include "panel_cpu_activations.h"

/* The parts of the scratch memory after the rows of x (expert_panel_args). */
typedef struct blocks_of {
    global int *n, *tiles, *next, *pairs;
} blocks_of;

INLINED blocks_of blocks_at(const expert_panel_args *a, global uchar *scratch)
{
    blocks_of b;
    b.n = (global int *)scratch + a->order;
    b.tiles = b.n + 1;
    b.next = b.tiles + a->tiles * EXPERT_TILE_WORDS;
    b.pairs = b.next + a->a.experts + 1;
    return b;
}

/* Rounds the row of x of a pair to 8 bits, as row t of a block of nt that begins at `out`. */
INLINED void prepare_pair(const expert_args *a, global const float *x, uint pair, ROWS_SPACE uchar *out,
                          uint t, uint nt, uint words)
{
    rows_args rows;
    normed_row r;
    rows.k = a->k;
    r.x = x + a->x + (size_t)(a->each ? pair : pair / a->chosen) * a->k;
    r.norm = 0;
    prepare_row(&rows, &r, out, t, nt, words);
}

#endif

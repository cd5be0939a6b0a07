/* Samples the next token of each row of logits [B, V] by the rules of graph/op/sample.h. The result is exact:
 * sums are of integers, so their order does not matter. First history[b, pos[b] + t] = ids[b, t]; at the end,
 * for the next step, which has one token a row, ids[b] = token and pos[b] += T.
 *   sample_blocks  launch: groups of `span` blocks of 64 logits, rows in dim 1. Computes the maximum of each
 *                  block, penalties, and history
 *   sample_pick    launch: one group for each row
 *   sample_whole   launch: one group; does the work of both for a single row
 *   -D WG     work-items in a group
 *   -D ALONE  1: the program has sample_whole, else the other two. PoCL compiles all kernels of a program
 *             that clef keeps. */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "sample_pick.h"

/* ---- kernels --------------------------------------------------------------------------------- */

#define PARAMETERS                                                                                \
    STAGE_GROUP const sample_args a, global int *out, global ulong *scratch, global int *history, \
        global int *ids, global int *pos,                                                         \
        global const float *logits, global const int *options

/* The number of the draw, from 1. */
static uint number_of(const sample_args *a, global const sample_options *o, int pos)
{
    return (uint)(pos + (int)a->length - o->first) + 1;
}

static void finish(const sample_args *a, uint row, uint token, int at, global int *out, global int *ids,
                   global int *pos)
{
    GROUP_SYNC(); /* all have read the state */
    if (local_id(0) != 0)
        return;
    out[row] = (int)token;
    ids[a->ids + row] = token == NO_TOKEN ? 0 : (int)token; /* the next step reads a weight's row of it */
    pos[a->pos + row] = at + (int)a->length;
}

/* The result of a row without sampling; one work-item writes it. */
static void no_token(global int *out)
{
    if (local_id(0) == 0)
        *out = 0;
}

#if ALONE

GROUP_KERNEL
void sample_whole(PARAMETERS)
{
    global const sample_options *o = (global const sample_options *)(options + a.options);
    const int at = pos[a.pos];
    GROUP_SCRATCH(floats);
    SUM_SCRATCH(sums);
    keep_history(&a, 0, history, ids, at);
    if (o->mode == SAMPLE_OFF) {
        no_token(out);
        return;
    }
    const row_memory m = memory_of(&a, scratch, 0);
    logits += a.logits;
    blocks_of_row(&a, o, m, 0, 0, a.blocks, history, ids, at, logits);
    GROUP_SYNC();
    const uint token = pick(&a, o, m, 0, number_of(&a, o, at), o->last_n > 0 ? m.z : logits, floats, sums);
    finish(&a, 0, token, at, out, ids, pos);
}

#else

GROUP_KERNEL
void sample_blocks(PARAMETERS)
{
    global const sample_options *o = (global const sample_options *)(options + a.options);
    const uint row = group_id(1), first = group_id(0) * a.span, last = min(first + a.span, a.blocks);
    const int at = pos[a.pos + row];
    if (group_id(0) == 0)
        keep_history(&a, row, history, ids, at);
    if (o->mode == SAMPLE_OFF)
        return;
    blocks_of_row(&a, o, memory_of(&a, scratch, row), row, first, last, history, ids, at,
                  logits + a.logits + row * (size_t)a.n_vocab);
}

GROUP_KERNEL
void sample_pick(PARAMETERS)
{
    global const sample_options *o = (global const sample_options *)(options + a.options);
    const uint row = group_id(1);
    const int at = pos[a.pos + row];
    GROUP_SCRATCH(floats);
    SUM_SCRATCH(sums);
    if (o->mode == SAMPLE_OFF) {
        no_token(out + row);
        return;
    }
    const row_memory m = memory_of(&a, scratch, row);
    const uint token = pick(&a, o, m, row, number_of(&a, o, at),
                            o->last_n > 0 ? m.z : logits + a.logits + row * (size_t)a.n_vocab, floats, sums);
    finish(&a, row, token, at, out, ids, pos);
}

#endif

/* Samples a token of each row of logits [N, V] by the rules of graph/op/sample.h. Each row has options of its
 * own, with its stream and the number of its draw, and its own recent tokens. The result is exact: sums are
 * of integers, so their order does not matter. Rows are in dim 1 of a launch, from a.first.
 *   sample_rows_blocks  launch: groups of `span` blocks of 64 logits. Computes the maximum of each block, and
 *                       penalties
 *   sample_rows_pick    launch: one group for each row
 *   sample_rows_whole   launch: one group for each row; does the work of both
 *   -D WG     work-items in a group
 *   -D ALONE  1: the program has sample_rows_whole, else the other two */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "sample_pick.h"

#define PARAMETERS                                                                                       \
    STAGE_GROUP const sample_args a, global int *out, global ulong *scratch, global const float *logits, \
        global const int *recent, global const int *options

static global const sample_options *options_of(const sample_args *a, global const int *options, uint row)
{
    return (global const sample_options *)(options + a->options) + row;
}

static global const float *logits_of(const sample_args *a, global const float *logits, uint row)
{
    return logits + a->logits + row * (size_t)a->n_vocab;
}

/* Samples the token of a row whose blocks are known. A row that is off is computed, too: with PoCL 3.1, a
 * return before the first barrier makes the kernel hang. */
static void put_token(const sample_args *a, global const sample_options *o, row_memory m,
                      global const float *logits, global int *out, group_scratch floats, sum_scratch sums)
{
    const uint token =
        pick(a, o, m, o->stream, (uint)o->first + 1, o->last_n > 0 ? m.z : logits, floats, sums);
    if (local_id(0) == 0)
        *out = o->mode == SAMPLE_OFF ? 0 : (int)token;
}

#if ALONE

GROUP_KERNEL
void sample_rows_whole(PARAMETERS)
{
    const uint row = a.first + group_id(1);
    global const sample_options *o = options_of(&a, options, row);
    const row_memory m = memory_of(&a, scratch, group_id(1));
    GROUP_SCRATCH(floats);
    SUM_SCRATCH(sums);
    logits = logits_of(&a, logits, row);
    blocks_of_row(&a, o, m, row, 0, a.blocks, recent, recent, 0, logits);
    GROUP_SYNC();
    put_token(&a, o, m, logits, out + row, floats, sums);
}

#else

GROUP_KERNEL
void sample_rows_blocks(PARAMETERS)
{
    const uint row = a.first + group_id(1), first = group_id(0) * a.span,
               last = min(first + a.span, a.blocks);
    global const sample_options *o = options_of(&a, options, row);
    blocks_of_row(&a, o, memory_of(&a, scratch, group_id(1)), row, first, last, recent, recent, 0,
                  logits_of(&a, logits, row));
}

GROUP_KERNEL
void sample_rows_pick(PARAMETERS)
{
    const uint row = a.first + group_id(1);
    global const sample_options *o = options_of(&a, options, row);
    const row_memory m = memory_of(&a, scratch, group_id(1));
    GROUP_SCRATCH(floats);
    SUM_SCRATCH(sums);
    put_token(&a, o, m, logits_of(&a, logits, row), out + row, floats, sums);
}

#endif

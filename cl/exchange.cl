/* out[i] = the sum of x[i] over the ranks of a group, which exchange in memory of their node: a round of
 * clef__group_memory (ranks/join/transport.h). Contributions are added in the order of ranks, so all ranks
 * get the same bits. out may be x.
 * Launch: one group of one work-item. It waits for the other ranks' parts in the round. For CPUs, where each
 * rank has a core of its own. */
#include "args.h"
#include "substep.h"
#include "wait.h"

enum { EAGER = 1024 /* polls before a rank lets other threads have its core */ };

/* Returns 1 when the rank has raised `round`, 0 after `polls` polls; polls 0: any number. */
static int wait_for_round(volatile global const ulong *raised, ulong round, uint polls)
{
    for (uint i = 0; *raised < round; i += i < ~0u) {
        if (polls && i >= polls)
            return 0;
        if (i < EAGER)
            PAUSE();
        else
            YIELD();
    }
    return 1;
}

static int wait_for_all(global uchar *memory, const exchange_args a, ulong round)
{
    int arrived = 1;
    for (uint i = 0; i < a.n_ranks && arrived; i++)
        arrived = wait_for_round((volatile global const ulong *)(memory + i * (size_t)a.segment), round,
                              a.polls);
    SEE_OTHERS();
    return arrived;
}

STAGE_KERNEL void exchange_sum(STAGE_GROUP const exchange_args a, global float *out, global const float *x,
                               global uchar *memory)
{
    volatile global ulong *raised = (volatile global ulong *)(memory + a.rank * (size_t)a.segment);
    const ulong round = *raised + 1;
    const size_t slot = a.slots + (round & 1) * a.slot;
    const uint whole = a.n / 8 * 8;
    if (!wait_for_all(memory, a, round - 1))
        return;
    global float *mine = (global float *)(memory + a.rank * (size_t)a.segment + slot);
    for (uint i = 0; i < whole; i += 8)
        vstore8(vload8(0, x + i), 0, mine + i);
    for (uint i = whole; i < a.n; i++)
        mine[i] = x[i];
    SEE_OTHERS();
    *raised = round;
    if (!wait_for_all(memory, a, round))
        return;
    global const float *first = (global const float *)(memory + slot);
    const size_t step = a.segment / sizeof(float);
    for (uint i = 0; i < whole; i += 8) {
        float8 sum = vload8(0, first + i);
        for (uint rank = 1; rank < a.n_ranks; rank++)
            sum += vload8(0, first + rank * step + i);
        vstore8(sum, 0, out + i);
    }
    for (uint i = whole; i < a.n; i++) {
        float sum = first[i];
        for (uint rank = 1; rank < a.n_ranks; rank++)
            sum += first[rank * step + i];
        out[i] = sum;
    }
}

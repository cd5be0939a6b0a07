/* A fused step: several kernels run as one launch. Each is a substep, a function made from the kernel's own
 * source (substep.h). fused_program.c joins these sources with this file. Every work-group executes the
 * substeps in order. From each substep it claims groups of work until none is left, then waits until all
 * claimed groups are done. A work-group only waits for work that another has begun. So work-groups need not
 * run at the same time: one that starts late finds no work left. A work-group that waits for long, because
 * another program has taken a core, yields its own core; it holds no unfinished work then. The last
 * work-group to leave resets the counters for the next launch.
 * Launch: one work-item in a group, as many groups as cores. For CPUs.
 *   sync  two cache lines for each substep: groups claimed (and, after those of the first substep, the
 *         work-groups that have left), and groups done. All are 0 at first
 *   list  the substeps, and their arguments
 *   -D STAGES      the number of different substeps
 *   -D WHOLE_BODY  as in substep.h */
#include "args.h"
#include "wait.h"

#ifndef STAGES
#  error "fused_step.cl needs STAGES"
#endif

#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_3(X) EACH_2(X) X(2)
#define EACH_4(X) EACH_3(X) X(3)
#define EACH_5(X) EACH_4(X) X(4)
#define EACH_6(X) EACH_5(X) X(5)
#define EACH_7(X) EACH_6(X) X(6)
#define EACH_8(X) EACH_7(X) X(7)
#define EACH_9(X) EACH_8(X) X(8)
#define EACH_10(X) EACH_9(X) X(9)
#define EACH_11(X) EACH_10(X) X(10)
#define EACH_12(X) EACH_11(X) X(11)
#define EACH_13(X) EACH_12(X) X(12)
#define EACH_14(X) EACH_13(X) X(13)
#define EACH_15(X) EACH_14(X) X(14)
#define EACH_16(X) EACH_15(X) X(15)
#define EACH_17(X) EACH_16(X) X(16)
#define EACH_18(X) EACH_17(X) X(17)
#define EACH_19(X) EACH_18(X) X(18)
#define EACH_20(X) EACH_19(X) X(19)
#define EACH_21(X) EACH_20(X) X(20)
#define EACH_22(X) EACH_21(X) X(21)
#define EACH_23(X) EACH_22(X) X(22)
#define EACH_24(X) EACH_23(X) X(23)
#define EACH_OF(n, X)   EACH_NAMED(n, X)
#define EACH_NAMED(n, X) EACH_##n(X)

#define DECLARE(i) void fused_stage_##i(const uint *group, global const uint *args, global void *const *bufs);
EACH_OF(STAGES, DECLARE)

enum { LINE_WORDS = 16 };

/* Returns 1 when n groups are done, 0 when the wait took too long. */
static int wait_for(volatile global uint *done, uint n)
{
    for (uint i = 0; i < PATIENCE; i++) {
        if (*done >= n)
            return 1;
        PAUSE();
    }
    return 0;
}

static void run_stage(global const fused_stage *s, uint i, global const uint *list, global void *const *bufs)
{
    const uint group[] = {i % s->groups[0], i / s->groups[0] % s->groups[1], i / s->groups[0] / s->groups[1],
                          s->groups[0]};
    global const uint *args = list + s->args;
#define RUN(i)                                              \
    case i:                                                 \
        fused_stage_##i(group, args, bufs);                 \
        break;
    switch (s->number) {
        EACH_OF(STAGES, RUN)
    }
}

#define BASES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define PARAMETER(i) , global uchar *base##i
#define ELEMENT(i)   base##i,

__attribute__((reqd_work_group_size(1, 1, 1))) kernel
void fused_step(const fused_args a, global uint *sync, global const uint *list BASES(PARAMETER))
{
    global uchar *const bases[FUSED_BASES] = {BASES(ELEMENT)};
    volatile global uint *left = sync + 2 * LINE_WORDS * a.first + 1;
    for (uint i = a.first; i < a.first + a.n; i++) {
        global const fused_stage *s = (global const fused_stage *)list + i;
        volatile global uint *claimed = sync + 2 * LINE_WORDS * i, *done = claimed + LINE_WORDS;
        const uint n = s->n_groups;
        if (*done < n) {
            uint mine = 0, group = atomic_inc(claimed);
            global void *bufs[FUSED_BUFS];
            for (uint k = 0; group < n && k < FUSED_BUFS; k++)
                bufs[k] = s->base[k] == FUSED_NONE
                              ? 0
                              : (global void *)(bases[s->base[k]] + s->at[k] * (size_t)FUSED_UNIT);
            for (; group < n; mine++, group = atomic_inc(claimed))
                run_stage(s, group, list, bufs);
            SEE_OTHERS();
            if (mine)
                atomic_add(done, mine);
            if (!wait_for(done, n))
                break;
        }
        SEE_OTHERS();
    }
    if (atomic_inc(left) + 1 == get_num_groups(0)) {
        for (uint i = a.first; i < a.first + a.n; i++)
            sync[2 * LINE_WORDS * i] = sync[2 * LINE_WORDS * i + LINE_WORDS] = 0;
        *left = 0;
    }
}

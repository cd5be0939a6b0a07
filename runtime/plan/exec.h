/* Executors: the ways in which a plan can enqueue its launches. */
#ifndef CLEF_RUNTIME_EXEC_H
#define CLEF_RUNTIME_EXEC_H

#include "clef/plan.h"

struct clef__execution;

/** A way to enqueue a plan's launches. A plan asks its executors in order of preference at each run; the last
 *  one (clef__exec_launches) always serves. */
typedef struct clef__executor {
    const char *name;
    /** Called once, when the plan's kernels are built. Sets e->state, or leaves it NULL where it cannot
     *  serve. */
    clef_status (*prepare)(clef_plan *plan, struct clef__execution *e, clef_error *err);
    /** 1: it has enqueued the whole list, or failed to (*status). 0: it does not serve this list; ask the
     *  next one. */
    int (*run)(clef_plan *plan, struct clef__execution *e, clef_status *status, clef_error *err);
    /** The list of launches has changed. NULL: nothing to do. */
    void (*invalidate)(clef_plan *plan, struct clef__execution *e);
    /** The plan is idle. e->state is NULL afterwards. NULL: nothing to do. */
    void (*release)(clef_plan *plan, struct clef__execution *e);
} clef__executor;
extern const clef__executor clef__exec_fused, clef__exec_command_buffer, clef__exec_launches;

/** An executor of a plan, and what it keeps for that plan. */
typedef struct clef__execution {
    const clef__executor *by;
    void                 *state;
} clef__execution;
enum { CLEF_MAX_EXECUTORS = 4 };

/** The plan's executor of this kind: NULL where it has none. */
clef__execution *clef__plan_executor(clef_plan *plan, const clef__executor *by);
/** Adds one, which is asked first. */
clef__execution *clef__plan_add_executor(clef_plan *plan, const clef__executor *by);
/** The list of launches has changed. */
void        clef__plan_invalidate_executors(clef_plan *plan);

#endif

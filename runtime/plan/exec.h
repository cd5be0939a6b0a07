/* Executors: the ways in which a plan can enqueue its launches. */
#ifndef CLEF_RUNTIME_EXEC_H
#define CLEF_RUNTIME_EXEC_H

#include "clef/plan.h"

struct clef__execution;

/** A way to enqueue a plan's launches. At each run a plan asks its executors in order of preference; the last
 *  one (clef__exec_launches) runs any list. */
typedef struct clef__executor {
    const char *name;
    /** Called once, when the plan's kernels are built. Sets e->state, or leaves it NULL if this executor
     *  cannot run the plan. */
    clef_status (*prepare)(clef_plan *plan, struct clef__execution *e, clef_error *err);
    /** Returns 1 when it has enqueued the whole list, or failed to (*status). Returns 0 when it cannot run
     *  this list; the next executor is asked. */
    int (*run)(clef_plan *plan, struct clef__execution *e, clef_status *status, clef_error *err);
    /** Called when the list of launches has changed. NULL: nothing to do. */
    void (*invalidate)(clef_plan *plan, struct clef__execution *e);
    /** Called while the plan is idle. Sets e->state to NULL. NULL: nothing to do. */
    void (*release)(clef_plan *plan, struct clef__execution *e);
} clef__executor;
extern const clef__executor clef__exec_fused, clef__exec_launches;

/** An executor of a plan, and its state for that plan. */
typedef struct clef__execution {
    const clef__executor *by;
    void                 *state;
} clef__execution;
enum { CLEF_MAX_EXECUTORS = 2 };

/** The plan's executor of this kind, NULL if it has none. */
clef__execution *clef__plan_executor(clef_plan *plan, const clef__executor *by);
/** Adds an executor in front of the others. */
clef__execution *clef__plan_add_executor(clef_plan *plan, const clef__executor *by);
/** Tells all executors that the list of launches has changed. */
void        clef__plan_invalidate_executors(clef_plan *plan);

#endif

/* Marks: launches of a plan whose end the host can wait for while later launches run. */
#ifndef CLEF_RUNTIME_MARKS_H
#define CLEF_RUNTIME_MARKS_H

#include "clef/plan.h"
#include "graph/value.h"
#include "runtime/device/opencl.h"

typedef struct clef__mark {
    int32_t  launch; /* its index in the plan's list */
    cl_event ended;  /* of the last run, in which everything before the launch has ended, too; NULL: the plan
                        did not run yet, or gives no event */
} clef__mark;

/** The last launch of the present list that reads or writes the memory of v, or of the base of v if v is a
 *  view; -1: none does. */
int32_t     clef__plan_last_use(const clef_plan *plan, const clef_value *v);

/** Marks n launches, whose indices rise strictly, in place of those that were marked: from the next run on
 *  plan->marks[i].ended belongs to launches[i]. The queue is flushed at each. A plan for one device, whose
 *  symbols do not change: a new list has no marks. CLEF_E_NOMEM. */
clef_status clef__plan_set_marks(clef_plan *plan, const int32_t *launches, int32_t n, clef_error *err);
/** Frees the marks and their events: when the list changes, and at the plan's end. */
void        clef__plan_drop_marks(clef_plan *plan);

/* For executors. */

/** Forgets the events of the last run. */
void        clef__plan_clear_marks(clef_plan *plan);
/** Sets the event that a marked launch was enqueued with (NULL: it has none), and flushes the queue. Takes
 *  the event over; retains it first if `is_shared`. */
clef_status clef__plan_mark(const clef_plan *plan, clef__mark *mark, cl_event ended, int is_shared,
                            clef_error *err);

#endif

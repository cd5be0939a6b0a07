/* Marks: launches of a plan whose end the host can wait for while later launches run. */
#include "runtime/plan/marks.h"

#include <stdlib.h>

#include "runtime/plan/plan.h"

int32_t clef__plan_last_use(const clef_plan *plan, const clef_value *v)
{
    const clef_value *base = clef__base(v);
    for (int32_t i = plan->n_launches - 1; i >= 0; i--) {
        const clef_launch *l = &plan->launches[i];
        for (uint32_t k = 0; k < l->n_bufs; k++)
            if (l->bufs[k] && l->bufs[k] != CLEF__SCRATCH && clef__base(l->bufs[k]) == base)
                return i;
    }
    return -1;
}

void clef__plan_clear_marks(clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_marks; i++) {
        if (plan->marks[i].ended)
            clReleaseEvent(plan->marks[i].ended);
        plan->marks[i].ended = NULL;
    }
}

void clef__plan_drop_marks(clef_plan *plan)
{
    clef__plan_clear_marks(plan);
    free(plan->marks);
    plan->marks = NULL;
    plan->n_marks = 0;
}

clef_status clef__plan_set_marks(clef_plan *plan, const int32_t *launches, int32_t n, clef_error *err)
{
    clef__mark *marks = n ? calloc((size_t)n, sizeof *marks) : NULL;
    if (n && !marks)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for %d marks", n);
    for (int32_t i = 0; i < n; i++)
        marks[i].launch = launches[i];
    clef__plan_drop_marks(plan);
    clef__plan_invalidate_executors(plan); /* they may have recorded launches across a mark */
    plan->marks = marks;
    plan->n_marks = n;
    return CLEF_OK;
}

clef_status clef__plan_mark(const clef_plan *plan, clef__mark *mark, cl_event ended, int is_shared,
                            clef_error *err)
{
    cl_int code = is_shared ? clRetainEvent(ended) : CL_SUCCESS;
    if (code)
        return clef__cl_fail(err, "clRetainEvent", "a marked launch", code);
    mark->ended = ended;
    code = clFlush(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFlush", "a marked launch", code) : CLEF_OK;
}

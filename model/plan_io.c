/* Looks up what a plan of a model's graph reads and writes. */
#include "model/plan_io.h"

clef__plan_io clef__plan_io_of(const clef_plan *plan)
{
    return (clef__plan_io){
#define CLEF_X(field, name) .field = clef_plan_input(plan, name),
        CLEF__PLAN_INPUTS(CLEF_X)
#undef CLEF_X
#define CLEF_X(field, name) .field = clef_plan_output(plan, name),
            CLEF__PLAN_OUTPUTS(CLEF_X)
#undef CLEF_X
#define CLEF_X(field, name) .field = clef_plan_symbol(plan, name),
                CLEF__PLAN_SYMBOLS(CLEF_X)
#undef CLEF_X
    };
}

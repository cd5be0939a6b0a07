#include "clef/constrain.h"
#include "clef/tools.h"
#include "tools/absent/absent.h"

clef_status clef_constraint_create(clef_constraint_kind kind, const char *source, size_t n,
                                   const clef_constraint_opts *opts, clef_constraint **out,
                                   clef_constraint_problem *problem, clef_error *err)
{
    (void)kind, (void)source, (void)n, (void)opts, (void)problem;
    *out = NULL;
    return CLI_ABSENT(err, "constraints", "CLEF_TEXT");
}

void clef_constraint_destroy(clef_constraint *constraint)
{
    (void)constraint;
}

clef_status clef_tool_constraint_create(const clef_tool_constraint_opts *opts, clef_constraint **out,
                                        char **warnings, clef_error *err)
{
    (void)opts, (void)warnings;
    *out = NULL;
    return CLI_ABSENT(err, "constraints on calls", "CLEF_TEXT");
}

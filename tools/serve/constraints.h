/* Compiled constraints, kept for the requests that use the same. */
#ifndef CLEF_TOOLS_SERVE_CONSTRAINTS_H
#define CLEF_TOOLS_SERVE_CONSTRAINTS_H

#include "clef/constrain.h"
#include "clef/tools.h"
#include "tools/serve/error.h"
#include "tools/serve/metrics.h"

typedef struct serve_constraints serve_constraints;

/** NULL when out of memory. metrics is borrowed. */
serve_constraints *serve_constraints_create(serve_metrics *metrics);
void serve_constraints_destroy(serve_constraints *all); /* accepts NULL */

/** Compiles a source, or takes what was compiled before. `param` is the field, for errors. Give it back with
 *  serve_constraints_give() when no run uses it any more. Returns NULL and fills the error. Any thread. */
clef_constraint *serve_constraints_take(serve_constraints *all, clef_constraint_kind kind, const char *source,
                                        size_t n, const clef_constraint_opts *opts, const char *param,
                                        serve_error *error);
/** The same of a constraint on tool calls. */
clef_constraint *serve_constraints_take_tools(serve_constraints *all, const clef_tool_constraint_opts *opts,
                                              serve_error *error);
void serve_constraints_give(serve_constraints *all, clef_constraint *constraint); /* accepts NULL */

#endif

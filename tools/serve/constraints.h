/* Compiled constraints, kept for the requests that use the same. */
#ifndef CLEF_TOOLS_SERVE_CONSTRAINTS_H
#define CLEF_TOOLS_SERVE_CONSTRAINTS_H

#include "clef/constrain.h"
#include "clef/tools.h"
#include "tools/serve/base/error.h"
#include "tools/serve/metrics.h"

typedef struct serve_constraints serve_constraints;
struct serve_request;

/** NULL when out of memory. metrics is borrowed. */
serve_constraints *serve_constraints_create(serve_metrics *metrics);
void serve_constraints_destroy(serve_constraints *all); /* accepts NULL */

/** Compiles a source for a request, or takes what was compiled before. It waits its turn in the server's lane
 * for this. `param` is the field, for errors. Give it back with serve_constraints_give() when no run uses it
 * any more. Returns NULL and sets the request's error. Any thread but the lane's. */
clef_constraint *serve_constraints_take(struct serve_request *r, clef_constraint_kind kind,
                                        const char *source, size_t n, const clef_constraint_opts *opts,
                                        const char *param);
/** As serve_constraints_take(), for a constraint on tool calls. */
clef_constraint *serve_constraints_take_tools(struct serve_request *r, const clef_tool_constraint_opts *opts);
void serve_constraints_give(serve_constraints *all, clef_constraint *constraint); /* accepts NULL */

#endif

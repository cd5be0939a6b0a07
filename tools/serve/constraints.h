/* Compiling constraints for requests, in the cache of their model. */
#ifndef CLEF_TOOLS_SERVE_CONSTRAINTS_H
#define CLEF_TOOLS_SERVE_CONSTRAINTS_H

#include "clef/constrain.h"
#include "clef/tools.h"
#include "tools/serve/base/error.h"

struct serve_request;

/** Compiles a source for a request, or takes what was compiled before. It waits its turn in the server's lane
 * for this. `param` is the field, for errors. When no run uses it any more, it goes back with
 * clef_constraint_cache_give(). Returns NULL and sets the request's error. Any thread but the lane's. */
clef_constraint *serve_constraints_take(struct serve_request *r, clef_constraint_kind kind,
                                        const char *source, size_t n, const clef_constraint_opts *opts,
                                        const char *param);
/** As serve_constraints_take(), for a constraint on tool calls. */
clef_constraint *serve_constraints_take_tools(struct serve_request *r, const clef_tool_constraint_opts *opts);

#endif

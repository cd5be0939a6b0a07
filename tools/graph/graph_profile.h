/* Runs a graph once on a device, to see what it launches and how long that takes. */
#ifndef CLEF_TOOLS_GRAPH_PROFILE_H
#define CLEF_TOOLS_GRAPH_PROFILE_H

#include "tools/cli/common.h"

typedef struct cli_graph_profile {
    clef_device      *device;
    clef_plan        *plan;
    clef_launch_info *launches;
    clef_launch_time *times; /* of each */
    int32_t           n;
} cli_graph_profile;

/** Plans the graph for a device and runs it twice at the symbols' bounds, with inputs of zeros; the second
 *  run counts. no_proof: as in clef_plan_opts. model: source of the weights, or NULL. Finish it in any
 *  case. */
clef_status cli_graph_profile_run(cli_graph_profile *p, const char *device, int32_t no_proof,
                                  clef_model *model, const clef_graph *graph, clef_error *err);
void        cli_graph_profile_finish(cli_graph_profile *p);

#endif

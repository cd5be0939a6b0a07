/* The page of a graph. */
#ifndef CLEF_TOOLS_GRAPH_PAGE_H
#define CLEF_TOOLS_GRAPH_PAGE_H

#include "tools/graph/graph_profile.h"

/** Writes tools/pages/graph.html with the graph in it. profile: NULL, or a profile to show with it; the graph
 *  is then its plan's own. */
clef_status cli_graph_page(const clef_graph *graph, const cli_graph_profile *profile, const char *title,
                           FILE *to, clef_error *err);
/** Writes the page of two graphs: b, with what differs from a marked in it, and counted in *difference. */
clef_status cli_graph_diff_page(const clef_graph *a, const clef_graph *b, clef_graph_difference *difference,
                                const char *title, FILE *to, clef_error *err);

#endif

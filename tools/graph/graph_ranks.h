/* The graphs of the ranks that run a model together, for `clef graph --rank`, --tp and --pp. */
#ifndef CLEF_TOOLS_GRAPH_RANKS_H
#define CLEF_TOOLS_GRAPH_RANKS_H

#include "clef/ranks.h"
#include "tools/cli/common.h"

enum { CLI_MAX_DRAWN_RANKS = 16 };

/** Which ranks to show. */
typedef struct cli_rank_choice {
    const char *rank;          /* "1/4": rank 1 of 4; NULL: all of them */
    int32_t     width, stages; /* --tp and --pp; 0: not given */
} cli_rank_choice;

/** The graphs of the chosen ranks. */
typedef struct cli_rank_graphs {
    int32_t     width, stages;
    int32_t     n; /* graphs: 1, or all; 0: the choice names no ranks */
    clef_graph *of[CLI_MAX_DRAWN_RANKS];
} cli_rank_graphs;

/** Makes the graphs. A --tp or --pp that is not given is what the other leaves of N, or 1. CLEF_E_ARG: the
 *  rank or the layout makes no sense, or there are more than CLI_MAX_DRAWN_RANKS ranks to draw; and the
 *  statuses of clef_graph_of_rank(). cli_rank_graphs_finish() frees them, also after a failure. */
clef_status cli_rank_graphs_make(const cli_rank_choice *choice, const clef_graph *graph, cli_rank_graphs *out,
                                 clef_error *err);
void        cli_rank_graphs_finish(cli_rank_graphs *graphs);

#endif

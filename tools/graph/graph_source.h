/* A graph that a command line names: of a model or of a text file, after a pass. */
#ifndef CLEF_TOOLS_GRAPH_SOURCE_H
#define CLEF_TOOLS_GRAPH_SOURCE_H

#include "tools/adapters.h"
#include "tools/cli/common.h"

typedef struct cli_graph_source {
    clef_build_opts build; /* for a model; its taps become outputs of a text graph too */
    cli_list        loras; /* for a model: the adapters that --lora names */
    int32_t         train; /* 1: of a model, the graph of a training's part, with gradients */
    const char     *after; /* the last pass to run; "build": none; NULL: all */
} cli_graph_source;

/** Opens `path` and makes its graph. *model (NULL for a text file) holds its weights. The caller destroys the
 *  graph and closes the model, also after a failure. */
clef_status cli_graph_source_open(const cli_graph_source *source, const char *path, clef_model **model,
                                  clef_graph **out, clef_error *err);

#endif

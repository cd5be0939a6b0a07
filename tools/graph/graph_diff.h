/* `clef graph diff A B`. */
#ifndef CLEF_TOOLS_GRAPH_DIFF_H
#define CLEF_TOOLS_GRAPH_DIFF_H

#include "tools/graph/graph_source.h"

/** Compares two graphs and writes the differences to `out` (NULL: stdout). Each is a model or a text file,
 *  with an optional @PASS: the graph after that pass (else after source->after). Returns CLI_OK when they are
 *  equal, CLI_FAILED when they differ and after a message. is_page: as an HTML page, else as text. */
int cli_graph_diff(const cli_graph_source *source, const char *a, const char *b, const char *out,
                   int is_page);

#endif

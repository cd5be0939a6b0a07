/* `clef graph diff A B`. */
#ifndef CLEF_TOOLS_GRAPH_DIFF_H
#define CLEF_TOOLS_GRAPH_DIFF_H

#include "tools/graph/graph_source.h"

/** Compares two graphs: each a model or a text file, with @PASS behind it as that pass leaves it (else as
 *  source->after says), and writes what differs to `out` (NULL: stdout). CLI_OK when nothing does,
 *  CLI_FAILED otherwise and after a message. */
int cli_graph_diff(const cli_graph_source *source, const char *a, const char *b, const char *out);

#endif

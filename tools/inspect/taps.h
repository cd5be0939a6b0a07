/* --tap: values by name, or by a pattern in which * stands for any text and ? for one character. */
#ifndef CLEF_TOOLS_TAPS_H
#define CLEF_TOOLS_TAPS_H

#include "tools/cli/common.h"

/** 1 when the graph has an output of that name. */
int cli_is_output(const clef_graph *graph, const char *name);
/** 1 when the value is a state, the result of a state update, or a view of either: it changes later. */
int cli_shows_state(const clef_value *v);
/** The taps that are names, not patterns. */
cli_list cli_plain_taps(const cli_list *taps);
/** Makes an output of each computed value that a pattern matches, except views of a cache. CLEF_E_NOT_FOUND
 *  names a pattern without a match. */
clef_status cli_graph_tap_patterns(clef_graph *graph, const char *path, const cli_list *taps,
                                   clef_error *err);

/** Reads those of the first n_outputs outputs of a plan of `graph` that match a tap, and the output `also`
 *  (NULL: none). Without taps (NULL) it reads all. Names are the graph's. cli_taps_free() frees *out, also
 *  after a failure. */
clef_status cli_taps_read(clef_plan *plan, const clef_graph *graph, const cli_list *taps, const char *also,
                          int32_t n_outputs, clef_tensor_info **out, int32_t *n, clef_error *err);
void        cli_taps_free(clef_tensor_info *tensors, int32_t n);

#endif

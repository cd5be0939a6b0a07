/* What a model's file has and its graph does not read. */
#ifndef CLEF_MODEL_UNREAD_H
#define CLEF_MODEL_UNREAD_H

#include "clef/model.h"

/** Checks that the graph, built with `opts`, reads every tensor of a GGUF file that belongs to it.
 *  CLEF_E_UNSUPPORTED names the first that it does not read; CLEF_E_NOMEM. */
clef_status clef__check_all_read(const clef_model *model, const clef_graph *g, const clef_build_opts *opts,
                                 clef_error *err);

#endif

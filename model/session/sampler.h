/* What the host's sampler and sessions share. */
#ifndef CLEF_MODEL_SAMPLER_H
#define CLEF_MODEL_SAMPLER_H

#include "clef/generate.h"
#include "graph/op/sample.h"

/** The options as the op takes them; draw 0 is of the token at position `first`. NULL: greedy. CLEF_E_ARG for
 *  one out of range. */
clef_status clef__sampler_options(const clef_sampler_opts *opts, int32_t first, sample_options *out,
                                  clef_error *err);

#endif

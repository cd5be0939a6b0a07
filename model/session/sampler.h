/* What the host's sampler and sessions share. */
#ifndef CLEF_MODEL_SAMPLER_H
#define CLEF_MODEL_SAMPLER_H

#include "clef/generate.h"
#include "graph/op/sample.h"

/** Writes the options in the form of the op clef_sample(). Draw 0 belongs to the token at position `first`.
 *  opts NULL: greedy. CLEF_E_ARG for an option out of range. */
clef_status clef__sampler_options(const clef_sampler_opts *opts, int32_t first, sample_options *out,
                                  clef_error *err);

#endif

/* The options of a sampler, for the files that make one. */
#ifndef CLEF_MODEL_SAMPLER_OPTS_H
#define CLEF_MODEL_SAMPLER_OPTS_H

#include "clef/sampler.h"
#include "graph/op/sample.h"

/** CLEF_E_ARG for an option out of range. n_vocab 0: ids are not checked. */
clef_status clef__sampler_check(const clef_sampler_opts *opts, int32_t n_vocab, clef_error *err);
/** Replaces zeros that mean a default. Of the samplers those that are on stay, in their order. */
void        clef__sampler_defaults(clef_sampler_opts *opts);
/** clef__sampler_options() for options that these two have seen. */
void        clef__sampler_write(const clef_sampler_opts *opts, int32_t first, sample_options *out);

#endif

/* Models that read samples of a sound, not tokens. */
#ifndef CLEF_MODEL_ARCH_SAMPLES_H
#define CLEF_MODEL_ARCH_SAMPLES_H

#include "model/open/arch.h"

/** Checks the options of a graph that reads samples: those that it has are sound_samples and no_head. */
clef_status clef__check_sound_opts(const clef_model *model, const clef_build_opts *o, clef_error *err);
/** Adds the input b->features, F32 [1, samples]. */
void clef__add_samples(clef_builder *b, const clef_build_opts *o);

#endif

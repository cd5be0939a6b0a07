/* Folders without what clef reads: what they have instead. */
#ifndef CLEF_MODEL_NO_WEIGHTS_H
#define CLEF_MODEL_NO_WEIGHTS_H

#include "clef/status.h"

/** Fails with CLEF_E_NOT_FOUND and "folder: lacks", then the files there that hold weights in another way,
 *  and what to do with them.
 *
 *  lacks  "has no config.json" */
clef_status clef__no_weights(const char *folder, const char *lacks, clef_error *err);

#endif

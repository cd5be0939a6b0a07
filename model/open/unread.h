/* Stored tensors that nothing reads. */
#ifndef CLEF_MODEL_UNREAD_H
#define CLEF_MODEL_UNREAD_H

#include "clef/model.h"

/** Fails with CLEF_E_UNSUPPORTED if an opened model has a tensor that its graph does not read and that is not
 *  known to change nothing: buffers, heads, other modalities. A model whose graph cannot be built is not
 *  checked; building it says why. CLEF_E_NOMEM. */
clef_status clef__check_unread_tensors(const clef_model *model, clef_error *err);

#endif

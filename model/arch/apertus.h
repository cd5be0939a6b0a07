/* The numbers of Apertus's activation, which a folder has as tensors, and a GGUF file as keys. */
#ifndef CLEF_MODEL_APERTUS_H
#define CLEF_MODEL_APERTUS_H

#include "clef/model.h"

enum { CLEF_N_XIELU = 4 };
extern const char *const clef__xielu_names[CLEF_N_XIELU];
/** Number `which` of a layer; 0: the files have none. */
int clef__xielu_number(const clef_model *m, int32_t layer, int which, float *out);

#endif

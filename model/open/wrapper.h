/* Folders of models that also read pictures or sound ("Gemma3ForConditionalGeneration"): the text model in
 * them is opened, the other parts are left out. */
#ifndef CLEF_MODEL_WRAPPER_H
#define CLEF_MODEL_WRAPPER_H

#include "model/open/model.h"

/** Replaces a config.json that has a text_config by the configuration of its text model, with the outer keys
 *  that hold for it. Leaves any other as it is. CLEF_OK, CLEF_E_NOMEM. */
clef_status clef__unwrap_config(json_t **config, const char *file, clef_error *err);

/** Sets m->text_prefix to what stands before the names of the text model's tensors in place of "model.";
 *  NULL: they have the names of a text model. */
void clef__find_text_prefix(clef_model *m);

/** Writes the stored name of the text model's tensor `name` to `out`. Returns 0 if it is the same. */
int clef__text_name(const clef_model *m, const char *name, char *out, size_t capacity);

/** 1 for a tensor that is not of the text model. */
int clef__is_left_out(const clef_model *m, const char *name);

#endif

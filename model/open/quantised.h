/* The weights of a quantised folder among the model's tensors (model/packed/packed.h). */
#ifndef CLEF_MODEL_QUANTISED_H
#define CLEF_MODEL_QUANTISED_H

#include "clef/model.h"
#include "model/packed/packed.h"

/** Puts hf_quant_config.json or quantize_config.json, which older files have beside config.json, in the place
 *  of its quantization_config if it has none. */
clef_status clef__quantised_beside(clef_model *model, clef_error *err);
/** 1 if the model's config.json has a method of model/packed/. */
int clef__is_quantised(const clef_model *model);
/** Replaces the tensors of quantised matrices in model->tensors by the weights that they make. Fails with the
 *  name of what is missing, has another shape or is not supported. */
clef_status clef__quantised_find(clef_model *model, clef_error *err);
/** The matrix behind a tensor of the model; NULL: it is stored as it is. */
clef__packed *clef__packed_of(const clef_model *model, const clef_tensor_info *t);
/** 1 for a tensor that belongs to such a matrix: its factor, or the order of its columns. */
int clef__is_beside_packed(const clef_model *model, const clef_tensor_info *t);
/** Its bytes, made at the first call; NULL when out of memory. They live until the model is closed, or until
 *  clef__packed_done() and a call for another weight. */
const void *clef__packed_data(clef_model *model, clef__packed *p);
void        clef__packed_done(clef_model *model, clef__packed *p);
void        clef__packed_finish(clef_model *model);

#endif

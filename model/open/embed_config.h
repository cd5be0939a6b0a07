/* What a model's files say of its embeddings: pooling, normalisation and the longest text. */
#ifndef CLEF_MODEL_EMBED_CONFIG_H
#define CLEF_MODEL_EMBED_CONFIG_H

#include "clef/embed.h"

/** As clef_embedder_create() describes. n_dims is the model's width.
 *  CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
clef_status clef__embed_config(const clef_model *model, clef_embedder_info *out, clef_error *err);

/** Only what a folder's modules.json states: fields of `out` that it does not mention keep their values. */
clef_status clef__embed_read_folder(const clef_model *model, clef_embedder_info *out, clef_error *err);

/** The poolings in the order of llama.cpp's enum llama_pooling_type, which GGUF's ARCH.pooling_type holds. */
enum { CLEF_N_GGUF_POOLINGS = 4 };
extern const clef_pooling clef__gguf_poolings[CLEF_N_GGUF_POOLINGS];

#endif

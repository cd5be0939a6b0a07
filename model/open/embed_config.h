/* What a model's files state about its embeddings: pooling, normalisation and the longest text. */
#ifndef CLEF_MODEL_EMBED_CONFIG_H
#define CLEF_MODEL_EMBED_CONFIG_H

#include "clef/embed.h"

/** Reads it as clef_embedder_create() describes. n_dims is the model's width. CLEF_E_IO, CLEF_E_FORMAT,
 *  CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
clef_status clef__embed_config(const clef_model *model, clef_embedder_info *out, clef_error *err);

/** Reads a folder's modules.json. Fields of `out` that it does not mention keep their values. */
clef_status clef__embed_read_folder(const clef_model *model, clef_embedder_info *out, clef_error *err);

/** The poolings in the order of llama.cpp's enum llama_pooling_type, as stored in GGUF's
 *  ARCH.pooling_type. */
enum { CLEF_N_GGUF_POOLINGS = 4 };
extern const clef_pooling clef__gguf_poolings[CLEF_N_GGUF_POOLINGS];

#endif

/* What a model's files say of its embeddings. */
#ifndef CLEF_MODEL_EMBED_H
#define CLEF_MODEL_EMBED_H

#include "clef/embed.h"
#include "model/file/gguf_write.h"

/** Pooling, normalisation and the longest text, as clef_embedder_create() describes. n_dims is the model's width.
 *  CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
clef_status clef__embed_config(const clef_model *model, clef_embedder_info *out, clef_error *err);

/** The keys of a file made of a folder, which clef__embed_config() reads back; `arch` is the file's architecture. */
clef_status clef__embed_put_keys(const clef_model *model, const char *arch, clef_gguf_writer *w, clef_error *err);

#endif

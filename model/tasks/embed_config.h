/* What a model's files state about its embeddings: pooling, normalisation and the longest text. */
#ifndef CLEF_MODEL_EMBED_CONFIG_H
#define CLEF_MODEL_EMBED_CONFIG_H

#include <jansson.h>

#include "clef/embed.h"

/** Reads it as clef_embedder_create() describes; n_dims is that of whole vectors. opts: NULL, or which prompt
 *  is wanted. CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_NOT_FOUND, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM, and statuses of
 *  clef__dense_open(). */
clef_status clef__embed_config(const clef_model *model, const clef_embed_opts *opts, clef_embedder_info *out,
                               clef_error *err);

/** Reads a folder's modules.json. Fields of `out` that it does not mention keep their values. */
clef_status clef__embed_read_folder(const clef_model *model, const clef_embed_opts *opts,
                                    clef_embedder_info *out, clef_error *err);

/** Parts of it, which rankers read too. Opens FOLDER/part/file; part may be "". If there is no such file,
 *  *out is NULL and the status CLEF_OK. The caller frees *path in any case. */
clef_status clef__load_part(const clef_model *m, const char *part, const char *file, char **path,
                            json_t **out, clef_error *err);
/** Lowers *max_tokens to the length at which sentence-transformers cuts texts. of_vectors: settings that give
 *  other vectors are refused. */
clef_status clef__read_longest(const clef_model *m, const char *part, int of_vectors, int32_t *max_tokens,
                               clef_error *err);

/** Own key of GGUF files: prompts, default_prompt_name and similarity_fn_name, as JSON. */
#define CLEF_KEY_PROMPTS "libclef.embedding.prompts"

/** The poolings in the order of llama.cpp's enum llama_pooling_type, as stored in GGUF's
 *  ARCH.pooling_type. */
enum { CLEF_N_GGUF_POOLINGS = 4 };
extern const clef_pooling clef__gguf_poolings[CLEF_N_GGUF_POOLINGS];

#endif

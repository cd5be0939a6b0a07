/* Whisper models as whisper.cpp stores them: "ggml" as a number, hyperparameters, mel filters, a vocabulary
 * and tensors up to the end of the file (whisper.cpp, models/convert-pt-to-ggml.py). */
#ifndef CLEF_MODEL_GGML_H
#define CLEF_MODEL_GGML_H

#include "model/file/gguf.h"

/** 1 for bytes that begin as such a file. */
int clef__is_ggml(const void *data, size_t n_bytes);
/** Reads a file as if it were a GGUF file of clef's: its keys, and the names of its tensors. The data stay
 *  where they are, at any address: clef__gguf_align(). What such a file does not say is as in OpenAI's code:
 *  the names of languages, the tokens that are never written, the first timestamp. The file is borrowed until
 *  clef__gguf_close(). CLEF_E_FORMAT (offset and reason), CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
clef_status clef__ggml_parse(const void *data, size_t n_bytes, const char *name, clef_gguf *out,
                             clef_error *err);

#endif

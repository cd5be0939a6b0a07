/* What a file of whisper.cpp says, as the keys of a GGUF file. */
#ifndef CLEF_MODEL_GGML_KEYS_H
#define CLEF_MODEL_GGML_KEYS_H

#include "model/file/gguf.h"

typedef struct clef__ggml_head {
    int32_t n_vocab, n_source, d_model, n_heads, n_layers, n_context, n_decoder_layers, n_mels;
    int32_t n_tokens;         /* those that the file has: without the special ones */
    clef_gguf_string *tokens; /* [n_tokens] */
} clef__ggml_head;

/** Fills the keys of *out, and their bytes; `file` has the tensors. CLEF_E_UNSUPPORTED for a vocabulary that
 *  is none of Whisper's; CLEF_E_FORMAT, CLEF_E_NOMEM. */
clef_status clef__ggml_keys(const clef__ggml_head *h, const clef_gguf *file, const char *name, clef_gguf *out,
                            clef_error *err);

#endif

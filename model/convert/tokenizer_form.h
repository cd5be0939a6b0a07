/* A folder's tokenizer in GGUF's terms: which of llama.cpp's keys describe it, and what they cannot
 * express. */
#ifndef CLEF_MODEL_TOKENIZER_FORM_H
#define CLEF_MODEL_TOKENIZER_FORM_H

#include "model/tokenizer/read/json_parts.h"

typedef struct clef__tokenizer_form {
    const char      *model;  /* tokenizer.ggml.model: gpt2, llama, t5 or bert; NULL: none is close enough */
    const char      *pre;    /* tokenizer.ggml.pre */
    clef__spm_spaces spaces; /* for llama and t5 */
    int32_t          byte_fallback; /* of a tokenizer.json: "<0x41>" is the piece of a byte */
    char             lost[128];     /* what the keys cannot express; "": nothing, so the ids are equal */
} clef__tokenizer_form;

/** Describes a tokenizer.json, from which `tok` was read. */
void clef__tokenizer_form_of_json(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *out);
/** Describes the other files, by name: tokenizer.model, spiece.model, vocab.json, vocab.txt.
 *  CLEF_E_UNSUPPORTED: tiktoken's files, and what the keys cannot express. */
clef_status clef__tokenizer_form_of_file(const char *name, const clef_tokenizer *tok,
                                         clef__tokenizer_form *out, clef_error *err);

/** Writes GGUF's text of a WordPiece token to `out`. U+2581 is put before a word's start, and the "##" of a
 *  piece inside a word is dropped. */
clef_status clef__wordpiece_to_gguf(const char *text, size_t n, clef__chars *out, clef_error *err);

#endif

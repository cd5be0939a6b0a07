/* A folder's tokenizer in GGUF's terms: which of llama.cpp's keys describe it, and what they leave out. */
#ifndef CLEF_MODEL_TOKENIZER_FORM_H
#define CLEF_MODEL_TOKENIZER_FORM_H

#include "model/tokenizer/read/json_parts.h"

typedef struct clef__tokenizer_form {
    const char      *model;  /* tokenizer.ggml.model: gpt2, llama, t5 or bert; NULL: none is close enough */
    const char      *pre;    /* tokenizer.ggml.pre */
    clef__spm_spaces spaces; /* of llama and t5 */
    int32_t          byte_fallback; /* of a tokenizer.json: "<0x41>" is the piece of a byte */
    char             lost[128];     /* what the keys leave out; "": nothing, the ids are the same */
} clef__tokenizer_form;

/** Of a tokenizer.json, from which `tok` was read. */
void clef__tokenizer_form_of_json(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *out);
/** Of the other files, by name: tokenizer.model, spiece.model, vocab.json, vocab.txt.
 *  CLEF_E_UNSUPPORTED: tiktoken's files, and what the keys leave out. */
clef_status clef__tokenizer_form_of_file(const char *name, const clef_tokenizer *tok,
                                         clef__tokenizer_form *out, clef_error *err);

/** The text of a WordPiece token in GGUF, into `out`: U+2581 is put before a word's start, and the "##" of
 *  a piece inside a word is dropped. */
clef_status clef__wordpiece_to_gguf(const char *text, size_t n, clef__chars *out, clef_error *err);

#endif

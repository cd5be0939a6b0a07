/* What a folder's tokenizer is in GGUF's terms: which of llama.cpp's keys say it, and what they leave out. */
#ifndef CLEF_MODEL_TOKEN_FORM_H
#define CLEF_MODEL_TOKEN_FORM_H

#include "model/tokenizer/read/json_parts.h"

typedef struct clef__tokenizer_form {
    const char     *model; /* tokenizer.ggml.model: gpt2, llama, t5 or bert; NULL: none is near enough */
    const char     *pre;   /* tokenizer.ggml.pre */
    clef__spm_spaces spaces; /* llama and t5 */
    int32_t         byte_fallback; /* of a tokenizer.json: "<0x41>" is a byte's piece */
    char            lost[128]; /* what the keys leave out; "": nothing, clef reads the same ids from them */
} clef__tokenizer_form;

/** Of a tokenizer.json, which `tok` was read from. */
void clef__tokenizer_form_of_json(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *out);
/** Of the other files by their name: tokenizer.model, spiece.model, vocab.json, vocab.txt. CLEF_E_UNSUPPORTED for tiktoken's. */
clef_status clef__tokenizer_form_of_file(const char *name, const clef_tokenizer *tok, clef__tokenizer_form *out, clef_error *err);

/** The text of a WordPiece token in GGUF: a word's start behind U+2581, what stands inside a word without its "##". Writes to `out`. */
clef_status clef__wordpiece_to_gguf(const char *text, size_t n, clef__chars *out, clef_error *err);

#endif

/* Tokens that end a text by their own text ("<|im_end|>"), as in llama.cpp. They follow the ids that a file
 * names in hp->eos_more, and are counted in hp->n_eos_by_text. */
#ifndef CLEF_MODEL_END_TOKENS_H
#define CLEF_MODEL_END_TOKENS_H

#include "clef/model.h"
#include "clef/tokenizer.h"
#include "model/file/gguf.h"

/** Adds an id that ends a text to hp->eos_more. Returns 1 if it was added; 0 if it is there already, is
 *  not an id, or there is no more room. */
int clef__add_end(clef_hparams *hp, int64_t id);
/** Those of tokenizer.ggml.tokens, whatever their types, as llama.cpp takes them. */
void clef__end_tokens_of_gguf(const clef_gguf *gguf, clef_hparams *hp);
/** The special tokens of a tokenizer. */
void clef__end_tokens_of_tokenizer(const clef_tokenizer *tok, clef_hparams *hp);

#endif

/* What the readers of tokenizer.json and vocab.json share. */
#ifndef CLEF_MODEL_TOKENIZER_JSON_H
#define CLEF_MODEL_TOKENIZER_JSON_H

#include <jansson.h>

#include "model/tokenizer.h"

typedef struct clef_json_reader {
    clef_tokenizer *tok;
    const char *file;
    clef_error *err;
    int32_t fused; /* the decoder has joined the tokens: what follows sees the whole text */
} clef_json_reader;

/** One "type" that a part of the file may have. */
typedef struct clef_json_kind {
    const char *type;
    clef_status (*read)(clef_json_reader *r, const json_t *object);
} clef_json_kind;

/** Reads an object by its "type". CLEF_E_UNSUPPORTED names `part`, the type, and those that are known. A null does nothing. */
clef_status clef__json_by_type(clef_json_reader *r, const char *part, const clef_json_kind *kinds, size_t n_kinds, const json_t *object);
/** Reads each object of an array in the same way. */
clef_status clef__json_sequence(clef_json_reader *r, const char *part, const clef_json_kind *kinds, size_t n_kinds, const json_t *array);

/** Sets all tokens of {"token": id, ...}, after making room for the added tokens' ids too (`added` NULL: none). */
clef_status clef__json_vocab(clef_tokenizer *tok, const json_t *vocab, const json_t *added, const char *file, clef_error *err);

clef_status clef__json_normalizer(clef_json_reader *r, const json_t *object);
clef_status clef__json_pretokenizer(clef_json_reader *r, const json_t *object);
clef_status clef__json_decoder(clef_json_reader *r, const json_t *object);
clef_status clef__json_postprocessor(clef_json_reader *r, const json_t *object);

#endif

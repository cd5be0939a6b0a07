/* What the readers of tokenizer.json and vocab.json share. */
#ifndef CLEF_MODEL_TOKENIZER_JSON_H
#define CLEF_MODEL_TOKENIZER_JSON_H

#include <jansson.h>

#include "model/file/json.h"
#include "model/tokenizer/tokenizer.h"

typedef struct clef_json_reader {
    clef_tokenizer *tok;
    const char *file;
    clef_error *err;
    int32_t fused; /* the decoder has joined the tokens: what follows sees the whole text */
    int32_t posts; /* post-processors that add tokens */
    clef_bpe *bpe; /* the model, if it is that */
    clef_unigram *unigram;
    const json_t *added; /* added_tokens, for the room of their ids */
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

#define CLEF_N_KINDS(kinds) (sizeof(kinds) / sizeof *(kinds))
/** Reading the fields of one object of the file. */
clef_json_fields clef__json_part(clef_json_reader *r, const json_t *object, const char *within);
/** CLEF_E_UNSUPPORTED: "FILE: PART: WHAT is not supported". */
clef_status clef__stage_refuse(const clef_json_reader *r, const char *part, const char *what);
/** {"String": " "} or {"Regex": "\\s+"}; older files write the string alone. The text is borrowed. */
clef_status clef__json_pattern(clef_json_reader *r, const char *part, const json_t *object, clef_pattern *out);
typedef struct clef_json_metaspace {
    const char *replacement;
    clef_prepend_scheme scheme;
    int splits;
} clef_json_metaspace;
clef_status clef__json_read_metaspace(clef_json_reader *r, const json_t *object, clef_json_metaspace *out);

/** The model, whose vocabulary is read with it; `added` for the room of its ids. */
clef_status clef__json_model(clef_json_reader *r, const json_t *model, const json_t *added);
/** After everything else is read. */
clef_status clef__json_model_seal(clef_json_reader *r);

clef_status clef__json_normalizer(clef_json_reader *r, const json_t *object);
clef_status clef__json_pretokenizer(clef_json_reader *r, const json_t *object);
clef_status clef__json_decoder(clef_json_reader *r, const json_t *object);
clef_status clef__json_postprocessor(clef_json_reader *r, const json_t *object);

#endif

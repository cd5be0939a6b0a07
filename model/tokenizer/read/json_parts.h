/* What the readers of tokenizer.json's parts share. */
#ifndef CLEF_MODEL_TOKENIZER_JSON_PARTS_H
#define CLEF_MODEL_TOKENIZER_JSON_PARTS_H

#include <jansson.h>

#include "model/file/json.h"
#include "model/tokenizer/read/formats.h"

typedef struct clef__json_reader {
    clef_tokenizer *tok;
    const char     *file;
    clef_error     *err;
    int32_t         byte_level; /* the model's symbols are bytes, written as GPT-2 does */
    int32_t         fused;      /* 1: the decoder has joined the tokens, so later steps see the whole text */
    int32_t         posts;      /* post-processors that add tokens */
    const json_t   *added;      /* added_tokens, whose ids need room in the vocabulary */
} clef__json_reader;

/** A "type" that a part of the file may have, and its reader. */
typedef struct clef__json_type {
    const char *type;
    clef_status (*read)(clef__json_reader *r, const json_t *object);
    clef_status (*add)(clef__stages *stages, clef_error *err); /* in place of `read`, for a stage without
                                                                  fields */
} clef__json_type;

#define CLEF_N_ITEMS(table) (sizeof(table) / sizeof *(table))

/** Reads an object by its "type"; does nothing for a null.
 *  CLEF_E_UNSUPPORTED names `part`, the type, and the types that are known. */
clef_status clef__json_by_type(clef__json_reader *r, const char *part, const clef__json_type *types,
                               size_t n_types, const json_t *object);
/** Reads each object of an array by clef__json_by_type(). */
clef_status clef__json_sequence(clef__json_reader *r, const char *part, const clef__json_type *types,
                                size_t n_types, const json_t *array);

/** The fields of one object of the file, to read them. */
clef_json_fields clef__json_part(clef__json_reader *r, const json_t *object, const char *within);
/** Fails with CLEF_E_UNSUPPORTED: "FILE: PART: WHAT is not supported". */
clef_status clef__stage_refuse(const clef__json_reader *r, const char *part, const char *what);
/** Reads {"String": " "} or {"Regex": "\\s+"}; older files contain the string alone. The text is borrowed. */
clef_status clef__json_pattern(clef__json_reader *r, const char *part, const json_t *object,
                               clef__pattern *out);

typedef struct clef__json_metaspace {
    const char           *replacement;
    clef__prepend_scheme scheme;
    int                  splits;
} clef__json_metaspace;
clef_status clef__json_read_metaspace(clef__json_reader *r, const json_t *object, clef__json_metaspace *out);

/** Adds all tokens of {"token": id, ...}, after making room for the ids of the added tokens (`added` NULL:
 *  none). */
clef_status clef__json_vocab(clef_tokenizer *tok, const json_t *vocab, const json_t *added, const char *file,
                             clef_error *err);

/** After ByteLevel, gives what follows the characters of bytes and no longer the bytes (json_stages.c). */
clef_status clef__json_see_chars(clef__json_reader *r);

/** Reads a whole tokenizer.json (read_json.c). */
clef_status clef__tokenizer_parse_root(clef_tokenizer *tok, const json_t *root, const char *name,
                                       clef_error *err);

/* ---- the parts, in json_models.c, json_stages.c and json_post.c */

/** Reads the model with its vocabulary. Call it after the pre-tokenizer was read. */
clef_status clef__json_model(clef__json_reader *r, const json_t *model);
clef_status clef__json_normalizer(clef__json_reader *r, const json_t *object);
clef_status clef__json_pretokenizer(clef__json_reader *r, const json_t *object);
clef_status clef__json_decoder(clef__json_reader *r, const json_t *object);
clef_status clef__json_postprocessor(clef__json_reader *r, const json_t *object);

#endif

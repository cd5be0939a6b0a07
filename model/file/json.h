/* Reads JSON text through jansson. Duplicate keys, deep nesting and wrong types are refused; the error names
 * the file and the key. */
#ifndef CLEF_MODEL_JSON_H
#define CLEF_MODEL_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** The deepest nesting of brackets. */
enum { CLEF_JSON_MAX_DEPTH = 64 };

/** Parses one JSON value. `name` names the text in messages. *out is released with json_decref(); NULL on
 *  failure. CLEF_E_FORMAT (line, column, reason), CLEF_E_NOMEM. */
clef_status clef__json_parse(const char *text, size_t n_bytes, const char *name, json_t **out,
                             clef_error *err);
/** clef__json_parse() for a file of at most max_bytes. Also CLEF_E_IO, CLEF_E_LIMIT. */
clef_status clef__json_load(const char *path, size_t max_bytes, json_t **out, clef_error *err);

/** Reads fields of one object and keeps the first error, so that a list of fields needs one check of .status
 *  at its end. Set .object, .file and .err first; the rest is zero. A null counts as missing. After an error
 *  every read returns `missing` (or min, or NULL). */
typedef struct clef_json_fields {
    const json_t *object; /* borrowed, like the strings that reads return */
    const char   *file;   /* in messages */
    const char   *within; /* NULL, or the name of an inner object, put before the key: "rope_scaling" */
    json_t *seen;         /* NULL, or an object that gets each key that was asked for */
    clef_status   status;
    clef_error   *err;
} clef_json_fields;

/** The value of a key, of any kind; NULL if the key is missing. */
const json_t *clef__json_get(const clef_json_fields *f, const char *key);
/** 1 when the key is there and not null. */
int clef__json_has(const clef_json_fields *f, const char *key);
/** An integer from min to max. _need: the key must exist. */
int64_t clef__json_int(clef_json_fields *f, const char *key, int64_t min, int64_t max, int64_t missing);
int64_t clef__json_need_int(clef_json_fields *f, const char *key, int64_t min, int64_t max);
/** A number from min to max, never NaN. */
double clef__json_double(clef_json_fields *f, const char *key, double min, double max, double missing);
double clef__json_need_double(clef_json_fields *f, const char *key, double min, double max);
int    clef__json_bool(clef_json_fields *f, const char *key, int missing);
const char *clef__json_string(clef_json_fields *f, const char *key, const char *missing);
/** What a value is, for messages: "an array", "a string", … */
const char *clef__json_kind(const json_t *value);

#endif

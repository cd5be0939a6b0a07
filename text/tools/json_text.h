/* JSON as text: where a value ends, and the parts of an object or array as they are written. Numbers and
 * strings stay what the model wrote, which a parser that converts them would not keep. */
#ifndef CLEF_MODEL_JSON_TEXT_H
#define CLEF_MODEL_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** A part of a text. */
typedef struct clef__slice {
    const char *at;
    size_t      n;
} clef__slice;

/** The position after white space. */
size_t clef__json_blank(const char *text, size_t n, size_t at);
/** The position after the value (RFC 8259) that begins at `at`; 0 when there is none, or it is cut,
 *  malformed or deeper than CLEF_JSON_MAX_DEPTH. */
size_t clef__json_end(const char *text, size_t n, size_t at);
/** Finds a member of an object that clef__json_end() accepted. The last of several of one name counts, as in
 *  most parsers. */
int clef__json_member(clef__slice object, const char *name, clef__slice *value);
/** Whether a string, which clef__json_end() accepted, stands for this text, however it is written. */
int clef__json_string_is(clef__slice string, const char *text);
/** Steps through an array that clef__json_end() accepted. *at is 0 before the first call. Returns 0 after
 *  the last item. */
int clef__json_item(clef__slice array, size_t *at, clef__slice *item);
/** The same for the members of an object. `name` has its quotation marks. */
int clef__json_next(clef__slice object, size_t *at, clef__slice *name, clef__slice *value);
/** The text that a string value stands for, malloced; *out is NULL when the value is not a string, or has
 *  a NUL. CLEF_E_NOMEM. */
clef_status clef__json_text_of(clef__slice value, char **out, clef_error *err);

/** Looks for the end of an object or array in a text that grows, in linear time: zero before the first call.
 *  Returns 1 when the value has ended before `at`, 0 when it goes on, -1 when none begins here. It only
 *  counts brackets outside strings, so clef__json_end() must check the value. */
typedef struct clef__json_scan {
    size_t  at;
    int32_t depth, in_string, escaped, ended;
} clef__json_scan;
int clef__json_scan_on(clef__json_scan *scan, const char *text, size_t n);

#endif

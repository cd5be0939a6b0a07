/* The body of a request, which is JSON (RFC 8259), as clients write it. */
#ifndef CLEF_TOOLS_SERVE_BASE_BODY_H
#define CLEF_TOOLS_SERVE_BASE_BODY_H

#include <jansson.h>

#include "tools/serve/base/error.h"

typedef struct serve_body_opts {
    /** Whether a member of the body itself is wanted, as all are without it; the others are checked, and left
     * out. */
    int (*wants)(void *user, const char *name);
    /** Told of each that is left out, unless its value is null. */
    void (*leaves)(void *user, const char *name);
    /** Asks for memory before any is taken; 0: there is none, and it has set the error. */
    int (*hold)(void *user, size_t n_bytes);
    void *user;
    int32_t is_list; /* 1: the body is to be a list; 0: an object */
} serve_body_opts;

typedef struct serve_body {
    json_t *root; /* an object or a list; drop it with json_decref() */
    /* The last of its members that is an integer from 2^63 to 2^64 - 1. jansson has it as a fraction. */
    const json_t *large; /* NULL: there is none */
    uint64_t large_value;
} serve_body;

/** Reads n bytes, which a NUL follows, and changes them. They are read twice: what the values take in memory
 * is known before the first of them is made. Half a surrogate pair becomes U+FFFD; of members with the same
 * name the last counts. Returns 0 and sets the error: SERVE_E_INVALID_JSON with line and column, or that of
 * `hold`. */
int serve_body_read(char *text, size_t n, const serve_body_opts *opts, serve_body *out, serve_error *error);

/** Reads n bytes, which stay, as an object with all its members. NULL: they are none, or no memory. */
json_t *serve_body_object(const char *text, size_t n);

/** Copies the text of a member of the body itself, before it is read: "" if there is none of this name whose
 *  value is a string that `out` holds. Of members with the same name the last counts. A body that is no JSON
 *  is none of its business. */
void serve_body_text(const char *text, size_t n, const char *name, char *out, size_t room);

#endif

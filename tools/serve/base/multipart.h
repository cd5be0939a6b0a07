/* Bodies of multipart/form-data (RFC 7578): fields and files between lines that the head names. */
#ifndef CLEF_TOOLS_SERVE_BASE_MULTIPART_H
#define CLEF_TOOLS_SERVE_BASE_MULTIPART_H

#include <stddef.h>

#include "tools/serve/base/error.h"

enum { SERVE_BOUNDARY = 71, SERVE_MOST_PARTS = 64, SERVE_PART_NAME = 64, SERVE_FILE_NAME = 128 };

typedef struct serve_part {
    char name[SERVE_PART_NAME];
    char file[SERVE_FILE_NAME]; /* what it is called, cut to this length; "": it has no name */
    int32_t is_file;
    const char *data; /* [n], borrowed from the body */
    size_t n;
} serve_part;

typedef struct serve_parts {
    serve_part items[SERVE_MOST_PARTS];
    int32_t n;
} serve_parts;

/** 1 if a Content-Type is multipart/form-data. *out: its boundary, "" where it has none that RFC 2046
 *  allows. */
int serve_multipart_type(const char *content_type, char out[SERVE_BOUNDARY]);
/** Finds the parts of a body. 0 and an error: it is none, ends before its last boundary, or has too many. */
int serve_multipart_read(const char *body, size_t n, const char *boundary, serve_parts *out,
                         serve_error *error);
/** The first part of a name; NULL: there is none. */
const serve_part *serve_multipart_find(const serve_parts *parts, const char *name);

#endif

/* The text of a program, from the embedded kernel sources. */
#ifndef CLEF_RUNTIME_SOURCE_H
#define CLEF_RUNTIME_SOURCE_H

#include <stddef.h>

#include "graph/fail.h"
#include "runtime/os/sha256.h"

/** Makes the text of cl/STEM.cl, with every line `#include "NAME"` replaced by cl/NAME: each header once, at
 *  its first #include. #line directives give the right file and line in build logs. With cl_dir in
 * $CLEF_DEBUG, all files are read from that folder instead. *out is NUL-terminated and n_bytes long; the
 * caller frees it. CLEF_E_NOT_FOUND (no such embedded file), CLEF_E_IO (not in cl_dir), CLEF_E_LIMIT (too
 * long, too many headers), CLEF_E_NOMEM. */
clef_status clef__source_assemble(const char *stem, char **out, size_t *n_bytes, clef_error *err);

/** Finds the text of one file of kernel source, by its name without a folder: *text, n bytes. The caller
 *  frees *owned, which is NULL for an embedded file. Errors as above. */
clef_status clef__source_find(const char *name, const char **text, size_t *n, char **owned, clef_error *err);

/** A sum over all files of that text, without making it. The same errors. */
clef_status clef__source_sum(const char *stem, unsigned char out[CLEF_SHA256_BYTES], clef_error *err);
/** The sum of a file's text that clef__source_find() has found. */
void clef__source_text_sum(const char *text, size_t n, unsigned char out[CLEF_SHA256_BYTES]);

/** A source of cl/, with what is added behind it and the options that it would be built with. */
typedef struct clef_piece {
    const char *source, *after, *options;
} clef_piece;

/** A complete source with the options that it would be built with. */
typedef struct clef_unit {
    const char *text;
    size_t n_bytes;
    const char *options;
} clef_unit;

/** Makes one source of n complete ones, so that one build gives one program. Each keeps its own constants
 *  (the -D of its options), macros, names and its own FP_CONTRACT, except the functions that it makes as
 *  `fused_stage_##n`: these are shared. The last source keeps its names as they are. A name that a source
 *  declares at file scope through ## must begin with a word that ends with _. #if must not test whether a
 *  name is defined that the source declares. *text is NUL-terminated and *n_bytes long; the caller frees it.
 *  CLEF_E_LIMIT: #if is nested more than 32 deep. CLEF_E_NOMEM. */
clef_status clef__source_join(const clef_unit *units, int32_t n, char **text, size_t *n_bytes,
                              clef_error *err);

#endif

/* The file in which what is cached of a device travels to another machine (clef_cache_export).
 *
 *   clef cache 1
 *   clef VERSION
 *   NAME VALUE        what the file is bound to, a line for each of clef__bound_names
 *   units N
 *   proof BYTES       the parts, in the order of their contents: the text of a file of the cache folder
 *   program BYTES     or a program's whole file
 *                     an empty line; the contents follow, then the SHA-256 of all bytes before it
 *
 * No part has a name or a path: a reader makes them itself. */
#ifndef CLEF_RUNTIME_CACHE_BUNDLE_H
#define CLEF_RUNTIME_CACHE_BUNDLE_H

#include "runtime/device/cache.h"
#include "runtime/os/os.h"

/** The texts in a bundle, by the cache folder that they come from; then programs. */
typedef enum clef__part_kind {
    CLEF__PART_PROOF,
    CLEF__PART_TUNING,
    CLEF__PART_PROBE,
    CLEF__PART_MEASURE,
    CLEF__PART_PROGRAM,
    CLEF__N_PART_KINDS
} clef__part_kind;
extern const char *const clef__part_names[CLEF__N_PART_KINDS];
enum { CLEF__PART_TEXT_BYTES = 4 << 20 }; /* the longest text */

/** What decides whether a bundle is of use: device, driver, processor and the sources of the kernels. */
enum { CLEF__N_BOUND = 8, CLEF__BOUND_BYTES = 136 };
typedef struct clef__bound {
    char    value[CLEF__N_BOUND][CLEF__BOUND_BYTES];
    char    version[32]; /* of clef; for messages */
    int32_t n_units;     /* of the device: tuning depends on them, too */
} clef__bound;
/** CLEF_E_NOMEM. */
clef_status clef__bound_of(const clef_device_info *info, clef__bound *out, clef_error *err);
/** CLEF_E_UNSUPPORTED: the bundle at `path` is bound to something else; the message names the first
 *  difference. */
clef_status clef__bound_check(const char *path, const clef__bound *expected, const clef__bound *got,
                              clef_error *err);

typedef struct clef__bundle_part {
    clef__part_kind kind;
    const unsigned char *data; /* borrowed */
    size_t n_bytes;
} clef__bundle_part;
typedef struct clef__bundle {
    clef__bound bound;
    clef__bundle_part *parts;
    int32_t n, cap;
} clef__bundle;
/** CLEF_E_NOMEM. */
clef_status clef__bundle_add(clef__bundle *b, const clef__bundle_part *part, clef_error *err);
/** Writes the file, whole or not at all. CLEF_E_IO. */
clef_status clef__bundle_write(const clef__bundle *b, const char *path, uint64_t *n_bytes, clef_error *err);
/** Reads a file's bytes, which the parts then point to. Trusts nothing in them: the checksum, the form, and
 *  each program's own header are checked. The caller frees b->parts, on failure too. CLEF_E_FORMAT,
 *  CLEF_E_NOMEM. */
clef_status clef__bundle_read(const char *path, const clef_mapping *file, clef__bundle *b, clef_error *err);

#endif

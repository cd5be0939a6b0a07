/* The files of the cache folder, and the limit of its size. */
#ifndef CLEF_RUNTIME_CACHE_FOLDER_H
#define CLEF_RUNTIME_CACHE_FOLDER_H

#include "clef/cache.h"

enum { CLEF__CACHE_FILE_PATH = 768 };

typedef struct clef__cache_file {
    clef_cache_kind kind; /* CLEF_CACHE_PROGRAM also for fused steps, whose files look the same */
    char path[CLEF__CACHE_FILE_PATH];
    uint64_t n_bytes;
    int64_t used; /* seconds since 1970 */
} clef__cache_file;

typedef struct clef__cache_files {
    clef__cache_file *at;
    int32_t n, cap;
    uint64_t n_bytes;
} clef__cache_files;

/** Reads a size: a number, optionally with K, M or G. If the text is NULL, *n_bytes does not change.
 *  CLEF_E_ARG: not a size; the message names the variable. */
clef_status clef__parse_size(const char *name, const char *text, uint64_t *n_bytes, clef_error *err);
/** Adds all files of the folder, least recently used first. Free `at`. CLEF_E_NOMEM. */
clef_status clef__cache_scan(const char *dir, clef__cache_files *out, clef_error *err);
/** Removes the least recently used files until the rest is within $CLEF_CACHE_MAX: first tokens, which are
 *  large and soon made again, then others. Also removes temporary files that are a day old. A younger one may
 *  belong to a process that writes it. Ignores failures. */
void clef__cache_trim(const char *dir);

#endif

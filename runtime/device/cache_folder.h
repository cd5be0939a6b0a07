/* The cache folder as files: what there is, and its limit. */
#ifndef CLEF_RUNTIME_CACHE_FOLDER_H
#define CLEF_RUNTIME_CACHE_FOLDER_H

#include "clef/cache.h"

enum { CLEF__CACHE_FILE_PATH = 768 };

typedef struct clef__cache_file {
    clef_cache_kind kind; /* CLEF_CACHE_PROGRAM for fused steps, too: their file looks the same */
    char            path[CLEF__CACHE_FILE_PATH];
    uint64_t        n_bytes;
    int64_t         used; /* seconds since 1970 */
} clef__cache_file;

typedef struct clef__cache_files {
    clef__cache_file *at;
    int32_t           n, cap;
    uint64_t          n_bytes;
} clef__cache_files;

/** A size from the environment: a number, with K, M or G behind it or nothing. Where the variable is not set,
 *  *n_bytes stays. CLEF_E_ARG: it is no size. */
clef_status clef__env_size(const char *name, uint64_t *n_bytes, clef_error *err);
/** Adds all files of the folder, those used longest ago first. Free `at`. CLEF_E_NOMEM. */
clef_status clef__cache_scan(const char *dir, clef__cache_files *out, clef_error *err);
/** Removes what was used longest ago until the rest is within $CLEF_CACHE_MAX, and temporary files that are a
 *  day old. Younger ones stay: a process writes them. What cannot be done is left. */
void clef__cache_trim(const char *dir);

#endif

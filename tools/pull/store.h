/* Files of the cache: blobs that are never half-written under their names, locks, links and refs. */
#ifndef CLEF_TOOLS_PULL_STORE_H
#define CLEF_TOOLS_PULL_STORE_H

#include "tools/hub/hub.h"
#include "tools/pull/digest.h"

/** Lets a write beyond a limit fail, rather than end the process; makes the repository's folders.
 *  CLEF_E_IO. */
clef_status pull_store_begin(const char *folder, clef_error *err);
/** Bytes of a file; -1 if there is none. */
int64_t     pull_store_size(const char *path);
/** Bytes that the disk of a folder has; UINT64_MAX if unknown. */
uint64_t    pull_store_space(const char *folder);

/** Takes a file's lock as huggingface_hub does, if nobody has it. *out: its descriptor, or -1. Free with
 *  pull_store_unlock(). CLEF_E_IO. */
clef_status pull_store_lock(const char *path, int *out, clef_error *err);
void        pull_store_unlock(int lock);

/** A file in the making: PATH.incomplete, until all its bytes are there and have the right checksum. */
typedef struct pull_part {
    char        path[HUB_MOST_PATH], part[HUB_MOST_PATH];
    const char *title; /* for errors; borrowed */
    int         file;
    uint64_t    n_bytes; /* that it will have */
    pull_digest digest;
} pull_part;

/** Opens it; *at: bytes that are there from an earlier pull. etag is borrowed. CLEF_E_IO, CLEF_E_NOMEM. */
clef_status pull_part_open(pull_part *part, const char *path, const char *title, const char *etag,
                           uint64_t n_bytes, uint64_t *at, clef_error *err);
/** `take` and `restart` of a pull_body; user is the part. */
clef_status pull_part_take(void *user, const void *data, size_t n, clef_error *err);
clef_status pull_part_restart(void *user, clef_error *err);
/** Gives it its name. CLEF_E_FORMAT: the checksum differs, and the bytes are removed; CLEF_E_IO. */
clef_status pull_part_end(pull_part *part, clef_error *err);
/** Closes it, whether it has ended or not. */
void        pull_part_close(pull_part *part);

/** Makes `path` a link to `target`, with its folders. CLEF_E_IO. */
clef_status pull_store_link(const char *path, const char *target, clef_error *err);
/** Replaces a file by one with that text, with its folders. CLEF_E_IO. */
clef_status pull_store_text(const char *path, const char *text, clef_error *err);

#endif

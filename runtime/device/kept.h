/* Programs that the driver keeps on disk itself.
 *
 * PoCL has a cache of its own: it builds a program that it has seen from the source in some 5 ms, while
 * asking it for the binary compiles all kernels again. So the disk cache has a note in the place of the
 * binary.
 */
#ifndef CLEF_RUNTIME_KEPT_H
#define CLEF_RUNTIME_KEPT_H

#include "runtime/device/cache.h"

/** What a note says of its program: enough to build it again. */
typedef struct clef_kept_program {
    char source[64], kernel[64], options[608]; /* as in clef_launch; options: the driver's */
    int32_t c_version, n_bufs, is_whole;       /* as in clef_launch; clef__has_whole_body() */
} clef_kept_program;

/** 1 when the device's driver keeps programs, and clef leaves them to it: PoCL, with `slow_binaries=keep` of
 *  CLEF_DEBUG and without POCL_KERNEL_CACHE=0. It is not the default: a start from notes takes longer. */
int clef__driver_keeps(const clef_device *dev);

/** 1 when an entry of the disk cache is a note. */
int clef__kept_is_note(const void *entry, size_t n_bytes);

/** Stores a note as the entry of this key. Ignores failures, as clef__cache_store() does. */
void clef__kept_store(const clef_device *dev, const clef_cache_key *key, const clef_kept_program *program);

/** What an entry of the disk cache is: the driver's binary; a note on a program that the driver still has; or
 *  a note that no longer holds, because the driver's cache is another one now. */
typedef enum clef_kept { CLEF_KEPT_BINARY, CLEF_KEPT_NOTE, CLEF_KEPT_LOST } clef_kept;
clef_kept clef__kept_read(const clef_device *dev, const void *entry, size_t n_bytes,
                          clef_kept_program *program);

/** Asks the driver for the binary of a program that has a note, and stores it in the note's place. Does
 *  nothing where the note does not hold, or is of other sources. The errors of building. */
clef_status clef__kept_fetch(clef_device *dev, const clef_cache_key *key, const void *entry, size_t n_bytes,
                             clef_error *err);

#endif

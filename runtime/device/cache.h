/* Program binaries on disk: <cache_dir>/programs/<key in hex>.bin. */
#ifndef CLEF_RUNTIME_CACHE_H
#define CLEF_RUNTIME_CACHE_H

#include "runtime/device/device.h"
#include "runtime/os/sha256.h"

typedef struct clef_cache_key {
    unsigned char bytes[CLEF_SHA256_BYTES];
} clef_cache_key;

/** What tells a device and its driver from others. */
enum { CLEF_DEVICE_MARK_BYTES = 16 };
typedef struct clef_device_mark {
    unsigned char bytes[CLEF_DEVICE_MARK_BYTES];
} clef_device_mark;
clef_device_mark clef__device_mark(const clef_device_info *info);

/** The key of a program: SHA-256 over the entry's format, the device's name, vendor, version, driver and
 *  platform, what decides the source, and the options. */
clef_cache_key clef__cache_key(const clef_device *dev, const char *source, size_t n_bytes,
                               const char *options);

/** The key of a program that is joined from these sources (runtime/device/program.c). The errors of
 *  clef__source_sum(). */
clef_status clef__joined_key(const clef_device *dev, const clef_piece *parts, int32_t n, clef_cache_key *out,
                             clef_error *err);

/** Reads an entry. Returns 1 when it is there and whole: *binary is malloced. Returns 0 when there is none,
 *  or it is damaged, foreign or without its code; then it is removed. */
int  clef__cache_load(const clef_device *dev, const clef_cache_key *key, unsigned char **binary,
                      size_t *n_bytes);
/** Writes an entry, and the folder if needed. Ignores failures, and a binary without its code: the next start
 *  builds again. */
void clef__cache_store(const clef_device *dev, const clef_cache_key *key, const unsigned char *binary,
                       size_t n_bytes);
/** The file of the cache's folder in which programs are locked while they are built. */
#define CLEF_BUILD_LOCK "builds.lock"
/** Waits while another process builds the program of this key or asks for its binary (docs/drivers.md, PoCL).
 *  Returns what clef__os_unlock() takes; -1, at once, without a cache. */
int  clef__cache_lock(const clef_device *dev, const clef_cache_key *key);
/** 1 when the entry's file exists. */
int  clef__cache_has(const clef_device *dev, const clef_cache_key *key);
/** 1 when the file is an entry with the right checksum. */
int  clef__cache_is_whole(const char *path);
/** 1 when the bytes are an entry's file with the right checksum and its code. *device: whose it is. */
int  clef__cache_entry_of(const void *file, size_t n_bytes, clef_device_mark *device, clef_cache_key *key);
/** Writes an entry's file, unless a whole one is there. 1: written; 0: not needed; -1: CLEF_E_IO. */
int  clef__cache_take(const clef_device *dev, const clef_cache_key *key, const void *file, size_t n_bytes,
                      clef_error *err);
/** Removes an entry that the driver did not accept. */
void clef__cache_drop(const clef_device *dev, const clef_cache_key *key);

/** Writes the path <cache_dir>/<folder>/<name>.txt of a file with facts about this device, driver and set of
 *  kernels. The name is a hash over all of them. Empty without a cache. CLEF_E_NOMEM. */
enum { CLEF_CACHE_PATH_BYTES = 768 };
clef_status clef__cache_beside(const clef_device *dev, const char *folder, char out[CLEF_CACHE_PATH_BYTES],
                               clef_error *err);

/** Hashes every file of kernel source once: a changed kernel may be faster, or correct now. CLEF_E_NOMEM. */
clef_status clef__cache_add_kernels(clef_sha256 *s, clef_error *err);

#endif

/* Child processes that try what may crash or hang, started as `clef selftest --prove FILE`.
 *
 * The compiler of a CPU's driver takes up to a second before the first program of a process. So a child that
 * has come to the end of its file there waits a short time, and its caller may give it another file. The name
 * of that file is in its mailbox, a file of its own. It waits only if nothing went wrong: what a kernel has
 * written to the wrong place must not count against the next one. */
#ifndef CLEF_RUNTIME_CHILD_H
#define CLEF_RUNTIME_CHILD_H

#include "runtime/device/cache.h"
#include "runtime/device/device.h"

/** A child, for its caller. */
typedef struct clef__child {
    int64_t process;
    uint64_t environment; /* a hash of what it was started with */
    char mailbox[CLEF_CACHE_PATH_BYTES];
    int32_t was_waiting; /* when it got its file */
} clef__child;

/** Gives a file to a child that waits, else to a new one. tried_group: the largest group that it tries; 0: no
 *  limit. CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__child_start(clef_device *dev, const char *path, int32_t first, int32_t tried_group,
                              clef__child *out, clef_error *err);
/** The same, always to a new one. */
clef_status clef__child_spawn(const clef_device *dev, const char *path, int32_t first, int32_t tried_group,
                              clef__child *out, clef_error *err);
/** 1 when a child that has ended never saw its file. */
int clef__child_missed(const clef__child *child);
/** Remembers that this child waits. It is ended when the device is closed. */
void clef__child_keep(clef_device *dev, const clef__child *child);

/** In a child: waits for the next file. Returns 0 when there is none; else its path, and the unit to start
 *  with. */
int clef__child_wait(const char *mailbox, char *path, size_t room, int32_t *first);

#endif

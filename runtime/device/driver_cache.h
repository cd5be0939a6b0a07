/* Settings of PoCL, which it reads when it is opened: that it compiles a kernel once, and the folder in which
 * it keeps what it compiles. PoCL finds no device where it cannot make that folder, and builds no program
 * where it cannot write there. */
#ifndef CLEF_RUNTIME_DRIVER_CACHE_H
#define CLEF_RUNTIME_DRIVER_CACHE_H

/** PoCL's variable: whether it compiles each kernel again for each local size. clef sets it to 0. */
#define CLEF_POCL_SPECIALIZES "POCL_WORK_GROUP_SPECIALIZATION"

/** Finds a folder that can be written, and sets POCL_CACHE_DIR to it: PoCL's own
 *  ($XDG_CACHE_HOME/pocl/kcache, else ~/.cache/pocl/kcache), else cache_dir/pocl, else a folder of this user
 *  among the temporary ones. A POCL_CACHE_DIR that can be written is left alone. PoCL makes the folder. Must
 *  run before the first OpenCL call; only the first call in a process does anything.
 *
 *  cache_dir  clef's own cache; NULL or "": the one of clef_cache_dir(). */
void clef__driver_cache_find(const char *cache_dir);

/** Why PoCL has no such folder, as a part of a message that begins with "; "; "" where it has one. */
const char *clef__driver_cache_fault(void);

#endif

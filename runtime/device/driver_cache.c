#include "runtime/device/driver_cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cache_folder.h"
#include "runtime/os/os.h"

enum { PATH = 1024 };
static char fault[700];

#ifdef _WIN32 /* a driver there does not see the variables that a process sets */
void clef__driver_cache_find(const char *cache_dir)
{
    (void)cache_dir;
}
#else

static const uint64_t ROOM = (uint64_t)16 << 20; /* the programs of one small model */

/* PoCL's default, but a relative XDG_CACHE_HOME is ignored. Returns 0 where there is none. */
static int own_folder(char *out, size_t capacity)
{
    static const char last[] = "clef";
    char dir[PATH];
    if (!clef__os_cache_dir(dir, sizeof dir))
        return 0;
    dir[strlen(dir) - strlen(last)] = 0;
    const int n = snprintf(out, capacity, "%spocl/kcache", dir);
    return n > 0 && (size_t)n < capacity;
}

static int below(const char *dir, char *out, size_t capacity)
{
    const int n = snprintf(out, capacity, "%s/pocl", dir);
    return n > 0 && (size_t)n < capacity;
}

/* Sets the variable where the folder can be written. The fault names the first that cannot. */
static int try_folder(const char *folder)
{
    const char *why;
    if (clef__os_takes_files(folder, ROOM, &why)) {
        clef__os_set_env("POCL_CACHE_DIR", folder);
        fault[0] = 0;
        return 1;
    }
    if (!fault[0])
        snprintf(fault, sizeof fault,
                 "; PoCL, the driver of CPUs, cannot write its cache %.400s (%s): set POCL_CACHE_DIR or "
                 "CLEF_CACHE_DIR to a folder that can be written",
                 folder, why);
    return 0;
}

/* Without this PoCL compiles each kernel twice: for the local size of its first launch, and for any local
 * size when its program's binary is asked for. */
static void have_kernels_compiled_once(void)
{
    if (!clef__os_env(CLEF_POCL_SPECIALIZES))
        clef__os_set_env(CLEF_POCL_SPECIALIZES, "0");
}

static void find(const char *cache_dir)
{
    char dir[PATH], folder[PATH];
    const char *given = clef__os_env("POCL_CACHE_DIR");
    if (given ? try_folder(given) : own_folder(folder, sizeof folder) && try_folder(folder))
        return;
    if (!cache_dir || !*cache_dir)
        cache_dir = clef_cache_dir(dir, sizeof dir) ? dir : NULL;
    if (cache_dir && below(cache_dir, folder, sizeof folder) && try_folder(folder))
        return;
    if (clef__os_private_temp(dir, sizeof dir) && below(dir, folder, sizeof folder))
        try_folder(folder);
}

void clef__driver_cache_find(const char *cache_dir)
{
    enum { NEW, AT_WORK, DONE };
    static atomic_int state;
    int expected = NEW;
    if (atomic_compare_exchange_strong(&state, &expected, AT_WORK)) {
        have_kernels_compiled_once();
        find(cache_dir);
        atomic_store(&state, DONE);
    }
    while (atomic_load(&state) != DONE) /* another thread looks for it, within milliseconds */
        ;
}
#endif

const char *clef__driver_cache_fault(void)
{
    return fault;
}

/* The library's version, and the place of the bundled model. */
#include <stdatomic.h>
#include <stdio.h>

#include "clef/clef.h"
#include "runtime/os/os.h"

#if !defined(CLEF_VERSION) || !defined(CLEF_INSTALL_DATADIR) || !defined(CLEF_LIB_TO_DATA)
#    error                                                                                                   \
        "about.c needs CLEF_VERSION, CLEF_INSTALL_DATADIR and CLEF_LIB_TO_DATA: CMakeLists.txt defines them"
#endif

enum { MAX_PATH_BYTES = 4096 };

const char *clef_version(void)
{
    return CLEF_VERSION;
}

/* Searches near the library, so that the folders can be moved together, then in the folder of the
 * installation. The first place is in the build folder; the second fits a program in bin/ that contains the
 * library. */
static int find_demo_model(char out[MAX_PATH_BYTES])
{
    static const char *const ways[] = {"share/clef", "../share/clef", CLEF_LIB_TO_DATA};
    char library_dir[MAX_PATH_BYTES];
    const int known = clef__os_library_dir(library_dir, sizeof library_dir);
    for (size_t i = 0; known && i < sizeof ways / sizeof *ways; i++) {
        const int n = snprintf(out, MAX_PATH_BYTES, "%s/%s/demo", library_dir, ways[i]);
        if (n < MAX_PATH_BYTES && clef__os_is_dir(out))
            return 1;
    }
    snprintf(out, MAX_PATH_BYTES, "%s/demo", CLEF_INSTALL_DATADIR);
    return clef__os_is_dir(out);
}

const char *clef_demo_model(void)
{
    static char found[MAX_PATH_BYTES];
    static atomic_int state; /* 0: not searched yet; 1: a thread is searching; 2: found; 3: not found */
    const char *chosen = clef__os_env("CLEF_DEMO_MODEL");
    int before = 0;
    if (chosen)
        return chosen;
    if (atomic_compare_exchange_strong(&state, &before, 1))
        atomic_store(&state, find_demo_model(found) ? 2 : 3);
    while (atomic_load(&state) == 1)
        clef__os_sleep(1);
    return atomic_load(&state) == 2 ? found : NULL;
}

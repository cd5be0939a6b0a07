/* What the library says of itself: its version, and where the model that comes with it lies. */
#include "clef/clef.h"
#include "runtime/os/os.h"

#if !defined(CLEF_VERSION) || !defined(CLEF_INSTALL_DATADIR) || !defined(CLEF_SOURCE_DIR)
#    error "about.c needs CLEF_VERSION, CLEF_INSTALL_DATADIR and CLEF_SOURCE_DIR: CMakeLists.txt defines them"
#endif

const char *clef_version(void)
{
    return CLEF_VERSION;
}

const char *clef_demo_model(void)
{
    static const char *const places[] = {CLEF_INSTALL_DATADIR "/demo", CLEF_SOURCE_DIR "/model/demo"};
    const char *chosen = clef__os_env("CLEF_DEMO_MODEL");
    if (chosen)
        return chosen;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (clef__os_is_dir(places[i]))
            return places[i];
    return NULL;
}

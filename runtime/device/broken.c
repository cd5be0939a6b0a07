#include "runtime/device/broken.h"

#ifdef CLEF_TEST_HOOKS
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

#    include "graph/lower/variant.h"
#    include "runtime/os/debug.h"
#    include "runtime/os/os.h"

int clef__broken_at(const char *name)
{
    const char *wanted = clef__debug("break"), *how = wanted ? strchr(wanted, '=') : NULL;
    const size_t n = how ? (size_t)(how - wanted) : 0;
    if (!how || strlen(name) != n || memcmp(name, wanted, n) != 0)
        return 0;
    if (strcmp(how, "=crash") == 0)
        abort();
    while (strcmp(how, "=hang") == 0)
        clef__os_sleep(1000);
    while (strcmp(how, "=spin") == 0)
        (void)clef__os_seconds();
    return 1;
}

int clef__broken(const clef_launch *launch)
{
    char name[96];
    if (!clef__debug("break"))
        return 0;
    snprintf(name, sizeof name, "%s%s%s", clef__ops[launch->node->op]->name, launch->variant ? "." : "",
             launch->variant ? launch->variant->name : "");
    return clef__broken_at(name);
}
#endif

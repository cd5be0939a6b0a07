#include "runtime/broken.h"

#ifdef CLEF_TEST_HOOKS
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

#    include "graph/variant.h"
#    include "runtime/os.h"

int clef__broken(const clef_launch *launch)
{
    const char *wanted = clef__os_env("CLEF_BREAK"), *how = wanted ? strchr(wanted, '=') : NULL;
    char name[96];
    if (!how)
        return 0;
    const size_t n = (size_t)(how - wanted);
    snprintf(name, sizeof name, "%s%s%s", clef__ops[launch->node->op]->name, launch->variant ? "." : "",
             launch->variant ? launch->variant->name : "");
    if (strlen(name) != n || memcmp(name, wanted, n) != 0)
        return 0;
    if (strcmp(how, "=crash") == 0)
        abort();
    while (strcmp(how, "=hang") == 0)
        clef__os_sleep(1000);
    return 1;
}
#endif

#include "graph/substep.h"

#include <string.h>

static const clef__substep substeps[] = {
#define SUBSTEP(source, kernel, args_type) {#source, #kernel, #args_type, 1, 1, NULL, 0},
#define SMALL_SUBSTEP(source, kernel, args_type) {#source, #kernel, #args_type, 1, 0, NULL, 0},
#define WHOLE_BODY(source, kernel, args_type) {#source, #kernel, #args_type, 0, 1, NULL, 0},
#define SUBSTEP_WITH(source, kernel, args_type, companion, n_bufs)                                           \
    {#source, #kernel, #args_type, 1, 1, #companion, n_bufs},
#include "graph/lower/substeps.def"
#undef SUBSTEP_WITH
#undef WHOLE_BODY
#undef SMALL_SUBSTEP
#undef SUBSTEP
};

const clef__substep *clef__substep_find(const char *source, const char *kernel)
{
    for (size_t i = 0; i < sizeof substeps / sizeof *substeps; i++)
        if (strcmp(substeps[i].source, source) == 0 && strcmp(substeps[i].kernel, kernel) == 0)
            return &substeps[i];
    return NULL;
}

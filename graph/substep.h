/* Which kernels can be functions, and substeps of a fused step: graph/lower/substeps.def. */
#ifndef CLEF_GRAPH_SUBSTEP_H
#define CLEF_GRAPH_SUBSTEP_H

#include <stdint.h>

typedef struct clef__substep {
    const char *source, *kernel;  /* as a launch names them */
    const char *args_type;        /* type of its argument block in cl/args.h */
    int32_t     is_substep;       /* of a fused step */
    int32_t     is_called;        /* its own kernel is a call of the function, where that compiles faster */
    const char *companion;        /* NULL, or another kernel of the same source that the node launches at
                                     other lengths */
    uint32_t    companion_bufs;
} clef__substep;

/** NULL: the kernel cannot be a function. */
const clef__substep *clef__substep_find(const char *source, const char *kernel);

#endif

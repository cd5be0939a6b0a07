/* A hook for tests (builds with CLEF_TESTS alone): CLEF_BREAK=OP[.VARIANT]=wrong|hang|spin|crash makes what
 * enqueues its kernels write nothing, sleep for ever, loop for ever, or abort. OP is also `fused` (a fused
 * step's run) and `fused.build`. */
#ifndef CLEF_RUNTIME_BROKEN_H
#define CLEF_RUNTIME_BROKEN_H

#include "graph/launch.h"

#ifdef CLEF_TEST_HOOKS
/** 1 when the launch is not to be enqueued. */
int clef__broken(const clef_launch *launch);
/** The same for what is no launch. */
int clef__broken_at(const char *name);
#else
static inline int clef__broken_at(const char *name)
{
    (void)name;
    return 0;
}

static inline int clef__broken(const clef_launch *launch)
{
    (void)launch;
    return 0;
}
#endif

#endif

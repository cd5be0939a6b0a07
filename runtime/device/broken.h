/* A hook for tests (only in builds with CLEF_TESTS): CLEF_DEBUG=break=OP[.VARIANT]=wrong|hang|spin|crash
 * makes the launches of an op write nothing, sleep for ever, loop for ever, or abort. OP can also be `fused`
 * (running a fused step) and `fused.build`. */
#ifndef CLEF_RUNTIME_BROKEN_H
#define CLEF_RUNTIME_BROKEN_H

#include "graph/launch.h"

#ifdef CLEF_TEST_HOOKS
/** 1 when the launch must not be enqueued. */
int clef__broken(const clef_launch *launch);
/** clef__broken() for something that is not a launch, by name. */
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

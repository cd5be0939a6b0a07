/* In place of a guest that this build leaves out: what the command calls of it, as errors that say so. */
#ifndef CLEF_TOOLS_ABSENT_H
#define CLEF_TOOLS_ABSENT_H

#include "tools/cli/common.h"

/** The error of a call into a guest that this build does not have. `what` is what the caller asked for. */
#define CLI_ABSENT(err, what, option)                                                               \
    cli_error(err, CLEF_E_UNSUPPORTED, "%s: this clef was built without it (cmake -D%s=ON)", what, option)

#endif

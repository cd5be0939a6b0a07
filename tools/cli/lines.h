/* Texts of a command line, and the lines of a file. */
#ifndef CLEF_TOOLS_CLI_LINES_H
#define CLEF_TOOLS_CLI_LINES_H

#include "clef/embed.h"
#include "tools/cli/common.h"

/** cli_lines_finish() accepts it in any state, also zeroed. */
typedef struct cli_lines {
    clef_span *spans; /* [n], which point into the arguments and the file */
    int32_t    n;
    char      *file;
} cli_lines;

/** Collects the arguments, then the lines of a file (NULL: none; "-": stdin), which end with \n or \r\n;
 *  the last one may have no end. There has to be one text at least; `what` names it in the message. Returns
 *  CLI_GO_ON, or an exit code after a message. */
int  cli_lines_collect(cli_lines *t, const char *what, int32_t n_args, char **args, const char *file);
void cli_lines_finish(cli_lines *t);

#endif

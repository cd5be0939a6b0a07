/* `clef help` and the man page of clef: the commands by group, exit codes, variables. */
#include <string.h>

#include "clef/clef.h"
#include "tools/cli/help.h"
#include "tools/manual/manual.h"

void cli_help_all(FILE *to)
{
    fputs("usage: clef COMMAND [ARGUMENTS]\n\nRun transformer models on any OpenCL device.\n", to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++) {
        if (row->group)
            fprintf(to, "\n%s:\n", row->group);
        else
            fprintf(to, "  %-10s %s\n", row->command->name, row->command->summary);
    }
    fputs("\n  help       Print this text, or the help of the command that follows; with --all, all its "
          "flags\n\n"
          "`clef --version` prints the version. Results go to stdout, everything else to stderr.\n"
          "Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.\n",
          to);
}

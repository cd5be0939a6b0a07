/* The parts of tools/cli/terminal.h that are the same on all systems. */
#include "tools/cli/terminal.h"

#include <stdatomic.h>

static atomic_int line_shown; /* threads of a server report, too */

void cli_terminal_clear_line(void)
{
    if (atomic_exchange(&line_shown, 0))
        fputs("\r\x1b[K", stderr); /* ECMA-48 EL: erase to the end of the line */
}

void cli_terminal_show_line(const char *line)
{
    fprintf(stderr, "\r\x1b[K%s", line);
    fflush(stderr);
    line_shown = 1;
}

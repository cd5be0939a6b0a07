/* The parts of tools/cli/terminal.h that are the same on all systems. */
#include "tools/cli/terminal.h"

static int line_shown;

void cli_terminal_clear_line(void)
{
    if (line_shown)
        fputs("\r\x1b[K", stderr); /* ECMA-48 EL: erase to the end of the line */
    line_shown = 0;
}

void cli_terminal_show_line(const char *line)
{
    fprintf(stderr, "\r\x1b[K%s", line);
    fflush(stderr);
    line_shown = 1;
}

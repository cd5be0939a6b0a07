#include "tools/cli/progress.h"

#include <stdio.h>
#include <string.h>

#include "tools/cli/terminal.h"

enum { BAR_WIDTH = 30 };
static const double bar_pause = 0.05, line_pause = 5.0; /* seconds between two updates */

void cli_progress_init(cli_progress *p, int32_t quiet)
{
    *p = (cli_progress){.quiet = quiet, .on_terminal = cli_terminal_stderr()};
    p->next = cli_terminal_seconds() + (p->on_terminal ? bar_pause : line_pause);
}

static void show_bar(const char *what, double fraction)
{
    char line[96], bar[BAR_WIDTH + 1];
    const int full = (int)(fraction * (double)BAR_WIDTH);
    memset(bar, '-', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = 0;
    snprintf(line, sizeof line, "%-10.20s [%s] %3d%%", what, bar, (int)(fraction * 100));
    cli_terminal_show_line(line);
}

clef_compile_opts cli_compile_opts(const clef_compile_opts *opts, cli_progress *progress)
{
    clef_compile_opts with = *opts;
    with.progress = cli_progress_step;
    with.progress_user = progress;
    return with;
}

int cli_progress_step(void *user, const char *what, uint64_t done, uint64_t total)
{
    cli_progress *p = user;
    const double now = cli_terminal_seconds();
    const double fraction = !total ? 1 : done >= total ? 1 : (double)done / (double)total;
    if (!p->on_terminal && !done && p->what && strcmp(p->what, what) != 0)
        p->next = now + line_pause; /* a stage that is over sooner has no line */
    if (!p->quiet && now >= p->next) {
        if (p->on_terminal)
            show_bar(what, fraction);
        else
            fprintf(stderr, "clef: %s %d%%\n", what, (int)(fraction * 100));
        p->next = now + (p->on_terminal ? bar_pause : line_pause);
    }
    p->what = what;
    return cli_terminal_interrupted();
}

void cli_progress_finish(cli_progress *p)
{
    (void)p;
    cli_terminal_clear_line();
}

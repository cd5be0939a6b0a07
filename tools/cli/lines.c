#include "tools/cli/lines.h"

#include <stdlib.h>
#include <string.h>

static int add_lines(cli_lines *t, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += t->file[i] == '\n';
    if (n > INT32_MAX / 2)
        return cli_fail(CLI_FAILED, "%zu lines are too many", n);
    clef_span *more = realloc(t->spans, ((size_t)t->n + n + 1) * sizeof *more);
    if (!more)
        return cli_fail(CLI_FAILED, "out of host memory");
    t->spans = more;
    for (size_t at = 0; at < n_bytes;) {
        const char *end = memchr(t->file + at, '\n', n_bytes - at);
        const size_t length = end ? (size_t)(end - t->file) - at : n_bytes - at;
        const size_t cr = length > 0 && t->file[at + length - 1] == '\r';
        t->spans[t->n++] = (clef_span){t->file + at, length - cr};
        at += length + 1;
    }
    return CLI_GO_ON;
}

int cli_lines_collect(cli_lines *t, const char *what, int32_t n_args, char **args, const char *file)
{
    t->spans = malloc(((size_t)n_args + 1) * sizeof *t->spans);
    if (!t->spans)
        return cli_fail(CLI_FAILED, "out of host memory");
    for (int32_t i = 0; i < n_args; i++)
        t->spans[t->n++] = (clef_span){args[i], strlen(args[i])};
    size_t n_bytes = 0;
    int rc = file ? cli_read_file(file, &t->file, &n_bytes) : CLI_GO_ON;
    if (rc == CLI_GO_ON && file)
        rc = add_lines(t, n_bytes);
    if (rc == CLI_GO_ON && t->n == 0)
        rc = file ? cli_fail(CLI_FAILED, "the file holds no line")
                  : cli_fail(CLI_USAGE, "expected a %s or --file FILE", what);
    return rc;
}

void cli_lines_finish(cli_lines *t)
{
    free(t->spans);
    free(t->file);
    *t = (cli_lines){0};
}

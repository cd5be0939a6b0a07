/* Writes files so that they are always complete. */
#include "tools/cli/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/terminal.h"

/* Writes to an open file, which may be NULL with errno set, and closes it. */
static clef_status write_file(const char *name, FILE *to, cli_writer write, void *user, clef_error *err)
{
    if (!to)
        return cli_error(err, CLEF_E_IO, "%s: cannot write: %s", name, strerror(errno));
    clef_status status = write(user, to, err);
    const clef_error why = *err;
    if (status != CLEF_OK && strncmp(why.text, name, strlen(name)) != 0)
        cli_error(err, status, "%s: %.900s", name, why.text);
    if (fclose(to) != 0 && status == CLEF_OK)
        status = cli_error(err, CLEF_E_IO, "%s: cannot write: %s", name, strerror(errno));
    return status;
}

void cli_xml_text(FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>')
            fputs(*text == '<' ? "&lt;" : "&gt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
}

/* A temporary name in the same folder; NULL when out of memory. */
static char *temporary_of(const char *path)
{
    enum { SUFFIX = 32 };
    const size_t n = strlen(path) + SUFFIX;
    char *temporary = malloc(n);
    if (temporary)
        snprintf(temporary, n, "%s.%016" PRIx64 ".tmp", path, cli_terminal_entropy());
    return temporary;
}

static clef_status replace_file(const char *name, const char *path, cli_writer write, void *user,
                                clef_error *err)
{
    char *temporary = temporary_of(path);
    if (!temporary)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    clef_status status = write_file(name, cli_terminal_create(temporary), write, user, err);
    if (status == CLEF_OK && !cli_terminal_rename(temporary, path))
        status = cli_error(err, CLEF_E_IO, "%s: cannot write: %s", name, strerror(errno));
    if (status != CLEF_OK)
        remove(temporary);
    free(temporary);
    return status;
}

clef_status cli_output(const char *path, cli_writer write, void *user, clef_error *err)
{
    if (!path) {
        const clef_status status = write(user, stdout, err);
        return status == CLEF_OK && fflush(stdout) != 0
                   ? cli_error(err, CLEF_E_IO, "stdout: %s", strerror(errno))
                   : status;
    }
    char *linked = cli_terminal_link_target(path);
    const char *to = linked ? linked : path;
    const clef_status status = cli_terminal_can_replace(to)
                                   ? replace_file(path, to, write, user, err)
                                   : write_file(path, fopen(path, "wb"), write, user, err);
    free(linked);
    return status;
}

clef_status cli_output_check(const char *path, clef_error *err)
{
    if (!path || !cli_terminal_can_replace(path))
        return CLEF_OK; /* a link, a device, a pipe: opening it may change what it refers to */
    char *temporary = temporary_of(path);
    if (!temporary)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    FILE *to = cli_terminal_create(temporary);
    const clef_status status =
        to ? CLEF_OK : cli_error(err, CLEF_E_IO, "%s: cannot write: %s", path, strerror(errno));
    if (to) {
        fclose(to);
        remove(temporary);
    }
    free(temporary);
    return status;
}

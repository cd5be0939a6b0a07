/* Self-contained HTML pages: a template of tools/pages/ with the data filled in. They load nothing. */
#ifndef CLEF_TOOLS_PAGE_H
#define CLEF_TOOLS_PAGE_H

#include "tools/cli/output.h"

typedef struct cli_page_file {
    const char *name, *text;
} cli_page_file;
/** The files of tools/pages/; a NULL name ends them. */
extern const cli_page_file cli_pages[];

/** Writes the page `name` ("graph.html"). In the template, {{FILE}} stands for another file of the folder,
 *  {{title}} for `title`, and {{data}} for the output of `data`, which must be JSON. CLEF_E_IO, CLEF_E_NOMEM,
 *  and the errors of `data`. */
clef_status cli_page_write(FILE *to, const char *name, const char *title, cli_writer data, void *user,
                           clef_error *err);

#endif

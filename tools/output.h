/* Writing a command's result: to stdout, or to a file that is whole at any time. */
#ifndef CLEF_TOOLS_OUTPUT_H
#define CLEF_TOOLS_OUTPUT_H

#include <stdio.h>

#include "clef/status.h"

typedef clef_status (*cli_writer)(void *user, FILE *to, clef_error *err);

/** Lets `write` write to `path` (NULL: stdout). A file is made under another name beside it and renamed, so
 *  that the one that stands there is whole at any time; of a link, the file that it names. A device or a
 *  pipe is written where it is. CLEF_E_IO, CLEF_E_NOMEM, and what `write` says. */
clef_status cli_output(const char *path, cli_writer write, void *user, clef_error *err);
/** Before long work: CLEF_E_IO when a file could not be made at `path` (NULL: stdout, always). */
clef_status cli_output_check(const char *path, clef_error *err);

/** Writes text as XML and HTML take it between tags; a control character becomes a space. */
void cli_xml_text(FILE *to, const char *text);

#endif

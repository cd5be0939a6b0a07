/* Writes a command's result to stdout, or to a file that is never half-written. */
#ifndef CLEF_TOOLS_CLI_OUTPUT_H
#define CLEF_TOOLS_CLI_OUTPUT_H

#include <stdio.h>

#include "clef/status.h"

typedef clef_status (*cli_writer)(void *user, FILE *to, clef_error *err);

/** Lets `write` write to `path` (NULL: stdout). The file is written under a temporary name in the same folder
 *  and then renamed, so that an existing file is always complete. For a link this is done to the file that it
 *  names. A device or a pipe is written directly. CLEF_E_IO, CLEF_E_NOMEM, and the errors of `write`. */
clef_status cli_output(const char *path, cli_writer write, void *user, clef_error *err);
/** A check before long work: CLEF_E_IO when no file can be made at `path` (NULL: stdout, which always
 *  works). */
clef_status cli_output_check(const char *path, clef_error *err);

/** Writes text for XML and HTML, to be between tags; a control character becomes a space. */
void cli_xml_text(FILE *to, const char *text);

#endif

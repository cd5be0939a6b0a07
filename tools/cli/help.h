/* Help texts: what cli.c prints, and man pages and completions use too. */
#ifndef CLEF_TOOLS_CLI_HELP_H
#define CLEF_TOOLS_CLI_HELP_H

#include "tools/cli/cli.h"

/** Columns of a help text. */
enum { CLI_HELP_COLUMNS = 100 };

/** The next paragraph of notes, or NULL at their end. A paragraph is a run of lines up to an empty one. A
 *  line that begins with a blank is a paragraph by itself and is printed unchanged. *n: its bytes; *notes
 *  advances. */
const char *cli_next_paragraph(const char **notes, size_t *n);

/** Value i of the option; NULL after the last one, or if it accepts any text. */
const char *cli_option_choice(const cli_option *o, int32_t i);
/** Writes an option's help with its choices and its variable to `out`, in one or a few sentences. */
char *cli_option_text(const cli_option *option, char *out, size_t capacity);

#endif

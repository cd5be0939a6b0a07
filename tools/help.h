/* Help texts: the parts that cli.c prints and that man pages and completions use too. */
#ifndef CLEF_TOOLS_HELP_H
#define CLEF_TOOLS_HELP_H

#include "tools/cli.h"

/** Columns of a help text. */
enum { CLI_HELP_COLUMNS = 100 };

/** Prints words of `text` from column `at` on, further lines indented to `indent`, without a last newline.
 *  Returns the column behind the last word. */
int cli_print_wrapped(const char *text, int at, int indent, FILE *to);

/** The next paragraph of notes, or NULL at their end: lines that follow each other, up to an empty one. A
 *  line that begins with a blank is a paragraph by itself and is printed as it is. *n: its bytes; *notes
 *  moves on. */
const char *cli_next_paragraph(const char **notes, size_t *n);

/** Value i of those that the option takes; NULL where they end, or where any text is one. */
const char *cli_option_choice(const cli_option *o, int32_t i);
/** The help of an option with its choices and its variable, as one sentence or a few; in `out`. */
char *cli_option_text(const cli_option *option, char *out, size_t capacity);

#endif

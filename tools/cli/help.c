#include "tools/cli/help.h"

#include <stdarg.h>
#include <string.h>

/* Prints the words of `text` from column `at` on, with later lines indented to `indent` and no newline at
 * the end. Returns the column after the last word. */
static int print_wrapped(const char *text, int at, int indent, FILE *to)
{
    for (const char *word = text; *word;) {
        const size_t n = strcspn(word, " \n");
        if (n && at > indent && at + 1 + (int)n > CLI_HELP_COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        } else if (n && at > indent) {
            fputc(' ', to);
            at++;
        }
        fwrite(word, 1, n, to);
        at += (int)n;
        word += n + (word[n] != 0);
    }
    return at;
}

const char *cli_next_paragraph(const char **notes, size_t *n)
{
    const char *from = *notes ? *notes + strspn(*notes, "\n") : "";
    const char *to = from;
    while (*to && *to != '\n')
        to++;
    while (*from != ' ' && to[0] == '\n' && to[1] != '\n' && to[1] != ' ' && to[1])
        to += 1 + strcspn(to + 1, "\n");
    *notes = to;
    *n = (size_t)(to - from);
    return *n ? from : NULL;
}

/* Appends to the `n` bytes in the buffer, like snprintf. Returns the new length, at most capacity - 1. */
CLI_PRINTF(4, 5)
static size_t append_text(char *out, size_t capacity, size_t n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(out + n, capacity - n, format, args);
    va_end(args);
    return more < 0 ? n : n + (size_t)more < capacity ? n + (size_t)more : capacity - 1;
}

const char *cli_option_choice(const cli_option *o, int32_t i)
{
    return o->type == CLI_CHOICE ? o->choices[i] : o->choice ? o->choice(i) : NULL;
}

char *cli_option_text(const cli_option *o, char *out, size_t capacity)
{
    size_t n = append_text(out, capacity, 0, "%s", o->help);
    for (int32_t i = 0; cli_option_choice(o, i); i++)
        n = append_text(out, capacity, n, "%s%s%s", i ? ", " : " (", cli_option_choice(o, i),
                        cli_option_choice(o, i + 1) ? "" : ")");
    if (o->env)
        append_text(out, capacity, n, " [$%s]", o->env);
    return out;
}

static void print_option(const cli_option *o, FILE *to)
{
    enum { TEXT_COLUMN = 31 };
    char text[1024], letter[8] = "    ";
    if (o->type == CLI_HEADING) {
        fprintf(to, "\n%s:\n", o->help);
        return;
    }
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int at = fprintf(to, "  %s--%.*s%s%s", letter, (int)strcspn(o->names, ","), o->names, o->value ? " " : "",
                     o->value ? o->value : "");
    if (at >= TEXT_COLUMN) {
        fputc('\n', to);
        at = 0;
    }
    fprintf(to, "%*s", TEXT_COLUMN - at, "");
    print_wrapped(cli_option_text(o, text, sizeof text), TEXT_COLUMN, TEXT_COLUMN, to);
    fputc('\n', to);
}

/* 1 when the option's name is a word of the list. */
static int is_in(const char *list, const cli_option *o)
{
    const size_t n = strcspn(o->names, ",");
    for (const char *word = list; *word; word += strspn(word, " ")) {
        const size_t bytes = strcspn(word, " ");
        if (o->type != CLI_HEADING && bytes == n && memcmp(word, o->names, n) == 0)
            return 1;
        word += bytes;
    }
    return 0;
}

/* Prints the options, without headings on a first page. Returns how many are left out. */
static int print_options(const cli_command *c, int is_first, FILE *to)
{
    int n_left = 0;
    if (is_first || c->options->type != CLI_HEADING)
        fputc('\n', to);
    for (const cli_option *o = c->options; o->names; o++)
        if (o->help && (!is_first || is_in(c->first, o)))
            print_option(o, to);
        else
            n_left += o->help && o->type != CLI_HEADING;
    fputs("  -h, --help                   print this text\n", to);
    return n_left;
}

/* Prints the paragraphs of notes; on a first page only the lines that begin with a blank, which are examples.
 */
static void print_notes(const char *notes, int is_first, FILE *to)
{
    const char *paragraph;
    size_t n;
    for (int was_literal = 0; (paragraph = cli_next_paragraph(&notes, &n)) != NULL;) {
        char text[2048];
        const int is_literal = *paragraph == ' ';
        if (is_first && !is_literal)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)n, paragraph);
        if (!(is_literal && was_literal))
            fputc('\n', to);
        if (is_literal)
            fputs(text, to);
        else
            print_wrapped(text, 0, 0, to);
        fputc('\n', to);
        was_literal = is_literal;
    }
}

void cli_help(const cli_command *c, cli_page page, FILE *to)
{
    const int is_first = c->first && page == CLI_FIRST_PAGE;
    fprintf(to, "usage: clef %s%s%s\n\n%s.\n", c->name, c->usage[0] ? " " : "", c->usage, c->summary);
    const int n_left = print_options(c, is_first, to);
    if (is_first)
        fprintf(to, "      --help-all               print all flags (%d more) and notes\n", n_left);
    print_notes(c->notes, is_first, to);
}

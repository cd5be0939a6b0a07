/* Man pages, in the macros of man(7). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "tools/cli/help.h"
#include "tools/manual/manual.h"

/* Writes n bytes of text, and escapes what roff would interpret: a backslash, a hyphen, or a dot or quote at
 * a line's start. */
static void write_text(const char *text, size_t n, FILE *to)
{
    for (size_t i = 0; i < n; i++) {
        const int starts_line = i == 0 || text[i - 1] == '\n';
        if (starts_line && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", to);
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else if (text[i] == '`')
            fputs("\\(ga", to);
        else if (text[i] == '^')
            fputs("\\(ha", to);
        else if (text[i] == '~')
            fputs("\\(ti", to);
        else if (!(text[i] == ' ' && i + 1 < n && text[i + 1] == '\n') && !(starts_line && text[i] == ' '))
            fputc(text[i], to);
    }
}

static void write_line(const char *text, FILE *to)
{
    write_text(text, strlen(text), to);
    fputc('\n', to);
}

static void write_title(const char *name, const char *date, FILE *to)
{
    fputs(".TH ", to);
    for (const char *c = name; *c; c++)
        fputc(toupper((unsigned char)*c), to);
    fprintf(to, " 1 \"%s\" \"clef %s\" \"clef manual\"\n.SH NAME\n", date, clef_version());
}

static void write_option(const cli_option *o, FILE *to)
{
    char text[1024];
    if (o->type == CLI_HEADING) {
        fprintf(to, ".SS %s\n", o->help);
        return;
    }
    fputs(".TP\n", to);
    if (o->letter)
        fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", to);
    write_text(o->names, strcspn(o->names, ","), to);
    fputs("\\fR", to);
    if (o->value) {
        fputs(" \\fI", to);
        write_text(o->value, strlen(o->value), to);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    write_line(cli_option_text(o, text, sizeof text), to);
}

static void write_notes(const char *notes, FILE *to)
{
    const char *paragraph;
    size_t n;
    for (int i = 0; (paragraph = cli_next_paragraph(&notes, &n)) != NULL; i++) {
        const int is_literal = *paragraph == ' ';
        fputs(is_literal ? ".PP\n.nf\n.RS 4\n" : i ? ".PP\n" : "", to);
        write_text(paragraph + (is_literal ? strspn(paragraph, " ") : 0),
                   n - (is_literal ? strspn(paragraph, " ") : 0), to);
        fputs(is_literal ? "\n.RE\n.fi\n" : "\n", to);
    }
}

static void write_command(const cli_command *c, const char *date, FILE *to)
{
    char name[32];
    snprintf(name, sizeof name, "clef-%s", c->name);
    write_title(name, date, to);
    fprintf(to, "clef\\-%s \\- ", c->name);
    write_line(c->summary, to);
    fprintf(to, ".SH SYNOPSIS\n\\fBclef %s\\fR ", c->name);
    write_line(c->usage, to);
    if (c->notes) {
        fputs(".SH DESCRIPTION\n", to);
        write_notes(c->notes, to);
    }
    fputs(".SH OPTIONS\n", to);
    for (const cli_option *o = c->options; o->names; o++)
        if (o->help)
            write_option(o, to);
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the flags that people use\n"
          ".TP\n\\fB\\-\\-help\\-all\\fR\nprint all flags\n"
          ".SH EXIT STATUS\n0: done; 1: failed; 2: the command line is wrong; 130: interrupted.\n"
          ".SH SEE ALSO\n.BR clef (1)\n",
          to);
}

static void write_all(const char *date, FILE *to)
{
    const char *end = "";
    write_title("clef", date, to);
    fputs("clef \\- run transformer models on any OpenCL device\n"
          ".SH SYNOPSIS\n\\fBclef\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n"
          ".SH DESCRIPTION\n\\fBclef\\fR opens a GGUF file or a Hugging Face folder and runs the model on a "
          "GPU "
          "or CPU through OpenCL 1.2 or later.\nResults go to stdout, everything else to stderr.\n"
          "Each command has a man page of its own, such as\n.BR clef\\-run (1),\n"
          "and prints the same text with \\fB\\-\\-help\\-all\\fR.\n.SH COMMANDS\n",
          to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++) {
        if (row->group) {
            fprintf(to, ".SS %s\n", row->group);
            continue;
        }
        fprintf(to, ".TP\n.BR clef\\-%s (1)\n", row->command->name);
        write_line(row->command->summary, to);
    }
    fputs(".SH ENVIRONMENT\n"
          ".TP\n\\fBCLEF_DEVICE\\fR\nthe device, where \\-\\-device does not name one\n"
          ".TP\n\\fBCLEF_CACHE_DIR\\fR\nthe folder for built programs, measurements and proofs "
          "[$XDG_CACHE_HOME/clef, else \\(ti/.cache/clef]\n"
          ".PP\ndocs/environment.md in the source tree lists all variables.\n"
          ".SH EXIT STATUS\n0: done; 1: failed; 2: the command line is wrong; 130: interrupted.\n"
          ".SH SEE ALSO\n",
          to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++)
        if (row->command) {
            fprintf(to, "%s.BR clef\\-%s (1)", end, row->command->name);
            end = ",\n";
        }
    fputc('\n', to);
}

void cli_man_page(const cli_command *command, const char *date, FILE *to)
{
    if (command)
        write_command(command, date, to);
    else
        write_all(date, to);
}

#include "tools/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"

static char *held; /* cli_hold_messages() */
static size_t held_bytes;

void cli_hold_messages(char *text, size_t n_bytes)
{
    held = text;
    held_bytes = n_bytes;
}

/* In one piece, so that what other processes write to the same terminal does not come between. */
static void write_message(const char *format, va_list args)
{
    static const char before[] = "clef: ";
    const size_t n_before = sizeof before - 1;
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *line = n < 0 ? NULL : malloc(n_before + (size_t)n + 2);
    if (!line) {
        fputs(before, stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        return;
    }
    memcpy(line, before, n_before);
    vsnprintf(line + n_before, (size_t)n + 1, format, args);
    line[n_before + (size_t)n] = '\n';
    fwrite(line, 1, n_before + (size_t)n + 1, stderr);
    free(line);
}

int cli_fail(int exit_code, const char *format, ...)
{
    va_list args;
    if (held) {
        va_start(args, format);
        vsnprintf(held, held_bytes, format, args);
        va_end(args);
        return exit_code;
    }
    fflush(stdout); /* so that earlier output comes before the message */
    cli_terminal_clear_line();
    va_start(args, format);
    write_message(format, args);
    va_end(args);
    return exit_code;
}

int cli_report(const clef_error *err)
{
    const char *text = err->text[0] ? err->text : clef_status_text(err->status);
    return cli_fail(err->status == CLEF_E_CANCELLED ? CLI_INTERRUPTED : CLI_FAILED, "%s", text);
}

/* ---- names, and the closest name ------------------------------------------------------------- */

/* The k-th name of "a,b,c" and its length; NULL beyond the last. */
static const char *name_at(const char *names, int32_t k, size_t *n)
{
    while (k > 0 && names) {
        names = strchr(names, ',');
        names = names ? names + 1 : NULL;
        k--;
    }
    if (names)
        *n = strcspn(names, ",");
    return names;
}

static int has_name(const char *names, const char *word, size_t n_word)
{
    size_t n = 0;
    const char *name;
    for (int32_t k = 0; (name = name_at(names, k, &n)) != NULL; k++)
        if (n == n_word && memcmp(name, word, n) == 0)
            return 1;
    return 0;
}

/* The number of edits that turn a into b: a letter inserted, removed, replaced, or swapped with its neighbour
 * (optimal string alignment). */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][64]; /* rows[i % 3][j]: from a's first i letters to b's first j */
    if (n_a >= 64 || n_b >= 64)
        return 64;
    for (size_t i = 0; i <= n_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above_that = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] = row[j - 1] + 1;
            if (i == 0)
                continue;
            if (above[j] + 1 < row[j])
                row[j] = above[j] + 1;
            if (above[j - 1] + (a[i - 1] != b[j - 1]) < row[j])
                row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above_that[j - 2] + 1 < row[j])
                row[j] = above_that[j - 2] + 1;
        }
    }
    return rows[n_a % 3][n_b];
}

const char *cli_nearest(const char *word, const void *names, size_t stride, char out[64])
{
    const size_t n_word = strlen(word);
    size_t best = n_word < 4 ? 2 : 3; /* more edits are not a typing error */
    const char *found = NULL;
    for (const char *row = names;; row += stride) {
        const char *list, *name;
        size_t n = 0;
        memcpy(&list, row, sizeof list);
        if (!list)
            break;
        for (int32_t k = 0; (name = name_at(list, k, &n)) != NULL; k++) {
            const size_t d = distance(word, n_word, name, n);
            if (d < best && d < n && n < 64) {
                best = d;
                memcpy(out, name, n);
                out[n] = 0;
                found = out;
            }
        }
    }
    return found;
}

/* ---- values ---------------------------------------------------------------------------------- */

static int parse_int(const cli_option *o, const char *shown, const char *text, int32_t *out)
{
    char *end;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (end == text || *end)
        return cli_fail(CLI_USAGE, "%s: expected an integer, got '%s'", shown, text);
    if (errno || (double)x < o->lo || (double)x > o->hi)
        return cli_fail(CLI_USAGE, "%s: expected %.0f to %.0f, got %s", shown, o->lo, o->hi, text);
    *out = (int32_t)x;
    return CLI_GO_ON;
}

static int parse_float(const cli_option *o, const char *shown, const char *text, float *out)
{
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || isnan(x))
        return cli_fail(CLI_USAGE, "%s: expected a number, got '%s'", shown, text);
    if (x < o->lo || x > o->hi)
        return cli_fail(CLI_USAGE, "%s: expected %g to %g, got %s", shown, o->lo, o->hi, text);
    *out = (float)x;
    return CLI_GO_ON;
}

static int parse_seed(const char *shown, const char *text, cli_seed *out)
{
    char *end;
    errno = 0;
    const unsigned long long x = strtoull(text, &end, 10);
    if (strcmp(text, "-1") == 0) { /* means "any" for users of llama.cpp */
        out->given = 0;
        return CLI_GO_ON;
    }
    if (end == text || *end || errno || strchr(text, '-'))
        return cli_fail(CLI_USAGE, "%s: expected 0 to 18446744073709551615, or -1 for any, got '%s'", shown,
                        text);
    *out = (cli_seed){.value = x, .given = 1};
    return CLI_GO_ON;
}

static int parse_choice(const cli_option *o, const char *shown, const char *text, int32_t *out)
{
    char all[160] = "";
    size_t n = 0;
    for (int32_t i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *out = i;
            return CLI_GO_ON;
        }
        const int more = snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", o->choices[i]);
        if (more > 0 && (size_t)more < sizeof all - n)
            n += (size_t)more;
    }
    return cli_fail(CLI_USAGE, "%s: expected one of %s, got '%s'", shown, all, text);
}

static int set_value(const cli_option *o, const char *shown, const char *text, void *options)
{
    void *to = (char *)options + o->offset;
    switch (o->type) {
    case CLI_SWITCH:
        *(int32_t *)to = 1;
        return CLI_GO_ON;
    case CLI_INT:
        return parse_int(o, shown, text, to);
    case CLI_SEED:
        return parse_seed(shown, text, to);
    case CLI_FLOAT:
        return parse_float(o, shown, text, to);
    case CLI_CHOICE:
        return parse_choice(o, shown, text, to);
    case CLI_TEXT:
        *(const char **)to = text;
        return CLI_GO_ON;
    case CLI_LIST: {
        cli_list *list = to;
        if (list->n == CLI_MAX_LIST)
            return cli_fail(CLI_USAGE, "%s: given more than %d times", shown, CLI_MAX_LIST);
        list->items[list->n++] = text;
        return CLI_GO_ON;
    }
    case CLI_HEADING:
        break;
    }
    return CLI_USAGE;
}

/* ---- argv ------------------------------------------------------------------------------------ */

static const cli_option *find_long(const cli_command *c, const char *word, size_t n)
{
    for (const cli_option *o = c->options; o->names; o++)
        if (o->type != CLI_HEADING && has_name(o->names, word, n))
            return o;
    return NULL;
}

static const cli_option *find_letter(const cli_command *c, char letter)
{
    for (const cli_option *o = c->options; o->names; o++)
        if (o->letter && o->letter == letter)
            return o;
    return NULL;
}

/* Flags of llama.cpp that many users know, and that have no meaning here. */
static const char *const foreign_flags[] = {"-t",
                                            "--threads",
                                            "-tb",
                                            "--threads-batch",
                                            "-ngl",
                                            "--gpu-layers",
                                            "-fa",
                                            "--flash-attn",
                                            "--n-gpu-layers",
                                            "-sm",
                                            "-mg",
                                            "--split-mode",
                                            "-ts",
                                            "--main-gpu",
                                            "--tensor-split",
                                            "--mlock",
                                            "--numa",
                                            "--no-mmap",
                                            "-cnv",
                                            "-no-cnv",
                                            "--conversation",
                                            "--keep",
                                            "-ub",
                                            "--ubatch-size",
                                            "--jinja",
                                            "--simple-io",
                                            "--no-warmup",
                                            "-st",
                                            "--color",
                                            "--single-turn"};

static int is_foreign(const char *arg)
{
    const size_t n = strcspn(arg, "=");
    for (size_t i = 0; i < sizeof foreign_flags / sizeof *foreign_flags; i++)
        if (strlen(foreign_flags[i]) == n && memcmp(foreign_flags[i], arg, n) == 0)
            return 1;
    return 0;
}

static int unknown_flag(const cli_command *c, const char *arg, const char *word)
{
    char bare[64], near_name[64];
    if (is_foreign(arg))
        return cli_fail(
            CLI_USAGE,
            "%s: %s is a flag of llama.cpp that has no meaning here; `clef help %s --all` lists the flags",
            c->name, arg, c->name);
    const size_t n = strcspn(word, "=");
    if (n < sizeof bare) {
        memcpy(bare, word, n);
        bare[n] = 0;
        if (cli_nearest(bare, &c->options->names, sizeof *c->options, near_name))
            return cli_fail(CLI_USAGE, "%s: no flag %s; did you mean --%s?", c->name, arg, near_name);
    }
    return cli_fail(CLI_USAGE,
                    "%s: no flag %s; `clef help %s --all` lists them; after -- an argument may begin with -",
                    c->name, arg, c->name);
}

/* Splits argv[i], which begins with '-', into the option and its value. The value may be the next argument;
 * then *i advances. */
static int parse_flag(const cli_command *c, int argc, char **argv, int *i, void *options)
{
    const char *arg = argv[*i], *value = NULL;
    const cli_option *o;
    char shown[72];
    if (arg[1] == '-') {
        const size_t n = strcspn(arg + 2, "=");
        o = find_long(c, arg + 2, n);
        value = arg[2 + n] ? arg + 3 + n : NULL;
        snprintf(shown, sizeof shown, "--%.*s", (int)(n < 64 ? n : 64), arg + 2);
    } else {
        o = find_letter(c, arg[1]);
        value = arg[2] ? arg + 2 + (arg[2] == '=') : NULL;
        snprintf(shown, sizeof shown, "-%c", arg[1]);
    }
    const int is_number = o && (o->type == CLI_INT || o->type == CLI_SEED || o->type == CLI_FLOAT);
    if (!o || (o->type == CLI_SWITCH && value && arg[1] != '-') ||
        (is_number && arg[1] != '-' && value && is_foreign(arg)))
        return unknown_flag(c, arg, arg + 1 + (arg[1] == '-'));
    if (o->type == CLI_SWITCH && value)
        return cli_fail(CLI_USAGE, "%s: takes no value, got '%s'", shown, value);
    if (o->type != CLI_SWITCH && !value) {
        if (*i + 1 >= argc)
            return cli_fail(CLI_USAGE, "%s: expected a value (%s), none was given", shown, o->value);
        value = argv[++*i];
    }
    return set_value(o, shown, value, options);
}

static int read_environment(const cli_command *c, void *options)
{
    for (const cli_option *o = c->options; o->names; o++) {
        const char *text = o->env ? getenv(o->env) : NULL;
        const int rc = text && *text ? set_value(o, o->env, text, options) : CLI_GO_ON;
        if (rc != CLI_GO_ON)
            return rc;
    }
    return CLI_GO_ON;
}

int cli_parse(const cli_command *c, int argc, char **argv, void *options, int32_t *n_args)
{
    int flags_ended = 0;
    *n_args = 0;
    int rc = read_environment(c, options);
    for (int i = 0; rc == CLI_GO_ON && i < argc; i++) {
        if (flags_ended || argv[i][0] != '-' || argv[i][1] == 0) {
            argv[(*n_args)++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            flags_ended = 1;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_help(c, CLI_FIRST_PAGE, stdout);
            return CLI_OK;
        } else if (strcmp(argv[i], "--help-all") == 0) {
            cli_help(c, CLI_ALL, stdout);
            return CLI_OK;
        } else {
            rc = parse_flag(c, argc, argv, &i, options);
        }
    }
    if (rc != CLI_GO_ON)
        return rc;
    if (*n_args < c->min_args)
        return cli_fail(CLI_USAGE, "%s: expected %s", c->name, c->usage);
    if (*n_args > c->max_args)
        return cli_fail(CLI_USAGE, "%s: one argument too many: '%s'; expected %s", c->name, argv[c->max_args],
                        *c->usage ? c->usage : "none");
    return CLI_GO_ON;
}

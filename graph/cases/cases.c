/* Reads files of cases. Cases are separated by empty lines. Lines of a case that begin with '#' are
 * directives or comments:
 *
 *   # ints 0 30          I32 and I8 inputs are drawn from [0, 30)
 *   # spread 0.1         other inputs are N(0, 1) times this
 *   # tol 2e-4           the tolerance, where it is not the op's
 *   # for NAMES in VALUES
 *   #   VALUES           one case for each row of values, one value for each name; $NAME stands for it in the
 * other lines. Values with blanks are written in quotes. Further lines of values begin with "#   ".
 *
 * $op is the op's name, in files that several ops share. */
#include "graph/cases/cases.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/embedded.h"

enum { MAX_NAMES = 12, MAX_VALUES = 300, MAX_LINE = 4096 };

typedef struct word {
    const char *at;
    size_t n;
} word;

typedef struct reader {
    const char *file, *op; /* op: what $op stands for; NULL: nothing */
    clef_op_case *cases;
    size_t n, cap;
    word names[MAX_NAMES], values[MAX_VALUES]; /* of the present case's "for" */
    size_t n_names, n_values;
    clef_error *err;
} reader;

static clef_status fail_at(const reader *r, const char *line, const char *what)
{
    return clef__fail(r->err, CLEF_E_FORMAT, "%s: '%.*s': %s", r->file, (int)strcspn(line, "\n"), line, what);
}

static int is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

/* The text behind "# NAME " when the line is that directive. */
static const char *after_directive(const char *line, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(line, "# ", 2) == 0 && strncmp(line + 2, name, n) == 0 && line[2 + n] == ' ' ? line + 3 + n
                                                                                                : NULL;
}

/* The next word before the line's end; a quoted one without its quotes. 0: there is none. */
static int next_word(const char **at, word *out)
{
    const char *p = *at + strspn(*at, " ");
    const int is_quoted = *p == '"';
    out->at = p + is_quoted;
    out->n = strcspn(out->at, is_quoted ? "\"\n" : " \n");
    *at = out->at + out->n + (is_quoted && out->at[out->n] == '"');
    return out->n > 0 || is_quoted;
}

/* ---- "for" ----------------------------------------------------------------------------------- */

static clef_status add_values(reader *r, const char *line, const char *at)
{
    word w;
    while (next_word(&at, &w)) {
        if (r->n_values == MAX_VALUES)
            return fail_at(r, line, "too many values");
        r->values[r->n_values++] = w;
    }
    return CLEF_OK;
}

static clef_status read_for(reader *r, const char *line, const char *at)
{
    word w;
    int has_in = 0;
    if (r->n_names)
        return fail_at(r, line, "a case has one 'for'");
    while (!has_in && next_word(&at, &w)) {
        has_in = w.n == 2 && strncmp(w.at, "in", 2) == 0;
        if (!has_in && r->n_names == MAX_NAMES)
            return fail_at(r, line, "too many names");
        if (!has_in)
            r->names[r->n_names++] = w;
    }
    return has_in && r->n_names ? add_values(r, line, at)
                                : fail_at(r, line, "expected 'for NAMES in VALUES'");
}

static int is_for_line(const char *line)
{
    return after_directive(line, "for") || strncmp(line, "#   ", 4) == 0;
}

static clef_status read_values(reader *r, const char *start, const char *end)
{
    clef_status s = CLEF_OK;
    r->n_names = r->n_values = 0;
    for (const char *line = start; line < end && !s; line = next_line(line)) {
        const char *at = after_directive(line, "for");
        if (at)
            s = read_for(r, line, at);
        else if (is_for_line(line) && r->n_names)
            s = add_values(r, line, line + 1);
    }
    if (!s && r->n_names && (!r->n_values || r->n_values % r->n_names))
        s = fail_at(r, start, "the values of its 'for' do not fill whole rows");
    return s;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The value of the name that begins at `name`, in row `row`; 0: it has none. */
static int find_value(const reader *r, const char *name, size_t length, size_t row, word *out)
{
    if (r->op && length == 2 && strncmp(name, "op", 2) == 0) {
        *out = (word){r->op, strlen(r->op)};
        return 1;
    }
    for (size_t i = 0; i < r->n_names; i++)
        if (r->names[i].n == length && strncmp(r->names[i].at, name, length) == 0) {
            *out = r->values[row * r->n_names + i];
            return 1;
        }
    return 0;
}

/* Copies the line with each $NAME replaced by its value in row `row`. */
static clef_status substitute(const reader *r, const char *line, size_t row, char out[MAX_LINE])
{
    size_t n = 0;
    for (const char *p = line; *p && *p != '\n';) {
        word w = {p, 1};
        size_t length = 0;
        if (*p == '$') {
            for (p++; is_name_char(p[length]);)
                length++;
            if (!find_value(r, p, length, row, &w))
                return fail_at(r, line, "no 'for' gives this name");
        }
        if (n + w.n >= MAX_LINE)
            return fail_at(r, line, "the line is too long");
        memcpy(out + n, w.at, w.n);
        n += w.n;
        p += w.at == p ? 1 : length;
    }
    out[n] = 0;
    return CLEF_OK;
}

static clef_status append_line(const reader *r, clef_op_case *c, const char *line)
{
    const size_t n = c->graph ? strlen(c->graph) : 0, more = strlen(line);
    char *grown = realloc(c->graph, n + more + 2);
    if (!grown)
        return clef__fail(r->err, CLEF_E_NOMEM, "%s: no memory for a case", r->file);
    memcpy(grown + n, line, more);
    memcpy(grown + n + more, "\n", 2);
    c->graph = grown;
    return CLEF_OK;
}

static clef_status read_directive(const reader *r, clef_op_case *c, const char *line)
{
    const char *ints = after_directive(line, "ints"), *spread = after_directive(line, "spread"),
               *tol = after_directive(line, "tol");
    char *end = NULL;
    if (ints) {
        c->int_lo = (int32_t)strtol(ints, &end, 10);
        c->int_hi = (int32_t)strtol(end, &end, 10);
    }
    if (spread)
        c->spread = strtof(spread, &end);
    if (tol)
        c->tol = strtof(tol, &end);
    return end && *end ? fail_at(r, line, "expected numbers") : CLEF_OK;
}

static clef_status add_case(reader *r, const char *start, const char *end, size_t row)
{
    char line[MAX_LINE];
    clef_status s = CLEF_OK;
    if (r->n + 2 > r->cap) {
        const size_t cap = 2 * r->cap + 16;
        clef_op_case *grown = realloc(r->cases, cap * sizeof *grown);
        if (!grown)
            return clef__fail(r->err, CLEF_E_NOMEM, "%s: no memory for a case", r->file);
        r->cases = grown;
        r->cap = cap;
    }
    clef_op_case *c = &r->cases[r->n++];
    *c = r->cases[r->n] = (clef_op_case){0};
    for (const char *at = start; at < end && !s; at = next_line(at)) {
        if (is_for_line(at))
            continue;
        s = substitute(r, at, row, line);
        if (!s)
            s = *line == '#' ? read_directive(r, c, line) : append_line(r, c, line);
    }
    return s;
}

/* The cases of one block of lines; a block of comments alone has none. */
static clef_status read_block(reader *r, const char *start, const char *end)
{
    int has_graph = 0;
    for (const char *line = start; line < end; line = next_line(line))
        has_graph |= *line != '#';
    clef_status s = has_graph ? read_values(r, start, end) : CLEF_OK;
    const size_t n_rows = !has_graph ? 0 : r->n_names ? r->n_values / r->n_names : 1;
    for (size_t row = 0; row < n_rows && !s; row++)
        s = add_case(r, start, end, row);
    return s;
}

clef_status clef__cases_parse(const char *text, const char *name, const char *op, clef_op_case **out,
                              clef_error *err)
{
    reader r = {.file = name, .op = op, .err = err};
    clef_status s = CLEF_OK;
    *out = NULL;
    for (const char *at = text; *at && !s;) {
        const char *start = at;
        while (*at && *at != '\n')
            at = next_line(at);
        s = read_block(&r, start, at);
        at += *at == '\n';
    }
    if (!s && !r.n)
        s = clef__fail(err, CLEF_E_FORMAT, "%s: it has no case", name);
    if (s)
        clef__cases_free(r.cases);
    else
        *out = r.cases;
    return s;
}

clef_status clef__cases_load(const clef_op_def *op, clef_op_case **out, clef_error *err)
{
    enum { FILE_NAME_BYTES = 64 };
    char name[FILE_NAME_BYTES];
    const clef_embedded *e = clef__embedded_cases;
    snprintf(name, sizeof name, "%s.clef", op->cases ? op->cases : op->name);
    while (e->name && strcmp(e->name, name) != 0)
        e++;
    *out = NULL;
    return e->name ? clef__cases_parse((const char *)e->text, name, op->name, out, err)
                   : clef__fail(err, CLEF_E_FORMAT, "%s: there is no such file of cases", name);
}

void clef__cases_free(clef_op_case *cases)
{
    for (clef_op_case *c = cases; c && c->graph; c++)
        free(c->graph);
    free(cases);
}

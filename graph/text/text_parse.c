/* Parses the text form of a graph (docs/graph-format.md) line by line, with one recursive-descent function
 * for each kind of piece. It calls the same builders as code does, so shape rules hold for text, too. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "graph/names.h"
#include "graph/text/text.h"

enum { WORD_BYTES = CLEF_NAME_BYTES };

typedef struct parser {
    clef_graph *g;
    const char *name; /* of the text, for messages */
    const char *at, *end;
    int32_t line;
    clef_error *err;
    clef_status status;
} parser;

static int fail(parser *p, clef_status status, const char *format, ...) CLEF_PRINTF(3, 4);
static int fail(parser *p, clef_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!p->status)
        p->status = clef__fail(p->err, status, "%s:%d: %s", p->name, p->line, text);
    return 0;
}

/* Skips blanks within a line, and comments up to its end. */
static void skip_blanks(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
    if (p->at < p->end && *p->at == '#')
        while (p->at < p->end && *p->at != '\n')
            p->at++;
}

static int peek(parser *p, char c)
{
    skip_blanks(p);
    return p->at < p->end && *p->at == c;
}

static int accept(parser *p, char c)
{
    if (!peek(p, c))
        return 0;
    p->at++;
    return 1;
}

static int expect(parser *p, char c)
{
    if (accept(p, c))
        return 1;
    if (p->at >= p->end || *p->at == '\n')
        return fail(p, CLEF_E_FORMAT, "expected '%c', got the end of the line", c);
    return fail(p, CLEF_E_FORMAT, "expected '%c', got '%c'", c, *p->at);
}

static int at_line_end(parser *p)
{
    skip_blanks(p);
    return p->at >= p->end || *p->at == '\n';
}

static int hex_value(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* Parses what clef__write_quoted writes, with the escapes \" \\ and \u00xx. */
static int quoted(parser *p, char out[WORD_BYTES])
{
    size_t n = 0;
    for (p->at++; p->at < p->end && *p->at != '"' && *p->at != '\n'; p->at++) {
        char c = *p->at;
        if (c == '\\' && p->end - p->at > 1 && (p->at[1] == '"' || p->at[1] == '\\')) {
            c = *++p->at;
        } else if (c == '\\') {
            if (p->end - p->at < 6 || p->at[1] != 'u' || p->at[2] != '0' || p->at[3] != '0' ||
                hex_value(p->at[4]) < 0 || hex_value(p->at[5]) < 0)
                return fail(p, CLEF_E_FORMAT, "unknown escape in a quoted name");
            c = (char)(hex_value(p->at[4]) * 16 + hex_value(p->at[5]));
            p->at += 5;
        }
        if (!c || n + 1 >= WORD_BYTES)
            return fail(p, CLEF_E_FORMAT, "a quoted name is too long or holds a NUL");
        out[n++] = c;
    }
    if (p->at >= p->end || *p->at != '"')
        return fail(p, CLEF_E_FORMAT, "a quoted name does not end");
    p->at++;
    out[n] = 0;
    return n ? 1 : fail(p, CLEF_E_FORMAT, "an empty name");
}

static int word(parser *p, char out[WORD_BYTES])
{
    if (peek(p, '"'))
        return quoted(p, out);
    size_t n = 0;
    while (p->at < p->end && (clef__is_name_char(*p->at) || *p->at == '+')) {
        if (n + 1 >= WORD_BYTES)
            return fail(p, CLEF_E_FORMAT, "a name is longer than %d bytes", WORD_BYTES - 1);
        out[n++] = *p->at++;
    }
    out[n] = 0;
    if (n)
        return 1;
    if (at_line_end(p))
        return fail(p, CLEF_E_FORMAT, "expected a name, got the end of the line");
    return fail(p, CLEF_E_FORMAT, "expected a name, got '%c'", *p->at);
}

static int integer(parser *p, const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    char *end;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (*end || end == text || errno || x < lo || x > hi)
        return fail(p, CLEF_E_FORMAT, "expected an integer from %lld to %lld, got '%s'", (long long)lo,
                    (long long)hi, text);
    *out = x;
    return 1;
}

static int floating(parser *p, const char *text, float *out)
{
    const int is_number = clef__read_float(text, out);
    if (is_number < 0)
        return fail(p, CLEF_E_FORMAT, "'%s' does not fit f32: it would become 0 or infinite", text);
    return is_number ? 1 : fail(p, CLEF_E_FORMAT, "expected a number, got '%s'", text);
}

/* 192, T or 2*T */
static int dim(parser *p, clef_dim *out)
{
    char text[WORD_BYTES];
    int64_t n = 1;
    if (!word(p, text))
        return 0;
    if (isdigit((unsigned char)text[0])) {
        if (!integer(p, text, 1, INT32_MAX, &n))
            return 0;
        *out = clef_n(n);
        if (!accept(p, '*'))
            return 1;
        if (!word(p, text))
            return 0;
    }
    for (int32_t i = 1; i <= p->g->n_symbols; i++)
        if (strcmp(p->g->symbols[i - 1].name, text) == 0) {
            *out = (clef_dim){n, i};
            return 1;
        }
    return fail(p, CLEF_E_FORMAT, "'%s' is not a declared symbol", text);
}

static int dtype_name(parser *p, const char *text, int32_t *out)
{
    int32_t t = 0;
    while (t < CLEF_N_DTYPES && strcmp(text, clef_dtype_name((clef_dtype)t)) != 0)
        t++;
    if (t == CLEF_N_DTYPES)
        return fail(p, CLEF_E_FORMAT, "'%s' is not a dtype", text);
    *out = t;
    return 1;
}

/* f32 [B, T, 192] */
static int type(parser *p, clef_dtype *dtype, clef_shape *shape)
{
    char text[WORD_BYTES];
    int32_t t = 0;
    if (!word(p, text) || !dtype_name(p, text, &t))
        return 0;
    *dtype = (clef_dtype)t;
    *shape = (clef_shape){0};
    if (!expect(p, '['))
        return 0;
    if (accept(p, ']'))
        return 1;
    do {
        if (shape->rank == CLEF_MAX_DIMS)
            return fail(p, CLEF_E_FORMAT, "more than %d dims", CLEF_MAX_DIMS);
        if (!dim(p, &shape->dim[shape->rank++]))
            return 0;
    } while (accept(p, ','));
    return expect(p, ']');
}

/* Turns a builder's error into the parser's. */
static int builder_ok(parser *p)
{
    clef_error why;
    const clef_status s = clef_graph_error(p->g, &why);
    return s ? fail(p, s, "%s", why.text) : 1;
}

static int constant_data(parser *p, clef_dtype dtype, int64_t n, void *data)
{
    char text[WORD_BYTES];
    for (int64_t i = 0; i < n; i++) {
        int64_t x = 0;
        if ((i && !expect(p, ',')) || !word(p, text))
            return 0;
        if (dtype == CLEF_F32) {
            if (!floating(p, text, (float *)data + i))
                return 0;
        } else {
            if (!integer(p, text, INT32_MIN, INT32_MAX, &x))
                return 0;
            ((int32_t *)data)[i] = (int32_t)x;
        }
    }
    return 1;
}

static int constant(parser *p, const char *name, clef_dtype dtype, clef_shape shape)
{
    int64_t n = 1;
    for (int32_t i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].n;
        if (shape.dim[i].symbol ||
            n > p->end - p->at + 1) /* an element takes at least two bytes, so the text bounds n */
            return fail(p, CLEF_E_SHAPE, "const %s: more elements than values, or a symbol in its shape",
                        name);
    }
    if (!expect(p, '='))
        return 0;
    void *data = malloc((size_t)n * 4);
    if (!data)
        return fail(p, CLEF_E_NOMEM, "const %s: no memory for %lld elements", name, (long long)n);
    int ok = constant_data(p, dtype, n, data);
    if (ok) {
        clef_constant(p->g, name, dtype, shape, data);
        ok = builder_ok(p);
    }
    free(data);
    return ok;
}

/* Whether a value has this name. Names that the graph generated do not count: clef__graph_rename replaces
 * them. */
static int is_taken(const parser *p, const char *name)
{
    const clef_value *v = clef__names_find(p->g->names, name);
    return v && v->named;
}

static int leaf(parser *p, clef_value_kind kind)
{
    char name[WORD_BYTES];
    clef_dtype dtype = CLEF_F32;
    clef_shape shape = {0};
    if (!word(p, name) || !type(p, &dtype, &shape))
        return 0;
    if (is_taken(p, name))
        return fail(p, CLEF_E_FORMAT, "a value with the name '%s' already exists", name);
    if (kind == CLEF_CONSTANT)
        return constant(p, name, dtype, shape);
    clef_value *v = kind == CLEF_INPUT    ? clef_input(p->g, name, dtype, shape)
                    : kind == CLEF_WEIGHT ? clef_weight(p->g, name, dtype, shape)
                                          : clef_state(p->g, name, dtype, shape);
    if (v)
        v->scope = clef__scope_of_name(name);
    return builder_ok(p);
}

static int symbol(parser *p)
{
    char name[WORD_BYTES], text[WORD_BYTES];
    int64_t bound = 0;
    if (!word(p, name) || !expect(p, '<') || !expect(p, '=') || !word(p, text) ||
        !integer(p, text, 1, INT32_MAX, &bound))
        return 0;
    if (!clef__is_symbol_name(name))
        return fail(p, CLEF_E_FORMAT, "'%s' cannot name a symbol", name);
    for (int32_t i = 0; i < p->g->n_symbols; i++)
        if (strcmp(p->g->symbols[i].name, name) == 0)
            return fail(p, CLEF_E_FORMAT, "symbol %s is declared twice", name);
    clef_symbol(p->g, name, bound);
    return builder_ok(p);
}

static int output(parser *p)
{
    char name[WORD_BYTES], of[WORD_BYTES];
    if (!word(p, name))
        return 0;
    strcpy(of, name);
    if (accept(p, '=') && !word(p, of))
        return 0;
    clef_value *v = clef__names_find(p->g->names, of);
    if (!v)
        return fail(p, CLEF_E_FORMAT, "output '%s': there is no value of that name", of);
    clef__graph_add_output(p->g, name, v);
    return builder_ok(p);
}

/* Appends a word to a list of them, for a message. */
static void add_word(char list[256], const char *word)
{
    const size_t n = strlen(list);
    snprintf(list + n, 256 - n, "%s%s", n ? ", " : "", word);
}

static int enum_attr(parser *p, const clef_attr_def *def, const char *text, int32_t *out)
{
    for (int32_t i = 0; def->names[i]; i++)
        if (strcmp(def->names[i], text) == 0) {
            *out = i;
            return 1;
        }
    char names[256] = "";
    for (int32_t i = 0; def->names[i]; i++)
        add_word(names, def->names[i]);
    return fail(p, CLEF_E_FORMAT, "%s: expected one of %s, got '%s'", def->name, names, text);
}

static int axes_attr(parser *p, int32_t out[CLEF_MAX_DIMS])
{
    char text[WORD_BYTES];
    int64_t x = 0;
    int32_t n = 0;
    if (!expect(p, '['))
        return 0;
    if (accept(p, ']'))
        return 1;
    do {
        if (n == CLEF_MAX_DIMS)
            return fail(p, CLEF_E_FORMAT, "more than %d axes", CLEF_MAX_DIMS);
        if (!word(p, text) || !integer(p, text, 0, CLEF_MAX_DIMS - 1, &x))
            return 0;
        out[n++] = (int32_t)x;
    } while (accept(p, ','));
    return expect(p, ']');
}

static int no_such_attribute(parser *p, const clef_op_def *def, const char *name)
{
    char known[256] = "";
    for (const clef_attr_def *a = def->attrs; a && a->name; a++)
        add_word(known, a->name);
    return fail(p, CLEF_E_FORMAT, "%s: expected one of the attributes %s, got '%s'", def->name,
                *known ? known : "(it has none)", name);
}

static int attribute(parser *p, const clef_op_def *def, void *attr)
{
    char name[WORD_BYTES], text[WORD_BYTES];
    int64_t x = 0;
    if (!word(p, name))
        return 0;
    const clef_attr_def *a = def->attrs;
    while (a && a->name && strcmp(a->name, name) != 0)
        a++;
    if (!a || !a->name)
        return no_such_attribute(p, def, name);
    void *to = (unsigned char *)attr + a->offset;
    if (!expect(p, '='))
        return 0;
    if (a->type == CLEF_ATTR_AXES)
        return axes_attr(p, to);
    if (a->type == CLEF_ATTR_DIM)
        return dim(p, to);
    if (!word(p, text))
        return 0;
    if (a->type == CLEF_ATTR_FLOAT)
        return floating(p, text, to);
    if (a->type == CLEF_ATTR_ENUM)
        return enum_attr(p, a, text, to);
    if (a->type == CLEF_ATTR_DTYPE)
        return dtype_name(p, text, to);
    if (!integer(p, text, INT32_MIN, INT32_MAX, &x))
        return 0;
    *(int32_t *)to = (int32_t)x;
    return 1;
}

static int inputs(parser *p, clef_value *in[CLEF_MAX_INPUTS], int32_t *n)
{
    char name[WORD_BYTES];
    if (!expect(p, '('))
        return 0;
    if (accept(p, ')'))
        return 1;
    do {
        if (*n == CLEF_MAX_INPUTS)
            return fail(p, CLEF_E_FORMAT, "more than %d inputs", CLEF_MAX_INPUTS);
        const int is_quoted = peek(p, '"');
        if (!word(p, name))
            return 0;
        in[*n] = strcmp(name, "_") == 0 && !is_quoted ? NULL : clef__names_find(p->g->names, name);
        if (!in[*n] && (is_quoted || strcmp(name, "_") != 0))
            return fail(p, CLEF_E_FORMAT, "there is no value called '%s' before this line", name);
        ++*n;
    } while (accept(p, ','));
    return expect(p, ')');
}

/* Parses a reshape: it has no attribute for its shape, which is its type. */
static int node_reshape(parser *p, clef_value **in, int32_t n_in, clef_value **out)
{
    const char *start = p->at;
    clef_dtype dtype = CLEF_F32;
    clef_shape shape = {0};
    if (n_in != 1 || !expect(p, ':') || !type(p, &dtype, &shape))
        return fail(p, CLEF_E_FORMAT, "reshape: expected one input, and ': dtype [dims]' after it");
    p->at = start;
    *out = clef_reshape(p->g, in[0], shape);
    return 1;
}

static int node(parser *p, const char *name)
{
    char op_name[WORD_BYTES];
    _Alignas(8) unsigned char attr[CLEF_ATTR_BYTES] = {0};
    clef_value *in[CLEF_MAX_INPUTS] = {0}, *v = NULL;
    int32_t n_in = 0, op = 0;
    if (is_taken(p, name))
        return fail(p, CLEF_E_FORMAT, "a value with the name '%s' already exists", name);
    if (!expect(p, '=') || !word(p, op_name))
        return 0;
    while (op < CLEF_N_OPS && strcmp(op_name, clef__ops[op]->name) != 0)
        op++;
    if (op == CLEF_N_OPS)
        return fail(p, CLEF_E_FORMAT, "'%s' is not an op", op_name);
    if (!inputs(p, in, &n_in))
        return 0;
    while (!at_line_end(p) && !peek(p, ':'))
        if (!attribute(p, clef__ops[op], attr))
            return 0;
    if (op == CLEF_OP_reshape) {
        if (!node_reshape(p, in, n_in, &v))
            return 0;
    } else {
        v = clef__node(p->g, (clef_op)op, in, n_in, attr);
    }
    if (!builder_ok(p))
        return 0;
    v->named = 1;
    v->scope = clef__scope_of_name(name);
    if (!clef__graph_rename(p->g, v, name))
        return builder_ok(p);
    if (!accept(p, ':'))
        return 1;
    clef_dtype dtype = CLEF_F32;
    clef_shape shape = {0};
    char a[96], b[96];
    if (!type(p, &dtype, &shape))
        return 0;
    if (dtype != v->dtype || !clef__shape_equal(&shape, &v->shape))
        return fail(p, CLEF_E_SHAPE, "%s: %s %s is written, %s gives %s %s", name, clef_dtype_name(dtype),
                    clef__shape_text(p->g, &shape, a), op_name, clef_dtype_name(v->dtype),
                    clef__shape_text(p->g, &v->shape, b));
    return 1;
}

static int header(parser *p)
{
    char text[WORD_BYTES];
    int64_t version = 0;
    if (!word(p, text) || !integer(p, text, 0, INT32_MAX, &version))
        return 0;
    return version == CLEF_TEXT_VERSION ? 1
                                        : fail(p, CLEF_E_UNSUPPORTED, "version %lld, this clef reads %d",
                                               (long long)version, CLEF_TEXT_VERSION);
}

static int statement(parser *p)
{
    static const char *const leaves[] = {"input", "weight", "state", "const"};
    char text[WORD_BYTES];
    const int is_quoted = peek(p, '"');
    if (!word(p, text))
        return 0;
    if (!is_quoted && !peek(p, '=')) {
        for (int32_t k = 0; k < 4; k++)
            if (strcmp(text, leaves[k]) == 0)
                return leaf(p, (clef_value_kind)k);
        if (strcmp(text, "symbol") == 0)
            return symbol(p);
        if (strcmp(text, "output") == 0)
            return output(p);
        if (strcmp(text, "clef-graph") == 0)
            return header(p);
    }
    return node(p, text);
}

clef_status clef_graph_parse(const char *text, size_t n_bytes, const char *name, clef_graph **out,
                             clef_error *err)
{
    *out = NULL;
    parser p = {.name = name, .at = text, .end = text + n_bytes, .line = 1, .err = err};
    p.g = clef_graph_create();
    if (!p.g)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a graph", name);
    while (p.at < p.end && !p.status) {
        if (!at_line_end(&p) && statement(&p) && !at_line_end(&p))
            fail(&p, CLEF_E_FORMAT, "unexpected text after the statement: '%.*s'",
                 p.end - p.at < 20 ? (int)(p.end - p.at) : 20, p.at);
        if (p.at < p.end && *p.at == '\n') {
            p.at++;
            p.line++;
        }
    }
    if (!p.status && !clef__has_result(p.g))
        fail(&p, CLEF_E_FORMAT, "the graph has no output");
    if (p.status) {
        clef_graph_destroy(p.g);
        return p.status;
    }
    *out = p.g;
    return CLEF_OK;
}

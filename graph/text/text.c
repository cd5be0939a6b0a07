/* Writes a graph in its text form. */
#include "graph/text/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void clef__write_quoted(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(to, "\\u%04x", *s);
        else
            fputc(*s, to);
    }
    fputc('"', to);
}

static void write_name(FILE *to, const char *name)
{
    if (clef__name_is_bare(name))
        fputs(name, to);
    else
        clef__write_quoted(to, name);
}

void clef__write_dim(FILE *to, const clef_graph *g, clef_dim d)
{
    if (!d.symbol)
        fprintf(to, "%" PRId64, d.n);
    else if (d.n == 1)
        fputs(g->symbols[d.symbol - 1].name, to);
    else
        fprintf(to, "%" PRId64 "*%s", d.n, g->symbols[d.symbol - 1].name);
}

static void write_type(FILE *to, const clef_value *v)
{
    fprintf(to, "%s [", clef_dtype_name(v->dtype));
    for (int32_t i = 0; i < v->shape.rank; i++) {
        fputs(i ? ", " : "", to);
        clef__write_dim(to, v->graph, v->shape.dim[i]);
    }
    fputc(']', to);
}

static size_t attr_bytes(clef_attr_type type)
{
    return type == CLEF_ATTR_DIM    ? sizeof(clef_dim)
           : type == CLEF_ATTR_AXES ? CLEF_MAX_DIMS * sizeof(int32_t)
                                    : 4;
}

/* Compares one field. Padding between fields is never compared. */
static int attr_equal(const clef_value *a, const clef_value *b, const clef_attr_def *attr)
{
    const unsigned char *x = a->attr + attr->offset, *y = b->attr + attr->offset;
    if (attr->type == CLEF_ATTR_DIM)
        return clef__dim_equal(*(const clef_dim *)(const void *)x, *(const clef_dim *)(const void *)y);
    return memcmp(x, y, attr_bytes(attr->type)) == 0;
}

int clef__attrs_equal(const clef_value *a, const clef_value *b)
{
    for (const clef_attr_def *attr = clef__ops[a->op]->attrs; attr && attr->name; attr++)
        if (!attr_equal(a, b, attr))
            return 0;
    return 1;
}

int clef__attr_is_zero(const clef_value *n, const clef_attr_def *attr)
{
    static const clef_value zero;
    return attr_equal(n, &zero, attr);
}

void clef__write_attr(FILE *to, const clef_value *n, const clef_attr_def *attr, int json)
{
    const void *at = n->attr + attr->offset;
    const int32_t *ints = at;
    switch (attr->type) {
    case CLEF_ATTR_INT:
        fprintf(to, "%" PRId32, *ints);
        break;
    case CLEF_ATTR_FLOAT:
        clef__write_float(to, (double)*(const float *)at);
        break;
    case CLEF_ATTR_ENUM:
        fprintf(to, json ? "\"%s\"" : "%s", attr->names[*ints]);
        break;
    case CLEF_ATTR_DTYPE:
        fprintf(to, json ? "\"%s\"" : "%s", clef_dtype_name((clef_dtype)*ints));
        break;
    case CLEF_ATTR_DIM:
        fputs(json ? "\"" : "", to);
        clef__write_dim(to, n->graph, *(const clef_dim *)at);
        fputs(json ? "\"" : "", to);
        break;
    case CLEF_ATTR_AXES:
        fputc('[', to);
        for (int32_t i = 0; i < n->shape.rank; i++)
            fprintf(to, "%s%" PRId32, i ? ", " : "", ints[i]);
        fputc(']', to);
        break;
    }
}

const char *clef__kind_word(clef_value_kind kind)
{
    static const char *const words[] = {"input", "weight", "state", "const", "computed"};
    return words[kind];
}

clef_status clef__check_stream(FILE *to, const char *what, clef_error *err)
{
    if (fflush(to) == 0 && !ferror(to))
        return CLEF_OK;
    return clef__fail(err, CLEF_E_IO, "%s: cannot write: %s", what, strerror(errno));
}

static void write_leaf(FILE *to, const clef_value *v)
{
    fprintf(to, "%s ", clef__kind_word(v->kind));
    write_name(to, v->name);
    fputc(' ', to);
    write_type(to, v);
    if (v->kind == CLEF_CONSTANT) {
        const int64_t n = clef__elements(v, NULL);
        fputs(" =", to);
        for (int64_t i = 0; i < n; i++) {
            fputs(i ? ", " : " ", to);
            if (v->dtype == CLEF_F32)
                clef__write_float(to, (double)((const float *)v->data)[i]);
            else
                fprintf(to, "%" PRId32, ((const int32_t *)v->data)[i]);
        }
    }
    fputc('\n', to);
}

static void write_node(FILE *to, const clef_value *n)
{
    write_name(to, n->name);
    fprintf(to, " = %s(", clef__ops[n->op]->name);
    for (int32_t i = 0; i < n->n_in; i++) {
        fputs(i ? ", " : "", to);
        if (n->in[i])
            write_name(to, n->in[i]->name);
        else
            fputc('_', to);
    }
    fputc(')', to);
    for (const clef_attr_def *attr = clef__ops[n->op]->attrs; attr && attr->name; attr++)
        if (!clef__attr_is_zero(n, attr)) {
            fprintf(to, " %s=", attr->name);
            clef__write_attr(to, n, attr, 0);
        }
    fputs(" : ", to);
    write_type(to, n);
    fputc('\n', to);
}

void clef__write_statement(FILE *to, const clef_value *v)
{
    (v->op == CLEF_OP_NONE ? write_leaf : write_node)(to, v);
}

clef_status clef_value_write_text(const clef_value *v, FILE *to, clef_error *err)
{
    clef__write_statement(to, v);
    return clef__check_stream(to, v->name, err);
}

clef_value *clef_value_input(const clef_value *v, int32_t i, int32_t *n)
{
    if (n)
        *n = v->n_in;
    return i >= 0 && i < v->n_in ? v->in[i] : NULL;
}

clef_status clef_graph_write_text(const clef_graph *g, FILE *to, clef_error *err)
{
    if (g->error.status)
        return clef_graph_error(g, err);
    fprintf(to, "clef-graph %d\n", CLEF_TEXT_VERSION);
    for (int32_t i = 0; i < g->n_symbols; i++) {
        fputs("symbol ", to);
        write_name(to, g->symbols[i].name);
        fprintf(to, " <= %" PRId64 "\n", g->symbols[i].bound);
    }
    for (int32_t i = 0; i < g->n_values; i++)
        clef__write_statement(to, g->values[i]);
    for (int32_t i = 0; i < g->n_outputs; i++) {
        fputs("output ", to);
        write_name(to, g->outputs[i].name);
        if (strcmp(g->outputs[i].name, g->outputs[i].value->name) != 0) {
            fputs(" = ", to);
            write_name(to, g->outputs[i].value->name);
        }
        fputc('\n', to);
    }
    return clef__check_stream(to, "graph text", err);
}

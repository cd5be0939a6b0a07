/* Compares two graphs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/names.h"
#include "graph/text/text.h"

typedef struct diff {
    const clef_graph *a, *b;
    const clef_value **of_b; /* by id in b: the matching value of a, NULL: none */
    unsigned char *taken;    /* by id in a: a value of b matches it */
    unsigned char *differs;  /* by id in b: it differs from its match */
    FILE *to;
    clef_graph_difference count;
} diff;

static int same_symbol(const diff *d, int32_t in_a, int32_t in_b)
{
    return !in_a || !in_b ? in_a == in_b
                          : strcmp(d->a->symbols[in_a - 1].name, d->b->symbols[in_b - 1].name) == 0;
}

static int same_dim(const diff *d, clef_dim a, clef_dim b)
{
    return a.n == b.n && same_symbol(d, a.symbol, b.symbol);
}

static int same_type(const diff *d, const clef_value *a, const clef_value *b)
{
    int same = a->kind == b->kind && a->op == b->op && a->dtype == b->dtype &&
               a->shape.rank == b->shape.rank && a->n_in == b->n_in;
    for (int32_t i = 0; same && i < a->shape.rank; i++)
        same = same_dim(d, a->shape.dim[i], b->shape.dim[i]);
    return same;
}

static int same_attrs(const diff *d, const clef_value *a, const clef_value *b)
{
    for (const clef_attr_def *attr = clef__ops[a->op]->attrs; attr && attr->name; attr++) {
        const unsigned char *x = a->attr + attr->offset, *y = b->attr + attr->offset;
        const size_t n = attr->type == CLEF_ATTR_AXES ? CLEF_MAX_DIMS * sizeof(int32_t) : sizeof(int32_t);
        if (attr->type == CLEF_ATTR_DIM
                ? !same_dim(d, *(const clef_dim *)(const void *)x, *(const clef_dim *)(const void *)y)
                : memcmp(x, y, n) != 0)
            return 0;
    }
    return 1;
}

static int same_inputs(const diff *d, const clef_value *a, const clef_value *b)
{
    for (int32_t i = 0; i < a->n_in; i++)
        if (!a->in[i] != !b->in[i] || (b->in[i] && d->of_b[b->in[i]->id] != a->in[i]))
            return 0;
    return 1;
}

/* Leaves are equal only if their names are, too. Nodes are equal if they compute the same. */
static int same_value(const diff *d, const clef_value *a, const clef_value *b)
{
    if (!same_type(d, a, b))
        return 0;
    if (a->op != CLEF_OP_NONE)
        return same_attrs(d, a, b) && same_inputs(d, a, b);
    return strcmp(a->name, b->name) == 0 &&
           (!a->data || memcmp(a->data, b->data, (size_t)clef__bytes(a, NULL)) == 0);
}

static void pair_values(diff *d, const clef_value *a, const clef_value *b, int differs)
{
    d->of_b[b->id] = a;
    d->taken[a->id] = 1;
    d->differs[b->id] = (unsigned char)differs;
}

/* Finds the match of b's value in a. A value of the same name is preferred. */
static void find_value(diff *d, const clef_value *b)
{
    const clef_value *named = clef__names_find(d->a->names, b->name);
    if (named && d->taken[named->id])
        named = NULL;
    if (named && same_value(d, named, b)) {
        pair_values(d, named, b, 0);
        return;
    }
    for (int32_t i = 0; b->op != CLEF_OP_NONE && i < d->a->n_values; i++)
        if (!d->taken[i] && same_value(d, d->a->values[i], b)) {
            pair_values(d, d->a->values[i], b, 0);
            return;
        }
    if (named)
        pair_values(d, named, b, 1);
}

static void write_mark(const diff *d, const char *mark, const clef_value *v)
{
    if (!d->to)
        return;
    fputs(mark, d->to);
    clef__write_statement(d->to, v);
}

static void report_values(diff *d)
{
    for (int32_t i = 0; i < d->a->n_values; i++)
        if (!d->taken[i]) {
            d->count.removed++;
            write_mark(d, "- ", d->a->values[i]);
        }
    for (int32_t i = 0; i < d->b->n_values; i++) {
        const clef_value *v = d->b->values[i];
        if (!d->of_b[i]) {
            d->count.added++;
            write_mark(d, "+ ", v);
        } else if (d->differs[i]) {
            d->count.changed++;
            write_mark(d, "< ", d->of_b[i]);
            write_mark(d, "> ", v);
        }
    }
}

static void say_symbol(const diff *d, const char *mark, const clef_symbol_def *s)
{
    if (d->to)
        fprintf(d->to, "%ssymbol %s <= %" PRId64 "\n", mark, s->name, s->bound);
}

static const clef_symbol_def *find_symbol(const clef_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_symbols; i++)
        if (strcmp(g->symbols[i].name, name) == 0)
            return &g->symbols[i];
    return NULL;
}

static void report_symbols(diff *d)
{
    for (int32_t i = 0; i < d->a->n_symbols; i++) {
        const clef_symbol_def *a = &d->a->symbols[i], *b = find_symbol(d->b, a->name);
        if (b && a->bound == b->bound)
            continue;
        *(b ? &d->count.changed : &d->count.removed) += 1;
        say_symbol(d, b ? "< " : "- ", a);
        if (b)
            say_symbol(d, "> ", b);
    }
    for (int32_t i = 0; i < d->b->n_symbols; i++)
        if (!find_symbol(d->a, d->b->symbols[i].name)) {
            d->count.added++;
            say_symbol(d, "+ ", &d->b->symbols[i]);
        }
}

static void say_output(const diff *d, const char *mark, const clef_output_def *o)
{
    if (d->to)
        fprintf(d->to, "%soutput %s = %s\n", mark, o->name, o->value->name);
}

static const clef_output_def *find_output(const clef_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->outputs[i].name, name) == 0)
            return &g->outputs[i];
    return NULL;
}

static void report_outputs(diff *d)
{
    for (int32_t i = 0; i < d->a->n_outputs; i++) {
        const clef_output_def *a = &d->a->outputs[i], *b = find_output(d->b, a->name);
        if (b && d->of_b[b->value->id] == a->value)
            continue;
        *(b ? &d->count.changed : &d->count.removed) += 1;
        say_output(d, b ? "< " : "- ", a);
        if (b)
            say_output(d, "> ", b);
    }
    for (int32_t i = 0; i < d->b->n_outputs; i++)
        if (!find_output(d->a, d->b->outputs[i].name)) {
            d->count.added++;
            say_output(d, "+ ", &d->b->outputs[i]);
        }
}

clef_status clef_graph_write_diff(const clef_graph *a, const clef_graph *b, FILE *to,
                                  clef_graph_difference *out, clef_error *err)
{
    clef_status status = clef_graph_error(a, err);
    if (!status)
        status = clef_graph_error(b, err);
    if (status)
        return status;
    diff d = {.a = a, .b = b, .to = to};
    d.of_b = calloc((size_t)b->n_values + 1, sizeof *d.of_b);
    d.taken = calloc((size_t)a->n_values + 1, 1);
    d.differs = calloc((size_t)b->n_values + 1, 1);
    if (!d.of_b || !d.taken || !d.differs) {
        status = clef__fail(err, CLEF_E_NOMEM, "graph: no memory to compare %d values with %d", a->n_values,
                            b->n_values);
    } else {
        for (int32_t i = 0; i < b->n_values; i++)
            find_value(&d, b->values[i]);
        report_symbols(&d);
        report_values(&d);
        report_outputs(&d);
        *out = d.count;
        status = to ? clef__check_stream(to, "graph differences", err) : CLEF_OK;
    }
    free((void *)d.of_b);
    free(d.taken);
    free(d.differs);
    return status;
}

/* Writes a graph as JSON (docs/graph-format.md). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/text/text.h"

static void write_shape(FILE *to, const clef_value *v)
{
    fputs("\"dtype\": ", to);
    clef__write_quoted(to, clef_dtype_name(v->dtype));
    fputs(", \"shape\": [", to);
    for (int32_t i = 0; i < v->shape.rank; i++) {
        const clef_dim d = v->shape.dim[i];
        fputs(i ? ", " : "", to);
        fputs(d.symbol ? "\"" : "", to);
        clef__write_dim(to, v->graph, d);
        fputs(d.symbol ? "\"" : "", to);
    }
    fputc(']', to);
}

/* JSON has no infinities: they become null. */
static void write_number(FILE *to, double x)
{
    if (isfinite(x))
        clef__write_float(to, x);
    else
        fputs("null", to);
}

static void write_data(FILE *to, const clef_value *v)
{
    const int64_t n = clef__elements(v, NULL);
    fputs(", \"data\": [", to);
    for (int64_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", to);
        write_number(to, v->dtype == CLEF_F32 ? (double)((const float *)v->data)[i]
                                              : (double)((const int32_t *)v->data)[i]);
    }
    fputc(']', to);
}

static void write_op(FILE *to, const clef_value *n)
{
    const clef_op_def *def = clef__ops[n->op];
    const char *sep = "";
    fputs(", \"op\": ", to);
    clef__write_quoted(to, def->name);
    fputs(", \"inputs\": [", to);
    for (int32_t i = 0; i < n->n_in; i++) {
        fputs(i ? ", " : "", to);
        if (n->in[i])
            clef__write_quoted(to, n->in[i]->name);
        else
            fputs("null", to);
    }
    fputs("], \"attributes\": {", to);
    for (const clef_attr_def *attr = def->attrs; attr && attr->name; attr++)
        if (!clef__attr_is_zero(n, attr)) {
            fprintf(to, "%s\"%s\": ", sep, attr->name);
            clef__write_attr(to, n, attr, 1);
            sep = ", ";
        }
    const clef_cost cost = def->view ? (clef_cost){0} : clef__cost(n, NULL);
    fprintf(to, "}, \"flops\": %.0f, \"bytes\": %.0f", cost.flops, cost.bytes);
}

clef_status clef_graph_write_json(const clef_graph *g, FILE *to, clef_error *err)
{
    if (g->error.status)
        return clef_graph_error(g, err);
    fprintf(to, "{\"format\": \"clef-graph\", \"version\": %d,\n \"symbols\": [", CLEF_TEXT_VERSION);
    for (int32_t i = 0; i < g->n_symbols; i++)
        fprintf(to, "%s{\"name\": \"%s\", \"bound\": %" PRId64 "}", i ? ", " : "", g->symbols[i].name,
                g->symbols[i].bound);
    fputs("],\n \"values\": [", to);
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        fprintf(to, "%s\n  {\"name\": ", i ? "," : "");
        clef__write_quoted(to, v->name);
        fprintf(to, ", \"kind\": \"%s\", ", clef__kind_word(v->kind));
        write_shape(to, v);
        if (v->op != CLEF_OP_NONE)
            write_op(to, v);
        if (v->data)
            write_data(to, v);
        fputc('}', to);
    }
    fputs("],\n \"outputs\": [", to);
    for (int32_t i = 0; i < g->n_outputs; i++) {
        fputs(i ? ", {\"name\": " : "{\"name\": ", to);
        clef__write_quoted(to, g->outputs[i].name);
        fputs(", \"value\": ", to);
        clef__write_quoted(to, g->outputs[i].value->name);
        fputc('}', to);
    }
    fputs("]}\n", to);
    return clef__check_stream(to, "graph JSON", err);
}

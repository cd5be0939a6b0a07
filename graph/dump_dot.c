/* Writes a graph for Graphviz: nodes with op, shape and weights; one cluster a layer (a scope called layerN). */
#include <ctype.h>
#include <string.h>

#include "graph/text.h"

/* Length of the "layerN" that the name begins with, 0 when it begins otherwise. */
static size_t layer_of(const char *name)
{
    size_t n = 5;
    if (strncmp(name, "layer", 5) != 0 || !isdigit((unsigned char)name[5]))
        return 0;
    while (isdigit((unsigned char)name[n]))
        n++;
    return name[n] == '.' ? n : 0;
}

static int same_layer(const clef_value *a, const clef_value *b)
{
    const size_t n = layer_of(a->name);
    return n == layer_of(b->name) && strncmp(a->name, b->name, n) == 0;
}

/* Inside a label: quotes, backslashes and what Graphviz takes for markup are escaped. */
static void write_label(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
    }
}

static int is_drawn(const clef_value *v)
{
    return v->op != CLEF_OP_NONE || v->kind == CLEF_INPUT || v->kind == CLEF_STATE;
}

static const char *style_of(const clef_value *v)
{
    if (v->kind == CLEF_INPUT)
        return "shape=ellipse, style=filled, fillcolor=\"#d8e8d0\"";
    if (v->kind == CLEF_STATE)
        return "shape=cylinder, style=filled, fillcolor=\"#f3e3c0\"";
    if (!clef__ops[v->op]->lower)
        return "style=\"rounded,dashed\", color=\"#909090\", fontcolor=\"#707070\"";
    if (v->op == CLEF_OP_matmul || v->op == CLEF_OP_attention)
        return "style=\"rounded,filled\", fillcolor=\"#cfdcf0\"";
    return "style=\"rounded,filled\", fillcolor=\"#f0f0f0\"";
}

/* The part of the name after the layer's. */
static const char *short_name(const clef_value *v)
{
    const size_t n = layer_of(v->name);
    return n ? v->name + n + 1 : v->name;
}

static void write_node(FILE *to, const clef_value *v)
{
    char shape[96];
    fprintf(to, "    v%d [%s, label=\"", v->id, style_of(v));
    if (v->op != CLEF_OP_NONE)
        fprintf(to, "%s\\n", clef__ops[v->op]->name);
    write_label(to, short_name(v));
    fprintf(to, "\\n%s %s", clef_dtype_name(v->dtype), clef__shape_text(v->graph, &v->shape, shape));
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i] && !is_drawn(v->in[i])) {
            fputs("\\n+ ", to);
            write_label(to, v->in[i]->name);
            fprintf(to, " %s %s", clef_dtype_name(v->in[i]->dtype), clef__shape_text(v->graph, &v->in[i]->shape, shape));
        }
    fputs("\"];\n", to);
}

static void write_edges(FILE *to, const clef_value *v)
{
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i] && is_drawn(v->in[i]))
            fprintf(to, "  v%d -> v%d;\n", v->in[i]->id, v->id);
}

clef_status clef_graph_write_dot(const clef_graph *g, FILE *to, clef_error *err)
{
    if (g->error.status)
        return clef_graph_error(g, err);
    fputs("digraph clef {\n  graph [fontname=\"Helvetica\", ranksep=0.3];\n  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n", to);
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        const size_t layer = layer_of(v->name);
        int first = 1; /* of its layer: opens the cluster and writes all of it */
        for (int32_t j = 0; j < i && layer && first; j++)
            first = !same_layer(g->values[j], v);
        if (layer && first) {
            fprintf(to, "  subgraph \"cluster_%.*s\" {\n    label=\"%.*s\"; style=rounded; color=\"#a0a0a0\";\n", (int)layer, v->name,
                    (int)layer, v->name);
            for (int32_t j = i; j < g->n_values; j++)
                if (same_layer(g->values[j], v) && is_drawn(g->values[j]))
                    write_node(to, g->values[j]);
            fputs("  }\n", to);
        } else if (!layer && is_drawn(v)) {
            write_node(to, v);
        }
    }
    for (int32_t i = 0; i < g->n_values; i++)
        write_edges(to, g->values[i]);
    for (int32_t i = 0; i < g->n_outputs; i++) {
        fprintf(to, "  out%d [shape=ellipse, style=filled, fillcolor=\"#e8d0d8\", label=\"", i);
        write_label(to, g->outputs[i].name);
        fprintf(to, "\"];\n  v%d -> out%d;\n", g->outputs[i].value->id, i);
    }
    fputs("}\n", to);
    return clef__check_stream(to, "graph DOT", err);
}

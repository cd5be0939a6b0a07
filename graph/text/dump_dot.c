/* Writes a graph for Graphviz: nodes with op, shape and weights; one cluster a layer. */
#include <inttypes.h>
#include <string.h>

#include "graph/text/dot.h"

void clef__dot_write_label(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
    }
}

int clef__dot_is_drawn(const clef_value *v)
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

/* The name without the layer's before it. */
static const char *short_name(const clef_value *v)
{
    char layer[CLEF__LAYER_BYTES];
    const size_t n = strlen(clef__layer_name(v->scope, layer));
    return n && strncmp(v->name, layer, n) == 0 && v->name[n] == '.' ? v->name + n + 1 : v->name;
}

void clef__dot_write_node(FILE *to, const char *prefix, const clef_value *v)
{
    char shape[96];
    fprintf(to, "    %sv%d [%s, label=\"", prefix, v->id, style_of(v));
    if (v->op != CLEF_OP_NONE)
        fprintf(to, "%s\\n", clef__ops[v->op]->name);
    clef__dot_write_label(to, *prefix ? v->name : short_name(v));
    fprintf(to, "\\n%s %s", clef_dtype_name(v->dtype), clef__shape_text(v->graph, &v->shape, shape));
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i] && !clef__dot_is_drawn(v->in[i])) {
            fputs("\\n+ ", to);
            clef__dot_write_label(to, v->in[i]->name);
            fprintf(to, " %s %s", clef_dtype_name(v->in[i]->dtype),
                    clef__shape_text(v->graph, &v->in[i]->shape, shape));
        }
    fputs("\"];\n", to);
}

/* ---- folded: a layer is one node unless it is expanded --------------------------------------- */

typedef struct fold {
    int32_t is_on;
    const int32_t *expand;
    int32_t n_expand;
} fold;

static int is_folded(const fold *f, const clef_value *v)
{
    if (!f->is_on || !clef__in_layer(v->scope))
        return 0;
    for (int32_t i = 0; i < f->n_expand; i++)
        if (f->expand[i] == v->scope.layer)
            return 0;
    return 1;
}

static void write_id(FILE *to, const fold *f, const clef_value *v)
{
    char layer[CLEF__LAYER_BYTES];
    if (is_folded(f, v))
        fprintf(to, "\"%s\"", clef__layer_name(v->scope, layer));
    else
        fprintf(to, "v%d", v->id);
}

static void write_edges(FILE *to, const fold *f, const clef_value *v)
{
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i] && clef__dot_is_drawn(v->in[i]) &&
            !(is_folded(f, v) && is_folded(f, v->in[i]) && clef__same_layer(v->scope, v->in[i]->scope))) {
            fputs("  ", to);
            write_id(to, f, v->in[i]);
            fputs(" -> ", to);
            write_id(to, f, v);
            fputs(";\n", to);
        }
}

void clef__dot_add(clef__dot_sums *sums, const clef_value *v)
{
    if (v->op == CLEF_OP_NONE)
        return;
    sums->n_nodes += clef__ops[v->op]->lower != NULL;
    sums->flops += clef__ops[v->op]->view ? 0 : clef__cost(v, NULL).flops;
    for (int32_t k = 0; k < v->n_in; k++)
        if (v->in[k] && v->in[k]->kind == CLEF_WEIGHT)
            sums->elements += (double)clef__elements(v->in[k], NULL);
}

/* Writes a layer, whose first value is `first`, as one node. Its label counts nodes, elements of weights and
 * FLOP. */
static void write_folded_layer(FILE *to, const clef_graph *g, const clef_value *first)
{
    const char *part = clef__part_name(first->scope.part);
    char layer[CLEF__LAYER_BYTES];
    clef__dot_sums sums = {0};
    for (int32_t i = first->id; i < g->n_values; i++)
        if (clef__same_layer(g->values[i]->scope, first->scope))
            clef__dot_add(&sums, g->values[i]);
    fprintf(to,
            "    \"%s\" [style=\"rounded,filled\", fillcolor=\"#cfdcf0\", label=\"%s%slayer %" PRId32
            "\\n%d nodes, %.4g M weights\\n%.4g GFLOP at the bounds\"];\n",
            clef__layer_name(first->scope, layer), part, *part ? " " : "", first->scope.layer, sums.n_nodes,
            sums.elements / 1e6, sums.flops / 1e9);
}

static void write_layer(FILE *to, const clef_graph *g, const fold *f, const clef_value *first)
{
    char layer[CLEF__LAYER_BYTES];
    clef__layer_name(first->scope, layer);
    if (is_folded(f, first)) {
        write_folded_layer(to, g, first);
        return;
    }
    fprintf(to, "  subgraph \"cluster_%s\" {\n    label=\"%s\"; style=rounded; color=\"#a0a0a0\";\n", layer,
            layer);
    for (int32_t j = first->id; j < g->n_values; j++)
        if (clef__same_layer(g->values[j]->scope, first->scope) && clef__dot_is_drawn(g->values[j]))
            clef__dot_write_node(to, "", g->values[j]);
    fputs("  }\n", to);
}

static clef_status write_dot(const clef_graph *g, const fold *f, FILE *to, clef_error *err)
{
    if (g->error.status)
        return clef_graph_error(g, err);
    fprintf(to,
            "%sdigraph clef {\n  graph [fontname=\"Helvetica\", ranksep=0.3];\n  node [shape=box, "
            "fontname=\"Helvetica\", fontsize=10];\n",
            f->is_on ? "strict " : "");
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        const int layer = clef__in_layer(v->scope);
        int first = 1; /* 1: v is the first value of its layer, so the whole layer is written */
        for (int32_t j = 0; j < i && layer && first; j++)
            first = !clef__same_layer(g->values[j]->scope, v->scope);
        if (layer && first)
            write_layer(to, g, f, v);
        else if (!layer && clef__dot_is_drawn(v))
            clef__dot_write_node(to, "", v);
    }
    for (int32_t i = 0; i < g->n_values; i++)
        write_edges(to, f, g->values[i]);
    for (int32_t i = 0; i < g->n_outputs; i++) {
        fprintf(to, "  out%d [shape=ellipse, style=filled, fillcolor=\"#e8d0d8\", label=\"", i);
        clef__dot_write_label(to, g->outputs[i].name);
        fputs("\"];\n  ", to);
        write_id(to, f, g->outputs[i].value);
        fprintf(to, " -> out%d;\n", i);
    }
    fputs("}\n", to);
    return clef__check_stream(to, "graph DOT", err);
}

clef_status clef_graph_write_dot(const clef_graph *g, FILE *to, clef_error *err)
{
    return write_dot(g, &(fold){0}, to, err);
}

int clef__dot_has_layer(const clef_graph *g, int32_t layer)
{
    for (int32_t i = 0; i < g->n_values; i++)
        if (clef__in_layer(g->values[i]->scope) && g->values[i]->scope.layer == layer)
            return 1;
    return 0;
}

clef_status clef_graph_write_folded_dot(const clef_graph *g, const int32_t *expand, int32_t n, FILE *to,
                                        clef_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (!clef__dot_has_layer(g, expand[i]))
            return clef__fail(
                err, CLEF_E_ARG,
                "graph DOT: expected to expand layer %" PRId32 ", which the graph does not have", expand[i]);
    return write_dot(g, &(fold){.is_on = 1, .expand = expand, .n_expand = n}, to, err);
}

/* Writes the graphs of several ranks for Graphviz: a column for each rank, with what ranks exchange between
 * the columns. Time goes down: a column shows the rank's nodes in the order in which they run. Ranks do the
 * same collectives in the same order, so collective number i of one rank is at the height of number i of
 * the others, and a receive is below its send.
 *
 * The heights are computed here. Each height of each column gets a node, which is invisible where the rank
 * has nothing to do, and the nodes of a height are chained, because that is what keeps Graphviz's columns in
 * order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/collective.h"
#include "graph/text/dot.h"

/* What is drawn as one node: a value, or layers that are folded. */
typedef struct box {
    const clef_value *first;
    int32_t is_layer;
    int32_t first_of_run; /* of folded layers that are alike: the box that stands for them */
    int32_t run_length;   /* on that box: the number of layers */
    clef__dot_sums sums;
    int32_t n_collectives;
    const clef_value *collective; /* the last one */
    int32_t height; /* 1 is below the headings; 0: a leaf, which Graphviz puts above its reader */
} box;

typedef struct column {
    const clef_graph *g;
    int32_t *of;     /* [n_values] the value's box; -1: it is not drawn */
    int32_t *layers; /* [n_layers] boxes of folded layers */
    box *boxes;
    int32_t n_boxes, n_layers;
    int32_t *at; /* [n_heights] the box on each height; -1: none */
} column;

typedef struct picture {
    FILE *to;
    column *columns;
    int32_t n, width;
    const int32_t *expand;
    int32_t n_expand;  /* -1: all layers */
    int32_t n_heights; /* the headings' is 0 */
} picture;

static const char *const red = "#c0392b", *const violet = "#7d3c98";

static int is_collective(const clef_value *v)
{
    return v->op == CLEF_OP_all_reduce || v->op == CLEF_OP_all_gather;
}

static int is_message(const clef_value *v)
{
    return v->op == CLEF_OP_send || v->op == CLEF_OP_receive;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* Messages stand apart from their layers, because arrows begin and end at them. */
static int is_folded(const picture *p, const clef_value *v)
{
    if (p->n_expand < 0 || !clef__in_layer(v->scope) || is_message(v))
        return 0;
    for (int32_t i = 0; i < p->n_expand; i++)
        if (p->expand[i] == v->scope.layer)
            return 0;
    return 1;
}

/* An input that a receive fills is not an input to the eye. */
static int is_shown(const column *c, const clef_value *v)
{
    if (v->kind != CLEF_INPUT)
        return clef__dot_is_drawn(v);
    for (int32_t i = v->id + 1; i < c->g->n_values; i++)
        for (int32_t k = 0; k < c->g->values[i]->n_in; k++)
            if (c->g->values[i]->in[k] == v)
                return c->g->values[i]->op != CLEF_OP_receive;
    return 1;
}

static int32_t new_box(column *c, const clef_value *v, int32_t is_layer)
{
    c->boxes[c->n_boxes] =
        (box){.first = v, .is_layer = is_layer, .first_of_run = c->n_boxes, .run_length = 1};
    if (is_layer)
        c->layers[c->n_layers++] = c->n_boxes;
    return c->n_boxes++;
}

static int32_t box_of_layer(column *c, const clef_value *v)
{
    for (int32_t i = c->n_layers - 1; i >= 0; i--)
        if (clef__same_layer(c->boxes[c->layers[i]].first->scope, v->scope))
            return c->layers[i];
    return new_box(c, v, 1);
}

static int fill_column(const picture *p, const clef_graph *g, column *c)
{
    const size_t n = (size_t)g->n_values + 1;
    *c = (column){.g = g,
                  .of = calloc(n, sizeof *c->of),
                  .layers = calloc(n, sizeof *c->layers),
                  .boxes = calloc(n, sizeof *c->boxes)};
    if (!c->of || !c->layers || !c->boxes)
        return 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        c->of[i] = !is_shown(c, v) ? -1 : is_folded(p, v) ? box_of_layer(c, v) : new_box(c, v, 0);
        if (c->of[i] < 0)
            continue;
        box *b = &c->boxes[c->of[i]];
        clef__dot_add(&b->sums, v);
        if (is_collective(v)) {
            b->n_collectives++;
            b->collective = v;
        }
    }
    return 1;
}

static int is_alike(const box *a, const box *b)
{
    return a->sums.n_nodes == b->sums.n_nodes && a->sums.elements == b->sums.elements &&
           a->sums.flops == b->sums.flops && a->n_collectives == b->n_collectives &&
           a->first->scope.layer + 1 == b->first->scope.layer && a->first->scope.part == b->first->scope.part;
}

/* Joins folded layers that follow each other, and are alike on every rank of the stage. */
static void join_layers(const picture *p, int32_t stage)
{
    column *c = p->columns + stage * p->width;
    for (int32_t r = 1; r < p->width; r++)
        if (c[r].n_layers != c->n_layers)
            return;
    for (int32_t i = 1; i < c->n_layers; i++) {
        int alike = 1;
        for (int32_t r = 0; r < p->width; r++)
            alike &= is_alike(&c[r].boxes[c[r].layers[i - 1]], &c[r].boxes[c[r].layers[i]]);
        for (int32_t r = 0; alike && r < p->width; r++) {
            const int32_t head = c[r].boxes[c[r].layers[i - 1]].first_of_run;
            c[r].boxes[c[r].layers[i]].first_of_run = head;
            c[r].boxes[head].run_length++;
        }
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The node that stands for a box: "r1v7" for a value, "r1layers7" for folded layers. */
static void write_id(const picture *p, int32_t rank, int32_t number)
{
    const box *b = &p->columns[rank].boxes[p->columns[rank].boxes[number].first_of_run];
    fprintf(p->to, b->is_layer ? "r%dlayers%d" : "r%dv%d", rank, b->first->id);
}

static void write_layers(const picture *p, int32_t rank, int32_t number)
{
    const box *b = &p->columns[rank].boxes[number];
    const int32_t layer = b->first->scope.layer;
    const char *part = clef__part_name(b->first->scope.part);
    char shape[96];
    fputs("    ", p->to);
    write_id(p, rank, number);
    fprintf(p->to, " [style=\"rounded,filled\", fillcolor=\"#cfdcf0\", label=\"%s%slayer%s %" PRId32, part,
            *part ? " " : "", b->run_length > 1 ? "s" : "", layer);
    if (b->run_length > 1)
        fprintf(p->to, " to %" PRId32 ", each", layer + b->run_length - 1);
    fprintf(p->to, "\\n%" PRId32 " nodes, %.4g M weights\\n%.4g GFLOP at the bounds", b->sums.n_nodes,
            b->sums.elements / 1e6, b->sums.flops / 1e9);
    if (b->n_collectives)
        fprintf(p->to, "\\n%" PRId32 " %s %s %s", b->n_collectives, clef__ops[b->collective->op]->name,
                clef_dtype_name(b->collective->dtype),
                clef__shape_text(b->first->graph, &b->collective->shape, shape));
    fputs("\"];\n", p->to);
}

/* A collective or a message: its op, its shape, and the other rank. */
static void write_exchange(const picture *p, int32_t rank, const clef_value *v)
{
    char shape[96];
    fprintf(p->to, "    r%dv%d [style=filled, color=\"%s\", fillcolor=\"%s\", label=\"%s", rank, v->id,
            is_message(v) ? violet : red, is_message(v) ? "#ead9f2" : "#f6d9d5", clef__ops[v->op]->name);
    if (is_message(v))
        fprintf(p->to, " %s rank %" PRId32, v->op == CLEF_OP_send ? "to" : "from",
                ((const clef__peer_opts *)(const void *)v->attr)->rank);
    fputs("\\n", p->to);
    clef__dot_write_label(p->to, is_message(v) ? v->in[0]->name : v->name);
    fprintf(p->to, "\\n%s %s\"];\n", clef_dtype_name(v->dtype), clef__shape_text(v->graph, &v->shape, shape));
}

static void write_header(const picture *p, int32_t rank)
{
    const clef_graph *g = p->columns[rank].g;
    double elements = 0, bytes = 0;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->kind == CLEF_WEIGHT) {
            elements += (double)clef__elements(g->values[i], NULL);
            bytes += (double)clef__bytes(g->values[i], NULL);
        }
    const int is_large = bytes >= 1e9;
    const double unit = is_large ? 1e9 : 1e6;
    fprintf(
        p->to,
        "    r%d [shape=plaintext, fontsize=12, label=\"rank %d\\npart %d of %d, stage %d of %d\\n%.4g %c "
        "weights, %.4g %s\"];\n",
        rank, rank, rank % p->width + 1, p->width, rank / p->width + 1, p->n / p->width, elements / unit,
        is_large ? 'G' : 'M', bytes / unit, is_large ? "GB" : "MB");
}

static void write_column(const picture *p, int32_t rank)
{
    const column *c = &p->columns[rank];
    char prefix[16];
    snprintf(prefix, sizeof prefix, "r%d", (int)rank);
    fprintf(p->to, "  subgraph rank%d {\n    node [group=rank%d];\n", rank, rank);
    write_header(p, rank);
    for (int32_t i = 0; i < c->n_boxes; i++) {
        const box *b = &c->boxes[i];
        if (b->is_layer && b->first_of_run == i)
            write_layers(p, rank, i);
        else if (!b->is_layer && (is_collective(b->first) || is_message(b->first)))
            write_exchange(p, rank, b->first);
        else if (!b->is_layer)
            clef__dot_write_node(p->to, prefix, b->first);
    }
    for (int32_t i = 0; i < c->g->n_outputs; i++) {
        fprintf(p->to, "    r%dout%d [shape=ellipse, style=filled, fillcolor=\"#e8d0d8\", label=\"", rank, i);
        clef__dot_write_label(p->to, c->g->outputs[i].name);
        fputs("\"];\n", p->to);
    }
    fputs("  }\n", p->to);
}

/* ---- heights --------------------------------------------------------------------------------- */

/* The box of collective number i, or of what stands for it; -1 beyond the last. */
static int32_t box_of_collective(const column *c, int32_t i)
{
    for (int32_t k = 0; k < c->g->n_values; k++)
        if (is_collective(c->g->values[k]) && i-- == 0)
            return c->boxes[c->of[k]].first_of_run;
    return -1;
}

static int32_t peer_of(const clef_value *v)
{
    return ((const clef__peer_opts *)(const void *)v->attr)->rank;
}

/* The box of the receive for message number i between two ranks; -1: there is none. */
static int32_t receive_of(const picture *p, int32_t from, int32_t to, int32_t i)
{
    const column *c = to < p->n ? &p->columns[to] : NULL;
    for (int32_t k = 0; c && k < c->g->n_values; k++)
        if (c->g->values[k]->op == CLEF_OP_receive && peer_of(c->g->values[k]) == from && i-- == 0)
            return c->of[k];
    return -1;
}

/* The box of the receive that belongs to send number `id` of the rank's values; -1: there is none. */
static int32_t end_of_send(const picture *p, int32_t rank, int32_t id)
{
    const clef_graph *g = p->columns[rank].g;
    const int32_t to = peer_of(g->values[id]);
    int32_t before = 0;
    for (int32_t j = 0; j < id; j++)
        before += g->values[j]->op == CLEF_OP_send && peer_of(g->values[j]) == to;
    return receive_of(p, rank, to, before);
}

static int raise_to(box *b, int32_t height)
{
    if (b->height >= height)
        return 0;
    b->height = height;
    return 1;
}

/* 1 when the box has a height of its own. */
static int has_height(const column *c, int32_t i)
{
    return c->boxes[i].first_of_run == i && c->boxes[i].first->op != CLEF_OP_NONE;
}

/* Each box below the one before. */
static int raise_column(column *c)
{
    int32_t last = 0, changed = 0;
    for (int32_t i = 0; i < c->n_boxes; i++)
        if (has_height(c, i)) {
            changed |= raise_to(&c->boxes[i], last + 1);
            last = c->boxes[i].height;
        }
    return changed;
}

/* Collectives of a number on one height. */
static int raise_stage(const picture *p, int32_t stage)
{
    column *c = p->columns + stage * p->width;
    int changed = 0;
    for (int32_t i = 0; box_of_collective(c, i) >= 0; i++) {
        int32_t highest = 0;
        for (int32_t r = 0; r < p->width; r++) {
            const int32_t b = box_of_collective(&c[r], i);
            if (b >= 0 && c[r].boxes[b].height > highest)
                highest = c[r].boxes[b].height;
        }
        for (int32_t r = 0; r < p->width; r++) {
            const int32_t b = box_of_collective(&c[r], i);
            changed |= b >= 0 && raise_to(&c[r].boxes[b], highest);
        }
    }
    return changed;
}

static int raise_receives(const picture *p, int32_t rank)
{
    const column *c = &p->columns[rank];
    int changed = 0;
    for (int32_t k = 0; k < c->g->n_values; k++) {
        const int32_t end = c->g->values[k]->op == CLEF_OP_send ? end_of_send(p, rank, k) : -1;
        if (end >= 0)
            changed |=
                raise_to(&p->columns[peer_of(c->g->values[k])].boxes[end], c->boxes[c->of[k]].height + 1);
    }
    return changed;
}

/* Graphs that do not fit together could go on for ever, so the rounds are bounded. */
static int find_heights(picture *p)
{
    int32_t rounds = 2, changed = 1;
    for (int32_t r = 0; r < p->n; r++)
        rounds += p->columns[r].n_boxes;
    while (changed && rounds-- > 0) {
        changed = 0;
        for (int32_t r = 0; r < p->n; r++)
            changed |= raise_column(&p->columns[r]);
        for (int32_t stage = 0; stage < p->n / p->width; stage++)
            changed |= raise_stage(p, stage);
        for (int32_t r = 0; r < p->n; r++)
            changed |= raise_receives(p, r);
    }
    for (int32_t r = 0; r < p->n; r++)
        for (int32_t i = 0; i < p->columns[r].n_boxes; i++)
            if (p->columns[r].boxes[i].height >= p->n_heights)
                p->n_heights = p->columns[r].boxes[i].height + 1;
    for (int32_t r = 0; r < p->n; r++) {
        column *c = &p->columns[r];
        c->at = malloc((size_t)p->n_heights * sizeof *c->at);
        if (!c->at)
            return 0;
        memset(c->at, 0xff, (size_t)p->n_heights * sizeof *c->at);
        for (int32_t i = 0; i < c->n_boxes; i++)
            if (has_height(c, i))
                c->at[c->boxes[i].height] = i;
    }
    return 1;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static void write_edge(const picture *p, int32_t from, int32_t from_box, int32_t to, int32_t to_box,
                       const char *style)
{
    fputs("  ", p->to);
    write_id(p, from, from_box);
    fputs(" -> ", p->to);
    write_id(p, to, to_box);
    fprintf(p->to, "%s;\n", style);
}

/* 1 when a value of the first box is an input of one of the second. */
static int is_read_by(const column *c, int32_t from, int32_t by)
{
    for (int32_t i = 0; i < c->g->n_values; i++)
        for (int32_t k = 0;
             c->of[i] >= 0 && c->boxes[c->of[i]].first_of_run == by && k < c->g->values[i]->n_in; k++) {
            const clef_value *in = c->g->values[i]->in[k];
            if (in && c->of[in->id] >= 0 && c->boxes[c->of[in->id]].first_of_run == from)
                return 1;
        }
    return 0;
}

/* The box before `b` in its column; -1: it is the first. */
static int32_t box_above(const column *c, int32_t b)
{
    for (int32_t height = c->boxes[b].height - 1; height > 0; height--)
        if (c->at[height] >= 0)
            return c->at[height];
    return -1;
}

/* Of an input only the edge to its first reader, since each layer reads the positions. The edges from each
 * box to the next are those of the chain. */
static void write_edges(const picture *p, int32_t rank)
{
    const column *c = &p->columns[rank];
    for (int32_t a = 0; a < c->n_boxes; a++)
        for (int32_t b = 0; b < c->n_boxes && c->boxes[a].first_of_run == a; b++) {
            if (a == b || c->boxes[b].first_of_run != b || !is_read_by(c, a, b))
                continue;
            if (!has_height(c, a) || box_above(c, b) != a)
                write_edge(p, rank, a, rank, b, has_height(c, a) ? " [color=\"#808080\"]" : "");
            if (c->boxes[a].first->kind == CLEF_INPUT)
                break;
        }
    for (int32_t i = 0; i < c->g->n_outputs; i++)
        if (c->of[c->g->outputs[i].value->id] >= 0) {
            fputs("  ", p->to);
            write_id(p, rank, c->of[c->g->outputs[i].value->id]);
            fprintf(p->to, " -> r%dout%d;\n", rank, i);
        }
}

/* What is at a height of a column. */
static void write_place(const picture *p, int32_t rank, int32_t height)
{
    if (height == 0)
        fprintf(p->to, "r%d", rank);
    else if (p->columns[rank].at[height] >= 0)
        write_id(p, rank, p->columns[rank].at[height]);
    else
        fprintf(p->to, "r%dfree%d", rank, height);
}

/* From each box to the next; dotted where the rank waits, and nothing where it only has the other order. */
static void write_chain(const picture *p, int32_t rank)
{
    const column *c = &p->columns[rank];
    int32_t last = 0;
    for (int32_t i = 0; i < p->n_heights; i++)
        last = c->at[i] >= 0 ? i : last;
    for (int32_t i = 1; i < p->n_heights; i++) {
        const int is_wait = (c->at[i] < 0 || (i > 1 && c->at[i - 1] < 0)) && i <= last;
        const int is_read = c->at[i] >= 0 && c->at[i - 1] >= 0 && is_read_by(c, c->at[i - 1], c->at[i]);
        if (c->at[i] < 0)
            fprintf(p->to, "  r%dfree%d [shape=point, width=0, style=invis, group=rank%d];\n", rank, i, rank);
        fputs("  ", p->to);
        write_place(p, rank, i - 1);
        fputs(" -> ", p->to);
        write_place(p, rank, i);
        fprintf(p->to, " [weight=100%s];\n",
                is_wait   ? ", style=dotted, dir=none, color=\"#909090\""
                : is_read ? ""
                          : ", style=invis");
    }
}

/* 1 when boxes of one height on neighbouring ranks do a collective together. */
static int is_band(const picture *p, int32_t rank, int32_t height)
{
    const int32_t a = p->columns[rank].at[height], b = p->columns[rank + 1].at[height];
    return rank / p->width == (rank + 1) / p->width && a >= 0 && b >= 0 &&
           p->columns[rank].boxes[a].n_collectives && p->columns[rank + 1].boxes[b].n_collectives;
}

/* The nodes of a height, from left to right, with a band through those of a collective. */
static void write_height(const picture *p, int32_t height)
{
    fputs("  { rank=same;", p->to);
    for (int32_t r = 0; r < p->n; r++) {
        fputc(' ', p->to);
        write_place(p, r, height);
        fputc(';', p->to);
    }
    fputs(" }\n", p->to);
    for (int32_t r = 0; r + 1 < p->n; r++) {
        fputs("  ", p->to);
        write_place(p, r, height);
        fputs(" -> ", p->to);
        write_place(p, r + 1, height);
        fputs(height > 0 && is_band(p, r, height) ? " [dir=none, penwidth=5, color=\"#c0392b\"];\n"
                                                  : " [style=invis];\n",
              p->to);
    }
}

static void write_messages(const picture *p, int32_t rank)
{
    const column *c = &p->columns[rank];
    for (int32_t k = 0; k < c->g->n_values; k++) {
        const int32_t end = c->g->values[k]->op == CLEF_OP_send ? end_of_send(p, rank, k) : -1;
        if (end >= 0)
            write_edge(p, rank, c->of[k], peer_of(c->g->values[k]), end,
                       " [penwidth=2, constraint=false, color=\"#7d3c98\"]");
    }
}

static int has_layer(const picture *p, int32_t layer)
{
    for (int32_t r = 0; r < p->n; r++)
        if (clef__dot_has_layer(p->columns[r].g, layer))
            return 1;
    return 0;
}

static void write_picture(const picture *p)
{
    fputs("strict digraph clef {\n  graph [fontname=\"Helvetica\", ranksep=0.3, nodesep=0.4];\n"
          "  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n",
          p->to);
    for (int32_t r = 0; r < p->n; r++)
        write_column(p, r);
    for (int32_t r = 0; r < p->n; r++)
        write_chain(p, r);
    for (int32_t height = 0; height < p->n_heights; height++)
        write_height(p, height);
    for (int32_t r = 0; r < p->n; r++)
        write_edges(p, r);
    for (int32_t r = 0; r < p->n; r++)
        write_messages(p, r);
    fputs("}\n", p->to);
}

clef_status clef_graph_write_ranks_dot(clef_graph *const *graphs, int32_t n, int32_t width,
                                       const int32_t *expand, int32_t n_expand, FILE *to, clef_error *err)
{
    picture p = {.to = to, .n = n, .width = width, .expand = expand, .n_expand = n_expand, .n_heights = 1};
    clef_status s = CLEF_OK;
    if (n < 1 || width < 1 || n % width)
        return clef__fail(err, CLEF_E_ARG, "graph DOT: %" PRId32 " ranks are not stages of %" PRId32, n,
                          width);
    p.columns = calloc((size_t)n, sizeof *p.columns);
    if (!p.columns)
        return clef__fail(err, CLEF_E_NOMEM, "graph DOT: no memory for %" PRId32 " ranks", n);
    for (int32_t r = 0; r < n && !s; r++) {
        s = clef_graph_error(graphs[r], err);
        if (!s && !fill_column(&p, graphs[r], &p.columns[r]))
            s = clef__fail(err, CLEF_E_NOMEM, "graph DOT: no memory for %" PRId32 " ranks", n);
    }
    for (int32_t i = 0; i < n_expand && !s; i++)
        if (!has_layer(&p, expand[i]))
            s = clef__fail(err, CLEF_E_ARG,
                           "graph DOT: expected to expand layer %" PRId32 ", which the graph does not have",
                           expand[i]);
    for (int32_t stage = 0; stage < n / width && !s; stage++)
        join_layers(&p, stage);
    if (!s && !find_heights(&p))
        s = clef__fail(err, CLEF_E_NOMEM, "graph DOT: no memory for %" PRId32 " ranks", n);
    if (!s) {
        write_picture(&p);
        s = clef__check_stream(to, "graph DOT", err);
    }
    for (int32_t r = 0; r < n; r++) {
        free(p.columns[r].of);
        free(p.columns[r].layers);
        free(p.columns[r].boxes);
        free(p.columns[r].at);
    }
    free(p.columns);
    return s;
}

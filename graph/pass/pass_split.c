/* split: a weight that is too large for a buffer is split into parts of some rows each. A product with it
 * becomes several products side by side. A table from which rows are gathered becomes a sum over the parts,
 * each of which gives zeros for rows that it does not have. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/lower/panel/panel.h"
#include "graph/pass/pass.h"

enum { ROWS_STEP = 64, MAX_PARTS = 4096 };

/* Which dim of a product the rows of a matrix are: [N, K], or [K, N]. */
typedef enum rows_are { OF_N, OF_K } rows_are;

/* Bytes of a buffer for n rows, in the larger of the file's form and the panels'. */
static int64_t bytes_of_rows(const clef_value *w, int64_t rows, rows_are what)
{
    const int64_t columns = w->shape.dim[1].n, n = what == OF_N ? rows : columns,
                  k = what == OF_N ? columns : rows;
    const int64_t stored =
        columns / clef_dtype_block_elems(w->dtype) * clef_dtype_block_bytes(w->dtype) * rows;
    const int64_t packed = clef__panel_has(w->dtype, k) ? clef__panel_bytes(w->dtype, n, k) : 0;
    return packed > stored ? packed : stored;
}

/* Rows of each part but the last; 0: the weight is not split. */
static int64_t rows_of_part(const clef_value *w, uint64_t most, rows_are what)
{
    if (w->kind != CLEF_WEIGHT || w->shape.rank != 2 || w->shape.dim[0].symbol || w->shape.dim[1].symbol)
        return 0;
    const int64_t n = w->shape.dim[0].n;
    if ((uint64_t)bytes_of_rows(w, n, what) <= most)
        return 0;
    int64_t rows = n / ROWS_STEP * ROWS_STEP;
    while (rows > 0 && (uint64_t)bytes_of_rows(w, rows, what) > most)
        rows -= rows > 64 * ROWS_STEP ? rows / 64 / ROWS_STEP * ROWS_STEP : ROWS_STEP;
    return rows > 0 && n / rows < MAX_PARTS ? rows : 0; /* not even a few rows fit: the plan reports that */
}

/* Where rows of w are in the file. w itself may be a part: some rows, or some columns of each row. */
static clef_weight_part rows_of(const clef_value *w, int64_t first, int64_t rows)
{
    const uint64_t row = (uint64_t)(clef__bytes(w, NULL) / w->shape.dim[0].n);
    if (w->part && w->part->n_runs > 1) {
        clef_weight_part part = *w->part;
        part.offset += (uint64_t)first * part.stride;
        part.n_runs = (uint64_t)rows;
        return part;
    }
    return (clef_weight_part){.whole = w->part ? w->part->whole : w->name,
                              .whole_bytes = w->part ? w->part->whole_bytes : (uint64_t)clef__bytes(w, NULL),
                              .offset = (w->part ? w->part->offset : 0) + row * (uint64_t)first,
                              .n_runs = 1,
                              .run_bytes = row * (uint64_t)rows};
}

/* Rows first .. first + rows - 1 of w; the same leaf for the same rows. */
static clef_value *part_of(clef_value *w, int64_t first, int64_t rows)
{
    char name[CLEF_NAME_BYTES];
    clef_graph *g = w->graph;
    if (snprintf(name, sizeof name, "%s/%" PRId64, w->name, first) >= (int)sizeof name)
        return clef__graph_fail(g, CLEF_E_LIMIT, "%.60s: its parts' names are too long", w->name);
    clef_value *there = clef_graph_find(g, name);
    if (there)
        return there;
    clef_weight_part *part = clef__graph_alloc(g, sizeof *part);
    clef_value *v = part ? clef_weight(g, name, w->dtype, clef_shape_2(clef_n(rows), w->shape.dim[1])) : NULL;
    if (!v)
        return NULL;
    *part = rows_of(w, first, rows);
    v->part = part;
    return v;
}

static clef_value *split_product(clef_value *n, int64_t rows)
{
    clef_value *w = n->in[1], *all = NULL;
    const int64_t n_rows = w->shape.dim[0].n;
    for (int64_t at = 0; at < n_rows; at += rows) {
        const int64_t now = at + rows < n_rows ? rows : n_rows - at;
        clef_value *bias = n->in[2]
                               ? clef_slice(n->graph, n->in[2],
                                            &(clef_slice_opts){.start = (int32_t)at, .size = clef_n(now)})
                               : NULL;
        clef_value *part = part_of(w, at, now);
        clef_value *y =
            part ? clef__node(n->graph, CLEF_OP_matmul, (clef_value *[]){n->in[0], part, bias}, 3, n->attr)
                 : NULL;
        if (!y)
            return NULL;
        all = all ? clef_concat(n->graph, all, y, &(clef_concat_opts){.axis = -1}) : y;
    }
    return all;
}

/* w is [K, N]: the sum of products with parts of x along K. */
static clef_value *split_sum(clef_value *n, int64_t rows)
{
    clef_value *x = n->in[0], *w = n->in[1], *all = NULL;
    const int64_t n_rows = w->shape.dim[0].n;
    const int32_t from_last = ((const clef_matmul_opts *)(const void *)n->attr)->transpose_a ? 2 : 1;
    for (int64_t at = 0; at < n_rows; at += rows) {
        const int64_t now = at + rows < n_rows ? rows : n_rows - at;
        const clef_slice_opts columns = {
            .axis = x->shape.rank - from_last, .start = (int32_t)at, .size = clef_n(now)};
        clef_value *some = clef_slice(n->graph, x, &columns), *part = part_of(w, at, now);
        clef_value *in[3] = {some, part, at ? NULL : n->in[2]};
        clef_value *y = some && part ? clef__node(n->graph, CLEF_OP_matmul, in, 3, n->attr) : NULL;
        if (!y)
            return NULL;
        all = all ? clef_add(n->graph, all, y) : y;
    }
    return all;
}

static clef_value *split_gather(clef_value *n, int64_t rows)
{
    clef_value *w = n->in[0], *all = NULL;
    clef_gather_opts o = *(const clef_gather_opts *)(const void *)n->attr;
    const int64_t n_rows = w->shape.dim[0].n;
    for (int64_t at = 0; at < n_rows; at += rows) {
        clef_value *part = part_of(w, at, at + rows < n_rows ? rows : n_rows - at);
        o.first = (int32_t)at;
        clef_value *y = part ? clef_gather(n->graph, part, n->in[1], &o) : NULL;
        if (!y)
            return NULL;
        all = all ? clef_add(n->graph, all, y) : y;
    }
    return all;
}

static clef_value *split_value(clef_value *n, const void *user)
{
    const uint64_t most = *(const uint64_t *)user;
    if (n->op == CLEF_OP_matmul) {
        const rows_are what = ((const clef_matmul_opts *)(const void *)n->attr)->transpose_b ? OF_N : OF_K;
        const int64_t rows = rows_of_part(n->in[1], most, what);
        return !rows ? n : what == OF_N ? split_product(n, rows) : split_sum(n, rows);
    }
    if (n->op == CLEF_OP_gather && !((const clef_gather_opts *)(const void *)n->attr)->axis) {
        const int64_t rows = rows_of_part(n->in[0], most, OF_N);
        return rows ? split_gather(n, rows) : n;
    }
    return n;
}

clef_status clef__pass_split(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err)
{
    uint64_t most = clef__panel_most_bytes(max_alloc_bytes);
    int needed = 0;
    for (int32_t i = 0; i < g->n_values; i++)
        needed |= g->values[i]->kind == CLEF_WEIGHT && (uint64_t)clef__bytes(g->values[i], NULL) > most / 2;
    if (!needed) /* panels are at most twice as large */
        return CLEF_OK;
    const clef_status s = clef__rewrite(g, split_value, &most, err);
    return s ? s : clef__pass_drop(g, err);
}

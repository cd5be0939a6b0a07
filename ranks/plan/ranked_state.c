/* Whole states of a plan on several ranks: rank 0 gathers rows from the ranks that have parts of them, and
 * sends each rank what it has to write.
 *
 * A part consists of runs of bytes of the whole (clef_weight_part). Rows of the whole, cut at the borders of
 * runs, are rows of the part: as long as these have the same size and distance they cross together. */
#include <stdlib.h>
#include <string.h>

#include "ranks/plan/ranked.h"

enum { MOST_BYTES = 16 << 20 }; /* that cross together, unless one row has more */

/* A rank's part of a state. */
typedef struct clef__state_piece {
    int32_t rank, is_copy; /* is_copy: a rank before it has the same part */
    const clef_value *whole;
    clef_weight_part part; /* .whole is the name of the part, in memory of its own */
} clef__state_piece;

/* ---- which parts there are ------------------------------------------------------------------- */

void clef__ranked_free_pieces(clef_ranked *r)
{
    for (int32_t i = 0; i < r->n_pieces; i++)
        free((char *)(uintptr_t)r->pieces[i].part.whole);
    free(r->pieces);
    r->pieces = NULL;
    r->n_pieces = 0;
}

static int has_piece(const clef_ranked *r, const clef__state_piece *p)
{
    for (int32_t i = 0; i < r->n_pieces; i++) {
        const clef__state_piece *q = &r->pieces[i];
        if (q->whole == p->whole && q->part.offset == p->part.offset &&
            q->part.run_bytes == p->part.run_bytes && q->part.n_runs == p->part.n_runs)
            return 1;
    }
    return 0;
}

static clef_status add_piece(const clef_plan *plan, int32_t rank, const clef_value *v, clef_error *err)
{
    clef_ranked *r = plan->ranked;
    const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL);
    clef__state_piece p = {
        .rank = rank, .part = {.whole_bytes = n_bytes, .n_runs = 1, .run_bytes = n_bytes, .stride = n_bytes}};
    if (v->part)
        p.part = *v->part;
    p.whole = clef_graph_find(plan->graph, v->part ? v->part->whole : v->name);
    if (!p.whole)
        return clef__fail(err, CLEF_E_ARG, "state %s of rank %d: the whole graph has none", v->name, rank);
    p.is_copy = has_piece(r, &p);
    char *name = malloc(strlen(v->name) + 1);
    clef__state_piece *more = realloc(r->pieces, ((size_t)r->n_pieces + 1) * sizeof *more);
    if (more)
        r->pieces = more;
    if (!name || !more) {
        free(name);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the list of the ranks' states");
    }
    p.part.whole = strcpy(name, v->name);
    r->pieces[r->n_pieces++] = p;
    return CLEF_OK;
}

/* Each rank's graph says which parts it has. */
static clef_status list_pieces(const clef_plan *plan, clef_error *err)
{
    const clef_layout *layout = &plan->dev->ranks->layout;
    clef_status s = CLEF_OK;
    if (plan->ranked->pieces)
        return CLEF_OK;
    for (int32_t rank = 0; rank < layout->width * layout->stages && !s; rank++) {
        clef_graph *g = NULL;
        s = clef__shard(plan->graph, layout, rank, NULL, &g, err);
        for (int32_t i = 0; !s && i < g->n_values; i++)
            if (g->values[i]->kind == CLEF_STATE)
                s = add_piece(plan, rank, g->values[i], err);
        clef_graph_destroy(g);
    }
    if (s)
        clef__ranked_free_pieces(plan->ranked);
    return s;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* Rows of a part that cross together: where they are in the part, and in the caller's data. */
typedef struct batch {
    const clef_plan *plan;
    const clef__state_piece *piece;
    clef__state_rows rows;
    char *data;
    uint64_t first, pitch; /* in `data` */
    int32_t writes;
} batch;

static void copy_rows(const batch *b, char *staging)
{
    for (uint64_t r = 0; r < b->rows.n_rows; r++) {
        char *at = b->data + b->first + r * b->pitch, *packed = staging + r * b->rows.n_bytes;
        if (b->writes)
            memcpy(packed, at, (size_t)b->rows.n_bytes);
        else
            memcpy(at, packed, (size_t)b->rows.n_bytes);
    }
}

static clef_status move_own(const batch *b, char *staging, clef_error *err)
{
    clef_plan *mine = b->plan->ranked->mine;
    const clef_value *v = clef_graph_find(mine->graph, b->piece->part.whole);
    if (!v || v->kind != CLEF_STATE)
        return clef__fail(err, CLEF_E_ARG, "state %s: rank 0 has none", b->piece->part.whole);
    const clef__plan_state state = {.stage = mine, .value = v, .n_bytes = (uint64_t)clef__bytes(v, NULL)};
    return b->writes ? clef__plan_state_write(&state, &b->rows, staging, err)
                     : clef__plan_state_read(&state, &b->rows, staging, err);
}

static clef_status move_other(const batch *b, char *staging, clef_error *err)
{
    clef__transport *t = b->plan->dev->ranks->transport;
    const size_t n_bytes = (size_t)(b->rows.n_rows * b->rows.n_bytes), n_name = strlen(b->piece->part.whole);
    clef__state_order order = {.rows = b->rows};
    memcpy(order.name, b->piece->part.whole, n_name);
    clef__command command = {.kind = CLEF__COMMAND_STATE,
                             .plan = b->plan->ranked->number,
                             .a = b->piece->rank,
                             .b = b->writes,
                             .n_bytes = offsetof(clef__state_order, name) + n_name + 1};
    const clef_status s = clef__ranks_command(b->plan->dev->ranks, &command, &order, err);
    if (s)
        return s;
    return b->writes ? t->calls->send(t, b->piece->rank, staging, n_bytes, err)
                     : t->calls->receive(t, b->piece->rank, staging, n_bytes, err);
}

static clef_status move_batch(batch *b, clef_error *err)
{
    if (!b->rows.n_rows)
        return CLEF_OK;
    const size_t n_bytes = (size_t)(b->rows.n_rows * b->rows.n_bytes);
    char *staging = clef__ranks_staging(b->plan->dev->ranks, n_bytes);
    if (!staging)
        return clef__fail(err, CLEF_E_NOMEM, "state %s: no memory for %zu bytes", b->piece->whole->name,
                          n_bytes);
    if (b->writes)
        copy_rows(b, staging);
    const clef_status s = b->piece->rank ? move_other(b, staging, err) : move_own(b, staging, err);
    if (!s && !b->writes)
        copy_rows(b, staging);
    b->rows.n_rows = 0;
    return s;
}

/* Adds n bytes at `in_part` of the part, which are at `in_data` of the data. */
static clef_status add_row(batch *b, uint64_t in_part, uint64_t in_data, uint64_t n, clef_error *err)
{
    clef__state_rows *r = &b->rows;
    const int is_second = r->n_rows == 1 && r->n_bytes == n && in_part >= r->offset + n && in_data > b->first,
              goes_on = r->n_rows > 1 && r->n_bytes == n && in_part == r->offset + r->n_rows * r->pitch &&
                        in_data == b->first + r->n_rows * b->pitch;
    if (is_second) {
        r->pitch = in_part - r->offset;
        b->pitch = in_data - b->first;
    }
    if ((is_second || goes_on) && r->n_rows * n < MOST_BYTES) {
        r->n_rows++;
        return CLEF_OK;
    }
    const clef_status s = move_batch(b, err);
    *r = (clef__state_rows){.offset = in_part, .n_rows = 1, .n_bytes = n, .pitch = n};
    b->first = in_data;
    b->pitch = n;
    return s;
}

static clef_status move_piece(const clef_plan *plan, const clef__state_piece *piece,
                              const clef__state_rows *rows, char *data, int32_t writes, clef_error *err)
{
    const clef_weight_part *p = &piece->part;
    batch b = {.plan = plan, .piece = piece, .data = data, .writes = writes};
    clef_status s = CLEF_OK;
    for (uint64_t r = 0; r < rows->n_rows && !s; r++) {
        const uint64_t begin = rows->offset + (r ? r * rows->pitch : 0), end = begin + rows->n_bytes;
        uint64_t run =
            begin < p->offset + p->run_bytes ? 0 : (begin - p->offset - p->run_bytes) / p->stride + 1;
        for (; run < p->n_runs && p->offset + run * p->stride < end && !s; run++) {
            const uint64_t at = p->offset + run * p->stride, from = at > begin ? at : begin,
                           to = at + p->run_bytes < end ? at + p->run_bytes : end;
            s = add_row(&b, run * p->run_bytes + (from - at), r * rows->n_bytes + (from - begin), to - from,
                        err);
        }
    }
    return s ? s : move_batch(&b, err);
}

static clef_status move_state(const clef__plan_state *state, const clef__state_rows *rows, char *data,
                              int32_t writes, clef_error *err)
{
    const clef_plan *plan = state->stage;
    clef_status s = list_pieces(plan, err);
    for (int32_t i = 0; i < plan->ranked->n_pieces && !s; i++) {
        const clef__state_piece *p = &plan->ranked->pieces[i];
        if (p->whole == state->value && (writes || !p->is_copy))
            s = move_piece(plan, p, rows, data, writes, err);
    }
    return s;
}

clef_status clef__ranked_read_state(const clef__plan_state *state, const clef__state_rows *rows, void *data,
                                    clef_error *err)
{
    return move_state(state, rows, data, 0, err);
}

clef_status clef__ranked_write_state(const clef__plan_state *state, const clef__state_rows *rows,
                                     const void *data, clef_error *err)
{
    return move_state(state, rows, (char *)(uintptr_t)data, 1, err); /* which is only read then */
}

/* ---- copies within a state --------------------------------------------------------------------- */

/* The bytes of a part that lie before byte `at` of the whole. */
static uint64_t bytes_before(const clef_weight_part *p, uint64_t at)
{
    if (at <= p->offset)
        return 0;
    const uint64_t run = (at - p->offset) / p->stride, within = (at - p->offset) % p->stride;
    return run * p->run_bytes + (within < p->run_bytes ? within : p->run_bytes);
}

clef_status clef__ranked_copy_parts(const clef_plan *mine, const char *name, uint64_t to, uint64_t from,
                                    uint64_t n_bytes, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < mine->graph->n_values && !s; i++) {
        const clef_value *v = mine->graph->values[i];
        if (v->kind != CLEF_STATE || strcmp(v->part ? v->part->whole : v->name, name) != 0)
            continue;
        const clef_weight_part whole = {.stride = UINT64_MAX, .run_bytes = UINT64_MAX},
                               *p = v->part ? v->part : &whole;
        const uint64_t begin = bytes_before(p, from), n = bytes_before(p, from + n_bytes) - begin;
        if (n)
            s = clef__plan_copy_within(mine, v, bytes_before(p, to), begin, n, err);
    }
    return s;
}

clef_status clef__ranked_copy_state(const clef__plan_state *state, uint64_t to, uint64_t from,
                                    uint64_t n_bytes, clef_error *err)
{
    const clef_ranked *r = state->stage->ranked;
    const char *name = state->value->name;
    clef__command command = {.kind = CLEF__COMMAND_COPY,
                             .plan = r->number,
                             .a = (int64_t)to,
                             .b = (int64_t)from,
                             .c = (int64_t)n_bytes,
                             .n_bytes = strlen(name) + 1};
    const clef_status s = clef__ranks_command(r->mine->dev->ranks, &command, name, err);
    return s ? s : clef__ranked_copy_parts(r->mine, name, to, from, n_bytes, err);
}

/* For attention_grad_cpu.cl: a tile's rows, and the keys that they see. Needs TILE, ROWS and BLOCKS. */
#ifndef CLEF_CL_ATTENTION_GRAD_ROWS_H
#define CLEF_CL_ATTENTION_GRAD_ROWS_H

/* A tile: rows first .. first + n - 1 of the queries of head hk, and the keys begin .. end - 1 that any of
 * them sees. */
typedef struct tile_id {
    uint b, hk, first, n;
    int begin, end;
} tile_id;

/* A tile's rows: q times the scale, dy (later divided by the sum of the row's weights), the sums of dq,
 * sum_e dy out; for each block of ROWS rows the keys that any of them sees. Rows from n on are 0. */
typedef struct tile_rows {
    float16 *q, *dy, *dq;
    float *mean;
    int *begin, *end;
} tile_rows;

static tile_id tile_at(const attention_args *a, global const int *pos, global const int *first_keys, uint b,
                       uint hk, uint first)
{
    tile_id t = {b, hk, first, min((uint)TILE, a->group * a->n[2] - first), 0, 0};
    t.begin = keys_begin(a, position(a, pos, b, first), first_key(a, first_keys, b, first));
    t.end = keys_end(a, position(a, pos, b, first + t.n - 1));
    return t;
}

static void load_rows(const tile_rows *rows, const attention_grad_args *g, const tile_id *t,
                      global const float *q, global const float *dy, global const int *pos,
                      global const int *first_keys)
{
    for (uint r = 0; r < t->n; r++) {
        const size_t from = row_at(&g->a, &g->a.q, t->b, t->hk, t->first + r),
                     dy_from = g->dy + out_at(&g->a, t->b, t->hk, t->first + r, E);
        for (uint j = 0; j < DV; j++)
            rows->q[r * DV + j] = g->a.scale * query16(q, from, j);
        for (uint j = 0; j < EV; j++)
            rows->dy[r * EV + j] = result16(dy, dy_from, j);
    }
    for (uint i = t->n * DV; i < TILE * DV; i++)
        rows->q[i] = 0;
    for (uint i = t->n * EV; i < TILE * EV; i++)
        rows->dy[i] = 0;
    for (uint i = 0; i < TILE * DV; i++)
        rows->dq[i] = 0;
    for (uint k = 0; k < BLOCKS; k++) {
        const uint first = t->first + min(k * ROWS, t->n - 1),
                   last = t->first + min(k * ROWS + ROWS, t->n) - 1;
        rows->begin[k] = keys_begin(&g->a, position(&g->a, pos, t->b, first),
                                    first_key(&g->a, first_keys, t->b, first));
        rows->end[k] = k * ROWS < t->n ? keys_end(&g->a, position(&g->a, pos, t->b, last)) : 0;
    }
}

/* The keys of the chunk at s, counted from s, up to the last that block k sees; 0 or less: it sees none. */
static int keys_of_block(const tile_rows *rows, uint k, int s)
{
    return rows->begin[k] < s + KEYS ? min(rows->end[k] - s, (int)KEYS) : 0;
}
static int vectors_of(int n) { return n <= 0 ? 0 : n <= 16 ? 1 : n <= 32 ? 2 : CHUNK; }

#endif

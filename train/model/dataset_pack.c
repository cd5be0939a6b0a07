/* How the pieces of a split fill rows. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "train/model/dataset.h"

/* ---- CLEF_PACK_WHOLE: best fit, the longest first -------------------------------------------- */

/* Rows that are being filled, in lists by the room they have left. */
typedef struct packing {
    int64_t n_chunks, n_rows;
    clef__chunk *chunks;
    int64_t *order;     /* [n_chunks]: the chunks, the longest first */
    int64_t *row_of;    /* [n_chunks]: by place in `order` */
    int64_t *next;      /* [n_chunks]: the next row with the same room; -1: none */
    int64_t *with_room; /* [T + 1]: the first row with that room */
    uint64_t *has_room; /* bits of the rooms that a row has */
    int64_t *starts;    /* [T + 2]: for counting sorts */
} packing;

static void list_row(packing *p, int64_t row, int64_t room)
{
    p->next[row] = p->with_room[room];
    p->with_room[room] = row;
    p->has_room[room / 64] |= (uint64_t)1 << room % 64;
}

/* Takes a row with the least room of `n` or more off its list; -1: none has as much. *room is set. */
static int64_t take_row(packing *p, int64_t n, int64_t most, int64_t *room)
{
    for (int64_t r = n; r <= most;) {
        const uint64_t bits = p->has_room[r / 64] >> r % 64;
        if (!bits) {
            r = (r / 64 + 1) * 64;
            continue;
        }
        while (!(p->has_room[r / 64] >> r % 64 & 1))
            r++;
        const int64_t row = p->with_room[r];
        p->with_room[r] = p->next[row];
        if (p->with_room[r] < 0)
            p->has_room[r / 64] &= ~((uint64_t)1 << r % 64);
        *room = r;
        return row;
    }
    return -1;
}

/* A counting sort, which keeps the order of chunks of equal length. */
static void sort_by_length(packing *p, int64_t n_tokens)
{
    memset(p->starts, 0, ((size_t)n_tokens + 2) * sizeof *p->starts);
    for (int64_t i = 0; i < p->n_chunks; i++)
        p->starts[n_tokens - p->chunks[i].n + 1]++;
    for (int64_t k = 1; k <= n_tokens + 1; k++)
        p->starts[k] += p->starts[k - 1];
    for (int64_t i = 0; i < p->n_chunks; i++)
        p->order[p->starts[n_tokens - p->chunks[i].n]++] = i;
}

static void fill_rows(packing *p, int64_t n_tokens)
{
    sort_by_length(p, n_tokens);
    for (int64_t k = 0; k <= n_tokens; k++)
        p->with_room[k] = -1;
    for (int64_t i = 0; i < p->n_chunks; i++) {
        int64_t room = n_tokens;
        const int64_t n = p->chunks[p->order[i]].n;
        int64_t row = take_row(p, n, n_tokens, &room);
        if (row < 0)
            row = p->n_rows++;
        p->row_of[i] = row;
        if (room > n)
            list_row(p, row, room - n);
    }
}

static clef_status sort_by_row(packing *p, clef__share *share, clef_error *err)
{
    int64_t *starts = calloc((size_t)p->n_rows + 2, sizeof *starts);
    clef__chunk *sorted = malloc(((size_t)p->n_chunks + 1) * sizeof *sorted);
    if (!starts || !sorted) {
        free(starts);
        free(sorted);
        return clef__fail(err, CLEF_E_NOMEM, "dataset: no memory for %lld rows", (long long)p->n_rows);
    }
    for (int64_t i = 0; i < p->n_chunks; i++)
        starts[p->row_of[i] + 2]++;
    for (int64_t r = 1; r < p->n_rows + 2; r++)
        starts[r] += starts[r - 1];
    for (int64_t i = 0; i < p->n_chunks; i++)
        sorted[starts[p->row_of[i] + 1]++] = p->chunks[p->order[i]];
    share->chunks = sorted;
    share->row_chunks = starts;
    share->counts.n_rows = p->n_rows;
    return CLEF_OK;
}

static void cut_chunks(const clef_dataset *ds, const clef__share *share, packing *p)
{
    for (int64_t i = 0; i < share->n_pieces; i++) {
        const int64_t n = clef__piece_tokens(ds, &share->pieces[i]);
        for (int64_t from = 0; from < n; from += ds->n_tokens)
            p->chunks[p->n_chunks++] =
                (clef__chunk){i, from, n - from < ds->n_tokens ? n - from : ds->n_tokens};
    }
}

static clef_status pack_whole(const clef_dataset *ds, clef__share *share, clef_error *err)
{
    const size_t n_tokens = (size_t)ds->n_tokens;
    size_t n = 1;
    for (int64_t i = 0; i < share->n_pieces; i++)
        n += (size_t)((clef__piece_tokens(ds, &share->pieces[i]) + ds->n_tokens - 1) / ds->n_tokens);
    packing p = {.chunks = malloc(n * sizeof *p.chunks),
                 .order = malloc(n * sizeof *p.order),
                 .row_of = malloc(n * sizeof *p.row_of),
                 .next = malloc(n * sizeof *p.next),
                 .with_room = malloc((n_tokens + 1) * sizeof *p.with_room),
                 .has_room = calloc(n_tokens / 64 + 1, sizeof *p.has_room),
                 .starts = malloc((n_tokens + 2) * sizeof *p.starts)};
    clef_status st = CLEF_OK;
    if (!p.chunks || !p.order || !p.row_of || !p.next || !p.with_room || !p.has_room || !p.starts) {
        st = clef__fail(err, CLEF_E_NOMEM, "dataset: no memory to pack %zu pieces into rows", n);
    } else {
        cut_chunks(ds, share, &p);
        fill_rows(&p, ds->n_tokens);
        st = sort_by_row(&p, share, err);
    }
    free(p.chunks);
    free(p.order);
    free(p.row_of);
    free(p.next);
    free(p.with_room);
    free(p.has_room);
    free(p.starts);
    return st;
}

/* ---- all objectives -------------------------------------------------------------------------- */

static clef_status pack_stream(const clef_dataset *ds, clef__share *share, clef_error *err)
{
    for (int64_t i = 0; i < share->n_pieces; i++) {
        share->pieces[i].at = share->n_stream;
        share->n_stream += clef__piece_tokens(ds, &share->pieces[i]);
    }
    share->counts.n_tokens = share->n_stream;
    share->counts.n_rows = (share->n_stream + ds->n_tokens - 1) / ds->n_tokens;
    return ds->packing == CLEF_PACK_WHOLE ? pack_whole(ds, share, err) : CLEF_OK;
}

static void count_masked(const clef_dataset *ds, clef__share *share)
{
    int64_t n_rows = 0;
    for (int64_t i = 0; i < share->n_pieces; i++) {
        share->pieces[i].at = n_rows;
        n_rows += clef__piece_rows(ds, &share->pieces[i]);
        share->counts.n_tokens += share->pieces[i].n;
    }
    share->counts.n_tokens += n_rows * (ds->n_before + ds->n_after);
    share->counts.n_rows = n_rows;
}

static int64_t count_text(const clef_dataset *ds, int64_t n, int64_t room, int *is_cut)
{
    n += ds->n_before + ds->n_after;
    *is_cut |= n > room;
    return n < room ? n : room;
}

static void count_pairs(clef_dataset *ds, clef__share *share)
{
    for (int64_t i = 0; i < share->n_pieces; i++) {
        int is_cut = 0;
        share->counts.n_tokens += count_text(ds, share->pieces[i].n, ds->n_tokens, &is_cut);
        share->counts.n_tokens += count_text(ds, share->pieces[i].n_target, ds->n_target, &is_cut);
        ds->info.n_cut += is_cut;
    }
    share->counts.n_rows = share->n_pieces;
}

clef_status clef__dataset_pack(clef_dataset *ds, clef__share *share, clef_error *err)
{
    share->counts.n_documents = share->n_pieces;
    if (ds->objective == CLEF_NEXT_TOKEN)
        return pack_stream(ds, share, err);
    if (ds->objective == CLEF_MASKED_TOKENS)
        count_masked(ds, share);
    else
        count_pairs(ds, share);
    return CLEF_OK;
}

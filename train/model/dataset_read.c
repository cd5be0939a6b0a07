/* Reading rows of a dataset. Nothing here allocates or changes the dataset. */
#include "graph/fail.h"
#include "train/model/dataset.h"
#include "train/model/dataset_order.h"

/* One row. Its arrays begin at the row's place in those of the caller, or are NULL. */
typedef struct row {
    int32_t *input_ids, *attention_mask, *labels, *first, *positions, *decoder_input_ids;
    int64_t n_labels, n_tokens;
} row;

/* Which row of which epoch. Validation rows have an epoch and a seed of their own. */
typedef struct place {
    uint64_t seed;
    uint32_t epoch;
    int64_t index;
    int64_t shift; /* of the stream */
} place;
enum { VALIDATION_EPOCH = -1, VALIDATION_SEED = 0 };

static void set(int32_t *array, int64_t i, int32_t value)
{
    if (array)
        array[i] = value;
}

static void set_label(row *r, int64_t i, int32_t label)
{
    set(r->labels, i, label);
    r->n_labels += label >= 0;
}

/* Token t of the row, which belongs to the document that begins at `first`. */
static void set_input(row *r, int64_t t, int32_t id, int64_t first)
{
    set(r->input_ids, t, id);
    set(r->attention_mask, t, 1);
    set(r->first, t, (int32_t)first);
    set(r->positions, t, (int32_t)(t - first));
    r->n_tokens++;
}

static void pad_inputs(const clef_dataset *ds, row *r, int64_t from)
{
    for (int64_t t = from; t < ds->n_tokens; t++) {
        set(r->input_ids, t, ds->pad);
        set(r->attention_mask, t, 0);
        set(r->first, t, (int32_t)t);
        set(r->positions, t, 0);
    }
}

static void pad_labels(row *r, int64_t from, int64_t to)
{
    for (int64_t t = from; t < to; t++)
        set(r->labels, t, -1);
}

/* The last piece whose `at` is not above `at`. */
static const clef__piece *find_piece(const clef__share *share, int64_t at)
{
    int64_t low = 0, high = share->n_pieces;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (share->pieces[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return &share->pieces[low];
}

/* ---- CLEF_NEXT_TOKEN ------------------------------------------------------------------------- */

/* Token i of a piece, special tokens included. */
static int32_t piece_token(const clef_dataset *ds, const clef__piece *p, int64_t i)
{
    const int32_t n_before = p->begins ? ds->n_before : 0;
    if (i < n_before)
        return ds->before[i];
    i -= n_before;
    return i < p->n ? clef__token_at(&ds->files[p->file], p->start + i) : ds->after[i - p->n];
}

/* Writes tokens `from` to from + n - 1 of a piece to places t to t + n - 1 of a row. */
static void write_span(const clef_dataset *ds, row *r, int64_t t, const clef__piece *p, int64_t from,
                       int64_t n)
{
    const int64_t n_piece = clef__piece_tokens(ds, p);
    int32_t id = piece_token(ds, p, from);
    for (int64_t i = 0; i < n; i++) {
        const int32_t next = from + i + 1 < n_piece ? piece_token(ds, p, from + i + 1) : -1;
        set_input(r, t + i, id, t);
        set_label(r, t + i, next);
        id = next;
    }
}

/* The stream and its padding are a ring of whole rows, whose cuts move with the epoch's shift. */
static void read_stream(const clef_dataset *ds, const clef__share *share, const place *at, row *r)
{
    const int64_t ring = share->counts.n_rows * ds->n_tokens;
    int64_t from = (at->index * ds->n_tokens + at->shift) % ring;
    for (int64_t t = 0; t < ds->n_tokens;) {
        if (from >= share->n_stream) {
            const int64_t left = ring - from < ds->n_tokens - t ? ring - from : ds->n_tokens - t;
            for (int64_t i = t; i < t + left; i++) {
                set(r->input_ids, i, ds->pad);
                set(r->attention_mask, i, 0);
                set(r->labels, i, -1);
                set(r->first, i, (int32_t)i);
                set(r->positions, i, 0);
            }
            t += left;
            from = (from + left) % ring;
            continue;
        }
        const clef__piece *p = find_piece(share, from);
        const int64_t rest = p->at + clef__piece_tokens(ds, p) - from;
        const int64_t n = rest < ds->n_tokens - t ? rest : ds->n_tokens - t;
        write_span(ds, r, t, p, from - p->at, n);
        t += n;
        from = (from + n) % ring;
    }
}

static void read_whole(const clef_dataset *ds, const clef__share *share, const place *at, row *r)
{
    int64_t t = 0;
    for (int64_t i = share->row_chunks[at->index]; i < share->row_chunks[at->index + 1]; i++) {
        const clef__chunk *c = &share->chunks[i];
        write_span(ds, r, t, &share->pieces[c->piece], c->from, c->n);
        t += c->n;
    }
    pad_inputs(ds, r, t);
    pad_labels(r, t, ds->n_tokens);
}

/* ---- CLEF_MASKED_TOKENS ---------------------------------------------------------------------- */

/* Hides the token at t, or leaves it as it is, but with a label (Devlin et al., arXiv:1810.04805,
 * section 3.1). */
static void hide(const clef_dataset *ds, row *r, int64_t t, int32_t id, const clef__philox_words *words)
{
    const uint32_t by_mask = 3435973837u, by_any = 3865470566u; /* 0.8 and 0.9 times 2^32 */
    set_label(r, t, id);
    if (words->word[1] < by_mask)
        set(r->input_ids, t, ds->mask);
    else if (words->word[1] < by_any)
        set(r->input_ids, t, (int32_t)((uint64_t)words->word[2] * (uint64_t)ds->n_vocab >> 32));
}

static void read_masked(const clef_dataset *ds, const clef__share *share, const place *at, row *r)
{
    const clef__piece *p = find_piece(share, at->index);
    const int64_t room = ds->n_tokens - ds->n_before - ds->n_after, from = (at->index - p->at) * room;
    const int64_t n = p->n - from < room ? p->n - from : room;
    const clef__tokens *file = &ds->files[p->file];
    uint32_t least = UINT32_MAX;
    int64_t t = 0, n_hidden = 0, at_least = 0;
    for (; t < ds->n_before; t++)
        set_input(r, t, ds->before[t], 0);
    for (int64_t i = 0; i < n; i++, t++) {
        const int32_t id = clef__token_at(file, p->start + from + i);
        const clef__philox_words words =
            clef__draw_words(at->seed, CLEF_DRAW_MASK, at->epoch, (uint32_t)at->index, (uint32_t)i);
        set_input(r, t, id, 0);
        set(r->labels, t, -1);
        if (words.word[0] < ds->mask_below) {
            hide(ds, r, t, id, &words);
            n_hidden++;
        }
        if (words.word[0] <= least) {
            least = words.word[0];
            at_least = i;
        }
    }
    if (n_hidden == 0) {
        const clef__philox_words words =
            clef__draw_words(at->seed, CLEF_DRAW_MASK, at->epoch, (uint32_t)at->index, (uint32_t)at_least);
        hide(ds, r, ds->n_before + at_least, clef__token_at(file, p->start + from + at_least), &words);
    }
    for (int32_t i = 0; i < ds->n_after; i++, t++)
        set_input(r, t, ds->after[i], 0);
    pad_labels(r, 0, ds->n_before);
    pad_labels(r, ds->n_before + n, ds->n_tokens);
    pad_inputs(ds, r, t);
}

/* ---- CLEF_TEXT_PAIRS ------------------------------------------------------------------------- */

/* Token i of a text with its special tokens, of which it has n_text of its own. */
static int32_t text_token(const clef_dataset *ds, const clef__piece *p, int64_t start, int64_t n_text,
                          int64_t i)
{
    if (i < ds->n_before)
        return ds->before[i];
    i -= ds->n_before;
    return i < n_text ? clef__token_at(&ds->files[p->file], start + i) : ds->after[i - n_text];
}

static void read_pair(const clef_dataset *ds, const clef__share *share, const place *at, row *r)
{
    const clef__piece *p = &share->pieces[at->index];
    const int64_t special = ds->n_before + ds->n_after;
    const int64_t n_source = p->n < ds->n_tokens - special ? p->n : ds->n_tokens - special;
    const int64_t n_target = p->n_target < ds->n_target - special ? p->n_target : ds->n_target - special;
    for (int64_t t = 0; t < n_source + special; t++)
        set_input(r, t, text_token(ds, p, p->start, n_source, t), 0);
    pad_inputs(ds, r, n_source + special);
    int32_t before = ds->decoder_start;
    for (int64_t t = 0; t < n_target + special; t++) {
        const int32_t id = text_token(ds, p, p->start + p->n, n_target, t);
        set(r->decoder_input_ids, t, before);
        set_label(r, t, id);
        before = id;
    }
    r->n_tokens += n_target + special;
    for (int64_t t = n_target + special; t < ds->n_target; t++)
        set(r->decoder_input_ids, t, ds->pad);
    pad_labels(r, n_target + special, ds->n_target);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static place place_of(const clef_dataset *ds, clef_split split, int64_t number)
{
    const int64_t n_rows = ds->shares[split].counts.n_rows;
    if (split == CLEF_VALIDATION)
        return (place){.seed = VALIDATION_SEED, .epoch = (uint32_t)VALIDATION_EPOCH, .index = number};
    place at = {.seed = ds->seed, .epoch = (uint32_t)(number / n_rows)};
    at.index = (int64_t)clef__draw_order(ds->seed, CLEF_DRAW_ROWS, at.epoch, (uint64_t)n_rows,
                                         (uint64_t)(number % n_rows));
    if (n_rows > 1)
        at.shift = clef__draw_below(ds->seed, CLEF_DRAW_SHIFT, at.epoch, (uint32_t)ds->n_tokens);
    return at;
}

static void read_row(const clef_dataset *ds, clef_split split, int64_t number, row *r)
{
    const clef__share *share = &ds->shares[split];
    const int64_t n_labels = ds->objective == CLEF_TEXT_PAIRS ? ds->n_target : ds->n_tokens;
    if (split == CLEF_VALIDATION && number >= share->counts.n_rows) {
        pad_inputs(ds, r, 0);
        pad_labels(r, 0, n_labels);
        for (int64_t t = 0; t < ds->n_target && ds->objective == CLEF_TEXT_PAIRS; t++)
            set(r->decoder_input_ids, t, ds->pad);
        return;
    }
    const place at = place_of(ds, split, number);
    if (ds->objective == CLEF_MASKED_TOKENS)
        read_masked(ds, share, &at, r);
    else if (ds->objective == CLEF_TEXT_PAIRS)
        read_pair(ds, share, &at, r);
    else if (ds->packing == CLEF_PACK_WHOLE)
        read_whole(ds, share, &at, r);
    else
        read_stream(ds, share, &at, r);
}

static int32_t *row_at(int32_t *array, int64_t i, int32_t n)
{
    return array ? array + i * n : NULL;
}

clef_status clef_dataset_read(const clef_dataset *ds, clef_split split, int64_t begin, int32_t n,
                              clef_rows *rows, clef_error *err)
{
    if (!ds || !rows || begin < 0 || n < 0 || (uint32_t)split > CLEF_VALIDATION)
        return clef__fail(err, CLEF_E_ARG, "dataset: expected rows from 0 on, got %d rows from %lld on", n,
                          (long long)begin);
    const int32_t n_labels = ds->objective == CLEF_TEXT_PAIRS ? ds->n_target : ds->n_tokens;
    rows->n_labels = rows->n_tokens = 0;
    for (int32_t i = 0; i < n; i++) {
        row r = {.input_ids = row_at(rows->input_ids, i, ds->n_tokens),
                 .attention_mask = row_at(rows->attention_mask, i, ds->n_tokens),
                 .labels = row_at(rows->labels, i, n_labels),
                 .first = row_at(rows->first, i, ds->n_tokens),
                 .positions = row_at(rows->positions, i, ds->n_tokens),
                 .decoder_input_ids = row_at(rows->decoder_input_ids, i, ds->n_target)};
        read_row(ds, split, begin + i, &r);
        rows->n_labels += r.n_labels;
        rows->n_tokens += r.n_tokens;
    }
    return CLEF_OK;
}

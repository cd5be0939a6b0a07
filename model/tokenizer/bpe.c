/* Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909), by merge ranks as in GPT-2 and Hugging Face,
 * and by scores as in SentencePiece. One loop serves both: symbols form a linked list, and the pairs that
 * can merge form a heap, best first and then leftmost. The time is n log n. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/bytes.h"

enum { LONG_WORD = 256 };

struct clef__bpe_symbol {
    int32_t id;              /* -1: not in the vocabulary */
    int32_t prev, next;      /* -1: none */
    uint32_t start, n_bytes; /* 0 bytes: merged into its neighbour */
};

struct clef__bpe_candidate {
    uint64_t order;   /* rank << 32 | left symbol: the lowest merges first */
    uint32_t n_bytes; /* of both symbols together when the pair was found; if the sum has changed since, the
                         pair is gone */
    int32_t id;       /* the token they become */
};

/* ---- the heap */

static void heap_push(clef__bpe_candidate *heap, size_t n, clef__bpe_candidate item)
{
    size_t i = n;
    for (size_t up; i > 0 && heap[up = (i - 1) / 2].order > item.order; i = up)
        heap[i] = heap[up];
    heap[i] = item;
}

static clef__bpe_candidate heap_pop(clef__bpe_candidate *heap, size_t n)
{
    const clef__bpe_candidate top = heap[0], item = heap[n - 1];
    size_t i = 0;
    for (size_t down; (down = 2 * i + 1) < n - 1; i = down) {
        if (down + 1 < n - 1 && heap[down + 1].order < heap[down].order)
            down++;
        if (item.order <= heap[down].order)
            break;
        heap[i] = heap[down];
    }
    heap[i] = item;
    return top;
}

/* ---- pairs */

int clef__bpe_pair_by_rank(const clef__bpe *bpe, const char *text, const clef__bpe_symbol *l,
                           const clef__bpe_symbol *r, uint32_t *rank, int32_t *id)
{
    (void)text;
    if (bpe->n_slots == 0)
        return 0;
    const clef__bpe_slot *slot = clef__bpe_find_slot(bpe, (uint64_t)(uint32_t)l->id << 32 | (uint32_t)r->id);
    *rank = slot->rank;
    *id = slot->id;
    return slot->id >= 0;
}

int clef__bpe_pair_by_score(const clef__bpe *bpe, const char *text, const clef__bpe_symbol *l,
                            const clef__bpe_symbol *r, uint32_t *rank, int32_t *id)
{
    *id = clef__vocab_map_get(&bpe->pieces, text + l->start, (size_t)l->n_bytes + r->n_bytes);
    if (*id >= 0)
        *rank = bpe->ranks[*id];
    return *id >= 0;
}

/* ---- the loop */

static clef_status make_room(clef__encoding *enc, size_t n)
{
    /* There are n - 1 pairs at first. Each of at most n - 1 merges removes one and adds at most two. */
    const size_t n_queue = 2 * n;
    if (n > (size_t)INT32_MAX / 2)
        return clef__fail(enc->err, CLEF_E_LIMIT, "BPE: a word has %zu symbols, expected at most %d", n,
                          INT32_MAX / 2);
    if (n > enc->n_symbols) {
        clef__bpe_symbol *symbols = realloc(enc->symbols, (n + n / 2 + 64) * sizeof *symbols);
        if (!symbols)
            return clef__fail(enc->err, CLEF_E_NOMEM, "no memory for a word of %zu symbols", n);
        enc->symbols = symbols;
        enc->n_symbols = n + n / 2 + 64;
    }
    if (n_queue > enc->n_queue) {
        clef__bpe_candidate *queue = realloc(enc->queue, (n_queue + n + 64) * sizeof *queue);
        if (!queue)
            return clef__fail(enc->err, CLEF_E_NOMEM, "no memory for a word of %zu symbols", n);
        enc->queue = queue;
        enc->n_queue = n_queue + n + 64;
    }
    return CLEF_OK;
}

static void push_pair(const clef__bpe *bpe, clef__encoding *enc, const char *text, int32_t left,
                      size_t *n_queue)
{
    const clef__bpe_symbol *l = &enc->symbols[left];
    if (l->next < 0)
        return;
    const clef__bpe_symbol *r = &enc->symbols[l->next];
    uint32_t rank;
    int32_t id;
    if (bpe->pair(bpe, text, l, r, &rank, &id))
        heap_push(enc->queue, (*n_queue)++,
                  (clef__bpe_candidate){(uint64_t)rank << 32 | (uint32_t)left, l->n_bytes + r->n_bytes, id});
}

static void merge_all(const clef__bpe *bpe, clef__encoding *enc, const char *text, size_t n)
{
    clef__bpe_symbol *symbols = enc->symbols;
    size_t n_queue = 0;
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(bpe, enc, text, (int32_t)i, &n_queue);
    while (n_queue > 0) {
        const clef__bpe_candidate top = heap_pop(enc->queue, n_queue--);
        const int32_t at = (int32_t)(top.order & UINT32_MAX);
        clef__bpe_symbol *l = &symbols[at];
        if (l->n_bytes == 0 || l->next < 0 || l->n_bytes + symbols[l->next].n_bytes != top.n_bytes)
            continue;
        clef__bpe_symbol *r = &symbols[l->next];
        l->n_bytes = top.n_bytes;
        l->id = top.id;
        l->next = r->next;
        r->n_bytes = 0;
        if (l->next >= 0)
            symbols[l->next].prev = at;
        if (l->prev >= 0)
            push_pair(bpe, enc, text, l->prev, &n_queue);
        push_pair(bpe, enc, text, at, &n_queue);
    }
}

/* Returns the end of the part of a word that begins at `at`. Both characters at a cut are in the
 * vocabulary, so that no run of unknown characters is divided. */
static size_t part_end(const clef__bpe *bpe, const char *text, size_t n, size_t at,
                       int32_t (*id_of)(const clef__bpe *, const char *, size_t))
{
    size_t size = clef__utf8_size(text[at]);
    if (!bpe->cuts.bits || n - at < LONG_WORD)
        return n;
    for (size_t before = at; (before += size) < n;) {
        const size_t n_before = size;
        size = clef__utf8_size(text[before]);
        if (clef__word_cuts_at(&bpe->cuts, text, n, before) &&
            id_of(bpe, text + before - n_before, n_before) >= 0 && id_of(bpe, text + before, size) >= 0)
            return before;
    }
    return n;
}

static void link_symbols(clef__bpe_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        symbols[i].prev = (int32_t)i - 1;
        symbols[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    }
}

/* ---- by ranks */

/* Returns 1 if an unknown character can be written as one token for each of its bytes. */
static int can_fall_back(const clef__bpe *bpe, const char *text, size_t n)
{
    if (!bpe->opts.byte_fallback)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (bpe->fallback_ids[(uint8_t)text[i]] < 0)
            return 0;
    return 1;
}

/* Returns the id of a symbol with its affixes, such as "##a" or "a</w>"; -1 if it has none. Every symbol but
 * a word's first has the prefix, and a word's last symbol has the suffix. */
static int32_t affixed_id(const clef__bpe *bpe, const char *text, size_t size, int first, int last)
{
    char symbol[2 * CLEF_BPE_AFFIX + 8];
    size_t n = first ? 0 : bpe->n_prefix;
    memcpy(symbol, bpe->prefix, n);
    if (bpe->opts.byte_level) {
        n += clef__utf8_write(clef__byte_char((uint8_t)*text), symbol + n);
    } else {
        memcpy(symbol + n, text, size);
        n += size;
    }
    memcpy(symbol + n, bpe->suffix, last ? bpe->n_suffix : 0);
    return clef__vocab_find(bpe->base.vocab, symbol, n + (last ? bpe->n_suffix : 0));
}

static int32_t char_id(const clef__bpe *bpe, const char *text, size_t size)
{
    return size == 1 ? bpe->byte_ids[(uint8_t)*text] : clef__vocab_find(bpe->base.vocab, text, size);
}

/* Fills the symbols of a part of a word as they are before any merge. Unknown characters become the tokens
 * of their bytes, or <unk> (with fuse_unk one for a whole run), or nothing. */
static size_t first_symbols(const clef__bpe *bpe, clef__bpe_symbol *symbols, const char *text, size_t n)
{
    size_t n_symbols = 0;
    clef__bpe_symbol unk = {0};
    for (size_t i = 0, size; i < n; i += size) {
        size = bpe->opts.byte_level ? 1 : clef__utf8_size(text[i]);
        const int32_t id = bpe->n_prefix || bpe->n_suffix
                               ? affixed_id(bpe, text + i, size, i == 0, i + size >= n)
                               : char_id(bpe, text + i, size);
        if (id < 0 && can_fall_back(bpe, text + i, size)) {
            for (size_t b = 0; b < size; b++)
                symbols[n_symbols++] = (clef__bpe_symbol){
                    .id = bpe->fallback_ids[(uint8_t)text[i + b]], .start = (uint32_t)(i + b), .n_bytes = 1};
            continue;
        }
        if (id < 0 && bpe->opts.unk < 0)
            continue;
        if (unk.n_bytes && (id >= 0 || !bpe->opts.fuse_unk)) {
            symbols[n_symbols++] = unk;
            unk.n_bytes = 0;
        }
        if (id >= 0)
            symbols[n_symbols++] =
                (clef__bpe_symbol){.id = id, .start = (uint32_t)i, .n_bytes = (uint32_t)size};
        else
            unk = (clef__bpe_symbol){
                .id = bpe->opts.unk, .start = (uint32_t)i, .n_bytes = unk.n_bytes + (uint32_t)size};
    }
    if (unk.n_bytes)
        symbols[n_symbols++] = unk;
    return n_symbols;
}

static clef_status encode_part_by_rank(const clef__bpe *bpe, clef__encoding *enc, const char *text, size_t n)
{
    clef_status st = make_room(enc, n);
    if (st)
        return st;
    const size_t n_symbols = first_symbols(bpe, enc->symbols, text, n);
    link_symbols(enc->symbols, n_symbols);
    merge_all(bpe, enc, text, n_symbols);
    for (int32_t i = n_symbols ? 0 : -1; i >= 0 && st == CLEF_OK; i = enc->symbols[i].next)
        st = clef__ids_push(&enc->ids, enc->symbols[i].id, enc->err);
    return st;
}

clef_status clef__bpe_encode_by_rank(const clef__token_model *model, clef__encoding *enc, const char *text,
                                     size_t n)
{
    const clef__bpe *bpe = (const clef__bpe *)model;
    const int32_t whole = bpe->opts.ignore_merges ? clef__vocab_map_get(&bpe->pieces, text, n) : -1;
    if (whole >= 0)
        return clef__ids_push(&enc->ids, whole, enc->err);
    clef_status st = CLEF_OK;
    for (size_t at = 0, end; at < n && st == CLEF_OK; at = end) {
        end = part_end(bpe, text, n, at, char_id);
        st = encode_part_by_rank(bpe, enc, text + at, end - at);
    }
    return st;
}

/* ---- by scores */

static int32_t piece_id(const clef__bpe *bpe, const char *text, size_t size)
{
    return clef__vocab_map_get(&bpe->pieces, text, size);
}

static clef_status encode_part_by_score(const clef__bpe *bpe, clef__encoding *enc, const char *text, size_t n)
{
    clef_status st = make_room(enc, n);
    if (st)
        return st;
    size_t n_symbols = 0;
    for (size_t i = 0, size; i < n; i += size) {
        size = bpe->opts.bytes ? 1 : clef__utf8_size(text[i]);
        enc->symbols[n_symbols++] = (clef__bpe_symbol){
            .id = piece_id(bpe, text + i, size), .start = (uint32_t)i, .n_bytes = (uint32_t)size};
    }
    link_symbols(enc->symbols, n_symbols);
    merge_all(bpe, enc, text, n_symbols);
    int unknown_before = 0;
    for (int32_t i = n_symbols ? 0 : -1; i >= 0 && st == CLEF_OK; i = enc->symbols[i].next) {
        const clef__bpe_symbol *symbol = &enc->symbols[i];
        const char *at = text + symbol->start;
        const int falls_back = symbol->id < 0 && can_fall_back(bpe, at, symbol->n_bytes);
        const int unknown = symbol->id < 0 && !falls_back;
        if (symbol->id >= 0)
            st = clef__ids_push(&enc->ids, symbol->id, enc->err);
        else if (falls_back)
            for (uint32_t b = 0; b < symbol->n_bytes && st == CLEF_OK; b++)
                st = clef__ids_push(&enc->ids, bpe->fallback_ids[(uint8_t)at[b]], enc->err);
        else if (bpe->opts.unk >= 0 && !(unknown_before && bpe->opts.fuse_unk))
            st = clef__ids_push(&enc->ids, bpe->opts.unk, enc->err);
        unknown_before = unknown;
    }
    return st;
}

clef_status clef__bpe_encode_by_score(const clef__token_model *model, clef__encoding *enc, const char *text,
                                      size_t n)
{
    const clef__bpe *bpe = (const clef__bpe *)model;
    const int32_t whole = bpe->opts.bytes ? piece_id(bpe, text, n) : -1;
    if (whole >= 0)
        return clef__ids_push(&enc->ids, whole, enc->err);
    clef_status st = CLEF_OK;
    for (size_t at = 0, end; at < n && st == CLEF_OK; at = end) {
        end = part_end(bpe, text, n, at, piece_id);
        st = encode_part_by_score(bpe, enc, text + at, end - at);
    }
    return st;
}

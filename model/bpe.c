/* Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909), by merge ranks as GPT-2 and Hugging Face do it and by scores as
 * SentencePiece does. One loop serves both: symbols in a linked list, the pairs that can merge in a heap, best first and then leftmost: n
 * log n. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer.h"
#include "model/utf8.h"
#include "model/word_cuts.h"

enum { MAX_AFFIX = 64, LONG_WORD = 256 };

struct clef_bpe_symbol {
    int32_t id;              /* -1: not in the vocabulary */
    int32_t prev, next;      /* -1: none */
    uint32_t start, n_bytes; /* 0 bytes: merged into its neighbour */
};

struct clef_bpe_merge {
    uint64_t order;   /* rank, then the left symbol: the least comes first */
    uint32_t n_bytes; /* of both symbols together when the pair was found: another sum now means that it is gone */
    int32_t id;       /* what they become */
};

typedef struct pair_slot {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* -1: free */
} pair_slot;

struct clef_bpe {
    clef_token_model base;
    clef_bpe_opts opts;
    /** Whether l and r (adjacent in text) merge, into what and how early. */
    int (*pair)(const clef_bpe *bpe, const char *text, const clef_bpe_symbol *l, const clef_bpe_symbol *r, uint32_t *rank, int32_t *id);
    pair_slot *pairs; /* by ranks */
    size_t n_slots, n_pairs;
    uint32_t next_rank;
    clef_vocab_map pieces; /* by scores: tokens that symbols may merge into; with ignore_merges: whole words */
    uint32_t *ranks;       /* by scores: rank of each token */
    int32_t byte_level;
    int32_t byte_ids[256];     /* byte-level symbols, else ASCII characters; -1: none */
    int32_t fallback_ids[256]; /* <0x00> .. <0xFF>; -1: none */
    char prefix[MAX_AFFIX], suffix[MAX_AFFIX];
    size_t n_prefix, n_suffix;
    const clef_tokenizer *tok;
    clef_word_cuts cuts;
    int merges_bytes; /* a merge has a fallback byte or <unk> in it: its token's text is not the text that it stands for */
};

/* ---- the heap */

static void heap_push(clef_bpe_merge *heap, size_t n, clef_bpe_merge item)
{
    size_t i = n;
    for (size_t up; i > 0 && heap[up = (i - 1) / 2].order > item.order; i = up)
        heap[i] = heap[up];
    heap[i] = item;
}

static clef_bpe_merge heap_pop(clef_bpe_merge *heap, size_t n)
{
    const clef_bpe_merge top = heap[0], item = heap[n - 1];
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

static size_t pair_hash(uint64_t key)
{
    key = (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
    return (size_t)(key >> 29);
}

static pair_slot *find_slot(const clef_bpe *bpe, uint64_t key)
{
    size_t i = pair_hash(key) & (bpe->n_slots - 1);
    while (bpe->pairs[i].id >= 0 && bpe->pairs[i].key != key)
        i = (i + 1) & (bpe->n_slots - 1);
    return &bpe->pairs[i];
}

static int pair_by_rank(const clef_bpe *bpe, const char *text, const clef_bpe_symbol *l, const clef_bpe_symbol *r, uint32_t *rank,
                        int32_t *id)
{
    (void)text;
    if (bpe->n_slots == 0)
        return 0;
    const pair_slot *slot = find_slot(bpe, (uint64_t)(uint32_t)l->id << 32 | (uint32_t)r->id);
    *rank = slot->rank;
    *id = slot->id;
    return slot->id >= 0;
}

static int pair_by_score(const clef_bpe *bpe, const char *text, const clef_bpe_symbol *l, const clef_bpe_symbol *r, uint32_t *rank,
                         int32_t *id)
{
    *id = clef__vocab_map_get(&bpe->pieces, text + l->start, (size_t)l->n_bytes + r->n_bytes);
    if (*id >= 0)
        *rank = bpe->ranks[*id];
    return *id >= 0;
}

/* ---- the loop */

static clef_status make_room(clef_encoding *enc, size_t n)
{
    /* n - 1 pairs at first, and each of at most n - 1 merges takes one out and puts at most two in */
    const size_t n_queue = 2 * n;
    if (n > (size_t)INT32_MAX / 2)
        return clef__fail(enc->err, CLEF_E_LIMIT, "a word of %zu symbols", n);
    if (n > enc->n_symbols) {
        clef_bpe_symbol *symbols = realloc(enc->symbols, (n + n / 2 + 64) * sizeof *symbols);
        if (!symbols)
            return clef__fail(enc->err, CLEF_E_NOMEM, "no memory for a word of %zu symbols", n);
        enc->symbols = symbols;
        enc->n_symbols = n + n / 2 + 64;
    }
    if (n_queue > enc->n_queue) {
        clef_bpe_merge *queue = realloc(enc->queue, (n_queue + n + 64) * sizeof *queue);
        if (!queue)
            return clef__fail(enc->err, CLEF_E_NOMEM, "no memory for a word of %zu symbols", n);
        enc->queue = queue;
        enc->n_queue = n_queue + n + 64;
    }
    return CLEF_OK;
}

static void push_pair(const clef_bpe *bpe, clef_encoding *enc, const char *text, int32_t left, size_t *n_queue)
{
    const clef_bpe_symbol *l = &enc->symbols[left];
    if (l->next < 0)
        return;
    const clef_bpe_symbol *r = &enc->symbols[l->next];
    uint32_t rank;
    int32_t id;
    if (bpe->pair(bpe, text, l, r, &rank, &id))
        heap_push(enc->queue, (*n_queue)++, (clef_bpe_merge){(uint64_t)rank << 32 | (uint32_t)left, l->n_bytes + r->n_bytes, id});
}

static void merge_all(const clef_bpe *bpe, clef_encoding *enc, const char *text, size_t n)
{
    clef_bpe_symbol *symbols = enc->symbols;
    size_t n_queue = 0;
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(bpe, enc, text, (int32_t)i, &n_queue);
    while (n_queue > 0) {
        const clef_bpe_merge top = heap_pop(enc->queue, n_queue--);
        const int32_t at = (int32_t)(top.order & UINT32_MAX);
        clef_bpe_symbol *l = &symbols[at];
        if (l->n_bytes == 0 || l->next < 0 || l->n_bytes + symbols[l->next].n_bytes != top.n_bytes)
            continue;
        clef_bpe_symbol *r = &symbols[l->next];
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

/* Where the part of a word that begins at `at` ends. Both characters at a cut are known, so that neither a run of unknown ones nor what
 * vanishes lies there. */
static size_t part_end(const clef_bpe *bpe, const char *text, size_t n, size_t at, int32_t (*id_of)(const clef_bpe *, const char *, size_t))
{
    size_t size = clef__utf8_size(text[at]);
    if (!bpe->cuts.bits || n - at < LONG_WORD)
        return n;
    for (size_t before = at; (before += size) < n;) {
        const size_t n_before = size;
        size = clef__utf8_size(text[before]);
        if (clef__word_cuts_at(&bpe->cuts, text, n, before) && id_of(bpe, text + before - n_before, n_before) >= 0 &&
            id_of(bpe, text + before, size) >= 0)
            return before;
    }
    return n;
}

static void link_symbols(clef_bpe_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        symbols[i].prev = (int32_t)i - 1;
        symbols[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    }
}

/* ---- by ranks */

/* Every byte of an unknown character has a token. */
static int can_fall_back(const clef_bpe *bpe, const char *text, size_t n)
{
    if (!bpe->opts.byte_fallback)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (bpe->fallback_ids[(uint8_t)text[i]] < 0)
            return 0;
    return 1;
}

/* With a prefix for all but a word's first symbol or a suffix for its last: "##a", "a</w>". */
static int32_t affixed_id(const clef_bpe *bpe, const char *text, size_t size, int first, int last)
{
    char symbol[2 * MAX_AFFIX + 8];
    size_t n = first ? 0 : bpe->n_prefix;
    memcpy(symbol, bpe->prefix, n);
    if (bpe->byte_level) {
        n += clef__utf8_write(clef__byte_char((uint8_t)*text), symbol + n);
    } else {
        memcpy(symbol + n, text, size);
        n += size;
    }
    memcpy(symbol + n, bpe->suffix, last ? bpe->n_suffix : 0);
    return clef__tokens_find(bpe->tok, symbol, n + (last ? bpe->n_suffix : 0));
}

static int32_t char_id(const clef_bpe *bpe, const char *text, size_t size)
{
    return size == 1 ? bpe->byte_ids[(uint8_t)*text] : clef__tokens_find(bpe->tok, text, size);
}

/* Unknown characters become their bytes' tokens, or <unk> (a run of them one, with fuse_unk), or nothing. */
static size_t first_symbols(const clef_bpe *bpe, clef_bpe_symbol *symbols, const char *text, size_t n)
{
    size_t n_symbols = 0;
    clef_bpe_symbol unk = {0};
    for (size_t i = 0, size; i < n; i += size) {
        size = bpe->byte_level ? 1 : clef__utf8_size(text[i]);
        const int32_t id =
            bpe->n_prefix || bpe->n_suffix ? affixed_id(bpe, text + i, size, i == 0, i + size >= n) : char_id(bpe, text + i, size);
        if (id < 0 && can_fall_back(bpe, text + i, size)) {
            for (size_t b = 0; b < size; b++)
                symbols[n_symbols++] =
                    (clef_bpe_symbol){.id = bpe->fallback_ids[(uint8_t)text[i + b]], .start = (uint32_t)(i + b), .n_bytes = 1};
            continue;
        }
        if (id < 0 && bpe->opts.unk < 0)
            continue;
        if (unk.n_bytes && (id >= 0 || !bpe->opts.fuse_unk)) {
            symbols[n_symbols++] = unk;
            unk.n_bytes = 0;
        }
        if (id >= 0)
            symbols[n_symbols++] = (clef_bpe_symbol){.id = id, .start = (uint32_t)i, .n_bytes = (uint32_t)size};
        else
            unk = (clef_bpe_symbol){.id = bpe->opts.unk, .start = (uint32_t)i, .n_bytes = unk.n_bytes + (uint32_t)size};
    }
    if (unk.n_bytes)
        symbols[n_symbols++] = unk;
    return n_symbols;
}

static clef_status encode_part_by_rank(const clef_bpe *bpe, clef_encoding *enc, const char *text, size_t n)
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

static clef_status encode_by_rank(const clef_token_model *model, clef_encoding *enc, const char *text, size_t n)
{
    const clef_bpe *bpe = (const clef_bpe *)model;
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

static int32_t piece_id(const clef_bpe *bpe, const char *text, size_t size)
{
    return clef__vocab_map_get(&bpe->pieces, text, size);
}

static clef_status encode_part_by_score(const clef_bpe *bpe, clef_encoding *enc, const char *text, size_t n)
{
    clef_status st = make_room(enc, n);
    if (st)
        return st;
    size_t n_symbols = 0;
    for (size_t i = 0, size; i < n; i += size) {
        size = bpe->opts.bytes ? 1 : clef__utf8_size(text[i]);
        enc->symbols[n_symbols++] = (clef_bpe_symbol){.id = piece_id(bpe, text + i, size), .start = (uint32_t)i, .n_bytes = (uint32_t)size};
    }
    link_symbols(enc->symbols, n_symbols);
    merge_all(bpe, enc, text, n_symbols);
    int unknown_before = 0;
    for (int32_t i = n_symbols ? 0 : -1; i >= 0 && st == CLEF_OK; i = enc->symbols[i].next) {
        const clef_bpe_symbol *symbol = &enc->symbols[i];
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

static clef_status encode_by_score(const clef_token_model *model, clef_encoding *enc, const char *text, size_t n)
{
    const clef_bpe *bpe = (const clef_bpe *)model;
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

/* ---- building */

static void destroy(clef_token_model *model)
{
    clef_bpe *bpe = (clef_bpe *)model;
    clef__vocab_map_finish(&bpe->pieces);
    clef__word_cuts_finish(&bpe->cuts);
    free(bpe->pairs);
    free(bpe->ranks);
    free(bpe);
}

static clef_status make_slots(clef_bpe *bpe, size_t n_merges, clef_error *err)
{
    if (n_merges > (size_t)INT32_MAX / 4)
        return clef__fail(err, CLEF_E_LIMIT, "BPE: %zu merges", n_merges);
    bpe->n_slots = 64;
    while (bpe->n_slots < n_merges * 2)
        bpe->n_slots *= 2;
    bpe->pairs = malloc(bpe->n_slots * sizeof *bpe->pairs);
    if (!bpe->pairs)
        return clef__fail(err, CLEF_E_NOMEM, "BPE: no memory for %zu merges", n_merges);
    for (size_t i = 0; i < bpe->n_slots; i++)
        bpe->pairs[i].id = -1;
    return CLEF_OK;
}

static clef_bpe *new_bpe(clef_tokenizer *tok, const clef_bpe_opts *opts)
{
    clef_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return NULL;
    bpe->base.destroy = destroy;
    bpe->opts = *opts;
    bpe->opts.prefix = bpe->opts.suffix = NULL;
    bpe->tok = tok;
    bpe->byte_level = tok->byte_level;
    for (int i = 0; i < 256; i++)
        bpe->byte_ids[i] = bpe->fallback_ids[i] = -1;
    tok->model = &bpe->base;
    return bpe;
}

clef_status clef__bpe_create(clef_tokenizer *tok, const clef_bpe_opts *opts, size_t n_merges, clef_bpe **out, clef_error *err)
{
    clef_bpe *bpe = new_bpe(tok, opts);
    if (!bpe)
        return clef__fail(err, CLEF_E_NOMEM, "BPE: no memory");
    bpe->base.encode = encode_by_rank;
    bpe->pair = pair_by_rank;
    *out = bpe;
    bpe->n_prefix = opts->prefix ? strlen(opts->prefix) : 0;
    bpe->n_suffix = opts->suffix ? strlen(opts->suffix) : 0;
    if (bpe->n_prefix > MAX_AFFIX || bpe->n_suffix > MAX_AFFIX)
        return clef__fail(err, CLEF_E_LIMIT, "BPE: a prefix or suffix of more than %d bytes", MAX_AFFIX);
    if (bpe->n_prefix)
        memcpy(bpe->prefix, opts->prefix, bpe->n_prefix);
    if (bpe->n_suffix)
        memcpy(bpe->suffix, opts->suffix, bpe->n_suffix);
    return make_slots(bpe, n_merges, err);
}

static clef_status not_there(const clef_bpe *bpe, const char *what, const char *text, size_t n, clef_error *err)
{
    char quote[64];
    return clef__fail(err, CLEF_E_FORMAT, "BPE: merge %u: %s \"%s\" is not in the vocabulary", bpe->next_rank, what,
                      clef__token_quote(text, n, quote));
}

clef_status clef__bpe_merge(clef_bpe *bpe, const clef_tokenizer *tok, const char *left, size_t n_left, const char *right, size_t n_right,
                            clef_error *err)
{
    char joined[CLEF_MAX_PIECE * 4];
    const int32_t l = clef__tokens_find(tok, left, n_left), r = clef__tokens_find(tok, right, n_right);
    if (l < 0)
        return not_there(bpe, "left part", left, n_left, err);
    if (r < 0)
        return not_there(bpe, "right part", right, n_right, err);
    const size_t skip = n_right >= bpe->n_prefix ? bpe->n_prefix : 0; /* "a" and "##b" are "ab" */
    if (n_left + n_right > sizeof joined)
        return not_there(bpe, "the long result of", left, n_left, err);
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right + skip, n_right - skip);
    const int32_t id = clef__tokens_find(tok, joined, n_left + n_right - skip);
    if (id < 0)
        return not_there(bpe, "result", joined, n_left + n_right - skip, err);
    bpe->merges_bytes |=
        l == bpe->opts.unk || r == bpe->opts.unk || clef__fallback_byte(left, n_left) >= 0 || clef__fallback_byte(right, n_right) >= 0;
    pair_slot *slot = find_slot(bpe, (uint64_t)(uint32_t)l << 32 | (uint32_t)r);
    if (slot->id < 0 && ++bpe->n_pairs >= bpe->n_slots)
        return clef__fail(err, CLEF_E_LIMIT, "BPE: more merges than announced");
    *slot = (pair_slot){.key = (uint64_t)(uint32_t)l << 32 | (uint32_t)r, .rank = bpe->next_rank++, .id = id};
    return CLEF_OK;
}

clef_status clef__bpe_merge_line(clef_bpe *bpe, const clef_tokenizer *tok, const char *line, size_t n, clef_error *err)
{
    const char *space = memchr(line, ' ', n);
    const size_t n_left = space ? (size_t)(space - line) : n;
    if (!space || memchr(space + 1, ' ', n - n_left - 1)) {
        char quote[64];
        return clef__fail(err, CLEF_E_FORMAT, "BPE: merge %u \"%s\" is not two tokens with one space between", bpe->next_rank,
                          clef__token_quote(line, n, quote));
    }
    return clef__bpe_merge(bpe, tok, line, n_left, space + 1, n - n_left - 1, err);
}

/* Symbols of one byte, and the tokens that stand for single bytes. */
static void seal_bytes(clef_bpe *bpe, const clef_tokenizer *tok)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int i = 0; i < 256; i++) {
        char text[8] = {(char)i};
        const size_t n = bpe->byte_level ? clef__utf8_write(clef__byte_char((uint8_t)i), text) : 1;
        if (bpe->byte_level || i < 0x80)
            bpe->byte_ids[i] = clef__tokens_find(tok, text, n);
        const char fallback[6] = {'<', '0', 'x', digits[i / 16], digits[i % 16], '>'};
        bpe->fallback_ids[i] = clef__tokens_find(tok, fallback, sizeof fallback);
    }
}

static clef_status learn_cuts(clef_bpe *bpe, const clef_tokenizer *tok, clef_error *err)
{
    const clef_status st = clef__word_cuts_start(&bpe->cuts, err);
    for (int32_t id = 0; id < tok->n_tokens && st == CLEF_OK; id++)
        if (tok->tokens[id].flags & CLEF_TOKEN_PRESENT)
            clef__word_cuts_learn(&bpe->cuts, tok->tokens[id].text, tok->tokens[id].n_text);
    return st;
}

clef_status clef__bpe_seal(clef_bpe *bpe, const clef_tokenizer *tok, clef_error *err)
{
    clef_status st = CLEF_OK;
    seal_bytes(bpe, tok);
    if (!bpe->byte_level && !bpe->opts.bytes && !bpe->n_prefix && !bpe->n_suffix && !bpe->merges_bytes)
        st = learn_cuts(bpe, tok, err);
    if (st || !bpe->opts.ignore_merges)
        return st;
    for (int32_t id = 0; id < tok->n_tokens && st == CLEF_OK; id++) {
        const clef_token *token = &tok->tokens[id];
        if (!(token->flags & CLEF_TOKEN_PRESENT) || (token->flags & CLEF_TOKEN_OUTSIDE_MODEL))
            continue;
        if (bpe->byte_level) /* words reach the model as bytes */
            st = clef__vocab_map_put(&bpe->pieces, token->piece, token->n_piece, id, err);
        else
            st = clef__vocab_map_put(&bpe->pieces, token->text, token->n_text, id, err);
    }
    return st;
}

clef_status clef__bpe_create_scored(clef_tokenizer *tok, const clef_bpe_opts *opts, clef_bpe **out, clef_error *err)
{
    clef_bpe *bpe = new_bpe(tok, opts);
    if (!bpe)
        return clef__fail(err, CLEF_E_NOMEM, "BPE: no memory");
    bpe->base.encode = encode_by_score;
    bpe->pair = pair_by_score;
    *out = bpe;
    bpe->ranks = calloc((size_t)tok->n_tokens, sizeof *bpe->ranks);
    return bpe->ranks ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "BPE: no memory for %d scores", tok->n_tokens);
}

clef_status clef__bpe_score(clef_bpe *bpe, const clef_tokenizer *tok, int32_t id, double score, clef_error *err)
{
    const float narrow = (float)score + 0.0f; /* -0 and 0 are one score */
    uint32_t bits;
    if (!isfinite(score))
        return clef__fail(err, CLEF_E_FORMAT, "BPE: the score of token %d is no finite number", id);
    memcpy(&bits, &narrow, sizeof bits);
    /* the bits of a float in ascending order of its value, then inverted: the best score is the least rank */
    bpe->ranks[id] = ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
    const clef_token *token = &tok->tokens[id];
    if (clef__vocab_map_get(&bpe->pieces, token->text, token->n_text) >= 0)
        return CLEF_OK;
    return clef__vocab_map_put(&bpe->pieces, token->text, token->n_text, id, err);
}

int clef__is_bpe(const clef_token_model *model)
{
    return model->destroy == destroy;
}

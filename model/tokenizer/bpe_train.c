/* Learns the merges of a byte-pair encoding. Pairs wait in a heap with the words in which they were counted.
 * A count that has changed since is corrected when the pair comes to the top. */
#include "model/tokenizer/bpe_train.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

/* A pair as one number: ordered by the left symbol, then by the right one. */
typedef uint64_t pair;

static pair pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* ---- counts of pairs: a hash table ---------------------------------------------------------------- */

typedef struct pair_count {
    pair key;
    int64_t count;
    int32_t used;
} pair_count;

typedef struct count_table {
    pair_count *slots;
    size_t n, capacity; /* a power of two */
} count_table;

static pair_count *find_slot(const count_table *t, pair key)
{
    size_t i = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (t->capacity - 1);
    while (t->slots[i].used && t->slots[i].key != key)
        i = (i + 1) & (t->capacity - 1);
    return &t->slots[i];
}

static int grow_table(count_table *t)
{
    const count_table old = *t;
    const size_t capacity = old.capacity ? 2 * old.capacity : 1 << 12;
    pair_count *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return 0;
    *t = (count_table){slots, old.n, capacity};
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i].used)
            *find_slot(t, old.slots[i].key) = old.slots[i];
    free(old.slots);
    return 1;
}

static int add_count(count_table *t, pair key, int64_t by)
{
    if (2 * (t->n + 1) > t->capacity && !grow_table(t))
        return 0;
    pair_count *slot = find_slot(t, key);
    if (!slot->used) {
        *slot = (pair_count){.key = key, .used = 1};
        t->n++;
    }
    slot->count += by;
    return 1;
}

/* ---- pairs and the words that have them --------------------------------------------------------- */

typedef struct place {
    pair key;
    size_t word;
} place;

typedef struct place_list {
    place *items;
    size_t n, capacity;
} place_list;

static int add_place(place_list *list, pair key, size_t word)
{
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 1024;
        place *bigger = realloc(list->items, capacity * sizeof *bigger);
        if (!bigger)
            return 0;
        list->items = bigger;
        list->capacity = capacity;
    }
    list->items[list->n++] = (place){key, word};
    return 1;
}

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->key != y->key     ? (x->key > y->key ? 1 : -1)
           : x->word != y->word ? (x->word > y->word ? 1 : -1)
                                : 0;
}

/* ---- the heap ----------------------------------------------------------------------------------- */

typedef struct candidate {
    int64_t count;
    pair key;
    size_t *words; /* owned */
    size_t n_words;
} candidate;

typedef struct heap {
    candidate *items;
    size_t n, capacity;
} heap;

static int is_before(const candidate *a, const candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static int push(heap *h, candidate c)
{
    if (h->n == h->capacity) {
        const size_t capacity = h->capacity ? 2 * h->capacity : 1024;
        candidate *bigger = realloc(h->items, capacity * sizeof *bigger);
        if (!bigger)
            return 0;
        h->items = bigger;
        h->capacity = capacity;
    }
    size_t i = h->n++;
    for (; i && is_before(&c, &h->items[(i - 1) / 2]); i = (i - 1) / 2)
        h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = c;
    return 1;
}

static candidate pop(heap *h)
{
    const candidate top = h->items[0], last = h->items[--h->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && is_before(&h->items[child + 1], &h->items[child]))
            child++;
        if (!is_before(&h->items[child], &last))
            break;
        h->items[i] = h->items[child];
        i = child;
    }
    if (h->n)
        h->items[i] = last;
    return top;
}

/* ---- learning ----------------------------------------------------------------------------------- */

typedef struct learning {
    clef__bpe_words *words;
    size_t *lengths; /* symbols that each word has left */
    count_table counts;
    place_list places; /* pairs that were found since the heap was filled */
    heap heap;
    clef__learned_merge *merges;
    size_t n_merges, room;
} learning;

/* Puts the pairs of the list into the heap. */
static int push_places(learning *l)
{
    place_list *p = &l->places;
    if (p->n)
        qsort(p->items, p->n, sizeof *p->items, compare_places);
    for (size_t i = 0, end; i < p->n; i = end) {
        const int64_t count = find_slot(&l->counts, p->items[i].key)->count;
        candidate c = {.count = count, .key = p->items[i].key};
        for (end = i; end < p->n && p->items[end].key == c.key; end++)
            ;
        if (count <= 0)
            continue;
        c.words = malloc((end - i) * sizeof *c.words);
        if (!c.words)
            return 0;
        for (size_t k = i; k < end; k++)
            if (k == i || p->items[k].word != p->items[k - 1].word)
                c.words[c.n_words++] = p->items[k].word;
        if (!push(&l->heap, c)) {
            free(c.words);
            return 0;
        }
    }
    p->n = 0;
    return 1;
}

static int count_all(learning *l)
{
    const clef__bpe_words *w = l->words;
    for (size_t i = 0; i < w->n_words; i++) {
        const int32_t *s = w->symbols + w->first[i];
        l->lengths[i] = w->first[i + 1] - w->first[i];
        for (size_t k = 0; k + 1 < l->lengths[i]; k++)
            if (!add_count(&l->counts, pair_of(s[k], s[k + 1]), w->counts[i]) ||
                !add_place(&l->places, pair_of(s[k], s[k + 1]), i))
                return 0;
    }
    if (!l->counts.capacity && !grow_table(&l->counts))
        return 0;
    return push_places(l);
}

/* Counts pairs that a merge in a word makes (+1) and unmakes (-1). */
static int change(learning *l, size_t word, int32_t left, int32_t right, int by)
{
    const pair key = pair_of(left, right);
    return add_count(&l->counts, key, by * l->words->counts[word]) &&
           (by < 0 || add_place(&l->places, key, word));
}

static int merge_word(learning *l, size_t word, int32_t left, int32_t right, int32_t result)
{
    int32_t *s = l->words->symbols + l->words->first[word];
    const size_t n = l->lengths[word];
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n || s[i] != left || s[i + 1] != right) {
            s[kept++] = s[i];
            continue;
        }
        if (kept && !(change(l, word, s[kept - 1], left, -1) && change(l, word, s[kept - 1], result, 1)))
            return 0;
        s[kept++] = result;
        i++;
        if (i + 1 < n && !(change(l, word, right, s[i + 1], -1) && change(l, word, result, s[i + 1], 1)))
            return 0;
    }
    l->lengths[word] = kept;
    return 1;
}

static int merge_pair(learning *l, const candidate *c, int32_t result)
{
    for (size_t i = 0; i < c->n_words; i++)
        if (!merge_word(l, c->words[i], (int32_t)(c->key >> 32), (int32_t)(uint32_t)c->key, result))
            return 0;
    return push_places(l);
}

/* Takes the most frequent pair off the heap. Returns 0 if none is frequent enough. */
static int take_top(learning *l, int64_t min_frequency, candidate *out)
{
    while (l->heap.n) {
        candidate c = pop(&l->heap);
        const int64_t now = find_slot(&l->counts, c.key)->count;
        if (c.count != now) {
            c.count = now;
            push(&l->heap, c); /* there is room for what was just taken */
            continue;
        }
        if (c.count < 1 || c.count < min_frequency) {
            free(c.words);
            return 0;
        }
        *out = c;
        return 1;
    }
    return 0;
}

static int add_merge(learning *l, clef__learned_merge merge)
{
    if (l->n_merges == l->room) {
        const size_t room = l->room ? 2 * l->room : 1024;
        clef__learned_merge *bigger = realloc(l->merges, room * sizeof *bigger);
        if (!bigger)
            return 0;
        l->merges = bigger;
        l->room = room;
    }
    l->merges[l->n_merges++] = merge;
    return 1;
}

/* Merges a pair in all its words, and lists the merge. Returns the symbol, or as opts->join() does. */
static int32_t merge_next(learning *l, const candidate *c, int32_t n_symbols, const clef__bpe_learn_opts *o)
{
    const int32_t left = (int32_t)(c->key >> 32), right = (int32_t)(uint32_t)c->key,
                  result = o->join(o->user, left, right, n_symbols);
    return result < 0 ||
                   (add_merge(l, (clef__learned_merge){left, right, result}) && merge_pair(l, c, result))
               ? result
               : CLEF_BPE_NO_MEMORY;
}

static clef_status learn(learning *l, int32_t n_symbols, const clef__bpe_learn_opts *o, clef_error *err)
{
    int ok = l->lengths && count_all(l);
    candidate c;
    while (ok && n_symbols < o->n_vocab && take_top(l, o->min_frequency, &c)) {
        const int32_t result = merge_next(l, &c, n_symbols, o);
        free(c.words);
        n_symbols += result == n_symbols;
        ok = result != CLEF_BPE_NO_MEMORY;
        if (o->progress && o->progress(o->progress_user, "merges", (uint64_t)n_symbols, (uint64_t)o->n_vocab))
            return clef__fail(err, CLEF_E_CANCELLED, "training a tokenizer: cancelled");
    }
    return ok ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "training a tokenizer: out of memory");
}

clef_status clef__bpe_learn(clef__bpe_words *words, int32_t n_symbols, const clef__bpe_learn_opts *o,
                            clef__learned_merge **out, size_t *n, clef_error *err)
{
    learning l = {.words = words, .lengths = calloc(words->n_words + 1, sizeof *l.lengths)};
    const clef_status s = learn(&l, n_symbols, o, err);
    for (size_t i = 0; i < l.heap.n; i++)
        free(l.heap.items[i].words);
    free(l.heap.items);
    free(l.counts.slots);
    free(l.places.items);
    free(l.lengths);
    if (s)
        free(l.merges);
    *out = s ? NULL : l.merges;
    *n = s ? 0 : l.n_merges;
    return s;
}

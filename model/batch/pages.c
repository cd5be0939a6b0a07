#include "model/batch/pages.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "graph/hash.h"

enum { NONE = -1 };

/* Numbers in a list that is linked both ways. Entry n is the list's head: its next is the first. */
typedef struct ring {
    int32_t *next, *before;
    int32_t n;
} ring;

typedef struct block {
    int32_t tokens[KV_BLOCK];
    int32_t n_tokens;     /* noted */
    int32_t n_chains;     /* chains that have the block */
    int32_t root, parent; /* parent NONE: the first of its tree */
    int32_t first_child, next_sibling, before_sibling;
    int32_t same_hash; /* the next block of the bucket */
    int32_t is_hashed;
    int32_t sliding;   /* page of sliding layers, or NONE */
    int32_t n_sliding; /* chains that hold that page */
} block;

/* A tree of blocks; free if it has neither blocks nor a chain. */
typedef struct root {
    clef__pages_key key;
    int32_t first_child, n_chains;
    int32_t next; /* of those with the same hash, or of the free ones */
} root;

/* What a mark stands for: the tokens of a block's chain up to `position`; block NONE: nothing. */
typedef struct mark {
    int32_t block, position;
    uint64_t used;
} mark;

struct clef__pages {
    clef__pages_opts opts;
    block *blocks;
    root *roots;
    int32_t *root_buckets, free_root; /* by their keys */
    int32_t *buckets;
    uint32_t n_buckets;
    mark *marks;
    ring unused;         /* blocks in no chain: free ones first, then those used least recently */
    ring unused_sliding; /* pages of sliding layers likewise */
    int32_t *owner;      /* [n_sliding]: the block that has this page, or NONE */
    int32_t n_in_chains, n_kept, n_sliding_in_chains, n_sliding_kept;
    int32_t *path; /* [n_blocks], for walks */
    uint64_t clock;
};

/* ---- rings ----------------------------------------------------------------------------------- */

static int ring_init(ring *r, int32_t n)
{
    r->n = n;
    r->next = malloc(((size_t)n + 1) * sizeof *r->next);
    r->before = malloc(((size_t)n + 1) * sizeof *r->before);
    return r->next && r->before;
}

/* All numbers, in rising order. */
static void ring_fill(ring *r)
{
    for (int32_t i = 0; i <= r->n; i++) {
        r->next[i] = i == r->n ? 0 : i + 1;
        r->before[i] = i == 0 ? r->n : i - 1;
    }
}

static void ring_remove(ring *r, int32_t i)
{
    r->next[r->before[i]] = r->next[i];
    r->before[r->next[i]] = r->before[i];
}

/* Inserts i before `at`: at the end if `at` is the head, n. */
static void ring_insert(ring *r, int32_t i, int32_t at)
{
    r->next[i] = at;
    r->before[i] = r->before[at];
    r->next[r->before[at]] = i;
    r->before[at] = i;
}

static int32_t ring_first(const ring *r)
{
    return r->next[r->n] == r->n ? NONE : r->next[r->n];
}

/* ---- making ---------------------------------------------------------------------------------- */

static uint32_t bucket_count(const clef__pages_opts *o)
{
    uint32_t n = 16;
    if (o->hash_bits > 0)
        return 1u << (o->hash_bits < 30 ? o->hash_bits : 30);
    while (n < (uint32_t)o->n_blocks * 2)
        n *= 2;
    return n;
}

static void clear_block(block *b)
{
    *b = (block){.root = NONE,
                 .parent = NONE,
                 .first_child = NONE,
                 .next_sibling = NONE,
                 .before_sibling = NONE,
                 .same_hash = NONE,
                 .sliding = NONE};
}

static int32_t n_sliding(const clef__pages_opts *o)
{
    return o->window > 0 ? o->n_sliding : 0;
}

void clef__pages_forget(clef__pages *p)
{
    const clef__pages_opts *o = &p->opts;
    for (int32_t i = 0; i < o->n_blocks; i++)
        clear_block(&p->blocks[i]);
    p->free_root = NONE;
    for (int32_t i = o->n_blocks + o->n_chains; i-- > 0;) {
        p->roots[i] = (root){.first_child = NONE, .next = p->free_root};
        p->free_root = i;
    }
    for (int32_t i = 0; i < n_sliding(o); i++)
        p->owner[i] = NONE;
    for (uint32_t i = 0; i < p->n_buckets; i++)
        p->buckets[i] = p->root_buckets[i] = NONE;
    for (int32_t i = 0; i < o->n_marks; i++)
        p->marks[i] = (mark){.block = NONE};
    ring_fill(&p->unused);
    ring_fill(&p->unused_sliding);
    p->n_in_chains = p->n_kept = p->n_sliding_in_chains = p->n_sliding_kept = 0;
}

clef_status clef__pages_create(const clef__pages_opts *opts, clef__pages **out, clef_error *err)
{
    const size_t n = (size_t)opts->n_blocks;
    clef__pages *p = *out = calloc(1, sizeof *p);
    if (p) {
        p->opts = *opts;
        p->n_buckets = bucket_count(opts);
        p->blocks = malloc((n + 1) * sizeof *p->blocks);
        p->roots = malloc((n + (size_t)opts->n_chains + 1) * sizeof *p->roots);
        p->path = malloc((n + 1) * sizeof *p->path);
        p->buckets = malloc(p->n_buckets * sizeof *p->buckets);
        p->root_buckets = malloc(p->n_buckets * sizeof *p->root_buckets);
        p->marks = malloc(((size_t)opts->n_marks + 1) * sizeof *p->marks);
        p->owner = malloc(((size_t)n_sliding(opts) + 1) * sizeof *p->owner);
    }
    if (!p || !p->blocks || !p->roots || !p->path || !p->buckets || !p->root_buckets || !p->marks ||
        !p->owner || !ring_init(&p->unused, opts->n_blocks) ||
        !ring_init(&p->unused_sliding, n_sliding(opts))) {
        clef__pages_destroy(p);
        *out = NULL;
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the bookkeeping of %zu pages", n);
    }
    clef__pages_forget(p);
    return CLEF_OK;
}

void clef__pages_destroy(clef__pages *p)
{
    if (!p)
        return;
    free(p->blocks);
    free(p->roots);
    free(p->path);
    free(p->buckets);
    free(p->root_buckets);
    free(p->marks);
    free(p->owner);
    free(p->unused.next);
    free(p->unused.before);
    free(p->unused_sliding.next);
    free(p->unused_sliding.before);
    free(p);
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* The first root of a key's bucket. */
static int32_t *root_bucket(const clef__pages *p, clef__pages_key key)
{
    uint64_t h = clef__hash(CLEF__HASH_START, &key.adapter, sizeof key.adapter);
    h = clef__hash(h, &key.salt, sizeof key.salt);
    return &p->root_buckets[(uint32_t)(h >> 32 ^ h) & (p->n_buckets - 1)];
}

static int32_t find_root(const clef__pages *p, clef__pages_key key)
{
    int32_t i = *root_bucket(p, key);
    while (i != NONE && (p->roots[i].key.adapter != key.adapter || p->roots[i].key.salt != key.salt))
        i = p->roots[i].next;
    return i;
}

/* A tree that is in use has a block or a chain, so there is a free one. */
static int32_t make_root(clef__pages *p, clef__pages_key key)
{
    const int32_t found = find_root(p, key), i = p->free_root;
    if (found != NONE || i == NONE)
        return found;
    int32_t *bucket = root_bucket(p, key);
    p->free_root = p->roots[i].next;
    p->roots[i].key = key;
    p->roots[i].next = *bucket;
    return *bucket = i;
}

/* Frees a root that has neither blocks nor a chain any more. */
static void leave_root(clef__pages *p, int32_t i)
{
    root *r = &p->roots[i];
    if (r->n_chains || r->first_child != NONE)
        return;
    int32_t *link = root_bucket(p, r->key);
    while (*link != i)
        link = &p->roots[*link].next;
    *link = r->next;
    r->next = p->free_root;
    p->free_root = i;
}

static int32_t *children_of(clef__pages *p, int32_t tree, int32_t parent)
{
    return parent == NONE ? &p->roots[tree].first_child : &p->blocks[parent].first_child;
}

static void add_child(clef__pages *p, int32_t tree, int32_t parent, int32_t i)
{
    block *b = &p->blocks[i];
    int32_t *first = children_of(p, tree, parent);
    b->root = tree;
    b->parent = parent;
    b->next_sibling = *first;
    b->before_sibling = NONE;
    if (*first != NONE)
        p->blocks[*first].before_sibling = i;
    *first = i;
}

static void remove_child(clef__pages *p, int32_t i)
{
    const block *b = &p->blocks[i];
    const int32_t tree = b->root;
    if (b->before_sibling != NONE)
        p->blocks[b->before_sibling].next_sibling = b->next_sibling;
    else
        *children_of(p, b->root, b->parent) = b->next_sibling;
    if (b->next_sibling != NONE)
        p->blocks[b->next_sibling].before_sibling = b->before_sibling;
    leave_root(p, tree);
}

/* Of the place in the trees and the tokens. */
static uint32_t bucket_of(const clef__pages *p, int32_t tree, int32_t parent, const int32_t *tokens)
{
    const int32_t place[2] = {tree, parent};
    const uint64_t h =
        clef__hash(clef__hash(CLEF__HASH_START, place, sizeof place), tokens, KV_BLOCK * sizeof *tokens);
    return (uint32_t)(h >> 32 ^ h) & (p->n_buckets - 1);
}

static void hash_block(clef__pages *p, int32_t i)
{
    block *b = &p->blocks[i];
    int32_t *bucket = &p->buckets[bucket_of(p, b->root, b->parent, b->tokens)];
    b->same_hash = *bucket;
    b->is_hashed = 1;
    *bucket = i;
}

static void unhash_block(clef__pages *p, int32_t i)
{
    block *b = &p->blocks[i];
    if (!b->is_hashed)
        return;
    int32_t *link = &p->buckets[bucket_of(p, b->root, b->parent, b->tokens)];
    while (*link != i)
        link = &p->blocks[*link].same_hash;
    *link = b->same_hash;
    b->is_hashed = 0;
}

/* The full block after `parent` with these tokens. The hash only finds candidates. */
static int32_t find_full(const clef__pages *p, int32_t tree, int32_t parent, const int32_t *tokens)
{
    int32_t i = p->buckets[bucket_of(p, tree, parent, tokens)];
    while (i != NONE && (p->blocks[i].root != tree || p->blocks[i].parent != parent ||
                         memcmp(p->blocks[i].tokens, tokens, sizeof p->blocks[i].tokens) != 0))
        i = p->blocks[i].same_hash;
    return i;
}

static int32_t common_prefix(const block *b, const int32_t *tokens, int32_t limit)
{
    int32_t n = 0;
    while (n < limit && n < b->n_tokens && b->tokens[n] == tokens[n])
        n++;
    return n;
}

/* The block after `parent` with the longest common prefix, whose length is *n. Sliding layers always see the
 * last block of a prefix. */
static int32_t find_part(const clef__pages *p, int32_t tree, int32_t parent, const int32_t *tokens,
                         int32_t limit, int32_t *n)
{
    int32_t i = parent == NONE ? p->roots[tree].first_child : p->blocks[parent].first_child, best = NONE;
    *n = 0;
    for (; i != NONE && *n < limit; i = p->blocks[i].next_sibling) {
        const int32_t equal = common_prefix(&p->blocks[i], tokens, limit);
        const int is_whole = p->opts.window <= 0 || p->blocks[i].sliding != NONE;
        if (equal > *n && is_whole) {
            *n = equal;
            best = i;
        }
    }
    return best;
}

/* ---- giving blocks away ---------------------------------------------------------------------- */

static void drop_sliding(clef__pages *p, block *b)
{
    if (b->sliding == NONE)
        return;
    p->owner[b->sliding] = NONE;
    ring_remove(&p->unused_sliding, b->sliding);
    ring_insert(&p->unused_sliding, b->sliding,
                ring_first(&p->unused_sliding) == NONE ? p->unused_sliding.n
                                                       : ring_first(&p->unused_sliding));
    p->n_sliding_kept--;
    b->sliding = NONE;
}

/* Forgets a block in no chain and without children; it stays in `unused`, in front. */
static void free_block(clef__pages *p, int32_t i)
{
    block *b = &p->blocks[i];
    for (int32_t m = 0; m < p->opts.n_marks; m++)
        if (p->marks[m].block == i)
            p->marks[m].block = NONE;
    unhash_block(p, i);
    remove_child(p, i);
    drop_sliding(p, b);
    clear_block(b);
    p->n_kept--;
    ring_remove(&p->unused, i);
    ring_insert(&p->unused, i, ring_first(&p->unused) == NONE ? p->unused.n : ring_first(&p->unused));
}

/* A free block, now in a chain. A block's children are always behind it in `unused` or in front of it, never
 * in a chain, and chains are ended from their last block on, so the first one has no children. */
static int32_t take_block(clef__pages *p)
{
    const int32_t i = ring_first(&p->unused);
    if (i == NONE)
        return NONE;
    if (p->blocks[i].root != NONE)
        free_block(p, i);
    ring_remove(&p->unused, i);
    p->blocks[i].n_chains = 1;
    p->n_in_chains++;
    return i;
}

static void use_block(clef__pages *p, int32_t i)
{
    if (p->blocks[i].n_chains++ > 0)
        return;
    ring_remove(&p->unused, i);
    p->n_in_chains++;
    p->n_kept--;
}

static void unuse_block(clef__pages *p, int32_t i)
{
    block *b = &p->blocks[i];
    if (--b->n_chains > 0)
        return;
    p->n_in_chains--;
    p->n_kept++;
    ring_insert(&p->unused, i, p->unused.n);
    if (b->n_tokens == 0 || !p->opts.keeps)
        free_block(p, i);
}

/* Makes sure that a block in a chain has a page of sliding layers, and holds it. Returns 0 if none is
 * left. */
static int hold_sliding(clef__pages *p, int32_t i)
{
    block *b = &p->blocks[i];
    if (b->sliding == NONE) {
        const int32_t page = ring_first(&p->unused_sliding);
        if (page == NONE)
            return 0;
        if (p->owner[page] != NONE)
            drop_sliding(p, &p->blocks[p->owner[page]]);
        ring_remove(&p->unused_sliding, page);
        p->owner[page] = i;
        b->sliding = page;
        b->n_sliding = 1;
        p->n_sliding_in_chains++;
        return 1;
    }
    if (b->n_sliding++ == 0) {
        ring_remove(&p->unused_sliding, b->sliding);
        p->n_sliding_in_chains++;
        p->n_sliding_kept--;
    }
    return 1;
}

static void leave_sliding(clef__pages *p, int32_t i)
{
    block *b = &p->blocks[i];
    if (--b->n_sliding > 0)
        return;
    ring_insert(&p->unused_sliding, b->sliding, p->unused_sliding.n);
    p->n_sliding_in_chains--;
    p->n_sliding_kept++;
    if (!p->opts.keeps)
        drop_sliding(p, b);
}

/* The first block of which a row at `position` sees something in sliding layers. */
static int32_t first_seen(const clef__pages *p, int32_t position)
{
    const int32_t first = position - p->opts.window + 1;
    return p->opts.window <= 0 || first < 0 ? 0 : first / KV_BLOCK;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Fills path with the blocks of the longest prefix, and returns its length. */
static int32_t walk(const clef__pages *p, clef__pages_key key, const int32_t *tokens, int32_t limit)
{
    const int32_t tree = find_root(p, key);
    int32_t at = 0, parent = NONE;
    for (; tree != NONE && at + KV_BLOCK <= limit; at += KV_BLOCK) {
        const int32_t i = find_full(p, tree, parent, tokens + at);
        if (i == NONE)
            break;
        p->path[at / KV_BLOCK] = parent = i;
    }
    if (tree == NONE || at == limit)
        return at;
    int32_t n;
    const int32_t i =
        find_part(p, tree, parent, tokens + at, limit - at < KV_BLOCK ? limit - at : KV_BLOCK, &n);
    if (i != NONE)
        p->path[at / KV_BLOCK] = i;
    return at + n;
}

/* The longest part of the walked prefix whose last rows still have what sliding layers see. */
static int32_t with_sliding(const clef__pages *p, int32_t n)
{
    int32_t from = n;
    while (p->opts.window > 0 && n > 0 && from == n) {
        from = -1;
        for (int32_t i = first_seen(p, n); i * KV_BLOCK < n && from < 0; i++)
            if (p->blocks[p->path[i]].sliding == NONE)
                from = i * KV_BLOCK;
        if (from < 0)
            return n;
        n = from;
    }
    return n;
}

/* Whether a mark's tokens are the first of these. Fills path with its blocks. */
static int is_beginning(const clef__pages *p, const mark *a, int32_t tree, const int32_t *tokens)
{
    int32_t n = (a->position - 1) % KV_BLOCK + 1, at = a->position - n;
    for (int32_t i = a->block; i != NONE; i = p->blocks[i].parent, n = KV_BLOCK, at -= KV_BLOCK) {
        if (p->blocks[i].root != tree || common_prefix(&p->blocks[i], tokens + at, n) < n)
            return 0;
        p->path[at / KV_BLOCK] = i;
    }
    return 1;
}

/* The mark that covers most of the tokens. Fills path with its blocks: others may have the same tokens. */
static int32_t best_mark(const clef__pages *p, clef__pages_key key, const int32_t *tokens, int32_t limit)
{
    const int32_t tree = find_root(p, key);
    int32_t best = NONE;
    for (int32_t m = 0; m < p->opts.n_marks && tree != NONE; m++) {
        const mark *a = &p->marks[m];
        const int may_fit = a->block != NONE && a->position <= limit &&
                            (best == NONE || a->position > p->marks[best].position);
        if (may_fit && is_beginning(p, a, tree, tokens) && with_sliding(p, a->position) == a->position)
            best = m;
    }
    if (best != NONE)
        is_beginning(p, &p->marks[best], tree, tokens);
    return best;
}

int32_t clef__pages_find(const clef__pages *p, clef__pages_key key, const int32_t *tokens, int32_t limit,
                         int32_t *mark_out)
{
    *mark_out = NONE;
    if (!p->opts.keeps || limit <= 0)
        return 0;
    if (!p->opts.n_marks)
        return with_sliding(p, walk(p, key, tokens, limit));
    *mark_out = best_mark(p, key, tokens, limit);
    return *mark_out == NONE ? 0 : p->marks[*mark_out].position;
}

/* Fills path with the blocks of a prefix that was found. */
static void walk_found(const clef__pages *p, clef__pages_key key, const int32_t *tokens, int32_t n_cached)
{
    if (p->opts.n_marks)
        best_mark(p, key, tokens, n_cached);
    else
        walk(p, key, tokens, n_cached);
}

int32_t clef__pages_needed(const clef__pages *p, clef__pages_key key, const int32_t *tokens, int32_t n_cached,
                           int32_t n)
{
    int32_t needed = (n + KV_BLOCK - 1) / KV_BLOCK;
    walk_found(p, key, tokens, n_cached);
    for (int32_t i = 0; i < n_cached / KV_BLOCK; i++)
        needed -= p->blocks[p->path[i]].n_chains > 0;
    return needed;
}

/* ---- chains ---------------------------------------------------------------------------------- */

static void link_block(clef__pages *p, clef__chain *chain, int32_t i)
{
    add_child(p, chain->root, chain->n ? chain->blocks[chain->n - 1] : NONE, i);
    chain->blocks[chain->n++] = i;
}

/* The last block of a new chain: the found one itself if no one else has it and all its tokens are wanted,
 * else a new one with a copy of n rows. */
static int begin_part(clef__pages *p, clef__chain *chain, int32_t found, int32_t n, clef__page_copy *copy)
{
    block *from = &p->blocks[found];
    if (from->n_tokens == n && from->n_chains == 0 && from->first_child == NONE) {
        use_block(p, found);
        chain->blocks[chain->n++] = found;
        return 1;
    }
    use_block(p, found); /* so that it is not given away */
    const int32_t i = take_block(p);
    if (i != NONE) {
        link_block(p, chain, i);
        memcpy(p->blocks[i].tokens, from->tokens, (size_t)n * sizeof *from->tokens);
        p->blocks[i].n_tokens = n;
        *copy = (clef__page_copy){.from = found, .to = i, .rows = n, .sliding_from = from->sliding};
    }
    unuse_block(p, found);
    return i != NONE;
}

/* Holds the pages of sliding layers that rows from `position` on see. */
static int hold_seen(clef__pages *p, clef__chain *chain, int32_t position)
{
    for (int32_t i = chain->first_seen = first_seen(p, position); p->opts.window > 0 && i < chain->n; i++)
        if (!hold_sliding(p, chain->blocks[i])) {
            while (--i >= chain->first_seen)
                leave_sliding(p, chain->blocks[i]);
            return 0;
        }
    return 1;
}

int clef__pages_begin(clef__pages *p, clef__pages_key key, const int32_t *tokens, int32_t n_cached,
                      clef__chain *chain, clef__page_copy *copy)
{
    const int32_t full = n_cached / KV_BLOCK, rest = n_cached % KV_BLOCK;
    *copy = (clef__page_copy){.sliding_from = NONE, .sliding_to = NONE};
    walk_found(p, key, tokens, n_cached);
    chain->n = 0;
    chain->root = make_root(p, key);
    if (chain->root == NONE)
        return 0;
    p->roots[chain->root].n_chains++;
    for (int32_t i = 0; i < full; i++) {
        use_block(p, p->path[i]);
        chain->blocks[chain->n++] = p->path[i];
    }
    const int began = !rest || begin_part(p, chain, p->path[full], rest, copy);
    if (!began || !hold_seen(p, chain, n_cached)) {
        chain->first_seen = chain->n;
        clef__pages_end(p, chain);
        return 0;
    }
    if (copy->rows && p->opts.window > 0)
        copy->sliding_to = p->blocks[copy->to].sliding;
    for (int32_t m = 0; m < p->opts.n_marks && n_cached; m++)
        if (p->marks[m].position == n_cached && p->marks[m].block == p->path[(n_cached - 1) / KV_BLOCK])
            p->marks[m].used = ++p->clock;
    return 1;
}

int clef__pages_grow(clef__pages *p, clef__chain *chain, int32_t positions)
{
    const int32_t wanted = (positions + KV_BLOCK - 1) / KV_BLOCK, before = chain->n;
    int enough = wanted - before <= clef__pages_available(p);
    while (enough && chain->n < wanted) {
        const int32_t i = take_block(p);
        link_block(p, chain, i);
        enough = p->opts.window <= 0 || hold_sliding(p, i);
        if (!enough) { /* the new block has no page to leave */
            chain->n--;
            unuse_block(p, i);
        }
    }
    while (!enough && chain->n > before) {
        const int32_t i = chain->blocks[--chain->n];
        if (p->opts.window > 0)
            leave_sliding(p, i);
        unuse_block(p, i);
    }
    return enough;
}

int32_t clef__pages_available(const clef__pages *p)
{
    return p->opts.n_blocks - p->n_in_chains;
}

void clef__pages_note(clef__pages *p, clef__chain *chain, int32_t at, const int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t which = chain->blocks[(at + i) / KV_BLOCK];
        block *b = &p->blocks[which];
        b->tokens[(at + i) % KV_BLOCK] = tokens[i];
        b->n_tokens = (at + i) % KV_BLOCK + 1;
        if (b->n_tokens == KV_BLOCK)
            hash_block(p, which);
    }
}

void clef__pages_slide(clef__pages *p, clef__chain *chain, int32_t position)
{
    const int32_t first = first_seen(p, position);
    for (; p->opts.window > 0 && chain->first_seen < first && chain->first_seen < chain->n;
         chain->first_seen++)
        leave_sliding(p, chain->blocks[chain->first_seen]);
}

void clef__pages_end(clef__pages *p, clef__chain *chain)
{
    if (chain->root == NONE)
        return;
    for (int32_t i = chain->n; i-- > 0;) {
        if (p->opts.window > 0 && i >= chain->first_seen)
            leave_sliding(p, chain->blocks[i]);
        unuse_block(p, chain->blocks[i]);
    }
    p->roots[chain->root].n_chains--;
    leave_root(p, chain->root);
    chain->n = chain->first_seen = 0;
    chain->root = NONE;
}

int32_t clef__pages_sliding(const clef__pages *p, int32_t i)
{
    return p->blocks[i].sliding;
}

int32_t clef__pages_mark(clef__pages *p, const clef__chain *chain, int32_t position)
{
    const int32_t i = (position - 1) / KV_BLOCK;
    int32_t m = p->opts.n_marks ? 0 : NONE;
    if (m == NONE || !p->opts.keeps || position < 1 || i >= chain->n ||
        p->blocks[chain->blocks[i]].n_tokens < (position - 1) % KV_BLOCK + 1)
        return NONE;
    for (int32_t k = 0; k < p->opts.n_marks; k++) {
        const int is_same = p->marks[k].block == chain->blocks[i] && p->marks[k].position == position;
        const uint64_t used = p->marks[k].block == NONE ? 0 : p->marks[k].used;
        if (is_same || used < (p->marks[m].block == NONE ? 0 : p->marks[m].used))
            m = k;
        if (is_same)
            break;
    }
    p->marks[m] = (mark){chain->blocks[i], position, ++p->clock};
    return m;
}

clef__pages_count clef__pages_counts(const clef__pages *p)
{
    return (clef__pages_count){.in_chains = p->n_in_chains,
                               .kept = p->n_kept,
                               .free = p->opts.n_blocks - p->n_in_chains - p->n_kept,
                               .sliding_in_chains = p->n_sliding_in_chains,
                               .sliding_kept = p->n_sliding_kept,
                               .sliding_free =
                                   n_sliding(&p->opts) - p->n_sliding_in_chains - p->n_sliding_kept};
}

/* Which pages hold which tokens: the bookkeeping of a paged KV cache. Plain host memory; no device is needed.
 *
 * A block is KV_BLOCK positions of a sequence that begin at a multiple of KV_BLOCK; block i of the pool has
 * page i of the caches of full layers. Sliding layers have fewer pages, which a block has only while a row
 * can see it, or until another block needs it. Blocks form trees, one for each key: a block's parent holds
 * the tokens before its own. So a block stands for all tokens from the beginning, and two prompts share the
 * blocks of their common prefix.
 *
 * A chain is the blocks of one running sequence. Blocks in a chain are never given away. A block that more
 * than one chain has is full, and nobody writes it. Blocks in no chain stay as long as there is room; those
 * that were used least recently go first. */
#ifndef CLEF_MODEL_PAGES_H
#define CLEF_MODEL_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "clef/graph.h"
#include "clef/status.h"

enum { KV_BLOCK = CLEF_KV_PAGE };

typedef struct clef__pages clef__pages;

typedef struct clef__pages_opts {
    int32_t n_blocks;
    int32_t n_chains;  /* most chains at once */
    int32_t window;    /* of sliding layers; 0: there are none */
    int32_t n_sliding; /* pages of sliding layers */
    int32_t n_marks;   /* most marks (clef__pages_mark()) */
    int32_t keeps;     /* 1: blocks in no chain stay for later prompts */
    int32_t hash_bits; /* of the hashes of blocks; 0: enough. Tests use few, to force collisions */
} clef__pages_opts;

/** What, beside its tokens, a cached position depends on. */
typedef struct clef__pages_key {
    int32_t adapter; /* its number in the batch's set, which stands for its matrices and its scale */
    uint64_t salt;
} clef__pages_key;

/** The blocks of a sequence: block i holds the positions from KV_BLOCK i on. */
typedef struct clef__chain {
    int32_t root;    /* of its key's tree; -1: the chain is empty */
    int32_t *blocks; /* [n], room for as many as the pool has */
    int32_t n;
    int32_t first_seen; /* the first block whose page of sliding layers the chain holds */
} clef__chain;

/** Rows that must be copied from one block's pages to another's; rows 0: none. */
typedef struct clef__page_copy {
    int32_t from, to, rows;
    int32_t sliding_from, sliding_to; /* pages of sliding layers */
} clef__page_copy;

/** CLEF_E_NOMEM. */
clef_status clef__pages_create(const clef__pages_opts *opts, clef__pages **out, clef_error *err);
void clef__pages_destroy(clef__pages *pages);

/** The length of the longest prefix of tokens[0 .. limit) whose blocks are in the pool under this key. With
 *  marks it ends at a mark, and *mark is that mark's number (else -1). Changes nothing. */
int32_t clef__pages_find(const clef__pages *pages, clef__pages_key key, const int32_t *tokens, int32_t limit,
                         int32_t *mark);
/** Blocks that a chain of n tokens takes from those available, if its first n_cached tokens are found: all
 * but the full ones that other chains have. */
int32_t clef__pages_needed(const clef__pages *pages, clef__pages_key key, const int32_t *tokens,
                           int32_t n_cached, int32_t n);
/** Begins a chain with the first n_cached tokens, which clef__pages_find() returned for the same tokens. The
 * last block, if its tokens are not all wanted, gets a block of its own, into which *copy must be copied.
 * Returns 0, and an empty chain, when no block is left for that. */
int clef__pages_begin(clef__pages *pages, clef__pages_key key, const int32_t *tokens, int32_t n_cached,
                      clef__chain *chain, clef__page_copy *copy);
/** Gives the chain blocks for `positions` positions. Others that are in no chain are forgotten for it, where
 *  needed. Returns 0, and changes no chain, if the pool has too few. */
int clef__pages_grow(clef__pages *pages, clef__chain *chain, int32_t positions);
/** The number of blocks that clef__pages_grow() could still give away. */
int32_t clef__pages_available(const clef__pages *pages);
/** Notes that positions [at, at + n) of the chain hold these tokens. They follow the tokens noted before. */
void clef__pages_note(clef__pages *pages, clef__chain *chain, int32_t at, const int32_t *tokens, int32_t n);
/** Gives back pages of sliding layers that no row at `position` or later can see. */
void clef__pages_slide(clef__pages *pages, clef__chain *chain, int32_t position);
/** Ends a chain. Its noted tokens can be found from now on, or until others need the blocks. */
void clef__pages_end(clef__pages *pages, clef__chain *chain);

/** The page of sliding layers of a block; -1: none. */
int32_t clef__pages_sliding(const clef__pages *pages, int32_t block);

/** A mark says that something is kept for the chain's first `position` tokens (the state of recurrent
 * layers). Returns its number, from 0 to n_marks - 1; the mark that was used least recently is overwritten,
 * if none is free. -1: the pool has no marks, or those tokens are not noted. */
int32_t clef__pages_mark(clef__pages *pages, const clef__chain *chain, int32_t position);

/** Forgets all tokens, as after the loss of the device. There must be no chain. */
void clef__pages_forget(clef__pages *pages);

/** How many blocks are in chains, are kept, and are free; together all blocks. */
typedef struct clef__pages_count {
    int32_t in_chains, kept, free;
    int32_t sliding_in_chains, sliding_kept, sliding_free;
} clef__pages_count;
clef__pages_count clef__pages_counts(const clef__pages *pages);

#endif

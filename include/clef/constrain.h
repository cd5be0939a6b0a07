/* Constraints: what a text may still say, as a mask over a vocabulary.
 *
 *   clef_constraint_create(CLEF_CONSTRAIN_SCHEMA, schema, n_bytes, NULL, &constraint, NULL, &err);
 *   clef_token_trie_create(tokenizer, end_ids, n_ends, &trie, &err);      once for each tokenizer
 *   clef_constraint_begin(constraint, &state);
 *   for each token:
 *       clef_constraint_mask(constraint, trie, &state, mask, &err);       what may come
 *       id = clef_sampler_pick_masked(sampler, logits, mask);
 *       clef_constraint_accept(constraint, trie, &state, id, &err);
 *
 * A constraint that is created holds: every text that its masks allow satisfies the source, and from every
 * text that they allow a complete one can be reached. What cannot be held is an error, and never left out.
 * The end of the text is allowed exactly where it is complete. docs/constraints.md has the languages. */
#ifndef CLEF_CONSTRAIN_H
#define CLEF_CONSTRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "clef/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_constraint_kind {
    CLEF_CONSTRAIN_GBNF,    /* a grammar as llama.cpp has it; it begins at the rule `root` */
    CLEF_CONSTRAIN_SCHEMA,  /* a JSON Schema, 2020-12 unless $schema names another draft from 04 on */
    CLEF_CONSTRAIN_REGEX,   /* a regular expression of ECMA-262, which the whole text matches */
    CLEF_CONSTRAIN_CHOICES  /* a JSON array of strings: one of them */
} clef_constraint_kind;

typedef struct clef_constraint_opts {
    int32_t strict;    /* SCHEMA: an unknown format is an error, not an annotation */
    int32_t any_order; /* SCHEMA: to judge texts of others. Members may come in any order, white space may be
                          any, and 1.0 is an integer. 0: texts are as they are generated: members in the order
                          of the schema, others after them */
    const clef_tokenizer *tok; /* GBNF: NULL, or where <names> of tokens are looked up */
} clef_constraint_opts;

/** Where a source was refused. */
typedef struct clef_constraint_problem {
    char path[256];   /* SCHEMA: a JSON pointer; "" is the whole */
    char keyword[64]; /* SCHEMA: "contains"; "" for other kinds */
} clef_constraint_problem;

typedef struct clef_constraint clef_constraint;

/** Compiles n bytes of a source in UTF-8. opts NULL: zeros. problem NULL, or filled on failure.
 *  CLEF_E_FORMAT: no such source. CLEF_E_UNSUPPORTED: a keyword or construct that cannot be held. CLEF_E_ARG:
 *  nothing satisfies it. CLEF_E_LIMIT: beyond a budget, which the text names: 1 MiB of source, 256 levels,
 *  10,000 repetitions, 64 MiB, and steps for about a second. CLEF_E_NOMEM. Free *out with
 *  clef_constraint_destroy(). */
CLEF_API clef_status clef_constraint_create(clef_constraint_kind kind, const char *source, size_t n,
                                            const clef_constraint_opts *opts, clef_constraint **out,
                                            clef_constraint_problem *problem, clef_error *err);
/** Accepts NULL. */
CLEF_API void clef_constraint_destroy(clef_constraint *constraint);
/** Bytes of host memory that it has now. It grows with the texts that it has seen, and drops what none needs
 *  any more: mostly it stays below 64 MiB and what was compiled, and never grows beyond 192 MiB. */
CLEF_API size_t clef_constraint_bytes(const clef_constraint *constraint);

/** What was compiled, as text for people: the kinds of values and their limits, or the rules. Free it with
 *  clef_text_free(). CLEF_E_NOMEM. */
CLEF_API clef_status clef_constraint_describe(const clef_constraint *constraint, char **out, size_t *n_bytes,
                                              clef_error *err);

/** A place in a text. It can be copied, to come back to it. It belongs to its constraint, which keeps what is
 *  used: a place that nobody asked for while other texts needed 24 MiB of states twice is gone, and gives
 *  CLEF_E_LIMIT. An error is that of one text: others go on. */
typedef struct clef_constraint_state {
    uint32_t config, code; /* code, left, size: a character of which bytes are missing */
    int32_t  left, size;
} clef_constraint_state;

/** The begin of a text. CLEF_E_LIMIT, CLEF_E_NOMEM. One thread at a time for each constraint. */
CLEF_API clef_status clef_constraint_begin(clef_constraint *constraint, clef_constraint_state *state,
                                           clef_error *err);
/** Reads n bytes. *n_read is how many were allowed; the state is before the first that was not. CLEF_E_LIMIT,
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_constraint_read(clef_constraint *constraint, clef_constraint_state *state,
                                          const char *bytes, size_t n, size_t *n_read, clef_error *err);
/** 1 if the text may end here. */
CLEF_API int clef_constraint_may_end(clef_constraint *constraint, const clef_constraint_state *state);

/** The tokens of a vocabulary by their bytes. */
typedef struct clef_token_trie clef_token_trie;
/** Special tokens are in no mask, but for the n_ends (at most 16) that end a text. tok is borrowed, and
 *  must outlive the trie. About 100 ms for 128,000 tokens. CLEF_E_ARG, CLEF_E_NOMEM. Free with
 *  clef_token_trie_destroy(). */
CLEF_API clef_status clef_token_trie_create(const clef_tokenizer *tok, const int32_t *ends, int32_t n_ends,
                                            clef_token_trie **out, clef_error *err);
CLEF_API void        clef_token_trie_destroy(clef_token_trie *trie);
/** Words of 32 bits in a mask; token i is bit i % 32 of word i / 32. */
CLEF_API int32_t     clef_token_trie_mask_words(const clef_token_trie *trie);

/** A constraint on what a session generates. */
typedef struct clef_guide {
    clef_constraint       *constraint;
    const clef_token_trie *trie;
    const char *after; /* NULL, or a text: the constraint begins after it, as after "</think>", and until then
                          the text may not end. Blanks and line ends in the token that completes it are passed
                          over */
} clef_guide;

/** How long a text's reasoning may be. When it has as many tokens, `ending` is written, whatever would have
 *  been sampled; the text then goes on. */
typedef struct clef_thought {
    const char *open, *close; /* the tags around it: "<think>", "</think>" */
    const char *ending;       /* NULL: `close`; else what is written where that is not enough */
    int32_t     begun;        /* 1: the prompt ends with `open` */
    int32_t     anywhere;     /* 1: it may follow other text; 0: only at the start is `open` a tag */
    int32_t     most;         /* its tokens; 0: it ends at once */
} clef_thought;

/** Writes the tokens that may come next. CLEF_E_ARG: there are none, because the vocabulary has no token for
 *  the characters that must follow. CLEF_E_LIMIT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_constraint_mask(clef_constraint *constraint, const clef_token_trie *trie,
                                          const clef_constraint_state *state, uint32_t *mask,
                                          clef_error *err);
/** Goes on by a token. CLEF_E_ARG: it is not allowed; the state stays. */
CLEF_API clef_status clef_constraint_accept(clef_constraint *constraint, const clef_token_trie *trie,
                                            clef_constraint_state *state, int32_t id, clef_error *err);

/** Compiled constraints that are kept for whoever asks for the same again: those used last. Threads may share
 *  a cache. */
typedef struct clef_constraint_cache clef_constraint_cache;
/** most_bytes: of all that nobody uses; 0: 128 MiB. It keeps 128 constraints at most. CLEF_E_NOMEM. */
CLEF_API clef_status clef_constraint_cache_create(size_t most_bytes, clef_constraint_cache **out,
                                                  clef_error *err);
/** Also destroys all its constraints. Accepts NULL. */
CLEF_API void        clef_constraint_cache_destroy(clef_constraint_cache *cache);
/** The constraint with a key of n bytes, NULL if none is kept. It is in use, and stays, until it is given
 *  back with _give(). Several users may have the same one at once, each with states of its own. */
CLEF_API clef_constraint *clef_constraint_cache_take(clef_constraint_cache *cache, const void *key, size_t n);
/** Keeps a constraint that the caller has compiled, and takes it at once. The key says all that decides what
 *  it allows: its kind, options and source. If another thread has put one there meanwhile, that is returned,
 *  and this one is destroyed. NULL when out of memory; the constraint is then destroyed, too. */
CLEF_API clef_constraint *clef_constraint_cache_put(clef_constraint_cache *cache, const void *key, size_t n,
                                                    clef_constraint *constraint);
CLEF_API void             clef_constraint_cache_give(clef_constraint_cache *cache,
                                                     const clef_constraint *constraint);

#ifdef __cplusplus
}
#endif
#endif

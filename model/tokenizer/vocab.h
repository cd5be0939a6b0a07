/* A vocabulary: the table of tokens, and the added tokens that are found in a text before the model sees
 * it. */
#ifndef CLEF_MODEL_TOKENIZER_VOCAB_H
#define CLEF_MODEL_TOKENIZER_VOCAB_H

#include "model/tokenizer/memory.h"
#include "model/tokenizer/vocab_map.h"

enum {
    CLEF_TOKEN_SPECIAL = 1,
    CLEF_TOKEN_PRESENT = 2,
    CLEF_TOKEN_OUTSIDE_MODEL = 4,
    CLEF_TOKEN_ENDS_WORD = 8, /* the last space of its piece is written only when another token follows */
    CLEF_TOKEN_UNUSED = 16,   /* a SentencePiece piece that no text is encoded to */
    CLEF_TOKEN_SHOWN = 64,    /* a special token that decoding does not leave out */
    CLEF_TOKEN_BYTE = 32      /* a SentencePiece piece for a byte that no other piece has */
};

typedef struct clef__token {
    const char *text;  /* as the vocabulary writes it */
    const char *piece; /* the bytes that it decodes to */
    const char *first; /* those bytes at the start of a text; NULL: the same as `piece` */
    uint32_t    n_text, n_piece, n_first;
    uint32_t    flags;
} clef__token;

/** Which text an added token is searched in. */
typedef enum clef__added_where {
    CLEF_ADDED_RAW,        /* in the text as given */
    CLEF_ADDED_NORMALIZED, /* after the normalizers, which also change the token's own text */
    CLEF_ADDED_AS_WRITTEN  /* after the normalizers, with its own text unchanged (user-defined pieces) */
} clef__added_where;

/** A token that is found in the text before the model sees it. */
typedef struct clef__added_token {
    int32_t     id;
    const char *text;
    size_t      n;
    uint8_t     where; /* clef__added_where */
    uint8_t     lstrip, rstrip, single_word;
    uint8_t     decodes_normalized; /* 1: its text is the normalised one, wherever it is searched */
} clef__added_token;

/** A trie over added tokens, which finds the leftmost and then the longest one (added.c). */
typedef struct clef__added_node {
    int32_t child, next; /* -1: none */
    int32_t token;       /* index in the vocabulary's added tokens; -1: no token ends here */
    uint8_t byte;
} clef__added_node;
typedef struct clef__added_trie {
    clef__added_node *nodes;
    size_t            n, capacity;
    int32_t           roots[256];
} clef__added_trie;

typedef struct clef__vocab {
    clef__text_arena   texts;
    clef__token       *tokens;
    int32_t            n_tokens;
    clef__vocab_map    by_text;
    clef__added_token *added;
    size_t             n_added, added_capacity;
    clef__added_trie   raw, normal; /* the added tokens, before and after the normalizers */
} clef__vocab;

/** Makes an empty vocabulary in place. */
void clef__vocab_init(clef__vocab *vocab);
void clef__vocab_finish(clef__vocab *vocab);
/** Makes room for ids 0 .. n-1, once, before any token. The reader has checked `n` against the file's
 *  size. */
clef_status clef__vocab_reserve(clef__vocab *vocab, int64_t n, clef_error *err);
/** Sets a token's text. Texts may repeat: clef__vocab_find() then returns the first one's id.
 *  CLEF_E_FORMAT: the id is out of range or has a text already. */
clef_status clef__vocab_set(clef__vocab *vocab, int64_t id, const char *text, size_t n, clef_error *err);
/** Call it after the last token: of equal texts the last one's id is found, as in BERT's vocabularies. */
clef_status clef__vocab_prefer_last(clef__vocab *vocab, clef_error *err);
/** The id of a text, -1 if there is none. */
int32_t clef__vocab_find(const clef__vocab *vocab, const char *text, size_t n);
/** Adds a token that is found in the text; like->text is copied. Calls clef__vocab_set() if the id has no
 *  text. */
clef_status clef__vocab_add(clef__vocab *vocab, const clef__added_token *like, int special, clef_error *err);

/** Adds added token `token` to the trie under `text`, which may differ from its own text (normalised). */
clef_status clef__added_enter(clef__added_trie *trie, const char *text, size_t n, int32_t token,
                              clef_error *err);
void        clef__added_finish(clef__added_trie *trie);

#endif

/* The bytes of all tokens of a vocabulary as a trie, in which masks are computed. */
#ifndef CLEF_MODEL_TOKENIZER_TOKEN_TRIE_H
#define CLEF_MODEL_TOKENIZER_TOKEN_TRIE_H

#include "clef/constrain.h"

/** Nodes in the order of a depth-first walk; node 0 is the root. Tokens are in the order of their bytes, so
 *  that those below a node are neighbours. A plain token is whole characters, of which none needs an escape
 *  in a JSON string. */
struct clef_token_trie {
    const clef_tokenizer *tok;
    int32_t   n_vocab;
    uint32_t  n_nodes, n_tokens;
    uint8_t  *byte, *depth; /* of each node; depth of its token's bytes */
    uint8_t  *wild;         /* of each node: 1 if a token below is not plain */
    uint32_t *skip;         /* of each node: the next node that is not below it */
    uint32_t *tokens;       /* [n_nodes + 1] of each node: the first of the tokens that end at it or below */
    int32_t  *ids;          /* of each token */
    uint8_t  *n_chars;      /* of each token: its characters if it is plain, else 0 */
    uint32_t *plain;        /* mask of all plain tokens */
    const char **texts;     /* by id: its bytes; NULL for a special token */
    uint16_t *n_text;
    int32_t   ends[16], n_ends;
};

enum { CLEF__MAX_TOKEN_DEPTH = 255 };

#endif

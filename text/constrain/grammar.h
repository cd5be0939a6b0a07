/* The graph of a grammar: rules of characters, calls and choices. */
#ifndef CLEF_TEXT_CONSTRAIN_GRAMMAR_H
#define CLEF_TEXT_CONSTRAIN_GRAMMAR_H

#include "text/constrain/machine.h"

/** A graph that is built, in the heap. Zero but for `work`. Node 0 is an end. */
typedef struct clef__graph {
    clef__work  *work;
    clef__gnode *nodes;
    uint32_t     n, room;
} clef__graph;

/** Adds a node and returns its number. Every graph begins with clef__graph_begin(). */
uint32_t clef__graph_add(clef__graph *g, clef__gnode node);
void     clef__graph_begin(clef__graph *g);

/** The number of the token with this text, -1 if there is none. NULL: no vocabulary is known. */
typedef struct clef__token_names {
    int32_t (*find)(void *user, const char *text, size_t n);
    void *user;
} clef__token_names;

/** Reads a grammar in llama.cpp's GBNF. *start is the node where `root` begins. CLEF_E_FORMAT with the line,
 *  a rule that is missing or left-recursive; CLEF_E_LIMIT. */
void clef__gbnf_read(clef__graph *g, const char *text, size_t n, const clef__token_names *tokens,
                     uint32_t *start);

#endif

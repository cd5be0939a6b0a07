/* The tokens of a kernel's source, and the names that it declares, for source_join.c. */
#ifndef CLEF_RUNTIME_SOURCE_SCAN_H
#define CLEF_RUNTIME_SOURCE_SCAN_H

#include <stddef.h>

#include "runtime/device/source.h"

/** Part of a text. */
typedef struct clef__word {
    const char *at;
    size_t      n;
} clef__word;

typedef struct clef__words {
    clef__word *at;
    size_t      n, room;
} clef__words;

/** 1 when the word is this text. */
int clef__word_is(clef__word a, const char *text);
int clef__words_have(const clef__words *list, clef__word w);

/* ---- tokens ---------------------------------------------------------------------------------- */

typedef enum clef__token_kind {
    CLEF__TOKEN_END,
    CLEF__TOKEN_IDENTIFIER,
    CLEF__TOKEN_NUMBER,
    CLEF__TOKEN_SPACE, /* also a comment, and a line's continuation */
    CLEF__TOKEN_NEWLINE,
    CLEF__TOKEN_HASH,
    CLEF__TOKEN_OTHER
} clef__token_kind;
typedef struct clef__token {
    clef__token_kind kind;
    clef__word       text;
} clef__token;

/** The token at *at, which is moved behind it. */
clef__token clef__token_next(const char **at, const char *end);
/** The next token that is not a space. A newline is space outside of directives. */
clef__token clef__token_peek(const char *at, const char *end, int in_directive);
/** 1 for the directives after which names are plain text: #line, #error, #pragma. */
int         clef__is_free_text(clef__word directive);
/** Finds the next -D NAME or -D NAME=VALUE. Returns the text after it; NULL: there is none. */
const char *clef__option_next(const char *options, clef__word *name, clef__word *value);

/* ---- names ----------------------------------------------------------------------------------- */

/** Levels of #if. */
enum { CLEF__SOURCE_NESTING = 32 };

/** What a source declares. */
typedef struct clef__source_names {
    clef__words constants; /* of its -D options */
    clef__words macros, declared;
    clef__words families;  /* the beginnings of names that ## makes */
    int         failed;    /* out of memory */
    int         too_deep;  /* more than CLEF__SOURCE_NESTING levels of #if */
} clef__source_names;

/** Finds the names of a source. Zeroed before; freed by clef__source_names_free(). */
void clef__source_names_find(clef__source_names *all, const clef_unit *unit);
void clef__source_names_free(clef__source_names *all);
/** 1 when a family has the word. */
int  clef__source_names_in_family(const clef__source_names *all, clef__word w);

#endif

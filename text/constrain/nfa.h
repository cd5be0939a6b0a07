/* Automata with choices, from the syntax tree of a regular expression, and their deterministic ones. */
#ifndef CLEF_TEXT_CONSTRAIN_NFA_H
#define CLEF_TEXT_CONSTRAIN_NFA_H

#include "text/constrain/charset.h"
#include "text/constrain/dfa.h"

typedef enum clef__re_kind {
    CLEF__RE_EMPTY,
    CLEF__RE_SET,
    CLEF__RE_THEN,   /* a, then b */
    CLEF__RE_EITHER, /* a or b */
    CLEF__RE_REPEAT, /* a, min to max times */
    CLEF__RE_BEGIN,  /* the start of the text: ^ */
    CLEF__RE_END     /* the end of the text: $ */
} clef__re_kind;

typedef struct clef__re clef__re;
struct clef__re {
    clef__re_kind   kind;
    clef__set       set;
    const clef__re *a, *b;
    uint32_t        min, max; /* max UINT32_MAX: no limit */
};

/** The texts in which the expression is found somewhere, as ECMA-262's test() does; `whole`: the texts that
 *  it matches from begin to end. */
const clef__dfa *clef__re_dfa(clef__dfas *dfas, const clef__re *re, int whole);

/** Parses an expression of ECMA-262 (2024, section 22.2 and annex B) and returns its texts. Assertions other
 *  than ^ and $, references to groups and Unicode properties are CLEF_E_UNSUPPORTED; CLEF_E_FORMAT: it is not
 *  an expression. Both name the place. */
const clef__dfa *clef__pattern_dfa(clef__dfas *dfas, const char *text, size_t n, int whole);

#endif

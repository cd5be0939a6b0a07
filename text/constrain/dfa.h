/* Deterministic finite automata over code points: the languages of strings, numbers and patterns.
 *
 * An automaton that is finished has only states from which an end can be reached, is minimal, and has its
 * states in the order of a breadth-first walk. Two with the same language are therefore equal, and each is
 * kept once: pointers can be compared. */
#ifndef CLEF_TEXT_CONSTRAIN_DFA_H
#define CLEF_TEXT_CONSTRAIN_DFA_H

#include "text/constrain/work.h"

enum { CLEF__LAST_CODE = 0x10FFFF };
/** No state: the text is not in the language, whatever follows. */
#define CLEF__DEAD UINT32_MAX

typedef struct clef__edge {
    uint32_t lo, hi, to; /* code points lo to hi */
} clef__edge;

typedef struct clef__dfa clef__dfa;
struct clef__dfa {
    uint32_t          n_states, n_edges; /* n_states 0: the empty language. State 0 is the first */
    const uint32_t   *first;             /* [n_states + 1] where a state's edges begin */
    const clef__edge *edges;             /* of each state disjoint, in rising order */
    const uint8_t    *ends;              /* [n_states] 1: the text may end here */
    uint32_t          hash;
    const clef__dfa  *next;              /* with the same slot */
};

enum { CLEF__DFA_SLOTS = 1024 };

/** The automata of one constraint. Zero but for `work`. */
typedef struct clef__dfas {
    clef__work      *work;
    const clef__dfa *slots[CLEF__DFA_SLOTS];
    const clef__dfa *any, *none; /* all texts, no text: clef__dfa_any(), clef__dfa_none() */
} clef__dfas;

/** An automaton that is being built, in the heap. Zero but for `dfas`. State 0 is the first. */
typedef struct clef__draft {
    clef__dfas *dfas;
    clef__edge *edges;
    uint32_t   *from, *next; /* of each edge */
    uint32_t   *head;        /* of each state: its last edge + 1 */
    uint8_t    *ends;
    uint32_t    n_edges, n_states, room[5];
} clef__draft;

uint32_t clef__draft_state(clef__draft *d, int ends);
/** The edges of one state must not overlap. */
void clef__draft_edge(clef__draft *d, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
/** Frees the draft. Never NULL: after an error the empty language. */
const clef__dfa *clef__draft_finish(clef__draft *d);

const clef__dfa *clef__dfa_any(clef__dfas *dfas);
const clef__dfa *clef__dfa_none(clef__dfas *dfas);

typedef enum clef__set_op { CLEF__AND, CLEF__OR, CLEF__MINUS } clef__set_op;
const clef__dfa *clef__dfa_join(clef__dfas *dfas, const clef__dfa *a, const clef__dfa *b, clef__set_op op);
const clef__dfa *clef__dfa_not(clef__dfas *dfas, const clef__dfa *a);
/** The texts of `a` with min to max code points. */
const clef__dfa *clef__dfa_length(clef__dfas *dfas, const clef__dfa *a, uint32_t min, uint32_t max);
/** The language of n texts in UTF-8. */
typedef struct clef__utf8_text {
    const char *p;
    size_t      n;
} clef__utf8_text;
const clef__dfa *clef__dfa_texts(clef__dfas *dfas, const clef__utf8_text *texts, uint32_t n);

uint32_t clef__dfa_step(const clef__dfa *a, uint32_t state, uint32_t code);
/** 1 if a code point from lo to hi leads on. */
int clef__dfa_can(const clef__dfa *a, uint32_t state, uint32_t lo, uint32_t hi);
int clef__dfa_has(const clef__dfa *a, const char *text, size_t n);

#endif

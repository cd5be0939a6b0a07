/* Where a long word can be cut before BPE without changing its ids. SentencePiece's vocabularies make one
 * word of a whole text; cutting it into short parts keeps the work in the processor's cache. A cut is between
 * two characters that are adjacent in no token, so that no merge crosses it. */
#ifndef CLEF_MODEL_WORD_CUTS_H
#define CLEF_MODEL_WORD_CUTS_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** Zeroed, it allows no cuts. */
typedef struct clef__word_cuts {
    uint8_t *bits; /* by the byte before and a hash of the character after; a collision loses a cut */
} clef__word_cuts;

/** Call it before the first clef__word_cuts_learn(). CLEF_E_NOMEM. */
clef_status clef__word_cuts_start(clef__word_cuts *cuts, clef_error *err);
/** Learns one token: no cut will be between its characters. */
void clef__word_cuts_learn(clef__word_cuts *cuts, const char *text, size_t n);
/** 1 if a word may be cut at `at` > 0: no learnt token has the characters before and after it side by
 *  side. */
int  clef__word_cuts_at(const clef__word_cuts *cuts, const char *text, size_t n, size_t at);
void clef__word_cuts_finish(clef__word_cuts *cuts);

#endif

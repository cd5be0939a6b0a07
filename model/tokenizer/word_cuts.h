/* Where a long word can be cut before BPE without changing what comes out: between two characters that stand side by side in no token, so
 * that no merge crosses the place. SentencePiece's vocabularies make one word of a whole text; in pieces of some bytes it stays in the
 * cache. */
#ifndef CLEF_MODEL_WORD_CUTS_H
#define CLEF_MODEL_WORD_CUTS_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** Zeroed: no cuts. */
typedef struct clef__word_cuts {
    uint8_t *bits; /* by the byte before and a hash of the character after; a collision only loses a cut */
} clef__word_cuts;

/** Before the first learn(). CLEF_E_NOMEM. */
clef_status clef__word_cuts_start(clef__word_cuts *cuts, clef_error *err);
/** The characters of a token belong together. */
void clef__word_cuts_learn(clef__word_cuts *cuts, const char *text, size_t n);
/** Whether no token learnt has the character that ends before text[at] and the one that begins there. at > 0. */
int  clef__word_cuts_at(const clef__word_cuts *cuts, const char *text, size_t n, size_t at);
void clef__word_cuts_finish(clef__word_cuts *cuts);

#endif

/* What is drawn for the rows of a training. Each draw is a function of the seed, the epoch, its purpose and
 * its place (Philox, graph/philox.h), so nothing depends on what was drawn before. */
#ifndef CLEF_MODEL_DATASET_ORDER_H
#define CLEF_MODEL_DATASET_ORDER_H

#include <stdint.h>

#include "graph/philox.h"

/** Purposes. They are the last words of Philox's counters. */
typedef enum clef__draw {
    CLEF_DRAW_SPLIT = 0x7DA7A001, /* which documents are for validation */
    CLEF_DRAW_DOCUMENTS,          /* the order of documents in the stream */
    CLEF_DRAW_ROWS,               /* the order of rows in an epoch */
    CLEF_DRAW_SHIFT,              /* where an epoch cuts the stream */
    CLEF_DRAW_MASK                /* which tokens are hidden, and by what */
} clef__draw;

/** Four random words. */
clef__philox_words clef__draw_words(uint64_t seed, clef__draw purpose, uint32_t epoch, uint32_t row,
                                    uint32_t at);
/** A number below n, n >= 1. */
uint32_t clef__draw_below(uint64_t seed, clef__draw purpose, uint32_t epoch, uint32_t n);
/** The number at place i of a random permutation of the numbers below n; i < n. */
uint64_t clef__draw_order(uint64_t seed, clef__draw purpose, uint32_t epoch, uint64_t n, uint64_t i);

#endif

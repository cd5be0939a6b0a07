/* Counts the words of texts. */
#ifndef CLEF_MODEL_WORD_TABLE_H
#define CLEF_MODEL_WORD_TABLE_H

#include <stddef.h>
#include <stdint.h>

/** A text with a number: how often it occurs, or its id. The text is borrowed. */
typedef struct clef__word {
    const char *text;
    size_t      n;
    int64_t     number;
} clef__word;

typedef struct clef__word_table {
    clef__word *items;  /* in the order in which they were added */
    size_t      n;
    size_t     *slots;  /* by hash: 0, or the index of an item plus 1 */
    size_t      n_items, n_slots; /* room */
} clef__word_table;

/** The entry of the text, which is added with number 0 if it is new. NULL: out of memory. Valid until the
 *  next call. */
clef__word *clef__word_of(clef__word_table *table, const char *text, size_t n);
/** The entry of the text, NULL if there is none. */
clef__word *clef__word_find(const clef__word_table *table, const char *text, size_t n);
void        clef__word_table_finish(clef__word_table *table);

#endif

/* Memory that tokenizers grow: texts, lists of ids, and strings that are freed together. */
#ifndef CLEF_MODEL_TOKENIZER_MEMORY_H
#define CLEF_MODEL_TOKENIZER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** A growing byte string; a zeroed one is empty. */
typedef struct clef__chars {
    char  *at;
    size_t n, capacity;
} clef__chars;

clef_status clef__chars_reserve(clef__chars *chars, size_t n_more, clef_error *err);
clef_status clef__chars_append(clef__chars *chars, const char *text, size_t n, clef_error *err);
void        clef__chars_finish(clef__chars *chars);

/** A growing list of token ids; a zeroed one is empty. */
typedef struct clef__ids {
    int32_t *at;
    size_t   n, capacity;
} clef__ids;

clef_status clef__ids_push(clef__ids *ids, int32_t id, clef_error *err);

/** Strings that never move and are freed together; a zeroed one is empty. */
typedef struct clef__text_block clef__text_block;
typedef struct clef__text_arena {
    clef__text_block *last;
    size_t            used;
} clef__text_arena;

/** A NUL-terminated copy of n bytes, which may contain NULs; NULL when out of memory. */
char *clef__text_arena_copy(clef__text_arena *arena, const char *text, size_t n);
void  clef__text_arena_finish(clef__text_arena *arena);

/** At most 48 printable characters of a text, for messages. Writes to out [64] and returns it. */
const char *clef__quote_text(const char *text, size_t n, char *out);

#endif

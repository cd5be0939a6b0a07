/* Memory that tokenizers grow: texts, lists of ids, and strings that are freed together. */
#include "model/tokenizer/memory.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

clef_status clef__chars_reserve(clef__chars *chars, size_t n_more, clef_error *err)
{
    if (n_more <= chars->capacity - chars->n)
        return CLEF_OK;
    if (n_more > SIZE_MAX / 2 - chars->n)
        return clef__fail(err, CLEF_E_LIMIT, "text of more than %zu bytes", SIZE_MAX / 2);
    size_t capacity = chars->capacity < 32 ? 64 : chars->capacity * 2;
    if (capacity < chars->n + n_more)
        capacity = chars->n + n_more;
    char *at = realloc(chars->at, capacity);
    if (!at)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes of text", capacity);
    chars->at = at;
    chars->capacity = capacity;
    return CLEF_OK;
}

clef_status clef__chars_append(clef__chars *chars, const char *text, size_t n, clef_error *err)
{
    const clef_status st = clef__chars_reserve(chars, n, err);
    if (st == CLEF_OK && n > 0) {
        memcpy(chars->at + chars->n, text, n);
        chars->n += n;
    }
    return st;
}

void clef__chars_finish(clef__chars *chars)
{
    free(chars->at);
    *chars = (clef__chars){0};
}

clef_status clef__ids_push(clef__ids *ids, int32_t id, clef_error *err)
{
    if (ids->n == ids->capacity) {
        const size_t capacity = ids->capacity ? ids->capacity * 2 : 64;
        if (capacity > (size_t)INT32_MAX)
            return clef__fail(err, CLEF_E_LIMIT, "more than %d tokens in a text", INT32_MAX / 2);
        int32_t *at = realloc(ids->at, capacity * sizeof *at);
        if (!at)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu token ids", capacity);
        ids->at = at;
        ids->capacity = capacity;
    }
    ids->at[ids->n++] = id;
    return CLEF_OK;
}

enum { BLOCK_BYTES = 1 << 16 };

struct clef__text_block {
    clef__text_block *previous;
    size_t n_bytes;
    char bytes[];
};

char *clef__text_arena_copy(clef__text_arena *arena, const char *text, size_t n)
{
    clef__text_block *block = arena->last;
    if (n >= SIZE_MAX / 2)
        return NULL;
    if (!block || n + 1 > block->n_bytes - arena->used) {
        const size_t n_bytes = n + 1 > BLOCK_BYTES ? n + 1 : BLOCK_BYTES;
        block = malloc(sizeof *block + n_bytes);
        if (!block)
            return NULL;
        block->previous = arena->last;
        block->n_bytes = n_bytes;
        arena->last = block;
        arena->used = 0;
    }
    char *copy = block->bytes + arena->used;
    if (n > 0)
        memcpy(copy, text, n);
    copy[n] = 0;
    arena->used += n + 1;
    return copy;
}

void clef__text_arena_finish(clef__text_arena *arena)
{
    for (clef__text_block *block = arena->last, *previous; block; block = previous) {
        previous = block->previous;
        free(block);
    }
    *arena = (clef__text_arena){0};
}

const char *clef__quote_text(const char *text, size_t n, char *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < n && shown < 48; i++)
        out[shown++] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
    out[shown] = 0;
    if (n > 48)
        memcpy(out + 45, "...", 4);
    return out;
}

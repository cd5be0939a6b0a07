/* A vocabulary's table of tokens, and the list of its added tokens. */
#include "model/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "clef/tokenizer.h"
#include "graph/fail.h"

void clef__vocab_init(clef__vocab *vocab)
{
    *vocab = (clef__vocab){0};
    for (int i = 0; i < 256; i++)
        vocab->raw.roots[i] = vocab->normal.roots[i] = -1;
}

void clef__vocab_finish(clef__vocab *vocab)
{
    clef__added_finish(&vocab->raw);
    clef__added_finish(&vocab->normal);
    clef__vocab_map_finish(&vocab->by_text);
    clef__text_arena_finish(&vocab->texts);
    free(vocab->added);
    free(vocab->tokens);
}

clef_status clef__vocab_reserve(clef__vocab *vocab, int64_t n, clef_error *err)
{
    if (n < 1 || n > INT32_MAX / 2)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: %lld tokens, expected 1 to %d", (long long)n,
                          INT32_MAX / 2);
    vocab->tokens = calloc((size_t)n, sizeof *vocab->tokens);
    if (!vocab->tokens)
        return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for %lld tokens", (long long)n);
    vocab->n_tokens = (int32_t)n;
    return CLEF_OK;
}

clef_status clef__vocab_set(clef__vocab *vocab, int64_t id, const char *text, size_t n, clef_error *err)
{
    char a[64], b[64];
    if (id < 0 || id >= vocab->n_tokens)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: id %lld of token \"%s\" is outside 0 .. %d",
                          (long long)id, clef__quote_text(text, n, a), vocab->n_tokens - 1);
    clef__token *token = &vocab->tokens[id];
    if (token->flags & CLEF_TOKEN_PRESENT)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: id %lld is both \"%s\" and \"%s\"", (long long)id,
                          clef__quote_text(token->text, token->n_text, a), clef__quote_text(text, n, b));
    if (n > CLEF_MAX_PIECE * 4)
        return clef__fail(err, CLEF_E_LIMIT, "vocabulary: token %lld has %zu bytes, expected at most %d",
                          (long long)id, n, CLEF_MAX_PIECE * 4);
    token->text = clef__text_arena_copy(&vocab->texts, text, n);
    if (!token->text)
        return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for token %lld", (long long)id);
    token->n_text = (uint32_t)n;
    token->flags = CLEF_TOKEN_PRESENT;
    if (clef__vocab_find(vocab, text, n) >= 0)
        return CLEF_OK;
    return clef__vocab_map_put(&vocab->by_text, token->text, n, (int32_t)id, err);
}

clef_status clef__vocab_prefer_last(clef__vocab *vocab, clef_error *err)
{
    clef_status st = CLEF_OK;
    for (int32_t id = 0; id < vocab->n_tokens && st == CLEF_OK; id++) {
        const clef__token *token = &vocab->tokens[id];
        if ((token->flags & CLEF_TOKEN_PRESENT) && clef__vocab_find(vocab, token->text, token->n_text) < id)
            st = clef__vocab_map_put(&vocab->by_text, token->text, token->n_text, id, err);
    }
    return st;
}

int32_t clef__vocab_find(const clef__vocab *vocab, const char *text, size_t n)
{
    return clef__vocab_map_get(&vocab->by_text, text, n);
}

clef_status clef__vocab_add(clef__vocab *vocab, const clef__added_token *like, int special, clef_error *err)
{
    if (like->id < 0 || like->id >= vocab->n_tokens ||
        !(vocab->tokens[like->id].flags & CLEF_TOKEN_PRESENT)) {
        const clef_status st = clef__vocab_set(vocab, like->id, like->text, like->n, err);
        if (st)
            return st;
        vocab->tokens[like->id].flags |= CLEF_TOKEN_OUTSIDE_MODEL;
    }
    clef__token *token = &vocab->tokens[like->id];
    if (token->n_text != like->n || memcmp(token->text, like->text, like->n) != 0) {
        char a[64], b[64];
        return clef__fail(err, CLEF_E_FORMAT,
                          "added token \"%s\" has id %d, which is \"%s\" in the vocabulary",
                          clef__quote_text(like->text, like->n, a), like->id,
                          clef__quote_text(token->text, token->n_text, b));
    }
    if (special)
        token->flags |= CLEF_TOKEN_SPECIAL;
    if (like->n == 0)
        return CLEF_OK; /* an empty text is never found */
    if (vocab->n_added == vocab->added_capacity) {
        const size_t capacity = vocab->added_capacity ? vocab->added_capacity * 2 : 16;
        clef__added_token *added = realloc(vocab->added, capacity * sizeof *added);
        if (!added)
            return clef__fail(err, CLEF_E_NOMEM, "added tokens: no memory for %zu", capacity);
        vocab->added = added;
        vocab->added_capacity = capacity;
    }
    vocab->added[vocab->n_added] = *like;
    vocab->added[vocab->n_added++].text = token->text;
    return CLEF_OK;
}

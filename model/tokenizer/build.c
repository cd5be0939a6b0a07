/* Putting a tokenizer together: memory, the table of tokens, the last step before use. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"

/* ---- memory */

clef_status clef__chars_reserve(clef_chars *chars, size_t n_more, clef_error *err)
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

clef_status clef__chars_append(clef_chars *chars, const char *text, size_t n, clef_error *err)
{
    const clef_status st = clef__chars_reserve(chars, n, err);
    if (st == CLEF_OK && n > 0) {
        memcpy(chars->at + chars->n, text, n);
        chars->n += n;
    }
    return st;
}

void clef__chars_finish(clef_chars *chars)
{
    free(chars->at);
    *chars = (clef_chars){0};
}

clef_status clef__ids_push(clef_ids *ids, int32_t id, clef_error *err)
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

struct clef_token_block {
    clef_token_block *before;
    size_t n_bytes;
    char bytes[];
};

char *clef__token_arena_copy(clef_token_arena *arena, const char *text, size_t n)
{
    clef_token_block *block = arena->last;
    if (n >= SIZE_MAX / 2)
        return NULL;
    if (!block || n + 1 > block->n_bytes - arena->used) {
        const size_t n_bytes = n + 1 > BLOCK_BYTES ? n + 1 : BLOCK_BYTES;
        block = malloc(sizeof *block + n_bytes);
        if (!block)
            return NULL;
        block->before = arena->last;
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

void clef__token_arena_finish(clef_token_arena *arena)
{
    for (clef_token_block *block = arena->last, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    *arena = (clef_token_arena){0};
}

/* ---- the table of tokens */

const char *clef__token_quote(const char *text, size_t n, char *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < n && shown < 48; i++)
        out[shown++] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
    out[shown] = 0;
    if (n > 48)
        memcpy(out + 45, "...", 4);
    return out;
}

/* The marks around one text, and around each of two, the second of type 1. */
static void make_templates(clef_tokenizer *tok)
{
    clef_template *both[] = {&tok->single, &tok->pair};
    for (int32_t t = 0; t < 2; t++) {
        clef_template *to = both[t];
        to->n = 0;
        for (int32_t part = 0; part <= t; part++) {
            for (int32_t i = 0; i < tok->n_before; i++, to->n++)
                to->items[to->n].id = tok->before[i], to->items[to->n].type = part;
            to->items[to->n].id = part ? CLEF_TEMPLATE_B : CLEF_TEMPLATE_A;
            to->items[to->n++].type = part;
            for (int32_t i = 0; i < tok->n_after; i++, to->n++)
                to->items[to->n].id = tok->after[i], to->items[to->n].type = part;
        }
    }
}

clef_status clef__template_push(const clef_tokenizer *tok, clef_template *to, int64_t id, int32_t type,
                                clef_error *err)
{
    if (id < CLEF_TEMPLATE_B || id >= tok->n_tokens)
        return clef__fail(err, CLEF_E_FORMAT, "post-processor: id %lld is outside the vocabulary of %d",
                          (long long)id, tok->n_tokens);
    if (to->n == CLEF_MAX_TEMPLATE)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "post-processor: a template of more than %d ids and texts",
                          CLEF_MAX_TEMPLATE);
    to->items[to->n].id = (int32_t)id;
    to->items[to->n++].type = type;
    return CLEF_OK;
}

static clef_status mark_pair(clef_tokenizer *tok, int64_t cls, int64_t sep, int is_roberta, clef_error *err)
{
    const int64_t ids[] = {
        cls, CLEF_TEMPLATE_A, sep, is_roberta ? sep : CLEF_TEMPLATE_B, is_roberta ? CLEF_TEMPLATE_B : sep,
        sep};
    clef_status st = clef__tokens_mark(tok, 0, cls, err);
    if (st == CLEF_OK)
        st = clef__tokens_mark(tok, 1, sep, err);
    if (st == CLEF_OK)
        tok->pair.n = 0;
    for (size_t i = 0; i < (is_roberta ? 6u : 5u) && st == CLEF_OK; i++)
        st = clef__template_push(tok, &tok->pair, ids[i], !is_roberta && i >= 3, err);
    return st;
}

clef_status clef__tokens_mark_pair(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err)
{
    return mark_pair(tok, cls, sep, 0, err);
}

clef_status clef__tokens_mark_roberta(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err)
{
    return mark_pair(tok, cls, sep, 1, err);
}

clef_tokenizer *clef__tokenizer_new(void)
{
    clef_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok)
        return NULL;
    tok->bos = tok->eos = tok->unk = tok->sep = tok->pad = tok->cls = tok->mask = -1;
    make_templates(tok);
    for (int i = 0; i < 256; i++)
        tok->raw.roots[i] = tok->normal.roots[i] = -1;
    return tok;
}

clef_status clef__tokens_reserve(clef_tokenizer *tok, int64_t n, clef_error *err)
{
    if (n < 1 || n > INT32_MAX / 2)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: %lld tokens", (long long)n);
    tok->tokens = calloc((size_t)n, sizeof *tok->tokens);
    if (!tok->tokens)
        return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for %lld tokens", (long long)n);
    tok->n_tokens = (int32_t)n;
    return CLEF_OK;
}

clef_status clef__tokens_set(clef_tokenizer *tok, int64_t id, const char *text, size_t n, clef_error *err)
{
    char a[64], b[64];
    if (id < 0 || id >= tok->n_tokens)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: id %lld of token \"%s\" is outside 0 .. %d",
                          (long long)id, clef__token_quote(text, n, a), tok->n_tokens - 1);
    clef_token *token = &tok->tokens[id];
    if (token->flags & CLEF_TOKEN_PRESENT)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: id %lld is both \"%s\" and \"%s\"", (long long)id,
                          clef__token_quote(token->text, token->n_text, a), clef__token_quote(text, n, b));
    if (n > CLEF_MAX_PIECE * 4)
        return clef__fail(err, CLEF_E_LIMIT, "vocabulary: token %lld has %zu bytes, at most %d are taken",
                          (long long)id, n, CLEF_MAX_PIECE * 4);
    token->text = clef__token_arena_copy(&tok->arena, text, n);
    if (!token->text)
        return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for token %lld", (long long)id);
    token->n_text = (uint32_t)n;
    token->flags = CLEF_TOKEN_PRESENT;
    if (clef__tokens_find(tok, text, n) >= 0)
        return CLEF_OK;
    return clef__vocab_map_put(&tok->by_text, token->text, n, (int32_t)id, err);
}

clef_status clef__tokens_prefer_last(clef_tokenizer *tok, clef_error *err)
{
    clef_status st = CLEF_OK;
    for (int32_t id = 0; id < tok->n_tokens && st == CLEF_OK; id++) {
        const clef_token *token = &tok->tokens[id];
        if ((token->flags & CLEF_TOKEN_PRESENT) && clef__tokens_find(tok, token->text, token->n_text) < id)
            st = clef__vocab_map_put(&tok->by_text, token->text, token->n_text, id, err);
    }
    return st;
}

int32_t clef__tokens_find(const clef_tokenizer *tok, const char *text, size_t n)
{
    return clef__vocab_map_get(&tok->by_text, text, n);
}

clef_status clef__tokens_add(clef_tokenizer *tok, const clef_added_token *like, int special, clef_error *err)
{
    if (like->id < 0 || like->id >= tok->n_tokens || !(tok->tokens[like->id].flags & CLEF_TOKEN_PRESENT)) {
        const clef_status st = clef__tokens_set(tok, like->id, like->text, like->n, err);
        if (st)
            return st;
        tok->tokens[like->id].flags |= CLEF_TOKEN_OUTSIDE_MODEL;
    }
    clef_token *token = &tok->tokens[like->id];
    if (token->n_text != like->n || memcmp(token->text, like->text, like->n) != 0) {
        char a[64], b[64];
        return clef__fail(err, CLEF_E_FORMAT,
                          "added token \"%s\" has id %d, which the vocabulary gives to \"%s\"",
                          clef__token_quote(like->text, like->n, a), like->id,
                          clef__token_quote(token->text, token->n_text, b));
    }
    if (special)
        token->flags |= CLEF_TOKEN_SPECIAL;
    if (like->n == 0)
        return CLEF_OK; /* nothing to look for */
    if (tok->n_added == tok->added_capacity) {
        const size_t capacity = tok->added_capacity ? tok->added_capacity * 2 : 16;
        clef_added_token *added = realloc(tok->added, capacity * sizeof *added);
        if (!added)
            return clef__fail(err, CLEF_E_NOMEM, "added tokens: no memory for %zu", capacity);
        tok->added = added;
        tok->added_capacity = capacity;
    }
    tok->added[tok->n_added] = *like;
    tok->added[tok->n_added++].text = token->text;
    return CLEF_OK;
}

clef_status clef__tokens_mark(clef_tokenizer *tok, int after, int64_t id, clef_error *err)
{
    int32_t *n = after ? &tok->n_after : &tok->n_before;
    if (id < 0 || id >= tok->n_tokens)
        return clef__fail(err, CLEF_E_FORMAT, "post-processor: id %lld is outside the vocabulary of %d",
                          (long long)id, tok->n_tokens);
    if (*n == CLEF_MAX_MARKS)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "post-processor: more than %d ids around a text",
                          CLEF_MAX_MARKS);
    (after ? tok->after : tok->before)[(*n)++] = (int32_t)id;
    make_templates(tok);
    return CLEF_OK;
}

/* ---- the last step */

static clef_status keep_piece(clef_tokenizer *tok, const clef_token *token, const clef_chars *piece,
                              const char **out, clef_error *err)
{
    enum { BEFORE = 4 }; /* the U+FFFD of an open character, and a separator */
    if (clef__utf8_repair(piece->at, piece->n, NULL, NULL) > CLEF_MAX_PIECE - BEFORE)
        return clef__fail(err, CLEF_E_LIMIT, "vocabulary: token %d decodes to more than %d bytes",
                          (int)(token - tok->tokens), CLEF_MAX_PIECE - BEFORE);
    *out = token->text;
    if (piece->n != token->n_text || (piece->n > 0 && memcmp(piece->at, token->text, piece->n) != 0))
        *out = clef__token_arena_copy(&tok->arena, piece->at, piece->n);
    return *out ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for the bytes of a token");
}

/* Every piece, with what can stand before it, must fit a stream's output of CLEF_MAX_PIECE. */
static clef_status seal_pieces(clef_tokenizer *tok, clef_error *err)
{
    clef_chars work[2] = {{0}};
    clef_status st = CLEF_OK;
    for (int32_t id = 0; id < tok->n_tokens && st == CLEF_OK; id++) {
        clef_token *token = &tok->tokens[id];
        if (!(token->flags & CLEF_TOKEN_PRESENT))
            continue;
        st = clef__decode_token(tok, 0, token->text, token->n_text, work, err);
        if (st == CLEF_OK)
            st = keep_piece(tok, token, &work[0], &token->piece, err);
        token->n_piece = (uint32_t)work[0].n;
        if (st == CLEF_OK)
            st = clef__decode_token(tok, 1, token->text, token->n_text, work, err);
        if (st || (work[0].n == token->n_piece &&
                   (token->n_piece == 0 || memcmp(work[0].at, token->piece, token->n_piece) == 0)))
            continue;
        st = keep_piece(tok, token, &work[0], &token->first, err);
        token->n_first = (uint32_t)work[0].n;
    }
    clef__chars_finish(&work[0]);
    clef__chars_finish(&work[1]);
    return st;
}

/* A token marked `normalized` is looked for in normalised text, so its own text is normalised first. */
static clef_status seal_added(clef_tokenizer *tok, clef_error *err)
{
    clef_encoding enc = {.tok = tok, .err = err};
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < tok->n_added && st == CLEF_OK; i++) {
        const clef_added_token *added = &tok->added[i];
        clef_span text = {added->text, added->n, 1};
        if (added->where == CLEF_ADDED_NORMALIZED)
            st = clef__normalize(&enc, text, &text);
        if (st == CLEF_OK && text.n > 0)
            st = clef__added_enter(added->where == CLEF_ADDED_RAW ? &tok->raw : &tok->normal, text.text,
                                   text.n, (int32_t)i, err);
    }
    clef__encoding_finish(&enc);
    return st;
}

clef_status clef__tokenizer_seal(clef_tokenizer *tok, clef_error *err)
{
    const clef_status st = seal_pieces(tok, err);
    return st ? st : seal_added(tok, err);
}

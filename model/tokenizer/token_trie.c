/* Builds the trie of a vocabulary's tokens. */
#include "model/tokenizer/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"

typedef struct entry {
    const char *p;
    uint32_t n;
    int32_t id;
} entry;

static int order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    if (order || x->n != y->n)
        return order ? order : (x->n > y->n) - (x->n < y->n);
    return (x->id > y->id) - (x->id < y->id);
}

/* The number of characters of a plain token, else 0. */
static uint8_t count_plain(const char *p, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0, size; i < n; i += size, count++) {
        uint32_t code = 0;
        if (clef__utf8_read(p + i, n - i, &code, &size) != CLEF_UTF8_OK || code < 0x20 || code == '"' ||
            code == '\\')
            return 0;
    }
    return (uint8_t)count; /* a token has CLEF__MAX_TOKEN_DEPTH bytes at most */
}

static int alloc_trie(clef_token_trie *t, size_t n_nodes)
{
    t->byte = calloc(n_nodes + 1, 1);
    t->depth = calloc(n_nodes + 1, 1);
    t->wild = calloc(n_nodes + 1, 1);
    t->skip = calloc(n_nodes + 1, sizeof *t->skip);
    t->tokens = calloc(n_nodes + 1, sizeof *t->tokens);
    t->ids = calloc((size_t)t->n_tokens + 1, sizeof *t->ids);
    t->n_chars = calloc((size_t)t->n_tokens + 1, 1);
    t->plain = calloc(((size_t)t->n_vocab + 31) / 32 + 1, sizeof *t->plain);
    return t->byte && t->depth && t->wild && t->skip && t->tokens && t->ids && t->n_chars && t->plain;
}

static size_t shared(const entry *a, const entry *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->p[n] == b->p[n])
        n++;
    return n;
}

static size_t count_nodes(const entry *e, uint32_t n)
{
    size_t nodes = 1;
    for (uint32_t i = 0; i < n; i++)
        nodes += e[i].n - (i ? shared(&e[i - 1], &e[i]) : 0);
    return nodes;
}

static void fill(clef_token_trie *t, const entry *e)
{
    uint32_t path[CLEF__MAX_TOKEN_DEPTH + 1] = {0}, depth = 0, n = 1;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        const uint32_t same = i ? (uint32_t)shared(&e[i - 1], &e[i]) : 0;
        for (; depth > same; depth--)
            t->skip[path[depth]] = n;
        for (; depth < e[i].n; n++) {
            t->byte[n] = (uint8_t)e[i].p[depth];
            t->depth[n] = (uint8_t)++depth;
            t->tokens[n] = i;
            path[depth] = n;
        }
        t->ids[i] = e[i].id;
        t->n_chars[i] = count_plain(e[i].p, e[i].n);
        for (uint32_t d = 0; d <= depth && !t->n_chars[i]; d++)
            t->wild[path[d]] = 1;
        if (t->n_chars[i])
            t->plain[e[i].id / 32] |= 1u << e[i].id % 32;
    }
    for (; depth > 0; depth--)
        t->skip[path[depth]] = n;
    t->skip[0] = n;
    t->tokens[n] = t->n_tokens;
    t->n_nodes = n;
}

static uint32_t collect(clef_token_trie *t, const clef_tokenizer *tok, entry *e)
{
    uint32_t n = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const clef__token *token = &tok->vocab.tokens[id];
        if (!(token->flags & CLEF_TOKEN_PRESENT) || (token->flags & CLEF_TOKEN_SPECIAL) || !token->n_piece ||
            token->n_piece > CLEF__MAX_TOKEN_DEPTH)
            continue;
        t->texts[id] = token->piece;
        t->n_text[id] = (uint16_t)token->n_piece;
        e[n++] = (entry){token->piece, (uint32_t)token->n_piece, id};
    }
    return n;
}

clef_status clef_token_trie_create(const clef_tokenizer *tok, const int32_t *ends, int32_t n_ends,
                                   clef_token_trie **out, clef_error *err)
{
    *out = NULL;
    clef_token_trie *t = calloc(1, sizeof *t);
    entry *e = NULL;
    clef_status s = CLEF_OK;
    if (!t)
        return clef__fail(err, CLEF_E_NOMEM, "token trie: out of host memory");
    t->tok = tok;
    t->n_vocab = tok->vocab.n_tokens;
    if (n_ends < 0 || n_ends > (int32_t)(sizeof t->ends / sizeof *t->ends))
        s = clef__fail(err, CLEF_E_ARG, "token trie: %d tokens that end a text, expected 16 at most", n_ends);
    for (int32_t i = 0; i < n_ends && !s; i++) {
        t->ends[t->n_ends++] = ends[i];
        if (ends[i] < 0 || ends[i] >= t->n_vocab)
            s = clef__fail(err, CLEF_E_ARG, "token trie: id %d, expected 0 to %d", ends[i], t->n_vocab - 1);
    }
    if (!s) {
        e = malloc(((size_t)t->n_vocab + 1) * sizeof *e);
        t->texts = calloc((size_t)t->n_vocab + 1, sizeof *t->texts);
        t->n_text = calloc((size_t)t->n_vocab + 1, sizeof *t->n_text);
        if (e && t->texts && t->n_text) {
            t->n_tokens = collect(t, tok, e);
            qsort(e, t->n_tokens, sizeof *e, order);
        }
        if (!e || !t->texts || !t->n_text || !alloc_trie(t, count_nodes(e, t->n_tokens)))
            s = clef__fail(err, CLEF_E_NOMEM, "token trie: out of host memory");
        else
            fill(t, e);
    }
    free(e);
    if (s)
        clef_token_trie_destroy(t);
    else
        *out = t;
    return s;
}

void clef_token_trie_destroy(clef_token_trie *t)
{
    if (!t)
        return;
    free(t->byte);
    free(t->depth);
    free(t->wild);
    free(t->skip);
    free(t->tokens);
    free(t->ids);
    free(t->n_chars);
    free(t->plain);
    free(t->texts);
    free(t->n_text);
    free(t);
}

int32_t clef_token_trie_mask_words(const clef_token_trie *t)
{
    return (t->n_vocab + 31) / 32;
}

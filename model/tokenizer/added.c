/* Added tokens: a trie finds the leftmost and then the longest one in the text. Of Hugging Face's options,
 * lstrip and rstrip extend a match over adjacent spaces, and single_word rejects a match inside a word. */
#include <stdlib.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"

static clef_status new_node(clef__added_trie *trie, uint8_t byte, int32_t next, int32_t *out, clef_error *err)
{
    if (trie->n == trie->capacity) {
        const size_t capacity = trie->capacity ? trie->capacity * 2 : 64;
        clef__added_node *nodes =
            capacity < (size_t)INT32_MAX ? realloc(trie->nodes, capacity * sizeof *nodes) : NULL;
        if (!nodes)
            return clef__fail(err, CLEF_E_NOMEM, "added tokens: no memory for %zu trie nodes", capacity);
        trie->nodes = nodes;
        trie->capacity = capacity;
    }
    trie->nodes[trie->n] = (clef__added_node){.child = -1, .next = next, .token = -1, .byte = byte};
    *out = (int32_t)trie->n++;
    return CLEF_OK;
}

static int32_t child_of(const clef__added_trie *trie, int32_t node, uint8_t byte)
{
    if (node < 0)
        return trie->roots[byte];
    int32_t child = trie->nodes[node].child;
    while (child >= 0 && trie->nodes[child].byte != byte)
        child = trie->nodes[child].next;
    return child;
}

clef_status clef__added_enter(clef__added_trie *trie, const char *text, size_t n, int32_t token,
                              clef_error *err)
{
    int32_t node = -1;
    for (size_t i = 0; i < n; i++) {
        const uint8_t byte = (uint8_t)text[i];
        int32_t child = child_of(trie, node, byte);
        if (child < 0) {
            const clef_status st = new_node(trie, byte, node < 0 ? -1 : trie->nodes[node].child, &child, err);
            if (st)
                return st;
            if (node < 0)
                trie->roots[byte] = child;
            else
                trie->nodes[node].child = child;
        }
        node = child;
    }
    if (node >= 0 && trie->nodes[node].token < 0)
        trie->nodes[node].token = token;
    return CLEF_OK;
}

void clef__added_finish(clef__added_trie *trie)
{
    free(trie->nodes);
    trie->nodes = NULL;
    trie->n = trie->capacity = 0;
}

/* Finds the longest token at text[at]. Returns its length in bytes, 0 if there is none. */
static size_t longest_at(const clef__added_trie *trie, const char *text, size_t n, size_t at, int32_t *token)
{
    size_t length = 0;
    int32_t node = -1;
    for (size_t i = at; i < n; i++) {
        node = child_of(trie, node, (uint8_t)text[i]);
        if (node < 0)
            break;
        if (trie->nodes[node].token >= 0) {
            *token = trie->nodes[node].token;
            length = i + 1 - at;
        }
    }
    return length;
}

static uint32_t char_before(const char *text, size_t at, size_t *start)
{
    size_t i = at - 1, size;
    uint32_t code = 0;
    while (i > 0 && ((unsigned char)text[i] & 0xC0) == 0x80)
        i--;
    clef__utf8_read(text + i, at - i, &code, &size);
    *start = i;
    return code;
}

static uint32_t char_at(const char *text, size_t n, size_t at, size_t *size)
{
    uint32_t code = 0;
    clef__utf8_read(text + at, n - at, &code, size);
    return code;
}

static int inside_word(clef__fragment in, size_t start, size_t end)
{
    size_t unused;
    return (start > 0 && clef__is_word(char_before(in.text, start, &unused))) ||
           (end < in.n && clef__is_word(char_at(in.text, in.n, end, &unused)));
}

static clef_status send_rest(clef__encoding *enc, clef__fragment in, size_t from, size_t to,
                             clef_status (*rest)(clef__encoding *, clef__fragment))
{
    if (from >= to)
        return CLEF_OK;
    return rest(enc, clef__fragment_part(in, from, to));
}

/* Whether a part of the whole text has bytes in which no special token is recognised. */
int clef__is_plain(const clef__encoding *enc, const char *from, size_t n)
{
    size_t low = 0, high = enc->n_plain; /* the first span that ends behind `from` */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (enc->text + enc->plain[middle].end <= from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < enc->n_plain && enc->text + enc->plain[low].begin < from + n;
}

/* In the text as given each token is looked at alone; normalised text has no places in it any more. */
static int is_refused(const clef__added_trie *trie, const clef__encoding *enc, int32_t token, const char *at,
                      size_t n)
{
    if (!enc->n_plain || !(enc->vocab->tokens[enc->vocab->added[token].id].flags & CLEF_TOKEN_SPECIAL))
        return 0;
    return trie == &enc->vocab->raw ? clef__is_plain(enc, at, n) : enc->is_plain;
}

clef_status clef__added_split(const clef__added_trie *trie, clef__encoding *enc, clef__fragment in,
                              clef_status (*rest)(clef__encoding *enc, clef__fragment piece))
{
    if (trie->n == 0)
        return send_rest(enc, in, 0, in.n, rest);
    clef_status st = CLEF_OK;
    size_t done = 0;
    for (size_t at = 0; at < in.n && st == CLEF_OK;) {
        int32_t token = -1;
        const size_t length =
            trie->roots[(uint8_t)in.text[at]] < 0 ? 0 : longest_at(trie, in.text, in.n, at, &token);
        if (length == 0 || is_refused(trie, enc, token, in.text + at, length)) {
            at++;
            continue;
        }
        const clef__added_token *added = &enc->vocab->added[token];
        size_t start = at, end = at + length, size;
        at = end; /* The search continues right after the match, even if single_word rejects it or rstrip
                     extends it. */
        if (added->single_word && inside_word(in, start, end))
            continue;
        if (added->lstrip)
            for (size_t before; start > done && clef__is_space(char_before(in.text, start, &before));)
                start = before;
        if (added->lstrip && start < done)
            start = done;
        if (added->rstrip)
            while (end < in.n && clef__is_space(char_at(in.text, in.n, end, &size)))
                end += size;
        st = send_rest(enc, in, done, start, rest);
        if (st == CLEF_OK && start < end)
            st = clef__ids_push(&enc->ids, added->id, enc->err);
        done = end;
    }
    return st ? st : send_rest(enc, in, done, in.n, rest);
}

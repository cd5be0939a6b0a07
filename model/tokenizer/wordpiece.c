/* WordPiece (Schuster and Nakajima 2012; as in Devlin et al. 2018) cuts each word into the longest pieces
 * from its left. Pieces inside a word have a prefix ("##"). A word that cannot be cut is one <unk>.
 * WordLevel: each word is one token or <unk>. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/tokenizer/byte_trie.h"
#include "model/tokenizer/models.h"

typedef struct wordpiece {
    clef__token_model base;
    clef__byte_trie starts, inner; /* pieces at a word's start; pieces inside a word, without their prefix */
    int32_t unk;
    size_t max_chars;
} wordpiece;

static size_t count_chars(const char *text, size_t n)
{
    size_t n_chars = 0;
    for (size_t i = 0; i < n; i++)
        n_chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n_chars;
}

static clef_status encode_wordpiece(const clef__token_model *model, clef__encoding *enc, const char *text,
                                    size_t n)
{
    const wordpiece *self = (const wordpiece *)model;
    const size_t n_before = enc->ids.n;
    clef_status st = CLEF_OK;
    size_t at = count_chars(text, n) > self->max_chars ? SIZE_MAX : 0, size;
    while (at < n && st == CLEF_OK) {
        int32_t id = -1;
        size = clef__byte_trie_longest(at ? &self->inner : &self->starts, text + at, n - at, &id);
        if (size == 0)
            break;
        st = clef__ids_push(&enc->ids, id, enc->err);
        at += size;
    }
    if (st || at == n)
        return st;
    enc->ids.n = n_before; /* the whole word is unknown */
    return clef__ids_push(&enc->ids, self->unk, enc->err);
}

static clef_status encode_wordlevel(const clef__token_model *model, clef__encoding *enc, const char *text,
                                    size_t n)
{
    const wordpiece *self = (const wordpiece *)model;
    const int32_t id = clef__vocab_find(enc->vocab, text, n);
    if (id >= 0 && !(enc->vocab->tokens[id].flags & CLEF_TOKEN_OUTSIDE_MODEL))
        return clef__ids_push(&enc->ids, id, enc->err);
    return self->unk >= 0 ? clef__ids_push(&enc->ids, self->unk, enc->err) : CLEF_OK;
}

static void destroy_model(clef__token_model *model)
{
    wordpiece *self = (wordpiece *)model;
    clef__byte_trie_finish(&self->starts);
    clef__byte_trie_finish(&self->inner);
    free(self);
}

static clef_status enter_pieces(wordpiece *self, const clef__vocab *vocab, const clef__wordpiece_opts *opts,
                                clef_error *err)
{
    clef_status st = CLEF_OK;
    for (int32_t id = 0; id < vocab->n_tokens && st == CLEF_OK; id++) {
        const clef__token *token = &vocab->tokens[id];
        const int present = (token->flags & CLEF_TOKEN_PRESENT) && token->n_text > 0;
        if (!present || clef__vocab_find(vocab, token->text, token->n_text) != id)
            continue;
        st = clef__byte_trie_put(&self->starts, token->text, token->n_text, id, err);
        if (st == CLEF_OK && token->n_text > opts->n_prefix &&
            memcmp(token->text, opts->prefix, opts->n_prefix) == 0)
            st = clef__byte_trie_put(&self->inner, token->text + opts->n_prefix,
                                     token->n_text - opts->n_prefix, id, err);
    }
    return st;
}

static wordpiece *create_model(const clef__vocab *vocab, int32_t unk, clef__token_model **out)
{
    wordpiece *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->base = (clef__token_model){.destroy = destroy_model, .vocab = vocab};
    self->unk = unk;
    *out = &self->base;
    return self;
}

clef_status clef__wordpiece_create(const clef__vocab *vocab, const clef__wordpiece_opts *opts,
                                   clef__token_model **out, clef_error *err)
{
    wordpiece *self = create_model(vocab, opts->unk, out);
    if (!self)
        return clef__fail(err, CLEF_E_NOMEM, "WordPiece: no memory");
    self->base.encode = encode_wordpiece;
    self->base.kind = CLEF_TOKENIZER_WORDPIECE;
    self->max_chars = opts->max_chars;
    return enter_pieces(self, vocab, opts, err);
}

clef_status clef__wordlevel_create(const clef__vocab *vocab, int32_t unk, clef__token_model **out,
                                   clef_error *err)
{
    wordpiece *self = create_model(vocab, unk, out);
    if (!self)
        return clef__fail(err, CLEF_E_NOMEM, "WordLevel: no memory");
    self->base.encode = encode_wordlevel;
    return CLEF_OK;
}

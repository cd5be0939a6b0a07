/* Building a tokenizer: the special tokens around its texts, and the last step before use. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"

/* Makes both templates: the special tokens around one text, and around each of two. The second text and its
 * special tokens have type 1. */
static void make_templates(clef_tokenizer *tok)
{
    clef__template *both[] = {&tok->single, &tok->pair};
    for (int32_t t = 0; t < 2; t++) {
        clef__template *to = both[t];
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

clef_status clef__template_push(const clef_tokenizer *tok, clef__template *to, int64_t id, int32_t type,
                                clef_error *err)
{
    if (id < CLEF_TEMPLATE_B || id >= tok->vocab.n_tokens)
        return clef__fail(err, CLEF_E_FORMAT, "post-processor: id %lld is outside the vocabulary of %d",
                          (long long)id, tok->vocab.n_tokens);
    if (to->n == CLEF_MAX_TEMPLATE)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "post-processor: a template of more than %d ids and texts",
                          CLEF_MAX_TEMPLATE);
    to->items[to->n].id = (int32_t)id;
    to->items[to->n++].type = type;
    return CLEF_OK;
}

static clef_status add_pair(clef_tokenizer *tok, int64_t cls, int64_t sep, int is_roberta, clef_error *err)
{
    const int64_t ids[] = {
        cls, CLEF_TEMPLATE_A, sep, is_roberta ? sep : CLEF_TEMPLATE_B, is_roberta ? CLEF_TEMPLATE_B : sep,
        sep};
    clef_status st = clef__template_add(tok, CLEF_BEFORE_TEXT, cls, err);
    if (st == CLEF_OK)
        st = clef__template_add(tok, CLEF_AFTER_TEXT, sep, err);
    if (st == CLEF_OK)
        tok->pair.n = 0;
    for (size_t i = 0; i < (is_roberta ? 6u : 5u) && st == CLEF_OK; i++)
        st = clef__template_push(tok, &tok->pair, ids[i], !is_roberta && i >= 3, err);
    return st;
}

clef_status clef__template_bert(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err)
{
    return add_pair(tok, cls, sep, 0, err);
}

clef_status clef__template_roberta(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err)
{
    return add_pair(tok, cls, sep, 1, err);
}

clef_tokenizer *clef__tokenizer_new(void)
{
    clef_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok)
        return NULL;
    clef__vocab_init(&tok->vocab);
    tok->bos = tok->eos = tok->unk = tok->sep = tok->pad = tok->cls = tok->mask = -1;
    tok->fim[0] = tok->fim[1] = tok->fim[2] = -1;
    make_templates(tok);
    return tok;
}

clef_status clef__template_add(clef_tokenizer *tok, clef__text_side side, int64_t id, clef_error *err)
{
    const int after = side == CLEF_AFTER_TEXT;
    int32_t *n = after ? &tok->n_after : &tok->n_before;
    if (id < 0 || id >= tok->vocab.n_tokens)
        return clef__fail(err, CLEF_E_FORMAT, "post-processor: id %lld is outside the vocabulary of %d",
                          (long long)id, tok->vocab.n_tokens);
    if (*n == CLEF_MAX_AROUND)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "post-processor: more than %d special tokens on one side of a text",
                          CLEF_MAX_AROUND);
    (after ? tok->after : tok->before)[(*n)++] = (int32_t)id;
    make_templates(tok);
    return CLEF_OK;
}

/* ---- the last step */

static clef_status keep_piece(clef_tokenizer *tok, const clef__token *token, const clef__chars *piece,
                              const char **out, clef_error *err)
{
    /* room for a U+FFFD (the previous token's unfinished character), a separator, and what cleaning held back
     */
    enum { BEFORE = 4 + CLEF_CLEAN_HELD };
    if (clef__utf8_repair(piece->at, piece->n, NULL, NULL) > CLEF_MAX_PIECE - BEFORE)
        return clef__fail(err, CLEF_E_LIMIT, "vocabulary: token %d decodes to more than %d bytes",
                          (int)(token - tok->vocab.tokens), CLEF_MAX_PIECE - BEFORE);
    *out = token->text;
    if (piece->n != token->n_text || (piece->n > 0 && memcmp(piece->at, token->text, piece->n) != 0))
        *out = clef__text_arena_copy(&tok->vocab.texts, piece->at, piece->n);
    return *out ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for the bytes of a token");
}

/* Decodes one token from its text. With a U+FFFD and a separator before it, it must fit CLEF_MAX_PIECE. */
static clef_status seal_piece(clef_tokenizer *tok, clef__token *token, const char *text, size_t n,
                              clef__chars work[2], clef_error *err)
{
    clef_status st = clef__decode_token(&tok->stages, 0, text, n, work, err);
    if (st == CLEF_OK)
        st = keep_piece(tok, token, &work[0], &token->piece, err);
    token->n_piece = (uint32_t)work[0].n;
    token->first = NULL;
    if (st == CLEF_OK)
        st = clef__decode_token(&tok->stages, 1, text, n, work, err);
    if (st || (work[0].n == token->n_piece &&
               (token->n_piece == 0 || memcmp(work[0].at, token->piece, token->n_piece) == 0)))
        return st;
    token->n_first = (uint32_t)work[0].n;
    return keep_piece(tok, token, &work[0], &token->first, err);
}

static clef_status seal_pieces(clef_tokenizer *tok, clef_error *err)
{
    clef__chars work[2] = {{0}};
    clef_status st = CLEF_OK;
    for (int32_t id = 0; id < tok->vocab.n_tokens && st == CLEF_OK; id++) {
        clef__token *token = &tok->vocab.tokens[id];
        if (token->flags & CLEF_TOKEN_PRESENT)
            st = seal_piece(tok, token, token->text, token->n_text, work, err);
    }
    clef__chars_finish(&work[0]);
    clef__chars_finish(&work[1]);
    return st;
}

/* An added token that is searched in normalised text decodes to its normalised text. If it is special,
 * tokenizers no longer sees that, and shows it. */
static clef_status decode_as(clef_tokenizer *tok, int32_t id, clef__fragment text, clef_error *err)
{
    clef__chars work[2] = {{0}};
    clef__token *token = &tok->vocab.tokens[id];
    const int32_t same = clef__vocab_find(&tok->vocab, text.text, text.n);
    if ((token->flags & CLEF_TOKEN_SPECIAL) &&
        (same < 0 || !(tok->vocab.tokens[same].flags & CLEF_TOKEN_SPECIAL)))
        token->flags |= CLEF_TOKEN_SHOWN;
    const clef_status st = seal_piece(tok, token, text.text, text.n, work, err);
    clef__chars_finish(&work[0]);
    clef__chars_finish(&work[1]);
    return st;
}

/* Adds the added tokens to their tries. A token marked `normalized` is searched in normalised text, so its
 * own text is normalised first. */
static clef_status seal_added(clef_tokenizer *tok, clef_error *err)
{
    clef__encoding enc = {.vocab = &tok->vocab, .stages = &tok->stages, .model = tok->model, .err = err};
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < tok->vocab.n_added && st == CLEF_OK; i++) {
        const clef__added_token *added = &tok->vocab.added[i];
        const int normalized = added->where == CLEF_ADDED_NORMALIZED;
        clef__fragment text = {added->text, added->n, 0};
        if (normalized || added->decodes_normalized)
            st = clef__normalize(&enc, text, &text);
        if (st == CLEF_OK && normalized && text.n == 0 && added->n > 0) /* it would be found everywhere */
            st = clef__fail(err, CLEF_E_UNSUPPORTED,
                            "added token %d: the normalizer leaves nothing of its text", (int)added->id);
        if (st == CLEF_OK && (text.n != added->n || memcmp(text.text, added->text, text.n) != 0))
            st = decode_as(tok, added->id, text, err);
        if (!normalized)
            text = (clef__fragment){added->text, added->n, 0};
        if (st == CLEF_OK && text.n > 0)
            st = clef__added_enter(added->where == CLEF_ADDED_RAW ? &tok->vocab.raw : &tok->vocab.normal,
                                   text.text, text.n, (int32_t)i, err);
    }
    clef__encoding_finish(&enc);
    return st;
}

clef_status clef__tokenizer_seal(clef_tokenizer *tok, clef_error *err)
{
    clef_status st = seal_pieces(tok, err);
    if (st == CLEF_OK)
        st = seal_added(tok, err);
    return st || !tok->model->seal ? st : tok->model->seal(tok->model, err);
}

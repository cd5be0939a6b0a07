/* The size and the special tokens of an open tokenizer, and closing it. */
#include "model/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

void clef_tokenizer_close(clef_tokenizer *tok)
{
    if (!tok)
        return;
    if (tok->model)
        tok->model->destroy(tok->model);
    clef__stages_finish(&tok->stages);
    clef__vocab_finish(&tok->vocab);
    free(tok);
}

int32_t clef_tokenizer_n_tokens(const clef_tokenizer *tok)
{
    return tok ? tok->vocab.n_tokens : 0;
}

clef_tokenizer_kind clef_tokenizer_kind_of(const clef_tokenizer *tok)
{
    return tok->model->kind;
}

int32_t clef_tokenizer_bos(const clef_tokenizer *tok)
{
    return tok ? tok->bos : -1;
}

int32_t clef_tokenizer_eos(const clef_tokenizer *tok)
{
    return tok ? tok->eos : -1;
}

int32_t clef_tokenizer_leading_bos(const clef_tokenizer *tok)
{
    const clef__template *form = tok ? &tok->single : NULL;
    return form && form->n && form->items[0].id == tok->bos ? tok->bos : -1;
}

clef_status clef_tokens_begin_with(int32_t id, int32_t **ids, int32_t *n, clef_error *err)
{
    if (*n && (*ids)[0] == id)
        return CLEF_OK;
    int32_t *more = realloc(*ids, ((size_t)*n + 1) * sizeof *more);
    if (!more)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %lld ids", (long long)*n + 1);
    memmove(more + 1, more, (size_t)*n * sizeof *more);
    more[0] = id;
    *ids = more;
    ++*n;
    return CLEF_OK;
}

int32_t clef_tokenizer_role(const clef_tokenizer *tok, clef_token_role role)
{
    if (!tok || (unsigned)role > CLEF_ROLE_FIM_MIDDLE)
        return -1;
    const int32_t ids[] = {tok->bos, tok->eos,  tok->unk,    tok->sep,    tok->pad,
                           tok->cls, tok->mask, tok->fim[0], tok->fim[1], tok->fim[2]};
    return ids[role];
}

static const clef__token *token_of(const clef_tokenizer *tok, int32_t id)
{
    const int is_one = tok && id >= 0 && id < tok->vocab.n_tokens;
    return is_one && (tok->vocab.tokens[id].flags & CLEF_TOKEN_PRESENT) ? &tok->vocab.tokens[id] : NULL;
}

const char *clef_tokenizer_bytes(const clef_tokenizer *tok, int32_t id, size_t *n)
{
    const clef__token *t = token_of(tok, id);
    const int is_special = t && (t->flags & CLEF_TOKEN_SPECIAL);
    *n = !t ? 0 : is_special ? t->n_text : t->n_piece;
    return !t ? NULL : is_special ? t->text : t->piece;
}

int32_t clef_tokenizer_is_special(const clef_tokenizer *tok, int32_t id)
{
    const clef__token *t = token_of(tok, id);
    return t && (t->flags & CLEF_TOKEN_SPECIAL);
}

int32_t clef_tokenizer_find(const clef_tokenizer *tok, const char *text)
{
    return tok && text ? clef__vocab_find(&tok->vocab, text, strlen(text)) : -1;
}

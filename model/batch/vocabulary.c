/* Whether two models have the same tokens. */
#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/batch/batch.h"
#include "model/tokenizer/tokenizer.h"

enum { SHOWN = 80 /* bytes of a token's text in a message */ };

/* The text of a token, short and printable. */
static const char *shown(const clef__token *t, char out[4 * SHOWN + 1])
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_text && i < SHOWN; i++) {
        const uint8_t byte = (uint8_t)t->text[i];
        n += (size_t)snprintf(out + n, 5, byte < ' ' || byte == 127 ? "\\x%02x" : "%c", byte);
    }
    out[n] = 0;
    return out;
}

static const char *kind(const clef__token *t)
{
    return t->flags & CLEF_TOKEN_SPECIAL  ? "special"
           : t->flags & CLEF_TOKEN_BYTE   ? "a byte"
           : t->flags & CLEF_TOKEN_UNUSED ? "unused"
                                          : "text";
}

static int is_same(const clef__token *a, const clef__token *b)
{
    return a->n_text == b->n_text && strcmp(kind(a), kind(b)) == 0 &&
           (a->n_text == 0 || memcmp(a->text, b->text, a->n_text) == 0);
}

clef_status clef__same_vocabulary(clef_model *model, clef_model *draft, clef_error *err)
{
    const char *name = clef_model_path(draft), *of = clef_model_path(model);
    const int32_t n_rows = clef_model_hparams(model)->n_vocab, n_draft = clef_model_hparams(draft)->n_vocab;
    const clef_tokenizer *a = clef_model_tokenizer(model, err),
                         *b = a ? clef_model_tokenizer(draft, err) : NULL;
    if (!b)
        return err ? err->status : CLEF_E_ARG;
    if (n_rows != n_draft || a->vocab.n_tokens != b->vocab.n_tokens)
        return clef__fail(
            err, CLEF_E_ARG,
            "the draft %s has another vocabulary than %s: %d tokens (%d logits), expected %d (%d)", name, of,
            b->vocab.n_tokens, n_draft, a->vocab.n_tokens, n_rows);
    for (int32_t i = 0; i < a->vocab.n_tokens; i++) {
        const clef__token *x = &a->vocab.tokens[i], *y = &b->vocab.tokens[i];
        char x_text[4 * SHOWN + 1], y_text[4 * SHOWN + 1];
        if (!is_same(x, y))
            return clef__fail(
                err, CLEF_E_ARG,
                "the draft %s has another vocabulary than %s: token %d is '%s' (%s), expected '%s' (%s)",
                name, of, i, shown(y, y_text), kind(y), shown(x, x_text), kind(x));
    }
    return CLEF_OK;
}

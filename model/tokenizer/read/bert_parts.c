/* BERT's stages, model and special tokens around a WordPiece vocabulary, whichever file holds it. */
#include "model/file/utf8.h"
#include "model/tokenizer/read/formats.h"
#include "model/tokenizer/unicode.h"

/* A vocabulary with capitals is cased: lowercase text could never become those tokens. */
static int has_capitals(const clef_tokenizer *tok)
{
    for (int32_t id = 0; id < tok->vocab.n_tokens; id++) {
        const clef__token *token = &tok->vocab.tokens[id];
        const int bracketed = token->n_text > 0 && (token->text[0] == '[' || token->text[0] == '<');
        for (uint32_t i = 0; !bracketed && i < token->n_text; i++)
            if (token->text[i] >= 'A' && token->text[i] <= 'Z')
                return 1;
    }
    return 0;
}

static clef_status add_specials(clef_tokenizer *tok, clef_error *err)
{
    const int32_t ids[] = {tok->unk, tok->sep, tok->pad, tok->cls, tok->mask};
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && st == CLEF_OK; i++) {
        if (ids[i] < 0 || (tok->vocab.tokens[ids[i]].flags & CLEF_TOKEN_SPECIAL))
            continue;
        const clef__added_token added = {
            .id = ids[i], .text = tok->vocab.tokens[ids[i]].text, .n = tok->vocab.tokens[ids[i]].n_text};
        st = clef__vocab_add(&tok->vocab, &added, 1, err);
    }
    return st;
}

clef_status clef__bert_parts(clef_tokenizer *tok, const clef__token_config *config, const char *name,
                             clef_error *err)
{
    const int32_t lowercase = config->lowercase < 0 ? !has_capitals(tok) : config->lowercase;
    const clef__bert_opts bert = {.clean = 1,
                                  .space_cjk = config->space_cjk != 0,
                                  .strip_accents =
                                      config->strip_accents < 0 ? lowercase : config->strip_accents,
                                  .lowercase = lowercase};
    if (tok->unk < 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: a WordPiece vocabulary without [UNK]", name);
    clef_status st = clef__normalizer_bert(&tok->stages, &bert, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_chars(&tok->stages, clef__is_space, CLEF_SPLIT_REMOVED, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_chars(&tok->stages, clef__is_punctuation, CLEF_SPLIT_ISOLATED, err);
    if (st == CLEF_OK)
        st = clef__wordpiece_create(
            &tok->vocab,
            &(clef__wordpiece_opts){.prefix = "##", .n_prefix = 2, .max_chars = 100, .unk = tok->unk},
            &tok->model, err);
    if (st == CLEF_OK)
        st = clef__decoder_wordpiece(&tok->stages, "##", 2, 1, err);
    if (st == CLEF_OK)
        st = add_specials(tok, err);
    if (st == CLEF_OK && tok->cls >= 0 && tok->sep >= 0)
        st = clef__template_bert(tok, tok->cls, tok->sep, err);
    return st ? st : clef__tokenizer_seal(tok, err);
}

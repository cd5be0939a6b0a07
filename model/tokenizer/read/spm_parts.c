/* SentencePiece's vocabulary (Kudo and Richardson 2018, arXiv:1808.06226), for either of its models, and what
 * happens to spaces. */
#include "model/tokenizer/tokenizer.h"

#define SPACE_MARK "\xE2\x96\x81" /* U+2581 */

clef_status clef__spm_create(clef_tokenizer *tok, const clef_spm_opts *opts, clef_spm_model *out,
                             clef_error *err)
{
    *out = (clef_spm_model){0};
    tok->byte_fallback = opts->byte_fallback;
    if (opts->unigram) {
        const clef_unigram_opts unigram = {
            .byte_fallback = opts->byte_fallback, .single = 1, .unk = opts->unk};
        return clef__unigram_create(tok, &unigram, &out->unigram, err);
    }
    const clef_bpe_opts bpe = {.byte_fallback = opts->byte_fallback, .fuse_unk = 1, .unk = opts->unk};
    return clef__bpe_create_scored(tok, &bpe, &out->bpe, err);
}

/* Unused pieces do not merge here. (SentencePiece's BPE lets them and then splits them again, which only
 * vocabularies cut down after training can tell apart.) */
clef_status clef__spm_piece(clef_tokenizer *tok, const clef_spm_model *model, int32_t id, const char *text,
                            size_t n, int64_t type, double score, clef_error *err)
{
    const int special = type == CLEF_PIECE_CONTROL || type == CLEF_PIECE_UNKNOWN;
    const clef_added_token added = {.id = id,
                                    .text = text,
                                    .n = n,
                                    .where = type == CLEF_PIECE_USER_DEFINED ? CLEF_ADDED_AS_WRITTEN
                                                                             : CLEF_ADDED_RAW};
    if (type < CLEF_PIECE_NORMAL || type > CLEF_PIECE_BYTE)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: token %d has type %lld, expected %d .. %d", id,
                          (long long)type, CLEF_PIECE_NORMAL, CLEF_PIECE_BYTE);
    const clef_status st = clef__tokens_set(tok, id, text, n, err);
    if (st)
        return st;
    tok->tokens[id].flags |= type == CLEF_PIECE_UNUSED ? CLEF_TOKEN_UNUSED
                             : type == CLEF_PIECE_BYTE ? CLEF_TOKEN_BYTE
                                                       : 0;
    if (type == CLEF_PIECE_NORMAL && model->unigram)
        return clef__unigram_piece(model->unigram, tok, id, score, err);
    if (type == CLEF_PIECE_NORMAL)
        return n > 0 ? clef__bpe_score(model->bpe, tok, id, score, err) : CLEF_OK;
    return special || type == CLEF_PIECE_USER_DEFINED ? clef__tokens_add(tok, &added, special, err) : CLEF_OK;
}

clef_status clef__spm_seal(const clef_spm_model *model, const clef_tokenizer *tok, clef_error *err)
{
    if (model->unigram)
        clef__unigram_seal(model->unigram, tok);
    return model->bpe ? clef__bpe_seal(model->bpe, tok, err) : CLEF_OK;
}

clef_status clef__spm_stages(clef_tokenizer *tok, const clef_spm_spaces *opts, clef_error *err)
{
    const clef_pattern space = {.text = " ", .n_text = 1};
    tok->spaces = *opts;
    tok->spaces.charsmap = NULL;
    clef_status st =
        clef__normalizer_charsmap(tok, opts->charsmap, opts->n_charsmap, CLEF_CHARSMAP_LONGEST, err);
    if (st == CLEF_OK && opts->squeeze)
        st = clef__normalizer_squeeze(tok, opts->escape, err);
    if (st == CLEF_OK && opts->add_prefix)
        st = clef__normalizer_prepend(tok, " ", 1, err);
    if (st == CLEF_OK && opts->escape)
        st = clef__normalizer_replace(tok, &space, SPACE_MARK, 3, err);
    if (st == CLEF_OK && opts->escape)
        st = clef__decoder_metaspace(tok, SPACE_MARK, 3, 0, err);
    if (st == CLEF_OK)
        st = clef__decoder_byte_fallback(tok, err);
    if (opts->add_prefix)
        tok->first_token = opts->squeeze ? CLEF_FIRST_DROPS_SPACES : CLEF_FIRST_DROPS_SPACE;
    return st;
}

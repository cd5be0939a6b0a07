/* SentencePiece's vocabulary (Kudo and Richardson 2018, arXiv:1808.06226) for either of its models, and its
 * treatment of spaces. */
#include "model/tokenizer/read/formats.h"

#include <string.h>

clef_status clef__spm_create(clef_tokenizer *tok, const clef__spm_opts *opts, clef_error *err)
{
    tok->byte_fallback = opts->byte_fallback;
    if (opts->unigram) {
        const clef__unigram_opts unigram = {
            .byte_fallback = opts->byte_fallback, .single = 1, .unk = opts->unk};
        return clef__unigram_create(&tok->vocab, &unigram, &tok->model, err);
    }
    const clef__bpe_opts bpe = {.byte_fallback = opts->byte_fallback, .fuse_unk = 1, .unk = opts->unk};
    return clef__bpe_create_scored(&tok->vocab, &bpe, &tok->model, err);
}

/* Unused pieces do not merge here. SentencePiece's BPE merges them and then splits them again. The ids
 * differ only for vocabularies that were cut down after training.
 *
 * llama.cpp's converter writes user-defined pieces with spaces where SentencePiece has U+2581, such as
 * Gemma's runs of spaces. They are found in the text as given: after the normalizers it has no space. */
clef_status clef__spm_piece(clef_tokenizer *tok, int32_t id, const char *text, size_t n, int64_t type,
                            double score, clef_error *err)
{
    const int special = type == CLEF_PIECE_CONTROL || type == CLEF_PIECE_UNKNOWN;
    const int escaped = type == CLEF_PIECE_USER_DEFINED && !memchr(text, ' ', n);
    const clef__added_token added = {
        .id = id, .text = text, .n = n, .where = escaped ? CLEF_ADDED_AS_WRITTEN : CLEF_ADDED_RAW};
    if (type < CLEF_PIECE_NORMAL || type > CLEF_PIECE_BYTE)
        return clef__fail(err, CLEF_E_FORMAT, "vocabulary: token %d has type %lld, expected %d .. %d", id,
                          (long long)type, CLEF_PIECE_NORMAL, CLEF_PIECE_BYTE);
    const clef_status st = clef__vocab_set(&tok->vocab, id, text, n, err);
    if (st)
        return st;
    tok->vocab.tokens[id].flags |= type == CLEF_PIECE_UNUSED ? CLEF_TOKEN_UNUSED
                                   : type == CLEF_PIECE_BYTE ? CLEF_TOKEN_BYTE
                                                             : 0;
    if (type == CLEF_PIECE_NORMAL && !clef__is_bpe(tok->model))
        return clef__unigram_piece(tok->model, id, score, err);
    if (type == CLEF_PIECE_NORMAL)
        return n > 0 ? clef__bpe_score(tok->model, id, score, err) : CLEF_OK;
    return special || type == CLEF_PIECE_USER_DEFINED ? clef__vocab_add(&tok->vocab, &added, special, err)
                                                      : CLEF_OK;
}

clef_status clef__spm_finish(clef_tokenizer *tok, const clef__spm_spaces *spaces, clef_error *err)
{
    const clef__pattern space = {.text = " ", .n_text = 1};
    tok->spaces = *spaces;
    tok->spaces.charsmap = NULL;
    clef_status st = clef__normalizer_charsmap(&tok->stages, spaces->charsmap, spaces->n_charsmap,
                                               CLEF_CHARSMAP_LONGEST, err);
    if (st == CLEF_OK && spaces->squeeze)
        st = clef__normalizer_squeeze(&tok->stages, spaces->escape, err);
    if (st == CLEF_OK && spaces->add_prefix)
        st = clef__normalizer_prepend(&tok->stages, " ", 1, err);
    if (st == CLEF_OK && spaces->escape)
        st = clef__normalizer_replace(&tok->stages, &space, CLEF_META_SPACE, 3, err);
    if (st == CLEF_OK && spaces->escape)
        st = clef__decoder_metaspace(&tok->stages, CLEF_META_SPACE, 3, 0, err);
    if (st == CLEF_OK)
        st = clef__decoder_byte_fallback(&tok->stages, err);
    if (spaces->add_prefix)
        tok->stages.first_token = spaces->squeeze ? CLEF_FIRST_DROPS_SPACES : CLEF_FIRST_DROPS_SPACE;
    return st ? st : clef__tokenizer_seal(tok, err);
}

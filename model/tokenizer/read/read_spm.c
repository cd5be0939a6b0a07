/* SentencePiece's tokenizer.model as sentencepiece itself reads it, and tiktoken's lines under that name. */
#include <stdlib.h>

#include "model/tokenizer/read/spm_file.h"
#include "runtime/os/os.h"

static int32_t id_or_none(const clef_tokenizer *tok, int64_t id)
{
    return id >= 0 && id < tok->vocab.n_tokens ? (int32_t)id : -1;
}

static clef_status add_piece(void *to, int32_t id, const clef__spm_piece_text *piece, clef_error *err)
{
    return clef__spm_piece(to, id, piece->text, piece->n, piece->type, piece->score, err);
}

clef_status clef__tokenizer_parse_spm(clef_tokenizer *tok, const void *data, size_t n, const char *name,
                                      clef_error *err)
{
    clef__spm_spec spec;
    clef_status st = clef__spm_spec_read(data, n, name, &spec, err);
    if (st == CLEF_OK)
        st = clef__vocab_reserve(&tok->vocab, spec.n_pieces, err);
    if (st)
        return st;
    const clef__spm_opts opts = {.unigram = spec.model_type == CLEF_SPM_UNIGRAM,
                                 .byte_fallback = spec.byte_fallback != 0,
                                 .unk = id_or_none(tok, spec.unk)};
    st = clef__spm_create(tok, &opts, err);
    if (st == CLEF_OK)
        st = clef__spm_pieces(&spec, add_piece, tok, err);
    tok->bos = id_or_none(tok, spec.bos);
    tok->eos = id_or_none(tok, spec.eos);
    tok->unk = opts.unk;
    tok->pad = id_or_none(tok, spec.pad);
    return st ? st : clef__spm_finish(tok, &spec.spaces, err);
}

/* Adds what the models' own tokenizers add if no file says it: BOS for BPE (Llama, Mistral), EOS for a
 * Unigram without BOS (T5), [CLS] and [SEP] for ALBERT. */
static clef_status add_special_tokens(clef_tokenizer *tok, const clef__token_config *config, int is_bpe,
                                      clef_error *err)
{
    const int32_t cls = clef__vocab_find(&tok->vocab, "[CLS]", 5),
                  sep = clef__vocab_find(&tok->vocab, "[SEP]", 5);
    if (!is_bpe && cls >= 0 && sep >= 0)
        return clef__template_bert(tok, cls, sep, err);
    clef_status st = CLEF_OK;
    if ((config->add_bos < 0 ? is_bpe : config->add_bos) && tok->bos >= 0)
        st = clef__template_add(tok, CLEF_BEFORE_TEXT, tok->bos, err);
    if (st == CLEF_OK && (config->add_eos < 0 ? !is_bpe && tok->bos < 0 : config->add_eos) && tok->eos >= 0)
        st = clef__template_add(tok, CLEF_AFTER_TEXT, tok->eos, err);
    return st;
}

clef_status clef__tokenizer_read_spm(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *data = NULL;
    size_t n = 0;
    clef__token_config config;
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &data, &n, err);
    const int lines = st == CLEF_OK && clef__is_tiktoken(data, n);
    if (lines)
        st = clef__tokenizer_parse_tiktoken(tok, data, n, path, err);
    else if (st == CLEF_OK)
        st = clef__tokenizer_parse_spm(tok, data, n, path, err);
    free(data);
    if (lines)
        return st;
    if (st == CLEF_OK)
        st = clef__tokenizer_read_config(tok, path, &config, err);
    return st ? st : add_special_tokens(tok, &config, tok->model && clef__is_bpe(tok->model), err);
}

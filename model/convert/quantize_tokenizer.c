/* The tokenizer's keys of a file made from a folder. They are llama.cpp's keys (ggml's docs/gguf.md), the
 * whole tokenizer.json where these leave something out, and clef's own keys for the special tokens around a
 * text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/convert/quantize.h"
#include "model/convert/tokenizer_form.h"
#include "model/tokenizer/bpe.h"
#include "runtime/os/os.h"

#define KEY "tokenizer.ggml."
#define LEAVE_OUT " (no_tokenizer, --no-tokenizer: a file without one)"

/* ---- the table of tokens */

static const clef__token *token_at(const clef_tokenizer *tok, int32_t id)
{
    return id < tok->vocab.n_tokens && (tok->vocab.tokens[id].flags & CLEF_TOKEN_PRESENT)
               ? &tok->vocab.tokens[id]
               : NULL;
}

/* How many tokens are written: as many as the model has rows, as llama.cpp expects. Tokens beyond that which
 * were added have no row and are left out; if the tokenizer's own model has such tokens, all are written. */
static int32_t count_written(const clef_tokenizer *tok, int32_t n_vocab)
{
    int32_t n_beyond = 0;
    for (int32_t id = n_vocab; id < tok->vocab.n_tokens; id++)
        n_beyond += token_at(tok, id) != NULL;
    for (size_t i = 0; i < tok->vocab.n_added; i++)
        n_beyond -= tok->vocab.added[i].id >= n_vocab;
    return n_beyond > 0 ? tok->vocab.n_tokens : n_vocab;
}

static clef_status put_texts(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n,
                             clef_gguf_writer *w, clef_error *err)
{
    const int is_bert = strcmp(form->model, "bert") == 0;
    clef__chars word = {0};
    clef_status st = CLEF_OK;
    char unused[32];
    clef__gguf_put_array(w, KEY "tokens", CLEF_GGUF_STRING, (uint64_t)n);
    for (int32_t id = 0; id < n && st == CLEF_OK; id++) {
        const clef__token *t = token_at(tok, id);
        const int bracketed = t && t->n_text > 2 && t->text[0] == '[' && t->text[t->n_text - 1] == ']';
        if (!t) {
            snprintf(unused, sizeof unused, "[PAD%d]", (int)id);
            clef__gguf_add_text(w, unused, strlen(unused));
        } else if (is_bert && !(t->flags & CLEF_TOKEN_SPECIAL) && !bracketed && t->n_text > 0) {
            st = clef__wordpiece_to_gguf(t->text, t->n_text, &word, err);
            clef__gguf_add_text(w, word.at, word.n);
        } else {
            clef__gguf_add_text(w, t->text, t->n_text);
        }
    }
    clef__chars_finish(&word);
    return st;
}

static int32_t type_of(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t id, int is_added)
{
    const clef__token *t = token_at(tok, id);
    if (!t || (t->flags & CLEF_TOKEN_UNUSED) || ((t->flags & CLEF_TOKEN_BYTE) && !tok->byte_fallback) ||
        t->n_text == 0)
        return CLEF_PIECE_UNUSED;
    if (t->flags & CLEF_TOKEN_SPECIAL)
        return id == tok->unk ? CLEF_PIECE_UNKNOWN : CLEF_PIECE_CONTROL;
    if (is_added)
        return CLEF_PIECE_USER_DEFINED;
    const int is_byte = (t->flags & CLEF_TOKEN_BYTE) || form->byte_fallback;
    return is_byte && clef__fallback_byte(t->text, t->n_text) >= 0 ? CLEF_PIECE_BYTE : CLEF_PIECE_NORMAL;
}

static clef_status put_types(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n,
                             clef_gguf_writer *w, clef_error *err)
{
    char *is_added = calloc((size_t)n, 1);
    if (!is_added)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the types of %d tokens", (int)n);
    for (size_t i = 0; i < tok->vocab.n_added; i++)
        if (tok->vocab.added[i].id < n)
            is_added[tok->vocab.added[i].id] = 1;
    clef__gguf_put_array(w, KEY "token_type", CLEF_GGUF_I32, (uint64_t)n);
    for (int32_t id = 0; id < n; id++)
        clef__gguf_add_i32(w, type_of(tok, form, id, is_added[id]));
    free(is_added);
    return CLEF_OK;
}

/* ---- merges and scores */

/* Lists the merges by rank: *out has next_rank slots, NULL where a later merge of the same pair replaced
 * one. The caller frees it. */
static clef_status sort_merges(const clef__bpe *bpe, const clef__bpe_slot ***out, clef_error *err)
{
    *out = calloc((size_t)bpe->next_rank + 1, sizeof **out);
    if (!*out)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %u merges", bpe->next_rank);
    for (size_t i = 0; i < bpe->n_slots; i++)
        if (bpe->pairs[i].id >= 0)
            (*out)[bpe->pairs[i].rank] = &bpe->pairs[i];
    return CLEF_OK;
}

static const clef__token *merge_part(const clef_tokenizer *tok, const clef__bpe_slot *merge, int right)
{
    return &tok->vocab.tokens[right ? (uint32_t)merge->key : (uint32_t)(merge->key >> 32)];
}

/* Writes "left right". A part with a space in it cannot be written, and no text contains it. */
static int is_writable(const clef_tokenizer *tok, const clef__bpe_slot *merge)
{
    for (int right = 0; merge && right < 2; right++)
        if (memchr(merge_part(tok, merge, right)->text, ' ', merge_part(tok, merge, right)->n_text))
            return 0;
    return merge != NULL;
}

static clef_status put_merges(const clef_tokenizer *tok, clef_gguf_writer *w, clef_error *err)
{
    const clef__bpe *bpe = (const clef__bpe *)tok->model;
    const clef__bpe_slot **merges;
    clef__chars line = {0};
    uint64_t n = 0;
    clef_status st = sort_merges(bpe, &merges, err);
    if (st)
        return st;
    for (uint32_t i = 0; i < bpe->next_rank; i++)
        n += (uint64_t)is_writable(tok, merges[i]);
    clef__gguf_put_array(w, KEY "merges", CLEF_GGUF_STRING, n);
    for (uint32_t i = 0; i < bpe->next_rank && st == CLEF_OK; i++) {
        if (!is_writable(tok, merges[i]))
            continue;
        line.n = 0;
        for (int right = 0; right < 2 && st == CLEF_OK; right++) {
            const clef__token *t = merge_part(tok, merges[i], right);
            st = right ? clef__chars_append(&line, " ", 1, err) : CLEF_OK;
            if (st == CLEF_OK)
                st = clef__chars_append(&line, t->text, t->n_text, err);
        }
        clef__gguf_add_text(w, line.at, line.n);
    }
    clef__chars_finish(&line);
    free(merges);
    return st;
}

/* The scores of a BPE by ranks: minus the rank of the first merge that makes a token; less than any of
 * these for a token that no merge makes. */
static clef_status rank_scores(const clef_tokenizer *tok, float *scores, int32_t n, clef_error *err)
{
    const clef__bpe *bpe = (const clef__bpe *)tok->model;
    const clef__bpe_slot **merges;
    const clef_status st = sort_merges(bpe, &merges, err);
    for (int32_t id = 0; id < n; id++)
        scores[id] = -1e9f;
    for (uint32_t i = bpe->next_rank; st == CLEF_OK && i-- > 0;)
        if (merges[i] && merges[i]->id < n)
            scores[merges[i]->id] = -(float)i;
    free(merges);
    return st;
}

static clef_status put_scores(const clef_tokenizer *tok, int32_t n, clef_gguf_writer *w, clef_error *err)
{
    const int is_bpe = clef__is_bpe(tok->model), by_rank = is_bpe && !((const clef__bpe *)tok->model)->ranks;
    const int32_t n_own = tok->vocab.n_tokens < n ? tok->vocab.n_tokens : n;
    clef_status st = CLEF_OK;
    float *scores = calloc((size_t)n, sizeof *scores);
    if (!scores)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the scores of %d tokens", (int)n);
    if (by_rank)
        st = rank_scores(tok, scores, n_own, err);
    for (int32_t id = 0; !by_rank && id < n_own; id++)
        scores[id] =
            (float)(is_bpe ? clef__bpe_score_of(tok->model, id) : clef__unigram_score_of(tok->model, id));
    clef__gguf_put_array(w, KEY "scores", CLEF_GGUF_F32, (uint64_t)n);
    for (int32_t id = 0; id < n; id++)
        clef__gguf_add_f32(w, scores[id]);
    free(scores);
    return st;
}

/* ---- what each model has beside its tokens */

static void put_charsmap(const clef_tokenizer *tok, clef_gguf_writer *w)
{
    const clef__charsmap *map = NULL;
    for (size_t i = 0; i < tok->stages.n_normalizers && !map; i++)
        if (tok->stages.normalizers[i].map.units)
            map = &tok->stages.normalizers[i].map;
    if (!map)
        return;
    const uint32_t n_trie = (uint32_t)(4 * map->n_units);
    const unsigned char head[] = {(unsigned char)n_trie, (unsigned char)(n_trie >> 8),
                                  (unsigned char)(n_trie >> 16), (unsigned char)(n_trie >> 24)};
    clef__gguf_put_array(w, KEY "precompiled_charsmap", CLEF_GGUF_U8, sizeof head + n_trie + map->n_texts);
    clef__gguf_add_bytes(w, head, sizeof head);
    clef__gguf_add_bytes(w, map->units, n_trie);
    clef__gguf_add_bytes(w, map->texts, map->n_texts);
}

static clef_status put_gpt2(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n,
                            clef_gguf_writer *w, clef_error *err)
{
    (void)form;
    (void)n;
    return put_merges(tok, w, err);
}

static clef_status put_spm(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n,
                           clef_gguf_writer *w, clef_error *err)
{
    clef__gguf_put_bool(w, KEY "add_space_prefix", form->spaces.add_prefix);
    clef__gguf_put_bool(w, KEY "remove_extra_whitespaces", form->spaces.squeeze);
    if (!form->spaces.escape)
        clef__gguf_put_bool(w, "libclef.tokenizer.escape_whitespaces", 0);
    put_charsmap(tok, w);
    return put_scores(tok, n, w, err);
}

static clef_status put_bert(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n,
                            clef_gguf_writer *w, clef_error *err)
{
    (void)form;
    (void)n;
    (void)err;
    clef__gguf_put_bool(w, KEY "normalizer.lowercase", tok->stages.bert.lowercase);
    clef__gguf_put_bool(w, KEY "normalizer.strip_accents", tok->stages.bert.strip_accents);
    clef__gguf_put_bool(w, "libclef.tokenizer.space_cjk", tok->stages.bert.space_cjk);
    return CLEF_OK;
}

static const struct {
    const char *model;
    clef_status (*put)(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n,
                       clef_gguf_writer *w, clef_error *err);
} models[] = {{"gpt2", put_gpt2}, {"llama", put_spm}, {"t5", put_spm}, {"bert", put_bert}};

static clef_status put_model(const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n_vocab,
                             clef_gguf_writer *w, clef_error *err)
{
    const int32_t n = count_written(tok, n_vocab);
    if (!form->model)
        return CLEF_OK;
    clef__gguf_put_text(w, KEY "model", form->model);
    clef__gguf_put_text(w, KEY "pre", form->pre);
    clef_status st = put_texts(tok, form, n, w, err);
    if (st == CLEF_OK)
        st = put_types(tok, form, n, w, err);
    for (size_t i = 0; i < sizeof models / sizeof *models && st == CLEF_OK; i++)
        if (strcmp(form->model, models[i].model) == 0)
            st = models[i].put(tok, form, n, w, err);
    return st;
}

/* ---- marks */

static void put_template(clef_gguf_writer *w, const char *key, const clef__template *form)
{
    clef__gguf_put_array(w, key, CLEF_GGUF_I32, (uint64_t)form->n * 2);
    for (int32_t i = 0; i < form->n; i++) {
        clef__gguf_add_i32(w, form->items[i].id);
        clef__gguf_add_i32(w, form->items[i].type);
    }
}

/* Writes the ids of the special tokens. BOS and EOS are the model's if its configuration names them. */
static void put_special_tokens(const clef_tokenizer *tok, const clef_hparams *hp, clef_gguf_writer *w)
{
    const struct {
        const char *key;
        int32_t id;
    } roles[] = {{KEY "bos_token_id", hp->bos >= 0 ? -1 : tok->bos},
                 {KEY "eos_token_id", hp->eos >= 0 ? -1 : tok->eos},
                 {KEY "unknown_token_id", tok->unk},
                 {KEY "seperator_token_id", tok->sep},
                 {KEY "padding_token_id", tok->pad},
                 {KEY "cls_token_id", tok->cls},
                 {KEY "mask_token_id", tok->mask},
                 {KEY "fim_pre_token_id", tok->fim[0]},
                 {KEY "fim_suf_token_id", tok->fim[1]},
                 {KEY "fim_mid_token_id", tok->fim[2]}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].id >= 0 && roles[i].id < count_written(tok, hp->n_vocab))
            clef__gguf_put_u32(w, roles[i].key, (uint32_t)roles[i].id);
    clef__gguf_put_bool(w, KEY "add_bos_token", tok->n_before > 0);
    clef__gguf_put_bool(w, KEY "add_eos_token", tok->n_after > 0);
    clef__gguf_put_bool(w, KEY "add_sep_token", tok->n_after > 0 && tok->after[tok->n_after - 1] == tok->sep);
    put_template(w, "libclef.tokenizer.single", &tok->single);
    put_template(w, "libclef.tokenizer.pair", &tok->pair);
    if (tok->cleans_spaces)
        clef__gguf_put_bool(w, "libclef.tokenizer.clean_spaces", 1);
}

/* ---- the folder */

/* Notes what differs from the folder, for llama.cpp or for every reader. */
static void note_differences(const clef_quantize_opts *opts, const char *folder, const char *file,
                             const clef_tokenizer *tok, const clef__tokenizer_form *form, int32_t n_vocab)
{
    char text[512];
    if (!opts->note)
        return;
    if (form->lost[0]) {
        snprintf(text, sizeof text,
                 "%.200s/%s: llama.cpp's keys cannot say %s: tokenizer.huggingface.json holds all of it%s",
                 folder, file, form->lost, form->model ? "" : ", and llama.cpp itself finds no tokenizer");
        opts->note(opts->note_user, text);
    }
    if (tok->vocab.n_tokens > n_vocab) {
        snprintf(text, sizeof text, "%.200s/%s: has %d tokens, the model's vocabulary %d: the file gets %d",
                 folder, file, (int)tok->vocab.n_tokens, (int)n_vocab, (int)count_written(tok, n_vocab));
        opts->note(opts->note_user, text);
    }
}

/* Writes the keys of a tokenizer.json, and the whole of it where they leave something out. */
static clef_status put_json(const json_t *root, const clef_tokenizer *tok, int32_t n_vocab,
                            clef__tokenizer_form *form, clef_gguf_writer *w, clef_error *err)
{
    clef__tokenizer_form_of_json(root, tok, form);
    clef_status st = put_model(tok, form, n_vocab, w, err);
    if (st || !form->lost[0])
        return st;
    char *text = json_dumps(root, JSON_COMPACT);
    if (text)
        clef__gguf_put_bytes(w, "tokenizer.huggingface.json", text, strlen(text));
    free(text);
    return text ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for a tokenizer.json");
}

static clef_status put_tokenizer(const clef_model *m, const char *file, const clef_tokenizer *tok,
                                 const clef_quantize_opts *opts, clef_gguf_writer *w, clef_error *err)
{
    const clef_hparams *hp = &m->hparams;
    clef__tokenizer_form form;
    json_t *root = NULL;
    clef_status st = clef__tokenizer_root(tok, &root, err);
    if (st == CLEF_OK && root) {
        st = put_json(root, tok, hp->n_vocab, &form, w, err);
    } else if (st == CLEF_OK) {
        st = clef__tokenizer_form_of_file(file, tok, &form, err);
        if (st == CLEF_OK)
            st = put_model(tok, &form, hp->n_vocab, w, err);
    }
    json_decref(root);
    if (st)
        return st;
    put_special_tokens(tok, hp, w);
    note_differences(opts, m->path, file, tok, &form, hp->n_vocab);
    return CLEF_OK;
}

clef_status clef__quantize_tokenizer(const clef_model *model, const clef_quantize_opts *opts,
                                     clef_gguf_writer *w, clef_error *err)
{
    const char *file = opts->no_tokenizer ? NULL : clef__tokenizer_file(model->path);
    clef_tokenizer *tok = NULL;
    clef_error why = {0};
    if (!file) {
        if (!opts->no_tokenizer && opts->note)
            opts->note(opts->note_user, "the folder has no tokenizer, nor will the file");
        return CLEF_OK;
    }
    clef_status st = clef_tokenizer_open(model->path, &tok, &why);
    if (st == CLEF_OK)
        st = put_tokenizer(model, file, tok, opts, w, &why);
    clef_tokenizer_close(tok);
    return st ? clef__fail(err, st, "%s%s", why.text, LEAVE_OUT) : CLEF_OK;
}

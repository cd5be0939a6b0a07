/* The tokenizer.ggml.* keys of a GGUF file (ggml's docs/gguf.md). */
#include <stdio.h>
#include <string.h>

#include "model/file/gguf.h"
#include "model/tokenizer/read/end_texts.h"
#include "model/tokenizer/read/formats.h"
#include "model/tokenizer/read/gguf_pre.h"

#define KEY "tokenizer.ggml."
#define OWN "libclef.tokenizer."
typedef struct gguf_reader gguf_reader;

/* A value of tokenizer.ggml.model. */
typedef struct model_kind {
    const char *name;
    int32_t bos, eos; /* used if the file names none */
    clef_status (*read)(const gguf_reader *r);
    const char *pre; /* the tokenizer.ggml.pre that it implies; NULL: none */
} model_kind;

struct gguf_reader {
    const model_kind *kind;
    const clef_gguf *gguf;
    const char *path;
    clef_tokenizer *tok;
    const clef_gguf_entry *tokens, *types;
    clef_error *err;
};

/* Returns the array of strings under a key; NULL when there is none. */
static const clef_gguf_entry *string_array(const clef_gguf *gguf, const char *key)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    return entry && entry->is_array && entry->type == CLEF_GGUF_STRING ? entry : NULL;
}

static const clef_gguf_entry *number_array(const clef_gguf *gguf, const char *key)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    return entry && entry->is_array && entry->type != CLEF_GGUF_STRING && entry->type != CLEF_GGUF_ARRAY
               ? entry
               : NULL;
}

/* Writers put 2^32 - 1 for "none". */
static int32_t read_id(const gguf_reader *r, const char *key, int32_t missing)
{
    const int64_t id = clef__gguf_int(r->gguf, key, missing);
    return id >= 0 && id < r->tok->vocab.n_tokens ? (int32_t)id : -1;
}

static clef_status add_special_tokens(const gguf_reader *r, int bos_by_default, int eos_by_default)
{
    clef_tokenizer *tok = r->tok;
    clef_status st = CLEF_OK;
    if ((bos_by_default == CLEF_GGUF_BOS_ALWAYS ||
         clef__gguf_int(r->gguf, KEY "add_bos_token", bos_by_default)) &&
        tok->bos >= 0)
        st = clef__template_add(tok, CLEF_BEFORE_TEXT, tok->bos, r->err);
    if (st == CLEF_OK && clef__gguf_int(r->gguf, KEY "add_eos_token", eos_by_default) && tok->eos >= 0)
        st = clef__template_add(tok, CLEF_AFTER_TEXT, tok->eos, r->err);
    return st;
}

/* ---- "gpt2": byte-level BPE */

/* Finds the way of cutting text. A file without tokenizer.ggml.pre leaves one choice if its tokenizer model
 * is "gemma4" or its architecture "gpt2". Otherwise any choice would be a guess. */
static clef_status read_pre(const gguf_reader *r, const clef__gguf_pre **out)
{
    char name[64], arch[64];
    const int is_gpt2 =
        clef__gguf_text(r->gguf, "general.architecture", arch, sizeof arch) && strcmp(arch, "gpt2") == 0;
    if (clef__gguf_text(r->gguf, KEY "pre", name, sizeof name))
        return clef__gguf_pre_find(name, r->path, out, r->err);
    if (r->kind->pre || is_gpt2)
        return clef__gguf_pre_find(r->kind->pre ? r->kind->pre : "gpt-2", r->path, out, r->err);
    return clef__fail(r->err, CLEF_E_UNSUPPORTED,
                      "%s: " KEY "pre is missing: tokenizer model \"%s\" needs it to cut a text", r->path,
                      r->kind->name);
}

/* Whether an id has no token: writers fill the gaps of a vocabulary with such texts. */
static int is_gap(const gguf_reader *r, int32_t id)
{
    const clef_gguf_string text = r->tokens->strings[id];
    char gap[32];
    const int n = snprintf(gap, sizeof gap, "[PAD%d]", (int)id);
    return r->types && clef__gguf_item_int(r->types, (uint64_t)id) == CLEF_PIECE_UNUSED &&
           text.n_bytes == (size_t)n && memcmp(text.text, gap, (size_t)n) == 0;
}

static int is_text(clef_gguf_string s, const char *text)
{
    return s.n_bytes == strlen(text) && memcmp(s.text, text, s.n_bytes) == 0;
}

/* 1 for a token that ends a text, by its own text. </s> is an ordinary word of Gemma 4 and PLaMo. */
static int ends_text(const gguf_reader *r, int32_t id)
{
    static const char *const texts[] = {CLEF_END_TEXTS};
    const clef_gguf_string text = r->tokens->strings[id];
    if (text.n_bytes < 4 || !strchr("<[_", text.text[0]))
        return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_text(text, texts[i]))
            return strcmp(texts[i], "</s>") != 0 || id == r->tok->eos;
    return 0;
}

/* What ends a text is not an ordinary token, even if the file says so. */
static int64_t type_of(const gguf_reader *r, int32_t id)
{
    const int64_t type = r->types ? clef__gguf_item_int(r->types, (uint64_t)id) : CLEF_PIECE_NORMAL;
    const int is_control = ends_text(r, id) || (!r->types && (id == r->tok->bos || id == r->tok->eos));
    return type == CLEF_PIECE_NORMAL && is_control ? CLEF_PIECE_CONTROL : type;
}

static clef_status set_token(const gguf_reader *r, int32_t id)
{
    const clef_gguf_string text = r->tokens->strings[id];
    const int64_t type = type_of(r, id);
    const clef__added_token added = {.id = id, .text = text.text, .n = text.n_bytes};
    const clef_status st = clef__vocab_set(&r->tok->vocab, id, text.text, text.n_bytes, r->err);
    if (st || (type != CLEF_PIECE_CONTROL && type != CLEF_PIECE_UNKNOWN && type != CLEF_PIECE_USER_DEFINED))
        return st;
    return clef__vocab_add(&r->tok->vocab, &added, type != CLEF_PIECE_USER_DEFINED, r->err);
}

static clef_status read_gpt2(const gguf_reader *r)
{
    const clef_gguf_entry *merges = string_array(r->gguf, KEY "merges");
    const clef__gguf_pre *pre = NULL;
    clef_tokenizer *tok = r->tok;
    clef_status st = read_pre(r, &pre);
    if (st == CLEF_OK && !merges)
        st = clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "merges is missing or is not an array of strings",
                        r->path);
    for (int32_t id = 0; id < tok->vocab.n_tokens && st == CLEF_OK; id++)
        st = is_gap(r, id) ? CLEF_OK : set_token(r, id);
    if (st)
        return st;
    const clef__bpe_opts opts = {.byte_level = !pre->escapes,
                                 .unk = -1,
                                 .ignore_merges = pre->ignore_merges,
                                 .byte_fallback = pre->escapes};
    st = clef__bpe_create(&tok->vocab, &opts, (size_t)merges->n, &tok->model, r->err);
    for (uint64_t i = 0; i < merges->n && st == CLEF_OK; i++)
        st = clef__bpe_merge_line(tok->model, merges->strings[i].text, merges->strings[i].n_bytes, r->err);
    if (st == CLEF_OK && pre->nfc)
        st = clef__normalizer_unicode(&tok->stages, CLEF_FORM_NFC, r->err);
    if (st == CLEF_OK && pre->escapes)
        st = clef__normalizer_replace(&tok->stages, &(clef__pattern){.text = " ", .n_text = 1},
                                      CLEF_META_SPACE, 3, r->err);
    for (size_t i = 0; i < CLEF_GGUF_REGEXES && pre->regexes[i] && st == CLEF_OK; i++)
        st = clef__pretokenizer_regex(&tok->stages, pre->regexes[i], CLEF_SPLIT_ISOLATED, r->err);
    if (st == CLEF_OK && pre->escapes)
        st = clef__decoder_metaspace(&tok->stages, CLEF_META_SPACE, 3, 0, r->err);
    if (st == CLEF_OK)
        st = pre->escapes ? clef__decoder_byte_fallback(&tok->stages, r->err)
                          : clef__decoder_byte_level(&tok->stages, r->err);
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, r->err);
    for (size_t i = 0; i < tok->vocab.n_added && pre->is_roberta; i++) /* as in RoBERTa's own files */
        tok->vocab.added[i].lstrip |= (uint8_t)is_text(r->tokens->strings[tok->vocab.added[i].id], "<mask>");
    if (st == CLEF_OK && pre->is_roberta && tok->bos >= 0 && tok->eos >= 0 &&
        clef__gguf_int(r->gguf, KEY "add_bos_token", 1))
        return clef__template_roberta(tok, tok->bos, tok->eos, r->err);
    return st ? st : add_special_tokens(r, pre->add_bos, 0);
}

/* ---- "llama": SentencePiece's BPE */

static int64_t piece_type(const gguf_reader *r, int32_t id)
{
    const clef_gguf_string text = r->tokens->strings[id];
    const int is_byte = !r->types && clef__fallback_byte(text.text, text.n_bytes) >= 0;
    const int64_t type = type_of(r, id);
    return is_byte && type == CLEF_PIECE_NORMAL ? CLEF_PIECE_BYTE : type;
}

static clef_status read_pieces(const gguf_reader *r, const clef__spm_opts *opts,
                               const clef__spm_spaces *spaces)
{
    const clef_gguf_entry *scores = number_array(r->gguf, KEY "scores");
    clef_tokenizer *tok = r->tok;
    if (!scores || scores->n != r->tokens->n)
        return clef__fail(r->err, CLEF_E_FORMAT,
                          "%s: " KEY "scores has %llu numbers, expected %llu, one a token", r->path,
                          (unsigned long long)(scores ? scores->n : 0), (unsigned long long)r->tokens->n);
    clef_status st = clef__spm_create(tok, opts, r->err);
    for (int32_t id = 0; id < tok->vocab.n_tokens && st == CLEF_OK; id++) {
        const clef_gguf_string text = r->tokens->strings[id];
        if (!is_gap(r, id))
            st = clef__spm_piece(tok, id, text.text, text.n_bytes, piece_type(r, id),
                                 clef__gguf_item_float(scores, (uint64_t)id), r->err);
    }
    tok->unk = opts->unk;
    return st ? st : clef__spm_finish(tok, spaces, r->err);
}

/* Whether there are pieces for bytes; 1 if the file does not give types. */
static int has_bytes(const gguf_reader *r)
{
    for (uint64_t i = 0; r->types && i < r->types->n; i++)
        if (clef__gguf_item_int(r->types, i) == CLEF_PIECE_BYTE)
            return 1;
    return !r->types;
}

static clef_status read_spaces(const gguf_reader *r, int squeeze_by_default, clef__spm_spaces *out)
{
    const clef_gguf_entry *map = number_array(r->gguf, KEY "precompiled_charsmap");
    *out = (clef__spm_spaces){
        .add_prefix = clef__gguf_int(r->gguf, KEY "add_space_prefix", 1) != 0,
        .squeeze = clef__gguf_int(r->gguf, KEY "remove_extra_whitespaces", squeeze_by_default) != 0,
        .escape = clef__gguf_int(r->gguf, OWN "escape_whitespaces", 1) != 0,
        .charsmap = map ? map->data : NULL,
        .n_charsmap = map ? (size_t)map->n : 0};
    return map && clef__gguf_type_bytes(map->type) != 1
               ? clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "precompiled_charsmap is not an array of bytes",
                            r->path)
               : CLEF_OK;
}

/* The special tokens of Phi-3's files take the spaces behind them, which GGUF does not say. llama.cpp knows
 * such files by their names. */
static void strip_behind(const gguf_reader *r)
{
    char arch[64];
    if (!clef__gguf_text(r->gguf, "general.architecture", arch, sizeof arch) || strcmp(arch, "phi3") != 0)
        return;
    for (size_t i = 0; i < r->tok->vocab.n_added; i++) {
        clef__added_token *token = &r->tok->vocab.added[i];
        const clef_gguf_string text = r->tokens->strings[token->id];
        token->rstrip = !is_text(text, "<unk>") && !is_text(text, "<s>") && !is_text(text, "<|endoftext|>");
    }
}

static clef_status read_llama(const gguf_reader *r)
{
    const clef__spm_opts opts = {.byte_fallback = has_bytes(r), .unk = read_id(r, KEY "unknown_token_id", 0)};
    clef__spm_spaces spaces;
    clef_status st = read_spaces(r, 0, &spaces);
    if (st == CLEF_OK)
        st = read_pieces(r, &opts, &spaces);
    strip_behind(r);
    return st ? st : add_special_tokens(r, 1, 0);
}

/* ---- "t5": SentencePiece's Unigram */

static clef_status read_t5(const gguf_reader *r)
{
    const clef__spm_opts opts = {.unigram = 1,
                                 .byte_fallback = r->types && has_bytes(r),
                                 .unk = read_id(r, KEY "unknown_token_id", 2)};
    clef__spm_spaces spaces;
    clef_status st = read_spaces(r, 1, &spaces);
    if (st == CLEF_OK)
        st = read_pieces(r, &opts, &spaces);
    return st ? st : add_special_tokens(r, 0, 1);
}

/* ---- "bert": WordPiece. Tokens that begin a word are written with U+2581 before them, the others without
 * "##" */

static clef_status set_wordpiece(const gguf_reader *r, int32_t id)
{
    const clef_gguf_string text = r->tokens->strings[id];
    const int64_t type = r->types ? clef__gguf_item_int(r->types, (uint64_t)id) : CLEF_PIECE_NORMAL;
    const int bracketed = text.n_bytes > 2 && text.text[0] == '[' && text.text[text.n_bytes - 1] == ']';
    if (text.n_bytes > 3 && memcmp(text.text, CLEF_META_SPACE, 3) == 0)
        return clef__vocab_set(&r->tok->vocab, id, text.text + 3, text.n_bytes - 3, r->err);
    if (type != CLEF_PIECE_NORMAL || bracketed)
        return clef__vocab_set(&r->tok->vocab, id, text.text, text.n_bytes, r->err);
    char inner[2 + CLEF_MAX_PIECE];
    if (text.n_bytes > CLEF_MAX_PIECE)
        return clef__fail(r->err, CLEF_E_LIMIT, "%s: token %d has %zu bytes", r->path, id, text.n_bytes);
    memcpy(inner, "##", 2);
    memcpy(inner + 2, text.text, text.n_bytes);
    return clef__vocab_set(&r->tok->vocab, id, inner, text.n_bytes + 2, r->err);
}

static clef_status read_bert(const gguf_reader *r)
{
    clef_tokenizer *tok = r->tok;
    clef_status st = CLEF_OK;
    for (int32_t id = 0; id < tok->vocab.n_tokens && st == CLEF_OK; id++)
        st = is_gap(r, id) ? CLEF_OK : set_wordpiece(r, id);
    if (st == CLEF_OK)
        st = clef__vocab_prefer_last(&tok->vocab, r->err);
    tok->unk = read_id(r, KEY "unknown_token_id", -1);
    tok->sep = read_id(r, KEY "seperator_token_id", -1); /* the key's own spelling */
    tok->cls = read_id(r, KEY "cls_token_id", tok->bos);
    clef__tokenizer_guess_roles(tok);
    const clef__token_config config = {
        .lowercase = (int32_t)clef__gguf_int(r->gguf, KEY "normalizer.lowercase", -1),
        .strip_accents = (int32_t)clef__gguf_int(r->gguf, KEY "normalizer.strip_accents",
                                                 clef__gguf_int(r->gguf, OWN "strip_accents", -1)),
        .space_cjk = (int32_t)clef__gguf_int(r->gguf, OWN "space_cjk", 1)};
    return st ? st : clef__bert_parts(tok, &config, r->path, r->err);
}

/* ---- "libclef.ranks": bytes, whose ids are their places among the merges, as in tiktoken's files; GPT-2's
 * regex */

static clef_status read_ranks(const gguf_reader *r)
{
    clef_tokenizer *tok = r->tok;
    clef_status st =
        clef__bpe_create_scored(&tok->vocab, &(clef__bpe_opts){.bytes = 1, .unk = -1}, &tok->model, r->err);
    for (int32_t id = 0; id < tok->vocab.n_tokens && st == CLEF_OK; id++) {
        const clef_gguf_string s = r->tokens->strings[id];
        const int64_t type = r->types ? clef__gguf_item_int(r->types, (uint64_t)id) : CLEF_PIECE_NORMAL;
        if (type == CLEF_PIECE_CONTROL) {
            const clef__added_token token = {.id = id, .text = s.text, .n = s.n_bytes};
            st = clef__vocab_add(&tok->vocab, &token, 1, r->err);
            continue;
        }
        st = clef__vocab_set(&tok->vocab, id, s.text, s.n_bytes, r->err);
        if (st == CLEF_OK && s.n_bytes > 0)
            st = clef__bpe_score(tok->model, id, -(double)id, r->err);
    }
    if (st == CLEF_OK)
        st = clef__pretokenizer_regex(&tok->stages, clef__gpt2_regex, CLEF_SPLIT_ISOLATED, r->err);
    return st ? st : clef__tokenizer_seal(tok, r->err);
}

static const model_kind model_kinds[] = {
    {"gpt2", -1, -1, read_gpt2, NULL},
    {"llama", 1, 2, read_llama, NULL},
    {"t5", -1, 1, read_t5, NULL},
    {"bert", -1, -1, read_bert, NULL},
    {"gemma4", -1, -1, read_gpt2, "gemma4"},
    {"libclef.ranks", -1, -1, read_ranks, NULL},
};

enum { N_MODEL_KINDS = sizeof model_kinds / sizeof *model_kinds };

static void read_roles(const gguf_reader *r)
{
    clef_tokenizer *tok = r->tok;
    tok->unk = read_id(r, KEY "unknown_token_id", tok->unk);
    tok->sep = read_id(r, KEY "seperator_token_id", tok->sep);
    tok->pad = read_id(r, KEY "padding_token_id", tok->pad);
    tok->cls = read_id(r, KEY "cls_token_id", tok->cls);
    tok->mask = read_id(r, KEY "mask_token_id", tok->mask);
    for (int i = 0; i < 3; i++) {
        static const char *const fim[][2] = {
            {KEY "fim_pre_token_id", KEY "prefix_token_id"}, /* and the old key */
            {KEY "fim_suf_token_id", KEY "suffix_token_id"},
            {KEY "fim_mid_token_id", KEY "middle_token_id"}};
        tok->fim[i] = read_id(r, fim[i][0], read_id(r, fim[i][1], tok->fim[i]));
    }
    clef__tokenizer_guess_roles(tok);
}

/* Reads clef's own key of a template: pairs of an id (or CLEF_TEMPLATE_A, _B) and its type. */
static clef_status read_template(const gguf_reader *r, const char *key, int n_texts, clef__template *out)
{
    const clef_gguf_entry *items = number_array(r->gguf, key);
    int seen[2] = {0};
    if (!items)
        return CLEF_OK;
    out->n = 0;
    for (uint64_t i = 0; i + 1 < items->n; i += 2) {
        const int64_t id = clef__gguf_item_int(items, i), type = clef__gguf_item_int(items, i + 1);
        const clef_status st = clef__template_push(r->tok, out, id, (int32_t)(type & INT32_MAX), r->err);
        if (st)
            return st;
        if (id < 0)
            seen[id == CLEF_TEMPLATE_B]++;
    }
    if (seen[0] != 1 || seen[1] != n_texts - 1)
        return clef__fail(r->err, CLEF_E_FORMAT,
                          "%s: %s has %d first texts and %d second ones, expected one of %d", r->path, key,
                          seen[0], seen[1], n_texts);
    return CLEF_OK;
}

static clef_status read_templates(const gguf_reader *r)
{
    clef_tokenizer *tok = r->tok;
    const int is_said = number_array(r->gguf, OWN "single") != NULL;
    clef_status st = read_template(r, OWN "single", 1, &tok->single);
    if (st == CLEF_OK)
        st = read_template(r, OWN "pair", 2, &tok->pair);
    if (st || !is_said)
        return st;
    tok->n_before = tok->n_after = 0;
    for (int32_t i = 0, after = 0; i < tok->single.n; i++) {
        const int32_t id = tok->single.items[i].id;
        int32_t *n = after ? &tok->n_after : &tok->n_before;
        if (id >= 0 && *n < CLEF_MAX_AROUND)
            (after ? tok->after : tok->before)[(*n)++] = id;
        after |= id < 0;
    }
    return CLEF_OK;
}

/* Reads a whole tokenizer.json, which GGUF may hold beside its own keys or instead of them. */
static clef_status read_json(gguf_reader *r, const clef_gguf_entry *json)
{
    clef_tokenizer *tok = r->tok;
    clef_status st =
        clef__tokenizer_parse_json(tok, json->strings[0].text, json->strings[0].n_bytes, r->path, r->err);
    if (st)
        return st;
    tok->bos = read_id(r, KEY "bos_token_id", tok->bos);
    tok->eos = read_id(r, KEY "eos_token_id", tok->eos);
    if (tok->n_before == 0 && tok->n_after == 0)
        st = add_special_tokens(r, 0, 0);
    read_roles(r);
    return st;
}

/* Finds the arrays that every model has, and checks their sizes. */
static clef_status read_arrays(gguf_reader *r)
{
    r->tokens = string_array(r->gguf, KEY "tokens");
    r->types = number_array(r->gguf, KEY "token_type");
    if (!r->tokens || r->tokens->n == 0 || r->tokens->n > INT32_MAX / 2)
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "tokens is missing or is not an array of strings",
                          r->path);
    if (r->types && r->types->n != r->tokens->n)
        return clef__fail(r->err, CLEF_E_FORMAT,
                          "%s: " KEY "token_type has %llu items, expected %llu, one a token", r->path,
                          (unsigned long long)r->types->n, (unsigned long long)r->tokens->n);
    return clef__vocab_reserve(&r->tok->vocab, (int64_t)r->tokens->n, r->err);
}

static clef_status read_kind(gguf_reader *r)
{
    char name[64], known[128] = "";
    if (!clef__gguf_text(r->gguf, KEY "model", name, sizeof name))
        return clef__fail(r->err, CLEF_E_NOT_FOUND, "%s: no " KEY "model: the file has no tokenizer",
                          r->path);
    for (size_t i = 0; i < N_MODEL_KINDS && !r->kind; i++) {
        if (strcmp(name, model_kinds[i].name) == 0)
            r->kind = &model_kinds[i];
        strcat(strcat(known, i ? ", " : ""), model_kinds[i].name);
    }
    return r->kind
               ? CLEF_OK
               : clef__fail(r->err, CLEF_E_UNSUPPORTED,
                            "%s: tokenizer model \"%s\" is not supported; known: %s", r->path, name, known);
}

static clef_status read_model(gguf_reader *r)
{
    const clef_gguf_entry *json = clef__gguf_find(r->gguf, "tokenizer.huggingface.json");
    if (json && json->type == CLEF_GGUF_STRING && !json->is_array)
        return read_json(r, json);
    clef_status st = read_kind(r);
    if (st == CLEF_OK)
        st = read_arrays(r);
    if (st)
        return st;
    r->tok->bos = read_id(r, KEY "bos_token_id", r->kind->bos);
    r->tok->eos = read_id(r, KEY "eos_token_id", r->kind->eos);
    st = r->kind->read(r);
    if (st == CLEF_OK)
        read_roles(r);
    return st;
}

clef_status clef__tokenizer_parse_gguf(clef_tokenizer *tok, const clef_gguf *gguf, const char *name,
                                       clef_error *err)
{
    gguf_reader r = {.gguf = gguf, .path = name, .tok = tok, .err = err};
    const clef_status st = read_model(&r);
    tok->cleans_spaces = clef__gguf_int(gguf, OWN "clean_spaces", 0) != 0;
    return st ? st : read_templates(&r);
}

clef_status clef__tokenizer_read_gguf(clef_tokenizer *tok, const char *path, clef_error *err)
{
    clef_gguf gguf;
    clef_status st = clef__gguf_open(path, &gguf, err);
    if (st)
        return st;
    st = clef__tokenizer_parse_gguf(tok, &gguf, path, err);
    clef__gguf_close(&gguf);
    return st;
}

/* The tokenizer.ggml.* keys of a GGUF file (ggml's docs/gguf.md). */
#include <string.h>

#include "model/gguf.h"
#include "model/tokenizer.h"

#define KEY "tokenizer.ggml."

/* The cutting that a "pre" name stands for. Regexes as the models' own tokenizer.json have them. */
typedef struct pre_kind {
    const char *names[4];
    const char *regexes[3]; /* one after the other, each isolating its matches */
    int32_t ignore_merges, add_bos, nfc;
} pre_kind;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const pre_kind pre_kinds[] = {
    {.names = {"gpt-2", "default"}, .regexes = {clef__gpt2_regex}},
    {.names = {"llama-bpe", "llama3", "llama-v3"},
     .regexes = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST},
     .ignore_merges = 1,
     .add_bos = 1},
    {.names = {"qwen2"}, .regexes = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST}, .nfc = 1},
    {.names = {"smollm", "starcoder"}, .regexes = {"\\p{N}", clef__gpt2_regex}},
};

const char *clef__gguf_pre_of(const char *regex, int *nfc, int *ignore_merges)
{
    for (size_t i = 0; i < sizeof pre_kinds / sizeof *pre_kinds; i++)
        if (!pre_kinds[i].regexes[1] && strcmp(pre_kinds[i].regexes[0], regex) == 0) {
            *nfc = pre_kinds[i].nfc;
            *ignore_merges = pre_kinds[i].ignore_merges;
            return pre_kinds[i].names[0];
        }
    return NULL;
}

typedef struct gguf_reader {
    const clef_gguf *gguf;
    const char *path;
    clef_tokenizer *tok;
    const clef_gguf_entry *tokens, *types;
    clef_error *err;
} gguf_reader;

/* An array of strings of that key; NULL when there is none. */
static const clef_gguf_entry *string_array(const clef_gguf *gguf, const char *key)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    return entry && entry->is_array && entry->type == CLEF_GGUF_STRING ? entry : NULL;
}

static const clef_gguf_entry *number_array(const clef_gguf *gguf, const char *key)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    return entry && entry->is_array && entry->type != CLEF_GGUF_STRING && entry->type != CLEF_GGUF_ARRAY ? entry : NULL;
}

/* Writers put 2^32 - 1 for "none". */
static int32_t read_id(const gguf_reader *r, const char *key, int32_t missing)
{
    const int64_t id = clef__gguf_int(r->gguf, key, missing);
    return id >= 0 && id < r->tok->n_tokens ? (int32_t)id : -1;
}

static clef_status add_marks(const gguf_reader *r, int bos_by_default)
{
    clef_tokenizer *tok = r->tok;
    clef_status st = CLEF_OK;
    if (clef__gguf_int(r->gguf, KEY "add_bos_token", bos_by_default) && tok->bos >= 0)
        st = clef__tokens_mark(tok, 0, tok->bos, r->err);
    if (st == CLEF_OK && clef__gguf_int(r->gguf, KEY "add_eos_token", 0) && tok->eos >= 0)
        st = clef__tokens_mark(tok, 1, tok->eos, r->err);
    return st;
}

/* ---- "gpt2": byte-level BPE */

static clef_status read_pre(const gguf_reader *r, const pre_kind **out)
{
    char name[64], known[256] = "";
    if (!clef__gguf_text(r->gguf, KEY "pre", name, sizeof name)) {
        *out = &pre_kinds[0]; /* files older than the key: GPT-2's was the only one */
        return CLEF_OK;
    }
    for (size_t i = 0; i < sizeof pre_kinds / sizeof *pre_kinds; i++)
        for (const char *const *known_name = pre_kinds[i].names; *known_name; known_name++) {
            if (strcmp(name, *known_name) == 0) {
                *out = &pre_kinds[i];
                return CLEF_OK;
            }
            if (strlen(known) + strlen(*known_name) + 3 < sizeof known) {
                strcat(known, *known ? ", " : "");
                strcat(known, *known_name);
            }
        }
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: pre-tokenizer \"%s\" is not supported; known: %s", r->path, name, known);
}

static clef_status set_token(const gguf_reader *r, int32_t id)
{
    const clef_gguf_string text = r->tokens->strings[id];
    int64_t type = r->types ? clef__gguf_item_int(r->types, (uint64_t)id) : CLEF_PIECE_NORMAL;
    if (!r->types && (id == r->tok->bos || id == r->tok->eos))
        type = CLEF_PIECE_CONTROL;
    const clef_added_token added = {.id = id, .text = text.text, .n = text.n_bytes};
    const clef_status st = clef__tokens_set(r->tok, id, text.text, text.n_bytes, r->err);
    if (st || (type != CLEF_PIECE_CONTROL && type != CLEF_PIECE_UNKNOWN && type != CLEF_PIECE_USER_DEFINED))
        return st;
    return clef__tokens_add(r->tok, &added, type != CLEF_PIECE_USER_DEFINED, r->err);
}

static clef_status read_gpt2(const gguf_reader *r)
{
    const clef_gguf_entry *merges = string_array(r->gguf, KEY "merges");
    const pre_kind *pre = NULL;
    clef_bpe *bpe = NULL;
    clef_tokenizer *tok = r->tok;
    clef_status st = read_pre(r, &pre);
    if (st == CLEF_OK && !merges)
        st = clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "merges is missing or no array of strings", r->path);
    for (int32_t id = 0; id < tok->n_tokens && st == CLEF_OK; id++)
        st = set_token(r, id);
    if (st)
        return st;
    tok->byte_level = 1;
    st = clef__bpe_create(tok, &(clef_bpe_opts){.unk = -1, .ignore_merges = pre->ignore_merges}, (size_t)merges->n, &bpe, r->err);
    for (uint64_t i = 0; i < merges->n && st == CLEF_OK; i++)
        st = clef__bpe_merge_line(bpe, tok, merges->strings[i].text, merges->strings[i].n_bytes, r->err);
    if (st == CLEF_OK && pre->nfc)
        st = clef__normalizer_unicode(tok, CLEF_FORM_NFC, r->err);
    for (size_t i = 0; i < sizeof pre->regexes / sizeof *pre->regexes && pre->regexes[i] && st == CLEF_OK; i++)
        st = clef__pretokenizer_regex(tok, pre->regexes[i], CLEF_SPLIT_ISOLATED, r->err);
    if (st == CLEF_OK)
        st = clef__decoder_byte_level(tok, r->err);
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, r->err);
    if (st == CLEF_OK)
        st = clef__bpe_seal(bpe, tok, r->err);
    return st ? st : add_marks(r, pre->add_bos);
}

/* ---- "llama": SentencePiece's BPE */

static int64_t piece_type(const gguf_reader *r, int32_t id)
{
    const clef_gguf_string text = r->tokens->strings[id];
    if (r->types)
        return clef__gguf_item_int(r->types, (uint64_t)id);
    if (id == r->tok->bos || id == r->tok->eos)
        return CLEF_PIECE_CONTROL;
    return clef__fallback_byte(text.text, text.n_bytes) >= 0 ? CLEF_PIECE_BYTE : CLEF_PIECE_NORMAL;
}

static clef_status read_llama(const gguf_reader *r)
{
    const clef_gguf_entry *scores = number_array(r->gguf, KEY "scores");
    clef_tokenizer *tok = r->tok;
    clef_bpe *bpe = NULL;
    if (!scores || scores->n != r->tokens->n)
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "scores has %llu numbers, wanted %llu, one a token", r->path,
                          (unsigned long long)(scores ? scores->n : 0), (unsigned long long)r->tokens->n);
    const clef_bpe_opts opts = {.byte_fallback = 1, .fuse_unk = 1, .unk = read_id(r, KEY "unknown_token_id", 0)};
    clef_status st = clef__bpe_create_scored(tok, &opts, &bpe, r->err);
    for (int32_t id = 0; id < tok->n_tokens && st == CLEF_OK; id++) {
        const clef_gguf_string text = r->tokens->strings[id];
        st = clef__spm_piece(tok, bpe, id, text.text, text.n_bytes, piece_type(r, id), clef__gguf_item_float(scores, (uint64_t)id), r->err);
    }
    const clef_spm_opts spaces = {.add_prefix = clef__gguf_int(r->gguf, KEY "add_space_prefix", 1) != 0, .escape = 1};
    if (st == CLEF_OK)
        st = clef__spm_stages(tok, &spaces, r->err);
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, r->err);
    if (st == CLEF_OK)
        st = clef__bpe_seal(bpe, tok, r->err);
    return st ? st : add_marks(r, 1);
}

static const struct {
    const char *name;
    int32_t bos, eos; /* where the file names none */
    clef_status (*read)(const gguf_reader *r);
} model_kinds[] = {
    {"gpt2", -1, -1, read_gpt2},
    {"llama", 1, 2, read_llama},
};

static clef_status read_model(gguf_reader *r)
{
    char name[64];
    if (!clef__gguf_text(r->gguf, KEY "model", name, sizeof name))
        return clef__fail(r->err, CLEF_E_NOT_FOUND, "%s: no " KEY "model: the file has no tokenizer", r->path);
    for (size_t i = 0; i < sizeof model_kinds / sizeof *model_kinds; i++) {
        if (strcmp(name, model_kinds[i].name) != 0)
            continue;
        r->tokens = string_array(r->gguf, KEY "tokens");
        r->types = number_array(r->gguf, KEY "token_type");
        if (!r->tokens || r->tokens->n == 0 || r->tokens->n > INT32_MAX / 2)
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "tokens is missing or no array of strings", r->path);
        if (r->types && r->types->n != r->tokens->n)
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: " KEY "token_type has %llu items, wanted %llu, one a token", r->path,
                              (unsigned long long)r->types->n, (unsigned long long)r->tokens->n);
        const clef_status st = clef__tokens_reserve(r->tok, (int64_t)r->tokens->n, r->err);
        if (st)
            return st;
        r->tok->bos = read_id(r, KEY "bos_token_id", model_kinds[i].bos);
        r->tok->eos = read_id(r, KEY "eos_token_id", model_kinds[i].eos);
        return model_kinds[i].read(r);
    }
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: tokenizer model \"%s\" is not supported; known: gpt2, llama", r->path, name);
}

clef_status clef__tokenizer_read_gguf(clef_tokenizer *tok, const char *path, clef_error *err)
{
    clef_gguf gguf;
    clef_status st = clef__gguf_open(path, &gguf, err);
    if (st)
        return st;
    gguf_reader r = {.gguf = &gguf, .path = path, .tok = tok, .err = err};
    st = read_model(&r);
    clef__gguf_close(&gguf);
    return st;
}

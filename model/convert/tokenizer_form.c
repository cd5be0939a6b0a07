/* Decides how a tokenizer can be described in GGUF's terms, from the parts of its file. */
#include "model/convert/tokenizer_form.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/read/gguf_pre.h"

/* Notes what is lost; the first note counts. */
CLEF_PRINTF(2, 3)
static void note_loss(clef__tokenizer_form *form, const char *format, ...)
{
    va_list args;
    if (form->lost[0])
        return;
    va_start(args, format);
    vsnprintf(form->lost, sizeof form->lost, format, args);
    va_end(args);
}

static const char *type_of(const json_t *stage)
{
    const char *type = json_string_value(json_object_get(stage, "type"));
    return type ? type : "";
}

static int is_type(const json_t *stage, const char *type)
{
    return strcmp(type_of(stage), type) == 0;
}

/* Reads a flag; `missing` is its value where the file has none. */
static int read_flag(const json_t *stage, const char *key, int missing)
{
    const json_t *value = json_object_get(stage, key);
    return json_is_boolean(value) ? json_is_true(value) : missing;
}

/* Stage i of a Sequence's list. A stage that is not a Sequence counts as its only stage. NULL beyond the
 * last. */
static const json_t *stage_at(const json_t *stage, const char *list, size_t i)
{
    if (is_type(stage, "Sequence"))
        return json_array_get(json_object_get(stage, list), i);
    return i == 0 && json_is_object(stage) ? stage : NULL;
}

static const json_t *find_stage(const json_t *stage, const char *list, const char *type)
{
    const json_t *at;
    for (size_t i = 0; (at = stage_at(stage, list, i)); i++)
        if (is_type(at, type))
            return at;
    return NULL;
}

/* ---- added tokens */

/* Notes the options of added tokens. GGUF records only that a token is special. */
static void check_added(const clef_tokenizer *tok, int mask_takes_spaces, clef__tokenizer_form *form)
{
    char quote[64];
    for (size_t i = 0; i < tok->vocab.n_added; i++) {
        const clef__added_token *a = &tok->vocab.added[i];
        const int strips = mask_takes_spaces && a->n == 6 && memcmp(a->text, "<mask>", 6) == 0;
        if (a->lstrip != strips || a->rstrip || a->single_word ||
            (a->where == CLEF_ADDED_NORMALIZED && tok->stages.n_normalizers > 0))
            note_loss(form, "how added token \"%s\" is found", clef__quote_text(a->text, a->n, quote));
    }
}

/* ---- byte-level BPE */

/* Finds the regexes of a chain of pre-tokenizers that ends with ByteLevel. Returns their number, -1 for
 * another chain. */
static int find_regexes(const json_t *pre, clef__gguf_pre *like, clef__tokenizer_form *form)
{
    const json_t *at;
    int n = 0, ended = 0;
    for (size_t i = 0; (at = stage_at(pre, "pretokenizers", i)); i++) {
        const json_t *regex = json_object_get(json_object_get(at, "pattern"), "Regex");
        const char *behavior = json_string_value(json_object_get(at, "behavior")), *found = NULL;
        if (is_type(at, "Split") && json_is_string(regex) && behavior && strcmp(behavior, "Isolated") == 0 &&
            !read_flag(at, "invert", 0))
            found = json_string_value(regex);
        else if (is_type(at, "Digits") && read_flag(at, "individual_digits", 0))
            found = "\\p{N}";
        else if (is_type(at, "ByteLevel") && read_flag(at, "use_regex", 1))
            found = clef__gpt2_regex;
        else if (!is_type(at, "ByteLevel"))
            return -1;
        if (is_type(at, "ByteLevel") && read_flag(at, "add_prefix_space", 1))
            note_loss(form, "the space that ByteLevel puts before a text");
        if (ended || (found && n == CLEF_GGUF_REGEXES))
            return -1;
        ended = is_type(at, "ByteLevel");
        if (found)
            like->regexes[n++] = found;
    }
    return ended ? n : -1;
}

static int is_roberta(const clef_tokenizer *tok)
{
    return tok->pair.n == 6 && tok->n_before == 1 && tok->n_after == 1;
}

static void judge_byte_level(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    const json_t *model = json_object_get(root, "model"), *normalizer = json_object_get(root, "normalizer");
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *decoder = json_object_get(root, "decoder");
    const int nfc = is_type(normalizer, "NFC");
    clef__gguf_pre like = {
        .nfc = nfc, .ignore_merges = read_flag(model, "ignore_merges", 0), .is_roberta = is_roberta(tok)};
    const int n = find_regexes(pre, &like, form);
    const clef__gguf_pre *kind = n < 0 ? NULL : clef__gguf_pre_of(&like, (size_t)n);
    if (!kind) {
        note_loss(form, "pre_tokenizer %s, whose cutting has no name in tokenizer.ggml.pre", type_of(pre));
        return;
    }
    if (json_is_object(normalizer) && !nfc) {
        note_loss(form, "normalizer %s", type_of(normalizer));
        return;
    }
    form->model = "gpt2";
    form->pre = kind->names[0];
    if (kind->nfc != nfc)
        note_loss(form, "normalizer %s", nfc ? "NFC" : "none");
    if ((kind->ignore_merges != 0) != (like.ignore_merges != 0))
        note_loss(form, "ignore_merges %s", like.ignore_merges ? "true" : "false");
    if (!is_type(decoder, "ByteLevel"))
        note_loss(form, "decoder %s", json_is_object(decoder) ? type_of(decoder) : "none");
    check_added(tok, kind->is_roberta, form);
}

/* ---- BPE over characters, as SentencePiece's models are written in a tokenizer.json */

static int writes_meta_space(const json_t *normalizer, const json_t *pre)
{
    const json_t *at;
    for (size_t i = 0; (at = stage_at(normalizer, "normalizers", i)); i++) {
        const char *content = json_string_value(json_object_get(at, "content"));
        if (is_type(at, "Replace") && content && strcmp(content, CLEF_META_SPACE) == 0)
            return 1;
    }
    return find_stage(pre, "pretokenizers", "Metaspace") != NULL;
}

static int prepends_space(const json_t *normalizer, const json_t *pre)
{
    const json_t *meta = find_stage(pre, "pretokenizers", "Metaspace");
    const char *scheme = json_string_value(json_object_get(meta, "prepend_scheme"));
    if (scheme)
        return strcmp(scheme, "never") != 0;
    return meta ? read_flag(meta, "add_prefix_space", 1)
                : find_stage(normalizer, "normalizers", "Prepend") != NULL;
}

static void judge_bpe(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    const json_t *model = json_object_get(root, "model"), *normalizer = json_object_get(root, "normalizer");
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    const clef__bpe *bpe = (const clef__bpe *)tok->model;
    if (bpe->n_prefix || bpe->n_suffix) {
        note_loss(form, "a model BPE with continuing_subword_prefix or end_of_word_suffix");
    } else if (bpe->opts.byte_level) {
        judge_byte_level(root, tok, form);
    } else if (writes_meta_space(normalizer, pre)) {
        form->model = "llama";
        form->pre = "default";
        form->byte_fallback = read_flag(model, "byte_fallback", 0);
        form->spaces = (clef__spm_spaces){.add_prefix = prepends_space(normalizer, pre), .escape = 1};
        note_loss(form, "the order of the merges, which scores stand for");
    } else {
        note_loss(form, "a model BPE whose spaces are neither bytes nor U+2581");
    }
}

/* ---- Unigram */

static void judge_unigram(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    const json_t *normalizer = json_object_get(root, "normalizer"),
                 *pre = json_object_get(root, "pre_tokenizer");
    (void)tok;
    form->model = "t5";
    form->pre = "default";
    form->byte_fallback = read_flag(json_object_get(root, "model"), "byte_fallback", 0);
    form->spaces = (clef__spm_spaces){.add_prefix = prepends_space(normalizer, pre),
                                      .squeeze = find_stage(pre, "pretokenizers", "WhitespaceSplit") ||
                                                 find_stage(normalizer, "normalizers", "Replace") ||
                                                 find_stage(normalizer, "normalizers", "Strip"),
                                      .escape = 1};
    note_loss(form, "scores in double and a charsmap by graphemes, as Hugging Face's Unigram has them");
}

/* ---- WordPiece */

clef_status clef__wordpiece_to_gguf(const char *text, size_t n, clef__chars *out, clef_error *err)
{
    const int inner = n > 2 && memcmp(text, "##", 2) == 0;
    out->n = 0;
    const clef_status st = inner ? CLEF_OK : clef__chars_append(out, CLEF_META_SPACE, 3, err);
    return st ? st : clef__chars_append(out, text + (inner ? 2 : 0), n - (inner ? 2 : 0), err);
}

/* Notes tokens that have the same text in GGUF: "##[a]" and "[a]", or "##" before U+2581 and a word's
 * start. */
static void check_words(const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    char quote[64];
    for (int32_t id = 0; id < tok->vocab.n_tokens; id++) {
        const clef__token *t = &tok->vocab.tokens[id];
        if ((t->flags & CLEF_TOKEN_SPECIAL) || t->n_text < 3 || memcmp(t->text, "##", 2) != 0)
            continue;
        const char *inner = t->text + 2;
        const size_t n = t->n_text - 2;
        if ((n > 3 && memcmp(inner, CLEF_META_SPACE, 3) == 0) ||
            (n > 2 && inner[0] == '[' && inner[n - 1] == ']'))
            note_loss(form, "token %d, \"%s\"", (int)id, clef__quote_text(t->text, t->n_text, quote));
    }
}

/* The reader makes the five special tokens special by their ids, and knows of no other added token. */
static void check_special_tokens(const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    const int32_t roles[] = {tok->unk, tok->sep, tok->pad, tok->cls, tok->mask};
    char quote[64];
    for (size_t i = 0; i < tok->vocab.n_added; i++) {
        int known = 0;
        for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
            known |= tok->vocab.added[i].id == roles[k];
        if (!known || !(tok->vocab.tokens[tok->vocab.added[i].id].flags & CLEF_TOKEN_SPECIAL))
            note_loss(form, "added token \"%s\"",
                      clef__quote_text(tok->vocab.added[i].text, tok->vocab.added[i].n, quote));
    }
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (roles[k] >= 0 && !(tok->vocab.tokens[roles[k]].flags & CLEF_TOKEN_SPECIAL))
            note_loss(form, "that %s is not a special token",
                      clef__quote_text(tok->vocab.tokens[roles[k]].text, tok->vocab.tokens[roles[k]].n_text,
                                       quote));
    check_added(tok, 0, form);
}

static void judge_wordpiece(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    const json_t *model = json_object_get(root, "model"), *normalizer = json_object_get(root, "normalizer");
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *decoder = json_object_get(root, "decoder");
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    if (prefix && strcmp(prefix, "##") != 0) {
        note_loss(form, "continuing_subword_prefix %.40s", prefix);
        return;
    }
    form->model = "bert";
    form->pre = "default";
    if (!is_type(normalizer, "BertNormalizer") || !tok->stages.bert.clean)
        note_loss(form, "normalizer %s", json_is_object(normalizer) ? type_of(normalizer) : "none");
    if (!is_type(pre, "BertPreTokenizer"))
        note_loss(form, "pre_tokenizer %s", json_is_object(pre) ? type_of(pre) : "none");
    if (json_is_integer(most) && json_integer_value(most) != 100)
        note_loss(form, "max_input_chars_per_word %lld", (long long)json_integer_value(most));
    if (!is_type(decoder, "WordPiece") || !read_flag(decoder, "cleanup", 1))
        note_loss(form, "decoder %s", json_is_object(decoder) ? type_of(decoder) : "none");
    check_words(tok, form);
    check_special_tokens(tok, form);
}

/* ---- which */

static void judge_wordlevel(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    (void)root;
    (void)tok;
    note_loss(form, "a model WordLevel");
}

void clef__tokenizer_form_of_json(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *out)
{
    static const struct {
        const char *type;
        void (*judge)(const json_t *root, const clef_tokenizer *tok, clef__tokenizer_form *form);
    } kinds[] = {{"BPE", judge_bpe},
                 {"Unigram", judge_unigram},
                 {"WordPiece", judge_wordpiece},
                 {"WordLevel", judge_wordlevel}};
    const json_t *model = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) /* older files, which the reader recognises by the same fields */
        type = json_object_get(model, "merges")                      ? "BPE"
               : json_is_array(json_object_get(model, "vocab"))      ? "Unigram"
               : json_object_get(model, "continuing_subword_prefix") ? "WordPiece"
                                                                     : "WordLevel";
    *out = (clef__tokenizer_form){0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            kinds[i].judge(root, tok, out);
}

/* ---- the other files */

static void judge_spm(const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    form->model = clef__is_bpe(tok->model) ? "llama" : "t5";
    form->pre = "default";
    form->spaces = tok->spaces;
}

static void judge_pair(const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    form->model = "gpt2";
    form->pre = is_roberta(tok) ? "roberta-bpe" : "gpt-2";
    check_added(tok, is_roberta(tok), form);
}

static void judge_txt(const clef_tokenizer *tok, clef__tokenizer_form *form)
{
    form->model = "bert";
    form->pre = "default";
    check_words(tok, form);
}

clef_status clef__tokenizer_form_of_file(const char *name, const clef_tokenizer *tok,
                                         clef__tokenizer_form *out, clef_error *err)
{
    static const struct {
        const char *name;
        void (*judge)(const clef_tokenizer *tok, clef__tokenizer_form *form);
    } kinds[] = {{"tokenizer.model", judge_spm},
                 {"spiece.model", judge_spm},
                 {"vocab.json", judge_pair},
                 {"vocab.txt", judge_txt}};
    const int is_tiktoken = clef__is_bpe(tok->model) && ((const clef__bpe *)tok->model)->opts.bytes;
    *out = (clef__tokenizer_form){0};
    if (is_tiktoken)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: GGUF has no keys for tiktoken's vocabularies", name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].name) == 0)
            kinds[i].judge(tok, out);
    return out->lost[0]
               ? clef__fail(err, CLEF_E_UNSUPPORTED, "%s: GGUF's keys cannot express %s", name, out->lost)
               : CLEF_OK;
}

/* The vocabularies of a folder's files, as the model of a tokenizer.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/read/auto.h"
#include "model/tokenizer/read/spm_file.h"
#include "model/tokenizer/unicode.h"
#include "runtime/os/os.h"

static json_t *refuse_source(clef__auto *a, const char *wanted)
{
    static const char *const names[] = {"tokenizer.json", "SentencePiece's file", "vocab.json", "vocab.txt"};
    clef__fail(a->err, CLEF_E_UNSUPPORTED, "%s: %s expects %s, got %s of another kind", a->path,
               a->class_name, wanted, names[a->source]);
    return NULL;
}

/* ---- tokenizer.json's vocabulary */

/* {"token": id, ..} of an object, or of a list of [token, score]. */
static json_t *vocab_by_text(clef__auto *a)
{
    json_t *vocab = json_object_get(json_object_get(a->file, "model"), "vocab"), *by_text, *item;
    size_t i;
    if (json_is_object(vocab))
        return json_incref(vocab);
    by_text = json_object();
    json_array_foreach(vocab, i, item) {
        const char *text = json_string_value(json_is_array(item) ? json_array_get(item, 0) : item);
        if (text)
            json_object_set_new(by_text, text, json_integer((json_int_t)i));
    }
    if (json_object_size(by_text) > 0)
        return by_text;
    json_decref(by_text);
    return refuse_source(a, "a vocabulary of texts");
}

/* ---- SentencePiece */

static json_t *base64(const char *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1);
    size_t at = 0;
    for (size_t i = 0; text && i < n; i += 3) {
        const size_t left = n - i < 3 ? n - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < left ? (unsigned char)data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            text[at++] = k <= left ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    json_t *out = text ? json_stringn(text, at) : NULL;
    free(text);
    return out;
}

static clef_status add_piece(void *to, int32_t id, const clef__spm_piece_text *piece, clef_error *err)
{
    json_t *text = json_stringn(piece->text, piece->n);
    if (!isfinite(piece->score)) {
        json_decref(text);
        return clef__fail(err, CLEF_E_FORMAT, "SentencePiece: the score of token %d is not finite", (int)id);
    }
    if (!text || memchr(piece->text, 0, piece->n)) {
        json_decref(text);
        return clef__fail(err, CLEF_E_UNSUPPORTED, "SentencePiece: piece %d is not UTF-8 text", (int)id);
    }
    return json_array_append_new(to, json_pack("[o, f, I]", text, piece->score, (json_int_t)piece->type))
               ? clef__fail(err, CLEF_E_NOMEM, "SentencePiece: no memory for piece %d", (int)id)
               : CLEF_OK;
}

static json_t *spec_json(const clef__spm_spec *spec)
{
    json_t *out =
        json_pack("{s:I, s:I, s:b, s:b, s:b, s:b, s:o, s:[]}", "type", (json_int_t)spec->model_type, "unk_id",
                  (json_int_t)spec->unk, "byte_fallback", spec->byte_fallback != 0, "add_prefix",
                  spec->spaces.add_prefix, "squeeze", spec->spaces.squeeze, "escape", spec->spaces.escape,
                  "charsmap", base64(spec->charsmap, spec->n_charsmap), "pieces");
    const int64_t ids[] = {spec->unk, spec->bos, spec->eos};
    const char *texts[] = {spec->unk_piece, spec->bos_piece, spec->eos_piece},
               *keys[] = {"unk_piece", "bos_piece", "eos_piece"}, *usual[] = {"<unk>", "<s>", "</s>"};
    for (size_t i = 0; out && i < 3; i++)
        if (ids[i] >= 0)
            json_object_set_new(out, keys[i],
                                spec->n_piece[i] ? json_stringn(texts[i], spec->n_piece[i])
                                                 : json_string(usual[i]));
    return out;
}

clef_status clef__auto_read_spm(clef__auto *a)
{
    char *data = NULL;
    size_t n = 0;
    clef__spm_spec spec;
    clef_status st = clef__os_read(a->path, CLEF_TOKENIZER_FILE_BYTES, &data, &n, a->err);
    if (st == CLEF_OK)
        st = clef__spm_spec_read(data, n, a->path, &spec, a->err);
    if (st == CLEF_OK && !(a->spm = spec_json(&spec)))
        st = clef__fail(a->err, CLEF_E_FORMAT, "%s: a piece's text is not UTF-8", a->path);
    if (st == CLEF_OK)
        st = clef__spm_pieces(&spec, add_piece, json_object_get(a->spm, "pieces"), a->err);
    free(data);
    if (st)
        return st;
    json_t *piece, *tokens = json_array();
    size_t i;
    json_array_foreach(json_object_get(a->spm, "pieces"), i, piece) {
        const json_int_t type = json_integer_value(json_array_get(piece, 2));
        if (type == CLEF_PIECE_CONTROL || type == CLEF_PIECE_USER_DEFINED)
            json_array_append_new(tokens, clef__auto_token(json_string_value(json_array_get(piece, 0)), 0,
                                                           type == CLEF_PIECE_CONTROL, 0));
    }
    json_decref(a->additional);
    a->additional = tokens;
    return CLEF_OK;
}

static const char *piece_text(const clef__auto *a, size_t i)
{
    return json_string_value(json_array_get(json_array_get(json_object_get(a->spm, "pieces"), i), 0));
}

static size_t n_pieces(const clef__auto *a)
{
    return json_array_size(json_object_get(a->spm, "pieces"));
}

/* Appends the ways to merge a text of two others that are in `parts`, the shortest left part first. */
static int add_merges(json_t *merges, const char *text, const json_t *parts)
{
    char *left = malloc(strlen(text) + 1);
    int bad = !left;
    for (size_t n = 0; !bad && text[n];) {
        n += clef__utf8_size(text[n]);
        if (!text[n])
            break;
        memcpy(left, text, n);
        left[n] = 0;
        if (json_object_get(parts, left) && json_object_get(parts, text + n))
            bad = json_array_append_new(merges, json_pack("[s, s]", left, text + n));
    }
    free(left);
    return bad;
}

/* The pieces by text, and the merges that make them, in the order of the ids. */
static json_t *spm_bpe(clef__auto *a)
{
    json_t *vocab = json_object(), *merges = json_array();
    for (size_t i = 0; i < n_pieces(a); i++)
        json_object_set_new(vocab, piece_text(a, i), json_integer((json_int_t)i));
    for (size_t i = 0; i < n_pieces(a); i++) {
        const char *text = piece_text(a, i);
        const json_t *id = json_object_get(vocab, text);
        if (json_integer_value(id) == (json_int_t)i && add_merges(merges, text, vocab))
            break;
    }
    return json_pack("{s:o, s:o}", "vocab", vocab, "merges", merges);
}

/* ---- text files */

static clef_status read_beside(clef__auto *a, const char *name, char **text, size_t *n)
{
    char file[CLEF_TOKENIZER_PATH];
    const clef_status st = clef__beside(a->path, name, file, sizeof file, a->err);
    return st ? st : clef__os_read(file, CLEF_TOKENIZER_FILE_BYTES, text, n, a->err);
}

/* One line, without its end. Returns where the next begins. */
static size_t line_at(const char *text, size_t n, size_t at, size_t *n_line)
{
    const char *end = memchr(text + at, '\n', n - at);
    *n_line = (end ? (size_t)(end - text) : n) - at;
    if (end && *n_line > 0 && text[at + *n_line - 1] == '\r')
        (*n_line)--;
    return end ? (size_t)(end - text) + 1 : n;
}

static json_t *pair_bpe(clef__auto *a)
{
    json_t *vocab = NULL, *merges = json_array();
    char *text = NULL;
    size_t n = 0, n_line;
    clef_status st = clef__json_load(a->path, CLEF_TOKENIZER_FILE_BYTES, &vocab, a->err);
    if (st == CLEF_OK)
        st = read_beside(a, "merges.txt", &text, &n);
    for (size_t at = 0, next; st == CLEF_OK && at < n; at = next) {
        next = line_at(text, n, at, &n_line);
        if (n_line >= 8 && memcmp(text + at, "#version", 8) == 0)
            continue;
        if (json_array_append_new(merges, json_stringn(text + at, n_line)))
            st = clef__fail(a->err, CLEF_E_FORMAT, "%s: merges.txt: byte %zu: no UTF-8", a->path, at);
    }
    free(text);
    if (st == CLEF_OK)
        return json_pack("{s:o, s:o}", "vocab", vocab, "merges", merges);
    json_decref(vocab);
    json_decref(merges);
    return NULL;
}

/* Spaces at a line's end are left out. */
static size_t trimmed(const char *text, size_t n)
{
    while (n > 0) {
        size_t at = n - 1, size;
        uint32_t code = 0;
        while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
            at--;
        if (clef__utf8_read(text + at, n - at, &code, &size) != CLEF_UTF8_OK || !clef__is_space(code))
            break;
        n = at;
    }
    return n;
}

static json_t *txt_words(clef__auto *a)
{
    json_t *vocab = json_object();
    char *text = NULL;
    size_t n = 0, n_line;
    json_int_t id = 0;
    clef_status st = clef__os_read(a->path, CLEF_TOKENIZER_FILE_BYTES, &text, &n, a->err);
    for (size_t at = 0, next; st == CLEF_OK && at < n; at = next) {
        next = line_at(text, n, at, &n_line);
        n_line = trimmed(text + at, n_line);
        if (memchr(text + at, 0, n_line) ||
            json_object_setn_new(vocab, text + at, n_line, json_integer(id++)))
            st = clef__fail(a->err, CLEF_E_FORMAT, "%s: line %lld: no UTF-8 text", a->path, (long long)id);
    }
    free(text);
    if (st == CLEF_OK)
        return vocab;
    json_decref(vocab);
    return NULL;
}

/* ---- the models */

/* A null is Python's str(None). */
static const char *text_or_none(const clef__auto *a, const char *role)
{
    const char *text = clef__auto_named(a, role);
    return text ? text : "None";
}

json_t *clef__auto_bpe(clef__auto *a)
{
    if (a->source == CLEF_SOURCE_SPM)
        return spm_bpe(a);
    if (a->source == CLEF_SOURCE_PAIR)
        return a->kind == CLEF_AUTO_LLAMA || a->kind == CLEF_AUTO_CODE_LLAMA || a->kind == CLEF_AUTO_GEMMA ||
                       a->kind == CLEF_AUTO_QWEN3_5
                   ? refuse_source(a, "tokenizer.json")
                   : pair_bpe(a);
    if (a->source != CLEF_SOURCE_JSON)
        return refuse_source(a, "a vocabulary with merges");
    json_t *merges = json_object_get(json_object_get(a->file, "model"), "merges"), *vocab = vocab_by_text(a);
    return vocab ? json_pack("{s:o, s:o}", "vocab", vocab, "merges",
                             json_is_array(merges) ? json_incref(merges) : json_array())
                 : NULL;
}

json_t *clef__auto_wordpiece(clef__auto *a)
{
    json_t *vocab = a->source == CLEF_SOURCE_TXT    ? txt_words(a)
                    : a->source == CLEF_SOURCE_JSON ? vocab_by_text(a)
                                                    : refuse_source(a, "vocab.txt");
    return vocab ? json_pack("{s:s, s:s, s:s, s:i, s:o}", "type", "WordPiece", "unk_token",
                             text_or_none(a, "unk_token"), "continuing_subword_prefix", "##",
                             "max_input_chars_per_word", 100, "vocab", vocab)
                 : NULL;
}

/* The pieces with their scores: [[text, score], ..]. XLM-RoBERTa's file has other special tokens than the
 * model, T5's lacks the extra ids. */
static json_t *spm_scores(clef__auto *a)
{
    json_t *list = json_array();
    size_t i = 0;
    if (a->kind == CLEF_AUTO_XLM_ROBERTA) {
        static const char *const roles[] = {"bos_token", "pad_token", "eos_token", "unk_token"};
        for (; i < 4; i++)
            json_array_append_new(list, json_pack("[s, f]", text_or_none(a, roles[i]), 0.0));
        i = 3;
    }
    for (; i < n_pieces(a); i++)
        json_array_append_new(
            list, json_pack("[s, O]", piece_text(a, i),
                            json_array_get(json_array_get(json_object_get(a->spm, "pieces"), i), 1)));
    for (json_int_t k = a->n_extra_ids; k-- > 0;) {
        char text[40];
        snprintf(text, sizeof text, "<extra_id_%lld>", (long long)k);
        json_array_append_new(list, json_pack("[s, f]", text, 0.0));
    }
    if (a->kind == CLEF_AUTO_XLM_ROBERTA)
        json_array_append_new(list, json_pack("[s, f]", text_or_none(a, "mask_token"), 0.0));
    return list;
}

json_t *clef__auto_unigram(clef__auto *a)
{
    json_t *vocab = json_object_get(json_object_get(a->file, "model"), "vocab");
    if (a->source == CLEF_SOURCE_SPM)
        return json_pack("{s:o}", "vocab", spm_scores(a));
    if (a->source != CLEF_SOURCE_JSON || !json_is_array(vocab))
        return refuse_source(a, "a Unigram vocabulary");
    return json_pack("{s:O}", "vocab", vocab);
}

/* ---- T5's extra ids */

clef_status clef__auto_extra_ids(clef__auto *a, json_int_t n)
{
    json_int_t named = 0;
    json_t *token;
    size_t i;
    char text[40];
    if (n < 0 || n > 10000)
        return clef__fail(a->err, CLEF_E_FORMAT,
                          "%s: tokenizer_config.json: extra_ids is %lld, expected 0 .. 10000", a->path,
                          (long long)n);
    json_array_foreach(a->additional, i, token)
        named += clef__auto_text(token) && strstr(clef__auto_text(token), "<extra_id_");
    if (named > 0 && n > 0 && named != n)
        return clef__fail(
            a->err, CLEF_E_FORMAT,
            "%s: %lld tokens <extra_id_..> in additional_special_tokens, expected extra_ids, %lld", a->path,
            (long long)named, (long long)n);
    if (!a->additional)
        a->additional = json_array();
    for (json_int_t k = 0; named == 0 && k < n; k++) {
        snprintf(text, sizeof text, "<extra_id_%lld>", (long long)k);
        json_array_append_new(a->additional, json_string(text));
    }
    a->n_extra_ids = a->source == CLEF_SOURCE_SPM ? n : 0;
    return CLEF_OK;
}

/* ---- a SentencePiece model with its own settings */

/* The pieces with the names that added_tokens_decoder gives them. */
static json_t *renamed_pieces(clef__auto *a)
{
    json_t *texts = json_array(), *kept = json_object();
    char id[24];
    for (size_t i = 0; i < n_pieces(a); i++) {
        snprintf(id, sizeof id, "%zu", i);
        if (!json_object_get(a->decoder, id))
            json_object_set_new(kept, piece_text(a, i), json_true());
    }
    for (size_t i = 0; i < n_pieces(a); i++) {
        snprintf(id, sizeof id, "%zu", i);
        const char *name = clef__auto_text(json_object_get(a->decoder, id));
        json_array_append_new(texts,
                              json_string(name && !json_object_get(kept, name) ? name : piece_text(a, i)));
    }
    json_decref(kept);
    return texts;
}

typedef struct scored {
    double score;
    size_t id;
    const char *text;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

/* The merges by the scores of what they make. Only normal pieces merge. */
static json_t *merges_by_score(clef__auto *a, const json_t *texts)
{
    json_t *merges = json_array(), *normal = json_object(), *piece;
    scored *order = calloc(n_pieces(a) + 1, sizeof *order);
    size_t n = 0, i;
    json_array_foreach(json_object_get(a->spm, "pieces"), i, piece) {
        const char *text = json_string_value(json_array_get(texts, i));
        if (json_integer_value(json_array_get(piece, 2)) == CLEF_PIECE_NORMAL)
            json_object_set_new(normal, text, json_integer((json_int_t)i));
    }
    json_array_foreach(json_object_get(a->spm, "pieces"), i, piece) {
        const char *text = json_string_value(json_array_get(texts, i));
        const json_t *id = json_object_get(normal, text);
        if (order && id && json_integer_value(id) == (json_int_t)i)
            order[n++] = (scored){json_number_value(json_array_get(piece, 1)), i, text};
    }
    if (order)
        qsort(order, n, sizeof *order, by_score);
    for (i = 0; i < n; i++)
        add_merges(merges, order[i].text, normal);
    free(order);
    json_decref(normal);
    return merges;
}

static size_t n_chars(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static int by_length(const void *a, const void *b)
{
    const size_t x = n_chars(*(const char *const *)a), y = n_chars(*(const char *const *)b);
    return (x < y) - (x > y);
}

/* A pre-tokenizer that isolates the user-defined pieces, the longest first. Returns their number. */
static size_t isolate_user_defined(clef__auto *a, const json_t *texts, json_t *pre)
{
    const char **found = calloc(n_pieces(a) + 1, sizeof *found);
    clef__chars regex = {0};
    json_t *piece;
    size_t n = 0, i;
    json_array_foreach(json_object_get(a->spm, "pieces"), i, piece)
        if (found && json_integer_value(json_array_get(piece, 2)) == CLEF_PIECE_USER_DEFINED)
            found[n++] = json_string_value(json_array_get(texts, i));
    if (found)
        qsort(found, n, sizeof *found, by_length);
    for (i = 0; i < n; i++) {
        if (i)
            clef__chars_append(&regex, "|", 1, NULL);
        for (const char *c = found[i]; *c; c++) {
            if (strchr("()[]{}?*+-|^$\\.&~# \t\n\r\v\f", *c))
                clef__chars_append(&regex, "\\", 1, NULL);
            clef__chars_append(&regex, c, 1, NULL);
        }
    }
    if (n)
        json_array_append_new(pre, json_pack("{s:s, s:{s:s%}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                             regex.at, regex.n, "behavior", "Isolated", "invert", 0));
    clef__chars_finish(&regex);
    free(found);
    return n;
}

/* Added tokens are found in the text as it is, so that the part after each gets its own space. */
static void find_raw(clef__auto *a)
{
    const char *id;
    json_t *token;
    json_object_foreach(a->decoder, id, token)
        json_object_set_new(token, "normalized", json_false());
}

clef_status clef__auto_spm_model(clef__auto *a, json_t **model, json_t *pre)
{
    const int is_bpe = json_integer_value(json_object_get(a->spm, "type")) == CLEF_SPM_BPE;
    const json_t *unk = json_object_get(a->spm, "unk_piece");
    json_t *fallback = json_object_get(a->spm, "byte_fallback"), *texts = is_bpe ? renamed_pieces(a) : NULL,
           *token;
    size_t i;
    if (!is_bpe) {
        texts = json_array();
        for (i = 0; i < n_pieces(a); i++)
            json_array_append_new(texts, json_string(piece_text(a, i)));
    }
    const size_t n_user = isolate_user_defined(a, texts, pre);
    if (is_bpe) {
        json_t *vocab = json_object(), *text;
        json_array_foreach(texts, i, text)
            json_object_set_new(vocab, json_string_value(text), json_integer((json_int_t)i));
        *model = json_pack("{s:s, s:s, s:b, s:O, s:b, s:o, s:o}", "type", "BPE", "unk_token",
                           unk ? json_string_value(unk) : "<unk>", "fuse_unk", 1, "byte_fallback", fallback,
                           "ignore_merges", n_user > 0, "vocab", vocab, "merges", merges_by_score(a, texts));
    } else {
        *model =
            json_pack("{s:s, s:O, s:O, s:o}", "type", "Unigram", "unk_id", json_object_get(a->spm, "unk_id"),
                      "byte_fallback", fallback, "vocab", spm_scores(a));
    }
    /* user-defined pieces are left to the pre-tokenizer */
    for (i = json_array_size(a->additional); n_user > 0 && i-- > 0;) {
        token = json_array_get(a->additional, i);
        if (!json_is_true(json_object_get(token, "special")))
            json_array_remove(a->additional, i);
    }
    if (json_is_true(json_object_get(a->spm, "add_prefix")))
        find_raw(a);
    json_decref(texts);
    return *model ? CLEF_OK : clef__fail(a->err, CLEF_E_NOMEM, "%s: no memory for its vocabulary", a->path);
}

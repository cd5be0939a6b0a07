/* The models of a tokenizer.json, each with its vocabulary. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/read/json_parts.h"

static clef_status find_unk(clef__json_reader *r, const char *unk, int32_t *out)
{
    *out = clef__vocab_find(&r->tok->vocab, unk, strlen(unk));
    if (*out < 0)
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: unk_token \"%.48s\" is not in the vocabulary", r->file,
                          unk);
    r->tok->unk = *out;
    return CLEF_OK;
}

/* ---- BPE */

/* Whether the vocabulary has the character of each byte, so that no byte is unknown. */
static int has_all_bytes(const clef_tokenizer *tok)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        if (clef__vocab_find(&tok->vocab, text, clef__utf8_write(clef__byte_char((uint8_t)byte), text)) < 0)
            return 0;
    }
    return 1;
}

/* A merge is "a b" or ["a", "b"]. */
static clef_status read_merges(clef__json_reader *r, const json_t *merges)

{
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < json_array_size(merges) && st == CLEF_OK; i++) {
        const json_t *merge = json_array_get(merges, i);
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(merge) && strncmp(json_string_value(merge), "#version", 8) == 0)
            continue;
        if (json_is_string(merge))
            st = clef__bpe_merge_line(r->tok->model, json_string_value(merge), json_string_length(merge),
                                      r->err);
        else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
            st = clef__bpe_merge(r->tok->model, json_string_value(left), json_string_length(left),
                                 json_string_value(right), json_string_length(right), r->err);
        else
            st = clef__fail(r->err, CLEF_E_FORMAT, "%s: merge %zu: expected \"a b\" or [\"a\", \"b\"]",
                            r->file, i);
    }
    return st;
}

static clef_status read_bpe(clef__json_reader *r, const json_t *model)
{
    const clef_status vocab =
        clef__json_vocab(r->tok, json_object_get(model, "vocab"), r->added, r->file, r->err);
    if (vocab)
        return vocab;
    clef_json_fields f = {.object = model, .file = r->file, .within = "model", .err = r->err};
    const char *prefix = clef__json_string(&f, "continuing_subword_prefix", ""),
               *suffix = clef__json_string(&f, "end_of_word_suffix", "");
    const char *unk = clef__json_string(&f, "unk_token", NULL);
    const double dropout = clef__json_double(&f, "dropout", 0, 1, 0);
    const json_t *merges = json_object_get(model, "merges");
    clef__bpe_opts opts = {.byte_level = r->byte_level,
                           .byte_fallback = clef__json_bool(&f, "byte_fallback", 0),
                           .fuse_unk = clef__json_bool(&f, "fuse_unk", 0),
                           .ignore_merges = clef__json_bool(&f, "ignore_merges", 0),
                           .unk = -1,
                           .prefix = prefix,
                           .suffix = suffix};
    if (f.status)
        return f.status;
    if (opts.byte_level && opts.byte_fallback && !has_all_bytes(r->tok)) {
        const clef_status st = clef__json_see_chars(r);
        if (st)
            return st;
        opts.byte_level = 0;
    }
    if (dropout > 0)
        return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: BPE with dropout is not supported", r->file);
    if (!json_is_array(merges))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: merges is %s, expected an array", r->file,
                          clef__json_kind(merges));
    if (unk) {
        const clef_status st = find_unk(r, unk, &opts.unk);
        if (st)
            return st;
    }
    const clef_status st =
        clef__bpe_create(&r->tok->vocab, &opts, json_array_size(merges), &r->tok->model, r->err);
    return st ? st : read_merges(r, merges);
}

/* ---- WordPiece and WordLevel */

static clef_status read_wordpiece(clef__json_reader *r, const json_t *model)
{
    clef_json_fields f = clef__json_part(r, model, "model");
    clef__wordpiece_opts opts = {
        .prefix = clef__json_string(&f, "continuing_subword_prefix", "##"),
        .max_chars = (size_t)clef__json_int(&f, "max_input_chars_per_word", 0, INT32_MAX, 100)};
    const char *unk = clef__json_string(&f, "unk_token", "[UNK]");
    clef_status st =
        f.status ? f.status
                 : clef__json_vocab(r->tok, json_object_get(model, "vocab"), r->added, r->file, r->err);
    if (st == CLEF_OK)
        st = find_unk(r, unk, &opts.unk);
    if (st)
        return st;
    opts.n_prefix = strlen(opts.prefix);
    st = clef__json_see_chars(r);
    if (st)
        return st;
    return clef__wordpiece_create(&r->tok->vocab, &opts, &r->tok->model, r->err);
}

static clef_status read_wordlevel(clef__json_reader *r, const json_t *model)
{
    clef_json_fields f = clef__json_part(r, model, "model");
    const char *unk = clef__json_string(&f, "unk_token", NULL);
    clef_status st =
        f.status ? f.status
                 : clef__json_vocab(r->tok, json_object_get(model, "vocab"), r->added, r->file, r->err);
    if (st == CLEF_OK && unk)
        r->tok->unk = clef__vocab_find(&r->tok->vocab, unk, strlen(unk));
    if (st == CLEF_OK)
        st = clef__json_see_chars(r);
    return st ? st : clef__wordlevel_create(&r->tok->vocab, r->tok->unk, &r->tok->model, r->err);
}

/* ---- Unigram: [["piece", score], ...] in the order of the ids */

/* Returns the number that serde_json reads where strtod() reads x. serde_json takes the digits as an
 * integer and divides once by a power of ten, so the last bit may differ, and that bit decides between cuts
 * of equal score. */
static double as_serde_reads(double x)
{
    char text[40], power[32], *end;
    int digits = 15;
    do
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(x));
    while (strtod(text, &end) != fabs(x) && ++digits <= 17);
    const char *mark = strchr(text, 'e');
    if (!mark)
        return x;
    uint64_t whole = 0;
    long exponent = strtol(mark + 1, NULL, 10) + 1;
    for (const char *at = text; at < mark; at++)
        if (*at >= '0' && *at <= '9') {
            whole = whole * 10 + (uint64_t)(*at - '0');
            exponent--;
        }
    for (; whole > 0 && whole % 10 == 0; whole /= 10)
        exponent++;
    snprintf(power, sizeof power, "1e%ld", labs(exponent));
    const double value =
        exponent < 0 ? (double)whole / strtod(power, NULL) : (double)whole * strtod(power, NULL);
    return x < 0 ? -value : value;
}

static clef_status set_pieces(clef__json_reader *r, const json_t *vocab)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < json_array_size(vocab) && st == CLEF_OK; i++) {
        const json_t *piece = json_array_get(vocab, i), *text = json_array_get(piece, 0);
        if (json_array_size(piece) != 2 || !json_is_string(text) || !json_is_number(json_array_get(piece, 1)))
            st = clef__fail(r->err, CLEF_E_FORMAT, "%s: piece %zu of the vocabulary: expected [text, score]",
                            r->file, i);
        else
            st = clef__vocab_set(&r->tok->vocab, (int64_t)i, json_string_value(text),
                                 json_string_length(text), r->err);
    }
    return st;
}

static clef_status reserve_pieces(clef__json_reader *r, const json_t *vocab)
{
    const size_t n = json_array_size(vocab), n_added = json_array_size(r->added);
    json_int_t most = (json_int_t)n - 1;
    for (size_t i = 0; i < n_added; i++) {
        const json_int_t id = json_integer_value(json_object_get(json_array_get(r->added, i), "id"));
        if (id < 0 || id >= 2 * (json_int_t)(n + n_added) + 65536)
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: added token %zu has id %lld", r->file, i,
                              (long long)id);
        most = id > most ? id : most;
    }
    return clef__vocab_reserve(&r->tok->vocab, most + 1, r->err);
}

static clef_status read_unigram(clef__json_reader *r, const json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab");
    clef_json_fields f = clef__json_part(r, model, "model");
    const int64_t unk = clef__json_int(&f, "unk_id", 0, INT32_MAX, -1);
    const clef__unigram_opts opts = {.byte_fallback = clef__json_bool(&f, "byte_fallback", 0),
                                     .unk = (int32_t)unk};
    clef_status st = f.status;
    if (st == CLEF_OK && (!json_is_array(vocab) || unk >= (int64_t)json_array_size(vocab)))
        st = clef__fail(r->err, CLEF_E_FORMAT, "%s: a Unigram vocabulary that is %s with unk_id %lld",
                        r->file, clef__json_kind(vocab), (long long)unk);
    if (st == CLEF_OK)
        st = reserve_pieces(r, vocab);
    if (st == CLEF_OK)
        st = set_pieces(r, vocab);
    if (st == CLEF_OK)
        st = clef__json_see_chars(r);
    if (st == CLEF_OK)
        st = clef__unigram_create(&r->tok->vocab, &opts, &r->tok->model, r->err);
    for (size_t i = 0; i < json_array_size(vocab) && st == CLEF_OK; i++)
        st = clef__unigram_piece(
            r->tok->model, (int32_t)i,
            as_serde_reads(json_number_value(json_array_get(json_array_get(vocab, i), 1))), r->err);
    r->tok->unk = (int32_t)unk;
    return st;
}

/* ---- which */

static const clef__json_type model_kinds[] = {
    {"BPE", .read = read_bpe},
    {"WordPiece", .read = read_wordpiece},
    {"WordLevel", .read = read_wordlevel},
    {"Unigram", .read = read_unigram},
};

/* Older files do not name their model: its fields decide. */
clef_status clef__json_model(clef__json_reader *r, const json_t *model)
{
    if (!json_is_object(model))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: model is %s, expected an object", r->file,
                          clef__json_kind(model));
    if (json_object_get(model, "type"))
        return clef__json_by_type(r, "model", model_kinds, CLEF_N_ITEMS(model_kinds), model);
    if (json_object_get(model, "merges"))
        return read_bpe(r, model);
    if (json_is_array(json_object_get(model, "vocab")))
        return read_unigram(r, model);
    return json_object_get(model, "continuing_subword_prefix") ? read_wordpiece(r, model)
                                                               : read_wordlevel(r, model);
}

/* The stages of a tokenizer.json before its model: normalizers and pre-tokenizers. Each is one line in a
 * table of types. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/read/json_parts.h"
#include "model/tokenizer/unicode.h"

/* ---- normalizers */

static clef_status normal_sequence(clef__json_reader *r, const json_t *object);

static clef_status normal_prepend(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Prepend");
    const char *text = clef__json_string(&f, "prepend", "");
    return f.status ? f.status : clef__normalizer_prepend(&r->tok->stages, text, strlen(text), r->err);
}

static clef_status normal_replace(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Replace");
    const char *text = clef__json_string(&f, "content", "");
    clef__pattern pattern;
    if (f.status)
        return f.status;
    const clef_status st = clef__json_pattern(r, "Replace", object, &pattern);
    return st ? st : clef__normalizer_replace(&r->tok->stages, &pattern, text, strlen(text), r->err);
}

/* "NFC", "NFD", "NFKC" and "NFKD". */
static clef_status normal_unicode(clef__json_reader *r, const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    const int compat = type[2] == 'K', composes = type[strlen(type) - 1] == 'C';
    const clef__unicode_form form = compat     ? composes ? CLEF_FORM_NFKC : CLEF_FORM_NFKD
                                    : composes ? CLEF_FORM_NFC
                                               : CLEF_FORM_NFD;
    return clef__normalizer_unicode(&r->tok->stages, form, r->err);
}

static clef_status normal_strip(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Strip");
    const uint32_t left = clef__json_bool(&f, "strip_left", 1) ? CLEF_STRIP_LEFT : 0;
    const uint32_t right = clef__json_bool(&f, "strip_right", 1) ? CLEF_STRIP_RIGHT : 0;
    return f.status ? f.status : clef__normalizer_strip(&r->tok->stages, left | right, r->err);
}

static clef_status normal_bert(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "BertNormalizer");
    const int lowercase = clef__json_bool(&f, "lowercase", 1);
    const clef__bert_opts opts = {.clean = clef__json_bool(&f, "clean_text", 1),
                                  .space_cjk = clef__json_bool(&f, "handle_chinese_chars", 1),
                                  .strip_accents = clef__json_bool(&f, "strip_accents", lowercase),
                                  .lowercase = lowercase};
    return f.status ? f.status : clef__normalizer_bert(&r->tok->stages, &opts, r->err);
}

static clef_status normal_precompiled(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Precompiled");
    const char *text = clef__json_string(&f, "precompiled_charsmap", "");
    char *data = NULL;
    size_t n = 0;
    if (f.status)
        return f.status;
    clef_status st = clef__base64(text, strlen(text), &data, &n, r->err);
    if (st == CLEF_OK)
        st = clef__normalizer_charsmap(&r->tok->stages, data, n, CLEF_CHARSMAP_GRAPHEMES, r->err);
    free(data);
    return st;
}

static const clef__json_type normalizer_kinds[] = {
    {"Sequence", .read = normal_sequence},
    {"Prepend", .read = normal_prepend},
    {"Replace", .read = normal_replace},
    {"NFC", .read = normal_unicode},
    {"NFD", .read = normal_unicode},
    {"NFKC", .read = normal_unicode},
    {"NFKD", .read = normal_unicode},
    {"Lowercase", .add = clef__normalizer_lowercase},
    {"Strip", .read = normal_strip},
    {"StripAccents", .add = clef__normalizer_strip_accents},
    {"BertNormalizer", .read = normal_bert},
    {"Nmt", .add = clef__normalizer_nmt},
    {"Precompiled", .read = normal_precompiled},
    {"ByteLevel", .add = clef__normalizer_byte_level},
};

static clef_status normal_sequence(clef__json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "normalizer", normalizer_kinds, CLEF_N_ITEMS(normalizer_kinds),
                               json_object_get(object, "normalizers"));
}

clef_status clef__json_normalizer(clef__json_reader *r, const json_t *object)
{
    return clef__json_by_type(r, "normalizer", normalizer_kinds, CLEF_N_ITEMS(normalizer_kinds), object);
}

/* ---- pre-tokenizers */

static clef_status pre_sequence(clef__json_reader *r, const json_t *object);

/* After ByteLevel the text is bytes written as characters. clef leaves it as bytes unless a further step
 * looks at it (Falcon). */
clef_status clef__json_see_chars(clef__json_reader *r)
{
    if (!r->byte_level)
        return CLEF_OK;
    r->byte_level = 0;
    return clef__pretokenizer_byte_chars(&r->tok->stages, r->err);
}

static clef_status pre_byte_level(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "ByteLevel");
    const int prefix = clef__json_bool(&f, "add_prefix_space", 1),
              regex = clef__json_bool(&f, "use_regex", 1);
    clef_status st = f.status ? f.status : clef__json_see_chars(r);
    if (st == CLEF_OK && prefix)
        st = clef__pretokenizer_prefix_space(&r->tok->stages, r->err);
    if (st == CLEF_OK && regex)
        st = clef__pretokenizer_regex(&r->tok->stages, clef__gpt2_regex, CLEF_SPLIT_ISOLATED, r->err);
    r->byte_level = 1;
    return st;
}

static clef_status read_behavior(clef__json_reader *r, const char *part, const char *name,
                                 clef__split_behavior *out)
{
    static const char *const names[] = {
        [CLEF_SPLIT_ISOLATED] = "Isolated",
        [CLEF_SPLIT_REMOVED] = "Removed",
        [CLEF_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [CLEF_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [CLEF_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    for (size_t i = 0; i < CLEF_N_ITEMS(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (clef__split_behavior)i;
            return CLEF_OK;
        }
    return clef__fail(
        r->err, CLEF_E_UNSUPPORTED,
        "%s: %s has behavior \"%.48s\"; known: Isolated, Removed, MergedWithPrevious, MergedWithNext, "
        "Contiguous",
        r->file, part, name);
}

static clef_status pre_split(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Split");
    const char *name = clef__json_string(&f, "behavior", "");
    const uint32_t flags = clef__json_bool(&f, "invert", 0) ? CLEF_SPLIT_INVERT : 0;
    clef__split_behavior behavior = CLEF_SPLIT_ISOLATED;
    clef__pattern pattern;
    clef_status st = f.status ? f.status : clef__json_see_chars(r);
    if (st == CLEF_OK)
        st = read_behavior(r, "Split", name, &behavior);
    const char *regex = json_string_value(json_object_get(json_object_get(object, "pattern"), "Regex"));
    if (st == CLEF_OK && regex && !flags)
        return clef__pretokenizer_regex(&r->tok->stages, regex, behavior, r->err);
    if (st == CLEF_OK)
        st = clef__json_pattern(r, "Split", object, &pattern);
    return st ? st : clef__pretokenizer_split(&r->tok->stages, &pattern, behavior, flags, r->err);
}

static clef_status pre_digits(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Digits");
    const int each = clef__json_bool(&f, "individual_digits", 0);
    const clef_status st = f.status ? f.status : clef__json_see_chars(r);
    return st ? st
              : clef__pretokenizer_chars(&r->tok->stages, clef__is_numeric,
                                         each ? CLEF_SPLIT_ISOLATED : CLEF_SPLIT_CONTIGUOUS, r->err);
}

static clef_status pre_metaspace(clef__json_reader *r, const json_t *object)
{
    clef__json_metaspace meta = {0};
    clef_status st = clef__json_see_chars(r);
    if (st == CLEF_OK)
        st = clef__json_read_metaspace(r, object, &meta);
    return st ? st
              : clef__pretokenizer_metaspace(&r->tok->stages, meta.replacement, strlen(meta.replacement),
                                             meta.scheme, meta.splits ? CLEF_METASPACE_SPLITS : 0, r->err);
}

static clef_status pre_chars(clef__json_reader *r, int (*is)(uint32_t code), clef__split_behavior behavior)
{
    const clef_status st = clef__json_see_chars(r);
    return st ? st : clef__pretokenizer_chars(&r->tok->stages, is, behavior, r->err);
}

static clef_status pre_whitespace_split(clef__json_reader *r, const json_t *object)
{
    (void)object;
    return pre_chars(r, clef__is_space, CLEF_SPLIT_REMOVED);
}

static clef_status pre_bert(clef__json_reader *r, const json_t *object)
{
    const clef_status st = pre_whitespace_split(r, object);
    return st ? st : pre_chars(r, clef__is_punctuation, CLEF_SPLIT_ISOLATED);
}

static clef_status pre_punctuation(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Punctuation");
    const char *name = clef__json_string(&f, "behavior", "Isolated");
    clef__split_behavior behavior = CLEF_SPLIT_ISOLATED;
    const clef_status st = f.status ? f.status : read_behavior(r, "Punctuation", name, &behavior);
    return st ? st : pre_chars(r, clef__is_punctuation, behavior);
}

static int is_other(uint32_t code)
{
    return !clef__is_space(code) && !clef__is_word(code);
}

/* Splits into runs of \w and runs of what is neither \w nor space, with Rust's classes instead of
 * Oniguruma's. */
static clef_status pre_whitespace(clef__json_reader *r, const json_t *object)
{
    clef_status st = pre_whitespace_split(r, object);
    return st ? st : pre_chars(r, is_other, CLEF_SPLIT_CONTIGUOUS);
}

static clef_status pre_delimiter(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "CharDelimiterSplit");
    const char *text = clef__json_string(&f, "delimiter", "");
    clef_status st = f.status ? f.status : clef__json_see_chars(r);
    if (st == CLEF_OK && (!*text || clef__utf8_size(*text) != strlen(text)))
        st = clef__fail(r->err, CLEF_E_FORMAT,
                        "%s: CharDelimiterSplit: delimiter \"%.48s\" is not one character", r->file, text);
    const clef__pattern pattern = {.text = text, .n_text = strlen(text)};
    return st ? st : clef__pretokenizer_split(&r->tok->stages, &pattern, CLEF_SPLIT_REMOVED, 0, r->err);
}

static clef_status pre_fixed(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "FixedLength");
    const int64_t length = clef__json_int(&f, "length", 1, INT32_MAX, 5);
    const clef_status st = f.status ? f.status : clef__json_see_chars(r);
    return st ? st : clef__pretokenizer_fixed(&r->tok->stages, (uint32_t)length, r->err);
}

static const clef__json_type pretokenizer_kinds[] = {
    {"Sequence", .read = pre_sequence},
    {"ByteLevel", .read = pre_byte_level},
    {"Split", .read = pre_split},
    {"Digits", .read = pre_digits},
    {"Metaspace", .read = pre_metaspace},
    {"BertPreTokenizer", .read = pre_bert},
    {"Punctuation", .read = pre_punctuation},
    {"Whitespace", .read = pre_whitespace},
    {"WhitespaceSplit", .read = pre_whitespace_split},
    {"CharDelimiterSplit", .read = pre_delimiter},
    {"FixedLength", .read = pre_fixed},
};

static clef_status pre_sequence(clef__json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "pre_tokenizer", pretokenizer_kinds, CLEF_N_ITEMS(pretokenizer_kinds),
                               json_object_get(object, "pretokenizers"));
}

clef_status clef__json_pretokenizer(clef__json_reader *r, const json_t *object)
{
    return clef__json_by_type(r, "pre_tokenizer", pretokenizer_kinds, CLEF_N_ITEMS(pretokenizer_kinds),
                              object);
}

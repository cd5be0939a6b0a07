/* The stages of a tokenizer.json: normalizers, pre-tokenizers, decoders, post-processors. Each is one line in its table. */
#include <string.h>

#include "model/json.h"
#include "model/tokenizer_json.h"

#define N_KINDS(kinds) (sizeof(kinds) / sizeof *(kinds))

static clef_json_fields fields_of(clef_json_reader *r, const json_t *object, const char *within)
{
    return (clef_json_fields){.object = object, .file = r->file, .within = within, .err = r->err};
}

static clef_status refuse(const clef_json_reader *r, const char *part, const char *what)
{
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: %s: %s is not supported", r->file, part, what);
}

/* {"String": " "} or {"Regex": "\\s+"}; older files write the string alone. */
static clef_status read_pattern(clef_json_reader *r, const char *part, const json_t *object, clef_pattern *out)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"),
                 *string = json_is_string(pattern) ? pattern : json_object_get(pattern, "String");
    *out = (clef_pattern){0};
    if (json_is_string(regex))
        return clef__regex_create(json_string_value(regex), json_string_length(regex), &out->regex, r->err);
    if (!json_is_string(string))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: %s has no pattern with a String or Regex", r->file, part);
    out->text = json_string_value(string);
    out->n_text = json_string_length(string);
    return CLEF_OK;
}

/* ---- normalizers */

static clef_status normal_sequence(clef_json_reader *r, const json_t *object);

static clef_status normal_prepend(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Prepend");
    const char *text = clef__json_string(&f, "prepend", "");
    return f.status ? f.status : clef__normalizer_prepend(r->tok, text, strlen(text), r->err);
}

static clef_status normal_replace(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Replace");
    const char *text = clef__json_string(&f, "content", "");
    clef_pattern pattern;
    if (f.status)
        return f.status;
    const clef_status st = read_pattern(r, "Replace", object, &pattern);
    return st ? st : clef__normalizer_replace(r->tok, &pattern, text, strlen(text), r->err);
}

static clef_status normal_nfc(clef_json_reader *r, const json_t *object)
{
    (void)object;
    return clef__normalizer_unicode(r->tok, CLEF_FORM_NFC, r->err);
}

static clef_status normal_nfd(clef_json_reader *r, const json_t *object)
{
    (void)object;
    return clef__normalizer_unicode(r->tok, CLEF_FORM_NFD, r->err);
}

static clef_status normal_nfkc(clef_json_reader *r, const json_t *object)
{
    (void)object;
    return clef__normalizer_unicode(r->tok, CLEF_FORM_NFKC, r->err);
}

static clef_status normal_nfkd(clef_json_reader *r, const json_t *object)
{
    (void)object;
    return clef__normalizer_unicode(r->tok, CLEF_FORM_NFKD, r->err);
}

static clef_status normal_lowercase(clef_json_reader *r, const json_t *object)
{
    (void)object;
    return clef__normalizer_lowercase(r->tok, r->err);
}

static clef_status normal_strip(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Strip");
    const uint32_t left = clef__json_bool(&f, "strip_left", 1) ? CLEF_STRIP_LEFT : 0;
    const uint32_t right = clef__json_bool(&f, "strip_right", 1) ? CLEF_STRIP_RIGHT : 0;
    return f.status ? f.status : clef__normalizer_strip(r->tok, left | right, r->err);
}

static const clef_json_kind normalizer_kinds[] = {
    {"Sequence", normal_sequence}, {"Prepend", normal_prepend}, {"Replace", normal_replace}, {"NFC", normal_nfc},
    {"NFD", normal_nfd},           {"NFKC", normal_nfkc},       {"NFKD", normal_nfkd},       {"Lowercase", normal_lowercase},
    {"Strip", normal_strip},
};

static clef_status normal_sequence(clef_json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "normalizer", normalizer_kinds, N_KINDS(normalizer_kinds), json_object_get(object, "normalizers"));
}

clef_status clef__json_normalizer(clef_json_reader *r, const json_t *object)
{
    return clef__json_by_type(r, "normalizer", normalizer_kinds, N_KINDS(normalizer_kinds), object);
}

/* ---- pre-tokenizers */

static clef_status pre_sequence(clef_json_reader *r, const json_t *object);

/* After ByteLevel the text is bytes written as characters. Here it stays bytes, so nothing may look at it any more. */
static clef_status check_text(const clef_json_reader *r)
{
    return r->tok->byte_level ? refuse(r, "pre_tokenizer", "a step after ByteLevel") : CLEF_OK;
}

static clef_status pre_byte_level(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "ByteLevel");
    const int prefix = clef__json_bool(&f, "add_prefix_space", 1), regex = clef__json_bool(&f, "use_regex", 1);
    clef_status st = f.status ? f.status : check_text(r);
    if (st == CLEF_OK && prefix)
        st = clef__pretokenizer_prefix_space(r->tok, r->err);
    if (st == CLEF_OK && regex)
        st = clef__pretokenizer_regex(r->tok, clef__gpt2_regex, CLEF_SPLIT_ISOLATED, r->err);
    r->tok->byte_level = 1;
    return st;
}

static clef_status read_behavior(clef_json_reader *r, const char *part, const char *name, clef_split_behavior *out)
{
    static const char *const names[] = {
        [CLEF_SPLIT_ISOLATED] = "Isolated",
        [CLEF_SPLIT_REMOVED] = "Removed",
        [CLEF_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [CLEF_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [CLEF_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    for (size_t i = 0; i < N_KINDS(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (clef_split_behavior)i;
            return CLEF_OK;
        }
    return clef__fail(r->err, CLEF_E_UNSUPPORTED,
                      "%s: %s has behavior \"%.48s\"; known: Isolated, Removed, MergedWithPrevious, MergedWithNext, "
                      "Contiguous",
                      r->file, part, name);
}

static clef_status pre_split(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Split");
    const char *name = clef__json_string(&f, "behavior", "");
    const uint32_t flags = clef__json_bool(&f, "invert", 0) ? CLEF_SPLIT_INVERT : 0;
    clef_split_behavior behavior = CLEF_SPLIT_ISOLATED;
    clef_pattern pattern;
    clef_status st = f.status ? f.status : check_text(r);
    if (st == CLEF_OK)
        st = read_behavior(r, "Split", name, &behavior);
    if (st == CLEF_OK)
        st = read_pattern(r, "Split", object, &pattern);
    return st ? st : clef__pretokenizer_split(r->tok, &pattern, behavior, flags, r->err);
}

static clef_status pre_digits(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Digits");
    const int each = clef__json_bool(&f, "individual_digits", 0);
    const clef_status st = f.status ? f.status : check_text(r);
    return st ? st : clef__pretokenizer_regex(r->tok, "\\p{N}", each ? CLEF_SPLIT_ISOLATED : CLEF_SPLIT_CONTIGUOUS, r->err);
}

/* Newer files have prepend_scheme, older ones add_prefix_space. */
static clef_status read_metaspace(clef_json_reader *r, const json_t *object, const char **replacement, clef_prepend_scheme *scheme,
                                  int *splits)
{
    static const char *const schemes[] = {[CLEF_PREPEND_ALWAYS] = "always", [CLEF_PREPEND_FIRST] = "first", [CLEF_PREPEND_NEVER] = "never"};
    clef_json_fields f = fields_of(r, object, "Metaspace");
    const int prefix = clef__json_bool(&f, "add_prefix_space", 1);
    const char *name = clef__json_string(&f, "prepend_scheme", prefix ? "always" : "never");
    *replacement = clef__json_string(&f, "replacement", "\xE2\x96\x81");
    *splits = clef__json_bool(&f, "split", 1);
    if (f.status)
        return f.status;
    for (size_t i = 0; i < N_KINDS(schemes); i++)
        if (strcmp(name, schemes[i]) == 0) {
            *scheme = (clef_prepend_scheme)i;
            return CLEF_OK;
        }
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: Metaspace has prepend_scheme \"%.48s\"; known: always, first, never", r->file, name);
}

static clef_status pre_metaspace(clef_json_reader *r, const json_t *object)
{
    const char *replacement;
    clef_prepend_scheme scheme;
    int splits;
    clef_status st = check_text(r);
    if (st == CLEF_OK)
        st = read_metaspace(r, object, &replacement, &scheme, &splits);
    if (st)
        return st;
    return clef__pretokenizer_metaspace(r->tok, replacement, strlen(replacement), scheme, splits ? CLEF_METASPACE_SPLITS : 0, r->err);
}

static const clef_json_kind pretokenizer_kinds[] = {
    {"Sequence", pre_sequence}, {"ByteLevel", pre_byte_level}, {"Split", pre_split}, {"Digits", pre_digits}, {"Metaspace", pre_metaspace},
};

static clef_status pre_sequence(clef_json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "pre_tokenizer", pretokenizer_kinds, N_KINDS(pretokenizer_kinds),
                               json_object_get(object, "pretokenizers"));
}

clef_status clef__json_pretokenizer(clef_json_reader *r, const json_t *object)
{
    return clef__json_by_type(r, "pre_tokenizer", pretokenizer_kinds, N_KINDS(pretokenizer_kinds), object);
}

/* ---- decoders */

static clef_status decode_sequence(clef_json_reader *r, const json_t *object);

static clef_status decode_byte_level(clef_json_reader *r, const json_t *object)
{
    (void)object;
    r->fused = 1;
    return clef__decoder_byte_level(r->tok, r->err);
}

static clef_status decode_byte_fallback(clef_json_reader *r, const json_t *object)
{
    (void)object;
    return r->fused ? refuse(r, "decoder", "ByteFallback after Fuse or ByteLevel") : clef__decoder_byte_fallback(r->tok, r->err);
}

static clef_status decode_metaspace(clef_json_reader *r, const json_t *object)
{
    const char *replacement;
    clef_prepend_scheme scheme;
    int splits;
    const clef_status st = read_metaspace(r, object, &replacement, &scheme, &splits);
    if (st)
        return st;
    if (r->fused)
        return refuse(r, "decoder", "Metaspace after Fuse or ByteLevel");
    if (scheme != CLEF_PREPEND_NEVER)
        r->tok->first_token = CLEF_FIRST_DROPS_ALL_SPACE;
    return clef__decoder_replace(r->tok, replacement, strlen(replacement), " ", 1, r->err);
}

static clef_status decode_replace(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Replace");
    const char *text = clef__json_string(&f, "content", "");
    clef_pattern pattern;
    clef_status st = f.status ? f.status : read_pattern(r, "Replace", object, &pattern);
    if (st)
        return st;
    if (pattern.regex || r->fused) {
        const char *what = pattern.regex ? "Replace of a Regex" : "Replace after Fuse or ByteLevel";
        clef__regex_destroy(pattern.regex);
        return refuse(r, "decoder", what);
    }
    return clef__decoder_replace(r->tok, pattern.text, pattern.n_text, text, strlen(text), r->err);
}

static clef_status decode_fuse(clef_json_reader *r, const json_t *object)
{
    (void)object;
    r->fused = 1;
    return CLEF_OK;
}

static clef_status decode_strip(clef_json_reader *r, const json_t *object)
{
    clef_json_fields f = fields_of(r, object, "Strip");
    const char *content = clef__json_string(&f, "content", " ");
    const int64_t start = clef__json_int(&f, "start", 0, INT32_MAX, 0), stop = clef__json_int(&f, "stop", 0, INT32_MAX, 0);
    if (f.status)
        return f.status;
    if (start == 0 && stop == 0)
        return CLEF_OK;
    if (!r->fused || start != 1 || stop != 0 || strcmp(content, " ") != 0)
        return refuse(r, "decoder", "Strip of anything but one leading space after Fuse");
    r->tok->first_token = CLEF_FIRST_DROPS_SPACE;
    return CLEF_OK;
}

static const clef_json_kind decoder_kinds[] = {
    {"Sequence", decode_sequence},   {"ByteLevel", decode_byte_level}, {"ByteFallback", decode_byte_fallback},
    {"Metaspace", decode_metaspace}, {"Replace", decode_replace},      {"Fuse", decode_fuse},
    {"Strip", decode_strip},
};

static clef_status decode_sequence(clef_json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "decoder", decoder_kinds, N_KINDS(decoder_kinds), json_object_get(object, "decoders"));
}

clef_status clef__json_decoder(clef_json_reader *r, const json_t *object)
{
    if (!object || json_is_null(object))
        r->tok->first_token = CLEF_FIRST_NO_SEPARATOR;
    return clef__json_by_type(r, "decoder", decoder_kinds, N_KINDS(decoder_kinds), object);
}

/* ---- post-processors */

static clef_status post_sequence(clef_json_reader *r, const json_t *object);

static clef_status post_byte_level(clef_json_reader *r, const json_t *object)
{
    (void)r;
    (void)object; /* it moves offsets only */
    return CLEF_OK;
}

static clef_status check_alone(const clef_json_reader *r)
{
    return r->tok->n_before || r->tok->n_after ? refuse(r, "post_processor", "a second step that adds tokens") : CLEF_OK;
}

static clef_status template_mark(clef_json_reader *r, const json_t *object, const char *name, int after)
{
    const json_t *ids = json_object_get(json_object_get(json_object_get(object, "special_tokens"), name ? name : ""), "ids");
    clef_status st = CLEF_OK;
    if (!name || !json_is_array(ids))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: TemplateProcessing names \"%.48s\", which special_tokens does not have", r->file,
                          name ? name : "");
    for (size_t i = 0; i < json_array_size(ids) && st == CLEF_OK; i++)
        st = clef__tokens_mark(r->tok, after, json_is_integer(json_array_get(ids, i)) ? json_integer_value(json_array_get(ids, i)) : -1,
                               r->err);
    return st;
}

static clef_status post_template(clef_json_reader *r, const json_t *object)
{
    const json_t *single = json_object_get(object, "single");
    int seen = 0;
    clef_status st = check_alone(r);
    if (st == CLEF_OK && !json_is_array(single))
        st = clef__fail(r->err, CLEF_E_FORMAT, "%s: TemplateProcessing: single is %s, wanted an array", r->file, clef__json_kind(single));
    for (size_t i = 0; i < json_array_size(single) && st == CLEF_OK; i++) {
        const json_t *item = json_array_get(single, i), *special = json_object_get(item, "SpecialToken");
        const char *sequence = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
        if (special)
            st = template_mark(r, object, json_string_value(json_object_get(special, "id")), seen);
        else if (sequence && strcmp(sequence, "A") == 0)
            seen++;
        else
            st = clef__fail(r->err, CLEF_E_FORMAT, "%s: TemplateProcessing: item %zu of single is neither a SpecialToken nor Sequence A",
                            r->file, i);
    }
    return st == CLEF_OK && seen != 1 ? refuse(r, "TemplateProcessing", "a template with not exactly one Sequence A") : st;
}

/* "cls": ["<s>", 0], "sep": ["</s>", 2]: cls A sep. */
static clef_status post_roberta(clef_json_reader *r, const json_t *object)
{
    const json_t *cls = json_array_get(json_object_get(object, "cls"), 1), *sep = json_array_get(json_object_get(object, "sep"), 1);
    clef_status st = check_alone(r);
    if (st)
        return st;
    if (!json_is_integer(cls) || !json_is_integer(sep))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: post_processor: cls and sep are not [token, id]", r->file);
    st = clef__tokens_mark(r->tok, 0, json_integer_value(cls), r->err);
    return st ? st : clef__tokens_mark(r->tok, 1, json_integer_value(sep), r->err);
}

static const clef_json_kind postprocessor_kinds[] = {
    {"Sequence", post_sequence},         {"ByteLevel", post_byte_level},   {"TemplateProcessing", post_template},
    {"RobertaProcessing", post_roberta}, {"BertProcessing", post_roberta},
};

static clef_status post_sequence(clef_json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "post_processor", postprocessor_kinds, N_KINDS(postprocessor_kinds),
                               json_object_get(object, "processors"));
}

clef_status clef__json_postprocessor(clef_json_reader *r, const json_t *object)
{
    return clef__json_by_type(r, "post_processor", postprocessor_kinds, N_KINDS(postprocessor_kinds), object);
}

/* The stages of a tokenizer.json after its model: decoders and post-processors. Each is one line in a table
 * of types. */
#include <string.h>

#include "model/tokenizer/read/json_parts.h"

/* ---- decoders */

static clef_status decode_sequence(clef__json_reader *r, const json_t *object);

static clef_status decode_byte_level(clef__json_reader *r, const json_t *object)
{
    (void)object;
    r->fused = 1;
    return clef__decoder_byte_level(&r->tok->stages, r->err);
}

static clef_status decode_byte_fallback(clef__json_reader *r, const json_t *object)
{
    (void)object;
    return r->fused ? clef__stage_refuse(r, "decoder", "ByteFallback after Fuse or ByteLevel")
                    : clef__decoder_byte_fallback(&r->tok->stages, r->err);
}

static clef_status decode_metaspace(clef__json_reader *r, const json_t *object)
{
    clef__json_metaspace meta = {0};
    const clef_status st = clef__json_read_metaspace(r, object, &meta);
    if (st)
        return st;
    if (r->fused)
        return clef__stage_refuse(r, "decoder", "Metaspace after Fuse or ByteLevel");
    return clef__decoder_metaspace(&r->tok->stages, meta.replacement, strlen(meta.replacement),
                                   meta.scheme != CLEF_PREPEND_NEVER, r->err);
}

static clef_status decode_replace(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Replace");
    const char *text = clef__json_string(&f, "content", "");
    clef__pattern pattern;
    clef_status st = f.status ? f.status : clef__json_pattern(r, "Replace", object, &pattern);
    if (st)
        return st;
    if (r->fused) {
        clef__regex_destroy(pattern.regex);
        return clef__stage_refuse(r, "decoder", "Replace after Fuse or ByteLevel");
    }
    return clef__decoder_replace(&r->tok->stages, &pattern, text, strlen(text), r->err);
}

static clef_status decode_fuse(clef__json_reader *r, const json_t *object)
{
    (void)object;
    r->fused = 1;
    return CLEF_OK;
}

static clef_status decode_strip(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "Strip");
    const char *content = clef__json_string(&f, "content", " ");
    const int64_t start = clef__json_int(&f, "start", 0, INT32_MAX, 0),
                  stop = clef__json_int(&f, "stop", 0, INT32_MAX, 0);
    if (f.status)
        return f.status;
    if (start == 0 && stop == 0)
        return CLEF_OK;
    if (!r->fused)
        return clef__decoder_strip(&r->tok->stages, content, strlen(content), (int32_t)start, (int32_t)stop,
                                   r->err);
    if (start != 1 || stop != 0 || strcmp(content, " ") != 0)
        return clef__stage_refuse(r, "decoder", "Strip of anything but one leading space after Fuse");
    r->tok->stages.first_token = CLEF_FIRST_DROPS_SPACE;
    return CLEF_OK;
}

static clef_status decode_wordpiece(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "WordPiece");
    const char *prefix = clef__json_string(&f, "prefix", "##");
    const int cleanup = clef__json_bool(&f, "cleanup", 1);
    if (f.status || r->fused)
        return f.status ? f.status : clef__stage_refuse(r, "decoder", "WordPiece after Fuse or ByteLevel");
    return clef__decoder_wordpiece(&r->tok->stages, prefix, strlen(prefix), cleanup, r->err);
}

static clef_status decode_bpe(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "BPEDecoder");
    const char *suffix = clef__json_string(&f, "suffix", "</w>");
    if (f.status || r->fused || r->tok->stages.n_decoders)
        return f.status ? f.status : clef__stage_refuse(r, "decoder", "BPEDecoder after another step");
    return clef__decoder_bpe(&r->tok->stages, &r->tok->vocab, suffix, strlen(suffix), r->err);
}

static clef_status decode_ctc(clef__json_reader *r, const json_t *object)
{
    clef_json_fields f = clef__json_part(r, object, "CTC");
    const char *pad = clef__json_string(&f, "pad_token", "<pad>"),
               *delimiter = clef__json_string(&f, "word_delimiter_token", "|");
    const int cleanup = clef__json_bool(&f, "cleanup", 1);
    if (f.status || r->fused)
        return f.status ? f.status : clef__stage_refuse(r, "decoder", "CTC after Fuse or ByteLevel");
    return clef__decoder_ctc(&r->tok->stages, pad, delimiter, cleanup, r->err);
}

static const clef__json_type decoder_kinds[] = {
    {"Sequence", .read = decode_sequence},
    {"ByteLevel", .read = decode_byte_level},
    {"ByteFallback", .read = decode_byte_fallback},
    {"Metaspace", .read = decode_metaspace},
    {"Replace", .read = decode_replace},
    {"Fuse", .read = decode_fuse},
    {"Strip", .read = decode_strip},
    {"WordPiece", .read = decode_wordpiece},
    {"BPEDecoder", .read = decode_bpe},
    {"CTC", .read = decode_ctc},
};

static clef_status decode_sequence(clef__json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "decoder", decoder_kinds, CLEF_N_ITEMS(decoder_kinds),
                               json_object_get(object, "decoders"));
}

clef_status clef__json_decoder(clef__json_reader *r, const json_t *object)
{
    if (!object || json_is_null(object))
        r->tok->stages.first_token = CLEF_FIRST_NO_SEPARATOR;
    return clef__json_by_type(r, "decoder", decoder_kinds, CLEF_N_ITEMS(decoder_kinds), object);
}

/* ---- post-processors */

static clef_status post_sequence(clef__json_reader *r, const json_t *object);

static clef_status post_byte_level(clef__json_reader *r, const json_t *object)
{
    (void)r;
    (void)object; /* it changes only offsets, which clef does not compute */
    return CLEF_OK;
}

static clef_status check_alone(clef__json_reader *r)
{
    return r->posts++ ? clef__stage_refuse(r, "post_processor", "a second step that adds tokens") : CLEF_OK;
}

/* Appends the ids of a SpecialToken to a template and, for a single text, to the special tokens around it. */
static clef_status template_token(clef__json_reader *r, const json_t *object, const json_t *special,
                                  clef__template *to, int after)
{
    clef_json_fields f = clef__json_part(r, special, "TemplateProcessing");
    const char *name = clef__json_string(&f, "id", "");
    const int32_t type = (int32_t)clef__json_int(&f, "type_id", 0, INT32_MAX, 0);
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(object, "special_tokens"), name ? name : ""), "ids");
    clef_status st = f.status;
    if (st == CLEF_OK && !json_is_array(ids))
        st = clef__fail(r->err, CLEF_E_FORMAT,
                        "%s: TemplateProcessing names \"%.48s\", which special_tokens does not have", r->file,
                        name);
    for (size_t i = 0; i < json_array_size(ids) && st == CLEF_OK; i++) {
        const json_int_t id =
            json_is_integer(json_array_get(ids, i)) ? json_integer_value(json_array_get(ids, i)) : -1;
        int32_t *n = after ? &r->tok->n_after : &r->tok->n_before;
        st = id < 0 ? clef__fail(r->err, CLEF_E_FORMAT, "%s: TemplateProcessing: \"%.48s\" has no id",
                                 r->file, name)
                    : clef__template_push(r->tok, to, id, type, r->err);
        if (st == CLEF_OK && after >= 0 && *n < CLEF_MAX_AROUND)
            (after ? r->tok->after : r->tok->before)[(*n)++] = (int32_t)id;
    }
    return st;
}

/* Reads one template; `seen` counts its sequences A and B. */
static clef_status read_template(clef__json_reader *r, const json_t *object, const char *key,
                                 clef__template *to, int seen[2])
{
    const json_t *items = json_object_get(object, key);
    clef_status st = CLEF_OK;
    if (!json_is_array(items))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: TemplateProcessing: %s is %s, expected an array",
                          r->file, key, clef__json_kind(items));
    to->n = 0;
    for (size_t i = 0; i < json_array_size(items) && st == CLEF_OK; i++) {
        const json_t *item = json_array_get(items, i), *special = json_object_get(item, "SpecialToken");
        const json_t *sequence = json_object_get(item, "Sequence");
        const char *id = json_string_value(json_object_get(sequence, "id"));
        const int is_b = id && strcmp(id, "B") == 0 && to == &r->tok->pair, is_a = id && strcmp(id, "A") == 0;
        const json_int_t type = json_integer_value(json_object_get(sequence, "type_id"));
        if (special) {
            st = template_token(r, object, special, to, to == &r->tok->pair ? -1 : seen[0]);
        } else if (!is_a && !is_b) {
            st =
                clef__fail(r->err, CLEF_E_FORMAT,
                           "%s: TemplateProcessing: item %zu of %s is neither a SpecialToken nor Sequence %s",
                           r->file, i, key, to == &r->tok->pair ? "A or B" : "A");
        } else {
            seen[is_b]++;
            st = clef__template_push(r->tok, to, is_b ? CLEF_TEMPLATE_B : CLEF_TEMPLATE_A,
                                     (int32_t)(type & INT32_MAX), r->err);
        }
    }
    return st;
}

static clef_status post_template(clef__json_reader *r, const json_t *object)
{
    int single[2] = {0}, pair[2] = {0};
    clef_status st = check_alone(r);
    if (st == CLEF_OK)
        st = read_template(r, object, "single", &r->tok->single, single);
    if (st == CLEF_OK && single[0] != 1)
        st = clef__stage_refuse(r, "TemplateProcessing", "a template with not exactly one Sequence A");
    if (st || !json_is_array(json_object_get(object, "pair")))
        return st;
    st = read_template(r, object, "pair", &r->tok->pair, pair);
    return st || (pair[0] == 1 && pair[1] == 1)
               ? st
               : clef__stage_refuse(r, "TemplateProcessing", "a pair without exactly one Sequence A and B");
}

/* Reads "cls": ["<s>", 0], "sep": ["</s>", 2]. One text becomes cls A sep; two become cls A sep B sep, with
 * a second sep before B for RoBERTa. */
static clef_status post_around(clef__json_reader *r, const json_t *object, int is_roberta)
{
    const json_t *cls = json_array_get(json_object_get(object, "cls"), 1),
                 *sep = json_array_get(json_object_get(object, "sep"), 1);
    const clef_status st = check_alone(r);
    if (st)
        return st;
    if (!json_is_integer(cls) || !json_is_integer(sep))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: post_processor: cls and sep are not [token, id]",
                          r->file);
    if (is_roberta)
        return clef__template_roberta(r->tok, json_integer_value(cls), json_integer_value(sep), r->err);
    return clef__template_bert(r->tok, json_integer_value(cls), json_integer_value(sep), r->err);
}

static clef_status post_roberta(clef__json_reader *r, const json_t *object)
{
    return post_around(r, object, 1);
}

static clef_status post_bert(clef__json_reader *r, const json_t *object)
{
    return post_around(r, object, 0);
}

static const clef__json_type postprocessor_kinds[] = {
    {"Sequence", .read = post_sequence},           {"ByteLevel", .read = post_byte_level},
    {"TemplateProcessing", .read = post_template}, {"RobertaProcessing", .read = post_roberta},
    {"BertProcessing", .read = post_bert},
};

static clef_status post_sequence(clef__json_reader *r, const json_t *object)
{
    return clef__json_sequence(r, "post_processor", postprocessor_kinds, CLEF_N_ITEMS(postprocessor_kinds),
                               json_object_get(object, "processors"));
}

clef_status clef__json_postprocessor(clef__json_reader *r, const json_t *object)
{
    return clef__json_by_type(r, "post_processor", postprocessor_kinds, CLEF_N_ITEMS(postprocessor_kinds),
                              object);
}

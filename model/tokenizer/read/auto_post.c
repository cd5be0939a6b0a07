/* The special tokens around a text, by class. */
#include <string.h>

#include "model/tokenizer/read/auto.h"

/* A template's item: a sequence "A" or "B", or a token's text. */
static json_t *item(const char *text, int type)
{
    const int is_sequence = strcmp(text, "A") == 0 || strcmp(text, "B") == 0;
    return json_pack("{s:{s:s, s:i}}", is_sequence ? "Sequence" : "SpecialToken", "id", text, "type_id",
                     type);
}

/* One text between some tokens; NULL: none. */
static json_t *around(const char *before, const char *sequence, const char *after, int type)
{
    json_t *list = json_array();
    const char *texts[] = {before, sequence, after};
    for (size_t i = 0; i < 3; i++)
        if (texts[i])
            json_array_append_new(
                list, i == 1 ? item(texts[i], type)
                             : json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", texts[i], "type_id", type));
    return list;
}

static json_t *join(json_t *first, json_t *second)
{
    json_array_extend(first, second);
    json_decref(second);
    return first;
}

static clef_status put_template(clef__auto *a, json_t *single, json_t *pair, const char *const *texts,
                                size_t n_texts)
{
    json_t *special = json_object();
    for (size_t i = 0; i < n_texts; i++) {
        const json_int_t id = clef__auto_id(a, texts[i]);
        if (texts[i] && id >= 0)
            json_object_set_new(
                special, texts[i],
                json_pack("{s:s, s:[I], s:[s]}", "id", texts[i], "ids", id, "tokens", texts[i]));
    }
    json_t *post = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair",
                             pair, "special_tokens", special);
    return post && !json_object_set_new(a->root, "post_processor", post)
               ? CLEF_OK
               : clef__fail(a->err, CLEF_E_NOMEM, "%s: no memory for a post-processor", a->path);
}

/* BOS before and EOS after each text, as the file asks for them. */
static clef_status put_ends(clef__auto *a, int adds_bos, int adds_eos)
{
    const char *bos = adds_bos ? clef__auto_named(a, "bos_token") : NULL;
    const char *eos = adds_eos ? clef__auto_named(a, "eos_token") : NULL;
    const char *const texts[2] = {bos, eos};
    return put_template(a, around(bos, "A", eos, 0), join(around(bos, "A", eos, 0), around(bos, "B", eos, 1)),
                        texts, 2);
}

/* The texts of two roles that a class needs. */
static clef_status need(const clef__auto *a, const char *const roles[2], const char *out[2])
{
    for (size_t i = 0; i < 2; i++)
        if (!(out[i] = clef__auto_named(a, roles[i])))
            return clef__fail(a->err, CLEF_E_FORMAT, "%s: %s needs a %s", a->path, a->class_name, roles[i]);
    return CLEF_OK;
}

static clef_status put_bert(clef__auto *a)
{
    static const char *const roles[] = {"cls_token", "sep_token"};
    const char *t[2];
    const clef_status st = need(a, roles, t);
    return st ? st
              : put_template(a, around(t[0], "A", t[1], 0),
                             join(around(t[0], "A", t[1], 0), around(NULL, "B", t[1], 1)), t, 2);
}

static clef_status put_roberta(clef__auto *a)
{
    static const char *const roles[] = {"cls_token", "sep_token"};
    const char *t[2];
    const clef_status st = need(a, roles, t);
    if (st)
        return st;
    json_object_set_new(a->root, "post_processor",
                        json_pack("{s:s, s:[s, I], s:[s, I]}", "type", "RobertaProcessing", "sep", t[1],
                                  clef__auto_id(a, t[1]), "cls", t[0], clef__auto_id(a, t[0])));
    return CLEF_OK;
}

static clef_status put_t5(clef__auto *a)
{
    static const char *const roles[] = {"eos_token", "eos_token"};
    const char *t[2];
    const clef_status st = need(a, roles, t);
    return st ? st
              : put_template(a, around(NULL, "A", t[0], 0),
                             join(around(NULL, "A", t[0], 0), around(NULL, "B", t[0], 0)), t, 2);
}

static clef_status put_xlm_roberta(clef__auto *a)
{
    static const char *const roles[] = {"bos_token", "eos_token"};
    const char *t[2];
    const clef_status st = need(a, roles, t);
    return st ? st
              : put_template(a, around(t[0], "A", t[1], 0),
                             join(around(t[0], "A", t[1], 0), around(t[1], "B", t[1], 0)), t, 2);
}

/* ---- translation and speech: tokens around one text, or around two that follow each other */

enum { MOST_AROUND = 8 };

/* The tokens of `before`, "A" and perhaps "B", and the tokens of `after`. A list ends with NULL. */
static json_t *around_all(const char *const *before, const char *const *after, int pair)
{
    json_t *list = json_array();
    for (; *before; before++)
        json_array_append_new(list, item(*before, 0));
    json_array_append_new(list, item("A", 0));
    if (pair)
        json_array_append_new(list, item("B", pair - 1));
    for (; *after; after++)
        json_array_append_new(list, item(*after, pair ? pair - 1 : 0));
    return list;
}

/* type: the type id of a second text. Each token must be one of the tokenizer's. */
static clef_status put_around(clef__auto *a, const char *const *before, const char *const *after, int type)
{
    const char *texts[MOST_AROUND] = {NULL};
    size_t n = 0;
    for (size_t i = 0; before[i]; i++)
        texts[n++] = before[i];
    for (size_t i = 0; after[i]; i++)
        texts[n++] = after[i];
    for (size_t i = 0; i < n; i++)
        if (clef__auto_id(a, texts[i]) < 0)
            return clef__fail(a->err, CLEF_E_UNSUPPORTED, "%s: %s expects a token %.80s, got none", a->path,
                              a->class_name, texts[i]);
    return put_template(a, around_all(before, after, 0), around_all(before, after, 1 + type), texts, n);
}

/* A language's token and EOS: before and after the text, or both after it. */
static clef_status put_language(clef__auto *a)
{
    const json_t *source = json_object_get(a->config, "src_lang"),
                 *legacy = json_object_get(a->config, "legacy_behaviour");
    const char *lang = json_string_value(source), *eos = clef__auto_named(a, "eos_token");
    if (!lang)
        lang = a->kind == CLEF_AUTO_NLLB ? "eng_Latn" : "en_XX";
    if (!eos)
        return clef__fail(a->err, CLEF_E_FORMAT, "%s: %s needs an eos_token", a->path, a->class_name);
    const char *const none[] = {NULL}, *const prefix[] = {lang, NULL}, *const end[] = {eos, NULL},
                      *const suffix[] = {eos, lang, NULL};
    const int is_last = a->kind == CLEF_AUTO_MBART || (a->kind == CLEF_AUTO_NLLB && json_is_true(legacy));
    return put_around(a, is_last ? none : prefix, is_last ? suffix : end, 0);
}

static clef_status put_pegasus(clef__auto *a)
{
    static const char *const none[] = {NULL};
    const char *const end[] = {clef__auto_named(a, "eos_token"), NULL};
    return end[0] ? put_around(a, none, end, 0)
                  : clef__fail(a->err, CLEF_E_FORMAT, "%s: %s needs an eos_token", a->path, a->class_name);
}

static clef_status put_whisper(clef__auto *a)
{
    const char *task = json_string_value(json_object_get(a->config, "task")), *before[4] = {NULL};
    const char *const end[] = {clef__auto_named(a, "eos_token"), NULL};
    const json_t *language = json_object_get(a->config, "language");
    size_t n = 0;
    if ((language && !json_is_null(language)) || !end[0])
        return clef__fail(a->err, CLEF_E_UNSUPPORTED,
                          "%s: tokenizer_config.json: language is not supported for %s", a->path,
                          a->class_name);
    before[n++] = "<|startoftranscript|>";
    if (task)
        before[n++] = strcmp(task, "transcribe") == 0 ? "<|transcribe|>" : "<|translate|>";
    if (!json_is_true(json_object_get(a->config, "predict_timestamps")))
        before[n++] = "<|notimestamps|>";
    return put_around(a, before, end, 1);
}

/* The tokens of these classes, whatever tokenizer.json says. */
static clef_status put_class(clef__auto *a)
{
    return a->kind == CLEF_AUTO_PEGASUS     ? put_pegasus(a)
           : a->kind == CLEF_AUTO_WHISPER   ? put_whisper(a)
           : a->kind == CLEF_AUTO_CAMEMBERT ? put_xlm_roberta(a)
                                            : put_language(a);
}

clef_status clef__auto_post(clef__auto *a)
{
    const json_t *bos = json_object_get(a->config, "add_bos_token"),
                 *eos = json_object_get(a->config, "add_eos_token");
    const json_t *given = json_object_get(a->root, "post_processor");
    const int ignored = a->source == CLEF_SOURCE_JSON; /* tokenizer.json has its own post-processor */
    const int adds_bos = !ignored && bos ? json_is_true(bos) : a->kind == CLEF_AUTO_CODE_LLAMA;
    const int adds_eos = !ignored && json_is_true(eos), said = !ignored && (bos || eos);
    if (a->kind >= CLEF_AUTO_NLLB)
        return put_class(a);
    if (a->kind == CLEF_AUTO_BERT)
        return put_bert(a);
    if (a->kind == CLEF_AUTO_ROBERTA || a->kind == CLEF_AUTO_MPNET)
        return put_roberta(a);
    if (a->kind == CLEF_AUTO_T5)
        return put_t5(a);
    if (a->kind == CLEF_AUTO_XLM_ROBERTA)
        return put_xlm_roberta(a);
    if (a->kind == CLEF_AUTO_ALBERT && (!given || json_is_null(given)) && !said)
        return put_bert(a);
    if (said || a->kind == CLEF_AUTO_CODE_LLAMA || a->kind == CLEF_AUTO_GPT_NEOX || !given ||
        json_is_null(given))
        return put_ends(a, adds_bos, adds_eos);
    return CLEF_OK;
}

/* A folder's tokenizer from all its files: what is read, and in which order its parts are made. */
#include "model/tokenizer/read/auto.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"

/* Settings that change ids or texts in a way that is not followed. */
static clef_status refuse_settings(const clef__auto *a)
{
    static const char *const flags[] = {"split_special_tokens", "fix_mistral_regex"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (json_is_true(json_object_get(a->config, flags[i])))
            return clef__fail(a->err, CLEF_E_UNSUPPORTED,
                              "%s: tokenizer_config.json: %s true is not supported", a->path, flags[i]);
    const json_t *files = json_object_get(a->config, "fast_tokenizer_files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *name = json_string_value(json_array_get(files, i));
        if (name && strcmp(name, "tokenizer.json") != 0)
            return clef__fail(a->err, CLEF_E_UNSUPPORTED,
                              "%s: tokenizer_config.json: fast_tokenizer_files names %.80s, expected "
                              "tokenizer.json alone",
                              a->path, name);
    }
    return CLEF_OK;
}

static clef_status load_files(clef__auto *a)
{
    clef_status st = clef__load_beside(a->path, "tokenizer_config.json", &a->config, a->err);
    if (st == CLEF_OK)
        st = clef__load_beside(a->path, "config.json", &a->model_config, a->err);
    if (st == CLEF_OK)
        st = clef__load_beside(a->path, "special_tokens_map.json", &a->map, a->err);
    if (st == CLEF_OK)
        st = clef__load_beside(a->path, "added_tokens.json", &a->added, a->err);
    if (st == CLEF_OK && a->source == CLEF_SOURCE_JSON)
        st = clef__json_load(a->path, CLEF_TOKENIZER_FILE_BYTES, &a->file, a->err);
    return st;
}

/* Whether a class takes its vocabulary from such a file. */
static int takes_source(const clef__auto *a)
{
    const int is_bert = a->kind == CLEF_AUTO_BERT || a->kind == CLEF_AUTO_MPNET;
    const int is_pair = a->kind == CLEF_AUTO_GPT2 || a->kind == CLEF_AUTO_GPT_NEOX ||
                        a->kind == CLEF_AUTO_COHERE || a->kind == CLEF_AUTO_QWEN2 ||
                        a->kind == CLEF_AUTO_ROBERTA || a->kind == CLEF_AUTO_BLENDERBOT;
    return a->source == CLEF_SOURCE_TXT ? is_bert : a->source != CLEF_SOURCE_PAIR || is_pair;
}

/* A class that clef does not build, or not from such a file. */
static clef_status refuse_class(const clef__auto *a)
{
    if (a->kind == CLEF_AUTO_OTHER)
        return clef__fail(a->err, CLEF_E_UNSUPPORTED,
                          "%s: expected a tokenizer class that clef builds, got %s", a->path, a->class_name);
    if (a->kind >= CLEF_AUTO_NLLB && a->source != CLEF_SOURCE_JSON)
        return clef__fail(a->err, CLEF_E_UNSUPPORTED, "%s: %s expects tokenizer.json, got another file",
                          a->path, a->class_name);
    return CLEF_OK;
}

/* Without a class that says how vocab.json and vocab.txt are used, their usual one counts, but only where
 * there are tokens beside them. */
static clef_status guess_class(clef__auto *a)
{
    const int has_tokens = json_object_size(a->decoder) || json_object_size(a->specific) ||
                           json_array_size(a->extra) || json_array_size(a->additional);
    const char *bos = clef__auto_named(a, "bos_token");
    const clef_status st = refuse_class(a);
    if (st)
        return st;
    if (!a->is_named && !takes_source(a))
        a->kind = CLEF_AUTO_BACKEND;
    if (a->source == CLEF_SOURCE_JSON || a->kind != CLEF_AUTO_BACKEND || !has_tokens)
        return CLEF_OK;
    if (a->source == CLEF_SOURCE_TXT)
        a->kind = CLEF_AUTO_BERT;
    if (a->source == CLEF_SOURCE_PAIR)
        a->kind = bos && strcmp(bos, "<s>") == 0 ? CLEF_AUTO_ROBERTA : CLEF_AUTO_GPT2;
    return CLEF_OK;
}

/* Whether decoded text is cleaned; not that of BPE, as its spaces are the text's own. */
static int cleans_spaces(const clef__auto *a)
{
    const json_t *model = json_object_get(a->root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    const int is_bpe = type ? strcmp(type, "BPE") == 0 : json_object_get(model, "merges") != NULL;
    return json_is_true(json_object_get(a->config, "clean_up_tokenization_spaces")) &&
           (!is_bpe ||
            json_is_true(json_object_get(
                a->config, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output")));
}

static clef_status make_root(clef__auto *a)
{
    clef_status st = refuse_settings(a);
    if (st == CLEF_OK)
        st = clef__auto_class(a);
    if (st == CLEF_OK)
        st = clef__auto_tokens(a);
    if (st == CLEF_OK)
        st = guess_class(a);
    if (st == CLEF_OK)
        st = clef__auto_stages(a);
    if (st || !a->root)
        return st;
    st = clef__auto_add(a);
    return st ? st : clef__auto_post(a);
}

static clef__auto_source source_of(const char *path)
{
    static const struct {
        const char *end;
        clef__auto_source source;
    } ends[] = {{".json", CLEF_SOURCE_JSON}, {".model", CLEF_SOURCE_SPM}, {".txt", CLEF_SOURCE_TXT}};
    const size_t n = strlen(path);
    if (n >= 10 && strcmp(path + n - 10, "vocab.json") == 0)
        return CLEF_SOURCE_PAIR;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i].end) && strcmp(path + n - strlen(ends[i].end), ends[i].end) == 0)
            return ends[i].source;
    return CLEF_SOURCE_JSON;
}

clef_status clef__auto_tokenizer(const char *path, json_t **root, json_t **named, int *cleans,
                                 clef_error *err)
{
    clef__auto a = {.path = path, .source = source_of(path), .err = err};
    *root = NULL;
    if (named)
        *named = NULL;
    clef_status st = load_files(&a);
    const int has_others = a.config || a.model_config || a.map || a.added;
    const int is_alone = !has_others && (a.source == CLEF_SOURCE_PAIR || a.source == CLEF_SOURCE_TXT);
    if (st == CLEF_OK && !a.config)
        a.config = json_object();
    a.named = json_object();
    a.specific = json_object();
    a.by_text = json_object();
    a.decoder = json_object();
    if (st == CLEF_OK && (!a.config || !a.named || !a.specific || !a.by_text || !a.decoder))
        st = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a tokenizer's files", path);
    if (st == CLEF_OK && !is_alone)
        st = make_root(&a);
    if (st == CLEF_OK)
        *root = json_incref(a.root);
    if (st == CLEF_OK && named)
        *named = json_incref(a.named);
    if (st == CLEF_OK && cleans)
        *cleans = a.root && cleans_spaces(&a);
    json_t *const parts[] = {a.config, a.model_config, a.map,     a.added, a.file, a.named, a.specific,
                             a.extra,  a.additional,   a.decoder, a.spm,   a.root, a.ids,   a.by_text};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        json_decref(parts[i]);
    return st;
}

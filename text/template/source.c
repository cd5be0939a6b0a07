/* Finds a model's chat template and its special tokens. */
#include "text/template/source.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/foreign.h"
#include "model/file/gguf.h"
#include "runtime/os/os.h"

enum { MAX_PATH = 1200, MAX_CONFIG_BYTES = 64 << 20 };

/* A source that was found: malloced text. */
typedef struct found {
    char *text;
    size_t n;
} found;

static clef_status keep(const char *text, size_t n, found *out, clef_error *err)
{
    free(out->text);
    out->text = malloc(n + 1);
    if (!out->text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a chat template");
    memcpy(out->text, text, n);
    out->text[n] = '\0';
    out->n = n;
    return CLEF_OK;
}

static int join_path(char out[MAX_PATH], const char *folder, const char *name)
{
    const int n = snprintf(out, MAX_PATH, "%s/%s", folder, name);
    return n > 0 && n < MAX_PATH && clef__os_is_file(out);
}

/* ---- names ------------------------------------------------------------------------------------ */

/* How well a template's name fits: more is better, 0: not at all. */
static int fitness(const char *name, const char *which, int32_t has_tools)
{
    if (which)
        return strcmp(name, which) == 0 ? 3 : 0;
    return has_tools && strcmp(name, "tool_use") == 0 ? 2 : strcmp(name, "default") == 0 ? 1 : 0;
}

/* "chat_template" of a config: a text, or a list of objects with name and template. */
static clef_status from_value(const json_t *value, const char *which, int32_t has_tools, found *out,
                              clef_error *err)
{
    int best = 0;
    clef_status s = CLEF_OK;
    if (json_is_string(value) && (!which || strcmp(which, "default") == 0))
        return keep(json_string_value(value), json_string_length(value), out, err);
    for (size_t i = 0; i < json_array_size(value) && !s; i++) {
        const json_t *each = json_array_get(value, i), *name = json_object_get(each, "name"),
                     *text = json_object_get(each, "template");
        const int fits = json_is_string(name) && json_is_string(text)
                             ? fitness(json_string_value(name), which, has_tools)
                             : 0;
        if (fits > best) {
            best = fits;
            s = keep(json_string_value(text), json_string_length(text), out, err);
        }
    }
    return s;
}

/* ---- folders and GGUF files ------------------------------------------------------------------- */

/* Integers are read as reals, since most tokenizer_config.json write 10^30 for "no longest text", which no
 * integer holds. */
static clef_status load_config(const char *path, json_t **out, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    json_error_t why;
    *out = NULL;
    clef_status s = clef__os_read(path, MAX_CONFIG_BYTES, &text, &n, err);
    if (!s)
        s = clef__foreign_text(text, n, path, "JSON", err);
    if (!s)
        *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);
    if (!s && !*out)
        s = clef__fail(err, CLEF_E_FORMAT, "%s: line %d, column %d: %s", path, why.line, why.column,
                       why.text);
    free(text);
    return s;
}

static clef_status from_config(const char *folder, const char *file, const char *which, int32_t has_tools,
                               found *out, clef_error *err)
{
    char path[MAX_PATH];
    json_t *root = NULL;
    if (out->text || !join_path(path, folder, file))
        return CLEF_OK;
    clef_status s = load_config(path, &root, err);
    if (!s)
        s = from_value(json_object_get(root, "chat_template"), which, has_tools, out, err);
    json_decref(root);
    return s;
}

static clef_status read_file(const char *path, found *out, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef_status s = clef__os_read(path, CLEF__TPL_MAX_SOURCE, &text, &n, err);
    if (!s && (s = clef__foreign_text(text, n, path, "a chat template", err)) != CLEF_OK)
        free(text);
    if (!s) {
        free(out->text);
        *out = (found){text, n};
    }
    return s;
}

static clef_status from_folder(const char *folder, const char *which, int32_t has_tools, found *out,
                               clef_error *err)
{
    char path[MAX_PATH], name[200];
    clef_status s = CLEF_OK;
    if (which &&
        snprintf(name, sizeof name, "additional_chat_templates/%s.jinja", which) < (int)sizeof name &&
        join_path(path, folder, name))
        return read_file(path, out, err);
    if (!which && has_tools && join_path(path, folder, "additional_chat_templates/tool_use.jinja"))
        return read_file(path, out, err);
    if ((!which || strcmp(which, "default") == 0) && join_path(path, folder, "chat_template.jinja"))
        return read_file(path, out, err);
    s = from_config(folder, "tokenizer_config.json", which, has_tools, out, err);
    return s ? s : from_config(folder, "chat_template.json", which, has_tools, out, err);
}

static clef_status from_gguf(const char *path, const char *which, int32_t has_tools, found *out,
                             clef_error *err)
{
    clef_gguf gguf;
    char key[200];
    const char *const names[] = {which, has_tools && !which ? "tool_use" : NULL, which ? NULL : "",
                                 "default"};
    clef_status s = clef__gguf_open(path, &gguf, err);
    if (s)
        return s;
    for (size_t i = 0; i < sizeof names / sizeof *names && !s && !out->text; i++) {
        if (!names[i] || (which && i > 0))
            continue;
        snprintf(key, sizeof key, "tokenizer.chat_template%s%s", *names[i] ? "." : "", names[i]);
        const clef_gguf_entry *entry = clef__gguf_find(&gguf, key);
        if (!entry && which && strcmp(which, "default") == 0)
            entry = clef__gguf_find(&gguf, "tokenizer.chat_template");
        if (entry && entry->type == CLEF_GGUF_STRING && !entry->is_array)
            s = keep(entry->strings[0].text, entry->strings[0].n_bytes, out, err);
    }
    clef__gguf_close(&gguf);
    return s;
}

/* 1 for a template's text, rather than a name or a file that is not there. */
static int is_source(const char *which)
{
    return strchr(which, '{') != NULL;
}

clef_status clef_template_open(const char *model, const char *which, int32_t has_tools, clef_template **out,
                               clef_error *err)
{
    found source = {0};
    clef_status s = CLEF_OK;
    const char *builtin = which ? clef_template_builtin(which) : NULL, *name = which ? which : model;
    *out = NULL;
    if (builtin)
        return clef_template_parse(builtin, strlen(builtin), which, out, err);
    if (which && clef__os_is_file(which))
        s = read_file(which, &source, err);
    else if (model)
        s = clef__os_is_dir(model) ? from_folder(model, which, has_tools, &source, err)
                                   : from_gguf(model, which, has_tools, &source, err);
    if (!s && !source.text && which && is_source(which)) {
        name = "chat template"; /* a text may be longer than what is wrong with it */
        s = keep(which, strlen(which), &source, err);
    }
    if (!s && !source.text && which)
        s = clef__fail(err, CLEF_E_NOT_FOUND,
                       "chat template '%.200s': no such file, the model has none of this name, and the "
                       "built-in ones are "
                       "chatml, llama2, llama3, mistral, gemma, command-r, phi3 and zephyr",
                       which);
    else if (!s && !source.text)
        s = clef__fail(err, CLEF_E_NOT_FOUND, "%s: the model has no chat template; name one with --template",
                       model ? model : "no model");
    if (!s)
        s = clef_template_parse(source.text, source.n, name, out, err);
    free(source.text);
    return s;
}

/* ---- special tokens --------------------------------------------------------------------------- */

static const char *const special_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

static void define_token(clef__tpl *t, const char *name, const char *text, size_t n)
{
    char *copy = clef__tpl_alloc(t, n + 1);
    if (copy)
        clef__scope_set(t, t->globals, clef__str_of(t, name, strlen(name), 0),
                        clef__text_value(t, memcpy(copy, text, n), n, 0));
}

static void tokens_of_config(clef__tpl *t, const json_t *root)
{
    for (size_t i = 0; i < sizeof special_names / sizeof *special_names && !t->status; i++) {
        const json_t *value = json_object_get(root, special_names[i]),
                     *content = json_is_object(value) ? json_object_get(value, "content") : value;
        if (json_is_string(content))
            define_token(t, special_names[i], json_string_value(content), json_string_length(content));
    }
}

/* As transformers reads them: special_tokens_map.json counts only where tokenizer_config.json has no list of
 * added tokens, and then it counts more. */
static void tokens_of_folder(clef__tpl *t, const char *folder)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    int has_list = 0;
    for (size_t f = 0; f < sizeof files / sizeof *files && !has_list && !t->status; f++) {
        char path[MAX_PATH];
        json_t *root = NULL;
        if (!join_path(path, folder, files[f]))
            continue;
        t->status = load_config(path, &root, t->err);
        tokens_of_config(t, root);
        has_list = json_is_object(json_object_get(root, "added_tokens_decoder"));
        json_decref(root);
    }
}

static void tokens_of_gguf(clef__tpl *t, const char *path)
{
    static const char *const keys[] = {"bos", "eos", "unknown", "seperator", "padding", "cls", "mask"};
    clef_gguf gguf;
    t->status = clef__gguf_open(path, &gguf, t->err);
    if (t->status)
        return;
    const clef_gguf_entry *tokens = clef__gguf_find(&gguf, "tokenizer.ggml.tokens");
    for (size_t i = 0; i < sizeof keys / sizeof *keys && tokens && tokens->strings; i++) {
        char key[80];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[i]);
        const int64_t id = clef__gguf_int(&gguf, key, -1);
        if (id >= 0 && (uint64_t)id < tokens->n)
            define_token(t, special_names[i], tokens->strings[id].text, tokens->strings[id].n_bytes);
    }
    clef__gguf_close(&gguf);
}

void clef__define_special_tokens(clef__tpl *t, const char *model)
{
    if (clef__os_is_dir(model))
        tokens_of_folder(t, model);
    else
        tokens_of_gguf(t, model);
}

/* The special tokens and the added tokens that the files of a folder name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/read/auto.h"

static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { N_ROLES = sizeof roles / sizeof *roles };

static int is_role(const char *key)
{
    for (size_t i = 0; i < N_ROLES; i++)
        if (strcmp(key, roles[i]) == 0)
            return 1;
    return 0;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

const char *clef__auto_text(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

const char *clef__auto_named(const clef__auto *a, const char *role)
{
    return clef__auto_text(json_object_get(a->named, role));
}

static clef_status bad_token(const clef__auto *a, const char *file, const char *key)
{
    return clef__fail(a->err, CLEF_E_FORMAT,
                      "%s: %s: %.80s: expected the text of a token, or its content and options", a->path,
                      file, key);
}

/* ---- one token */

json_t *clef__auto_token(const char *text, int lstrip, int special, int normalized)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "content", text, "lstrip", lstrip, "special", special,
                     "normalized", normalized);
}

/* A copy of a token's object with the options alone. special -1: as the object says. */
static json_t *copy_options(const json_t *token, int special)
{
    static const char *const options[] = {"content", "single_word", "lstrip", "rstrip", "normalized"};
    json_t *copy = json_is_string(json_object_get(token, "content")) ? json_object() : NULL;
    for (size_t i = 0; copy && i < sizeof options / sizeof *options; i++)
        if (json_object_get(token, options[i]) && !json_is_null(json_object_get(token, options[i])))
            json_object_set(copy, options[i], json_object_get(token, options[i]));
    if (copy)
        json_object_set_new(
            copy, "special",
            json_boolean(special < 0 ? json_is_true(json_object_get(token, "special")) : special));
    return copy;
}

/* tokenizer_config.json marks an object as a token by "__type": "AddedToken". */
static int is_marked(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "__type"));
    return type && strcmp(type, "AddedToken") == 0;
}

/* Replaces marked objects by their options, in an array or in the values of an object. */
static clef_status unmark_tokens(const clef__auto *a, json_t *in, const char *name)
{
    const char *key;
    json_t *value;
    size_t i;
    void *next;
    json_array_foreach(in, i, value)
        if (is_marked(value) && json_array_set_new(in, i, copy_options(value, -1)))
            return bad_token(a, "tokenizer_config.json", name);
        else if (!clef__auto_text(json_array_get(in, i)))
            return bad_token(a, "tokenizer_config.json", name);
    json_object_foreach_safe(
        in, next, key,
        value) if (is_marked(value) &&
                   json_object_set_new(
                       in, key, copy_options(value, -1))) return bad_token(a, "tokenizer_config.json", key);
    else if (!json_is_null(value) &&
             !clef__auto_text(json_object_get(in, key))) return bad_token(a, "tokenizer_config.json", key);
    return CLEF_OK;
}

/* ---- tokenizer_config.json */

/* A list, or an object of tokens under names of their own, which are moved to a->specific. */
static clef_status take_list(clef__auto *a, const char *file, const char *key, json_t *value, json_t **to)
{
    if (json_is_object(value))
        return json_object_update(a->by_text, value) ? bad_token(a, file, key) : CLEF_OK;
    if (!json_is_null(value) && !json_is_array(value))
        return bad_token(a, file, key);
    json_decref(*to);
    *to = json_is_null(value) ? json_array() : json_copy(value);
    return CLEF_OK;
}

static clef_status read_config(clef__auto *a)
{
    json_t *extra = json_object_get(a->config, "extra_special_tokens"), *value;
    json_t *additional = json_object_get(a->config, "additional_special_tokens");
    const char *key;
    const int no_extra =
        !extra || json_is_null(extra) || (json_array_size(extra) + json_object_size(extra) == 0);
    clef_status st = CLEF_OK;
    json_object_foreach(a->config, key, value) {
        if (is_role(key))
            json_object_set(a->named, key, value);
        else if (ends_with(key, "_token") && (json_is_string(value) || is_marked(value)))
            json_object_set(json_is_string(value) ? a->by_text : a->specific, key, value);
    }
    if (additional && no_extra)
        extra = additional, additional = NULL;
    if (extra)
        st = take_list(a, "tokenizer_config.json", "extra_special_tokens", extra, &a->extra);
    if (st == CLEF_OK && additional)
        st = take_list(a, "tokenizer_config.json", "additional_special_tokens", additional, &a->additional);
    return st;
}

/* added_tokens_decoder: {"32000": {"content": ..}, ...}. */
static clef_status read_decoder(clef__auto *a, const json_t *decoder)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)decoder, key, value) {
        char id[24], *end;
        const long long number = strtoll(key, &end, 10);
        snprintf(id, sizeof id, "%lld", number);
        if (end == key || *end || number < 0 || json_object_set_new(a->decoder, id, copy_options(value, -1)))
            return bad_token(a, "tokenizer_config.json: added_tokens_decoder", key);
    }
    return CLEF_OK;
}

/* ---- the older files, which count where tokenizer_config.json has no added_tokens_decoder */

static clef_status merge_extra(clef__auto *a, const json_t *list)
{
    json_t *value;
    size_t i, k;
    if (!a->extra)
        a->extra = json_array();
    json_array_foreach((json_t *)list, i, value) {
        int known = 0;
        for (k = 0; k < json_array_size(a->extra); k++)
            known |= json_equal(json_array_get(a->extra, k), value);
        if (!known && json_array_append_new(a->extra, json_is_object(value) ? copy_options(value, 1)
                                                                            : json_incref(value)))
            return bad_token(a, "special_tokens_map.json", "extra_special_tokens");
    }
    return CLEF_OK;
}

static clef_status read_map(clef__auto *a)
{
    const char *key;
    json_t *value;
    clef_status st = CLEF_OK;
    json_object_foreach(a->map, key, value) {
        const int is_list = strcmp(key, "additional_special_tokens") == 0;
        json_t *one = json_is_object(value) ? copy_options(value, 1) : json_incref(value);
        if (strcmp(key, "extra_special_tokens") == 0)
            st = json_is_array(value) ? merge_extra(a, value)
                                      : take_list(a, "special_tokens_map.json", key, value, &a->extra);
        else if (is_list)
            st = take_list(a, "special_tokens_map.json", key, value, &a->additional);
        else if (is_role(key) || ends_with(key, "_token"))
            st = !one || json_object_set(is_role(key) ? a->named : a->specific, key, one)
                     ? bad_token(a, "special_tokens_map.json", key)
                     : CLEF_OK;
        json_decref(one);
        if (st)
            return st;
    }
    return CLEF_OK;
}

/* Whether a token of added_tokens.json is special: the other files name it. Objects of tokenizer_config.json
 * do not count. */
static int is_named(const clef__auto *a, const char *text)
{
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(a->named, key, value)
        if (!is_marked(value) && clef__auto_text(value) && strcmp(clef__auto_text(value), text) == 0)
            return 1;
    json_array_foreach(a->extra, i, value)
        if (!is_marked(value) && clef__auto_text(value) && strcmp(clef__auto_text(value), text) == 0)
            return 1;
    return 0;
}

static clef_status read_older(clef__auto *a)
{
    const char *key;
    json_t *value;
    size_t i;
    char id[24];
    clef_status st = read_map(a);
    json_object_foreach(a->added, key, value) {
        const int special = is_named(a, key);
        snprintf(id, sizeof id, "%.0f", json_number_value(value));
        if (st == CLEF_OK &&
            (!json_is_number(value) || json_number_value(value) < 0 ||
             json_object_set_new(a->decoder, id, clef__auto_token(key, 0, special, !special))))
            st = clef__fail(a->err, CLEF_E_FORMAT,
                            "%s: added_tokens.json: token \"%.80s\": expected an id, got %s", a->path, key,
                            clef__json_kind(value));
    }
    json_array_foreach(json_object_get(a->file, "added_tokens"), i, value) {
        snprintf(id, sizeof id, "%.0f", json_number_value(json_object_get(value, "id")));
        if (st == CLEF_OK && json_object_set_new(a->decoder, id, copy_options(value, -1)))
            st = bad_token(a, "tokenizer.json", "added_tokens");
    }
    return st;
}

/* A special token has the options of the added token of its text. */
static void use_options(clef__auto *a)
{
    const char *id;
    json_t *token;
    for (size_t i = 0; i < N_ROLES; i++) {
        const char *text = clef__auto_named(a, roles[i]);
        json_t *found = NULL;
        json_object_foreach(a->decoder, id, token)
            if (text && strcmp(clef__auto_text(token), text) == 0)
                found = token;
        if (found)
            json_object_set(a->named, roles[i], found);
    }
}

clef_status clef__auto_tokens(clef__auto *a)
{
    const json_t *decoder = json_object_get(a->config, "added_tokens_decoder");
    clef_status st = read_config(a);
    if (st == CLEF_OK)
        st = decoder ? read_decoder(a, decoder) : read_older(a);
    if (st == CLEF_OK)
        json_object_update(a->specific, a->by_text);
    if (st == CLEF_OK)
        st = unmark_tokens(a, a->named, "special tokens");
    if (st == CLEF_OK)
        st = unmark_tokens(a, a->specific, "special tokens");
    if (st == CLEF_OK)
        st = unmark_tokens(a, a->extra, "extra_special_tokens");
    if (st == CLEF_OK)
        st = unmark_tokens(a, a->additional, "additional_special_tokens");
    if (st == CLEF_OK)
        use_options(a);
    return st;
}

/* The added tokens of a folder and their ids. These are the ids of tokenizers' add_tokens(): of the model's
 * vocabulary, or the next ones after it. The ids that the files give count for the order alone. */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/read/auto.h"

typedef struct adder {
    clef__auto *a;
    json_t *tokens;  /* by text, with their ids */
    json_t *special; /* texts that were special once, which stays so in decoding */
    json_t *normal;  /* texts that were searched in normalised text once: they decode as it has them */
    json_t *seen;    /* special tokens that were added */
    json_int_t n_model, last;
} adder;

json_int_t clef__auto_id(const clef__auto *a, const char *text)
{
    const json_t *id = text ? json_object_get(a->ids, text) : NULL;
    return id ? json_integer_value(id) : -1;
}

/* The ids of the model's texts. */
static clef_status read_ids(clef__auto *a)
{
    json_t *vocab = json_object_get(json_object_get(a->root, "model"), "vocab"), *piece;
    size_t i;
    a->ids = json_is_object(vocab) ? json_copy(vocab) : json_object();
    json_array_foreach(vocab, i, piece) {
        const char *text = json_string_value(json_array_get(piece, 0));
        if (!text || json_object_set_new(a->ids, text, json_integer((json_int_t)i)))
            return clef__fail(a->err, CLEF_E_FORMAT,
                              "%s: piece %zu of the vocabulary: expected [text, score]", a->path, i);
    }
    return a->ids ? CLEF_OK : clef__fail(a->err, CLEF_E_NOMEM, "%s: no memory for a vocabulary", a->path);
}

static int flag_of(const json_t *token, const char *key)
{
    return json_is_true(json_object_get(token, key));
}

/* A token as tokenizer.json has it. A bare text is special. */
static json_t *complete(const json_t *token)
{
    const int special = json_is_string(token) || flag_of(token, "special");
    const json_t *normalized = json_object_get(token, "normalized");
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", clef__auto_text(token), "single_word",
                     flag_of(token, "single_word"), "lstrip", flag_of(token, "lstrip"), "rstrip",
                     flag_of(token, "rstrip"), "normalized",
                     json_is_boolean(normalized) ? json_is_true(normalized) : !special, "special", special);
}

static clef_status add_token(adder *to, const json_t *token)
{
    json_t *one = complete(token);
    const char *text = clef__auto_text(token);
    if (!one)
        return clef__fail(to->a->err, CLEF_E_FORMAT, "%s: an added token without its text", to->a->path);
    json_int_t id = clef__auto_id(to->a, text);
    if (id < 0)
        id = to->last >= to->n_model ? to->last + 1 : to->n_model;
    if (!*text) {
        json_decref(one);
        return CLEF_OK;
    }
    to->last = id > to->last ? id : to->last;
    if (flag_of(one, "special"))
        json_object_set_new(to->special, text, json_true());
    if (flag_of(one, "normalized"))
        json_object_set_new(to->normal, text, json_true());
    json_object_set_new(one, "id", json_integer(id));
    if (json_object_set_new(to->a->ids, text, json_integer(id)) || json_object_set_new(to->tokens, text, one))
        return clef__fail(to->a->err, CLEF_E_NOMEM, "%s: no memory for an added token", to->a->path);
    return CLEF_OK;
}

/* ---- which tokens, in which order */

static int by_key(const void *a, const void *b)
{
    const long long x = strtoll(*(const char *const *)a, NULL, 10),
                    y = strtoll(*(const char *const *)b, NULL, 10);
    return (x > y) - (x < y);
}

/* Whether a token of the table has this text. */
static int is_value(json_t *table, const char *text)
{
    const char *key;
    json_t *value;
    json_object_foreach(table, key, value)
        if (clef__auto_text(value) && strcmp(clef__auto_text(value), text) == 0)
            return 1;
    return 0;
}

/* Whether the same token, with the same options, was added before in this pass. */
static int is_repeated(json_t *seen, json_t *value)
{
    const json_t *one;
    size_t i;
    json_array_foreach(seen, i, one)
        if (json_equal(one, value))
            return 1;
    json_array_append(seen, value);
    return 0;
}

/* Adds a token of a role, which is special. seen NULL: repeated ones, too. */
static clef_status add_named(adder *to, json_t *value, const json_t *known, json_t *seen)
{
    const char *text = clef__auto_text(value);
    if (!text || json_object_get(known, text) || (seen && is_repeated(seen, value)))
        return CLEF_OK;
    json_t *one = json_deep_copy(value);
    if (json_is_object(one))
        json_object_set_new(one, "special", json_true());
    const clef_status st = add_token(to, one);
    json_decref(one);
    return st;
}

/* The tokens of a->decoder by id. A role's token is special. */
static clef_status add_decoder(adder *to, json_t *known)
{
    const size_t n = json_object_size(to->a->decoder);
    const char **keys = malloc((n + 1) * sizeof *keys), *key;
    json_t *value;
    size_t i = 0;
    clef_status st =
        keys ? CLEF_OK
             : clef__fail(to->a->err, CLEF_E_NOMEM, "%s: no memory for %zu added tokens", to->a->path, n);
    if (st)
        return st;
    json_object_foreach(to->a->decoder, key, value)
        keys[i++] = key;
    qsort(keys, n, sizeof *keys, by_key);
    for (i = 0; i < n && st == CLEF_OK; i++) {
        json_t *token = json_object_get(to->a->decoder, keys[i]);
        const char *text = clef__auto_text(token);
        if (is_value(to->a->named, text) || is_value(to->a->specific, text))
            json_object_set_new(token, "special", json_true());
        json_object_set_new(known, text, json_true());
        st = add_token(to, token);
    }
    free(keys);
    return st;
}

/* The special tokens that are not added tokens yet. */
static clef_status add_special(adder *to, json_t *known, json_t *seen)
{
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    json_t *extra = to->a->extra ? to->a->extra : to->a->additional, *value;
    const char *key;
    size_t i;
    clef_status st = CLEF_OK;
    for (i = 0; i < sizeof roles / sizeof *roles && st == CLEF_OK; i++)
        st = add_named(to, json_object_get(to->a->named, roles[i]), known, seen);
    json_object_foreach(to->a->specific, key, value)
        if (st == CLEF_OK)
            st = add_named(to, value, known, seen);
    json_array_foreach(extra, i, value)
        if (st == CLEF_OK && clef__auto_text(value) && !json_object_get(known, clef__auto_text(value)))
            st = add_token(to, value);
    return st;
}

/* Adds all special tokens once more, as these classes do: Cohere's with their options, Qwen2's without. */
static clef_status add_again(adder *to)
{
    json_t *none = json_object(), *list = to->a->extra ? to->a->extra : to->a->additional, *value;
    json_t *const tables[] = {to->a->named, to->a->specific};
    const int drops = to->a->kind == CLEF_AUTO_QWEN2;
    const char *key;
    size_t i, k;
    for (i = 0; i < 2 && drops; i++)
        json_object_foreach(tables[i], key, value)
            if (clef__auto_text(value))
                json_object_set_new(tables[i], key, json_string(clef__auto_text(value)));
    json_array_foreach(list, k, value)
        if (drops)
            json_array_set_new(list, k, json_string(clef__auto_text(value)));
        else if (json_is_object(value))
            json_object_set_new(value, "special", json_true());
    const clef_status st = add_special(to, none, NULL);
    json_decref(none);
    return st;
}

static clef_status add_all(adder *to, json_t *known)
{
    json_t *value;
    size_t i;
    clef_status st = CLEF_OK;
    json_array_foreach(json_object_get(to->a->root, "added_tokens"), i, value) {
        if (st == CLEF_OK)
            st = add_token(to, value);
        if (st == CLEF_OK)
            json_object_set_new(known, clef__auto_text(value), json_true());
    }
    if (st == CLEF_OK)
        st = add_decoder(to, known);
    if (st == CLEF_OK)
        st = add_special(to, known, to->seen);
    const int twice = to->a->kind == CLEF_AUTO_QWEN2 || to->a->kind == CLEF_AUTO_COHERE;
    return st || !twice ? st : add_again(to);
}

clef_status clef__auto_add(clef__auto *a)
{
    adder to = {.a = a,
                .tokens = json_object(),
                .special = json_object(),
                .normal = json_object(),
                .seen = json_array(),
                .last = -1};
    json_t *known = json_object(), *list = json_array(), *token;
    const char *text;
    clef_status st = read_ids(a);
    to.n_model = (json_int_t)json_object_size(a->ids);
    if (st == CLEF_OK && json_is_array(json_object_get(json_object_get(a->root, "model"), "vocab")))
        to.n_model = (json_int_t)json_array_size(json_object_get(json_object_get(a->root, "model"), "vocab"));
    if (st == CLEF_OK)
        st = add_all(&to, known);
    json_object_foreach(to.tokens, text, token) {
        if (json_object_get(to.special, text))
            json_object_set_new(token, "special", json_true());
        if (json_object_get(to.normal, text) && !flag_of(token, "normalized"))
            json_object_set_new(token, "decodes_normalized", json_true());
        json_array_append(list, token);
    }
    if (st == CLEF_OK && json_object_set(a->root, "added_tokens", list))
        st = clef__fail(a->err, CLEF_E_NOMEM, "%s: no memory for the added tokens", a->path);
    json_decref(to.tokens);
    json_decref(to.special);
    json_decref(to.normal);
    json_decref(to.seen);
    json_decref(known);
    json_decref(list);
    return st;
}

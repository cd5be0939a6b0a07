/* tokenizer.json of Hugging Face's tokenizers: vocabulary and added tokens. Its model is in
 * tokenizer_models.c, its stages in tokenizer_stages.c and tokenizer_post.c. `truncation` and `padding` are
 * the caller's matter and not applied. */
#include "model/tokenizer/read/json_parts.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"

clef_status clef__json_by_type(clef_json_reader *r, const char *part, const clef_json_kind *kinds,
                               size_t n_kinds, const json_t *object)
{
    if (!object || json_is_null(object))
        return CLEF_OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type)
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: %s is %s, expected an object with a \"type\"", r->file,
                          part, clef__json_kind(object));
    for (size_t i = 0; i < n_kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].read(r, object);
    clef_chars known = {0};
    for (size_t i = 0; i < n_kinds; i++) {
        clef__chars_append(&known, i ? ", " : "", i ? 2 : 0, NULL);
        clef__chars_append(&known, kinds[i].type, strlen(kinds[i].type), NULL);
    }
    char quote[64];
    const clef_status st =
        clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: %s \"%s\" is not supported; known: %.*s", r->file, part,
                   clef__token_quote(type, strlen(type), quote), (int)known.n, known.at ? known.at : "");
    clef__chars_finish(&known);
    return st;
}

clef_status clef__json_sequence(clef_json_reader *r, const char *part, const clef_json_kind *kinds,
                                size_t n_kinds, const json_t *array)
{
    clef_status st = CLEF_OK;
    if (!json_is_array(array))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: the Sequence of %s is %s, expected an array", r->file,
                          part, clef__json_kind(array));
    for (size_t i = 0; i < json_array_size(array) && st == CLEF_OK; i++)
        st = clef__json_by_type(r, part, kinds, n_kinds, json_array_get(array, i));
    return st;
}

/* ---- vocabulary */

clef_status clef__json_vocab(clef_tokenizer *tok, const json_t *vocab, const json_t *added, const char *file,
                             clef_error *err)
{
    json_t *value;
    const char *key;
    char quote[64];
    json_int_t most = -1;
    if (!json_is_object(vocab))
        return clef__fail(err, CLEF_E_FORMAT, "%s: the vocabulary is %s, expected an object", file,
                          clef__json_kind(vocab));
    /* ids may leave gaps, but a small file must not ask for a huge table */
    const json_int_t limit =
        2 * ((json_int_t)json_object_size(vocab) + (json_int_t)json_array_size(added)) + 65536;
    json_object_foreach((json_t *)vocab, key, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= limit)
            return clef__fail(err, CLEF_E_FORMAT, "%s: token \"%s\" has no id of 0 .. %lld", file,
                              clef__token_quote(key, strlen(key), quote), (long long)limit - 1);
        most = id > most ? id : most;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *id = json_object_get(json_array_get(added, i), "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= limit)
            return clef__fail(err, CLEF_E_FORMAT, "%s: added token %zu has no id of 0 .. %lld", file, i,
                              (long long)limit - 1);
        most = json_integer_value(id) > most ? json_integer_value(id) : most;
    }
    clef_status st = clef__tokens_reserve(tok, most + 1, err);
    if (st)
        return st;
    json_object_foreach((json_t *)vocab, key, value)
    {
        st = clef__tokens_set(tok, json_integer_value(value), key, strlen(key), err);
        if (st)
            return st;
    }
    return CLEF_OK;
}

static clef_status read_added(clef_json_reader *r, const json_t *list)
{
    clef_status st = CLEF_OK;
    if (list && !json_is_null(list) && !json_is_array(list))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: added_tokens is %s, expected an array", r->file,
                          clef__json_kind(list));
    for (size_t i = 0; i < json_array_size(list) && st == CLEF_OK; i++) {
        clef_json_fields f = {
            .object = json_array_get(list, i), .file = r->file, .within = "added_tokens", .err = r->err};
        const char *text = clef__json_string(&f, "content", NULL);
        const int special = clef__json_bool(&f, "special", 0);
        const clef_added_token added = {
            .id = (int32_t)clef__json_need_int(&f, "id", 0, INT32_MAX),
            .text = text,
            .n = text ? strlen(text) : 0,
            .where = clef__json_bool(&f, "normalized", !special) ? CLEF_ADDED_NORMALIZED : CLEF_ADDED_RAW,
            .lstrip = (uint8_t)clef__json_bool(&f, "lstrip", 0),
            .rstrip = (uint8_t)clef__json_bool(&f, "rstrip", 0),
            .single_word = (uint8_t)clef__json_bool(&f, "single_word", 0)};
        if (f.status)
            return f.status;
        if (!text)
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: added token %zu has no content", r->file, i);
        const int32_t known = clef__tokens_find(r->tok, added.text, added.n);
        if (known >= 0 && known != added.id) {
            char quote[64];
            return clef__fail(r->err, CLEF_E_FORMAT,
                              "%s: added token \"%s\" has id %d, but the vocabulary gives it %d", r->file,
                              clef__token_quote(added.text, added.n, quote), added.id, known);
        }
        st = clef__tokens_add(r->tok, &added, special, r->err);
    }
    return st;
}

/* ---- the file */

static clef_status read_root(clef_json_reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    clef_tokenizer *tok = r->tok;
    if (!json_is_object(root))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: the file is %s, expected an object", r->file,
                          clef__json_kind(root));
    clef_status st = clef__json_pretokenizer(r, json_object_get(root, "pre_tokenizer"));
    if (st == CLEF_OK)
        st = clef__json_model(r, model,
                              added); /* after the pre-tokenizer, which says whether symbols are bytes */
    if (st == CLEF_OK)
        st = clef__json_normalizer(r, json_object_get(root, "normalizer"));
    if (st == CLEF_OK)
        st = read_added(r, added);
    if (st == CLEF_OK)
        st = clef__json_decoder(r, json_object_get(root, "decoder"));
    if (st == CLEF_OK)
        st = clef__json_postprocessor(r, json_object_get(root, "post_processor"));
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, r->err);
    return st ? st : clef__json_model_seal(r);
}

/* Where no other file names them: what the post-processor adds, or the names that nearly all models use. */
static void guess_marks(clef_tokenizer *tok)
{
    static const char *const ends[] = {"<|endoftext|>", "</s>"};
    if (tok->bos < 0 && tok->n_before > 0)
        tok->bos = tok->before[0];
    if (tok->eos < 0 && tok->n_after > 0)
        tok->eos = tok->after[tok->n_after - 1];
    for (size_t i = 0; i < sizeof ends / sizeof *ends && tok->eos < 0; i++) {
        const int32_t id = clef__tokens_find(tok, ends[i], strlen(ends[i]));
        if (id >= 0 && (tok->tokens[id].flags & CLEF_TOKEN_SPECIAL))
            tok->eos = id;
    }
}

clef_status clef__tokenizer_parse_json(clef_tokenizer *tok, const char *text, size_t n, const char *name,
                                       clef_error *err)
{
    json_t *root = NULL;
    clef_json_reader r = {.tok = tok, .file = name, .err = err};
    clef_status st = clef__json_parse(text, n, name, &root, err);
    if (st == CLEF_OK)
        st = read_root(&r, root);
    if (st == CLEF_OK)
        guess_marks(tok);
    json_decref(root);
    return st;
}

clef_status clef__tokenizer_read_json(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef_token_marks marks;
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &text, &n, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_parse_json(tok, text, n, path, err);
    free(text);
    if (st == CLEF_OK)
        st = clef__tokenizer_read_marks(tok, path, &marks, err);
    /* a post-processor that adds ids has the last word; without one the config file's wish counts */
    if (st || tok->n_before > 0 || tok->n_after > 0)
        return st;
    if (marks.add_bos == 1 && tok->bos >= 0)
        st = clef__tokens_mark(tok, 0, tok->bos, err);
    if (st == CLEF_OK && marks.add_eos == 1 && tok->eos >= 0)
        st = clef__tokens_mark(tok, 1, tok->eos, err);
    return st;
}

/* tokenizer.json of Hugging Face's tokenizers: vocabulary, model, added tokens. Its stages are in tokenizer_stages.c. `truncation` and
 * `padding` are the caller's matter and not applied. */
#include "model/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

#include "model/json.h"
#include "runtime/os.h"

clef_status clef__json_by_type(clef_json_reader *r, const char *part, const clef_json_kind *kinds, size_t n_kinds, const json_t *object)
{
    if (!object || json_is_null(object))
        return CLEF_OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type)
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: %s is %s, wanted an object with a \"type\"", r->file, part, clef__json_kind(object));
    for (size_t i = 0; i < n_kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].read(r, object);
    clef_chars known = {0};
    for (size_t i = 0; i < n_kinds; i++) {
        clef__chars_append(&known, i ? ", " : "", i ? 2 : 0, NULL);
        clef__chars_append(&known, kinds[i].type, strlen(kinds[i].type), NULL);
    }
    char quote[64];
    const clef_status st = clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: %s \"%s\" is not supported; known: %.*s", r->file, part,
                                      clef__token_quote(type, strlen(type), quote), (int)known.n, known.at ? known.at : "");
    clef__chars_finish(&known);
    return st;
}

clef_status clef__json_sequence(clef_json_reader *r, const char *part, const clef_json_kind *kinds, size_t n_kinds, const json_t *array)
{
    clef_status st = CLEF_OK;
    if (!json_is_array(array))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: the Sequence of %s is %s, wanted an array", r->file, part, clef__json_kind(array));
    for (size_t i = 0; i < json_array_size(array) && st == CLEF_OK; i++)
        st = clef__json_by_type(r, part, kinds, n_kinds, json_array_get(array, i));
    return st;
}

/* ---- vocabulary */

clef_status clef__json_vocab(clef_tokenizer *tok, const json_t *vocab, const json_t *added, const char *file, clef_error *err)
{
    json_t *value;
    const char *key;
    char quote[64];
    json_int_t most = -1;
    if (!json_is_object(vocab))
        return clef__fail(err, CLEF_E_FORMAT, "%s: the vocabulary is %s, wanted an object", file, clef__json_kind(vocab));
    /* ids may leave gaps, but a small file must not ask for a huge table */
    const json_int_t limit = 2 * ((json_int_t)json_object_size(vocab) + (json_int_t)json_array_size(added)) + 65536;
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
            return clef__fail(err, CLEF_E_FORMAT, "%s: added token %zu has no id of 0 .. %lld", file, i, (long long)limit - 1);
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
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: added_tokens is %s, wanted an array", r->file, clef__json_kind(list));
    for (size_t i = 0; i < json_array_size(list) && st == CLEF_OK; i++) {
        clef_json_fields f = {.object = json_array_get(list, i), .file = r->file, .within = "added_tokens", .err = r->err};
        const char *text = clef__json_string(&f, "content", NULL);
        const int special = clef__json_bool(&f, "special", 0);
        const clef_added_token added = {.id = (int32_t)clef__json_need_int(&f, "id", 0, INT32_MAX),
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
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: added token \"%s\" has id %d, but the vocabulary gives it %d", r->file,
                              clef__token_quote(added.text, added.n, quote), added.id, known);
        }
        st = clef__tokens_add(r->tok, &added, special, r->err);
    }
    return st;
}

/* ---- the model */

/* A merge is "a b" or ["a", "b"]. */
static clef_status read_merges(clef_json_reader *r, clef_bpe *bpe, const json_t *merges)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < json_array_size(merges) && st == CLEF_OK; i++) {
        const json_t *merge = json_array_get(merges, i);
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(merge) && strncmp(json_string_value(merge), "#version", 8) == 0)
            continue;
        if (json_is_string(merge))
            st = clef__bpe_merge_line(bpe, r->tok, json_string_value(merge), json_string_length(merge), r->err);
        else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
            st = clef__bpe_merge(bpe, r->tok, json_string_value(left), json_string_length(left), json_string_value(right),
                                 json_string_length(right), r->err);
        else
            st = clef__fail(r->err, CLEF_E_FORMAT, "%s: merge %zu is neither \"a b\" nor [\"a\", \"b\"]", r->file, i);
    }
    return st;
}

static clef_status read_bpe(clef_json_reader *r, const json_t *model)
{
    clef_json_fields f = {.object = model, .file = r->file, .within = "model", .err = r->err};
    const char *prefix = clef__json_string(&f, "continuing_subword_prefix", ""), *suffix = clef__json_string(&f, "end_of_word_suffix", "");
    const char *unk = clef__json_string(&f, "unk_token", NULL);
    const double dropout = clef__json_double(&f, "dropout", 0, 1, 0);
    const json_t *merges = json_object_get(model, "merges");
    clef_bpe_opts opts = {.byte_fallback = clef__json_bool(&f, "byte_fallback", 0),
                          .fuse_unk = clef__json_bool(&f, "fuse_unk", 0),
                          .ignore_merges = clef__json_bool(&f, "ignore_merges", 0),
                          .unk = -1};
    if (f.status)
        return f.status;
    if (*prefix || *suffix || dropout > 0)
        return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: BPE with %s is not supported", r->file,
                          *prefix   ? "continuing_subword_prefix"
                          : *suffix ? "end_of_word_suffix"
                                    : "dropout");
    if (!json_is_array(merges))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: merges is %s, wanted an array", r->file, clef__json_kind(merges));
    if (unk) {
        opts.unk = clef__tokens_find(r->tok, unk, strlen(unk));
        if (opts.unk < 0)
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: unk_token \"%.48s\" is not in the vocabulary", r->file, unk);
    }
    clef_bpe *bpe = NULL;
    const clef_status st = clef__bpe_create(r->tok, &opts, json_array_size(merges), &bpe, r->err);
    return st ? st : read_merges(r, bpe, merges);
}

static const clef_json_kind model_kinds[] = {
    {"BPE", read_bpe},
};

/* Older files do not name BPE; what else they leave out shows in the fields. */
static clef_status read_model(clef_json_reader *r, const json_t *model)
{
    if (!json_is_object(model))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: model is %s, wanted an object", r->file, clef__json_kind(model));
    if (json_object_get(model, "type"))
        return clef__json_by_type(r, "model", model_kinds, sizeof model_kinds / sizeof *model_kinds, model);
    if (json_object_get(model, "merges"))
        return read_bpe(r, model);
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: a model without a type and without merges (%s) is not supported", r->file,
                      json_is_array(json_object_get(model, "vocab")) ? "Unigram" : "WordPiece or WordLevel");
}

/* A model of another type has a vocabulary of another shape: it must be refused by its name, before the vocabulary is read. */
static int is_bpe(const json_t *model)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    return type ? strcmp(type, "BPE") == 0 : json_object_get(model, "merges") != NULL;
}

/* ---- the file */

static clef_status read_root(clef_json_reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    clef_tokenizer *tok = r->tok;
    if (!json_is_object(root))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: the file is %s, wanted an object", r->file, clef__json_kind(root));
    if (!is_bpe(model))
        return read_model(r, model);
    clef_status st = clef__json_vocab(tok, json_object_get(model, "vocab"), added, r->file, r->err);
    if (st == CLEF_OK)
        st = clef__json_normalizer(r, json_object_get(root, "normalizer"));
    if (st == CLEF_OK)
        st = clef__json_pretokenizer(r, json_object_get(root, "pre_tokenizer"));
    if (st == CLEF_OK)
        st = read_model(r, model);
    if (st == CLEF_OK)
        st = read_added(r, added);
    if (st == CLEF_OK)
        st = clef__json_decoder(r, json_object_get(root, "decoder"));
    if (st == CLEF_OK)
        st = clef__json_postprocessor(r, json_object_get(root, "post_processor"));
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, r->err);
    return st ? st : clef__bpe_seal((clef_bpe *)tok->model, tok, r->err);
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

clef_status clef__tokenizer_parse_json(clef_tokenizer *tok, const char *text, size_t n, const char *name, clef_error *err)
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

/* tokenizer.json of Hugging Face's tokenizers: the whole file and its added tokens. Its model is in
 * json_models.c, its stages are in json_stages.c and json_post.c. `truncation` and `padding` are not
 * applied: they are up to the caller. */
#include "model/tokenizer/read/json_parts.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"

static clef_status read_added(clef__json_reader *r, const json_t *list)
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
        const clef__added_token added = {
            .id = (int32_t)clef__json_need_int(&f, "id", 0, INT32_MAX),
            .text = text,
            .n = text ? strlen(text) : 0,
            .where = clef__json_bool(&f, "normalized", !special) ? CLEF_ADDED_NORMALIZED : CLEF_ADDED_RAW,
            .lstrip = (uint8_t)clef__json_bool(&f, "lstrip", 0),
            .rstrip = (uint8_t)clef__json_bool(&f, "rstrip", 0),
            .single_word = (uint8_t)clef__json_bool(&f, "single_word", 0),
            .decodes_normalized = (uint8_t)clef__json_bool(&f, "decodes_normalized", 0)};
        if (f.status)
            return f.status;
        if (!text)
            return clef__fail(r->err, CLEF_E_FORMAT, "%s: added token %zu has no content", r->file, i);
        const int32_t known = clef__vocab_find(&r->tok->vocab, added.text, added.n);
        if (known >= 0 && known != added.id) {
            char quote[64];
            return clef__fail(r->err, CLEF_E_FORMAT,
                              "%s: added token \"%s\" has id %d, expected %d as in the vocabulary", r->file,
                              clef__quote_text(added.text, added.n, quote), added.id, known);
        }
        st = clef__vocab_add(&r->tok->vocab, &added, special, r->err);
    }
    return st;
}

/* ---- the file */

static clef_status read_root(clef__json_reader *r, const json_t *root)
{
    r->added = json_object_get(root, "added_tokens");
    if (!json_is_object(root))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: the file is %s, expected an object", r->file,
                          clef__json_kind(root));
    clef_status st = clef__json_pretokenizer(r, json_object_get(root, "pre_tokenizer"));
    if (st == CLEF_OK) /* after the pre-tokenizer, which decides whether symbols are bytes */
        st = clef__json_model(r, json_object_get(root, "model"));
    if (st == CLEF_OK)
        st = clef__json_normalizer(r, json_object_get(root, "normalizer"));
    if (st == CLEF_OK)
        st = read_added(r, r->added);
    if (st == CLEF_OK)
        st = clef__json_decoder(r, json_object_get(root, "decoder"));
    if (st == CLEF_OK)
        st = clef__json_postprocessor(r, json_object_get(root, "post_processor"));
    return st ? st : clef__tokenizer_seal(r->tok, r->err);
}

/* BOS and EOS where no other file names them: what the post-processor adds, or the texts that nearly all
 * models use. */
static void guess_ends(clef_tokenizer *tok)
{
    static const char *const ends[] = {"<|endoftext|>", "</s>"};
    if (tok->bos < 0 && tok->n_before > 0)
        tok->bos = tok->before[0];
    if (tok->eos < 0 && tok->n_after > 0)
        tok->eos = tok->after[tok->n_after - 1];
    for (size_t i = 0; i < sizeof ends / sizeof *ends && tok->eos < 0; i++) {
        const int32_t id = clef__vocab_find(&tok->vocab, ends[i], strlen(ends[i]));
        if (id >= 0 && (tok->vocab.tokens[id].flags & CLEF_TOKEN_SPECIAL))
            tok->eos = id;
    }
}

clef_status clef__tokenizer_parse_root(clef_tokenizer *tok, const json_t *root, const char *name,
                                       clef_error *err)
{
    clef__json_reader r = {.tok = tok, .file = name, .err = err};
    const clef_status st = read_root(&r, root);
    if (st == CLEF_OK)
        guess_ends(tok);
    return st;
}

clef_status clef__tokenizer_parse_json(clef_tokenizer *tok, const char *text, size_t n, const char *name,
                                       clef_error *err)
{
    json_t *root = NULL;
    clef_status st = clef__json_parse(text, n, name, &root, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_parse_root(tok, root, name, err);
    json_decref(root);
    return st;
}

clef_status clef__tokenizer_read_json(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef__token_config config;
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &text, &n, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_parse_json(tok, text, n, path, err);
    free(text);
    if (st == CLEF_OK)
        st = clef__tokenizer_read_config(tok, path, &config, err);
    return st;
}

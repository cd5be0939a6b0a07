/* A tokenizer from all files of its folder. */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/read/auto.h"
#include "runtime/os/sha256.h"

/* The roles that the files name. */
static void set_roles(clef_tokenizer *tok, const json_t *named)
{
    const struct {
        const char *role;
        int32_t *id;
    } roles[] = {{"bos_token", &tok->bos},  {"eos_token", &tok->eos}, {"unk_token", &tok->unk},
                 {"sep_token", &tok->sep},  {"pad_token", &tok->pad}, {"cls_token", &tok->cls},
                 {"mask_token", &tok->mask}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const char *text = clef__auto_text(json_object_get(named, roles[i].role));
        const int32_t id = text ? clef__vocab_find(&tok->vocab, text, strlen(text)) : -1;
        if (id >= 0)
            *roles[i].id = id;
    }
}

/* The digest of all but the vocabulary and the special tokens around a text, for clef__tokenizer_digest(). */
static clef_status keep_digest(clef_tokenizer *tok, const json_t *root, clef_error *err)
{
    static const char *const parts[] = {"normalizer", "pre_tokenizer", "decoder", "added_tokens"};
    clef_sha256 s;
    clef__sha256_init(&s);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *part = json_object_get(root, parts[i]);
        char *text = part ? json_dumps(part, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        if (part && !text)
            return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its digest", tok->file);
        if (text)
            clef__sha256_add(&s, text, strlen(text) + 1);
        free(text);
    }
    clef__sha256_finish(&s, tok->beside);
    return CLEF_OK;
}

clef_status clef__tokenizer_root(const clef_tokenizer *tok, struct json_t **out, clef_error *err)
{
    static const unsigned char none[sizeof tok->beside];
    *out = NULL;
    return memcmp(tok->beside, none, sizeof none) == 0
               ? CLEF_OK
               : clef__auto_tokenizer(tok->file, out, NULL, NULL, err);
}

clef_status clef__tokenizer_read_beside(clef_tokenizer *tok, const char *path, int *is_read, clef_error *err)
{
    json_t *root = NULL, *named = NULL;
    clef__token_config config;
    int cleans = 0;
    clef_status st = clef__auto_tokenizer(path, &root, &named, &cleans, err);
    *is_read = st != CLEF_OK || root;
    if (st == CLEF_OK && root)
        st = clef__tokenizer_parse_root(tok, root, path, err);
    if (st == CLEF_OK && root)
        st = clef__tokenizer_read_config(tok, path, &config, err);
    if (st == CLEF_OK && root) {
        set_roles(tok, named);
        tok->cleans_spaces = cleans;
    }
    if (st == CLEF_OK && root)
        st = keep_digest(tok, root, err);
    json_decref(root);
    json_decref(named);
    return st;
}

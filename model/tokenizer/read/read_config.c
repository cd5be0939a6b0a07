/* The files beside a tokenizer: its special tokens, and some options. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/json.h"
#include "model/tokenizer/read/formats.h"
#include "runtime/os/os.h"

clef_status clef__beside(const char *path, const char *name, char *out, size_t capacity, clef_error *err)
{
    const char *end = path + strlen(path);
    if (!clef__os_is_dir(path)) {
        while (end > path && end[-1] != '/' && end[-1] != '\\')
            end--;
    }
    const size_t n = (size_t)(end - path), n_name = strlen(name);
    const int slash = n > 0 && end[-1] != '/' && end[-1] != '\\';
    if (n >= capacity || n_name + 2 > capacity - n)
        return clef__fail(err, CLEF_E_LIMIT, "%s: a path of more than %zu bytes", path, capacity);
    memcpy(out, path, n);
    if (slash)
        out[n] = '/';
    memcpy(out + n + (size_t)slash, name, n_name + 1);
    return CLEF_OK;
}

/* Integers are read as reals, since most tokenizer_config.json write 10^30 for "no longest text", which no
 * integer holds. */
clef_status clef__load_beside(const char *path, const char *name, struct json_t **out, clef_error *err)
{
    char file[CLEF_TOKENIZER_PATH], *text = NULL;
    size_t n = 0;
    json_error_t why;
    *out = NULL;
    clef_status st = clef__beside(path, name, file, sizeof file, err);
    if (st || !clef__os_is_file(file))
        return st;
    st = clef__os_read(file, CLEF_TOKENIZER_FILE_BYTES, &text, &n, err);
    if (st)
        return st;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);
    free(text);
    if (*out && !json_is_object(*out)) {
        st = clef__fail(err, CLEF_E_FORMAT, "%s: the file is %s, expected an object", file,
                        clef__json_kind(*out));
        json_decref(*out);
        *out = NULL;
        return st;
    }
    return *out ? CLEF_OK
                : clef__fail(err, CLEF_E_FORMAT, "%s: line %d, column %d: %s", file, why.line, why.column,
                             why.text);
}

/* "bos_token": "<s>", or an object with its content. */
static void read_name(const clef_tokenizer *tok, const json_t *root, const char *key, int32_t *id)
{
    const json_t *value = json_object_get(root, key);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (*id >= 0 || !json_is_string(value))
        return;
    *id = clef__vocab_find(&tok->vocab, json_string_value(value), json_string_length(value));
}

/* "eos_token_id": 2, or a list of which the first counts. */
static void read_id(const clef_tokenizer *tok, const json_t *root, const char *key, int32_t *id)
{
    const json_t *value = json_object_get(root, key);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (*id < 0 && json_is_real(value) && json_real_value(value) >= 0 &&
        json_real_value(value) < tok->vocab.n_tokens)
        *id = (int32_t)json_real_value(value);
}

static void read_flag(const json_t *root, const char *key, int32_t *flag)
{
    const json_t *value = json_object_get(root, key);
    if (json_is_boolean(value))
        *flag = json_is_true(value);
}

/* The roles of special tokens, with the texts that are tried where no file names them. */
static const struct {
    const char *key, *texts[2];
} roles[] = {
    {"unk_token", {"[UNK]", "<unk>"}},    {"sep_token", {"[SEP]", "</s>"}},
    {"pad_token", {"[PAD]", "<pad>"}},    {"cls_token", {"[CLS]", "<s>"}},
    {"mask_token", {"[MASK]", "<mask>"}},
};

static int32_t *role_of(clef_tokenizer *tok, size_t i)
{
    int32_t *const ids[] = {&tok->unk, &tok->sep, &tok->pad, &tok->cls, &tok->mask};
    return ids[i];
}

void clef__tokenizer_guess_roles(clef_tokenizer *tok)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        for (size_t k = 0; k < 2 && *role_of(tok, i) < 0; k++)
            *role_of(tok, i) = clef__vocab_find(&tok->vocab, roles[i].texts[k], strlen(roles[i].texts[k]));
}

clef_status clef__tokenizer_read_config(clef_tokenizer *tok, const char *path, clef__token_config *out,
                                        clef_error *err)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json", "config.json"};
    int32_t bos = -1, eos = -1, named[] = {-1, -1, -1, -1, -1};
    *out = (clef__token_config){-1, -1, -1, -1, -1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        json_t *root;
        const clef_status st = clef__load_beside(path, files[i], &root, err);
        if (st)
            return st;
        read_name(tok, root, "bos_token", &bos);
        read_name(tok, root, "eos_token", &eos);
        read_id(tok, root, "bos_token_id", &bos);
        read_id(tok, root, "eos_token_id", &eos);
        read_flag(root, "add_bos_token", &out->add_bos);
        read_flag(root, "add_eos_token", &out->add_eos);
        read_flag(root, "do_lower_case", &out->lowercase);
        read_flag(root, "strip_accents", &out->strip_accents);
        read_flag(root, "tokenize_chinese_chars", &out->space_cjk);
        for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
            read_name(tok, root, roles[k].key, &named[k]);
        json_decref(root);
    }
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (named[k] >= 0)
            *role_of(tok, k) = named[k];
    clef__tokenizer_guess_roles(tok);
    if (bos >= 0)
        tok->bos = bos;
    if (eos >= 0)
        tok->eos = eos;
    return CLEF_OK;
}

/* The tokenizer.ggml.* keys of a folder's byte-level tokenizer.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/quantize.h"
#include "model/tokenizer.h"

/* What GGUF can say about how a text is cut. */
typedef struct cutting {
    const char *pre;
    int nfc, ignore_merges;
} cutting;

static const char *type_of(const json_t *stage)
{
    const char *type = json_string_value(json_object_get(stage, "type"));
    return type ? type : "";
}

static int is_plain_byte_level(const json_t *stage, int with_regex)
{
    const json_t *use = json_object_get(stage, "use_regex");
    return strcmp(type_of(stage), "ByteLevel") == 0 && !json_is_true(json_object_get(stage, "add_prefix_space")) &&
           (use ? json_is_true(use) : 1) == with_regex;
}

/* The known cutting that the pre-tokenizer is; 0 when it is none. */
static int find_cutting(const json_t *pre, cutting *out)
{
    const json_t *stages = json_object_get(pre, "pretokenizers");
    const json_t *first = json_array_get(stages, 0), *pattern = json_object_get(json_object_get(first, "pattern"), "Regex");
    *out = (cutting){0};
    if (is_plain_byte_level(pre, 1)) {
        out->pre = clef__gguf_pre_of(clef__gpt2_regex, &out->nfc, &out->ignore_merges);
        return out->pre != NULL;
    }
    if (strcmp(type_of(pre), "Sequence") != 0 || json_array_size(stages) != 2 || strcmp(type_of(first), "Split") != 0 ||
        !json_is_string(pattern) || !is_plain_byte_level(json_array_get(stages, 1), 0))
        return 0;
    const char *behavior = json_string_value(json_object_get(first, "behavior"));
    if (!behavior || strcmp(behavior, "Isolated") != 0 || json_is_true(json_object_get(first, "invert")))
        return 0;
    out->pre = clef__gguf_pre_of(json_string_value(pattern), &out->nfc, &out->ignore_merges);
    return out->pre != NULL;
}

static int is_expressible(const json_t *root, cutting *out)
{
    const json_t *model = json_object_get(root, "model"), *normalizer = json_object_get(root, "normalizer");
    const char *type = json_string_value(json_object_get(model, "type"));
    if ((type && strcmp(type, "BPE") != 0) || json_is_true(json_object_get(model, "byte_fallback")) ||
        !json_is_array(json_object_get(model, "merges")) || !find_cutting(json_object_get(root, "pre_tokenizer"), out))
        return 0;
    const int nfc = json_is_object(normalizer) && strcmp(type_of(normalizer), "NFC") == 0;
    return nfc == out->nfc && (nfc || !json_is_object(normalizer)) &&
           (json_is_true(json_object_get(model, "ignore_merges")) != 0) == (out->ignore_merges != 0);
}

/* 1 normal, 3 control, 4 user-defined, 5 unused. */
static void put_tokens(const clef_tokenizer *tok, int32_t n, clef_gguf_writer *w)
{
    char unused[32];
    clef__gguf_put_array(w, "tokenizer.ggml.tokens", CLEF_GGUF_STRING, (uint64_t)n);
    for (int32_t id = 0; id < n; id++) {
        const clef_token *t = id < tok->n_tokens && (tok->tokens[id].flags & CLEF_TOKEN_PRESENT) ? &tok->tokens[id] : NULL;
        snprintf(unused, sizeof unused, "[PAD%d]", (int)id);
        clef__gguf_add_text(w, t ? t->text : unused, t ? t->n_text : strlen(unused));
    }
    clef__gguf_put_array(w, "tokenizer.ggml.token_type", CLEF_GGUF_I32, (uint64_t)n);
    for (int32_t id = 0; id < n; id++) {
        int32_t type = id < tok->n_tokens && (tok->tokens[id].flags & CLEF_TOKEN_PRESENT) ? CLEF_PIECE_NORMAL : CLEF_PIECE_UNUSED;
        for (size_t i = 0; i < tok->n_added; i++)
            if (tok->added[i].id == id)
                type = tok->tokens[id].flags & CLEF_TOKEN_SPECIAL ? CLEF_PIECE_CONTROL : CLEF_PIECE_USER_DEFINED;
        clef__gguf_add_i32(w, type);
    }
}

/* "left right", or a pair of them. */
static void put_merges(const json_t *merges, clef_gguf_writer *w)
{
    const size_t n = json_array_size(merges);
    clef__gguf_put_array(w, "tokenizer.ggml.merges", CLEF_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *merge = json_array_get(merges, i), *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(merge)) {
            clef__gguf_add_text(w, json_string_value(merge), json_string_length(merge));
            continue;
        }
        const size_t n_left = json_string_length(left), n_right = json_string_length(right);
        char *line = malloc(n_left + n_right + 1);
        if (!line) {
            w->failed = 1;
            return;
        }
        memcpy(line, json_string_value(left), n_left); /* the tokenizer has been read: both are strings */
        line[n_left] = ' ';
        memcpy(line + n_left + 1, json_string_value(right), n_right);
        clef__gguf_add_text(w, line, n_left + n_right + 1);
        free(line);
    }
}

clef_status clef__quantize_tokenizer(const clef_model *model, clef_gguf_writer *w, clef_error *err)
{
    char path[CLEF_TOKENIZER_PATH];
    clef_tokenizer *tok = NULL;
    json_t *root = NULL;
    cutting cut;
    const int n = snprintf(path, sizeof path, "%s/tokenizer.json", model->path);
    if (n < 0 || (size_t)n >= sizeof path || !clef__os_is_file(path))
        return CLEF_OK;
    clef_status status = clef__json_load(path, CLEF_TOKENIZER_FILE_BYTES, &root, err);
    if (status == CLEF_OK && is_expressible(root, &cut)) {
        status = clef_tokenizer_open(model->path, &tok, err);
        if (status == CLEF_OK) {
            clef__gguf_put_text(w, "tokenizer.ggml.model", "gpt2");
            clef__gguf_put_text(w, "tokenizer.ggml.pre", cut.pre);
            put_tokens(tok, model->hparams.n_vocab, w);
            put_merges(json_object_get(json_object_get(root, "model"), "merges"), w);
            clef__gguf_put_bool(w, "tokenizer.ggml.add_bos_token", tok->n_before > 0);
            clef__gguf_put_bool(w, "tokenizer.ggml.add_eos_token", tok->n_after > 0);
        }
    }
    clef_tokenizer_close(tok);
    json_decref(root);
    return status;
}

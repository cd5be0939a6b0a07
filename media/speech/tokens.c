/* Whisper's special tokens and languages, by the names of tokens and by generation_config.json. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "media/speech/speech.h"
#include "model/file/json.h"
#include "model/open/model.h"

/* ---- languages ------------------------------------------------------------------------------- */

#define LANGUAGE(code, name) {#code, name},
static const struct {
    const char *code, *name;
} languages[] = {
#include "model/file/languages.def"
};

enum { N_LANGUAGES = sizeof languages / sizeof *languages };

/* 1 if the texts are equal but for case. */
static int is_same(const char *a, const char *b)
{
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b))
        a++, b++;
    return !*a && !*b;
}

const char *clef_language_name(const char *code)
{
    for (int32_t i = 0; i < N_LANGUAGES; i++)
        if (strcmp(languages[i].code, code) == 0)
            return languages[i].name;
    return NULL;
}

int32_t clef__speech_language(const clef_transcriber *t, const char *name)
{
    for (int32_t i = 0; i < N_LANGUAGES; i++)
        if (is_same(languages[i].name, name))
            name = languages[i].code;
    for (int32_t i = 0; i < t->tokens.n_languages; i++)
        if (is_same(t->tokens.codes[i], name))
            return t->tokens.languages[i];
    return -1;
}

static void add_language(clef__speech_tokens *k, const char *code, size_t n, int32_t id)
{
    if (id < 0 || n >= sizeof k->codes[0] || k->n_languages == CLEF__MOST_LANGUAGES)
        return;
    memcpy(k->codes[k->n_languages], code, n);
    k->codes[k->n_languages][n] = 0;
    k->languages[k->n_languages++] = id;
}

static int32_t token(const clef_transcriber *t, const char *name)
{
    const int32_t id = clef_tokenizer_find(t->tok, name);
    return id < t->hp->n_vocab ? id : -1;
}

/* Those of lang_to_id, or all whose tokens the vocabulary has. */
static void read_languages(clef_transcriber *t)
{
    json_t *all = json_object_get(t->model->generation, "lang_to_id"), *id;
    const char *name;
    json_object_foreach(all, name, id) {
        const size_t n = strlen(name);
        if (n > 4 && json_is_integer(id) && json_integer_value(id) >= 0 &&
            json_integer_value(id) < t->hp->n_vocab)
            add_language(&t->tokens, name + 2, n - 4, (int32_t)json_integer_value(id));
    }
    for (int32_t i = 0; !all && i < N_LANGUAGES; i++) {
        char own[16];
        snprintf(own, sizeof own, "<|%s|>", languages[i].code);
        add_language(&t->tokens, languages[i].code, strlen(languages[i].code), token(t, own));
    }
}

/* ---- generation_config.json -------------------------------------------------------------------- */

/* A number of the file from `least` to the vocabulary's size; `missing` where it has none. */
static int32_t number(const clef_transcriber *t, const char *key, int32_t missing)
{
    const json_t *x = json_object_get(t->model->generation, key);
    return json_is_integer(x) && json_integer_value(x) >= 0 && json_integer_value(x) <= t->hp->n_vocab
               ? (int32_t)json_integer_value(x)
               : missing;
}

static int is_multilingual(const clef_transcriber *t)
{
    enum { ENGLISH_VOCABULARY = 51864 };
    const json_t *x = json_object_get(t->model->generation, "is_multilingual");
    return json_is_boolean(x) ? json_is_true(x) : t->hp->n_vocab != ENGLISH_VOCABULARY;
}

static int by_layer(const void *a, const void *b)
{
    const clef__alignment_head *x = a, *y = b;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

/* Without a list: all heads of the decoder's second half, as in OpenAI's code. */
static void assume_heads(clef_transcriber *t)
{
    for (int32_t l = t->hp->n_decoder_layers / 2; l < t->hp->n_decoder_layers; l++)
        for (int32_t h = 0; h < t->hp->n_heads && t->n_heads < CLEF__MOST_HEADS; h++)
            t->heads[t->n_heads++] = (clef__alignment_head){l, h};
}

static clef_status read_heads(clef_transcriber *t, clef_error *err)
{
    const json_t *all = json_object_get(t->model->generation, "alignment_heads"), *pair;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)all, i, pair) {
        const json_t *layer = json_array_get(pair, 0), *head = json_array_get(pair, 1);
        const json_int_t l = json_is_integer(layer) ? json_integer_value(layer) : -1,
                         h = json_is_integer(head) ? json_integer_value(head) : -1;
        if (l < 0 || l >= t->hp->n_decoder_layers || h < 0 || h >= t->hp->n_heads ||
            t->n_heads == CLEF__MOST_HEADS)
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: generation_config.json: alignment_heads: expected at most %d pairs of a "
                              "layer (0 to %" PRId32 ") and a head (0 to %" PRId32 ")",
                              clef_model_path(t->model), CLEF__MOST_HEADS, t->hp->n_decoder_layers - 1,
                              t->hp->n_heads - 1);
        t->heads[t->n_heads++] = (clef__alignment_head){(int32_t)l, (int32_t)h};
    }
    if (!t->n_heads)
        assume_heads(t);
    qsort(t->heads, (size_t)t->n_heads, sizeof *t->heads, by_layer);
    return CLEF_OK;
}

clef_status clef__speech_tokens_read(clef_transcriber *t, clef_error *err)
{
    enum { MEDIAN_WIDTH = 7 };
    clef__speech_tokens *k = &t->tokens;
    const json_t *width = json_object_get(t->model->classifier, "median_filter_width");
    *k = (clef__speech_tokens){.start = t->hp->decoder_start,
                               .end = t->hp->eos,
                               .transcribe = token(t, "<|transcribe|>"),
                               .translate = token(t, "<|translate|>"),
                               .previous = number(t, "prev_sot_token_id", token(t, "<|startofprev|>")),
                               .no_timestamps =
                                   number(t, "no_timestamps_token_id", token(t, "<|notimestamps|>"))};
    const int has_end = k->end >= 0 && k->end < t->hp->n_vocab;
    if (k->start < 0 || !has_end || k->no_timestamps < 1 || k->no_timestamps >= t->hp->n_vocab)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: expected the tokens of Whisper, the vocabulary does not have %s",
                          clef_model_path(t->model),
                          k->start < 0 ? "<|startoftranscript|>"
                          : !has_end   ? "<|endoftext|>"
                                       : "<|notimestamps|>");
    k->no_speech = k->no_timestamps - 1;
    k->first_time = k->no_timestamps + 1;
    if (is_multilingual(t))
        read_languages(t);
    t->max_length = number(t, "max_length", t->hp->n_context);
    t->max_initial = number(t, "max_initial_timestamp_index", -1);
    t->median_width =
        json_is_integer(width) && json_integer_value(width) > 0 && json_integer_value(width) < 99
            ? (int32_t)json_integer_value(width)
            : MEDIAN_WIDTH;
    return read_heads(t, err);
}

/* What a file of whisper.cpp says, as the keys of a GGUF file, and what OpenAI's code adds to it. */
#include "model/file/ggml_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/gguf_write.h"
#include "model/file/json.h"

#define LANGUAGE(code, name) #code,
static const char *const languages[] = {
#include "model/file/languages.def"
};

enum { N_LANGUAGES = sizeof languages / sizeof *languages, N_TIMES = 1501, ENGLISH_VOCABULARY = 51864 };

/* The special tokens, which follow the text: end, start, languages, six more, timestamps. */
typedef struct specials {
    int32_t end, start, n_languages, translate, transcribe, lm, previous, no_speech, no_times, first_time;
} specials;

static int is_text(const clef_gguf_string *s, const char *text)
{
    return s->n_bytes == strlen(text) && memcmp(s->text, text, s->n_bytes) == 0;
}

static clef_status find_specials(const clef__ggml_head *h, const char *name, specials *k, clef_error *err)
{
    k->end = 0;
    while (k->end < h->n_tokens && !is_text(&h->tokens[k->end], "<|endoftext|>"))
        k->end++;
    k->start = k->end + 1;
    k->first_time = h->n_vocab - N_TIMES;
    k->no_times = k->first_time - 1;
    k->no_speech = k->first_time - 2;
    k->previous = k->first_time - 3;
    k->lm = k->first_time - 4;
    k->transcribe = k->first_time - 5;
    k->translate = k->first_time - 6;
    k->n_languages = k->translate - k->start - 1;
    if (k->n_languages >= 0 && k->n_languages <= N_LANGUAGES)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: %" PRId32 " tokens, of which %" PRId32 " are text: expected %d to %d more", name,
                      h->n_vocab, k->end, N_TIMES + 8, N_TIMES + 8 + N_LANGUAGES);
}

/* The text of a special token. */
static void special_text(const specials *k, int32_t id, char out[40])
{
    static const char *const after[] = {"translate",   "transcribe", "startoflm",
                                        "startofprev", "nospeech",   "notimestamps"};
    const int32_t i = id - k->translate;
    if (id <= k->start)
        snprintf(out, 40, "<|%s|>", id == k->end ? "endoftext" : "startoftranscript");
    else if (i < 0)
        snprintf(out, 40, "<|%s|>", languages[id - k->start - 1]);
    else if (id < k->first_time)
        snprintf(out, 40, "<|%s|>", after[i]);
    else
        snprintf(out, 40, "<|%.2f|>", 0.02 * (id - k->first_time));
}

/* ---- tokens that are never written ------------------------------------------------------------- */

/* The token with these bytes, or with `longest` the longest one that they begin with; -1: none. */
static int32_t find_token(const clef__ggml_head *h, int32_t n, const char *text, int longest)
{
    const size_t n_text = strlen(text);
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        const clef_gguf_string *s = &h->tokens[i];
        if (s->n_bytes && s->n_bytes <= n_text && (longest || s->n_bytes == n_text) &&
            memcmp(s->text, text, s->n_bytes) == 0 && (best < 0 || s->n_bytes > h->tokens[best].n_bytes))
            best = i;
    }
    return best;
}

static void add_id(json_t *list, int32_t id)
{
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
        if (json_integer_value(one) == id)
            return;
    if (id >= 0)
        json_array_append_new(list, json_integer(id));
}

/* Signs that are not spoken, each with and without a space before it (OpenAI's tokenizer.py,
 * non_speech_tokens), and the tokens that control the model. */
static json_t *suppressed(const clef__ggml_head *h, const specials *k)
{
    static const char *const signs[] = {
        "\"",     "#",      "(",      ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",  ">",
        "@",      "[",      "\\",     "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",  "\u300c",
        "\u300d", "\u300e", "\u300f", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[", "('",
        "(\"",    "((",     "))",     "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪"};
    static const char *const notes[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
    const int32_t controls[] = {k->start, k->translate, k->transcribe, k->lm, k->previous, k->no_speech};
    char spaced[16];
    json_t *list = json_array();
    add_id(list, find_token(h, k->end, " -", 0));
    add_id(list, find_token(h, k->end, " '", 0));
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        snprintf(spaced, sizeof spaced, " %s", signs[i]);
        add_id(list, find_token(h, k->end, signs[i], 0));
        add_id(list, find_token(h, k->end, spaced, 0));
    }
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        snprintf(spaced, sizeof spaced, " %s", notes[i]);
        add_id(list, find_token(h, k->end, notes[i], 1));
        add_id(list, find_token(h, k->end, spaced, 1));
    }
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        add_id(list, controls[i]);
    return list;
}

/* What a folder has in generation_config.json. */
static char *generation_of(const clef__ggml_head *h, const specials *k)
{
    enum { FIRST_SECOND = 50 };
    json_t *begin = json_array();
    add_id(begin, find_token(h, k->end, " ", 0));
    add_id(begin, k->end);
    json_t *all =
        json_pack("{s:o, s:o, s:b, s:i, s:i, s:i, s:i, s:i, s:i}", "suppress_tokens", suppressed(h, k),
                  "begin_suppress_tokens", begin, "is_multilingual", h->n_vocab != ENGLISH_VOCABULARY,
                  "decoder_start_token_id", (int)k->start, "eos_token_id", (int)k->end,
                  "no_timestamps_token_id", (int)k->no_times, "prev_sot_token_id", (int)k->previous,
                  "max_initial_timestamp_index", FIRST_SECOND, "max_length", (int)h->n_context);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

/* ---- keys -------------------------------------------------------------------------------------- */

static void put_tokens(clef_gguf_writer *w, const clef__ggml_head *h, const specials *k)
{
    enum { NORMAL = 1, CONTROL = 3 };
    clef__gguf_put_text(w, "tokenizer.ggml.model", "libclef.ranks");
    clef__gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)k->end);
    clef__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)k->end);
    clef__gguf_put_u32(w, "tokenizer.ggml.padding_token_id", (uint32_t)k->end);
    clef__gguf_put_array(w, "tokenizer.ggml.tokens", CLEF_GGUF_STRING, (uint64_t)h->n_vocab);
    for (int32_t i = 0; i < h->n_vocab; i++) {
        char text[40];
        if (i < h->n_tokens)
            clef__gguf_add_text(w, h->tokens[i].text, h->tokens[i].n_bytes);
        else {
            special_text(k, i, text);
            clef__gguf_add_text(w, text, strlen(text));
        }
    }
    clef__gguf_put_array(w, "tokenizer.ggml.token_type", CLEF_GGUF_I32, (uint64_t)h->n_vocab);
    for (int32_t i = 0; i < h->n_vocab; i++)
        clef__gguf_add_i32(w, i < k->end ? NORMAL : CONTROL);
}

static int64_t width_of(const clef_gguf *file)
{
    for (uint64_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, "enc.blk.0.ffn_up.weight") == 0)
            return file->tensors[i].dims[0];
    return 0;
}

static void put_head(clef_gguf_writer *w, const clef__ggml_head *h, int64_t d_ff)
{
    const struct {
        const char *key;
        int64_t x;
    } numbers[] = {{"whisper.block_count", h->n_layers},
                   {"whisper.decoder_block_count", h->n_decoder_layers},
                   {"whisper.context_length", h->n_context},
                   {"whisper.embedding_length", h->d_model},
                   {"whisper.feed_forward_length", d_ff},
                   {"whisper.attention.head_count", h->n_heads},
                   {"whisper.attention.head_count_kv", h->n_heads},
                   {"whisper.vocab_size", h->n_vocab},
                   {CLEF_GGUF_OWN "n_mels", h->n_mels},
                   {CLEF_GGUF_OWN "n_source", h->n_source}};
    clef__gguf_put_text(w, "general.architecture", "whisper");
    clef__gguf_put_text(w, "whisper.hidden_activation", "gelu");
    clef__gguf_put_f32(w, "whisper.attention.layer_norm_epsilon", 1e-5f);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        clef__gguf_put_u32(w, numbers[i].key, (uint32_t)numbers[i].x);
}

clef_status clef__ggml_keys(const clef__ggml_head *h, const clef_gguf *file, const char *name, clef_gguf *out,
                            clef_error *err)
{
    clef_gguf_writer w = {0}, bytes = {0};
    specials k;
    const int64_t d_ff = width_of(file);
    clef_status s = find_specials(h, name, &k, err);
    if (s == CLEF_OK && d_ff < 1)
        s = clef__fail(err, CLEF_E_FORMAT, "%s: has no tensor encoder.blocks.0.mlp.0.weight", name);
    if (s != CLEF_OK)
        return s;
    char *generation = generation_of(h, &k);
    put_head(&w, h, d_ff);
    clef__gguf_put_i32(&w, CLEF_GGUF_OWN "decoder_start", k.start);
    clef__gguf_put_i32(&w, CLEF_GGUF_OWN "pad", k.end);
    clef__gguf_put_i32(&w, CLEF_GGUF_OWN "rope.dims", 0);
    clef__gguf_put_f64(&w, CLEF_GGUF_OWN "rope.theta", 0);
    clef__gguf_put_text(&w, CLEF_GGUF_OWN "generation_config", generation ? generation : "{}");
    put_tokens(&w, h, &k);
    s = generation ? clef__gguf_keys_of(&w, &bytes, out, name, err)
                   : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its keys", name);
    free(generation);
    clef__gguf_writer_finish(&w);
    if (s == CLEF_OK)
        out->keys = bytes.entries.at;
    else
        clef__gguf_writer_finish(&bytes);
    return s;
}

/* Speech to text by CTC (wav2vec 2.0, HuBERT): each frame says a letter or none. A letter that is said in
 * several frames counts once. Long sounds are heard in windows that overlap, as transformers' pipeline does
 * it with chunk_length_s=30. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "graph/fail.h"
#include "media/speech/speech.h"
#include "model/file/json.h"
#include "model/open/model.h"
#include "runtime/os/os.h"

enum {
    MAX_FILE_BYTES = 16 << 20,
    WINDOW = 30 * CLEF_SPEECH_RATE,
    MARGIN = WINDOW / 6, /* of a window, at each side that is not an end of the sound */
    MOST_SECONDS = 10,   /* of a segment, before it ends behind a word */
    PAUSE_FRAMES = 25    /* that end a segment */
};

struct clef__ctc {
    clef_device *dev;
    clef_plan *plan;
    int32_t n_samples, n_frames; /* of the plan */
    int32_t stride;              /* samples from frame to frame */
    int64_t least;               /* samples of one frame */
    int32_t normalizes;
    json_t *vocabulary;   /* owns the letters */
    const char **letters; /* [n_vocab]; NULL: none */
    const char *delimiter;
    int32_t lower;
    float *logits; /* [n_frames, n_vocab] */
};

/* ---- files ----------------------------------------------------------------------------------------- */

/* Loads FOLDER/file; *out is NULL where there is none. */
static clef_status load(const clef_model *m, const char *file, json_t **out, clef_error *err)
{
    char path[4096];
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", clef_model_path(m), file) >= (int)sizeof path)
        return clef__fail(err, CLEF_E_LIMIT, "%.200s: its path is too long", clef_model_path(m));
    return clef__os_is_file(path) ? clef__json_load(path, MAX_FILE_BYTES, out, err) : CLEF_OK;
}

/* 1 for <s>, [UNK] and their like, which are not written. */
static int is_special(const char *letter)
{
    const size_t n = strlen(letter);
    return n > 2 &&
           ((letter[0] == '<' && letter[n - 1] == '>') || (letter[0] == '[' && letter[n - 1] == ']'));
}

static clef_status read_letters(clef_transcriber *t, clef_error *err)
{
    struct clef__ctc *c = t->ctc;
    const char *letter;
    json_t *id;
    clef_status s = load(t->model, "vocab.json", &c->vocabulary, err);
    if (!s && !json_is_object(c->vocabulary))
        s = clef__fail(err, CLEF_E_NOT_FOUND, "%s: expected letters in vocab.json",
                       clef_model_path(t->model));
    json_object_foreach(c->vocabulary, letter, id) {
        const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
        if (!s && (i < 0 || i >= t->hp->n_vocab))
            s = clef__fail(err, CLEF_E_FORMAT, "%s/vocab.json: %.40s: expected an id below %d",
                           clef_model_path(t->model), letter, t->hp->n_vocab);
        for (const char *byte = letter; !s && c->lower && *byte; byte++)
            if ((unsigned char)*byte > 127)
                s = clef__fail(err, CLEF_E_UNSUPPORTED,
                               "%s: do_lower_case of letters beyond ASCII is not supported",
                               clef_model_path(t->model));
        if (!s && i != t->hp->pad && !is_special(letter))
            c->letters[i] = letter;
    }
    return s;
}

static clef_status read_tokenizer(clef_transcriber *t, clef_error *err)
{
    struct clef__ctc *c = t->ctc;
    json_t *config;
    clef_status s = load(t->model, "tokenizer_config.json", &config, err);
    const char *delimiter = json_string_value(json_object_get(config, "word_delimiter_token"));
    c->lower = json_is_true(json_object_get(config, "do_lower_case"));
    if (!s)
        s = read_letters(t, err);
    for (int32_t i = 0; i < t->hp->n_vocab && !s; i++)
        if (c->letters[i] && strcmp(c->letters[i], delimiter ? delimiter : "|") == 0)
            c->delimiter = c->letters[i];
    json_decref(config);
    return s;
}

static clef_status read_extractor(clef_transcriber *t, clef_error *err)
{
    json_t *own, *all = NULL;
    clef_status s = load(t->model, "preprocessor_config.json", &own, err);
    if (!s && !own)
        s = load(t->model, "processor_config.json", &all, err);
    clef_json_fields f = {.object = own ? own : json_object_get(all, "feature_extractor"),
                          .file = "preprocessor_config.json",
                          .err = err};
    if (!s && !f.object)
        s = clef__fail(err, CLEF_E_NOT_FOUND, "%s: expected preprocessor_config.json",
                       clef_model_path(t->model));
    if (!s) {
        t->ctc->normalizes = clef__json_bool(&f, "do_normalize", 1);
        clef__json_int(&f, "sampling_rate", CLEF_SPEECH_RATE, CLEF_SPEECH_RATE, CLEF_SPEECH_RATE);
        clef__json_int(&f, "feature_size", 1, 1, 1);
        s = f.status;
    }
    json_decref(own);
    json_decref(all);
    return s;
}

clef_status clef__ctc_create(clef_transcriber *t, clef_device *dev, clef_error *err)
{
    if (t->opts.n_beams > 1)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: beams: expected none, for %s has no decoder",
                          clef_model_path(t->model), t->hp->arch);
    struct clef__ctc *c = t->ctc = calloc(1, sizeof *c);
    if (!c || !(c->letters = calloc((size_t)t->hp->n_vocab, sizeof *c->letters)))
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a transcriber");
    c->dev = dev;
    c->stride = 1;
    c->least = 1;
    for (int32_t i = 0; i < t->hp->n_convs; i++)
        c->stride *= t->hp->conv_strides[i] <= WINDOW / c->stride ? t->hp->conv_strides[i] : 1;
    for (int32_t i = t->hp->n_convs - 1; i >= 0 && c->least <= WINDOW; i--)
        c->least = (c->least - 1) * t->hp->conv_strides[i] + t->hp->conv_taps[i];
    const clef_status s = read_tokenizer(t, err);
    return s ? s : read_extractor(t, err);
}

void clef__ctc_destroy(struct clef__ctc *c)
{
    if (!c)
        return;
    clef_plan_destroy(c->plan);
    json_decref(c->vocabulary);
    free(c->letters);
    free(c->logits);
    free(c);
}

const clef_plan *clef__ctc_plan(const struct clef__ctc *c)
{
    return c->plan;
}

/* ---- frames ---------------------------------------------------------------------------------------- */

static clef_status make_plan(clef_transcriber *t, int32_t n, clef_error *err)
{
    struct clef__ctc *c = t->ctc;
    clef_graph *g;
    if (c->plan && c->n_samples == n)
        return CLEF_OK;
    clef_plan_destroy(c->plan);
    c->plan = NULL;
    clef_status s = clef_model_build(t->model, &(clef_build_opts){.sound_samples = n}, &g, err);
    if (s)
        return s;
    const clef_plan_opts opts = {.compile = t->opts.compile,
                                 .no_fused_step = 1,
                                 .weights = clef_model_weight,
                                 .release = clef_model_release,
                                 .weights_user = t->model,
                                 .weights_name = clef_model_weights_name(t->model, NULL)};
    c->n_samples = n;
    c->n_frames = (int32_t)clef_value_describe(clef_graph_output(g, 0, NULL)).shape.dim[1].n;
    s = clef_graph_optimize(g, NULL, err);
    if (!s)
        s = clef_plan_create(c->dev, g, &opts, &c->plan, err);
    clef_graph_destroy(g);
    free(c->logits);
    c->logits = s ? NULL : malloc((size_t)c->n_frames * (size_t)t->hp->n_vocab * sizeof *c->logits);
    return s || c->logits ? s : clef__fail(err, CLEF_E_NOMEM, "no memory for %d frames", c->n_frames);
}

/* Wav2Vec2FeatureExtractor's: mean 0, variance 1. */
static void normalize(float *x, int32_t n)
{
    double mean = 0, variance = 0;
    for (int32_t i = 0; i < n; i++)
        mean += (double)x[i] / n;
    for (int32_t i = 0; i < n; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    for (int32_t i = 0; i < n; i++)
        x[i] = (float)(((double)x[i] - mean) / sqrt(variance + 1e-7));
}

clef_status clef__ctc_run(clef_transcriber *t, const float *samples, int32_t n, const float **logits,
                          int32_t *n_frames, clef_error *err)
{
    struct clef__ctc *c = t->ctc;
    float *x = malloc((size_t)n * sizeof *x);
    if (!x)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d samples", n);
    memcpy(x, samples, (size_t)n * sizeof *x);
    if (c->normalizes)
        normalize(x, n);
    clef_status s = make_plan(t, n, err);
    if (!s)
        s = clef_plan_write(c->plan, clef_plan_input(c->plan, "input_values"), x, (size_t)n * sizeof *x, err);
    if (!s)
        s = clef_plan_run(c->plan, err);
    const size_t n_out = s ? 0 : (size_t)c->n_frames * (size_t)t->hp->n_vocab;
    if (!s)
        s = clef_plan_read(c->plan, 0, c->logits, n_out * sizeof *c->logits, err);
    for (size_t i = 0; i < n_out && !s; i++)
        if (!isfinite(c->logits[i]))
            s = clef__fail(err, CLEF_E_NOT_FINITE, "frame %zu has a logit that is not finite",
                           i / (size_t)t->hp->n_vocab);
    free(x);
    *logits = c->logits;
    *n_frames = s ? 0 : c->n_frames;
    return s;
}

/* A sound's frames: the likeliest id of each. */
typedef struct heard {
    int32_t *ids, n;
} heard;

static clef_status keep(heard *h, const float *logits, int32_t first, int32_t end, int32_t n_vocab,
                        clef_error *err)
{
    int32_t *more =
        realloc(h->ids, ((size_t)h->n + (size_t)(end > first ? end - first : 0) + 1) * sizeof *more);
    if (!more)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the frames of a sound");
    h->ids = more;
    for (int32_t i = first; i < end; i++) {
        const float *x = logits + (size_t)i * (size_t)n_vocab;
        int32_t best = 0;
        for (int32_t k = 1; k < n_vocab; k++)
            best = x[k] > x[best] ? k : best;
        h->ids[h->n++] = best;
    }
    return CLEF_OK;
}

static clef_status hear(clef_transcriber *t, const clef_transcribe_opts *o, const float *samples, size_t n,
                        heard *h, clef_error *err)
{
    clef_status s = CLEF_OK;
    int is_last = 0;
    for (size_t at = 0; !is_last && !s; at += WINDOW - 2 * MARGIN) {
        const float *logits;
        int32_t n_frames;
        is_last = at + WINDOW >= n;
        const int32_t size = is_last ? (int32_t)(n - at) : WINDOW;
        s = clef__ctc_run(t, samples + at, size, &logits, &n_frames, err);
        const double frames = nearbyint((double)size / t->ctc->stride),
                     margin = nearbyint((double)MARGIN / size * frames);
        const int32_t first = at ? (int32_t)margin : 0, end = is_last ? n_frames : (int32_t)(frames - margin);
        if (!s)
            s = keep(h, logits, first, end < n_frames ? end : n_frames, t->hp->n_vocab, err);
        if (!s && o->progress && o->progress(o->progress_user, "transcribe", at + (size_t)size, n))
            s = clef__fail(err, CLEF_E_CANCELLED, "interrupted at %zu of %zu samples", at, n);
    }
    return s;
}

/* ---- words ----------------------------------------------------------------------------------------- */

static clef_status new_segment(clef_transcript *out, double start, clef_error *err)
{
    clef_segment *more = realloc(out->segments, ((size_t)out->n_segments + 1) * sizeof *more);
    if (more)
        out->segments = more;
    char *text = more ? calloc(1, 1) : NULL;
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a segment");
    out->segments[out->n_segments++] = (clef_segment){.start = start, .end = start, .text = text};
    return CLEF_OK;
}

/* Adds the word, which has a space before it, to the last segment. */
static clef_status add_word(clef_segment *g, const clef_word *word, int32_t words, clef_error *err)
{
    const size_t n = strlen(g->text), m = strlen(word->text);
    char *text = realloc(g->text, n + m + 1);
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a word");
    memcpy(text + n, word->text, m + 1);
    g->text = text;
    g->end = word->end;
    if (!words)
        return CLEF_OK;
    clef_word *more = realloc(g->words, ((size_t)g->n_words + 1) * sizeof *more);
    char *copy = more ? malloc(m + 1) : NULL;
    if (more)
        g->words = more;
    if (!copy)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a word");
    memcpy(copy, word->text, m + 1);
    g->words[g->n_words++] = (clef_word){copy, word->start, word->end};
    return CLEF_OK;
}

static clef_status end_word(const clef_transcriber *t, const clef_transcribe_opts *o, clef_transcript *out,
                            const clef_word *word, clef_error *err)
{
    const double second = (double)CLEF_SPEECH_RATE / t->ctc->stride;
    const clef_segment *g = out->n_segments ? &out->segments[out->n_segments - 1] : NULL;
    clef_status s = CLEF_OK;
    if (!word->text[1])
        return CLEF_OK;
    if (!g || word->end - g->start > MOST_SECONDS || (word->start - g->end) * second > PAUSE_FRAMES)
        s = new_segment(out, word->start, err);
    return s ? s : add_word(&out->segments[out->n_segments - 1], word, o->words, err);
}

/* Appends a letter to the word, whose text has room for `room` bytes. */
static clef_status add_letter(const struct clef__ctc *c, const char *letter, char **text, size_t *room,
                              clef_error *err)
{
    const size_t n = strlen(*text), m = strlen(letter);
    if (n + m + 1 > *room) {
        char *more = realloc(*text, 2 * (n + m + 1));
        if (!more)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for a word");
        *text = more;
        *room = 2 * (n + m + 1);
    }
    memcpy(*text + n, letter, m + 1);
    for (char *byte = *text + n; c->lower && *byte; byte++)
        *byte = (char)(*byte >= 'A' && *byte <= 'Z' ? *byte + 'a' - 'A' : *byte);
    return CLEF_OK;
}

static clef_status write_words(const clef_transcriber *t, const clef_transcribe_opts *o, const heard *h,
                               clef_transcript *out, clef_error *err)
{
    const struct clef__ctc *c = t->ctc;
    const double seconds = (double)c->stride / CLEF_SPEECH_RATE;
    size_t room = 64;
    clef_word word = {.text = malloc(room)};
    if (!word.text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a word");
    strcpy(word.text, " ");
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < h->n && !s; i++) {
        const char *letter = c->letters[h->ids[i]];
        if (!letter)
            continue;
        if (letter == c->delimiter) {
            s = end_word(t, o, out, &word, err);
            strcpy(word.text, " ");
            continue;
        }
        if (!word.text[1])
            word.start = i * seconds;
        word.end = (i + 1) * seconds;
        if (!i || h->ids[i - 1] != h->ids[i])
            s = add_letter(c, letter, &word.text, &room, err);
    }
    if (!s)
        s = end_word(t, o, out, &word, err);
    free(word.text);
    return s;
}

clef_status clef__ctc_transcribe(clef_transcriber *t, const clef_transcribe_opts *o, const float *samples,
                                 size_t n, clef_transcript *out, clef_error *err)
{
    heard h = {.ids = NULL};
    const char *wrong = o->translate  ? "a translation"
                        : o->language ? "a language"
                        : o->prompt   ? "a prompt"
                                      : NULL;
    if (wrong && (o->translate || *(o->language ? o->language : o->prompt)))
        return clef__fail(err, CLEF_E_ARG, "%s: %s: expected none, for %s writes what it hears",
                          clef_model_path(t->model), wrong, t->hp->arch);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(samples[i]))
            return clef__fail(err, CLEF_E_ARG, "sample %zu is not finite", i);
    if ((int64_t)n < t->ctc->least)
        return CLEF_OK;
    clef_status s = hear(t, o, samples, n, &h, err);
    if (!s)
        s = write_words(t, o, &h, out, err);
    free(h.ids);
    for (int32_t i = 0; i < out->n_segments && !s && o->segment; i++)
        s = o->segment(o->segment_user, &out->segments[i], err);
    return s;
}

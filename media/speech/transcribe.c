/* A transcriber: windows of 30 seconds one after the other, each from where the last one's text ends. */
#include "clef/speech.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "media/speech/speech.h"
#include "model/open/model.h"

/* ---- making one ---------------------------------------------------------------------------------- */

/* The progress of plans; a window's few tokens are not worth showing. */
static int plan_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    const clef_transcriber *t = user;
    if (!t->opts.compile.progress || strcmp(what, "prompt") == 0 || strcmp(what, "beams") == 0)
        return 0;
    return t->opts.compile.progress(t->opts.compile.progress_user, what, done, total);
}

static clef_status make_session(clef_transcriber *t, clef_device *dev, clef_error *err)
{
    clef_session_opts opts = {
        .n_beams = t->opts.n_beams, .kv_type = t->opts.kv_type, .compile = t->opts.compile, .taps = t->taps};
    for (int32_t i = 0; i < t->n_heads && t->opts.words; i++) {
        if (i && t->heads[i].layer == t->heads[i - 1].layer)
            continue;
        if (opts.n_taps == CLEF__MOST_TAPS)
            return clef__fail(err, CLEF_E_LIMIT, "%s: alignment_heads of more than %d layers",
                              clef_model_path(t->model), CLEF__MOST_TAPS);
        snprintf(t->tap_names[opts.n_taps], sizeof t->tap_names[0], "cross_attention_%" PRId32,
                 t->heads[i].layer);
        t->taps[opts.n_taps] = t->tap_names[opts.n_taps];
        opts.n_taps++;
    }
    opts.compile.progress = plan_progress;
    opts.compile.progress_user = t;
    return clef_session_create(dev, t->model, &opts, &t->session, err);
}

enum { LEAST_CONTEXT = 16 }; /* the tokens that begin a text, and some of what was said before */

static clef_status create_by_ctc(clef_device *dev, clef_model *model, const clef_transcriber_opts *opts,
                                 clef_transcriber **out, clef_error *err)
{
    clef_transcriber *t = calloc(1, sizeof *t);
    if (!t)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a transcriber");
    *t = (clef_transcriber){.model = model, .hp = clef_model_hparams(model), .opts = opts ? *opts : t->opts};
    const clef_status s = clef__ctc_create(t, dev, err);
    if (s)
        clef_transcriber_destroy(t);
    else
        *out = t;
    return s;
}

clef_status clef_transcriber_create(clef_device *dev, clef_model *model, const clef_transcriber_opts *opts,
                                    clef_transcriber **out, clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(model);
    *out = NULL;
    if (hp->n_convs)
        return create_by_ctc(dev, model, opts, out, err);
    if (strcmp(hp->arch, "whisper") != 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: expected a model of speech (Whisper, wav2vec 2.0), got %s",
                          clef_model_path(model), hp->arch);
    if (2 * hp->n_source != CLEF_SPEECH_FRAMES)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: expected windows of %d frames, got %" PRId32,
                          clef_model_path(model), CLEF_SPEECH_FRAMES, 2 * hp->n_source);
    if (hp->n_context < LEAST_CONTEXT)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: expected a context of at least %d tokens, got %" PRId32,
                          clef_model_path(model), LEAST_CONTEXT, hp->n_context);
    const clef_tokenizer *tok = clef_model_tokenizer(model, err);
    clef_transcriber *t = tok ? calloc(1, sizeof *t) : NULL;
    if (!tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    float *logits = malloc((size_t)hp->n_vocab * sizeof *logits);
    if (!t || !logits) {
        free(t);
        free(logits);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a transcriber");
    }
    *t = (clef_transcriber){.model = model, .hp = hp, .tok = tok, .logits = logits};
    t->opts = opts ? *opts : (clef_transcriber_opts){0};
    clef_status s = clef__speech_tokens_read(t, err);
    if (!s)
        s = make_session(t, dev, err);
    if (s) {
        clef_transcriber_destroy(t);
        return s;
    }
    *out = t;
    return CLEF_OK;
}

void clef_transcriber_destroy(clef_transcriber *t)
{
    if (!t)
        return;
    clef_session_destroy(t->session);
    clef__ctc_destroy(t->ctc);
    free(t->logits);
    free(t);
}

int32_t clef_transcriber_is_multilingual(const clef_transcriber *t)
{
    return t->tokens.n_languages > 0;
}

int32_t clef_transcriber_knows(const clef_transcriber *t, const char *language)
{
    if (t->ctc)
        return 0;
    return clef_transcriber_is_multilingual(t)
               ? clef__speech_language(t, language) >= 0
               : strcmp(language, "en") == 0 || strcmp(language, "english") == 0;
}

const clef_plan *clef_transcriber_plan(const clef_transcriber *t, int32_t i)
{
    if (t->ctc)
        return i ? NULL : clef__ctc_plan(t->ctc);
    return clef_session_plan(t->session, i);
}

int32_t clef_transcriber_n_mels(const clef_transcriber *t)
{
    return t->hp->n_mels;
}

/* ---- a run ---------------------------------------------------------------------------------------- */

typedef struct run {
    clef_transcriber *t;
    clef_transcribe_opts o;
    clef_transcript *out;
    float *mel, *features;         /* [n_mels, n_mel]; of a window */
    int32_t n_mel, n_frames, seek; /* frames of the spectrogram; of the sound */
    int32_t language;              /* -1: not known yet */
    int32_t *said, n_said;         /* the prompt, and all ids so far */
    int32_t *hint, n_hint;         /* the ids of o.prompt */
    double *times;                 /* [n_context + 1] */
    clef__window w;
} run;

static void run_finish(run *r)
{
    clef_features_free(r->mel);
    clef_tokens_free(r->hint);
    free(r->features);
    free(r->said);
    free(r->times);
    free(r->w.prompt);
    free(r->w.ids);
}

static clef_status check_opts(run *r, clef_error *err)
{
    const clef_transcriber *t = r->t;
    const clef_transcribe_opts *o = &r->o;
    const int several = clef_transcriber_is_multilingual(t);
    const char *path = clef_model_path(t->model);
    if (o->translate && (!several || t->tokens.translate < 0))
        return clef__fail(err, CLEF_E_ARG, "%s does not translate: it knows English alone", path);
    if (o->words && !t->opts.words)
        return clef__fail(err, CLEF_E_ARG, "times of words: the transcriber was made without them");
    for (int32_t i = 0; i < o->n_temperatures; i++)
        if (!(o->temperatures[i] >= 0 && o->temperatures[i] <= 2))
            return clef__fail(err, CLEF_E_ARG, "a temperature of %g, expected 0 to 2",
                              (double)o->temperatures[i]);
    if (o->temperatures && o->n_temperatures < 1)
        return clef__fail(err, CLEF_E_ARG, "no temperature, expected at least 1");
    r->language = o->language && several ? clef__speech_language(t, o->language) : -1;
    if (o->language && !clef_transcriber_knows(t, o->language))
        return clef__fail(err, CLEF_E_ARG, "%s does not know the language %.40s%s", path, o->language,
                          several ? "" : ": it knows English alone");
    return CLEF_OK;
}

/* The spectrogram: of a sound up to 30 seconds with silence behind it, of a longer one alone. */
static clef_status listen(run *r, const float *samples, size_t n, clef_error *err)
{
    const size_t most = (size_t)INT32_MAX / 2 * CLEF_SPEECH_HOP;
    float *padded = NULL;
    size_t n_frames = 0;
    if (n > most)
        return clef__fail(err, CLEF_E_LIMIT, "a sound of %zu samples, expected at most %zu", n, most);
    r->n_frames = (int32_t)(n / CLEF_SPEECH_HOP);
    if (n < CLEF_SPEECH_SAMPLES) {
        padded = calloc(CLEF_SPEECH_SAMPLES, sizeof *padded);
        if (!padded)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %d samples", CLEF_SPEECH_SAMPLES);
        memcpy(padded, samples, n * sizeof *samples);
    }
    const clef_status s = clef_log_mel(padded ? padded : samples, padded ? CLEF_SPEECH_SAMPLES : n,
                                       r->t->hp->n_mels, &r->mel, &n_frames, err);
    free(padded);
    r->n_mel = (int32_t)n_frames;
    return s;
}

static clef_status prepare(run *r, clef_error *err)
{
    const clef_hparams *hp = r->t->hp;
    const size_t n_context = (size_t)hp->n_context;
    r->features = malloc((size_t)hp->n_mels * CLEF_SPEECH_FRAMES * sizeof *r->features);
    r->times = malloc((n_context + 1) * sizeof *r->times);
    r->w.prompt = malloc(n_context * sizeof *r->w.prompt);
    r->w.ids = malloc((n_context + 1) * sizeof *r->w.ids);
    r->w.is_timed = r->o.timestamps || r->o.words || r->n_frames > CLEF_SPEECH_FRAMES;
    if (!r->features || !r->times || !r->w.prompt || !r->w.ids)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a window");
    if (!r->o.prompt || !*r->o.prompt)
        return CLEF_OK;
    const char *text = r->o.prompt;
    while (*text == ' ')
        text++;
    char *spaced = malloc(strlen(text) + 2);
    if (!spaced)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the prompt");
    spaced[0] = ' ';
    strcpy(spaced + 1, text);
    const clef_byte_span all = {0, strlen(spaced)}; /* no special tokens */
    const clef_status s =
        clef_tokenizer_encode_plain(r->t->tok, spaced, strlen(spaced), &all, 1, &r->hint, &r->n_hint, err);
    free(spaced);
    return s;
}

/* Copies the window's frames; what lies behind the spectrogram is zeros. */
static void cut_window(run *r)
{
    const int32_t left = r->n_mel - r->seek, n = left < CLEF_SPEECH_FRAMES ? left : CLEF_SPEECH_FRAMES;
    for (int32_t i = 0; i < r->t->hp->n_mels; i++) {
        float *to = r->features + (size_t)i * CLEF_SPEECH_FRAMES;
        memset(to, 0, CLEF_SPEECH_FRAMES * sizeof *to);
        memcpy(to, r->mel + (size_t)i * (size_t)r->n_mel + r->seek, (size_t)n * sizeof *to);
    }
    const int32_t sound = r->n_frames - r->seek;
    r->w.n_frames = sound < CLEF_SPEECH_FRAMES ? sound : CLEF_SPEECH_FRAMES;
}

/* ---- the prompt ------------------------------------------------------------------------------------ */

static void put(clef__window *w, int32_t id)
{
    if (id >= 0)
        w->prompt[w->n_prompt++] = id;
}

/* What was said before, then the tokens that begin a text. */
static void write_prompt(run *r)
{
    const clef__speech_tokens *k = &r->t->tokens;
    clef__window *w = &r->w;
    const int32_t most = r->t->hp->n_context / 2 - 1;
    const int conditions = r->o.condition && r->n_said && w->temperature < 0.5F;
    const int32_t *before = conditions ? r->said : r->hint;
    int32_t n = conditions ? r->n_said : r->n_hint;
    w->n_prompt = 0;
    if (n && k->previous >= 0) {
        const int32_t skipped = n > most ? n - most : 0;
        put(w, k->previous);
        for (int32_t i = skipped; i < n; i++)
            put(w, before[i]);
    }
    const int32_t first = w->n_prompt;
    put(w, k->start);
    if (k->n_languages) {
        put(w, r->language);
        put(w, r->o.translate ? k->translate : k->transcribe);
    }
    if (!w->is_timed)
        put(w, k->no_timestamps);
    w->n_start = w->n_prompt - first;
}

/* Keeps the ids of the segments from `from` on for the prompts of later windows; of two timestamps at the end
 * one. */
static clef_status remember(run *r, int32_t from, clef_error *err)
{
    for (int32_t i = from; i < r->out->n_segments; i++) {
        const clef_segment *g = &r->out->segments[i];
        const int is_double = g->n_ids > 2 && g->ids[g->n_ids - 2] >= r->t->tokens.first_time;
        const int32_t n = g->n_ids - is_double;
        int32_t *more = realloc(r->said, ((size_t)r->n_said + (size_t)n + 1) * sizeof *more);
        if (!more)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " tokens", r->n_said + n);
        r->said = more;
        if (n)
            memcpy(r->said + r->n_said, g->ids, (size_t)n * sizeof *more);
        r->n_said += n;
    }
    return CLEF_OK;
}

/* With conditions a given prompt counts as said. */
static clef_status remember_hint(run *r, clef_error *err)
{
    if (!r->o.condition || !r->n_hint)
        return CLEF_OK;
    r->said = malloc((size_t)r->n_hint * sizeof *r->said);
    if (!r->said)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the prompt");
    memcpy(r->said, r->hint, (size_t)r->n_hint * sizeof *r->said);
    r->n_said = r->n_hint;
    return CLEF_OK;
}

/* ---- windows --------------------------------------------------------------------------------------- */

static void name_language(run *r)
{
    const clef__speech_tokens *k = &r->t->tokens;
    strcpy(r->out->language, "en");
    for (int32_t i = 0; i < k->n_languages; i++)
        if (k->languages[i] == r->language)
            strcpy(r->out->language, k->codes[i]);
}

/* Hears the window, finds its language where that is not known, and begins it. */
static clef_status begin(run *r, clef_error *err)
{
    clef_transcriber *t = r->t;
    cut_window(r);
    clef_status s = clef_session_hear(t->session, r->features, err);
    if (!s && r->language < 0 && t->tokens.n_languages) {
        r->w.prompt[0] = t->tokens.start;
        r->w.n_prompt = r->w.n_start = 1;
        s = clef__window_begin(t, &r->w, &r->language, err);
    }
    name_language(r);
    write_prompt(r);
    return s ? s : clef__window_begin(t, &r->w, NULL, err);
}

static clef_status report(run *r, int32_t from, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = from; i < r->out->n_segments && !s && r->o.segment; i++)
        s = r->o.segment(r->o.segment_user, &r->out->segments[i], err);
    return s;
}

static clef_status transcribe_window(run *r, clef_error *err)
{
    const int32_t from = r->out->n_segments;
    int32_t skip = 0, n_frames = 0;
    clef_status s = begin(r, err);
    if (!s)
        s = clef__window_decode(r->t, &r->o, &r->w, &skip, err);
    if (!s && skip) {
        r->seek += r->w.n_frames;
        return CLEF_OK;
    }
    if (!s && r->o.words)
        s = clef__speech_align(r->t, &r->w, r->times, err);
    if (!s)
        s = clef__window_segments(r->t, &r->w, r->seek, r->o.words ? r->times : NULL, r->out, &n_frames, err);
    if (!s)
        s = remember(r, from, err);
    r->seek += n_frames > 0 ? n_frames : r->w.n_frames;
    return s ? s : report(r, from, err);
}

static clef_status join_texts(clef_transcript *out, clef_error *err)
{
    size_t n = 0;
    for (int32_t i = 0; i < out->n_segments; i++)
        n += strlen(out->segments[i].text);
    out->text = malloc(n + 1);
    if (!out->text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a text of %zu bytes", n);
    *out->text = 0;
    n = 0;
    for (int32_t i = 0; i < out->n_segments; i++) {
        strcpy(out->text + n, out->segments[i].text);
        n += strlen(out->segments[i].text);
    }
    return CLEF_OK;
}

static clef_status transcribe_all(run *r, clef_error *err)
{
    clef_status s = CLEF_OK;
    while (r->seek < r->n_frames && !s) {
        s = transcribe_window(r, err);
        const int32_t done = r->seek < r->n_frames ? r->seek : r->n_frames;
        if (!s && r->o.progress &&
            r->o.progress(r->o.progress_user, "transcribe", (uint64_t)done, (uint64_t)r->n_frames))
            s = clef__fail(err, CLEF_E_CANCELLED, "interrupted at %.1f of %.1f seconds", done / 100.0,
                           r->n_frames / 100.0);
    }
    return s;
}

static clef_status by_ctc(clef_transcriber *t, const clef_transcribe_opts *o, const float *samples, size_t n,
                          clef_transcript *out, clef_error *err)
{
    clef_status s = clef__ctc_transcribe(t, o, samples, n, out, err);
    if (!s)
        s = join_texts(out, err);
    if (s)
        clef_transcript_finish(out);
    return s;
}

clef_status clef_transcribe(clef_transcriber *t, const float *samples, size_t n,
                            const clef_transcribe_opts *opts, clef_transcript *out, clef_error *err)
{
    run r = {.t = t, .o = opts ? *opts : (clef_transcribe_opts){0}, .out = out};
    *out = (clef_transcript){.duration = (double)n / CLEF_SPEECH_RATE};
    if (t->ctc)
        return by_ctc(t, &r.o, samples, n, out, err);
    clef_status s = check_opts(&r, err);
    name_language(&r);
    if (!s && n >= CLEF_SPEECH_HOP)
        s = listen(&r, samples, n, err);
    if (!s)
        s = prepare(&r, err);
    if (!s)
        s = remember_hint(&r, err);
    if (!s)
        s = transcribe_all(&r, err);
    if (!s)
        s = join_texts(out, err);
    run_finish(&r);
    if (s)
        clef_transcript_finish(out);
    return s;
}

void clef_transcript_finish(clef_transcript *out)
{
    for (int32_t i = 0; i < out->n_segments; i++)
        clef__segment_finish(&out->segments[i]);
    free(out->segments);
    free(out->text);
    *out = (clef_transcript){0};
}

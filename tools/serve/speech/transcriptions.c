/* /v1/audio/transcriptions and /v1/audio/translations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clef/sound.h"
#include "tools/cli/json.h"
#include "tools/cli/terminal.h"
#include "tools/serve/lane.h"
#include "tools/serve/params.h"
#include "tools/serve/rows.h"
#include "tools/serve/task.h"
#include "tools/transcript.h"

typedef enum said_form { SAID_JSON, SAID_TEXT, SAID_SRT, SAID_VERBOSE, SAID_VTT, N_SAID } said_form;
static const char *const form_names[N_SAID] = {"json", "text", "srt", "verbose_json", "vtt"};

enum { MOST_TRIES = 6 };

typedef struct transcription {
    serve_request *r;
    serve_params p;
    serve_parts parts;
    serve_group group;
    serve_embedding work;
    serve_hearing hearing;
    clef_sound sound;
    said_form form;
    int32_t translate, is_ready, is_held, with_words, with_segments;
    float temperatures[MOST_TRIES];
    char language[40], *prompt;
    /* of streams */
    serve_buffer out;
    size_t n_out, n_sent; /* bytes of out that were taken; of the text that were sent */
    int32_t seen_text;    /* some of it was sent */
    uint64_t seen;
    int32_t ended;
    double last_sent;
    char late[1024]; /* an error under way */
} transcription;

/* ---- the fields ------------------------------------------------------------------------------ */

static int read_form(transcription *t)
{
    serve_error *e = &t->r->error;
    const char *name = t->p.said_form ? t->p.said_form : "json";
    while (t->form < N_SAID && strcmp(name, form_names[t->form]) != 0)
        t->form++;
    if (t->form == N_SAID)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "response_format",
                          "response_format: expected json, text, srt, verbose_json or vtt, got '%.40s'",
                          name);
    if (t->p.stream && t->form != SAID_JSON && t->form != SAID_TEXT)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "stream",
                          "stream: only with a response_format of json or text, got %s", name);
    return 1;
}

static int read_granularities(transcription *t)
{
    static const char path[] = "timestamp_granularities[]";
    const json_t *one;
    size_t i;
    json_array_foreach(t->p.granularities, i, one) {
        const char *name = json_is_string(one) ? json_string_value(one) : "";
        t->with_words |= !strcmp(name, "word");
        t->with_segments |= !strcmp(name, "segment");
        if (strcmp(name, "word") != 0 && strcmp(name, "segment") != 0)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "%s: expected word or segment, got '%.40s'", path, name);
    }
    if (t->with_words && t->form != SAID_VERBOSE)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                          "%s: word only with a response_format of verbose_json, got %s", path,
                          form_names[t->form]);
    t->with_segments |= !t->with_words;
    return 1;
}

static int check_model(const transcription *t)
{
    const serve_model *m = t->r->m;
    serve_error *e = &t->r->error;
    if (t->p.model && serve_model_find(m, &t->r->s->o, t->p.model) < 0)
        return serve_fail(e, SERVE_E_MODEL, "model", "model: '%.100s' is not here; this server has '%s'",
                          t->p.model, m->id);
    return m->hears ||
           serve_fail(e, SERVE_E_UNSUPPORTED, "model",
                      "%s does not hear: expected a Whisper model, got one of %s", m->id, m->hparams->arch);
}

/* The temperature that was asked for, then higher ones, as in OpenAI's code. */
static int32_t set_temperatures(transcription *t)
{
    int32_t n = 0;
    for (float x = t->p.sampling.temperature; n < MOST_TRIES && x < 1.01F; x += 0.2F)
        t->temperatures[n++] = fminf(x, 1);
    return n;
}

/* What the engine is to do; the texts outlive the body. */
static int set_opts(transcription *t)
{
    const serve_params *p = &t->p;
    if (p->hint) {
        t->prompt = malloc(strlen(p->hint) + 1);
        if (!t->prompt)
            return serve_rows_no_memory(t->r);
        strcpy(t->prompt, p->hint);
    }
    snprintf(t->language, sizeof t->language, "%s", p->language ? p->language : "");
    t->hearing.opts = (clef_transcribe_opts){.language = p->language ? t->language : NULL,
                                             .translate = t->translate,
                                             .prompt = t->prompt,
                                             .timestamps = t->form != SAID_JSON && t->form != SAID_TEXT,
                                             .words = t->with_words,
                                             .temperatures = t->temperatures,
                                             .n_temperatures = set_temperatures(t)};
    return 1;
}

/* ---- the sound ------------------------------------------------------------------------------- */

/* The longest sound whose samples there may be memory for. */
static double most_seconds(const serve_request *r)
{
    enum { TIMES = 12 };
    const double values = (double)TIMES * (double)serve_most_body(r),
                 memory = (double)r->s->o.body_memory * (1 << 20),
                 most = (values < memory ? values : memory) / (sizeof(float) * CLEF_SPEECH_RATE);
    return most < 4 * 3600 ? most : 4 * 3600;
}

static int read_sound(transcription *t)
{
    serve_request *r = t->r;
    const serve_part *file = t->p.file;
    clef_error err = {0};
    if (!file || !file->n)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, "file", "file: expected a sound, got %s",
                          file ? "0 bytes" : "nothing");
    const double most = most_seconds(r);
    const clef_sound_opts opts = {.rate = CLEF_SPEECH_RATE,
                                  .max_seconds = most,
                                  .max_samples = (int64_t)(3 * most * CLEF_SPEECH_RATE)}; /* at 48 kHz */
    const clef_status s =
        clef_sound_read(file->data, file->n, file->file[0] ? file->file : "file", &opts, &t->sound, &err);
    if (s)
        return serve_fail_status(&r->error, &err, s == CLEF_E_LIMIT ? SERVE_E_BODY : SERVE_E_INVALID_VALUE,
                                 "file");
    t->p.file = NULL;
    t->hearing.samples = t->sound.samples;
    t->hearing.n = t->sound.n;
    return 1;
}

/* From the body to the samples. A few bytes may be hours of silence: it always takes its turn. */
static void prepare(void *user)
{
    transcription *t = user;
    t->is_ready = serve_params_read_parts(t->r, SERVE_FORM_HEAR, &t->parts, &t->p) && check_model(t) &&
                  read_form(t) && read_granularities(t) && read_sound(t) && set_opts(t);
    serve_drop_body(t->r);
    t->is_ready = t->is_ready && serve_hold(t->r, t->sound.n * sizeof(float));
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A text as JSON. A byte that is not UTF-8 becomes U+FFFD. */
static json_t *json_of(const char *text, size_t n)
{
    serve_buffer clean = {0};
    for (size_t i = 0; i < n;) {
        const int length = cli_utf8_length(text + i);
        if (length && i + (size_t)length <= n)
            serve_buffer_add(&clean, text + i, (size_t)length);
        else
            serve_buffer_add(&clean, "\xef\xbf\xbd", 3);
        i += length ? (size_t)length : 1;
    }
    json_t *value = clean.failed ? NULL : json_stringn(clean.p ? clean.p : "", clean.n);
    serve_buffer_free(&clean);
    return value;
}

static json_t *trimmed_json(const char *text)
{
    size_t n;
    text = cli_trimmed(text, &n);
    return json_of(text, n);
}

/* NULL: translations have none. */
static json_t *usage_of(const transcription *t)
{
    return t->translate ? NULL
                        : json_pack("{s:s, s:I}", "type", "duration", "seconds",
                                    (json_int_t)ceil((double)t->hearing.n / CLEF_SPEECH_RATE));
}

/* Times with the two digits that they have. */
static double rounded(double seconds)
{
    return round(seconds * 100) / 100;
}

static json_t *segment_of(const clef_segment *g, int32_t i)
{
    json_t *ids = json_array();
    for (int32_t k = 0; k < g->n_ids; k++)
        json_array_append_new(ids, json_integer(g->ids[k]));
    return json_pack("{s:i, s:i, s:f, s:f, s:o, s:o, s:f, s:f, s:f, s:f}", "id", (int)i, "seek", (int)g->seek,
                     "start", rounded(g->start), "end", rounded(g->end), "text",
                     json_of(g->text, strlen(g->text)), "tokens", ids, "temperature", (double)g->temperature,
                     "avg_logprob", (double)g->avg_logprob, "compression_ratio", (double)g->compression_ratio,
                     "no_speech_prob", (double)g->no_speech_prob);
}

static json_t *words_of(const clef_transcript *said)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < said->n_segments; i++)
        for (int32_t k = 0; k < said->segments[i].n_words; k++) {
            const clef_word *w = &said->segments[i].words[k];
            json_array_append_new(list, json_pack("{s:o, s:f, s:f}", "word", trimmed_json(w->text), "start",
                                                  rounded(w->start), "end", rounded(w->end)));
        }
    return list;
}

static json_t *verbose_of(const transcription *t)
{
    const clef_transcript *said = &t->hearing.said;
    const char *language = clef_language_name(said->language);
    json_t *segments = json_array();
    for (int32_t i = 0; i < said->n_segments; i++)
        json_array_append_new(segments, segment_of(&said->segments[i], i));
    json_t *o = json_pack(
        "{s:s, s:s, s:f, s:o, s:o*}", "task", t->translate ? "translate" : "transcribe", "language",
        t->translate ? "english"
        : language   ? language
                     : said->language,
        "duration", rounded(said->duration), "text", trimmed_json(said->text), "usage", usage_of(t));
    if (t->with_words)
        json_object_set_new(o, "words", words_of(said));
    if (t->with_segments)
        json_object_set(o, "segments", segments);
    json_decref(segments);
    return o;
}

static void put_cue(serve_buffer *to, const clef_segment *g, int32_t number, char point)
{
    char start[32], end[32];
    size_t n;
    const char *text = cli_trimmed(g->text, &n);
    cli_time_text(g->start, point, start);
    cli_time_text(g->end, point, end);
    if (number)
        serve_buffer_print(to, "%d\n", (int)number);
    serve_buffer_print(to, "%s --> %s\n", start, end);
    for (size_t i = 0; i < n; i++)
        if (!cli_is_cue_arrow(text + i, n - i))
            serve_buffer_add(to, text + i, 1);
    serve_buffer_add(to, "\n\n", 2);
}

/* A reply that is not JSON. */
static void reply_text(transcription *t)
{
    serve_request *r = t->r;
    const clef_transcript *said = &t->hearing.said;
    const int is_vtt = t->form == SAID_VTT;
    serve_buffer to = {0};
    size_t n;
    const char *text = cli_trimmed(said->text, &n);
    if (t->form == SAID_TEXT)
        serve_buffer_print(&to, "%.*s\n", (int)n, text);
    if (is_vtt)
        serve_buffer_print(&to, "WEBVTT\n\n");
    for (int32_t i = 0; i < said->n_segments && t->form != SAID_TEXT; i++)
        put_cue(&to, &said->segments[i], is_vtt ? 0 : i + 1, is_vtt ? '.' : ',');
    serve_buffer_add(&to, "", 0);
    r->reply = to.p;
    r->n_reply = to.n;
    r->content_type = is_vtt ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8";
    if (to.failed)
        serve_rows_no_memory(r);
    else if (to.p)
        serve_clean_text(to.p);
}

static void reply(transcription *t)
{
    if (t->form == SAID_JSON)
        serve_reply_json(
            t->r, json_pack("{s:o, s:o*}", "text", trimmed_json(t->hearing.said.text), "usage", usage_of(t)));
    else if (t->form == SAID_VERBOSE)
        serve_reply_json(t->r, verbose_of(t));
    else
        reply_text(t);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int put_event(transcription *t, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text)
        return serve_rows_no_memory(t->r);
    serve_buffer_print(&t->out, "data: %s\n\n", text);
    free(text);
    return !t->out.failed || serve_rows_no_memory(t->r);
}

/* The text that is new, without the spaces around the whole. */
static json_t *delta_of(transcription *t)
{
    json_t *value = NULL;
    serve_lock_take(&t->group.lock);
    const serve_buffer *text = &t->hearing.text;
    size_t end = text->n;
    while (end > t->n_sent && (text->p[end - 1] == ' ' || text->p[end - 1] == '\n'))
        end--;
    while (!t->seen_text && t->n_sent < end && (text->p[t->n_sent] == ' ' || text->p[t->n_sent] == '\n'))
        t->n_sent++;
    if (end > t->n_sent)
        value = json_pack("{s:s, s:o}", "type", "transcript.text.delta", "delta",
                          json_of(text->p + t->n_sent, end - t->n_sent));
    t->seen_text |= end > t->n_sent;
    t->n_sent = end;
    serve_lock_release(&t->group.lock);
    return value;
}

/* An error under way: the status is long sent, and the log has it as the reason of a reply that began well.
 */
static void put_error(transcription *t)
{
    serve_request *r = t->r;
    char *text = r->error.id != SERVE_E_GONE ? serve_error_json(&r->error) : NULL;
    if (!t->is_held) /* an event had no memory: the engine may still be at work */
        t->is_held = !serve_embedding_cancel(r->engine, &t->work);
    t->ended = 1;
    if (text)
        serve_buffer_print(&t->out, "data: %s\n\n", text);
    free(text);
    if (r->error.id == SERVE_E_UNAVAILABLE)
        serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED, SERVE_CANCELLED_SHUTDOWN);
    snprintf(t->late, sizeof t->late, "%s", r->error.message);
    r->why = t->late;
    r->error.id = SERVE_OK;
}

static int put_done(transcription *t)
{
    t->ended = 1;
    if (t->work.error.id) {
        t->r->error = t->work.error;
        return 0;
    }
    return put_event(t, json_pack("{s:s, s:o, s:o*}", "type", "transcript.text.done", "text",
                                  trimmed_json(t->hearing.said.text), "usage", usage_of(t)));
}

/* Fills `out` with what is new. 0: an error. */
static int put_news(transcription *t)
{
    const int now = serve_rows_wait(t->r, &t->work, &t->seen, &t->is_held);
    if (now == SERVE_ROWS_OVER)
        return 0;
    json_t *delta = delta_of(t);
    if (delta && !put_event(t, delta))
        return 0;
    if (now == SERVE_ROWS_DONE)
        return put_done(t);
    if (!t->out.n && cli_terminal_seconds() - t->last_sent > (double)SERVE_PING_SECONDS)
        serve_buffer_add(&t->out, ": ping\n\n", 8);
    return 1;
}

static size_t read_stream(void *user, char *out, size_t room)
{
    transcription *t = user;
    while (t->n_out == t->out.n && !t->ended) {
        t->out.n = t->n_out = 0;
        if (!put_news(t))
            put_error(t);
    }
    const size_t n = t->out.n - t->n_out < room ? t->out.n - t->n_out : room;
    if (n)
        memcpy(out, t->out.p + t->n_out, n);
    t->n_out += n;
    t->last_sent = cli_terminal_seconds();
    return n;
}

/* ---- the endpoints --------------------------------------------------------------------------- */

/* Ends what still runs, and frees all, unless the engine still has it. */
static void transcription_free(transcription *t)
{
    if (t->is_held)
        return;
    clef_transcript_finish(&t->hearing.said);
    clef_sound_finish(&t->sound);
    serve_buffer_free(&t->hearing.text);
    serve_buffer_free(&t->out);
    serve_params_finish(&t->p);
    serve_group_finish(&t->group);
    free(t->prompt);
    free(t);
}

static void finish_stream(void *user)
{
    transcription *t = user;
    serve_request *r = t->r;
    if (!t->ended) { /* the connection broke while a piece was written */
        const int slow = serve_client_slow(r);
        r->gone = 1;
        r->why = slow ? "the client reads too slowly" : "the client has gone";
        serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED,
                          slow ? SERVE_CANCELLED_SLOW : SERVE_CANCELLED_DISCONNECT);
        t->is_held = !serve_embedding_cancel(r->engine, &t->work);
    }
    if (r->why == t->late) { /* the log still reads it */
        snprintf(r->error.message, sizeof r->error.message, "%s", t->late);
        r->why = r->error.message;
    }
    transcription_free(t);
}

/* Waits until the work has begun, or is done. Until then the status is free. */
static int wait_for(transcription *t, int is_whole)
{
    for (;;) {
        const int now = serve_rows_wait(t->r, &t->work, &t->seen, &t->is_held);
        if (now == SERVE_ROWS_OVER)
            return 0;
        if (now == SERVE_ROWS_DONE && t->work.error.id)
            t->r->error = t->work.error;
        if (now == SERVE_ROWS_DONE)
            return !t->r->error.id;
        serve_lock_take(&t->group.lock);
        const int begun = t->hearing.has_begun;
        serve_lock_release(&t->group.lock);
        if (begun && !is_whole)
            return 1;
    }
}

static void answer(serve_request *r, int32_t translate)
{
    transcription *t = calloc(1, sizeof *t);
    if (!t) {
        serve_rows_no_memory(r);
        return;
    }
    t->r = r;
    t->translate = translate;
    serve_group_init(&t->group);
    t->group.client = serve_client_of(r);
    t->work = (serve_embedding){.group = &t->group, .hearing = &t->hearing, .n = 1};
    const int ok = serve_lane_run(r->s->bodies, r, prepare, t) && t->is_ready &&
                   serve_engine_embed(r->engine, &t->work, &r->error) && wait_for(t, !t->p.stream);
    t->last_sent = cli_terminal_seconds();
    if (ok && t->p.stream) {
        r->stream = (serve_stream){.read = read_stream, .finish = finish_stream, .user = t};
        return;
    }
    if (ok)
        reply(t);
    transcription_free(t);
}

void serve_answer_transcriptions(serve_request *r)
{
    answer(r, 0);
}

void serve_answer_translations(serve_request *r)
{
    answer(r, 1);
}

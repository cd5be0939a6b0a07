#include "tools/transcript.h"

#include <inttypes.h>
#include <string.h>

#include "tools/cli/json.h"

void cli_time_text(double seconds, char point, char out[32])
{
    const int64_t ms = (int64_t)(seconds * 1000 + 0.5), s = ms / 1000;
    snprintf(out, 32, "%02" PRId64 ":%02" PRId64 ":%02" PRId64 "%c%03" PRId64, s / 3600, s / 60 % 60, s % 60,
             point, ms % 1000);
}

const char *cli_trimmed(const char *text, size_t *n)
{
    while (*text == ' ' || *text == '\n')
        text++;
    *n = strlen(text);
    while (*n && (text[*n - 1] == ' ' || text[*n - 1] == '\n'))
        --*n;
    return text;
}

int cli_is_cue_arrow(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "-->", 3) == 0;
}

/* A subtitle's number, times and text. */
static void write_cue(FILE *to, int32_t number, const clef_segment *g, char point)
{
    char start[32], end[32];
    size_t n;
    const char *text = cli_trimmed(g->text, &n);
    cli_time_text(g->start, point, start);
    cli_time_text(g->end, point, end);
    if (number)
        fprintf(to, "%" PRId32 "\n", number);
    fprintf(to, "%s --> %s\n", start, end);
    for (size_t i = 0; i < n; i++)
        if (!cli_is_cue_arrow(text + i, n - i))
            fputc(text[i], to);
    fputs("\n\n", to);
}

static void write_cues(const clef_transcript *t, FILE *to, int is_vtt)
{
    if (is_vtt)
        fputs("WEBVTT\n\n", to);
    for (int32_t i = 0; i < t->n_segments; i++)
        write_cue(to, is_vtt ? 0 : i + 1, &t->segments[i], is_vtt ? '.' : ',');
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void write_seconds(FILE *to, int32_t *n, const char *key, double seconds)
{
    cli_json_member(to, n, key);
    fprintf(to, "%.2f", seconds);
}

static void write_words(FILE *to, int32_t *n_members, const clef_segment *g)
{
    cli_json_member(to, n_members, "words");
    fputc('[', to);
    for (int32_t i = 0; i < g->n_words; i++) {
        int32_t n = 0;
        fputs(i ? ", {" : "{", to);
        cli_json_member_text(to, &n, "word", g->words[i].text);
        write_seconds(to, &n, "start", g->words[i].start);
        write_seconds(to, &n, "end", g->words[i].end);
        fputc('}', to);
    }
    fputc(']', to);
}

static void write_segment(FILE *to, int32_t id, const clef_segment *g)
{
    int32_t n = 0;
    fputc('{', to);
    cli_json_member_number(to, &n, "id", id);
    cli_json_member_number(to, &n, "seek", g->seek);
    write_seconds(to, &n, "start", g->start);
    write_seconds(to, &n, "end", g->end);
    cli_json_member_text(to, &n, "text", g->text);
    cli_json_member(to, &n, "tokens");
    cli_json_ints(to, g->ids, g->n_ids);
    cli_json_member_number(to, &n, "temperature", (double)g->temperature);
    cli_json_member_number(to, &n, "avg_logprob", (double)g->avg_logprob);
    cli_json_member_number(to, &n, "compression_ratio", (double)g->compression_ratio);
    cli_json_member_number(to, &n, "no_speech_prob", (double)g->no_speech_prob);
    if (g->words)
        write_words(to, &n, g);
    fputc('}', to);
}

static void write_json(const clef_transcript *t, FILE *to)
{
    const char *language = clef_language_name(t->language);
    int32_t n = 0;
    fputc('{', to);
    cli_json_member_text(to, &n, "language", language ? language : t->language);
    cli_json_member_number(to, &n, "duration", t->duration);
    cli_json_member_text(to, &n, "text", t->text);
    cli_json_member(to, &n, "segments");
    for (int32_t i = 0; i < t->n_segments; i++) {
        fputs(i ? ",\n  " : "[\n  ", to);
        write_segment(to, i, &t->segments[i]);
    }
    fputs(t->n_segments ? "\n]}\n" : "[]}\n", to);
}

void cli_transcript_write(const clef_transcript *t, cli_transcript_form form, FILE *to)
{
    size_t n;
    const char *text = cli_trimmed(t->text, &n);
    if (form == CLI_SAID_JSON)
        write_json(t, to);
    else if (form != CLI_SAID_TEXT)
        write_cues(t, to, form == CLI_SAID_VTT);
    else if (n)
        fprintf(to, "%.*s\n", (int)n, text);
}

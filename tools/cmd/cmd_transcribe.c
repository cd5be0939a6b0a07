/* clef transcribe: writes down what is said in a sound. */
#include <stdlib.h>
#include <string.h>

#include "clef/sound.h"
#include "tools/cli/common.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/transcript.h"

enum { MOST_TEMPERATURES = 16 };

typedef struct transcribe_options {
    const char *language, *prompt, *temperatures, *out, *device;
    float most_compression, least_logprob, most_no_speech;
    int32_t form, translate, timestamps, words, condition, n_beams, n_max, kv_type, n_threads, quiet;
    cli_seed seed;
    cli_split split;
    clef_compile_opts compile;
} transcribe_options;

/* In the order of cli_transcript_form. */
static const char *const form_names[] = {"text", "srt", "vtt", "json", NULL};

enum { WHEN_AUTO, WHEN_YES, WHEN_NO };
static const char *const when_names[] = {"auto", "yes", "no", NULL};

static const transcribe_options transcribe_defaults = {0};

/* clang-format off */
#define AT(field) .offset = offsetof(transcribe_options, field)
static const cli_option transcribe_option_table[] = {
    {.names = "language", .letter = 'l', .type = CLI_TEXT, .value = "LANGUAGE", AT(language),
     .help = "the language that is spoken: en, german [detected in the first 30 seconds]"},
    {.names = "translate", .type = CLI_SWITCH, AT(translate), .help = "write it in English"},
    {.names = "format", .type = CLI_CHOICE, .value = "FORM", AT(form), .choices = form_names,
     .help = "subtitles, or JSON in the form of OpenAI's verbose_json; they have timestamps"},
    {.names = "words", .letter = 'w', .type = CLI_SWITCH, AT(words),
     .help = "with --format json: the times of each word"},
    {.names = "timestamps", .type = CLI_CHOICE, .value = "WHEN", AT(timestamps), .choices = when_names,
     .help = "whether the model writes timestamps. auto: with a --format that has them, and for sounds above "
             "30 seconds, which need them"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "OUT", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = "prompt", .letter = 'p', .type = CLI_TEXT, .value = "TEXT", AT(prompt),
     .help = "a text that might have come before: names and spelling to expect"},
    {.names = "condition", .type = CLI_SWITCH, AT(condition),
     .help = "show the model its text before each window of 30 seconds: names stay the same, mistakes may"},
    {.names = "beams", .type = CLI_INT, .value = "N", AT(n_beams), .lo = 1, .hi = 16,
     .help = "search with N beams at temperature 0"},
    {.names = "n-predict", .letter = 'n', .type = CLI_INT, .value = "N", AT(n_max), .lo = 1, .hi = 1 << 20,
     .help = "most tokens of a window [the model's limit]"},
    {.names = "temperature", .type = CLI_TEXT, .value = "LIST", AT(temperatures),
     .help = "temperatures to try, one after the other, while a text fails a check; 0: greedy, no other "
             "try [0,0.2,0.4,0.6,0.8,1]"},
    {.names = "compression", .type = CLI_FLOAT, .value = "X", AT(most_compression), .lo = -1, .hi = 1000,
     .help = "check: a text that compresses better is a loop; -1: no check [2.4]"},
    {.names = "logprob", .type = CLI_FLOAT, .value = "X", AT(least_logprob), .lo = -1000, .hi = 1,
     .help = "check: the least mean log-probability of tokens; 1: no check [-1]"},
    {.names = "no-speech", .type = CLI_FLOAT, .value = "P", AT(most_no_speech), .lo = -1, .hi = 1,
     .help = "skip windows whose text fails the check of --logprob and that are silence with more than this "
             "probability; -1: none [0.6]"},
    {.names = "seed", .type = CLI_SEED, .value = "N", AT(seed), .help = "of temperatures above 0 [0]"},
    KV_TYPE_OPTION(transcribe_options), THREADS_OPTION(transcribe_options),
    DEVICES_OPTION(transcribe_options), COMPILE_OPTIONS(transcribe_options), QUIET_OPTION(transcribe_options),
    {.names = NULL},
};
/* clang-format on */

typedef struct job {
    const transcribe_options *o;
    clef_model *model;
    clef_device *device;
    clef_transcriber *transcriber;
    clef_sound sound;
    clef_transcript said;
    cli_progress progress;
    float temperatures[MOST_TEMPERATURES];
    int32_t n_temperatures;
    int32_t prints, printed; /* 1: segments are printed as they come; 1: there was one */
} job;

/* ---- options ------------------------------------------------------------------------------------- */

static int read_temperatures(job *j)
{
    const char *at = j->o->temperatures;
    while (at && *at) {
        char *end;
        const float x = strtof(at, &end);
        if (end == at || (*end && *end != ',') || !(x >= 0 && x <= 2) ||
            j->n_temperatures == MOST_TEMPERATURES)
            return cli_fail(CLI_USAGE,
                            "transcribe: --temperature: expected at most %d numbers from 0 to 2 with commas, "
                            "got %s",
                            MOST_TEMPERATURES, j->o->temperatures);
        j->temperatures[j->n_temperatures++] = x;
        at = *end ? end + 1 : end;
    }
    return CLI_GO_ON;
}

static int check_options(job *j)
{
    const transcribe_options *o = j->o;
    clef_error err = {0};
    if (o->words && o->form != CLI_SAID_JSON)
        return cli_fail(CLI_USAGE, "transcribe: --words: expected --format json, got %s",
                        form_names[o->form]);
    if (o->words && o->timestamps == WHEN_NO)
        return cli_fail(CLI_USAGE, "transcribe: --words needs timestamps, got --timestamps no");
    if (cli_output_check(o->out, &err) != CLEF_OK)
        return cli_report(&err);
    return read_temperatures(j);
}

/* ---- the sound ----------------------------------------------------------------------------------- */

/* Reads stdin to its end. */
static int read_stdin(char **out, size_t *n)
{
    const size_t most = (size_t)4 << 30;
    size_t room = 0;
    *out = NULL;
    *n = 0;
    while (!feof(stdin) && !ferror(stdin)) {
        if (*n == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = room <= most ? realloc(*out, room) : NULL;
            if (!more)
                return cli_fail(CLI_FAILED, "transcribe: no memory for the sound, %zu bytes so far", *n);
            *out = more;
        }
        *n += fread(*out + *n, 1, room - *n, stdin);
    }
    return ferror(stdin) ? cli_fail(CLI_FAILED, "transcribe: cannot read stdin") : CLI_GO_ON;
}

static int read_sound(job *j, const char *path)
{
    const clef_sound_opts opts = {.rate = CLEF_SPEECH_RATE};
    clef_error err = {0};
    clef_status status;
    if (strcmp(path, "-") == 0) {
        char *data;
        size_t n;
        const int rc = read_stdin(&data, &n);
        status = rc == CLI_GO_ON ? clef_sound_read(data, n, "stdin", &opts, &j->sound, &err) : CLEF_OK;
        free(data);
        if (rc != CLI_GO_ON)
            return rc;
    } else {
        status = clef_sound_open(path, &opts, &j->sound, &err);
    }
    return status == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

/* ---- the text ------------------------------------------------------------------------------------ */

static int open_model(job *j, const char *path)
{
    const transcribe_options *o = j->o;
    clef_error err = {0};
    const cli_place place = {
        .device = o->device, .split = o->split, .n_threads = o->n_threads, .quiet = o->quiet};
    const int rc = cli_model_open(path, &place, &j->progress, &j->model, &j->device);
    if (rc != CLI_GO_ON)
        return rc;
    const clef_transcriber_opts opts = {.n_beams = o->n_beams,
                                        .words = o->words,
                                        .kv_type = cli_kv_type(j->model, o->kv_type, o->compile.exact),
                                        .compile = cli_compile_opts(&o->compile, &j->progress)};
    if (clef_transcriber_create(j->device, j->model, &opts, &j->transcriber, &err) != CLEF_OK)
        return cli_report(&err);
    return CLI_GO_ON;
}

/* Text alone is printed segment by segment. */
static clef_status print_segment(void *user, const clef_segment *segment, clef_error *err)
{
    job *j = user;
    const char *text = segment->text;
    (void)err;
    cli_progress_finish(&j->progress);
    while (!j->printed && *text == ' ')
        text++;
    fputs(text, stdout);
    fflush(stdout);
    j->printed |= *text != 0;
    return CLEF_OK;
}

static int transcribe(job *j)
{
    const transcribe_options *o = j->o;
    clef_error err = {0};
    const clef_transcribe_opts opts = {.language = o->language,
                                       .translate = o->translate,
                                       .prompt = o->prompt,
                                       .condition = o->condition,
                                       .timestamps = o->timestamps ? o->timestamps == WHEN_YES
                                                                   : o->form != CLI_SAID_TEXT,
                                       .words = o->words,
                                       .temperatures = j->n_temperatures ? j->temperatures : NULL,
                                       .n_temperatures = j->n_temperatures,
                                       .most_compression = o->most_compression,
                                       .least_logprob = o->least_logprob,
                                       .most_no_speech = o->most_no_speech,
                                       .n_max = o->n_max,
                                       .seed = o->seed.value,
                                       .segment = j->prints ? print_segment : NULL,
                                       .segment_user = j,
                                       .progress = cli_progress_step,
                                       .progress_user = &j->progress};
    const clef_status status =
        clef_transcribe(j->transcriber, j->sound.samples, j->sound.n, &opts, &j->said, &err);
    cli_progress_finish(&j->progress);
    if (j->printed)
        fputc('\n', stdout);
    return status == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

static clef_status write_said(void *user, FILE *to, clef_error *err)
{
    const job *j = user;
    (void)err;
    cli_transcript_write(&j->said, (cli_transcript_form)j->o->form, to);
    return CLEF_OK;
}

static int transcribe_run(const void *options, int32_t n_args, char **args)
{
    job j = {.o = options};
    clef_error err = {0};
    (void)n_args;
    j.prints = j.o->form == CLI_SAID_TEXT && !j.o->out;
    int rc = check_options(&j);
    if (rc == CLI_GO_ON)
        rc = read_sound(&j, args[1]);
    if (rc == CLI_GO_ON)
        rc = open_model(&j, args[0]);
    if (rc == CLI_GO_ON)
        rc = transcribe(&j);
    if (rc == CLI_GO_ON && !j.prints && cli_output(j.o->out, write_said, &j, &err) != CLEF_OK)
        rc = cli_report(&err);
    if (rc == CLI_GO_ON)
        rc = CLI_OK;
    cli_progress_finish(&j.progress);
    clef_transcript_finish(&j.said);
    clef_sound_finish(&j.sound);
    clef_transcriber_destroy(j.transcriber);
    clef_device_close(j.device);
    clef_model_close(j.model);
    return rc;
}

const cli_command cli_command_transcribe = {
    .name = "transcribe",
    .usage = "MODEL SOUND [--language LANGUAGE] [--format srt]",
    .summary = "Write down what is said in a sound",
    .notes =
        "MODEL is a Whisper model: a Hugging Face folder, a GGUF file made of one, or a file of whisper.cpp. "
        "It may also be a folder of wav2vec 2.0 or HuBERT with CTC. "
        "SOUND is a WAV, FLAC, "
        "Ogg, AIFF, AU, CAF or MP3 file of up to 4 hours; - is stdin.\n\nThe model hears 30 seconds at a "
        "time. Each of these windows begins where the text of the last one ends by the model's timestamps. "
        "A text that fails a check is written again at the next temperature.\n",
    .options = transcribe_option_table,
    .first = "language translate format words out prompt condition beams temperature threads device quiet",
    .min_args = 2,
    .max_args = 2,
    .defaults = &transcribe_defaults,
    .options_bytes = sizeof(transcribe_options),
    .run = transcribe_run,
};

/* clef logits: what a model predicted at each position of a text, and how surprising the token was. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/inspect/logits.h"

typedef struct logits_options {
    cli_forward_opts forward;
    const char *model, *out;
    int32_t top, format;
} logits_options;

static const logits_options logits_defaults = {.top = 5, .format = -1, .forward.compile.exact = 1};

static const char *const formats[] = {"text", "json", "html", "svg", NULL};
static const cli_writer writers[] = {cli_logits_text, cli_logits_json, cli_logits_html, cli_logits_svg};

/* clang-format off */
#define AT(field) .offset = offsetof(logits_options, field)
static const cli_option logits_option_table[] = {
    MODEL_OPTION(logits_options),
    FORWARD_OPTIONS(logits_options),
    {.names = "top", .letter = 'k', .type = CLI_INT, .value = "K", AT(top), .lo = 1, .hi = LOGITS_MAX_TOP,
     .help = "show the K likeliest tokens of each position [5]"},
    {.names = "format", .type = CLI_CHOICE, .value = "HOW", AT(format), .choices = formats,
     .help = "output format [by the ending of FILE, else text]"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FILE", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = NULL},
};
/* clang-format on */

/* Fills a place from its logits x. */
static void score_place(logits_place *place, const float *x, int32_t n_vocab, int32_t n_top)
{
    double sum = 0;
    float most = x[0];
    int32_t n = 0;
    for (int32_t i = 1; i < n_vocab; i++)
        most = x[i] > most ? x[i] : most;
    for (int32_t i = 0; i < n_vocab; i++)
        sum += exp((double)x[i] - (double)most);
    place->rank = 1;
    place->nats = log(sum) + (double)most - (double)x[place->id];
    for (int32_t i = 0; i < n_vocab; i++) {
        place->rank += x[i] > x[place->id] || (x[i] == x[place->id] && i < place->id);
        int32_t at = n;
        while (at > 0 && x[i] > x[place->top[at - 1].id])
            at--;
        if (at >= n_top)
            continue;
        n += n < n_top;
        memmove(place->top + at + 1, place->top + at, (size_t)(n - 1 - at) * sizeof *place->top);
        place->top[at].id = i;
    }
    for (int32_t i = 0; i < n; i++)
        place->top[i].p = (float)(exp((double)x[place->top[i].id] - (double)most) / sum);
}

static clef_status score_all(logits_result *r, const float *logits, int32_t n_vocab, clef_error *err)
{
    const cli_forward *f = r->f;
    const int32_t *ids = f->is_seq2seq ? f->target : f->ids, first = r->is_masked_lm ? 0 : 1;
    r->n = f->is_seq2seq ? f->n_target : f->n_ids;
    r->places = calloc((size_t)r->n, sizeof *r->places);
    if (!r->places)
        return cli_error(err, CLEF_E_NOMEM, "logits: out of host memory");
    for (int32_t i = 0; i < r->n; i++) {
        r->places[i].id = ids[i];
        r->places[i].top = calloc((size_t)r->n_top + 1, sizeof *r->places[i].top);
        if (!r->places[i].top)
            return cli_error(err, CLEF_E_NOMEM, "logits: out of host memory");
        if (i < first || (f->mask && !f->is_seq2seq && (!f->mask[i] || !f->mask[i - first])))
            continue;
        score_place(&r->places[i], logits + (size_t)(i - first) * (size_t)n_vocab, n_vocab, r->n_top);
        r->nats += r->places[i].nats;
        r->n_scored++;
    }
    if (!r->n_scored)
        return cli_error(err, CLEF_E_LIMIT, "logits: expected at least two tokens");
    r->nats /= r->n_scored;
    return CLEF_OK;
}

static clef_status collect_places(cli_forward *f, logits_result *r, clef_error *err)
{
    float *logits = NULL;
    int32_t rank = 0;
    int64_t dims[CLEF_MAX_DIMS] = {0};
    clef_status status = cli_forward_build(f, NULL, 0, err);
    r->is_masked_lm = status == CLEF_OK && !clef_graph_find(f->graph, "pos") && !f->is_seq2seq;
    if (status == CLEF_OK && !clef_graph_find(f->graph, "logits"))
        status = cli_error(err, CLEF_E_UNSUPPORTED, "logits: %s has no head that computes logits",
                           clef_model_path(f->model));
    if (status == CLEF_OK)
        status = cli_forward_run(f, err);
    if (status == CLEF_OK)
        status = cli_forward_read(f, "logits", &logits, &rank, dims, err);
    if (status == CLEF_OK && (rank != 3 || dims[2] != clef_model_hparams(f->model)->n_vocab))
        status = cli_error(err, CLEF_E_UNSUPPORTED,
                           "logits: %s has a classifier's logits, expected those of a vocabulary",
                           clef_model_path(f->model));
    if (status == CLEF_OK)
        status = score_all(r, logits, (int32_t)dims[2], err);
    free(logits);
    return status;
}

static int logits_run(const void *options, int32_t n_args, char **args)
{
    const logits_options *o = options;
    clef_error err = {0};
    cli_forward f = {0};
    const char *path = cli_model_path("logits", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    const int32_t format = cli_format_of("logits", formats, "txt", o->format, o->out);
    if (format < 0)
        return CLI_USAGE;
    logits_result r = {.f = &f, .n_top = o->top, .title = cli_title_of(path)};
    clef_status status = cli_forward_open(&f, &o->forward, path, &err);
    if (status == CLEF_OK && o->top > clef_model_hparams(f.model)->n_vocab)
        status = cli_error(&err, CLEF_E_ARG, "--top %" PRId32 ": the vocabulary has %" PRId32 " tokens",
                           o->top, clef_model_hparams(f.model)->n_vocab);
    if (status == CLEF_OK)
        status = collect_places(&f, &r, &err);
    if (status == CLEF_OK)
        status = cli_output(o->out, writers[format], &r, &err);
    for (int32_t i = 0; i < r.n && r.places; i++)
        free(r.places[i].top);
    free(r.places);
    cli_forward_close(&f);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_logits = {
    .name = "logits",
    .usage = "[MODEL] -p TEXT [--top K] [-o FILE]",
    .summary = "Show what a model predicts at each position of a text",
    .notes = "Prints each token with its probability, its rank, and the K tokens that were likeliest in its "
             "place. Tokens are coloured by surprise, -log2 p, in a terminal and in FILE.html. FILE.json "
             "holds the numbers; FILE.svg shows the perplexity along the text. For long texts, see `clef "
             "perplexity --curve`. For an encoder-decoder, the target text is shown.\n",
    .options = logits_option_table,
    .first = "model prompt file ids in n-predict lora top format out device quiet",
    .max_args = 1,
    .defaults = &logits_defaults,
    .options_bytes = sizeof logits_defaults,
    .run = logits_run,
};

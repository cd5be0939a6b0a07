/* clef perplexity: how well a model predicts a text. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"
#include "tools/cli/progress.h"
#include "tools/cli/terminal.h"
#include "tools/inspect/curve.h"
#include "tools/inspect/divergence.h"
#include "tools/ranks.h"

enum { DEFAULT_CONTEXT = 512, MAX_STEP = 512, MIN_STEP = 8, LOGITS_A_STEP = 1 << 24, VISIBLE_STEP = 64 };

typedef enum score { SCORE_ALL, SCORE_HALF } score;
static const char *const score_names[] = {"all", "half", NULL};

typedef struct perplexity_options {
    const char *model, *device, *curve, *kl, *save_logits;
    cli_split split;
    int32_t n_context, score, kv_type, json, quiet, dp;
    clef_compile_opts compile;
} perplexity_options;

static const perplexity_options perplexity_defaults = {0};

/* clang-format off */
#define AT(field) .offset = offsetof(perplexity_options, field)
static const cli_option perplexity_option_table[] = {
    MODEL_OPTION(perplexity_options),
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "CTX", AT(n_context), .lo = 2,
     .hi = INT32_MAX, .help = "tokens per window [512, or the model's context]"},
    {.names = "score", .type = CLI_CHOICE, .value = "WHICH", AT(score), .choices = score_names,
     .help = "which tokens count: all, or the second half of each window, as in llama.cpp [all]"},
    {.names = "curve", .type = CLI_TEXT, .value = "FILE", AT(curve),
     .help = "draw the perplexity along the text as SVG"},
    {.names = "save-logits", .type = CLI_TEXT, .value = "OUT", AT(save_logits),
     .help = "write the logits of the scored tokens for a later --kl; implies --score half"},
    {.names = "kl", .type = CLI_TEXT, .value = "BASE", AT(kl),
     .help = "compare with the logits that --save-logits wrote of another model, such as the one that was "
             "quantised: the Kullback-Leibler divergence, and how often both hold the same token for "
             "likeliest; implies --score half"},
    {.names = "dp", .type = CLI_INT, .value = "N", AT(dp), .lo = 1, .hi = 4096,
     .help = "under mpirun: ranks with the whole model each, which share the windows (data parallelism)"},
    {.names = "json", .type = CLI_SWITCH, AT(json), .help = "print one line of JSON"},
    DEVICES_OPTION(perplexity_options),
    COMPILE_OPTIONS(perplexity_options),
    KV_TYPE_OPTION(perplexity_options),
    QUIET_OPTION(perplexity_options),
    {.names = NULL},
};
/* clang-format on */

/** State of an evaluation; close_all() accepts it in any state. */
typedef struct work {
    const perplexity_options *o;
    const char *file;
    clef_model *model;
    clef_device *device;
    clef_plan *plan;
    cli_progress progress;
    int32_t *ids;       /* the text's tokens; in half mode after BOS, if the model uses it */
    int32_t n_ids, bos; /* bos -1: windows begin without it */
    int32_t n_context, step, n_vocab, n_windows;
    int32_t *input, *target; /* of a window: target[i] follows input[i]; -1: not scored */
    float *logits;           /* [step, n_vocab] */
    double *nats;            /* -log p of each scored token; 0 where another rank scores it */
    int64_t n_scored;
    double seconds;
    score score;
    cli_divergence divergence; /* --kl, --save-logits */
    clef_ranks *ranks;         /* --dp: window k is of rank k % n_ranks. NULL: this process has all */
    int32_t rank, n_ranks;
} work;

/* ---- the text -------------------------------------------------------------------------------- */

static clef_status encode_file(work *w, const clef_tokenizer *tok, const char *text, size_t n_bytes,
                               clef_error *err)
{
    int32_t *ids = NULL, n = 0;
    clef_status status = clef_tokenizer_encode(tok, text, n_bytes, CLEF_SPECIAL_NONE, &ids, &n, err);
    const int32_t lead = w->score == SCORE_HALF && w->bos >= 0;
    w->ids = status == CLEF_OK ? malloc(((size_t)n + 1) * sizeof *w->ids) : NULL;
    if (status == CLEF_OK && !w->ids)
        status = cli_error(err, CLEF_E_NOMEM, "perplexity: out of host memory");
    if (status == CLEF_OK) {
        w->ids[0] = w->bos;
        if (n)
            memcpy(w->ids + lead, ids, (size_t)n * sizeof *ids);
        w->n_ids = n + lead;
    }
    clef_tokens_free(ids);
    return status;
}

/* Counts the windows of the text. */
static clef_status count_windows(work *w, clef_error *err)
{
    const int32_t n_targets = w->bos >= 0 ? w->n_ids : w->n_ids - 1;
    if (w->score == SCORE_HALF)
        w->n_windows = w->n_ids / w->n_context;
    else
        w->n_windows = n_targets > 0 ? (n_targets - 1) / w->n_context + 1 : 0;
    if (w->n_windows < 1)
        return cli_error(err, CLEF_E_ARG, "%s: %" PRId32 " tokens, expected at least %" PRId32, w->file,
                         w->n_ids,
                         w->score == SCORE_HALF ? w->n_context
                         : w->bos >= 0          ? 1
                                                : 2);
    return CLEF_OK;
}

/* Fills input and target of window k, and returns the number of tokens to feed. */
static int32_t make_window(const work *w, int32_t k)
{
    const int32_t first = k * w->n_context, rest = w->n_ids - first, n_context = w->n_context;
    int32_t n = 0;
    if (w->score == SCORE_HALF) {
        for (; n < n_context; n++) {
            w->input[n] = n == 0 && w->bos >= 0 ? w->bos : w->ids[first + n];
            w->target[n] = n >= n_context / 2 && n + 1 < n_context ? w->ids[first + n + 1] : -1;
        }
    } else if (w->bos >= 0) {
        for (; n < n_context && n < rest; n++) {
            w->input[n] = n == 0 ? w->bos : w->ids[first + n - 1];
            w->target[n] = w->ids[first + n];
        }
    } else {
        for (; n < n_context && n + 1 < rest; n++) {
            w->input[n] = w->ids[first + n];
            w->target[n] = w->ids[first + n + 1];
        }
    }
    return n;
}

/* ---- the model ------------------------------------------------------------------------------- */

static clef_status make_plan(work *w, clef_error *err)
{
    clef_graph *graph = NULL;
    const clef_build_opts build = {.n_context = w->n_context,
                                   .n_batch = w->step,
                                   .n_sequences = 1,
                                   .all_logits = 1,
                                   .kv_type = cli_kv_type(w->model, w->o->kv_type, w->o->compile.exact)};
    const clef_plan_opts opts = {
        .compile = cli_compile_opts(&w->o->compile, &w->progress),
        .weights = clef_model_weight,
        .weights_user = w->model,
        .weights_name = clef_model_weights_name(w->model, NULL),
    };
    clef_status status = clef_model_build(w->model, &build, &graph, err);
    if (status == CLEF_OK)
        status = clef_graph_optimize(graph, NULL, err);
    if (status == CLEF_OK)
        status = cli_devices_open(w->o->device, &w->o->split,
                                  &(clef_device_opts){.notice = cli_say_notice,
                                                      .progress = cli_progress_step,
                                                      .progress_user = &w->progress},
                                  &w->device, err);
    if (status == CLEF_OK)
        status = clef_plan_create(w->device, graph, &opts, &w->plan, err);
    clef_graph_destroy(graph);
    return status;
}

/* The base's windows hold, unless -c says the same. */
static clef_status open_base(work *w, clef_error *err)
{
    cli_divergence *d = &w->divergence;
    const clef_status status = cli_divergence_open(d, w->o->kl, err);
    if (status == CLEF_OK && w->n_context && w->n_context != d->n_context)
        return cli_error(err, CLEF_E_ARG, "perplexity: -c %" PRId32 ": %s has windows of %" PRId32,
                         w->n_context, w->o->kl, d->n_context);
    w->n_context = d->n_context;
    return status;
}

/* --kl, --save-logits: the ids as the model reads them. */
static clef_status begin_divergence(work *w, clef_error *err)
{
    cli_divergence *d = &w->divergence;
    const size_t n = (size_t)w->n_windows * (size_t)w->n_context;
    int32_t *ids = w->o->kl || w->o->save_logits ? malloc(n * sizeof *ids) : NULL;
    if (!w->o->kl && !w->o->save_logits)
        return CLEF_OK;
    if (!ids)
        return cli_error(err, CLEF_E_NOMEM, "perplexity: out of host memory");
    for (int32_t k = 0; k < w->n_windows; k++) {
        make_window(w, k);
        memcpy(ids + (size_t)k * (size_t)w->n_context, w->input, (size_t)w->n_context * sizeof *ids);
    }
    const clef_status status = w->o->kl ? cli_divergence_check(d, w->n_vocab, w->n_windows, ids, err)
                                        : cli_divergence_create(d, w->o->save_logits, w->n_context,
                                                                w->n_vocab, w->n_windows, ids, err);
    if (w->o->kl)
        w->n_windows = d->n_windows;
    free(ids);
    return status;
}

static clef_status open_all(work *w, const char *path, const char *text, size_t n_bytes, clef_error *err)
{
    clef_status status = clef_model_open(path, &w->model, err);
    if (status != CLEF_OK)
        return status;
    const clef_hparams *hp = clef_model_hparams(w->model);
    const clef_tokenizer *tok = clef_model_tokenizer(w->model, err);
    if (!tok)
        return err->status;
    if (w->o->kl)
        status = open_base(w, err);
    if (status != CLEF_OK)
        return status;
    if (w->n_context > hp->n_context)
        return cli_error(err, CLEF_E_LIMIT, "perplexity: -c %" PRId32 ": the model's context holds %" PRId32,
                         w->n_context, hp->n_context);
    w->n_context = w->n_context                      ? w->n_context
                   : hp->n_context < DEFAULT_CONTEXT ? hp->n_context
                                                     : DEFAULT_CONTEXT;
    w->n_vocab = hp->n_vocab;
    w->step = LOGITS_A_STEP / w->n_vocab; /* so that the logits of a step stay within 64 MiB */
    w->step = w->step > MAX_STEP ? MAX_STEP : w->step < MIN_STEP ? MIN_STEP : w->step;
    w->step = w->step > w->n_context ? w->n_context : w->step;
    w->bos = clef_tokenizer_leading_bos(tok);
    status = encode_file(w, tok, text, n_bytes, err);
    if (status == CLEF_OK)
        status = count_windows(w, err);
    if (status != CLEF_OK)
        return status;
    w->input = malloc((size_t)w->n_context * sizeof *w->input);
    w->target = malloc((size_t)w->n_context * sizeof *w->target);
    w->logits = malloc((size_t)w->step * (size_t)w->n_vocab * sizeof *w->logits);
    w->nats = calloc((size_t)w->n_windows * (size_t)w->n_context, sizeof *w->nats);
    if (!w->input || !w->target || !w->logits || !w->nats)
        return cli_error(err, CLEF_E_NOMEM, "perplexity: out of host memory");
    status = begin_divergence(w, err);
    return status == CLEF_OK ? make_plan(w, err) : status;
}

static void close_all(work *w)
{
    cli_progress_finish(&w->progress);
    clef_plan_destroy(w->plan);
    clef_device_close(w->device);
    cli_progress_finish(&w->progress);
    clef_model_close(w->model);
    cli_divergence_close(&w->divergence);
    free(w->ids);
    free(w->input);
    free(w->target);
    free(w->logits);
    free(w->nats);
}

/* ---- scoring --------------------------------------------------------------------------------- */

/* -log softmax(x)[target], in double. */
static double negative_log(const float *x, int32_t n, int32_t target)
{
    double sum = 0;
    float most = x[0];
    for (int32_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)most);
    return log(sum) + (double)most - (double)x[target];
}

/* Scores tokens `at` to `at + n` of the window. */
static clef_status score_step(work *w, int32_t at, int32_t n, clef_error *err)
{
    clef_plan *p = w->plan;
    int32_t visible = (at + n + VISIBLE_STEP - 1) / VISIBLE_STEP * VISIBLE_STEP;
    visible = visible > w->n_context ? w->n_context : visible;
    clef_status status = clef_plan_bind(p, clef_plan_symbol(p, "T"), n, err);
    if (status == CLEF_OK)
        status = clef_plan_bind(p, clef_plan_symbol(p, "S"), visible, err);
    if (status == CLEF_OK)
        status = clef_plan_write(p, clef_plan_input(p, "input_ids"), w->input + at,
                                 (size_t)n * sizeof *w->input, err);
    if (status == CLEF_OK)
        status = clef_plan_write(p, clef_plan_input(p, "pos"), &at, sizeof at, err);
    if (status == CLEF_OK)
        status = clef_plan_run(p, err);
    if (status == CLEF_OK)
        status = clef_plan_read(p, clef_plan_output(p, "logits"), w->logits,
                                (size_t)n * (size_t)w->n_vocab * sizeof *w->logits, err);
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        if (w->target[at + i] < 0)
            continue;
        const double nats =
            negative_log(w->logits + (size_t)i * (size_t)w->n_vocab, w->n_vocab, w->target[at + i]);
        if (!isfinite(nats))
            status = cli_error(err, CLEF_E_NOT_FINITE,
                               "perplexity: the logits after %" PRId32
                               " tokens of a window give a token -log p %g, expected a finite number; clef "
                               "compare --stats finds the first value that is not finite",
                               at + i + 1, nats);
        if (status == CLEF_OK && w->divergence.file)
            status = cli_divergence_token(&w->divergence, w->logits + (size_t)i * (size_t)w->n_vocab,
                                          w->target[at + i], err);
        w->nats[w->n_scored++] = nats;
    }
    return status;
}

static clef_status score_window(work *w, int32_t k, int32_t n, clef_error *err)
{
    clef_status status = clef_plan_reset(w->plan, err);
    for (int32_t at = 0; at < n && status == CLEF_OK; at += w->step) {
        status = score_step(w, at, n - at < w->step ? n - at : w->step, err);
        if (status == CLEF_OK &&
            cli_progress_step(&w->progress, "windows", (uint64_t)k, (uint64_t)w->n_windows))
            status = cli_error(err, CLEF_E_CANCELLED,
                               "perplexity: interrupted at window %" PRId32 " of %" PRId32, k, w->n_windows);
    }
    return status;
}

/* Puts together what the ranks scored: in the text's order, so that sums do not depend on their number. */
static clef_status gather_nats(work *w, clef_error *err)
{
    enum { VALUES_AT_ONCE = 1 << 18 };
    clef_status status = CLEF_OK;
    for (int64_t at = 0; at < w->n_scored && status == CLEF_OK; at += VALUES_AT_ONCE) {
        const int64_t rest = w->n_scored - at;
        status = clef_ranks_sum(w->ranks, w->nats + at,
                                rest < VALUES_AT_ONCE ? (int32_t)rest : (int32_t)VALUES_AT_ONCE, err);
    }
    return status;
}

static clef_status score_text(work *w, clef_error *err)
{
    clef_status status = CLEF_OK;
    const double start = cli_terminal_seconds();
    for (int32_t k = 0; k < w->n_windows && status == CLEF_OK; k++) {
        const int32_t n = make_window(w, k);
        if (w->ranks && k % w->n_ranks != w->rank)
            for (int32_t i = 0; i < n; i++)
                w->n_scored += w->target[i] >= 0;
        else
            status = score_window(w, k, n, err);
    }
    if (status == CLEF_OK && w->ranks)
        status = gather_nats(w, err);
    w->seconds = cli_terminal_seconds() - start;
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_result(work *w)
{
    double sum = 0, sum_squares = 0;
    for (int64_t i = 0; i < w->n_scored; i++) {
        sum += w->nats[i];
        sum_squares += w->nats[i] * w->nats[i];
    }
    const double n = (double)w->n_scored, nats = sum / n, variance = sum_squares / n - nats * nats;
    const double nats_error = n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0, value = exp(nats);
    if (!w->o->json) {
        printf("perplexity %.4f ± %.4f, %.5f ± %.5f nats/token\n", value, value * nats_error, nats,
               nats_error);
        printf("%" PRId64 " tokens scored (%s) in %" PRId32 " windows of %" PRId32 ", %.2f s\n", w->n_scored,
               score_names[w->score], w->n_windows, w->n_context, w->seconds);
        if (w->o->kl)
            cli_divergence_print(&w->divergence, nats);
        return;
    }
    int32_t m = 0;
    putchar('{');
    cli_json_member_text(stdout, &m, "what", "perplexity");
    cli_json_member_text(stdout, &m, "model", clef_model_path(w->model));
    cli_json_member_number(stdout, &m, "value", value);
    cli_json_member_text(stdout, &m, "unit", "ppl");
    cli_json_member_number(stdout, &m, "error", value * nats_error);
    cli_json_member_number(stdout, &m, "nats_per_token", nats);
    cli_json_member_number(stdout, &m, "tokens", n);
    cli_json_member_number(stdout, &m, "windows", w->n_windows);
    cli_json_member_number(stdout, &m, "context", w->n_context);
    cli_json_member_text(stdout, &m, "score", score_names[w->score]);
    cli_json_member_number(stdout, &m, "seconds", w->seconds);
    if (w->o->kl)
        cli_divergence_json(&w->divergence, nats, &m, stdout);
    puts("}");
}

static clef_status draw_curve(const work *w, clef_error *err)
{
    float *nats = malloc((size_t)w->n_scored * sizeof *nats);
    if (!nats)
        return cli_error(err, CLEF_E_NOMEM, "perplexity: out of host memory");
    for (int64_t i = 0; i < w->n_scored; i++)
        nats[i] = (float)w->nats[i];
    const clef_status status =
        cli_output(w->o->curve, cli_curve_svg, &(cli_curve){w->file, nats, w->n_scored}, err);
    free(nats);
    return status;
}

static int check_dp(const work *w)
{
    if (strcmp(w->file, "-") == 0) /* mpirun gives stdin to rank 0 alone */
        return cli_fail(CLI_USAGE, "perplexity: --dp: expected a FILE that all ranks can read, got stdin");
    if (w->o->kl || w->o->save_logits)
        return cli_fail(CLI_USAGE,
                        "perplexity: --kl and --save-logits need all of the text, so there is no --dp");
    if (w->o->split.width || w->o->split.stages)
        return cli_fail(CLI_USAGE,
                        "perplexity: --dp gives each rank the whole model, so there is no --tp or --pp");
    return CLI_GO_ON;
}

static int join_ranks(work *w)
{
    clef_ranks_info info;
    const int rc = cli_ranks_join_apart("perplexity", w->o->dp, &w->ranks);
    if (rc != CLI_GO_ON || !w->ranks)
        return rc;
    clef_ranks_describe(w->ranks, &info);
    w->rank = info.rank;
    w->n_ranks = info.n;
    return cli_ranks_agree(check_dp(w));
}

/* Each rank has opened and read all by itself, and knows a code of its own. */
static int agree(const work *w, int rc)
{
    return w->ranks ? cli_ranks_agree(rc) : rc;
}

/* Ranks with another text or model would score something else. */
static int compare_ranks(const work *w)
{
    char line[1024];
    const uint64_t hash = clef__hash(CLEF__HASH_START, w->ids, (size_t)w->n_ids * sizeof *w->ids);
    const char *model = clef_model_weights_name(w->model, NULL);
    snprintf(line, sizeof line, "%" PRId32 " tokens (%016" PRIx64 "), model %.*s", w->n_ids, hash,
             (int)(model ? strcspn(model, "\n") : 0), model ? model : "");
    return cli_ranks_compare(line);
}

static int perplexity_run(const void *options, int32_t n_args, char **args)
{
    const perplexity_options *o = options;
    clef_error err = {0};
    work w = {
        .o = o, .n_context = o->n_context, .score = o->kl || o->save_logits ? SCORE_HALF : (score)o->score};
    char *text = NULL;
    size_t n_bytes = 0;
    if (n_args < 1)
        return cli_fail(CLI_USAGE, "perplexity: expected [MODEL] FILE, no FILE was given");
    w.file = args[n_args - 1];
    const char *path = cli_model_path("perplexity", n_args - 1, args, o->model);
    if (!path)
        return n_args > 1 && o->model ? CLI_USAGE : CLI_FAILED;
    if (o->kl && o->save_logits)
        return cli_fail(CLI_USAGE, "perplexity: expected --kl or --save-logits, not both");
    int rc = o->dp ? join_ranks(&w) : CLI_GO_ON;
    if (rc == CLI_GO_ON)
        rc = agree(&w, cli_read_file(w.file, &text, &n_bytes));
    if (rc != CLI_GO_ON)
        return rc;
    cli_terminal_catch_interrupt();
    cli_progress_init(&w.progress, o->quiet || w.rank > 0);
    clef_status status = open_all(&w, path, text, n_bytes, &err);
    free(text);
    rc = agree(&w, status == CLEF_OK ? CLI_GO_ON : cli_report(&err));
    if (rc == CLI_GO_ON && w.ranks)
        rc = compare_ranks(&w);
    if (rc == CLI_GO_ON)
        status = score_text(&w, &err);
    if (rc == CLI_GO_ON && status == CLEF_OK && w.divergence.file)
        status = cli_divergence_finish(&w.divergence, &err);
    cli_progress_finish(&w.progress);
    if (rc == CLI_GO_ON && status == CLEF_OK && o->curve && w.rank == 0)
        status = draw_curve(&w, &err);
    if (rc == CLI_GO_ON && status == CLEF_OK && w.rank == 0)
        print_result(&w);
    close_all(&w);
    return rc != CLI_GO_ON ? rc : status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_perplexity = {
    .name = "perplexity",
    .usage = "[MODEL] FILE [FLAGS]",
    .summary = "Measure how well a model predicts a text",
    .first = "model ctx-size score curve save-logits kl json device exact kv-type quiet",
    .notes =
        "FILE is UTF-8 text; - is stdin. It is cut into windows of CTX tokens, and each is read on its "
        "own, after BOS if the model's tokenizer adds one.\n\n--score all counts every token once, "
        "except the first one where there is no BOS. --score half counts only the second half of each "
        "whole window, as llama.cpp's perplexity does. The output is e to the mean of -log p, and that "
        "mean; ± is the standard error.\n\n--save-logits and --kl compare two models: `clef perplexity "
        "f16.gguf FILE --save-logits base` and then `clef perplexity q4.gguf FILE --kl base`. The file is "
        "that of llama.cpp's --kl-divergence-base.\n",
    .options = perplexity_option_table,
    .max_args = 2,
    .defaults = &perplexity_defaults,
    .options_bytes = sizeof perplexity_defaults,
    .run = perplexity_run,
};

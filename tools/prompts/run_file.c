/* clef run --max-seqs. */
#include "tools/prompts/run_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/adapters.h"
#include "tools/cli/json.h"
#include "tools/cli/progress.h"
#include "tools/cli/terminal.h"
#include "tools/prompts/answers.h"

enum { MAX_DEFAULT_CONTEXT = 4096 };

/** State of the command; close_all() accepts it in any state. */
typedef struct work {
    const run_file_opts *o;
    prompt_lines lines;
    answers answers; /* one for each line */
    clef_model *model, *draft;
    const clef_hparams *hparams;
    const clef_tokenizer *tokenizer;
    clef_device *device;
    clef_batch *batch;
    cli_adapters adapters;
    int32_t is_seq2seq, n_context, n_start, longest; /* longest: tokens of a prompt */
    int32_t start[START_TOKENS];                     /* what an encoder-decoder's text begins with */
    int32_t *waiting, n_waiting, max_waiting;        /* lines that the batch has */
    int32_t n_begun, n_done, n_failed;
    cli_progress progress;
    char what[64];
    double start_seconds;
    cli_guide guide;
    cli_sampler sampling; /* that of lines which say nothing else */
} work;

/* ---- prompts --------------------------------------------------------------------------------- */

/* What clef run -p makes of the prompt. */
static int encode_line(work *w, const prompt_line *line, answer *a)
{
    clef_error err = {0};
    const clef_special special = w->o->no_special ? CLEF_SPECIAL_NONE : CLEF_SPECIAL_ADD;
    if (clef_tokenizer_encode(w->tokenizer, line->text, line->n_bytes, special, &a->prompt, &a->n_prompt,
                              &err) != CLEF_OK)
        return cli_report(&err);
    if (a->n_prompt)
        return CLI_GO_ON;
    const int32_t of_tokenizer = clef_tokenizer_bos(w->tokenizer);
    a->bos = of_tokenizer >= 0 ? of_tokenizer : w->hparams->bos;
    a->n_prompt = 1;
    if (a->bos < 0 || a->bos >= w->hparams->n_vocab)
        return cli_fail(CLI_FAILED,
                        "%s: line %" PRId32 ": the prompt is empty, and %s has no BOS token to begin with",
                        w->lines.path, line->number, clef_model_path(w->model));
    return CLI_GO_ON;
}

static int encode_lines(work *w)
{
    int rc = answers_create(&w->answers, w->lines.n, w->tokenizer, w->is_seq2seq);
    for (int32_t i = 0; rc == CLI_GO_ON && i < w->lines.n; i++) {
        answer *a = &w->answers.items[i];
        rc = encode_line(w, &w->lines.items[i], a);
        if (rc == CLI_GO_ON)
            rc = answer_set_stops(&w->answers, a, &w->lines.items[i].stops);
        w->longest = a->n_prompt > w->longest ? a->n_prompt : w->longest;
    }
    return rc;
}

/* The ids that an encoder-decoder's text starts with. */
static int find_start(work *w)
{
    const clef_hparams *hp = w->hparams;
    w->is_seq2seq = hp->n_decoder_layers > 0;
    if (w->o->target && !w->is_seq2seq)
        return cli_fail(CLI_USAGE, "run: --target needs an encoder-decoder, %s is %s",
                        clef_model_path(w->model), hp->arch);
    if (w->is_seq2seq && hp->decoder_start >= 0)
        w->start[w->n_start++] = hp->decoder_start;
    if (w->is_seq2seq && hp->forced_bos >= 0 && !(w->o->target && w->n_start))
        w->start[w->n_start++] = hp->forced_bos;
    const int32_t target = w->o->target ? clef_tokenizer_find(w->tokenizer, w->o->target) : -1;
    if (w->o->target && (target < 0 || target >= hp->n_vocab))
        return cli_fail(CLI_FAILED, "run: --target: %s has no token '%.80s'", clef_model_path(w->model),
                        w->o->target);
    if (target >= 0)
        w->start[w->n_start++] = target;
    return CLI_GO_ON;
}

/* The context of an encoder-decoder is the target's, as long as the longest line needs. */
static int32_t target_context(const work *w, int32_t most)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->lines.n; i++) {
        const int32_t wanted = w->lines.items[i].n_predict;
        const int32_t needed = wanted >= 0 && wanted < most - START_TOKENS ? wanted + START_TOKENS : most;
        n = needed > n ? needed : n;
    }
    return n;
}

static void choose_context(work *w)
{
    const int32_t asked = w->o->batch.n_context, own = w->hparams->n_context;
    const int32_t most = own > 0 && own < MAX_DEFAULT_CONTEXT ? own : MAX_DEFAULT_CONTEXT;
    w->n_context = asked > 0               ? asked
                   : asked == 0 && own > 0 ? own
                   : w->is_seq2seq         ? target_context(w, most)
                                           : most;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A line that names no adapter uses the one that there is; of several none. */
static int32_t adapter_of(const work *w, const prompt_line *line)
{
    if (!line->lora)
        return w->adapters.n == 1;
    return line->lora[0] ? cli_adapters_find(&w->adapters, line->lora) : 0;
}

static int check_adapters(const work *w)
{
    char names[400];
    for (int32_t i = 0; i < w->lines.n; i++) {
        const prompt_line *line = &w->lines.items[i];
        if (!line->lora || !line->lora[0] || adapter_of(w, line))
            continue;
        cli_adapters_text(&w->adapters, names, sizeof names);
        return cli_fail(CLI_FAILED,
                        "%s: line %" PRId32
                        ": no adapter is named '%.63s'; adapters: %s (--lora NAME=PATH adds one)",
                        w->lines.path, line->number, line->lora, names);
    }
    return CLI_GO_ON;
}

/* All that can fail before a device does any work. */
static int prepare(work *w)
{
    clef_error err = {0};
    prompt_line defaults = w->o->defaults;
    if (clef_model_open(w->o->model, &w->model, &err) != CLEF_OK ||
        (w->o->draft && clef_model_open(w->o->draft, &w->draft, &err) != CLEF_OK))
        return cli_report(&err);
    int rc = cli_sampler_make(w->o->sampling, "run", w->model, &w->sampling);
    defaults.sampling = w->sampling.opts;
    if (rc == CLI_GO_ON)
        rc = cli_guide_open(w->o->constraint, "run", w->model, &w->guide);
    if (rc == CLI_GO_ON)
        rc = prompt_lines_read(w->o->file, &defaults, w->o->own_seeds, &w->lines);
    if (rc != CLI_GO_ON)
        return rc;
    if (cli_adapters_open_all(&w->o->loras, w->model, &w->adapters, &err) != CLEF_OK)
        return cli_report(&err);
    if (w->o->verbose)
        cli_say_unread(w->model);
    w->hparams = clef_model_hparams(w->model);
    w->tokenizer = clef_model_tokenizer(w->model, &err);
    if (!w->tokenizer)
        return cli_report(&err);
    rc = check_adapters(w);
    if (rc == CLI_GO_ON)
        rc = find_start(w);
    if (rc == CLI_GO_ON)
        rc = encode_lines(w);
    if (rc == CLI_GO_ON)
        choose_context(w);
    return rc;
}

/* Says what is less than a user may expect. */
static void tell_limits(const work *w)
{
    const clef_batch_stats s = clef_batch_describe(w->batch);
    const int64_t page = s.n_pages ? s.kv_tokens / s.n_pages : 1, n = w->o->batch.max_sequences,
                  needed = (w->n_context + page - 1) / page * page * n;
    const char *off = clef_batch_no_prefix_cache(w->batch);
    if (s.kv_tokens < needed)
        fprintf(stderr,
                "clef: KV cache: %" PRId64 " sequences of %" PRId32 " need %" PRId64 " positions, %" PRId64
                " fit (%s)\n",
                n, w->n_context, needed, s.kv_tokens, w->o->batch.kv_tokens ? "--kv-tokens" : "memory");
    if (off)
        fprintf(stderr, "clef: prefix cache: off, %s\n", off);
    if (clef_batch_no_speculation(w->batch))
        fprintf(stderr, "clef: speculation: off, %s\n", clef_batch_no_speculation(w->batch));
}

static int open_batch(work *w)
{
    clef_error err = {0};
    const run_file_opts *o = w->o;
    const clef_device_opts device = {.notice = cli_say_notice,
                                     .n_threads = o->place.n_threads,
                                     .pin = o->pin,
                                     .progress = cli_progress_step,
                                     .progress_user = &w->progress};
    if (cli_devices_open(o->place.device, &o->place.split, &device, &w->device, &err) != CLEF_OK)
        return cli_report(&err);
    if (!o->place.quiet) {
        cli_say_device(w->device);
        cli_sampler_tell(&w->sampling, 0);
    }
    clef_batch_opts opts = o->batch;
    opts.n_context = w->n_context;
    opts.loras = w->adapters.set;
    opts.kv_type = cli_kv_type(w->model, o->kv_type, o->batch.compile.exact);
    opts.n_source = w->longest < w->hparams->n_context ? w->longest : w->hparams->n_context;
    opts.compile = cli_compile_opts(&o->batch.compile, &w->progress);
    opts.draft = w->draft;
    if (clef_batch_create(w->device, w->model, &opts, &w->batch, &err) != CLEF_OK)
        return cli_report(&err);
    cli_progress_finish(&w->progress);
    if (!o->place.quiet)
        tell_limits(w);
    w->max_waiting = 4 * opts.max_sequences;
    w->waiting = malloc((size_t)w->max_waiting * sizeof *w->waiting);
    return w->waiting ? CLI_GO_ON : cli_fail(CLI_FAILED, "run: out of host memory");
}

/* ---- running --------------------------------------------------------------------------------- */

/* The most tokens of a line; 0: until the context is full, where -n would go beyond it. */
static int32_t most_tokens(const work *w, const prompt_line *line, int32_t n_prompt)
{
    const int32_t n = line->n_predict;
    return n < 0 || n > w->n_context - n_prompt ? 0 : n;
}

static int add_line(work *w, int32_t i)
{
    const prompt_line *line = &w->lines.items[i];
    answer *a = &w->answers.items[i];
    clef_error err = {0};
    const int32_t *prompt = a->prompt ? a->prompt : &a->bos, eos = clef_tokenizer_eos(w->tokenizer);
    const clef_guide guide = {w->guide.constraint, w->guide.trie, w->o->constrain_after};
    const clef_request request = {
        .ids = w->is_seq2seq ? w->start : prompt,
        .n = w->is_seq2seq ? w->n_start : a->n_prompt,
        .source = w->is_seq2seq ? prompt : NULL,
        .n_source = w->is_seq2seq ? a->n_prompt : 0,
        .n_max = most_tokens(w, line, w->is_seq2seq ? w->n_start : a->n_prompt),
        .ignore_eos = w->o->ignore_eos,
        .stops = &eos,
        .n_stops = eos >= 0 && !w->o->ignore_eos,
        .sampling = line->sampling,
        .salt = line->salt,
        .lora = adapter_of(w, line),
        .guide = guide.constraint ? &guide : NULL,
    };
    if (line->n_predict == 0) {
        a->finish = CLEF_FINISH_LENGTH;
        w->n_done++;
        return CLI_GO_ON;
    }
    const clef_status status = clef_batch_add(w->batch, &request, &a->sequence, &err);
    if (status == CLEF_OK)
        w->waiting[w->n_waiting++] = i;
    else if (status != CLEF_E_ARG && status != CLEF_E_LIMIT)
        return cli_report(&err);
    else {
        w->n_failed++;
        w->n_done++;
        return answer_fail(a, err.text);
    }
    return CLI_GO_ON;
}

/* Adds lines while the batch has few that wait. */
static int add_lines(work *w)
{
    int rc = CLI_GO_ON;
    while (rc == CLI_GO_ON && w->n_begun < w->lines.n && w->n_waiting < w->max_waiting)
        rc = add_line(w, w->n_begun++);
    return rc;
}

/* -1: its answer is complete. */
static int32_t place_of(const work *w, int64_t sequence)
{
    for (int32_t k = 0; k < w->n_waiting; k++)
        if (w->answers.items[w->waiting[k]].sequence == sequence)
            return k;
    return -1;
}

/* Ends a sequence at a stop string. The batch may have ended it already. */
static int cancel(work *w, int64_t sequence)
{
    clef_error err = {0};
    const clef_status s = clef_batch_cancel(w->batch, sequence, &err);
    return s == CLEF_OK || s == CLEF_E_NOT_FOUND ? CLI_GO_ON : cli_report(&err);
}

static int take_token(work *w, const clef_batch_token *t)
{
    const int32_t k = place_of(w, t->sequence);
    if (k < 0) /* a later token of the step in which its stop string was found */
        return CLI_GO_ON;
    answer *a = &w->answers.items[w->waiting[k]];
    const int is_text = t->finish == CLEF_FINISH_NONE || t->finish == CLEF_FINISH_LENGTH;
    int rc = is_text ? answer_push(a, t->id) : CLI_GO_ON;
    const int stops = is_text && answer_stops(a, t->id, &rc);
    if (stops && rc == CLI_GO_ON)
        rc = cancel(w, t->sequence);
    if (!t->finish && !stops)
        return rc;
    a->finish = stops ? CLEF_FINISH_STOP : t->finish;
    if (a->finish == CLEF_FINISH_NOT_FINITE && rc == CLI_GO_ON) {
        w->n_failed++;
        rc = answer_fail(
            a, "the logits are not finite: one is NaN or inf, or all are -inf; clef compare --stats "
               "finds the first value that is not finite");
    }
    a->n_cached = t->n_cached;
    a->n_preemptions = t->n_preemptions;
    w->waiting[k] = w->waiting[--w->n_waiting];
    w->n_done++;
    return rc;
}

/* After Ctrl-C returns CLI_INTERRUPTED. */
static int show_progress(work *w)
{
    const double now = cli_terminal_seconds();
    if (now >= w->progress.next) {
        const clef_batch_stats s = clef_batch_describe(w->batch);
        const double rate = (double)s.n_generated / (now - w->start_seconds);
        snprintf(w->what, sizeof w->what, "%" PRId32 "/%" PRId32 ", %.0f tok/s", w->n_done, w->lines.n, rate);
    }
    return cli_progress_step(&w->progress, w->what, (uint64_t)w->n_done, (uint64_t)w->lines.n)
               ? CLI_INTERRUPTED
               : CLI_GO_ON;
}

static int run_step(work *w)
{
    enum { N_TOKENS = 64 };
    clef_batch_token tokens[N_TOKENS];
    clef_error err = {0};
    int32_t n_rows, n;
    if (clef_batch_step(w->batch, &n_rows, &err) != CLEF_OK)
        return cli_report(&err);
    int rc = n_rows || !w->n_waiting
                 ? CLI_GO_ON
                 : cli_fail(CLI_FAILED, "run: %" PRId32 " prompts wait, and none can run", w->n_waiting);
    while (rc == CLI_GO_ON && (n = clef_batch_take(w->batch, tokens, N_TOKENS)) > 0)
        for (int32_t i = 0; i < n && rc == CLI_GO_ON; i++)
            rc = take_token(w, &tokens[i]);
    return rc;
}

static int run_lines(work *w)
{
    int rc = CLI_GO_ON;
    w->start_seconds = cli_terminal_seconds();
    while (rc == CLI_GO_ON && w->n_done < w->lines.n) {
        rc = add_lines(w);
        if (rc == CLI_GO_ON && w->n_waiting)
            rc = run_step(w);
        if (rc == CLI_GO_ON)
            rc = answers_write(&w->answers, &w->lines, 0);
        if (rc == CLI_GO_ON && w->n_done < w->lines.n)
            rc = show_progress(w);
    }
    return rc;
}

static double tokens_per_second(int64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static void print_speculation(const clef_batch_stats *s)
{
    fprintf(stderr,
            "clef: speculation: %" PRId64 " draft tokens, %" PRId64 " accepted (%.0f %%), in %" PRId64
            " of %" PRId64 " steps; left out in %" PRId64 " where it would not have paid\n",
            s->n_drafted, s->n_accepted,
            s->n_drafted ? 100.0 * (double)s->n_accepted / (double)s->n_drafted : 0, s->n_spec_steps,
            s->n_steps, s->n_spec_off);
}

static void print_statistics(const work *w)
{
    const clef_batch_stats s = clef_batch_describe(w->batch);
    const clef_plan_stats plan = clef_plan_describe(clef_batch_plan(w->batch, 0));
    const double seconds = cli_terminal_seconds() - w->start_seconds;
    char state[24];
    fprintf(stderr,
            "clef: %" PRId32 " of %" PRId32 " prompts in %.3f s; prompt tokens %" PRId64 ", of these %" PRId64
            " from the prefix cache\n",
            w->n_done - w->n_failed, w->lines.n, seconds, s.n_prompt, s.n_cached);
    fprintf(stderr,
            "clef: generated %" PRId64 " tokens, %.1f tokens/s; %" PRId64
            " steps, %.1f rows each; preempted %" PRId64 " times\n",
            s.n_generated, tokens_per_second(s.n_generated, seconds), s.n_steps,
            s.n_steps ? (double)s.n_rows / (double)s.n_steps : 0, s.n_preemptions);
    if ((w->draft || w->o->batch.ngram_max || w->o->batch.mtp) && !clef_batch_no_speculation(w->batch))
        print_speculation(&s);
    fprintf(stderr, "clef: KV cache and states %s, %" PRId64 " positions; seed %" PRIu64 "%s\n",
            cli_bytes_text(plan.state_bytes, state), s.kv_tokens, w->sampling.opts.seed,
            w->o->own_seeds ? " and an index" : "");
}

static void close_all(work *w)
{
    cli_progress_finish(&w->progress);
    clef_batch_destroy(w->batch);
    cli_guide_finish(&w->guide);
    cli_adapters_finish(&w->adapters);
    clef_device_close(w->device);
    answers_finish(&w->answers);
    clef_model_close(w->draft);
    clef_model_close(w->model);
    prompt_lines_finish(&w->lines);
    cli_sampler_finish(&w->sampling);
    free(w->waiting);
}

int cli_run_file(const run_file_opts *o)
{
    work w = {.o = o};
    cli_terminal_catch_interrupt();
    cli_progress_init(&w.progress, o->place.quiet);
    int rc = prepare(&w);
    if (rc == CLI_GO_ON)
        rc = open_batch(&w);
    if (rc == CLI_GO_ON) {
        rc = run_lines(&w);
        cli_progress_finish(&w.progress);
        const int written = w.answers.broken ? CLI_GO_ON : answers_write(&w.answers, &w.lines, 1);
        rc = rc == CLI_GO_ON ? written : rc;
        if (!o->place.quiet)
            print_statistics(&w);
    }
    rc = rc != CLI_GO_ON ? rc : w.n_failed ? CLI_FAILED : CLI_OK;
    close_all(&w);
    return rc;
}

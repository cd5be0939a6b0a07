/* The text of clef run: what it feeds, and what it prints. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/terminal.h"
#include "tools/prompts/run.h"

/* Writes to stdout at once. When its reader has gone, the run ends silently. */
static int write_text(const char *text, size_t n)
{
    errno = 0;
    if (fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0)
        return CLI_GO_ON;
    return errno == EPIPE ? CLI_FAILED
                          : cli_fail(CLI_FAILED, "run: cannot write to stdout: %s", strerror(errno));
}

/* Writes what stop strings let through; nothing after one. */
static int write_piece(run *r, const char *text, size_t n)
{
    clef_error err = {0};
    const char *piece = text;
    if (r->stop && clef_stop_push(r->stop, text, n, &piece, &n, &err) != CLEF_OK)
        return cli_report(&err);
    return n ? write_text(piece, n) : CLI_GO_ON;
}

static int put_token(run *r, int32_t id)
{
    char text[CLEF_MAX_PIECE + 16];
    size_t n = 0;
    clef_error err = {0};
    if (r->o->print_ids) {
        n = (size_t)snprintf(text, sizeof text, "%s%" PRId32, r->n_new ? "," : "", id);
        return write_text(text, n);
    }
    if (clef_stream_push(&r->stream, id, text, sizeof text, &n, &err) != CLEF_OK)
        return cli_report(&err);
    return write_piece(r, text, n);
}

/* The prompt goes through the stream too, so that the generated text continues it: with its leading space,
 * and its incomplete characters. */
int cli_run_prompt(run *r)
{
    char text[CLEF_MAX_PIECE + 16];
    clef_error err = {0};
    r->stream.tok = r->tokenizer;
    int rc = CLI_GO_ON;
    if (r->is_seq2seq)
        return CLI_GO_ON; /* its text is a new one */
    for (int32_t i = 0; rc == CLI_GO_ON && r->tokenizer && !r->o->print_ids && i < r->n_ids; i++) {
        size_t n = 0;
        if (clef_stream_push(&r->stream, r->ids[i], text, sizeof text, &n, &err) != CLEF_OK)
            return cli_report(&err);
        if (r->o->echo && n)
            rc = write_text(text, n);
    }
    return rc;
}

static int ends_text(const run *r, int32_t id)
{
    const int32_t of_tokenizer = r->tokenizer ? clef_tokenizer_eos(r->tokenizer) : -1;
    if (r->o->ignore_eos)
        return 0;
    if (id == r->hparams->eos || id == of_tokenizer)
        return 1;
    for (int32_t i = 0; i < r->hparams->n_eos_more; i++)
        if (id == r->hparams->eos_more[i])
            return 1;
    return 0;
}

static int keep_ids(run *r, const int32_t *ids, int32_t n)
{
    if (!r->o->inside.taps.n && !r->o->inside.stats)
        return CLI_GO_ON;
    int32_t *kept = realloc(r->kept, ((size_t)r->n_kept + (size_t)n + 1) * sizeof *kept);
    if (!kept)
        return cli_fail(CLI_FAILED, "run: out of host memory");
    if (n)
        memcpy(kept + r->n_kept, ids, (size_t)n * sizeof *ids);
    r->kept = kept;
    r->n_kept += n;
    return CLI_GO_ON;
}

/* Traces the step that clef_session_next() enqueued after the token that it returned; there is none at the
 * end of the text. */
static clef_status trace_token(run *r, double began, clef_error *err)
{
    const int ahead = r->session && clef_session_n_past(r->session) < clef_session_n_context(r->session) &&
                      (r->o->n_predict < 0 || r->n_new + 1 < r->o->n_predict);
    return ahead ? cli_trace_step(&r->trace, r->session, "token", began, err) : CLEF_OK;
}

static clef_status next_token(run *r, int32_t *id, clef_error *err)
{
    return r->session ? clef_session_next(r->session, id, err) : cli_teller_next(&r->teller, id, err);
}

/* Positions in the cache. */
static int32_t n_past(const run *r)
{
    return r->session ? clef_session_n_past(r->session)
                      : r->teller.last.n_prompt + r->teller.last.n_generated;
}

/* Prints the tokens; the device works on the next one meanwhile. */
int cli_run_tokens(run *r)
{
    clef_error err = {0};
    int rc = CLI_GO_ON;
    while (rc == CLI_GO_ON && r->n_new != r->o->n_predict) {
        int32_t id;
        if (r->n_new && n_past(r) >= r->n_context) {
            r->ended = "the context is full";
            break;
        }
        const double began = cli_terminal_seconds();
        if (next_token(r, &id, &err) != CLEF_OK || trace_token(r, began, &err) != CLEF_OK) {
            r->not_finite = err.status == CLEF_E_NOT_FINITE;
            return cli_report(&err);
        }
        if (r->fed == 0) { /* with the first token the prompt is done */
            r->fed = cli_terminal_seconds();
            cli_progress_finish(&r->progress);
            rc = cli_run_prompt(r);
        }
        if (rc == CLI_GO_ON && ends_text(r, id)) {
            r->ended = "the model ended its text";
            break;
        }
        if (rc == CLI_GO_ON)
            rc = put_token(r, id);
        if (rc == CLI_GO_ON)
            rc = keep_ids(r, &id, 1);
        if (rc != CLI_GO_ON)
            break;
        if (r->n_new++ == 0)
            r->first_seconds = cli_terminal_seconds() - r->start;
        if (r->stop && clef_stop_found(r->stop) >= 0) {
            r->ended = "a stop string ended the text";
            break;
        }
        if (cli_terminal_interrupted() && r->n_new != r->o->n_predict) {
            rc = CLI_INTERRUPTED;
            r->ended = "interrupted";
        }
    }
    return rc;
}

/* The ids to continue from: the prompt, or what an encoder-decoder's text begins with. */
static int32_t first_ids(const run *r, int32_t start[START_TOKENS], const int32_t **out)
{
    *out = r->is_seq2seq ? start : r->ids;
    if (!r->is_seq2seq)
        return r->n_ids;
    int32_t n = clef_session_start(r->session, start);
    if (r->target >= 0 && n > 1) /* replaces the token that the model forces */
        n = 1;
    if (r->target >= 0)
        start[n++] = r->target;
    return n;
}

static int put_hypothesis(run *r, const clef_hypothesis *h)
{
    clef_error err = {0};
    char *text = NULL;
    size_t n_bytes = 0;
    int rc = CLI_GO_ON;
    for (int32_t i = 0; rc == CLI_GO_ON && r->o->print_ids && i < h->n; i++) {
        char id[16];
        rc = write_text(id, (size_t)snprintf(id, sizeof id, "%s%" PRId32, i ? "," : "", h->ids[i]));
    }
    if (r->o->print_ids)
        return rc;
    if (clef_tokenizer_decode(r->tokenizer, h->ids, h->n, &text, &n_bytes, &err) != CLEF_OK)
        return cli_report(&err);
    rc = write_text(text, n_bytes);
    clef_text_free(text);
    return rc;
}

/* The steps of a search are consecutive: each begins when the previous one was reported. */
static clef_status trace_beams(void *user, clef_error *err)
{
    run *r = user;
    const clef_status status = cli_trace_step(
        &r->trace, r->session, r->n_traced++ ? "beams" : "prompt's last step", r->step_began, err);
    r->step_began = cli_terminal_seconds();
    return status;
}

/* The flag's, else the model's, else 1. */
static float length_penalty(const run *r)
{
    double x;
    if (r->o->length_penalty != NOT_GIVEN)
        return r->o->length_penalty;
    return clef_model_sampling(r->model, "length_penalty", &x) ? (float)x : 1;
}

static int32_t early_stopping(const run *r)
{
    double x;
    return !r->o->early_stopping && clef_model_sampling(r->model, "early_stopping", &x)
               ? (int32_t)x
               : r->o->early_stopping;
}

static int search_beams(run *r, const int32_t *ids, int32_t n_ids)
{
    clef_error err = {0};
    clef_hypothesis *best = NULL;
    int32_t n_best = 0;
    const clef_beam_opts opts = {.n_beams = r->o->n_beams,
                                 .length_penalty = length_penalty(r),
                                 .early_stopping = early_stopping(r),
                                 .repeat_penalty = r->sampling.opts.repeat_penalty,
                                 .n_best = r->o->n_best,
                                 .n_max = r->o->n_predict > 0 ? r->o->n_predict : 0,
                                 .ignore_eos = r->o->ignore_eos,
                                 .step = r->o->trace ? trace_beams : NULL,
                                 .step_user = r};
    r->fed = cli_terminal_seconds(); /* feeding is part of the search */
    r->step_began = n_ids <= r->o->n_batch ? r->fed : -1;
    if (clef_session_beams(r->session, ids, n_ids, &opts, &best, &n_best, &err) != CLEF_OK) {
        r->not_finite = err.status == CLEF_E_NOT_FINITE;
        return cli_report(&err);
    }
    cli_progress_finish(&r->progress);
    r->first_seconds = cli_terminal_seconds() - r->start;
    int rc = r->o->echo ? cli_run_prompt(r) : CLI_GO_ON;
    if (rc == CLI_GO_ON && n_best)
        rc = keep_ids(r, best[0].ids, best[0].n);
    for (int32_t i = 0; rc == CLI_GO_ON && i < n_best; i++) {
        rc = i ? write_text("\n", 1) : CLI_GO_ON;
        if (rc == CLI_GO_ON)
            rc = put_hypothesis(r, &best[i]);
        r->n_new = best[i].n > r->n_new ? best[i].n : r->n_new;
        if (!r->o->quiet)
            fprintf(stderr, "%sclef: score %.6g%s\n", cli_terminal_stdout() ? "\n" : "",
                    (double)best[i].score, best[i].ended ? "; the model ended its text" : "");
    }
    clef_hypotheses_free(best, n_best);
    return rc;
}

/* Feeds the prompt, but for what the session holds already, and prints what follows. */
static int sample_text(run *r)
{
    clef_error err = {0};
    const cli_prompt *p = &r->fed_ids;
    const int32_t n_max = r->o->n_predict > 0 ? r->o->n_predict : 0, n = p->n - p->n_kept;
    const double began = n <= r->o->n_batch ? cli_terminal_seconds() : -1;
    if (clef_session_generate(r->session, p->ids + p->n_kept, n, n_max, &r->sampling.opts, &err) != CLEF_OK ||
        cli_trace_step(&r->trace, r->session, "prompt's last step", began, &err) != CLEF_OK)
        return cli_report(&err);
    const int rc = r->o->profile ? cli_profile_step(&r->profile, "the prompt's last step", 0) : CLI_GO_ON;
    if (rc != CLI_GO_ON)
        return rc;
    return r->o->n_predict ? cli_run_tokens(r) : cli_run_prompt(r);
}

int cli_run_text(run *r)
{
    if (!r->session)
        return cli_run_seen(r);
    clef_error err = {0};
    const double begin = cli_terminal_seconds();
    int32_t start[START_TOKENS];
    cli_prompt *p = &r->fed_ids;
    p->n = r->n_start = first_ids(r, start, &p->ids);
    p->source = r->is_seq2seq ? r->ids : NULL;
    p->n_source = r->is_seq2seq ? r->n_ids : 0;
    int rc = keep_ids(r, p->ids, p->n);
    if (rc == CLI_GO_ON && r->o->prompt_cache)
        rc = cli_prompt_cache_load(r->o->prompt_cache, r->session, r->hparams, p);
    if (rc != CLI_GO_ON)
        return rc;
    if (r->is_seq2seq && !p->has_source && clef_session_encode(r->session, r->ids, r->n_ids, &err) != CLEF_OK)
        return cli_report(&err);
    if (!r->o->n_beams)
        rc = sample_text(r);
    else if (r->o->n_predict)
        rc = search_beams(r, p->ids, p->n);
    if (r->fed == 0)
        r->fed = cli_terminal_seconds();
    r->prompt_seconds = r->fed - begin;
    r->new_seconds = cli_terminal_seconds() - r->fed;
    p->ids = NULL; /* they may have been in `start` */
    return rc;
}

int cli_run_end(run *r)
{
    char text[CLEF_MAX_PIECE];
    size_t n = 0;
    clef_error err = {0};
    if (r->stream.tok && !r->o->print_ids &&
        clef_stream_finish(&r->stream, text, sizeof text, &n, &err) != CLEF_OK)
        return cli_report(&err);
    int rc = write_piece(r, text, n);
    const char *held;
    if (rc == CLI_GO_ON && r->stop && clef_stop_finish(r->stop, &held, &n, &err) != CLEF_OK)
        return cli_report(&err);
    if (rc == CLI_GO_ON && r->stop && n)
        rc = write_text(held, n);
    if (rc == CLI_GO_ON && (r->o->print_ids || cli_terminal_stdout()))
        rc = write_text("\n", 1);
    return rc;
}

static double tokens_per_second(int32_t n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

void cli_run_statistics(const run *r)
{
    const clef_plan_stats s = r->session ? clef_session_describe(r->session)
                                         : clef_plan_describe(clef_batch_plan(r->teller.batch, 0));
    char total[24], weights[24], mapped[24], state[24], rest[24];
    const uint64_t other = s.arena_bytes + s.scratch_bytes + s.io_bytes + s.fused_bytes;
    const uint64_t all = s.weight_bytes + s.mapped_bytes + s.state_bytes + other;
    const int32_t cached = r->is_seq2seq ? 0 : r->fed_ids.n_kept;
    fprintf(stderr, "clef: prompt %" PRId32 " tokens in %.3f s, %.1f tokens/s; first token after %.2f s\n",
            r->n_ids, r->prompt_seconds, tokens_per_second(r->n_ids - cached, r->prompt_seconds),
            r->first_seconds);
    if (r->o->prompt_cache)
        fprintf(stderr, "clef: prompt cache: %" PRId32 " of %" PRId32 " tokens\n", r->fed_ids.n_kept,
                r->fed_ids.n);
    fprintf(stderr, "clef: generated %" PRId32 " tokens in %.3f s, %.1f tokens/s%s%s\n", r->n_new,
            r->new_seconds, tokens_per_second(r->n_new, r->new_seconds), r->ended ? "; " : "",
            r->ended ? r->ended : "");
    fprintf(stderr, "clef: memory %s: weights %s and %s used in the file, KV cache %s, activations %s\n",
            cli_bytes_text(all, total), cli_bytes_text(s.weight_bytes, weights),
            cli_bytes_text(s.mapped_bytes, mapped), cli_bytes_text(s.state_bytes, state),
            cli_bytes_text(other, rest));
    fprintf(stderr, "clef: kernels %" PRId32 " built, %" PRId32 " from the cache; seed %" PRIu64 "\n",
            s.n_kernels_built, s.n_kernels_cached, r->sampling.opts.seed);
}

/* The steps of a training, and what happens between them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/ranks.h"
#include "train/command/train.h"

/* ---- the line that shows progress ---------------------------------------------------------------- */

typedef struct display {
    double loss;       /* smoothed */
    double validation; /* NaN: none yet */
    double begun, next;
} display;

static void time_text(double seconds, char out[32])
{
    const int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 32, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 32, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
}

static double tokens_per_second(const train_run *r, const display *d)
{
    const double seconds = cli_terminal_seconds() - d->begun;
    return seconds > 0 ? (double)r->n_tokens / seconds : 0;
}

static void show(const train_run *r, display *d, const clef_train_result *result)
{
    const double bar = 0.2, line = 10, now = cli_terminal_seconds();
    const int64_t done = result->step - r->first_step, left = r->n_steps - result->step;
    char text[200], rest[32], validation[32] = "";
    d->loss = done <= 1 ? result->loss : 0.9 * d->loss + 0.1 * result->loss;
    if (r->o->quiet || (now < d->next && left))
        return;
    time_text((now - d->begun) / (double)done * (double)left, rest);
    if (!isnan(d->validation))
        snprintf(validation, sizeof validation, "  validation %.3f", d->validation);
    snprintf(text, sizeof text, "step %" PRId64 "/%" PRId64 "  loss %.3f%s  %.0f tokens/s  %s left",
             result->step, r->n_steps, d->loss, validation, tokens_per_second(r, d), rest);
    if (r->progress.on_terminal)
        cli_terminal_show_line(text);
    else
        fprintf(stderr, "clef: %s\n", text);
    d->next = now + (r->progress.on_terminal ? bar : line);
}

/* ---- several ranks ----------------------------------------------------------------------------- */

/* Whether Ctrl-C was pressed, on any rank. All ranks call this at the same time, and get the same. */
static int train_stops(train_run *r)
{
    double any = cli_terminal_interrupted();
    if (r->ranks && !r->stopped && clef_ranks_sum(r->ranks, &any, 1, NULL) != CLEF_OK)
        any = 1;
    r->stopped |= any > 0;
    return r->stopped;
}

/* Ends all ranks: each comes here, with the same code. */
static int end_together(int code)
{
    return cli_ranks_agree(code) == CLI_GO_ON ? CLI_OK : code == CLI_GO_ON ? CLI_FAILED : code;
}

/* ---- evaluation and samples ----------------------------------------------------------------------- */

/* The mean loss of the validation, and the number of its labels; of at most --eval-rows rows, and of fewer
 * after Ctrl-C. All ranks call it, and get the same. */
static clef_status train_evaluate(train_run *r, double *loss, int64_t *n_labels, clef_error *err)
{
    const int64_t all = clef_dataset_describe(r->data).splits[CLEF_VALIDATION].n_rows,
                  n = r->o->eval_rows && r->o->eval_rows < all ? r->o->eval_rows : all;
    const int32_t each = clef_model_trainer_n_at_once(r->trainer);
    clef_status s = CLEF_OK;
    double total = 0;
    *n_labels = 0;
    for (int64_t at = 0; at < n && !s && !train_stops(r); at += each) {
        double sum;
        int64_t count = 0;
        s = clef_dataset_read(r->data, CLEF_VALIDATION, at, each, &r->rows, err);
        if (!s && r->rows.n_labels)
            s = clef_model_trainer_evaluate(r->trainer, &r->rows, n - at < each ? (int32_t)(n - at) : each,
                                            &sum, &count, err);
        total += count ? sum : 0;
        *n_labels += count;
    }
    *loss = *n_labels ? total / (double)*n_labels : NAN;
    return s;
}

/* A text that grows. */
typedef struct growing_text {
    char *bytes; /* NUL-terminated */
    size_t n, capacity;
} growing_text;

static clef_status append(growing_text *t, const char *piece, size_t n, clef_error *err)
{
    if (t->n + n + 1 > t->capacity) {
        const size_t capacity = 2 * (t->n + n + 1);
        char *bigger = realloc(t->bytes, capacity);
        if (!bigger)
            return cli_error(err, CLEF_E_NOMEM, "train: no memory for a text");
        t->bytes = bigger;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->n, piece, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return CLEF_OK;
}

/* Appends up to n tokens of the session. */
static clef_status generate(clef_session *session, const clef_tokenizer *tok, int32_t n, growing_text *to,
                            clef_error *err)
{
    clef_stream stream = {.tok = tok};
    char piece[512];
    size_t n_bytes = 0;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n && !s && !cli_terminal_interrupted(); i++) {
        int32_t id;
        s = clef_session_next(session, &id, err);
        if (s || id == clef_tokenizer_eos(tok))
            break;
        s = clef_stream_push(&stream, id, piece, sizeof piece, &n_bytes, err);
        if (!s)
            s = append(to, piece, n_bytes, err);
    }
    if (!s)
        s = clef_stream_finish(&stream, piece, sizeof piece, &n_bytes, err);
    return s ? s : append(to, piece, n_bytes, err);
}

/* Generates from --prompt with the present weights. The caller frees *text. */
static clef_status train_sample(train_run *r, char **text, clef_error *err)
{
    const clef_tokenizer *tok = clef_model_tokenizer(r->model, err);
    const clef_session_opts opts = {.compile = r->o->compile};
    const clef_sampler_opts sampler = {.temperature = 0.8f, .top_k = 40, .seed = r->o->seed.value};
    clef_session *session = NULL;
    growing_text grown = {0};
    int32_t *ids = NULL, n = 0;
    clef_status s = clef_model_trainer_publish(r->trainer, err);
    if (!s)
        s = clef_tokenizer_encode(tok, r->o->prompt, strlen(r->o->prompt), CLEF_SPECIAL_ADD, &ids, &n, err);
    if (!s)
        s = clef_session_create(r->device, r->model, &opts, &session, err);
    const int32_t room = s ? 0 : clef_session_n_context(session) - n,
                  most = room < r->o->sample_tokens ? room : r->o->sample_tokens;
    if (!s && most < 1)
        s = cli_error(err, CLEF_E_LIMIT, "train: --prompt has %d tokens, more have no room in the context",
                      n);
    if (!s)
        s = clef_session_generate(session, ids, n, most, &sampler, err);
    if (!s)
        s = append(&grown, r->o->prompt, strlen(r->o->prompt), err);
    if (!s)
        s = generate(session, tok, most, &grown, err);
    clef_session_destroy(session);
    clef_tokens_free(ids);
    *text = grown.bytes;
    return s;
}

static clef_status evaluate_now(train_run *r, int64_t step, display *d, clef_error *err)
{
    int64_t n_labels;
    if (!clef_dataset_describe(r->data).splits[CLEF_VALIDATION].n_rows)
        return CLEF_OK;
    double loss;
    const clef_status s = train_evaluate(r, &loss, &n_labels, err);
    if (s || r->stopped) /* a part of the validation has another loss */
        return s;
    d->validation = loss;
    train_log_evaluation(r, step, d->validation, n_labels);
    cli_terminal_clear_line();
    if (!r->o->quiet)
        fprintf(stderr, "clef: step %" PRId64 ": validation loss %.4f, perplexity %.2f\n", step,
                d->validation, exp(d->validation));
    return CLEF_OK;
}

static clef_status sample_now(train_run *r, int64_t step, clef_error *err)
{
    char *text = NULL;
    const clef_status s = train_sample(r, &text, err);
    if (!s) {
        train_log_sample(r, step, text);
        cli_terminal_clear_line();
        if (!r->o->quiet)
            fprintf(stderr, "clef: step %" PRId64 ":\n%s\n", step, text);
    }
    free(text);
    return s;
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* `every` of an option: -1 means a tenth of the steps, 0 never. */
static int is_due(const train_run *r, int32_t every, int64_t step)
{
    const int64_t tenth = r->n_steps >= 10 ? r->n_steps / 10 : 1, n = every < 0 ? tenth : every;
    return n && step < r->n_steps && step % n == 0;
}

static clef_status step_once(train_run *r, clef_train_result *result, clef_error *err)
{
    const int64_t step = clef_trainer_step(clef_model_trainer_graph(r->trainer));
    clef_status s =
        clef_dataset_read(r->data, CLEF_TRAINING, step * r->step_rows, r->step_rows, &r->rows, err);
    if (!s)
        s = clef_model_trainer_step(r->trainer, &r->rows, r->step_rows, result, err);
    r->n_tokens += s || result->is_scaled ? 0 : r->rows.n_tokens;
    return s;
}

static clef_status between_steps(train_run *r, const clef_train_result *result, display *d, clef_error *err)
{
    const train_options *o = r->o;
    const double begun = cli_terminal_seconds();
    clef_status s = CLEF_OK;
    if (is_due(r, o->eval_every, result->step))
        s = evaluate_now(r, result->step, d, err);
    if (!s && o->prompt && !r->rank &&
        is_due(r, o->sample_every < 0 ? o->eval_every : o->sample_every, result->step))
        s = sample_now(r, result->step, err);
    if (!s && is_due(r, o->checkpoint_every, result->step))
        s = clef_model_trainer_checkpoint(r->trainer, r->work, o->keep, err);
    d->begun += cli_terminal_seconds() - begun; /* tokens/s are those of steps */
    return s;
}

/* Writes where the numbers first went wrong, ", first in layer0.attn.qk"; on several ranks with the first of
 * them that finds it. */
static void find_first(train_run *r, char out[480])
{
    char name[256] = "";
    clef_error err = {0}, found = {0};
    if (clef_trainer_find_not_finite(clef_model_trainer_graph(r->trainer), name, sizeof name, &err) !=
        CLEF_OK)
        cli_report(&err);
    if (*name)
        cli_error(&found, CLEF_E_ARG, "%s", name);
    if (r->ranks)
        clef_ranks_agree(r->ranks, found.status, &found);
    if (*found.text)
        snprintf(out, 480, ", first in %.460s", found.text);
}

static int stop_not_finite(train_run *r, const clef_train_result *result)
{
    char first[480] = "";
    cli_terminal_clear_line();
    train_log_end(r, result->step, "nan");
    find_first(r, first);
    return end_together(cli_fail(
        CLI_FAILED,
        "step %" PRId64 ": loss %g, norm of the gradient %g: not finite%s; the checkpoints in %s are as "
        "they were; a lower --rate or --clip may help%s",
        result->step, result->loss, result->grad_norm, first, r->work,
        r->o->compute == CLEF_F16 ? ", and so may --compute bf16, which has the range of f32" : ""));
}

/* The last text, and the model: rank 0 writes them. */
static clef_status write_results(train_run *r, clef_error *err)
{
    const clef_save_opts save = {.dtype = (clef_dtype)r->o->dtype};
    clef_status s = r->o->prompt ? sample_now(r, r->n_steps, err) : CLEF_OK;
    return s ? s : clef_model_trainer_save(r->trainer, r->o->out, &save, err);
}

static int finish(train_run *r, display *d)
{
    clef_error err = {0};
    clef_status s = clef_model_trainer_checkpoint(r->trainer, r->work, r->o->keep, &err);
    if (s)
        return end_together(cli_report(&err));
    s = evaluate_now(r, r->n_steps, d, &err);
    if (s)
        return cli_report(&err);
    s = r->rank ? CLEF_OK : write_results(r, &err);
    const int code = end_together(s ? cli_report(&err) : CLI_GO_ON);
    if (code != CLI_OK || r->rank)
        return code;
    train_log_end(r, r->n_steps, "finished");
    if (!r->o->quiet)
        fprintf(stderr, "clef: %s written\n", r->o->out);
    return CLI_OK;
}

/* Ctrl-C: the next run goes on from here. */
static int interrupt(train_run *r, int64_t step)
{
    clef_error err = {0};
    cli_terminal_clear_line();
    if (clef_model_trainer_checkpoint(r->trainer, r->work, r->o->keep, &err) != CLEF_OK)
        return end_together(cli_report(&err));
    train_log_end(r, step, "interrupted");
    if (!r->rank)
        fprintf(stderr, "clef: interrupted after step %" PRId64 "; --resume goes on from there\n", step);
    return end_together(CLI_INTERRUPTED);
}

static int take_steps(train_run *r, display *d)
{
    clef_error err = {0};
    int64_t step = r->first_step;
    while (step < r->n_steps) {
        clef_train_result result;
        clef_status s = step_once(r, &result, &err);
        if (s)
            return cli_report(&err);
        if (!result.is_finite && !result.is_scaled)
            return stop_not_finite(r, &result);
        if (result.is_scaled) { /* the loop makes the step again */
            train_log_overflow(r, &result);
        } else {
            step = result.step;
            train_log_step(r, &result, tokens_per_second(r, d));
            show(r, d, &result);
            s = between_steps(r, &result, d, &err);
        }
        if (s)
            return cli_report(&err);
        if (train_stops(r))
            return interrupt(r, step);
    }
    return CLI_GO_ON;
}

/* What the numbers are that are multiplied. */
static const char *products_text(const train_run *r)
{
    static const char *const texts[] = {[CLEF_F32] = "f32",
                                        [CLEF_F16] = "f16, with an adapting loss scale; all else f32",
                                        [CLEF_BF16] = "bf16; all else f32"};
    return texts[r->o->compute];
}

/* What an existing model knows of the validation texts before it is trained on others. */
static int evaluate_at_begin(train_run *r, display *d)
{
    clef_error err = {0};
    if (r->o->new_config || r->first_step || !r->o->eval_every)
        return CLI_GO_ON;
    return evaluate_now(r, 0, d, &err) == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

static void say_what(const train_run *r)
{
    const clef_train_stats stats = clef_trainer_describe(clef_model_trainer_graph(r->trainer));
    const clef_dataset_info data = clef_dataset_describe(r->data);
    char memory[24];
    if (r->o->quiet)
        return;
    fprintf(stderr,
            "clef: %" PRId64 " parameters (%" PRId64 " trained), %s of memory; %" PRId64 " tokens (%" PRId64
            " for validation), %" PRId64 " steps of %d rows of %d\n",
            stats.n_parameters, stats.n_trained,
            cli_bytes_text(stats.weight_bytes + stats.gradient_bytes + stats.moment_bytes +
                               stats.activation_bytes + stats.other_bytes,
                           memory),
            data.splits[CLEF_TRAINING].n_tokens, data.splits[CLEF_VALIDATION].n_tokens, r->n_steps,
            r->step_rows, clef_model_trainer_n_tokens(r->trainer));
    if (r->o->compute != CLEF_F32)
        fprintf(stderr, "clef: products of %s\n", products_text(r));
    if (r->first_step)
        fprintf(stderr, "clef: goes on after step %" PRId64 "\n", r->first_step);
}

int train_loop(train_run *r)
{
    display d = {.validation = NAN, .begun = cli_terminal_seconds()};
    int code = cli_ranks_agree(train_log_open(r));
    if (code != CLI_GO_ON)
        return code;
    say_what(r);
    train_log_start(r);
    code = evaluate_at_begin(r, &d);
    d.begun = cli_terminal_seconds();
    code = code == CLI_GO_ON ? take_steps(r, &d) : code;
    cli_terminal_clear_line();
    return code == CLI_GO_ON ? finish(r, &d) : code;
}

/* ---- --dry-run ---------------------------------------------------------------------------------- */

static void print_memory(const clef_train_stats *s)
{
    char text[5][24];
    printf("parameters   %" PRId64 ", trained %" PRId64 "\n", s->n_parameters, s->n_trained);
    printf("memory       weights %s, gradients %s, optimiser %s, activations %s, other %s\n",
           cli_bytes_text(s->weight_bytes, text[0]), cli_bytes_text(s->gradient_bytes, text[1]),
           cli_bytes_text(s->moment_bytes, text[2]), cli_bytes_text(s->activation_bytes, text[3]),
           cli_bytes_text(s->other_bytes, text[4]));
}

/* The first step includes what is only done once, so the later ones are measured. */
static clef_status measure_steps(train_run *r, double *seconds, clef_error *err)
{
    enum { MEASURED = 3 };
    clef_train_result result;
    clef_status s = step_once(r, &result, err);
    const double begun = cli_terminal_seconds();
    for (int i = 0; i < MEASURED && !s; i++)
        s = step_once(r, &result, err);
    *seconds = (cli_terminal_seconds() - begun) / (double)MEASURED;
    return s;
}

int train_dry_run(train_run *r)
{
    clef_error own = {0};
    double ignored;
    if (r->rank)
        return measure_steps(r, &ignored, &own) == CLEF_OK ? CLI_OK : cli_report(&own);
    const clef_train_stats stats = clef_trainer_describe(clef_model_trainer_graph(r->trainer));
    const clef_dataset_info data = clef_dataset_describe(r->data);
    const int32_t T = clef_model_trainer_n_tokens(r->trainer);
    clef_error err = {0};
    double seconds = 0;
    char whole[32];
    print_memory(&stats);
    printf("products     %s\n", products_text(r));
    printf("data         %" PRId64 " documents, %" PRId64 " tokens, %" PRId64
           " rows an epoch; validation %" PRId64 " tokens\n",
           data.splits[CLEF_TRAINING].n_documents, data.splits[CLEF_TRAINING].n_tokens,
           data.splits[CLEF_TRAINING].n_rows, data.splits[CLEF_VALIDATION].n_tokens);
    printf("steps        %" PRId64 " of %d rows of %d tokens\n", r->n_steps, r->step_rows, T);
    if (measure_steps(r, &seconds, &err) != CLEF_OK)
        return cli_report(&err);
    time_text(seconds * (double)r->n_steps, whole);
    printf("time         %.3f s a step (measured), %.0f tokens/s, %s in all\n", seconds,
           (double)r->step_rows * T / seconds, whole);
    return CLI_OK;
}

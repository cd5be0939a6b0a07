/* The log of a training: JSON lines, each written at once. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/output.h"
#include "tools/cli/terminal.h"
#include "train/command/train.h"

/* The first n_bytes of a log. */
typedef struct whole_lines {
    const char *text;
    size_t n_bytes;
} whole_lines;

static clef_status write_lines(void *user, FILE *to, clef_error *err)
{
    const whole_lines *lines = user;
    return fwrite(lines->text, 1, lines->n_bytes, to) == lines->n_bytes
               ? CLEF_OK
               : cli_error(err, CLEF_E_IO, "the log cannot be written");
}

/* Drops the last line of a log if it was cut off, as on a full disk: what follows would be a part of it. */
static int drop_cut_line(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    clef_error err = {0};
    clef_status s = CLEF_OK;
    FILE *there = fopen(path, "rb");
    if (!there)
        return CLI_GO_ON;
    fclose(there);
    const int code = cli_read_file(path, &text, &n);
    if (code != CLI_GO_ON)
        return code;
    whole_lines lines = {text, n};
    while (lines.n_bytes && text[lines.n_bytes - 1] != '\n')
        lines.n_bytes--;
    if (lines.n_bytes < n)
        s = cli_output(path, write_lines, &lines, &err);
    free(text);
    return s ? cli_report(&err) : CLI_GO_ON;
}

int train_log_open(train_run *r)
{
    char path[4096];
    if (r->rank)
        return CLI_GO_ON;
    snprintf(path, sizeof path, "%s/log.jsonl", r->work);
    const char *to = r->o->log ? r->o->log : path;
    const int code = r->o->resume ? drop_cut_line(to) : CLI_GO_ON;
    if (code != CLI_GO_ON)
        return code;
    r->log = fopen(to, r->o->resume || r->o->log ? "ab" : "wb"); /* another file may have lines to keep */
    return r->log ? CLI_GO_ON : cli_fail(CLI_FAILED, "%s: cannot be written: %s", to, strerror(errno));
}

/* Ends a line. A full disk must not go unnoticed, but a log is not a reason to stop. */
static void end_line(train_run *r)
{
    fputs("}\n", r->log);
    if (fflush(r->log) != 0 && !r->o->quiet)
        fprintf(stderr, "clef: the log cannot be written\n");
}

static void begin_line(train_run *r, const char *event, int32_t *n)
{
    fputc('{', r->log);
    cli_json_member_text(r->log, n, "event", event);
}

static int32_t n_ranks(const train_run *r)
{
    clef_ranks_info info;
    clef_ranks_describe(r->ranks, &info);
    return info.n;
}

void train_log_start(train_run *r)
{
    const clef_train_stats stats = clef_trainer_describe(clef_model_trainer_graph(r->trainer));
    const clef_dataset_info data = clef_dataset_describe(r->data);
    int32_t n = 0;
    if (!r->log)
        return;
    begin_line(r, "start", &n);
    cli_json_member_text(r->log, &n, "clef", clef_version());
    cli_json_member_text(r->log, &n, "model", clef_model_path(r->model));
    cli_json_member_text(r->log, &n, "device", clef_device_describe(r->device)->name);
    cli_json_member_number(r->log, &n, "parameters", (double)stats.n_parameters);
    cli_json_member_number(r->log, &n, "trained", (double)stats.n_trained);
    cli_json_member_number(r->log, &n, "step", (double)r->first_step);
    cli_json_member_number(r->log, &n, "steps", (double)r->n_steps);
    cli_json_member_number(r->log, &n, "rows", r->step_rows);
    cli_json_member_number(r->log, &n, "tokens_per_step",
                           (double)r->step_rows * clef_model_trainer_n_tokens(r->trainer));
    cli_json_member_number(r->log, &n, "training_tokens", (double)data.splits[CLEF_TRAINING].n_tokens);
    cli_json_member_number(r->log, &n, "validation_tokens", (double)data.splits[CLEF_VALIDATION].n_tokens);
    cli_json_member_text(r->log, &n, "data", data.fingerprint);
    cli_json_member_number(r->log, &n, "seed", (double)r->o->seed.value);
    if (r->ranks)
        cli_json_member_number(r->log, &n, "ranks", n_ranks(r));
    cli_json_member_text(r->log, &n, "compute", clef_dtype_name((clef_dtype)r->o->compute));
    end_line(r);
}

void train_log_step(train_run *r, const clef_train_result *result, double tokens_per_second)
{
    int32_t n = 0;
    if (!r->log)
        return;
    begin_line(r, "step", &n);
    cli_json_member_number(r->log, &n, "step", (double)result->step);
    cli_json_member_number(r->log, &n, "loss", result->loss);
    cli_json_member_number(r->log, &n, "grad_norm", result->grad_norm);
    cli_json_member_number(r->log, &n, "lr", result->rate);
    if (r->o->compute == CLEF_F16)
        cli_json_member_number(r->log, &n, "loss_scale", result->loss_scale);
    cli_json_member_number(r->log, &n, "tokens", (double)r->n_tokens);
    cli_json_member_number(r->log, &n, "seconds", cli_terminal_seconds() - r->start);
    cli_json_member_number(r->log, &n, "tokens_per_second", tokens_per_second);
    end_line(r);
}

void train_log_overflow(train_run *r, const clef_train_result *result)
{
    int32_t n = 0;
    if (!r->log)
        return;
    begin_line(r, "overflow", &n);
    cli_json_member_number(r->log, &n, "step", (double)result->step);
    cli_json_member_number(r->log, &n, "loss_scale", result->loss_scale);
    end_line(r);
}

void train_log_evaluation(train_run *r, int64_t step, double loss, int64_t n_labels)
{
    int32_t n = 0;
    if (!r->log)
        return;
    begin_line(r, "eval", &n);
    cli_json_member_number(r->log, &n, "step", (double)step);
    cli_json_member_number(r->log, &n, "loss", loss);
    cli_json_member_number(r->log, &n, "perplexity", exp(loss));
    cli_json_member_number(r->log, &n, "tokens", (double)n_labels);
    end_line(r);
}

void train_log_sample(train_run *r, int64_t step, const char *text)
{
    int32_t n = 0;
    if (!r->log)
        return;
    begin_line(r, "sample", &n);
    cli_json_member_number(r->log, &n, "step", (double)step);
    cli_json_member_text(r->log, &n, "text", text);
    end_line(r);
}

void train_log_end(train_run *r, int64_t step, const char *reason)
{
    int32_t n = 0;
    if (!r->log)
        return;
    begin_line(r, "end", &n);
    cli_json_member_number(r->log, &n, "step", (double)step);
    cli_json_member_text(r->log, &n, "reason", reason);
    end_line(r);
}

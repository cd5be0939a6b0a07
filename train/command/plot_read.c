/* Reads the log of a training. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "train/command/plot.h"

static int add_point(plot_series *s, double step, double value)
{
    while (s->n && s->step[s->n - 1] >= step) /* the run went back to a checkpoint */
        s->n--;
    if (s->n == s->capacity) {
        const int64_t capacity = s->capacity ? 2 * s->capacity : 256;
        double *steps = realloc(s->step, (size_t)capacity * sizeof *steps);
        s->step = steps ? steps : s->step;
        double *values = steps ? realloc(s->value, (size_t)capacity * sizeof *values) : NULL;
        if (!values)
            return 0;
        s->value = values;
        s->capacity = capacity;
    }
    s->step[s->n] = step;
    s->value[s->n++] = value;
    return 1;
}

static int add_sample(plot_log *log, double step, const char *text)
{
    while (log->n_samples && log->samples[log->n_samples - 1].step >= step)
        free(log->samples[--log->n_samples].text);
    plot_sample *bigger = realloc(log->samples, (size_t)(log->n_samples + 1) * sizeof *bigger);
    char *copy = malloc(strlen(text) + 1);
    log->samples = bigger ? bigger : log->samples;
    if (!bigger || !copy) {
        free(copy);
        return 0;
    }
    log->samples[log->n_samples++] = (plot_sample){step, strcpy(copy, text)};
    return 1;
}

static double number(const json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key)); /* 0 if there is none */
}

/* Adds a number that is one; a loss that was not finite is null. */
static int add_number(plot_series *s, const json_t *line, const char *key)
{
    return !json_is_number(json_object_get(line, key)) ||
           add_point(s, number(line, "step"), number(line, key));
}

static int add_line(plot_log *log, const json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *text = json_string_value(json_object_get(line, "text"));
    const char *model = json_string_value(json_object_get(line, "model"));
    if (!event)
        return 1;
    if (strcmp(event, "start") == 0) {
        snprintf(log->model, sizeof log->model, "%s", model ? model : "");
        log->parameters = number(line, "parameters");
    }
    if (strcmp(event, "step") == 0)
        return add_number(&log->loss, line, "loss") && add_number(&log->rate, line, "lr") &&
               add_number(&log->speed, line, "tokens_per_second");
    if (strcmp(event, "eval") == 0)
        return add_number(&log->evaluation, line, "loss");
    return strcmp(event, "sample") != 0 || !text || add_sample(log, number(line, "step"), text);
}

static clef_status plot_read(const char *path, plot_log *out, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    *out = (plot_log){.path = path};
    if (cli_read_file(path, &text, &n) != CLI_GO_ON)
        return CLEF_E_IO;
    clef_status s = CLEF_OK;
    int64_t row = 1;
    for (char *at = text, *end; at < text + n && !s; at = end, row++) {
        json_error_t why;
        end = memchr(at, '\n', (size_t)(text + n - at));
        const int is_whole = end != NULL;
        end = end ? end + 1 : text + n;
        json_t *line = json_loadb(at, (size_t)(end - at), 0, &why);
        if (!json_is_object(line) && is_whole)
            s = cli_error(err, CLEF_E_FORMAT, "%s: line %" PRId64 ": expected a JSON object: %s", path, row,
                          line ? "got something else" : why.text);
        else if (line && !add_line(out, line))
            s = cli_error(err, CLEF_E_NOMEM, "%s: out of memory", path);
        json_decref(line);
    }
    free(text);
    if (!s && !out->loss.n)
        s = cli_error(err, CLEF_E_FORMAT,
                      "%s: has no line {\"event\": \"step\", \"loss\": ..} of `clef train`", path);
    return s;
}

static void free_series(plot_series *s)
{
    free(s->step);
    free(s->value);
}

/* Reads a log. A line that is not a JSON object is an error with its number; unknown events are passed over.
 * A last line that was cut off is left out. CLEF_E_FORMAT, CLEF_E_NOMEM; CLEF_E_IO after a message, with err
 * as it was. */
static void plot_free(plot_log *log)
{
    free_series(&log->loss);
    free_series(&log->rate);
    free_series(&log->evaluation);
    free_series(&log->speed);
    for (int64_t i = 0; i < log->n_samples; i++)
        free(log->samples[i].text);
    free(log->samples);
}

int plot_run(int32_t n_logs, char **paths, const char *out)
{
    static const char *const names[] = {"svg", "png", "html", NULL};
    static const cli_writer writers[] = {plot_svg, plot_png, plot_html};
    plot_log logs[CLI_MAX_LIST] = {{0}};
    plot_logs all = {logs, 0};
    clef_error err = {0};
    clef_status s = CLEF_OK;
    const int32_t format = cli_format_of("train plot", names, "svg", -1, out);
    if (format < 0)
        return CLI_USAGE;
    if (n_logs < 1)
        return cli_fail(CLI_USAGE, "train plot: expected LOG");
    for (int32_t i = 0; i < n_logs && !s; i++)
        s = plot_read(paths[i], &logs[all.n++], &err);
    if (!s)
        s = cli_output(out, writers[format], &all, &err);
    for (int32_t i = 0; i < all.n; i++)
        plot_free(&logs[i]);
    return !s ? CLI_OK : err.status ? cli_report(&err) : CLI_FAILED;
}

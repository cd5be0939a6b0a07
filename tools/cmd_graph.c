/* clef graph: a model's graph, written. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/terminal.h"

typedef struct graph_options {
    const char *model, *after, *out;
    clef__list taps;
    int32_t format, n_context;
} graph_options;

static const graph_options graph_defaults = {.format = 0};

static const char *const format_names[] = {"text", "json", "dot", NULL};
static clef_status (*const writers[])(const clef_graph *, FILE *, clef_error *) = {clef_graph_write_text, clef_graph_write_json,
                                                                                   clef_graph_write_dot};

/* clang-format off */
#define AT(field) .offset = offsetof(graph_options, field)
static const clef__option graph_option_table[] = {
    MODEL_OPTION(graph_options),
    {.names = "format", .type = CLI_CHOICE, .value = "HOW", AT(format), .choices = format_names, .help = "the form to write [text]"},
    {.names = "after", .type = CLI_TEXT, .value = "PASS", AT(after),
     .help = "show it as this pass leaves it [after the last]; build: before any"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FILE", AT(out), .help = "write there instead of stdout"},
    {.names = "tap", .letter = 't', .type = CLI_LIST, .value = "NAME", AT(taps), .help = "make this value an output too; may be repeated"},
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "N", AT(n_context), .lo = 0, .hi = INT32_MAX,
     .help = "positions of the KV cache [the model's]"},
    {.names = NULL},
};
/* clang-format on */

static clef_status make_graph(const graph_options *o, const char *path, clef_graph **out, clef_error *err)
{
    clef_model *model = NULL;
    clef_status status;
    if (clef__is_graph_file(path)) {
        status = clef__graph_file_open(path, out, err);
        if (status == CLEF_OK)
            status = clef__graph_tap(*out, path, &o->taps, err);
    } else {
        const clef_build_opts opts = {.n_context = o->n_context, .taps = o->taps.items, .n_taps = o->taps.n};
        status = clef_model_open(path, &model, err);
        if (status == CLEF_OK)
            status = clef_model_build(model, &opts, out, err);
        clef_model_close(model);
    }
    if (status == CLEF_OK && !(o->after && strcmp(o->after, "build") == 0))
        status = clef_graph_optimize(*out, o->after, err);
    return status;
}

static clef_status write_file(const graph_options *o, const clef_graph *graph, const char *path, const char *mode, clef_error *err)
{
    FILE *to = fopen(path, mode);
    if (!to)
        return clef__error(err, CLEF_E_IO, "%s: cannot write: %s", o->out, strerror(errno));
    clef_status status = writers[o->format](graph, to, err);
    const clef_error why = *err;
    if (status != CLEF_OK)
        clef__error(err, status, "%s: %.900s", o->out, why.text);
    if (fclose(to) != 0 && status == CLEF_OK)
        status = clef__error(err, CLEF_E_IO, "%s: cannot write: %s", o->out, strerror(errno));
    return status;
}

/* A file is made under another name beside it, so that the one that stands there is whole at any time; a device or a pipe is written
 * where it is. */
static clef_status replace_file(const graph_options *o, const clef_graph *graph, clef_error *err)
{
    enum { SUFFIX = 32 };
    if (!clef__terminal_can_replace(o->out))
        return write_file(o, graph, o->out, "wb", err);
    const size_t n = strlen(o->out) + SUFFIX;
    char *temporary = malloc(n);
    if (!temporary)
        return clef__error(err, CLEF_E_NOMEM, "out of host memory");
    snprintf(temporary, n, "%s.%016" PRIx64 ".tmp", o->out, clef__terminal_entropy());
    clef_status status = write_file(o, graph, temporary, "wbx", err);
    if (status == CLEF_OK && rename(temporary, o->out) != 0)
        status = clef__error(err, CLEF_E_IO, "%s: cannot write: %s", o->out, strerror(errno));
    if (status != CLEF_OK)
        remove(temporary);
    free(temporary);
    return status;
}

static int write_graph(const graph_options *o, const clef_graph *graph)
{
    clef_error err = {0};
    const clef_status status = o->out ? replace_file(o, graph, &err) : writers[o->format](graph, stdout, &err);
    return status == CLEF_OK ? CLI_OK : clef__cli_report(&err);
}

static int graph_run(const void *options, int32_t n_args, char **args)
{
    const graph_options *o = options;
    clef_error err = {0};
    clef_graph *graph = NULL;
    const char *path = clef__model_path("graph", n_args, args, o->model);
    if (!path)
        return n_args > 0 ? CLI_USAGE : CLI_FAILED;
    const int rc = make_graph(o, path, &graph, &err) == CLEF_OK ? write_graph(o, graph) : clef__cli_report(&err);
    clef_graph_destroy(graph);
    return rc;
}

const clef__command clef__command_graph = {
    .name = "graph",
    .usage = "[MODEL] [--format text|json|dot] [--after PASS] [-o FILE]",
    .summary = "Print a model's computation graph",
    .notes = "MODEL may be a graph in the text form (graph.clef). Passes, in order:"
#define PASS(name) " " #name
#include "graph/passes.def"
#undef PASS
             "\n"
             "A picture: clef graph --format dot | dot -Tsvg > graph.svg\n",
    .options = graph_option_table,
    .max_args = 1,
    .defaults = &graph_defaults,
    .options_bytes = sizeof graph_defaults,
    .run = graph_run,
};

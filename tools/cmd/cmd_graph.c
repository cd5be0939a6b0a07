/* clef graph: writes a model's graph. */
#include <stdlib.h>
#include <string.h>

#include "tools/adapters.h"
#include "tools/cli/output.h"
#include "tools/graph/graph_diff.h"
#include "tools/graph/graph_draw.h"
#include "tools/graph/graph_page.h"
#include "tools/graph/graph_ranks.h"
#include "tools/graph/graph_source.h"

typedef struct graph_options {
    const char *model, *after, *out, *symbols, *device;
    cli_list taps, expand, loras;
    int32_t format, n_context, n_sequences, all_logits, padding_mask, beside, profile, no_cache, part, train;
    cli_rank_choice ranks;
    clef_compile_opts compile;
} graph_options;

static const graph_options graph_defaults = {.format = -1};

/** What to write, and how. */
typedef struct graph_job {
    const graph_options *o;
    const char *path;
    const clef_graph *graph;
    cli_rank_graphs ranks; /* of all ranks, where they are drawn side by side; n 0: the graph alone */
    clef_model *model;
    FILE *data;
    const char *data_name;
    const cli_graph_profile *profile; /* NULL: none */
    int32_t expand[CLI_MAX_LIST];
    int32_t n_expand; /* -1: all layers */
} graph_job;

static clef_status as_text(graph_job *job, FILE *to, clef_error *err)
{
    return clef_graph_write_text(job->graph, to, err);
}

static clef_status as_json(graph_job *job, FILE *to, clef_error *err)
{
    return clef_graph_write_json(job->graph, to, err);
}

/* The DOT form of a picture, which folds layers by default. */
static clef_status picture(void *user, FILE *to, clef_error *err)
{
    const graph_job *job = user;
    if (job->ranks.n)
        return clef_graph_write_ranks_dot(job->ranks.of, job->ranks.n, job->ranks.width, job->expand,
                                          job->n_expand, to, err);
    return job->n_expand < 0 ? clef_graph_write_dot(job->graph, to, err)
                             : clef_graph_write_folded_dot(job->graph, job->expand, job->n_expand, to, err);
}

static clef_status as_dot(graph_job *job, FILE *to, clef_error *err)
{
    return job->o->expand.n || job->ranks.n ? picture(job, to, err)
                                            : clef_graph_write_dot(job->graph, to, err);
}

static clef_status as_onnx(graph_job *job, FILE *to, clef_error *err)
{
    const int is_plain = !job->model || job->o->part == CLEF_PART_PICTURES ||
                         clef_model_pictures(job->model, NULL) == clef_model_hparams(job->model);
    const clef_onnx_opts opts = {.form = is_plain           ? CLEF_ONNX_PLAIN
                                         : job->o->no_cache ? CLEF_ONNX_NO_CACHE
                                                            : CLEF_ONNX_PAST,
                                 .weights = job->model ? clef_model_weight : NULL,
                                 .weights_user = job->model,
                                 .data = job->data,
                                 .data_name = job->data_name};
    return clef_graph_write_onnx(job->graph, to, &opts, err);
}

static clef_status as_svg(graph_job *job, FILE *to, clef_error *err)
{
    return cli_graph_draw(picture, job, "svg", to, err);
}

static clef_status as_png(graph_job *job, FILE *to, clef_error *err)
{
    return cli_graph_draw(picture, job, "png", to, err);
}

static clef_status as_html(graph_job *job, FILE *to, clef_error *err)
{
    return cli_graph_page(job->graph, job->profile, cli_title_of(job->path), to, err);
}

enum { DOT_FORMAT = 2, ONNX_FORMAT, SVG_FORMAT, PNG_FORMAT, HTML_FORMAT };
static const char *const format_names[] = {"text", "json", "dot", "onnx", "svg", "png", "html", NULL};
static clef_status (*const writers[])(graph_job *, FILE *, clef_error *) = {as_text, as_json, as_dot, as_onnx,
                                                                            as_svg,  as_png,  as_html};
static const char *const beside_names[] = {"inside", "beside", NULL};
/* In the order of clef_part. */
static const char *const part_names[] = {"whole", "encoder", "decoder", "pictures", NULL};

/* clang-format off */
#define AT(field) .offset = offsetof(graph_options, field)
static const cli_option graph_option_table[] = {
    MODEL_OPTION(graph_options),
    {.names = "format", .type = CLI_CHOICE, .value = "HOW", AT(format), .choices = format_names,
     .help = "output format [by the ending of FILE, else text]"},
    {.names = "after", .type = CLI_TEXT, .value = "PASS", AT(after),
     .choice = clef_pass_name,
     .help = "show the graph after this pass; build: before any [the last]"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FILE", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = "tap", .letter = 't', .type = CLI_LIST, .value = "NAME", AT(taps),
     .help = "make this value an output; may be repeated"},
    LORA_OPTION(offsetof(graph_options, loras)),
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "N", AT(n_context), .lo = 0,
     .hi = INT32_MAX, .help = "positions of the KV cache [the model's]"},
    {.names = "symbols", .type = CLI_TEXT, .value = "T=1,S=512", AT(symbols),
     .help = "lengths at which to show shapes and count costs [their bounds]"},
    {.names = "expand", .type = CLI_LIST, .value = "L", AT(expand),
     .help = "dot, svg, png: show the inside of layer L, or of all; may be repeated"},
    {.names = "rank", .type = CLI_TEXT, .value = "R/N", AT(ranks.rank),
     .help = "show the graph of rank R of N ranks, 0 to N-1, as mpirun -n N runs it"},
    {.names = "tp", .type = CLI_INT, .value = "N", AT(ranks.width), .lo = 1, .hi = 4096,
     .help = "ranks that share each layer (tensor parallelism) [what --pp leaves of the ranks]; dot, svg, "
             "png: without --rank all ranks are drawn, side by side"},
    {.names = "pp", .type = CLI_INT, .value = "N", AT(ranks.stages), .lo = 1, .hi = 16,
     .help = "groups of ranks with layers of their own (pipeline parallelism) [what --tp leaves of the "
             "ranks]"},
    {.names = "profile", .type = CLI_SWITCH, AT(profile),
     .help = "html: run the graph and show the launches and their times on the device"},
    DEVICE_OPTION(graph_options),
    PROOF_OPTION(graph_options),
    {.names = "sequences", .type = CLI_INT, .value = "N", AT(n_sequences), .lo = 1, .hi = 65536,
     .help = "most sequences at once (onnx: any number) [1]"},
    {.names = "all-logits", .type = CLI_SWITCH, AT(all_logits),
     .help = "compute logits of every position, not only the last (onnx: always)"},
    {.names = "train", .type = CLI_SWITCH, AT(train),
     .help = "the graph that trains the model: loss, gradients (NAME.grad) and their sums, for --sequences "
             "rows of --ctx-size tokens"},
    {.names = "padding-mask", .type = CLI_SWITCH, AT(padding_mask),
     .help = "add an input attention_mask, 0 where a key is padding (onnx: always)"},
    {.names = "weights", .type = CLI_CHOICE, .value = "WHERE", AT(beside), .choices = beside_names,
     .help = "onnx: put weights inside the file or beside it, in FILE.data [inside]"},
    {.names = "part", .type = CLI_CHOICE, .value = "PART", AT(part), .choices = part_names,
     .help = "of an encoder-decoder: the graph of this part; of CLIP and SigLIP: that of pictures [whole]"},
    {.names = "no-cache", .type = CLI_SWITCH, AT(no_cache),
     .help = "onnx: the plain forward pass, without past_key_values"},
    {.names = NULL},
};
/* clang-format on */

/* The passes after drop make ops that ONNX does not have. */
static cli_graph_source source_of(const graph_options *o)
{
    const int is_onnx = o->format == ONNX_FORMAT;
    return (cli_graph_source){.train = o->train,
                              .build = {.n_context = o->n_context,
                                        .n_batch = o->train ? o->n_context : 0,
                                        .n_sequences = o->n_sequences,
                                        .all_logits = o->all_logits,
                                        .padding_mask = o->padding_mask,
                                        .part = (clef_part)o->part,
                                        .for_export = is_onnx,
                                        .taps = o->taps.items,
                                        .n_taps = o->taps.n},
                              .loras = o->loras,
                              .after = !o->after && is_onnx ? "drop" : o->after};
}

static clef_status write_graph(void *user, FILE *to, clef_error *err)
{
    graph_job *job = user;
    return writers[job->o->format](job, to, err);
}

/* The file of the weights is open while the graph's file is written. */
static clef_status write_both(void *user, FILE *to, clef_error *err)
{
    graph_job job = *(const graph_job *)user;
    job.data = to;
    return cli_output(job.o->out, write_graph, &job, err);
}

static clef_status write_job(graph_job *job, clef_error *err)
{
    static const char suffix[] = ".data";
    const char *out = job->o->out;
    if (job->o->no_cache && (job->o->format != ONNX_FORMAT || !job->model))
        return cli_error(err, CLEF_E_ARG, "--no-cache: expected --format onnx and a model, got %s",
                         job->model ? format_names[job->o->format] : "a graph in text form");
    if (!job->o->beside)
        return cli_output(out, write_graph, job, err);
    if (job->o->format != ONNX_FORMAT || !out)
        return cli_error(err, CLEF_E_ARG, "--weights beside: expected --format onnx and -o FILE");
    char *path = malloc(strlen(out) + sizeof suffix);
    if (!path)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    strcat(strcpy(path, out), suffix);
    const char *slash = strrchr(path, '/');
    job->data_name = slash ? slash + 1 : path;
    const clef_status status = cli_output(path, write_both, job, err);
    free(path);
    return status;
}

/* "T=1,S=512" */
static clef_status bind_symbols(clef_graph *graph, const char *text, clef_error *err)
{
    char name[64];
    while (text && *text) {
        const size_t n = strcspn(text, "=,"), all = strcspn(text, ",");
        char *end = NULL;
        const long long value = text[n] == '=' ? strtoll(text + n + 1, &end, 10) : 0;
        if (!end || end == text + n + 1 || end != text + all || n >= sizeof name)
            return cli_error(err, CLEF_E_ARG, "--symbols: expected NAME=NUMBER[,NAME=NUMBER], got '%s'",
                             text);
        memcpy(name, text, n);
        name[n] = 0;
        const clef_status status = clef_graph_set_bound(graph, name, value, err);
        if (status != CLEF_OK)
            return status;
        text += all + (text[all] == ',');
    }
    return CLEF_OK;
}

static int is_picture(int32_t format)
{
    return format == DOT_FORMAT || format == SVG_FORMAT || format == PNG_FORMAT;
}

static clef_status read_layers(graph_job *job, clef_error *err)
{
    const int32_t format = job->o->format;
    if (job->o->expand.n && !is_picture(format))
        return cli_error(err, CLEF_E_ARG, "--expand: expected --format dot, svg or png, got %s",
                         format_names[format]);
    for (int32_t i = 0; i < job->o->expand.n; i++) {
        const char *text = job->o->expand.items[i];
        char *end;
        const long layer = strtol(text, &end, 10);
        if (strcmp(text, "all") == 0)
            job->n_expand = -1;
        else if (end == text || *end || layer < 0 || layer > INT32_MAX)
            return cli_error(err, CLEF_E_ARG, "--expand: expected a layer's number or all, got '%s'", text);
        else if (job->n_expand >= 0)
            job->expand[job->n_expand++] = (int32_t)layer;
    }
    return CLEF_OK;
}

static clef_status write_profiled(graph_job *job, clef_error *err)
{
    cli_graph_profile profile = {0};
    clef_status status = CLEF_OK;
    if (job->o->profile && job->o->format != HTML_FORMAT)
        return cli_error(err, CLEF_E_ARG, "--profile: expected --format html");
    if (job->o->profile && job->o->loras.n)
        return cli_error(err, CLEF_E_ARG, "--profile: expected a graph without --lora");
    if (job->o->profile) {
        status = cli_graph_profile_run(&profile, job->o->device, job->o->compile.no_proof, job->model,
                                       job->graph, err);
        job->profile = &profile;
    }
    if (status == CLEF_OK)
        status = write_job(job, err);
    cli_graph_profile_finish(&profile);
    return status;
}

/* Puts the graph of the chosen rank in the place of the whole one, or makes those of all ranks. */
static clef_status choose_ranks(graph_job *job, clef_graph **graph, clef_error *err)
{
    const cli_rank_choice *choice = &job->o->ranks;
    if (!choice->rank && !choice->width && !choice->stages)
        return CLEF_OK;
    if (!choice->rank && !is_picture(job->o->format))
        return cli_error(
            err, CLEF_E_ARG,
            "--tp, --pp: --format %s shows one rank: expected --rank R/N; dot, svg and png draw all ranks",
            format_names[job->o->format]);
    if (job->o->format == ONNX_FORMAT || job->o->profile || job->o->train)
        return cli_error(err, CLEF_E_ARG, "--rank: not with %s",
                         job->o->profile ? "--profile"
                         : job->o->train ? "--train"
                                         : "--format onnx, which has no exchange between ranks");
    const clef_status s = cli_rank_graphs_make(choice, *graph, &job->ranks, err);
    if (s || !choice->rank)
        return s;
    clef_graph_destroy(*graph);
    *graph = job->ranks.of[0];
    job->ranks.n = 0;
    return CLEF_OK;
}

/* A diff is text or a page, of graphs with their own bounds. */
static int run_diff(const graph_options *o, char **args)
{
    static const char *const formats[] = {"text", "html", NULL};
    const int is_page = o->format == HTML_FORMAT;
    const char *extra = o->format > 0 && !is_page ? "a --format other than text and html"
                        : o->symbols              ? "--symbols"
                        : o->expand.n             ? "--expand"
                        : o->profile              ? "--profile"
                        : o->beside               ? "--weights"
                        : o->no_cache             ? "--no-cache"
                        : o->compile.no_proof     ? "--no-proof"
                        : o->model                ? "--model"
                        : o->device               ? "--use-device"
                        : o->ranks.rank           ? "--rank"
                        : o->ranks.width          ? "--tp"
                        : o->ranks.stages         ? "--pp"
                                                  : NULL;
    const cli_graph_source source = source_of(o);
    if (extra)
        return cli_fail(CLI_USAGE, "graph diff: does not take %s", extra);
    const int32_t format = cli_format_of("graph diff", formats, "diff", is_page ? 1 : o->format, o->out);
    return format < 0 ? CLI_USAGE : cli_graph_diff(&source, args[1], args[2], o->out, format);
}

static int graph_run(const void *options, int32_t n_args, char **args)
{
    graph_options o = *(const graph_options *)options;
    graph_job job = {.o = &o};
    clef_error err = {0};
    clef_graph *graph = NULL;
    if (n_args == 3 && strcmp(args[0], "diff") == 0)
        return run_diff(&o, args);
    if (!o.profile && (o.device || o.compile.no_proof))
        return cli_fail(CLI_USAGE, "graph: %s needs --profile: the graph itself does not depend on a device",
                        o.device ? "--use-device" : "--no-proof");
    if (n_args > 1)
        return cli_fail(CLI_USAGE, "graph: expected one MODEL, or diff A B; got %d arguments", (int)n_args);
    job.path = cli_model_path("graph", n_args, args, o.model);
    if (!job.path)
        return n_args > 0 && o.model ? CLI_USAGE : CLI_FAILED;
    o.format = cli_format_of("graph", format_names, "clef", o.format, o.out);
    if (o.format < 0)
        return CLI_USAGE;
    const cli_graph_source source = source_of(&o);
    clef_status status = read_layers(&job, &err);
    if (status == CLEF_OK)
        status = cli_graph_source_open(&source, job.path, &job.model, &graph, &err);
    if (status == CLEF_OK)
        status = bind_symbols(graph, o.symbols, &err);
    if (status == CLEF_OK)
        status = choose_ranks(&job, &graph, &err);
    job.graph = graph;
    if (status == CLEF_OK)
        status = write_profiled(&job, &err);
    cli_rank_graphs_finish(&job.ranks);
    clef_graph_destroy(graph);
    clef_model_close(job.model);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_graph = {
    .name = "graph",
    .usage = "[MODEL] [--format text|json|dot|svg|png|html|onnx] [--after PASS] [-o FILE]",
    .summary = "Print a model's computation graph",
    .notes = "MODEL may also be a graph in text form (graph.clef). The passes run in the "
             "order that --after lists. ONNX shows the graph after drop, unless --after says otherwise.\n\n"
             "An ONNX file has the inputs and outputs that Optimum and ONNX Runtime GenAI expect: input_ids, "
             "attention_mask, position_ids, past_key_values.N.key and .value; logits, present.N.key and "
             ".value. Sequences and lengths are free. docs/graph-format.md lists them all.\n\n"
             "`clef graph diff A B` shows which nodes were added (+), removed (-) and changed (< >) between "
             "two models, graph files or passes (MODEL@build, MODEL@fuse); with -o FILE.html as a page. "
             "Its exit code is 0 when the graphs are equal. It accepts --after, -o and the flags that build "
             "a graph.\n\n"
             "  clef graph --format dot | dot -Tsvg > graph.svg\n  clef graph model.gguf -o graph.html\n",
    .options = graph_option_table,
    .first = "model format after out tap ctx-size symbols expand profile train weights part device",
    .max_args = 3,
    .defaults = &graph_defaults,
    .options_bytes = sizeof graph_defaults,
    .run = graph_run,
};

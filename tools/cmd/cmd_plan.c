/* clef plan: the memory that a model needs, before anything is loaded. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/inspect/memory_plan.h"
#include "tools/scaling.h"

enum { MAX_DEFAULT_CONTEXT = 4096, DEFAULT_BATCH = 512 };

typedef struct plan_options {
    const char *model, *draft, *device, *out, *network, *node_network, *device_profile, *write_profile;
    cli_split split;
    int32_t n_context, n_batch, n_source, n_beams, kv_type, format;
    int32_t max_seqs, kv_tokens, step_tokens, n_ranks, n_nodes, dtype;
    clef_compile_opts compile;
} plan_options;

static const plan_options plan_defaults = {.n_context = -1, .format = -1};

static const char *const formats[] = {"text", "json", "svg", "html", NULL};
static const cli_writer writers[] = {cli_memory_text, cli_memory_json, cli_memory_svg, cli_memory_html};

/* clang-format off */
#define AT(field) .offset = offsetof(plan_options, field)
static const cli_option plan_option_table[] = {
    MODEL_OPTION(plan_options),
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "CTX", AT(n_context), .lo = 0,
     .hi = INT32_MAX,
     .help = "positions of the context; 0: as many as the model has [the model's, at most 4096]"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(n_batch), .lo = 1,
     .hi = INT32_MAX, .help = "prompt tokens per step [512]"},
    {.names = "source-size", .type = CLI_INT, .value = "N", AT(n_source), .lo = 1, .hi = INT32_MAX,
     .help = "tokens of an encoder-decoder's source [the model's]"},
    {.names = "beams", .type = CLI_INT, .value = "N", AT(n_beams), .lo = 0, .hi = 64,
     .help = "beams of a beam search [none]"},
    {.names = "max-seqs", .type = CLI_INT, .value = "N", AT(max_seqs), .lo = 1, .hi = 4096,
     .help = "sequences that run at once, as with clef run --max-seqs"},
    {.names = "kv-tokens", .type = CLI_INT, .value = "N", AT(kv_tokens), .lo = 1, .hi = INT32_MAX,
     .help = "with --max-seqs: positions of their KV cache [what N contexts need, or what memory holds]"},
    {.names = "step-tokens", .type = CLI_INT, .value = "N", AT(step_tokens), .lo = 1, .hi = 65536,
     .help = "with --max-seqs: tokens of all sequences per step [512, on a CPU 256]"},
    {.names = "draft", .type = CLI_TEXT, .value = "MODEL", AT(draft),
     .help = "with --max-seqs: a model that drafts tokens, as with clef run --draft"},
    KV_TYPE_OPTION(plan_options),
    DEVICES_OPTION(plan_options),
    GEMM_OPTION(plan_options),
    EXACT_OPTION(plan_options),
    {.names = "dtype", .type = CLI_CHOICE, .value = "TYPE", AT(dtype), .choices = cli_shape_dtype_names,
     .help = "of a MODEL that is only a config.json: the number format of its matrices [f16]"},
    {.names = "ranks", .type = CLI_INT, .value = "N", AT(n_ranks), .lo = 1, .hi = 65536,
     .help = "predict how fast N ranks would run the model, for every layout (--tp and --pp choose one)"},
    {.names = "nodes", .type = CLI_INT, .value = "N", AT(n_nodes), .lo = 1, .hi = 65536,
     .help = "with --ranks: machines, which have as many ranks each [1]"},
    {.names = "network", .type = CLI_TEXT, .value = "25Gbit,20us|FILE", AT(network),
     .help = "with --ranks: rate and latency between nodes, or a table of clef bench --network"},
    {.names = "node-network", .type = CLI_TEXT, .value = "100Gbit,2us|FILE", AT(node_network),
     .help = "with --ranks: the same between the ranks of a node [that of --network]"},
    {.names = "device-profile", .type = CLI_TEXT, .value = "FILE", AT(device_profile),
     .help = "with --ranks: the speed and the memory that each rank has [those of the device]"},
    {.names = "write-device-profile", .type = CLI_TEXT, .value = "FILE", AT(write_profile),
     .help = "measure the device, write such a file and do nothing else"},
    {.names = "format", .type = CLI_CHOICE, .value = "HOW", AT(format), .choices = formats,
     .help = "output format [by the ending of FILE, else text]"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FILE", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = NULL},
};
/* clang-format on */

/** State of the command; close_all() accepts it in any state. */
typedef struct work {
    const plan_options *o;
    clef_device *device;
    clef_model *model, *draft;
    clef_session *session; /* of decoders and encoder-decoders */
    clef_batch *batch;     /* with --max-seqs, of both */
    clef_plan *encoder;    /* of encoders */
    memory_plan plan;
} work;

/* Adds up the bytes of the arena that are in use at each value. */
static clef_status find_peak(memory_part *p, clef_error *err)
{
    uint64_t *live = calloc((size_t)p->n_values + 2, sizeof *live), now = 0;
    if (!live)
        return cli_error(err, CLEF_E_NOMEM, "plan: out of host memory");
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const clef_plan_tensor *t = &p->tensors[i];
        const int32_t last = t->last < p->n_values ? t->last : p->n_values;
        if (t->in_place_of) /* the first of a chain lives as long as the whole chain */
            continue;
        live[t->first] += t->bytes;
        live[last + 1] -= t->bytes;
    }
    for (int32_t i = 0; i < p->n_values; i++) {
        now += live[i];
        if (now > p->live_peak) {
            p->live_peak = now;
            p->peak_at = i;
        }
    }
    free(live);
    return CLEF_OK;
}

static clef_status add_stage(memory_plan *m, const char *name, const clef_plan *plan, clef_error *err)
{
    memory_part *p = &m->parts[m->n_parts++];
    *p = (memory_part){.plan = plan, .stats = clef_plan_describe(plan)};
    const clef_device_info *d = clef_device_describe(clef_plan_device(plan));
    if (clef_device_part(m->device, 1))
        snprintf(p->name, sizeof p->name, "%s on %" PRId32 ":%" PRId32 " %s", name, d->platform, d->index,
                 d->name);
    else
        snprintf(p->name, sizeof p->name, "%s", name);
    p->n_values = clef_graph_n_values(clef_plan_graph(plan));
    p->n_tensors = clef_plan_tensors(plan, NULL, 0);
    p->tensors = calloc((size_t)p->n_tensors + 1, sizeof *p->tensors);
    if (!p->tensors)
        return cli_error(err, CLEF_E_NOMEM, "plan: out of host memory");
    clef_plan_tensors(plan, p->tensors, p->n_tensors);
    return find_peak(p, err);
}

/* Adds a part for each device. */
static clef_status add_part(memory_plan *m, const char *name, const clef_plan *plan, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; clef_plan_stage(plan, i) && status == CLEF_OK; i++) {
        if (m->n_parts == MEMORY_MAX_PARTS)
            return cli_error(err, CLEF_E_LIMIT, "plan: more than %d parts", MEMORY_MAX_PARTS);
        status = add_stage(m, i && m->has_experts_apart ? "experts" : name, clef_plan_stage(plan, i), err);
    }
    return status;
}

static clef_status plan_encoder(work *w, const clef_graph *graph, clef_error *err)
{
    const clef_plan_opts opts = {
        .compile = w->o->compile, .describe_only = 1, .weights = clef_model_weight, .weights_user = w->model};
    const clef_status status = clef_plan_create(w->device, graph, &opts, &w->encoder, err);
    return status == CLEF_OK ? add_part(&w->plan, "a text", w->encoder, err) : status;
}

static clef_status plan_session(work *w, clef_error *err)
{
    const plan_options *o = w->o;
    const clef_session_opts opts = {.n_context = w->plan.n_context,
                                    .n_batch = o->n_batch,
                                    .n_source = o->n_source,
                                    .n_beams = o->n_beams,
                                    .kv_type = cli_kv_type(w->model, o->kv_type, o->compile.exact),
                                    .compile = o->compile,
                                    .describe_only = 1};
    clef_status status = clef_session_create(w->device, w->model, &opts, &w->session, err);
    if (status == CLEF_OK)
        status = add_part(&w->plan, clef_session_plan(w->session, 1) ? "decoder" : "model",
                          clef_session_plan(w->session, 0), err);
    if (status == CLEF_OK && clef_session_plan(w->session, 1))
        status = add_part(&w->plan, "encoder", clef_session_plan(w->session, 1), err);
    return status;
}

/* What the size of the pool comes from. */
static const char *limit_of(const memory_plan *m, int32_t kv_tokens)
{
    const int64_t page = m->pool.kv_tokens / m->pool.n_pages,
                  most = (m->n_context + page - 1) / page * page * m->n_sequences;
    return kv_tokens ? "--kv-tokens" : m->pool.kv_tokens < most ? "memory" : "context of each sequence";
}

static clef_status plan_batch(work *w, clef_error *err)
{
    const plan_options *o = w->o;
    const clef_batch_opts opts = {.n_context = w->plan.n_context,
                                  .max_sequences = o->max_seqs,
                                  .step_tokens = o->step_tokens,
                                  .kv_tokens = o->kv_tokens,
                                  .n_source = o->n_source,
                                  .kv_type = cli_kv_type(w->model, o->kv_type, o->compile.exact),
                                  .draft = w->draft,
                                  .describe_only = 1,
                                  .compile = o->compile};
    clef_status status = clef_batch_create(w->device, w->model, &opts, &w->batch, err);
    if (status != CLEF_OK)
        return status;
    const clef_plan *encoder = clef_batch_plan(w->batch, 1);
    w->plan.n_sequences = o->max_seqs;
    w->plan.pool = clef_batch_describe(w->batch);
    w->plan.limit = limit_of(&w->plan, o->kv_tokens);
    status = add_part(&w->plan, encoder ? "decoder" : "model", clef_batch_plan(w->batch, 0), err);
    if (status == CLEF_OK && encoder)
        status = add_part(&w->plan, "encoder", encoder, err);
    const clef_plan *draft = clef_batch_plan(w->batch, 2);
    return status == CLEF_OK && draft ? add_part(&w->plan, "draft", draft, err) : status;
}

static int32_t context_of(const work *w)
{
    const clef_hparams *hp = clef_model_hparams(w->model);
    const int32_t given = w->o->n_context, own = hp->n_context > 0 ? hp->n_context : MAX_DEFAULT_CONTEXT;
    return given > 0 ? given : given == 0 || own < MAX_DEFAULT_CONTEXT ? own : MAX_DEFAULT_CONTEXT;
}

static clef_dtype kv_type_of(const work *w, const char *path)
{
    const int32_t choice = w->o->kv_type;
    if (cli_is_shape_file(path) && !choice && !w->o->compile.exact)
        return strcmp(cli_shape_dtype_names[w->o->dtype], "f32") == 0 ? CLEF_F32 : CLEF_F16;
    return cli_kv_type(w->model, choice, w->o->compile.exact);
}

static void close_all(work *w)
{
    for (int32_t i = 0; i < w->plan.n_parts; i++)
        free(w->plan.parts[i].tensors);
    clef_session_destroy(w->session);
    clef_batch_destroy(w->batch);
    clef_plan_destroy(w->encoder);
    clef_device_close(w->device);
    clef_model_close(w->draft);
    clef_model_close(w->model);
}

/* ---- --ranks --------------------------------------------------------------------------------- */

static clef_status find_machine(work *w, cli_scaling_machine *m, clef_error *err)
{
    const plan_options *o = w->o;
    *m = (cli_scaling_machine){
        .n_ranks = o->n_ranks, .n_nodes = o->n_nodes ? o->n_nodes : 1, .wire = o->split.wire};
    const char *within = o->node_network ? o->node_network : o->network;
    clef_status status = CLEF_OK;
    if (!within && m->n_ranks == 1)
        m->within = m->between = (cli_link){.bytes_per_second = 1e9};
    else if (!within || (!o->network && m->n_nodes > 1))
        status = cli_error(err, CLEF_E_ARG, "--ranks: expected --network RATE,LATENCY, such as 25Gbit,20us");
    else
        status = cli_link_read(o->node_network ? "--node-network" : "--network", within, &m->within, err);
    if (status == CLEF_OK && o->network)
        status = cli_link_read("--network", o->network, &m->between, err);
    if (status != CLEF_OK || o->device_profile)
        return status ? status : cli_device_profile_read(o->device_profile, &m->device, err);
    status = clef_device_open(o->device, &(clef_device_opts){.notice = cli_say_notice}, &w->device, err);
    return status ? status : cli_device_profile_measure(w->device, 0, &m->device, err);
}

static clef_status predict(work *w, const char *path, cli_scaling *s, clef_error *err)
{
    const plan_options *o = w->o;
    clef_graph *graph = NULL;
    clef_status status = find_machine(w, &s->machine, err);
    if (status == CLEF_OK)
        status = cli_model_open_to_plan(path, o->dtype, &w->model, err);
    if (status != CLEF_OK)
        return status;
    const int32_t n_prompt = o->n_batch ? o->n_batch : DEFAULT_BATCH;
    s->title = cli_title_of(path);
    s->n_context = context_of(w);
    s->n_prompt = n_prompt < s->n_context ? n_prompt : s->n_context;
    const clef_build_opts build = {.n_context = s->n_context,
                                   .n_batch = s->n_prompt,
                                   .n_sequences = 1,
                                   .part = clef_model_hparams(w->model)->n_decoder_layers ? CLEF_PART_DECODER
                                                                                          : CLEF_PART_WHOLE,
                                   .kv_type = kv_type_of(w, path)};
    status = clef_model_build(w->model, &build, &graph, err);
    if (status == CLEF_OK)
        status = clef_graph_optimize(graph, NULL, err);
    if (status == CLEF_OK)
        status = cli_scaling_predict(graph, o->split.width, o->split.stages, s, err);
    clef_graph_destroy(graph);
    return status;
}

static int run_ranks(work *w, const char *path)
{
    static const cli_writer forms[] = {cli_scaling_text, cli_scaling_json};
    clef_error err = {0};
    cli_scaling s = {0};
    const int32_t format = cli_format_of("plan", formats, "txt", w->o->format, w->o->out);
    if (format < 0)
        return CLI_USAGE;
    if (format > 1)
        return cli_fail(CLI_USAGE, "plan: --ranks: expected --format text or json, got %s", formats[format]);
    clef_status status = predict(w, path, &s, &err);
    if (status == CLEF_OK)
        status = cli_output(w->o->out, forms[format], &s, &err);
    close_all(w);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

static clef_status write_profile(void *user, FILE *to, clef_error *err)
{
    cli_device_profile_write(user, to);
    return fflush(to) == 0 && !ferror(to) ? CLEF_OK
                                          : cli_error(err, CLEF_E_IO, "plan: cannot write the profile");
}

static int run_profile(work *w)
{
    clef_error err = {0};
    cli_device_profile profile;
    clef_status status =
        clef_device_open(w->o->device, &(clef_device_opts){.notice = cli_say_notice}, &w->device, &err);
    if (status == CLEF_OK)
        status = cli_device_profile_measure(w->device, 1, &profile, &err);
    if (status == CLEF_OK)
        status = cli_output(w->o->write_profile, write_profile, &profile, &err);
    close_all(w);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

static clef_status make_plan(work *w, const char *path, clef_error *err)
{
    const plan_options *o = w->o;
    clef_graph *graph = NULL;
    clef_status status = clef_model_open(path, &w->model, err);
    if (status == CLEF_OK && o->draft)
        status = clef_model_open(o->draft, &w->draft, err);
    if (status != CLEF_OK)
        return status;
    const clef_hparams *hp = clef_model_hparams(w->model);
    w->plan.n_context = context_of(w);
    const clef_build_opts build = {
        .n_context = w->plan.n_context, .n_batch = w->plan.n_context, .n_sequences = 1};
    status = cli_devices_open(o->device, &o->split, NULL, &w->device, err);
    w->plan.device = w->device;
    w->plan.has_experts_apart = o->split.experts_on != NULL;
    if (status == CLEF_OK)
        status = clef_model_build(w->model, &build, &graph, err);
    if (status == CLEF_OK && !clef_graph_find(graph, "pos") &&
        !hp->n_decoder_layers) { /* no cache: it runs whole texts */
        if (o->max_seqs)
            status = cli_error(err, CLEF_E_UNSUPPORTED, "plan: --max-seqs: %s generates no text", path);
        else
            status = clef_graph_optimize(graph, NULL, err);
        if (status == CLEF_OK)
            status = plan_encoder(w, graph, err);
    } else if (status == CLEF_OK) {
        w->plan.kv_type = clef_dtype_name(cli_kv_type(w->model, o->kv_type, o->compile.exact));
        status = o->max_seqs ? plan_batch(w, err) : plan_session(w, err);
    }
    clef_graph_destroy(graph);
    return status;
}

/* What --ranks does not take, and what needs it. */
static int check_ranks(const plan_options *o)
{
    const char *needs = o->n_nodes          ? "--nodes"
                        : o->network        ? "--network"
                        : o->node_network   ? "--node-network"
                        : o->device_profile ? "--device-profile"
                                            : NULL;
    const char *excluded = o->max_seqs   ? "--max-seqs"
                           : o->n_beams  ? "--beams"
                           : o->n_source ? "--source-size"
                                         : NULL;
    if (!o->n_ranks && needs)
        return cli_fail(CLI_USAGE, "plan: %s needs --ranks", needs);
    if (o->n_ranks && excluded)
        return cli_fail(CLI_USAGE, "plan: --ranks excludes %s", excluded);
    return CLI_GO_ON;
}

static int plan_run(const void *options, int32_t n_args, char **args)
{
    work w = {.o = options};
    clef_error err = {0};
    const int rc = check_ranks(w.o);
    if (rc != CLI_GO_ON)
        return rc;
    if (w.o->write_profile)
        return run_profile(&w);
    const char *path = cli_model_path("plan", n_args, args, w.o->model);
    if (!path)
        return n_args > 0 && w.o->model ? CLI_USAGE : CLI_FAILED;
    if (w.o->n_ranks)
        return run_ranks(&w, path);
    if (cli_is_shape_file(path))
        return cli_fail(CLI_FAILED, "plan: %s has no weights: expected --ranks N, which may be 1", path);
    if (!w.o->max_seqs && (w.o->kv_tokens || w.o->step_tokens || w.o->draft))
        return cli_fail(CLI_USAGE, "plan: %s needs --max-seqs",
                        w.o->kv_tokens     ? "--kv-tokens"
                        : w.o->step_tokens ? "--step-tokens"
                                           : "--draft");
    if (w.o->max_seqs && (w.o->n_beams || w.o->n_batch))
        return cli_fail(CLI_USAGE,
                        "plan: --max-seqs excludes --beams and --batch-size (it is --step-tokens there)");
    const int32_t format = cli_format_of("plan", formats, "txt", w.o->format, w.o->out);
    if (format < 0)
        return CLI_USAGE;
    w.plan.title = cli_title_of(path);
    clef_status status = make_plan(&w, path, &err);
    if (status == CLEF_OK)
        status = cli_output(w.o->out, writers[format], &w.plan, &err);
    close_all(&w);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_plan = {
    .name = "plan",
    .usage = "[MODEL] [-c CTX] [--kv-type TYPE] [--ranks N --network RATE,LATENCY] [-o FILE]",
    .summary = "Show how much memory a model needs, without loading it",
    .notes =
        "Shows what a run with these flags needs: weights, KV cache, arena (activations, which share "
        "memory when they are not alive at the same time), scratch, inputs and staging. FILE.svg and "
        "FILE.html draw the arena, each value as a rectangle of its lifetime and its place. With "
        "--max-seqs: what many sequences share, a pool of pages of 64 positions. The "
        "command reads no weights, builds no kernels and measures nothing.\n\n"
        "--ranks predicts the time per token and per prompt (of --batch-size tokens) on several ranks from "
        "the speed of a device and of the network, for each layout that the model allows. It is an "
        "estimate: kernels do not reach all of the device's speed. MODEL may be a config.json without "
        "weights. docs/scaling.md has the formulas.\n\n"
        "  clef plan llama-70b.json --ranks 8 --network 25Gbit,20us --device-profile gpu.txt\n",
    .options = plan_option_table,
    .first = "model ctx-size batch-size max-seqs draft kv-type device split dtype ranks nodes "
             "network format out",
    .max_args = 1,
    .defaults = &plan_defaults,
    .options_bytes = sizeof plan_defaults,
    .run = plan_run,
};

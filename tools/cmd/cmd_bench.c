/* clef bench: how fast a model runs on a device, and what the device's limits allow. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/output.h"
#include "tools/ranks.h"
#include "tools/terminal.h"

enum { DEFAULT_PROMPT = 512, DEFAULT_GEN = 64, MAX_DEVICES = 16 };

static const bench_options bench_defaults = {
    .n_prompt = -1, .n_gen = -1, .n_rounds = 3, .n_batch = 512, .pin = CLEF_PIN_AUTO};

/* clang-format off */
#define AT(field) .offset = offsetof(bench_options, field)
static const cli_option bench_option_table[] = {
    MODEL_OPTION(bench_options),
    {.names = "prompt", .letter = 'p', .type = CLI_INT, .value = "N", AT(n_prompt), .lo = 0, .hi = INT32_MAX,
     .help = "prompt tokens of the prefill; 0: none [512, or the model's context]"},
    {.names = "gen", .letter = 'n', .type = CLI_INT, .value = "N", AT(n_gen), .lo = 0, .hi = INT32_MAX,
     .help = "tokens to decode greedily; 0: none [64]"},
    {.names = "depth", .type = CLI_INT, .value = "N", AT(depth), .lo = 0, .hi = INT32_MAX,
     .help = "tokens in the KV cache before the decode [0]"},
    {.names = "rounds,repetitions", .letter = 'r', .type = CLI_INT, .value = "N", AT(n_rounds), .lo = 1,
     .hi = BENCH_MAX_ROUNDS, .help = "rounds of each measurement, after one round to warm up [3]"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(n_batch), .lo = 1, .hi = 65536,
     .help = "prompt tokens per step [512]"},
    {.names = "batch", .type = CLI_TEXT, .value = "1,2,4", AT(batch),
     .help = "measure so many sequences that generate at once, with prompts of --prompt tokens [64], and the "
             "gap in a text while a long prompt comes in"},
    {.names = "spec", .type = CLI_TEXT, .value = "ngram[:MIN,MAX]|draft", AT(speculation.spec),
     .help = "measure speculation, as with clef run --spec or --draft, for a text that repeats with small "
             "edits and for plain prose"},
    SPECULATION_OPTIONS(bench_options, speculation),
    {.names = "step-tokens", .type = CLI_INT, .value = "N", AT(step_tokens), .lo = 1, .hi = 65536,
     .help = "with --batch: tokens of all sequences per step [512, on a CPU 256]"},
    {.names = "repeatable", .type = CLI_SWITCH, AT(repeatable),
     .help = "with --batch: a text does not depend on the others, not even in the last bits"},
    THREADS_OPTION(bench_options),
    PIN_OPTION(bench_options),
    KV_TYPE_OPTION(bench_options),
    {.names = "json", .type = CLI_SWITCH, AT(json), .help = "print each figure as one line of JSON"},
    {.names = "md", .type = CLI_SWITCH, AT(md), .help = "print the table in Markdown"},
    {.names = "profile", .type = CLI_SWITCH, AT(profile),
     .help = "print where one prefill and one decode step spend their time"},
    {.names = "trace", .type = CLI_TEXT, .value = "FILE", AT(trace),
     .help = "with --profile: also write trace events for Perfetto (ui.perfetto.dev), or a page if FILE "
             "ends in .html"},
    {.names = "device", .type = CLI_SWITCH, AT(of_device),
     .help = "measure only the device: memory, arithmetic, launches"},
    {.names = "network", .type = CLI_SWITCH, AT(network),
     .help = "under mpirun: measure only what exchanges between the ranks take, by size; clef plan --network "
             "reads the table"},
    {.names = "product", .type = CLI_TEXT, .value = "MxNxK,..", AT(product),
     .help = "measure only matrix products of these sizes, with all kernels that can do them or with --gemm"},
    {.names = "use-device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE", AT(device),
     .env = "CLEF_DEVICE",
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef "
             "devices`. A,B splits the layers over two devices"},
    {.names = "split", .type = CLI_TEXT, .value = "60,40", AT(split.shares),
     .help = "with several devices: each one's share of the layers [by measured speed, within memory]"},
    RANKS_OPTIONS(offsetof(bench_options, split)),
    COMPILE_OPTIONS(bench_options),
    QUIET_OPTION(bench_options),
    {.names = NULL},
};
/* clang-format on */

/* ---- opening --------------------------------------------------------------------------------- */

static int open_device(bench *b)
{
    clef_error err = {0};
    const clef_device_opts opts = {.notice = cli_say_notice,
                                   .no_background = 1,
                                   .profile = b->o->profile || b->o->product,
                                   .n_threads = b->o->n_threads,
                                   .pin = (clef_pin)b->o->pin,
                                   .progress = cli_progress_step,
                                   .progress_user = &b->progress};
    if (cli_devices_open(b->o->device, &b->o->split, &opts, &b->device, &err) != CLEF_OK)
        return cli_report(&err);
    const char *alone = b->o->profile     ? "--profile"
                        : b->o->of_device ? "--device"
                        : b->o->product   ? "--product"
                                          : NULL;
    const int rc = alone ? cli_one_device(b->device, "bench", alone) : CLI_GO_ON;
    if (rc != CLI_GO_ON)
        return rc;
    b->n_threads = b->o->n_threads ? b->o->n_threads : clef_device_describe(b->device)->caps.n_units;
    return CLI_GO_ON;
}

/* Chooses the lengths to measure, within the model's context. */
static int choose_sizes(bench *b)
{
    const bench_options *o = b->o;
    const clef_hparams *hp = clef_model_hparams(b->model);
    const int32_t room = hp->n_context;
    b->n_prompt = o->n_prompt >= 0 ? o->n_prompt : room < DEFAULT_PROMPT ? room : DEFAULT_PROMPT;
    if (b->n_prompt > room)
        return cli_fail(CLI_FAILED, "bench: --prompt %" PRId32 ": the model's context holds %" PRId32,
                        b->n_prompt, room);
    if (o->depth > room)
        return cli_fail(CLI_FAILED, "bench: --depth %" PRId32 ": the model's context holds %" PRId32,
                        o->depth, room);
    b->n_gen = o->n_gen >= 0 ? o->n_gen : room - o->depth < DEFAULT_GEN ? room - o->depth : DEFAULT_GEN;
    if (b->n_gen > room - o->depth)
        return cli_fail(CLI_FAILED,
                        "bench: --gen %" PRId32 " after %" PRId32 ": the model's context holds %" PRId32,
                        b->n_gen, o->depth, room);
    if (b->n_prompt == 0 && b->n_gen == 0)
        return cli_fail(CLI_USAGE, "bench: expected --prompt or --gen above 0: there is nothing to measure");

    const int32_t n = b->n_prompt > o->depth ? b->n_prompt : o->depth;
    const int32_t n_ids = hp->n_vocab < 30000 ? hp->n_vocab : 30000;
    b->ids = malloc(((size_t)n + 1) * sizeof *b->ids);
    if (!b->ids)
        return cli_fail(CLI_FAILED, "bench: out of host memory");
    for (int32_t i = 0; i <= n; i++)
        b->ids[i] = (int32_t)((7 * (int64_t)i + 3) % n_ids); /* any ids will do: each token costs the same */
    return CLI_GO_ON;
}

/* Positions of the cache: the tokens that are fed, and a few more if the model has them. */
static int32_t context_of(const bench *b)
{
    const int32_t room = clef_model_hparams(b->model)->n_context, depth = b->o->depth + b->n_gen;
    const int32_t n = b->n_prompt > depth ? b->n_prompt : depth;
    return n < room - 8 ? n + 8 : room;
}

static int open_all(bench *b, const char *path)
{
    clef_error err = {0};
    const double start = cli_terminal_seconds();
    int rc = b->device ? CLI_GO_ON : open_device(b);
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_model_open(path, &b->model, &err) != CLEF_OK)
        return cli_report(&err);
    if (clef_model_hparams(b->model)->n_decoder_layers > 0)
        return cli_fail(CLI_FAILED, "bench: %s is an encoder-decoder (%s), expected a decoder", path,
                        clef_model_hparams(b->model)->arch);
    rc = choose_sizes(b);
    if (rc != CLI_GO_ON)
        return rc;
    const int32_t n_context = context_of(b);
    const clef_session_opts opts = {
        .n_context = n_context,
        .n_batch = b->o->n_batch < n_context ? b->o->n_batch : n_context,
        .compile = cli_compile_opts(&b->o->compile, &b->progress),
        .kv_type = cli_kv_type(b->model, b->o->kv_type, b->o->compile.exact),
    };
    if (clef_session_create(b->device, b->model, &opts, &b->session, &err) != CLEF_OK)
        return cli_report(&err);
    b->load_seconds = cli_terminal_seconds() - start;
    if (cli_bench_decode(b, 1, NULL, NULL, &err) != CLEF_OK)
        return cli_report(&err);
    b->first_seconds = cli_terminal_seconds() - start;
    return CLI_GO_ON;
}

/* Closes the model; the device may be measured afterwards. */
static void close_model(bench *b)
{
    cli_progress_finish(&b->progress);
    clef_session_destroy(b->session);
    clef_model_close(b->model);
    free(b->ids);
    b->session = NULL;
    b->model = NULL;
    b->ids = NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static clef_status decode_round(bench *b, double *seconds, double *flops, double *bytes, clef_error *err)
{
    clef_status status = clef_session_reset(b->session, err);
    if (status == CLEF_OK && b->o->depth)
        status = cli_bench_feed(b, b->o->depth, NULL, NULL, err);
    const double start = cli_terminal_seconds();
    if (status == CLEF_OK)
        status = cli_bench_decode(b, b->n_gen, flops, bytes, err);
    *seconds = cli_terminal_seconds() - start;
    return status;
}

/* Bytes that each rank sends for n generated tokens and what begins them. */
static clef_status sent_for(bench *b, int32_t n, uint64_t **out, int32_t *n_ranks, clef_error *err)
{
    uint64_t *before = NULL;
    clef_status status = clef_session_reset(b->session, err);
    if (status == CLEF_OK)
        status = cli_ranks_sent(&before, n_ranks, err);
    if (status == CLEF_OK)
        status = cli_bench_decode(b, n, NULL, NULL, err);
    if (status == CLEF_OK)
        status = cli_ranks_sent(out, n_ranks, err);
    for (int32_t i = 0; status == CLEF_OK && i < *n_ranks; i++)
        (*out)[i] -= before[i];
    free(before);
    return status;
}

/* What a further token adds. */
static clef_status measure_sent(bench *b, bench_rate *rate, clef_error *err)
{
    uint64_t *one = NULL, *all = NULL;
    int32_t n_ranks = 0;
    clef_status status = sent_for(b, 1, &one, &n_ranks, err);
    if (status == CLEF_OK && n_ranks && b->n_gen > 1)
        status = sent_for(b, b->n_gen, &all, &n_ranks, err);
    for (int32_t i = 0; status == CLEF_OK && all && i < n_ranks; i++) {
        const double sent = (double)(all[i] - one[i]) / (b->n_gen - 1);
        rate->sent_bytes = sent > rate->sent_bytes ? sent : rate->sent_bytes;
    }
    free(all);
    free(one);
    return status;
}

static clef_status prefill_round(bench *b, double *seconds, double *flops, double *bytes, clef_error *err)
{
    clef_status status = clef_session_reset(b->session, err);
    const double start = cli_terminal_seconds();
    if (status == CLEF_OK)
        status = cli_bench_feed(b, b->n_prompt, flops, bytes, err);
    *seconds = cli_terminal_seconds() - start;
    return status == CLEF_OK ? cli_bench_interrupted(err) : status;
}

/* Runs a round that does not count, in which the costs are added up, then the rounds that count. */
static clef_status measure_rate(bench *b, bench_rate rate,
                                clef_status (*round)(bench *, double *, double *, double *, clef_error *),
                                clef_error *err)
{
    double seconds = 0;
    clef_status status = round(b, &seconds, &rate.flops, &rate.bytes, err);
    for (int32_t i = 0; i < b->o->n_rounds && status == CLEF_OK; i++) {
        cli_progress_step(&b->progress, rate.what, (uint64_t)i, (uint64_t)b->o->n_rounds);
        status = round(b, &seconds, NULL, NULL, err);
        rate.samples[rate.n_samples++] = seconds > 0 ? rate.n_tokens / seconds : 0;
    }
    if (status == CLEF_OK)
        b->rates[b->n_rates++] = rate;
    return status;
}

static int measure_model(bench *b)
{
    clef_error err = {0};
    clef_status status = CLEF_OK;
    if (b->n_prompt)
        status =
            measure_rate(b, (bench_rate){.what = "prefill", .n_tokens = b->n_prompt}, prefill_round, &err);
    if (b->n_gen && status == CLEF_OK)
        status = measure_rate(b, (bench_rate){.what = "decode", .n_tokens = b->n_gen, .depth = b->o->depth},
                              decode_round, &err);
    if (b->n_gen > 1 && clef_ranks_started() > 1 && status == CLEF_OK)
        status = measure_sent(b, &b->rates[b->n_rates - 1], &err);
    b->peak_rss = cli_terminal_peak_rss();
    cli_progress_finish(&b->progress);
    return status == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int bench_device(bench *b)
{
    clef_error err = {0};
    clef_device_speed speed;
    const int rc = open_device(b);
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_device_measure(b->device, &speed, &err) != CLEF_OK)
        return cli_report(&err);
    cli_bench_print_speed(b, &speed);
    return CLI_OK;
}

static int bench_batches(bench *b, const char *path)
{
    const int rc = open_device(b);
    return rc == CLI_GO_ON ? cli_bench_batch(b, path) : rc;
}

static int bench_speculation(bench *b, const char *path)
{
    const int rc = open_device(b);
    return rc == CLI_GO_ON ? cli_bench_spec(b, path) : rc;
}

static int bench_products(bench *b)
{
    const int rc = open_device(b);
    return rc == CLI_GO_ON ? cli_bench_product(b) : rc;
}

/* Measured limits of the devices. Several devices work one after the other, so each is weighted by the bytes
 * and operations of its layers. */
static clef_status measure_limits(bench *b, clef_device_speed *out, clef_error *err)
{
    clef_plan_stats of[MAX_DEVICES], all = clef_session_describe(b->session);
    int32_t n = 0;
    for (const clef_plan *stage;
         n < MAX_DEVICES && (stage = clef_plan_stage(clef_session_plan(b->session, 0), n)); n++)
        of[n] = clef_plan_describe(stage);
    clef_session_destroy(b->session); /* releases its memory before the device is measured */
    b->session = NULL;
    clef_status status = clef_device_measure(b->device, out, err);
    if (n < 2 || status != CLEF_OK)
        return status;
    double read = 0, mad = 0, dot = 0, tile = 0;
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        clef_device_speed s = *out;
        status = i ? clef_device_measure(clef_device_part(b->device, i), &s, err) : CLEF_OK;
        read += of[i].run_bytes / s.read_gb_s;
        mad += of[i].run_flops / s.mad_gflop_s;
        dot += of[i].run_flops / (s.dot_gop_s > 0 ? s.dot_gop_s : s.mad_gflop_s);
        tile += of[i].run_flops / (s.tile_gop_s > 0  ? s.tile_gop_s
                                   : s.dot_gop_s > 0 ? s.dot_gop_s
                                                     : s.mad_gflop_s);
    }
    out->read_gb_s = all.run_bytes / read;
    out->mad_gflop_s = all.run_flops / mad;
    out->dot_gop_s = out->dot_gop_s > 0 ? all.run_flops / dot : 0;
    out->tile_gop_s = out->tile_gop_s > 0 ? all.run_flops / tile : 0;
    return status;
}

static int bench_model(bench *b, const char *path)
{
    clef_error err = {0};
    clef_device_speed speed = {0};
    int rc = b->o->profile ? open_device(b) : CLI_GO_ON;
    if (rc == CLI_GO_ON && b->o->profile && clef_device_measure(b->device, &b->speed, &err) != CLEF_OK)
        rc = cli_report(&err); /* before the model is loaded, which may leave too little memory */
    if (rc == CLI_GO_ON)
        rc = open_all(b, path);
    if (rc == CLI_GO_ON && b->o->profile)
        return cli_bench_profile(b);
    if (rc == CLI_GO_ON)
        rc = measure_model(b);
    if (rc != CLI_GO_ON)
        return rc;
    if (b->o->json) {
        cli_bench_print_json(b);
        return CLI_OK;
    }
    if (measure_limits(b, &speed, &err) != CLEF_OK)
        return cli_report(&err);
    cli_bench_print_table(b, &speed);
    return CLI_OK;
}

static int measures_speculation(const bench_options *o)
{
    return o->speculation.spec || o->speculation.draft;
}

static int check_batch(const bench_options *o)
{
    if (!o->batch && !measures_speculation(o) && (o->repeatable || o->step_tokens))
        return cli_fail(CLI_USAGE, "bench: %s needs --batch or --spec",
                        o->repeatable ? "--repeatable" : "--step-tokens");
    if (o->batch && (o->profile || o->of_device || o->product || o->depth))
        return cli_fail(CLI_USAGE, "bench: --batch excludes --profile, --device, --product and --depth");
    if (measures_speculation(o) && (o->batch || o->profile || o->of_device || o->product || o->depth))
        return cli_fail(CLI_USAGE,
                        "bench: --spec excludes --batch, --profile, --device, --product and --depth");
    return CLI_GO_ON;
}

static int bench_run(const void *options, int32_t n_args, char **args)
{
    bench_options with_batch = *(const bench_options *)options;
    const bench_options *o = &with_batch;
    bench b = {.o = o, .to = stdout};
    if (o->json + o->md > 1)
        return cli_fail(CLI_USAGE, "bench: expected --json or --md, not both");
    if (o->trace && !o->profile)
        return cli_fail(CLI_USAGE, "bench: --trace needs --profile");
    clef_error err = {0};
    if (cli_output_check(o->trace, &err) != CLEF_OK)
        return cli_report(&err);
    if (o->profile && o->json)
        return cli_fail(CLI_USAGE, "bench: --profile prints tables and excludes --json");
    if (o->of_device && (n_args || o->model || o->profile))
        return cli_fail(CLI_USAGE, "bench: --device measures the device alone and excludes MODEL and "
                                   "--profile; -d names a device");
    if (o->network && (o->of_device || o->product || o->batch || o->md || n_args || o->model || o->profile))
        return cli_fail(CLI_USAGE, "bench: --network measures the network alone, and takes only --json");
    if (o->network)
        return cli_bench_network(&b);
    if (o->product && (o->of_device || n_args || o->model || o->profile))
        return cli_fail(
            CLI_USAGE, "bench: --product measures products alone and excludes MODEL, --device and --profile");
    int fits = check_batch(o);
    if (fits == CLI_GO_ON)
        fits = cli_speculation_parse(&o->speculation, "bench", 1, &with_batch.spec_opts);
    if (fits != CLI_GO_ON)
        return fits;
    const int alone = o->of_device || o->product;
    const char *path = alone ? NULL : cli_model_path("bench", n_args, args, o->model);
    if (!path && !alone)
        return n_args > 0 ? CLI_USAGE : CLI_FAILED;
    cli_terminal_catch_interrupt();
    cli_progress_init(&b.progress, o->quiet);
    const int rc = o->product                ? bench_products(&b)
                   : o->of_device            ? bench_device(&b)
                   : o->batch                ? bench_batches(&b, path)
                   : measures_speculation(o) ? bench_speculation(&b, path)
                                             : bench_model(&b, path);
    close_model(&b);
    clef_device_close(b.device);
    cli_progress_finish(&b.progress);
    return rc;
}

const cli_command cli_command_bench = {
    .name = "bench",
    .usage = "[MODEL] [FLAGS] | --device | --network | --product MxNxK",
    .summary = "Measure how fast a model runs and what the device allows",
    .notes =
        "prefill: a prompt into an empty cache, up to the logits of its last token. decode: greedy "
        "generation, after --depth other tokens. Each figure is the best of the rounds. load: the time "
        "from start to a session; first token: from start to the first token.\n\nThe limits are "
        "measured on the device right after the model (--device). Decode is compared with the speed of "
        "reading memory. Prefill is compared with f32 multiply-adds or, for quantised weights, with "
        "products of bytes. --profile slows the device slightly.\n\n--batch: the tokens per second of all "
        "sequences "
        "together and of each while all of them generate, the ratio to the first row, and the time between "
        "two tokens of a sequence: half of the gaps, and 99 % of them, are not longer. With prompts: all "
        "tokens "
        "generated, by the time from the first prompt's begin.\n\n--spec: one "
        "sequence, without and with suggestions "
        "in turn. ngram: the steps of a known text, so that the gain does not depend on what the model would "
        "write; draft: the model's own text after the same prompts.\n",
    .options = bench_option_table,
    .max_args = 1,
    .defaults = &bench_defaults,
    .options_bytes = sizeof bench_defaults,
    .run = bench_run,
};

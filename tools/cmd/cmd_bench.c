/* clef bench: how fast a model runs on a device, and what the device's limits allow. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/cli/output.h"
#include "tools/cli/terminal.h"

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
    {.names = "spec", .type = CLI_TEXT, .value = "ngram[:MIN,MAX]|draft|mtp", AT(speculation.spec),
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
    {.names = "report", .type = CLI_TEXT, .value = "FILE", AT(report),
     .help = "write a file about this device for an issue: driver, capabilities, kernels that are set aside, "
             "and the speed of the bundled model and of MODEL; nothing private is in it"},
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
    SPLIT_OPTIONS(offsetof(bench_options, split)),
    COMPILE_OPTIONS(bench_options),
    QUIET_OPTION(bench_options),
    {.names = NULL},
};
/* clang-format on */

/* ---- the command ----------------------------------------------------------------------------- */

static int bench_device(bench *b)
{
    clef_error err = {0};
    clef_device_speed speed;
    const int rc = cli_bench_open_device(b);
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_device_measure(b->device, &speed, &err) != CLEF_OK)
        return cli_report(&err);
    cli_bench_print_speed(b, &speed);
    return CLI_OK;
}

static int bench_batches(bench *b, const char *path)
{
    const int rc = cli_bench_open_device(b);
    return rc == CLI_GO_ON ? cli_bench_batch(b, path) : rc;
}

static int bench_speculation(bench *b, const char *path)
{
    const int rc = cli_bench_open_device(b);
    return rc == CLI_GO_ON ? cli_bench_spec(b, path) : rc;
}

static int bench_products(bench *b)
{
    const int rc = cli_bench_open_device(b);
    return rc == CLI_GO_ON ? cli_bench_product(b) : rc;
}

static int bench_model(bench *b, const char *path)
{
    clef_error err = {0};
    clef_device_speed speed = {0};
    int rc = b->o->profile ? cli_bench_open_device(b) : CLI_GO_ON;
    if (rc == CLI_GO_ON && b->o->profile && clef_device_measure(b->device, &b->speed, &err) != CLEF_OK)
        rc = cli_report(&err); /* before the model is loaded, which may leave too little memory */
    if (rc == CLI_GO_ON)
        rc = cli_bench_open(b, path);
    if (rc == CLI_GO_ON && b->o->profile)
        return cli_bench_profile(b);
    if (rc == CLI_GO_ON)
        rc = cli_bench_measure(b);
    if (rc != CLI_GO_ON)
        return rc;
    if (b->o->json) {
        cli_bench_print_json(b);
        return CLI_OK;
    }
    if (cli_bench_limits(b, &speed, &err) != CLEF_OK)
        return cli_report(&err);
    cli_bench_print_table(b, &speed);
    return CLI_OK;
}

static int measures_speculation(const bench_options *o)
{
    return o->speculation.spec || o->speculation.draft;
}

static int check_report(const bench_options *o)
{
    if (o->report && (o->json || o->md || o->profile || o->of_device || o->network || o->product ||
                      o->batch || measures_speculation(o)))
        return cli_fail(CLI_USAGE, "bench: --report excludes --json, --md, --profile, --device, --network, "
                                   "--product, --batch and --spec");
    return CLI_GO_ON;
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
        fits = check_report(o);
    if (fits == CLI_GO_ON)
        fits = cli_speculation_parse(&o->speculation, "bench", 1, &with_batch.spec_opts);
    if (fits != CLI_GO_ON)
        return fits;
    const int alone = o->of_device || o->product;
    const int none_given = o->report && !n_args && !o->model; /* then only the bundled model */
    const char *path = alone || none_given ? NULL : cli_model_path("bench", n_args, args, o->model);
    if (!path && !alone && !none_given)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    cli_terminal_catch_interrupt();
    cli_progress_init(&b.progress, o->quiet);
    const int rc = o->report                 ? cli_bench_report(&b, path)
                   : o->product              ? bench_products(&b)
                   : o->of_device            ? bench_device(&b)
                   : o->batch                ? bench_batches(&b, path)
                   : measures_speculation(o) ? bench_speculation(&b, path)
                                             : bench_model(&b, path);
    cli_bench_close_model(&b);
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
        "sequence, without and with draft tokens "
        "in turn. ngram: the steps of a known text, so that the gain does not depend on what the model would "
        "write; draft: the model's own text after the same prompts.\n",
    .options = bench_option_table,
    .first = "model prompt gen depth rounds batch-size batch draft threads kv-type json md profile "
             "report device product use-device quiet",
    .max_args = 1,
    .defaults = &bench_defaults,
    .options_bytes = sizeof bench_defaults,
    .run = bench_run,
};

/* Opens the model and the device of a benchmark, and measures how many tokens a second they make. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/cli/terminal.h"
#include "tools/ranks.h"

enum { DEFAULT_PROMPT = 512, DEFAULT_GEN = 64, MAX_DEVICES = 16 };

/* ---- opening --------------------------------------------------------------------------------- */

int cli_bench_open_device(bench *b)
{
    clef_error err = {0};
    const clef_device_opts opts = {.notice = cli_say_notice,
                                   .no_background = 1,
                                   .profile = b->o->profile || b->o->product || b->is_profiled,
                                   .n_threads = b->o->n_threads,
                                   .pin = (clef_pin)b->o->pin,
                                   .progress = cli_progress_step,
                                   .progress_user = &b->progress};
    if (cli_devices_open(b->o->device, &b->o->split, &opts, &b->device, &err) != CLEF_OK)
        return cli_report(&err);
    const char *alone = b->o->profile     ? "--profile"
                        : b->o->of_device ? "--device"
                        : b->o->product   ? "--product"
                        : b->o->report    ? "--report"
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

int cli_bench_open_decoder(bench *b, const char *path)
{
    clef_error err = {0};
    if (clef_model_open(path, &b->model, &err) != CLEF_OK)
        return cli_report(&err);
    if (clef_model_hparams(b->model)->n_decoder_layers > 0)
        return cli_fail(CLI_FAILED, "bench: %s is an encoder-decoder (%s), expected a decoder", path,
                        clef_model_hparams(b->model)->arch);
    return CLI_GO_ON;
}

int cli_bench_open(bench *b, const char *path)
{
    clef_error err = {0};
    const double start = cli_terminal_seconds();
    int rc = b->device ? CLI_GO_ON : cli_bench_open_device(b);
    if (rc != CLI_GO_ON)
        return rc;
    rc = cli_bench_open_decoder(b, path);
    if (rc == CLI_GO_ON)
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
void cli_bench_close_model(bench *b)
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

int cli_bench_measure(bench *b)
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

/* Measured limits of the devices. Several devices work one after the other, so each is weighted by the bytes
 * and operations of its layers. */
clef_status cli_bench_limits(bench *b, clef_device_speed *out, clef_error *err)
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

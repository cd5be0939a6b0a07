/* Prints the figures of `clef bench`: as JSON lines, or as a table with their share of the device's
 * limits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/cli/json.h"

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_summary cli_bench_summary(const bench_rate *rate)
{
    bench_summary s = {0};
    double sorted[BENCH_MAX_ROUNDS];
    const int32_t n = rate->n_samples;
    if (n < 1)
        return s;
    memcpy(sorted, rate->samples, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    s.best = sorted[n - 1];
    s.median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    for (int32_t i = 0; i < n; i++)
        s.mean += sorted[i] / n;
    for (int32_t i = 0; i < n && n > 1; i++)
        s.stddev += (sorted[i] - s.mean) * (sorted[i] - s.mean) / (n - 1);
    s.stddev = sqrt(s.stddev);
    return s;
}

static const char *file_name(const char *path)
{
    const char *name = path;
    for (const char *s = path; *s; s++)
        if (*s == '/' && s[1])
            name = s + 1;
    return name;
}

/* "prefill512", "decode64", "decode64@d4096". */
static void rate_name(const bench_rate *rate, char out[64])
{
    if (rate->depth)
        snprintf(out, 64, "%s%" PRId32 "@d%" PRId32, rate->what, rate->n_tokens, rate->depth);
    else
        snprintf(out, 64, "%s%" PRId32, rate->what, rate->n_tokens);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static double round_digits(double x)
{
    return round(x * 1000) / 1000;
}

/* Writes a line up to the value's unit; the caller adds members and ends it. */
static int32_t begin_line(const bench *b, const char *what, double value, const char *unit)
{
    int32_t n = 0;
    putchar('{');
    cli_json_member_text(stdout, &n, "peer", "clef");
    if (b->model)
        cli_json_member_text(stdout, &n, "model", file_name(clef_model_path(b->model)));
    cli_json_member_text(stdout, &n, "what", what);
    cli_json_member_number(stdout, &n, "value", round_digits(value));
    cli_json_member_text(stdout, &n, "unit", unit);
    cli_json_member_number(stdout, &n, "threads", b->n_threads);
    cli_json_member_text(stdout, &n, "device", clef_device_describe(b->device)->name);
    return n;
}

static void end_line(void)
{
    puts("}");
    fflush(stdout);
}

static void print_plain_line(const bench *b, const char *what, double value, const char *unit)
{
    begin_line(b, what, value, unit);
    end_line();
}

void cli_bench_print_json(const bench *b)
{
    print_plain_line(b, "load", b->load_seconds, "s");
    print_plain_line(b, "first_token", b->first_seconds, "s");
    for (int32_t i = 0; i < b->n_rates; i++) {
        const bench_rate *rate = &b->rates[i];
        const bench_summary s = cli_bench_summary(rate);
        char name[64];
        rate_name(rate, name);
        int32_t n = begin_line(b, name, s.best, "tok/s");
        cli_json_member_number(stdout, &n, "depth", rate->depth);
        cli_json_member_number(stdout, &n, "median", round_digits(s.median));
        cli_json_member_number(stdout, &n, "mean", round_digits(s.mean));
        cli_json_member_number(stdout, &n, "stddev", round_digits(s.stddev));
        cli_json_member_number(stdout, &n, "gb_s",
                               round_digits(rate->bytes / rate->n_tokens * s.best * 1e-9));
        cli_json_member_number(stdout, &n, "gop_s",
                               round_digits(rate->flops / rate->n_tokens * s.best * 1e-9));
        if (rate->sent_bytes > 0)
            cli_json_member_number(stdout, &n, "sent_bytes", round_digits(rate->sent_bytes));
        cli_json_member(stdout, &n, "samples");
        putchar('[');
        for (int32_t k = 0; k < rate->n_samples; k++)
            printf("%s%.3f", k ? ", " : "", rate->samples[k]);
        putchar(']');
        end_line();
    }
    print_plain_line(b, "peak_rss", (double)b->peak_rss / 1048576, "MiB");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void print_device(const bench *b)
{
    const clef_device_info *d = clef_device_describe(b->device);
    printf("%" PRId32 ":%" PRId32 " %s (%s), %" PRId32 " %s", d->platform, d->index, d->name,
           d->platform_name, b->n_threads, d->caps.is_cpu ? "threads" : "units");
    for (int32_t i = 1; clef_device_part(b->device, i); i++) {
        const clef_device_info *more = clef_device_describe(clef_device_part(b->device, i));
        printf(", and %" PRId32 ":%" PRId32 " %s (%s)", more->platform, more->index, more->name,
               more->platform_name);
    }
}

/* 1 if the model's products multiply bytes: most of its weights are in blocks, and activations may be
 * quantised. */
static int multiplies_bytes(const bench *b)
{
    uint64_t blocks = 0, all = 0;
    for (int32_t i = 0; i < clef_model_n_tensors(b->model); i++) {
        const clef_tensor_info t = clef_model_tensor(b->model, i);
        all += t.n_bytes;
        blocks += clef_dtype_block_elems(t.dtype) > 1 ? t.n_bytes : 0;
    }
    return !b->o->compile.exact && blocks > all / 2;
}

double cli_bench_limit(const bench *b, const clef_device_speed *speed)
{
    enum { PLANES = 6 }; /* products of bf16 for each product of f32 (cl/panel/panel_cpu_gemm_amx.cl) */
    const int bytes = multiplies_bytes(b);
    const double tiles = bytes ? speed->tile_gop_s : speed->tile_gop_s / (double)PLANES;
    const double vectors = bytes && speed->dot_gop_s > 0 ? speed->dot_gop_s : speed->mad_gflop_s;
    return tiles > vectors ? tiles : vectors;
}

void cli_bench_print_table(const bench *b, const clef_device_speed *speed)
{
    const char *const row = b->o->md ? "| %s | %.2f | %.2f ± %.2f | %.1f %s | %.0f %% of %.1f |\n"
                                     : "%-18s %12.2f %12.2f ± %-8.2f %10.1f %-6s %4.0f %% of %.1f\n";
    const double multiply = cli_bench_limit(b, speed);
    printf("%s on ", file_name(clef_model_path(b->model)));
    print_device(b);
    printf(", best of %" PRId32 "\n", b->o->n_rounds);
    if (b->o->md)
        puts("\n| test | tok/s | mean ± stddev | at | of the device's limit |\n|---|---|---|---|---|");
    else
        printf("%-18s %12s %12s   %-8s %10s %-6s %s\n", "test", "tok/s", "mean", "stddev", "at", "",
               "of the device's limit");
    for (int32_t i = 0; i < b->n_rates; i++) {
        const bench_rate *rate = &b->rates[i];
        const bench_summary s = cli_bench_summary(rate);
        const int reads = strcmp(rate->what, "decode") == 0;
        const double at = (reads ? rate->bytes : rate->flops) / rate->n_tokens * s.best * 1e-9;
        const double limit = reads ? speed->read_gb_s : multiply;
        char name[64];
        rate_name(rate, name);
        printf(row, name, s.best, s.mean, s.stddev, at, reads ? "GB/s" : "Gop/s",
               limit > 0 ? 100 * at / limit : 0, limit);
    }
    if (b->n_rates && b->rates[b->n_rates - 1].sent_bytes > 0)
        printf("%sa rank sends at most %.0f bytes a token to others\n", b->o->md ? "\n" : "",
               b->rates[b->n_rates - 1].sent_bytes);
    printf("%sload %.3f s; first token after %.3f s; peak memory %.1f MiB\n", b->o->md ? "\n" : "",
           b->load_seconds, b->first_seconds, (double)b->peak_rss / 1048576);
}

void cli_bench_print_speed(const bench *b, const clef_device_speed *speed)
{
    const struct {
        const char *what, *unit, *label;
        double value;
    } rows[] = {
        {"read", "GB/s", "memory read", speed->read_gb_s},
        {"copy", "GB/s", "memory copied, read and written", speed->copy_gb_s},
        {"mad", "GFLOP/s", "f32 multiply-add", speed->mad_gflop_s},
        {"dot", "Gop/s", "products of bytes", speed->dot_gop_s},
        {"tile", "Gop/s", "products of bf16 in tiles", speed->tile_gop_s},
        {"launch", "us", "a launch among many", speed->launch_us},
        {"round_trip", "us", "a launch and its result", speed->round_trip_us},
    };
    if (!b->o->json) {
        char text[24];
        print_device(b);
        printf(", over %s%s\n", cli_bytes_text(speed->buffer_bytes, text),
               b->o->md ? "\n\n| figure | | |\n|---|---|---|" : "");
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (b->o->json)
            print_plain_line(b, rows[i].what, rows[i].value, rows[i].unit);
        else
            printf(b->o->md ? "| %s | %.2f | %s |\n" : "%-32s %10.2f %s\n", rows[i].label, rows[i].value,
                   rows[i].unit);
    }
}

void cli_bench_print_product(const bench *b, const bench_product *p, double limit)
{
    char what[64];
    snprintf(what, sizeof what, "%" PRId32 "x%" PRId32 "x%" PRId32, p->m, p->n, p->k);
    for (int i = 0; i < BENCH_N_PRODUCTS; i++) {
        if (!p->runs[i].form)
            continue;
        const bench_summary s = cli_bench_summary(&p->runs[i].rate);
        const double share = limit > 0 ? 100 * s.best / limit : 0;
        if (b->o->json) {
            int32_t n = begin_line(b, what, s.best, "GFLOP/s");
            cli_json_member_text(stdout, &n, "form", p->runs[i].form);
            cli_json_member_text(stdout, &n, "kernel", p->runs[i].kernel);
            cli_json_member_number(stdout, &n, "mean", round_digits(s.mean));
            cli_json_member_number(stdout, &n, "stddev", round_digits(s.stddev));
            cli_json_member_number(stdout, &n, "limit", round_digits(limit));
            end_line();
        } else {
            printf(b->o->md ? "| %s | %s | %s | %.1f | %.1f ± %.1f | %.0f %% of %.1f |\n"
                            : "%-16s %-11s %-14s %8.1f GFLOP/s %8.1f ± %-6.1f %4.0f %% of %.1f\n",
                   what, p->runs[i].form, p->runs[i].kernel, s.best, s.mean, s.stddev, share, limit);
        }
    }
    fflush(stdout);
}

/* ---- many sequences -------------------------------------------------------------------------- */

static void print_batch_json(const bench *b, const bench_batch *batch)
{
    for (int32_t i = 0; i < batch->n_rows; i++) {
        const bench_batch_row *row = &batch->rows[i];
        char name[64];
        snprintf(name, sizeof name, "batch%" PRId32, row->n_sequences);
        int32_t n = begin_line(b, name, row->total, "tok/s");
        cli_json_member_number(stdout, &n, "sequences", row->n_sequences);
        cli_json_member_number(stdout, &n, "each", round_digits(row->total / row->n_sequences));
        cli_json_member_number(stdout, &n, "ratio", round_digits(row->total / batch->rows[0].total));
        cli_json_member_number(stdout, &n, "with_prompts", round_digits(row->whole));
        cli_json_member_number(stdout, &n, "gap_p50_ms", round_digits(row->p50 * 1e3));
        cli_json_member_number(stdout, &n, "gap_p99_ms", round_digits(row->p99 * 1e3));
        cli_json_member_number(stdout, &n, "prompt", b->n_prompt);
        cli_json_member_number(stdout, &n, "gen", b->n_gen);
        end_line();
    }
    if (batch->n_long) {
        int32_t n = begin_line(b, "longest_gap", batch->gap * 1e3, "ms");
        cli_json_member_number(stdout, &n, "prompt", batch->n_long);
        cli_json_member_number(stdout, &n, "step_ms", round_digits(batch->step * 1e3));
        cli_json_member_number(stdout, &n, "step_tokens", batch->step_tokens);
        end_line();
    }
    print_plain_line(b, "kv_cache", (double)batch->kv_bytes / 1048576, "MiB");
    print_plain_line(b, "peak_rss", (double)b->peak_rss / 1048576, "MiB");
}

static void print_batch_table(const bench *b, const bench_batch *batch)
{
    const char *const row = b->o->md ? "| %" PRId32 " | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n"
                                     : "%9" PRId32 " %12.2f %12.2f %8.2f %10.2f %10.2f %14.2f\n";
    char text[24];
    printf("%s on ", file_name(clef_model_path(b->model)));
    print_device(b);
    printf(", prompts of %" PRId32 ", %" PRId32 " tokens each, best of %" PRId32 "\n", b->n_prompt, b->n_gen,
           b->o->n_rounds);
    if (b->o->md)
        puts("\n| sequences | tok/s | of each | ratio | gap p50, ms | gap p99, ms | with prompts "
             "|\n|---|---|---|---|---|---|---|");
    else
        printf("%9s %12s %12s %8s %10s %10s %14s\n", "sequences", "tok/s", "of each", "ratio", "gap p50",
               "p99, ms", "with prompts");
    for (int32_t i = 0; i < batch->n_rows; i++) {
        const bench_batch_row *r = &batch->rows[i];
        printf(row, r->n_sequences, r->total, r->total / r->n_sequences, r->total / batch->rows[0].total,
               r->p50 * 1e3, r->p99 * 1e3, r->whole);
    }
    if (b->o->md)
        puts("");
    if (batch->n_long)
        printf("longest gap of a text while a prompt of %" PRId32 " comes in: %.2f ms; a step of %" PRId32
               " prompt tokens: %.2f ms\n",
               batch->n_long, batch->gap * 1e3, batch->step_tokens, batch->step * 1e3);
    printf("KV cache and states %s; peak memory %.1f MiB\n", cli_bytes_text(batch->kv_bytes, text),
           (double)b->peak_rss / 1048576);
}

void cli_bench_print_batch(const bench *b, const bench_batch *batch)
{
    if (b->o->json)
        print_batch_json(b, batch);
    else
        print_batch_table(b, batch);
}

/* ---- speculation ----------------------------------------------------------------------------- */

static double share(const bench_spec_row *row)
{
    return row->n_drafted ? (double)row->n_accepted / (double)row->n_drafted : 0;
}

static double ratio(const bench_spec_row *row)
{
    return row->plain > 0 ? row->with / row->plain : 0;
}

static void print_spec_json(const bench *b, const bench_spec *spec)
{
    for (int32_t i = 0; i < spec->n_rows; i++) {
        const bench_spec_row *row = &spec->rows[i];
        char name[64];
        snprintf(name, sizeof name, "spec_%s", row->name);
        int32_t n = begin_line(b, name, row->with, "tok/s");
        cli_json_member_number(stdout, &n, "plain", round_digits(row->plain));
        cli_json_member_number(stdout, &n, "ratio", round_digits(ratio(row)));
        cli_json_member_number(stdout, &n, "drafted", (double)row->n_drafted);
        cli_json_member_number(stdout, &n, "accepted", (double)row->n_accepted);
        cli_json_member_number(stdout, &n, "acceptance", round_digits(share(row)));
        cli_json_member_number(stdout, &n, "prompt", row->n_prompt);
        cli_json_member_number(stdout, &n, "gen", row->n_gen);
        end_line();
    }
    print_plain_line(b, "peak_rss", (double)b->peak_rss / 1048576, "MiB");
}

static void print_spec_table(const bench *b, const bench_spec *spec)
{
    const char *const line = b->o->md ? "| %s | %.2f | %.2f | %.2f | %" PRId64 " | %.0f %% |\n"
                                      : "%-8s %12.2f %12.2f %8.2f %12" PRId64 " %9.0f %%\n";
    printf("%s on ", file_name(clef_model_path(b->model)));
    print_device(b);
    printf(", draft tokens from %s, best of %" PRId32 "\n",
           b->o->speculation.draft ? file_name(b->o->speculation.draft) : "the text", b->o->n_rounds);
    if (spec->off)
        printf("speculation: off, %s\n", spec->off);
    if (b->o->md)
        puts("\n| text | without, tok/s | with, tok/s | ratio | drafted | accepted "
             "|\n|---|---|---|---|---|---|");
    else
        printf("%-8s %12s %12s %8s %12s %11s\n", "text", "without", "with, tok/s", "ratio", "drafted",
               "accepted");
    for (int32_t i = 0; i < spec->n_rows; i++) {
        const bench_spec_row *row = &spec->rows[i];
        printf(line, row->name, row->plain, row->with, ratio(row), row->n_drafted, 100 * share(row));
    }
}

void cli_bench_print_spec(const bench *b, const bench_spec *spec)
{
    if (b->o->json)
        print_spec_json(b, spec);
    else
        print_spec_table(b, spec);
}

/* Writes the report of `clef bench --report`: one JSON object, its keys sorted, a line for each entry.
 * Nothing in it is a path or a name of the user's, but for the models' own names. */
#include <inttypes.h>
#include <stdio.h>

#include "clef/clef.h"
#include "tools/bench/bench_report.h"
#include "tools/cli/json.h"

typedef struct number {
    const char *key;
    double x;
} number;

static void write_numbers(FILE *to, int32_t *n_members, const number *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cli_json_member_number(to, n_members, numbers[i].key, numbers[i].x);
}
#define WRITE_NUMBERS(to, n_members, list) write_numbers(to, n_members, list, sizeof(list) / sizeof *(list))

static void write_counts(FILE *to, int32_t *n_members, const char *key, const uint32_t x[3])
{
    cli_json_member(to, n_members, key);
    fprintf(to, "[%" PRIu32 ", %" PRIu32 ", %" PRIu32 "]", x[0], x[1], x[2]);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void write_device(FILE *to, const clef_device_info *d)
{
    const clef_caps *k = &d->caps;
    const number caps[] = {{"amd_dot", (double)k->amd_dot},
                           {"arm64_bf16", k->arm64_bf16},
                           {"arm64_i8mm", k->arm64_i8mm},
                           {"arm64_sdot", k->arm64_sdot},
                           {"arm_dot", k->arm_dot},
                           {"base_align", k->base_align},
                           {"float_width", k->float_width},
                           {"fp16", k->fp16},
                           {"fp64", k->fp64},
                           {"global_bytes", (double)k->global_bytes},
                           {"int_dot", k->int_dot},
                           {"is_cpu", k->is_cpu},
                           {"is_gpu", k->is_gpu},
                           {"local_bytes", (double)k->local_bytes},
                           {"matrix", (double)k->matrix},
                           {"matrix_plain", k->matrix_plain},
                           {"matrix_types", k->matrix_types},
                           {"max_alloc_bytes", (double)k->max_alloc_bytes},
                           {"max_group", k->max_group},
                           {"mhz", k->mhz},
                           {"n_units", k->n_units},
                           {"nv_asm", k->nv_asm},
                           {"nv_bulk_copies", k->nv_bulk_copies},
                           {"nv_warps", k->nv_warps},
                           {"opencl_version", k->opencl_version},
                           {"own_builtins", k->own_builtins},
                           {"short_loops", k->short_loops},
                           {"subgroup_demand", k->subgroup_demand},
                           {"subgroup_shuffle", k->subgroup_shuffle},
                           {"subgroup_size", k->subgroup_size},
                           {"subgroups", (double)k->subgroups},
                           {"unified_memory", k->unified_memory},
                           {"whole_body", k->whole_body},
                           {"x86_amd", k->x86_amd},
                           {"x86_amx", k->x86_amx},
                           {"x86_avx2", k->x86_avx2},
                           {"x86_avxvnni", k->x86_avxvnni},
                           {"x86_vnni", k->x86_vnni}};
    int32_t n = 0, n_caps = 0;
    fputs(" \"device\": {", to);
    cli_json_member(to, &n, "capabilities");
    putc('{', to);
    WRITE_NUMBERS(to, &n_caps, caps);
    fputs("},\n  ", to);
    n = 0; /* the comma is written */
    cli_json_member_text(to, &n, "driver", d->driver);
    cli_json_member_text(to, &n, "name", d->name);
    cli_json_member_text(to, &n, "platform", d->platform_name);
    cli_json_member_text(to, &n, "vendor", d->vendor);
    cli_json_member_text(to, &n, "version", d->version);
    fputs("},\n", to);
}

static void write_limits(FILE *to, const clef_device_speed *s)
{
    const number limits[] = {{"buffer_bytes", (double)s->buffer_bytes},
                             {"copy_gb_s", s->copy_gb_s},
                             {"dot_gop_s", s->dot_gop_s},
                             {"launch_us", s->launch_us},
                             {"mad_gflop_s", s->mad_gflop_s},
                             {"read_gb_s", s->read_gb_s},
                             {"round_trip_us", s->round_trip_us},
                             {"tile_gop_s", s->tile_gop_s}};
    int32_t n = 0;
    fputs(" \"limits\": {", to);
    WRITE_NUMBERS(to, &n, limits);
    fputs("},\n", to);
}

/* ---- models ---------------------------------------------------------------------------------- */

static void write_launch(FILE *to, const report_launch *l)
{
    const number first[] = {{"bytes", l->bytes}, {"count", l->count}, {"flops", l->flops}};
    int32_t n = 0;
    putc('{', to);
    WRITE_NUMBERS(to, &n, first);
    write_counts(to, &n, "groups", l->groups);
    cli_json_member_text(to, &n, "kernel", l->kernel);
    cli_json_member_number(to, &n, "least_us", l->least_us);
    write_counts(to, &n, "local", l->local);
    cli_json_member_text(to, &n, "node", l->node);
    cli_json_member_text(to, &n, "op", l->op);
    cli_json_member_text(to, &n, "step", l->step);
    cli_json_member_number(to, &n, "us", l->us);
    cli_json_member_text(to, &n, "variant", l->variant);
    putc('}', to);
}

/* predicted: what the device's limit allows for the bytes (decode) or the operations (prefill) of a token. */
static void write_rate(FILE *to, const report *r, const report_model *m, const bench_rate *rate)
{
    const bench_summary s = cli_bench_summary(rate);
    const int reads = rate->what[0] == 'd';
    const double bytes = rate->bytes / rate->n_tokens, flops = rate->flops / rate->n_tokens,
                 limit = reads ? r->speed.read_gb_s : m->limit, cost = reads ? bytes : flops;
    const number numbers[] = {{"best_tok_s", s.best},
                              {"bytes_per_token", bytes},
                              {"depth", rate->depth},
                              {"flops_per_token", flops},
                              {"mean_tok_s", s.mean},
                              {"median_tok_s", s.median},
                              {"predicted_tok_s", cost > 0 ? limit * 1e9 / cost : 0},
                              {"rounds", rate->n_samples},
                              {"stddev_tok_s", s.stddev},
                              {"tokens", rate->n_tokens}};
    int32_t n = 0;
    putc('{', to);
    WRITE_NUMBERS(to, &n, numbers);
    cli_json_member_text(to, &n, "what", rate->what);
    putc('}', to);
}

static void write_model(FILE *to, const report *r, const report_model *m)
{
    int32_t n = 0;
    fputs("  {", to);
    cli_json_member_text(to, &n, "arch", m->arch);
    cli_json_member_number(to, &n, "bytes", (double)m->n_bytes);
    cli_json_member_number(to, &n, "d_model", m->d_model);
    cli_json_member_text(to, &n, "dtype", m->dtype ? m->dtype : "");
    cli_json_member_number(to, &n, "first_token_s", m->first_seconds);
    fputs(",\n   \"launches\": [", to);
    for (int32_t i = 0; i < m->n_launches; i++) {
        fputs(i ? ",\n    " : "\n    ", to);
        write_launch(to, &m->launches[i]);
    }
    fputs("],\n   ", to);
    n = 0;
    cli_json_member_number(to, &n, "load_s", m->load_seconds);
    cli_json_member_number(to, &n, "n_layers", m->n_layers);
    cli_json_member_number(to, &n, "n_vocab", m->n_vocab);
    cli_json_member_text(to, &n, "name", m->name);
    cli_json_member_number(to, &n, "product_limit_gop_s", m->limit);
    fputs(",\n   \"rates\": [", to);
    for (int32_t i = 0; i < m->n_rates; i++) {
        fputs(i ? ",\n    " : "\n    ", to);
        write_rate(to, r, m, &m->rates[i]);
    }
    fputs("]}", to);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void write_aside(FILE *to, const report_aside *a)
{
    int32_t n = 0;
    putc('{', to);
    cli_json_member_text(to, &n, "op", a->op);
    cli_json_member_text(to, &n, "variant", a->variant);
    cli_json_member_text(to, &n, "why", a->why);
    putc('}', to);
}

static const char *state_name(clef_variant_state state)
{
    static const char *const names[] = {
        [CLEF_VARIANT_CHOSEN] = "chosen", [CLEF_VARIANT_SLOWER] = "slower",
        [CLEF_VARIANT_FAILED] = "failed", [CLEF_VARIANT_UNTIMED] = "untimed",
        [CLEF_VARIANT_UNFIT] = "unfit",   [CLEF_VARIANT_BY_ORDER] = "by order"};
    return names[state];
}

static void write_variant(FILE *to, const clef_variant_info *v)
{
    int32_t n = 0;
    putc('{', to);
    cli_json_member_number(to, &n, "error", v->error);
    cli_json_member_text(to, &n, "key", v->key);
    cli_json_member_text(to, &n, "op", v->op);
    cli_json_member_text(to, &n, "state", state_name(v->state));
    cli_json_member_number(to, &n, "us", v->us);
    cli_json_member_text(to, &n, "values", v->values);
    cli_json_member_text(to, &n, "variant", v->variant);
    putc('}', to);
}

clef_status cli_report_write(void *user, FILE *to, clef_error *err)
{
    const report *r = user;
    int32_t n = 0;
    (void)err;
    fputs("{\n ", to);
    cli_json_member_text(to, &n, "clef", clef_version());
    fputs(",\n", to);
    write_device(to, &r->device);
    n = 0;
    putc(' ', to);
    cli_json_member_text(to, &n, "failure", r->failure);
    cli_json_member_text(to, &n, "format", "clef report 1");
    fputs(",\n", to);
    write_limits(to, &r->speed);
    fputs(" \"models\": [", to);
    for (int32_t i = 0; i < r->n_models; i++) {
        fputs(i ? ",\n" : "\n", to);
        write_model(to, r, &r->models[i]);
    }
    fputs("],\n \"set_aside\": [", to);
    for (int32_t i = 0; i < r->n_aside; i++) {
        fputs(i ? ",\n  " : "\n  ", to);
        write_aside(to, &r->aside[i]);
    }
    fputs("],\n \"variants\": [", to);
    for (int32_t i = 0; i < r->n_variants; i++) {
        fputs(i ? ",\n  " : "\n  ", to);
        write_variant(to, &r->variants[i]);
    }
    fputs("]\n}\n", to);
    return CLEF_OK;
}

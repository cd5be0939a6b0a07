/* clef devices: lists the OpenCL devices, what each can do, and which one clef uses by default. */
#include <inttypes.h>

#include "tools/cli/common.h"
#include "tools/cli/json.h"
#include "tools/inspect/variants.h"

typedef struct devices_options {
    int32_t json, variants, measure;
} devices_options;

static const devices_options devices_defaults = {0};

static const cli_option devices_option_table[] = {
    {.names = "json", .type = CLI_SWITCH, .offset = offsetof(devices_options, json), .help = "print JSON"},
    {.names = "variants",
     .type = CLI_SWITCH,
     .offset = offsetof(devices_options, variants),
     .help = "show which variant of each op is used, and why the others are not"},
    {.names = "measure",
     .type = CLI_SWITCH,
     .offset = offsetof(devices_options, measure),
     .help = "measure memory, arithmetic and launches of each device now (a few seconds, and 512 MiB of its "
             "memory) instead of showing earlier results"},
    {.names = NULL},
};

static const char *kind_of(const clef_caps *caps)
{
    return caps->is_gpu ? "GPU" : caps->is_cpu ? "CPU" : "accelerator";
}

static void print_device(const clef_device_info *d)
{
    const clef_caps *k = &d->caps;
    char global[24], alloc[24], local[24];
    printf("%" PRId32 ":%" PRId32 "  %s%s%s%s\n", d->platform, d->index, d->name,
           d->chosen[0] ? "  (chosen when none is named: " : "", d->chosen, d->chosen[0] ? ")" : "");
    printf("     %s, %s; %s; driver %s\n", d->vendor, d->platform_name, d->version, d->driver);
    printf("     %s, %" PRId32 " units at %" PRId32
           " MHz, memory %s, one buffer %s, local %s, groups up to %" PRId32 "\n",
           kind_of(k), k->n_units, k->mhz, cli_bytes_text(k->global_bytes, global),
           cli_bytes_text(k->max_alloc_bytes, alloc), cli_bytes_text(k->local_bytes, local), k->max_group);
    printf("     float vectors of %" PRId32 "%s%s%s%s%s\n", k->float_width,
           k->unified_memory ? ", memory shared with the host" : "", k->fp16 ? ", fp16" : "",
           k->fp64 ? ", fp64" : "",
           k->subgroups > 1 ? ", subgroups with shuffles"
           : k->subgroups   ? ", subgroups"
                            : "",
           k->int_dot || k->arm_dot ? ", integer dot" : "");
    if (d->refused[0])
        printf("     refused: %s\n", d->refused);
}

/* The source of a device's speed. */
typedef enum speed_from { SPEED_UNKNOWN, SPEED_KEPT, SPEED_NOW } speed_from;
static const char *const speed_names[] = {"unknown", "kept", "now"};

static speed_from speed_of(clef_device *device, int measure, clef_device_speed *speed)
{
    clef_error err = {0};
    if (measure && clef_device_measure(device, speed, &err) == CLEF_OK)
        return SPEED_NOW;
    if (measure)
        cli_report(&err);
    return clef_device_speed_known(device, speed, &err) == CLEF_OK ? SPEED_KEPT : SPEED_UNKNOWN;
}

static void print_speed(clef_device *device, int measure)
{
    clef_device_speed s;
    const speed_from from = speed_of(device, measure, &s);
    if (from == SPEED_UNKNOWN) {
        puts("     speed not measured yet (clef devices --measure)");
        return;
    }
    printf("     reads %.1f GB/s, copies %.1f GB/s, %.1f Gflop/s of f32", s.read_gb_s, s.copy_gb_s,
           s.mad_gflop_s);
    if (s.dot_gop_s > 0)
        printf(", %.1f Gop/s of bytes", s.dot_gop_s);
    if (s.tile_gop_s > 0)
        printf(", %.1f Gop/s of bf16 in tiles", s.tile_gop_s);
    printf(", %.1f us a launch (%s)\n", s.launch_us, from == SPEED_NOW ? "measured now" : "measured earlier");
}

static void print_speed_json(clef_device *device, int measure)
{
    clef_device_speed s;
    int32_t n = 0;
    const speed_from from = speed_of(device, measure, &s);
    if (from == SPEED_UNKNOWN) {
        fputs("null", stdout);
        return;
    }
    putchar('{');
    cli_json_member_text(stdout, &n, "measured", speed_names[from]);
    cli_json_member_number(stdout, &n, "read_gb_s", s.read_gb_s);
    cli_json_member_number(stdout, &n, "copy_gb_s", s.copy_gb_s);
    cli_json_member_number(stdout, &n, "mad_gflop_s", s.mad_gflop_s);
    cli_json_member_number(stdout, &n, "dot_gop_s", s.dot_gop_s);
    cli_json_member_number(stdout, &n, "tile_gop_s", s.tile_gop_s);
    cli_json_member_number(stdout, &n, "launch_us", s.launch_us);
    cli_json_member_number(stdout, &n, "round_trip_us", s.round_trip_us);
    putchar('}');
}

/* Its unit for small matrices, and the types that it multiplies. */
static const char *unit_of(const clef_caps *caps, char text[64])
{
    static const char *const names[] = {NULL, "mma", "wmma", "dpas", "mfma"}, *const types[] = {
                                                                                  "bytes", "halves", "bf16"};
    if (!caps->matrix)
        return "none";
    int n = snprintf(text, 64, "%s%s (", caps->matrix_plain ? "plain C for " : "", names[caps->matrix]),
        first = n;
    for (int i = 0; i < 3; i++)
        if (caps->matrix_types >> i & 1)
            n += snprintf(text + n, 64 - (size_t)n, "%s%s", n > first ? ", " : "", types[i]);
    snprintf(text + n, 64 - (size_t)n, ")");
    return text;
}

/* Prints what is only known of an opened device. If it does not open, prints the reason. */
static void print_opened(const clef_device_info *d, const devices_options *o)
{
    char which[32], unit[64];
    clef_error err = {0};
    clef_device *device = NULL;
    snprintf(which, sizeof which, "%" PRId32 ":%" PRId32, d->platform, d->index);
    clef_status s = d->refused[0] ? CLEF_E_DEVICE : clef_device_open(which, NULL, &device, &err);
    if (!s)
        print_speed(device, o->measure);
    if (!s && o->variants)
        printf("     matrix units: %s\n", unit_of(&clef_device_describe(device)->caps, unit));
    if (!s && o->variants)
        s = cli_variants_print(device, &err);
    clef_device_close(device);
    if (s && err.text[0])
        printf("     %s\n", err.text);
}

/* print_opened() as members of the device's object. */
static void print_opened_json(const clef_device_info *d, const devices_options *o, int32_t *n)
{
    char which[32], unit[64];
    clef_error err = {0};
    clef_device *device = NULL;
    snprintf(which, sizeof which, "%" PRId32 ":%" PRId32, d->platform, d->index);
    clef_status s = d->refused[0] ? CLEF_E_DEVICE : clef_device_open(which, NULL, &device, &err);
    cli_json_member(stdout, n, "speed");
    if (s)
        fputs("null", stdout);
    else
        print_speed_json(device, o->measure);
    if (o->variants) {
        cli_json_member_text(stdout, n, "matrix_units",
                             s ? "unknown" : unit_of(&clef_device_describe(device)->caps, unit));
        cli_json_member(stdout, n, "variants");
        if (s || cli_variants_print_json(device, &err))
            fputs("null", stdout);
    }
    clef_device_close(device);
}

static void print_json(const clef_device_info *d, const devices_options *o)
{
    const clef_caps *k = &d->caps;
    const struct {
        const char *key;
        double x;
    } numbers[] = {
        {"platform", d->platform},
        {"device", d->index},
        {"is_cpu", k->is_cpu},
        {"is_gpu", k->is_gpu},
        {"unified_memory", k->unified_memory},
        {"fp16", k->fp16},
        {"fp64", k->fp64},
        {"subgroups", k->subgroups},
        {"int_dot", k->int_dot},
        {"arm_dot", k->arm_dot},
        {"opencl_version", k->opencl_version},
        {"n_units", k->n_units},
        {"max_group", k->max_group},
        {"float_width", k->float_width},
        {"mhz", k->mhz},
        {"base_align", k->base_align},
        {"local_bytes", (double)k->local_bytes},
        {"max_alloc_bytes", (double)k->max_alloc_bytes},
        {"global_bytes", (double)k->global_bytes},
    };
    int32_t n = 0;
    putchar('{');
    cli_json_member_text(stdout, &n, "name", d->name);
    cli_json_member_text(stdout, &n, "vendor", d->vendor);
    cli_json_member_text(stdout, &n, "platform_name", d->platform_name);
    cli_json_member_text(stdout, &n, "version", d->version);
    cli_json_member_text(stdout, &n, "driver", d->driver);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cli_json_member_number(stdout, &n, numbers[i].key, numbers[i].x);
    cli_json_member(stdout, &n, "max_items");
    cli_json_ints(stdout, k->max_items, 3);
    cli_json_member(stdout, &n, "refused");
    if (d->refused[0])
        cli_json_string(stdout, d->refused);
    else
        fputs("null", stdout);
    cli_json_member(stdout, &n, "chosen");
    fputs(d->chosen[0] ? "true" : "false", stdout);
    if (d->chosen[0])
        cli_json_member_text(stdout, &n, "why", d->chosen);
    print_opened_json(d, o, &n);
    putchar('}');
}

static int devices_run(const void *options, int32_t n_args, char **args)
{
    const devices_options *o = options;
    clef_error err = {0};
    clef_device_info *list = NULL;
    int32_t n = 0;
    (void)n_args;
    (void)args;
    if (clef_devices_list(&list, &n, &err) != CLEF_OK)
        return cli_report(&err);
    clef_device *none = NULL;
    if (n == 0 && !o->json && clef_device_open("auto", NULL, &none, &err) != CLEF_OK)
        return cli_report(&err); /* it says why there is none */
    if (o->json)
        putchar('[');
    for (int32_t i = 0; i < n; i++) {
        if (o->json) {
            fputs(i ? ",\n " : "", stdout);
            print_json(&list[i], o);
        } else {
            print_device(&list[i]);
            print_opened(&list[i], o);
        }
    }
    if (o->json)
        puts("]");
    clef_devices_free(list);
    return CLI_OK;
}

const cli_command cli_command_devices = {
    .name = "devices",
    .usage = "[--json] [--variants] [--measure]",
    .summary = "List the OpenCL devices and what they can do",
    .options = devices_option_table,
    .defaults = &devices_defaults,
    .options_bytes = sizeof devices_defaults,
    .run = devices_run,
};

/* clef tune: measures which variants are fastest on a device, and saves the results. */
#include <inttypes.h>

#include "tools/cli/common.h"
#include "tools/cli/progress.h"
#include "tools/inspect/variants.h"

typedef struct tune_options {
    const char *device, *model;
    int32_t what, again, quiet;
    clef_compile_opts compile;
} tune_options;

enum { WHAT_AUTO, WHAT_VARIANTS, WHAT_CLBLAST, WHAT_ALL };
static const char *const what_names[] = {"auto", "variants", "clblast", "all", NULL};
static const tune_options tune_defaults = {.what = WHAT_AUTO};

/* clang-format off */
static const cli_option tune_option_table[] = {
    DEVICE_OPTION(tune_options),
    MODEL_OPTION(tune_options),
    GEMM_OPTION(tune_options),
    EXACT_OPTION(tune_options),
    {.names = "what", .type = CLI_CHOICE, .value = "WHAT", .offset = offsetof(tune_options, what),
     .choices = what_names, .help = "what to measure [with MODEL variants, else all]"},
    {.names = "again", .type = CLI_SWITCH, .offset = offsetof(tune_options, again),
     .help = "measure again what is already known"},
    QUIET_OPTION(tune_options),
    {.names = NULL},
};
/* clang-format on */

static clef_status load_graph(const char *path, clef_graph **out, clef_error *err)
{
    clef_model *model = NULL;
    clef_status s;
    if (cli_is_graph_file(path)) {
        s = cli_graph_file_open(path, out, err);
    } else {
        s = clef_model_open(path, &model, err);
        if (!s)
            s = clef_model_build(model, NULL, out, err);
        clef_model_close(model);
    }
    return s ? s : clef_graph_optimize(*out, NULL, err);
}

static clef_status tune_variants(const tune_options *o, const char *path, clef_device *device,
                                 const clef_tune_opts *opts, clef_error *err)
{
    clef_graph *graph = NULL;
    clef_status s = path ? load_graph(path, &graph, err) : CLEF_OK;
    if (!s)
        s = clef_tune(device, graph, &(clef_plan_opts){.compile = o->compile}, opts, err);
    clef_graph_destroy(graph);
    return s;
}

static clef_status tune_clblast(clef_device *device, const clef_tune_opts *opts, clef_clblast_report *report,
                                clef_error *err)
{
    const clef_status s = clef_tune_clblast(device, opts, report, err);
    if (s == CLEF_E_UNSUPPORTED && err)
        *err = (clef_error){0}; /* without CLBlast there is nothing to tune there */
    return s == CLEF_E_UNSUPPORTED ? CLEF_OK : s;
}

static void print_clblast(const clef_clblast_report *r)
{
    if (r->gflops_before > 0)
        printf("CLBlast f32 1024 x 1024 x 1024: %.1f GFLOP/s untuned, %.1f tuned: %.2f x; %" PRId32
               " sets of parameters tried, %" PRId32 " wrong\n%s%s%s",
               r->gflops_before, r->gflops_after, r->gflops_after / r->gflops_before, r->n_tried, r->n_wrong,
               r->params[0] ? "     " : "", r->params, r->params[0] ? "\n" : "");
}

static int tune_run(const void *options, int32_t n_args, char **args)
{
    const tune_options *o = options;
    const char *path = n_args > 0 ? args[0] : o->model;
    const int32_t what = o->what != WHAT_AUTO ? o->what : path ? WHAT_VARIANTS : WHAT_ALL;
    clef_error err = {0};
    clef_device *device = NULL;
    clef_clblast_report report = {0};
    cli_progress progress;
    cli_progress_init(&progress, o->quiet);
    const clef_tune_opts opts = {
        .again = o->again, .progress = cli_progress_step, .progress_user = &progress};
    clef_status s = clef_device_open(o->device, &(clef_device_opts){.notice = cli_say_notice}, &device, &err);
    if (!s && !o->quiet)
        cli_say_device(device);
    if (!s && what != WHAT_CLBLAST)
        s = tune_variants(o, path, device, &opts, &err);
    if (!s && what != WHAT_VARIANTS)
        s = tune_clblast(device, &opts, &report, &err);
    cli_progress_finish(&progress);
    if (!s && what != WHAT_CLBLAST)
        s = cli_variants_print(device, &err);
    if (!s)
        print_clblast(&report);
    clef_device_close(device);
    return s ? cli_report(&err) : CLI_OK;
}

const cli_command cli_command_tune = {
    .name = "tune",
    .usage = "[MODEL] [--what variants|clblast|all]",
    .summary = "Measure which kernels are fastest on a device, and save the results",
    .notes = "Each variant is checked against a reference before it is timed. With MODEL, clef measures the "
             "model's own shapes. Without it, clef measures common shapes and searches parameters for "
             "CLBlast, which takes about a minute. `clef devices --variants` shows the results.\n",
    .options = tune_option_table,
    .max_args = 1,
    .defaults = &tune_defaults,
    .options_bytes = sizeof tune_defaults,
    .run = tune_run,
};

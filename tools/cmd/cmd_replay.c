/* clef replay: runs a node that `clef compare` saved. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/values.h"

typedef struct replay_options {
    const char *device;
    float tol;
    clef_compile_opts compile;
} replay_options;

static const replay_options replay_defaults = {.tol = 1e-3f, .compile = {.exact = 1, .no_tune = 1}};

/* clang-format off */
#define AT(field) .offset = offsetof(replay_options, field)
static const cli_option replay_option_table[] = {
    DEVICE_OPTION(replay_options),
    GEMM_OPTION(replay_options),
    PROOF_OPTION(replay_options),
    {.names = "tol", .type = CLI_FLOAT, .value = "X", AT(tol), .lo = 0, .hi = 1e30,
     .help = "tolerance: max |a - b| / max |b| [0.001]"},
    {.names = NULL},
};
/* clang-format on */

typedef struct replay {
    clef_graph *graph;
    clef_tensor_file *tensors;
    clef_device *device;
    clef_plan *plan;
    value_data got, wanted;
} replay;

static const void *weight_of(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const replay *r = user;
    char bytes[300];
    snprintf(bytes, sizeof bytes, "%.280s (bytes)", name);
    const int32_t plain = clef_tensor_file_find(r->tensors, name),
                  at = plain >= 0 ? plain : clef_tensor_file_find(r->tensors, bytes);
    if (at < 0)
        return NULL;
    const clef_tensor_info t = clef_tensor_file_get(r->tensors, at);
    return t.n_bytes == n_bytes && (plain < 0 || t.dtype == dtype) ? t.data : NULL;
}

static clef_status open_case(replay *r, const char *path, const replay_options *o, clef_error *err)
{
    char *tensors = malloc(strlen(path) + 16);
    const clef_plan_opts opts = {.compile = o->compile, .weights = weight_of, .weights_user = r};
    if (!tensors)
        return cli_error(err, CLEF_E_NOMEM, "replay: out of host memory");
    clef_status status = cli_graph_file_open(path, &r->graph, err);
    if (status == CLEF_OK)
        status = clef_tensor_file_open(strcat(strcpy(tensors, path), ".safetensors"), &r->tensors, err);
    free(tensors);
    if (status == CLEF_OK)
        status = clef_device_open(o->device, NULL, &r->device, err);
    return status == CLEF_OK ? clef_plan_create(r->device, r->graph, &opts, &r->plan, err) : status;
}

static clef_status write_inputs(replay *r, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < clef_graph_n_values(r->graph) && status == CLEF_OK; i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(r->graph, i));
        if (v.kind != CLEF_INPUT)
            continue;
        const int32_t at = clef_tensor_file_find(r->tensors, v.name);
        const clef_tensor_info t = clef_tensor_file_get(r->tensors, at < 0 ? 0 : at);
        if (at < 0 || t.dtype != v.dtype)
            status =
                cli_error(err, CLEF_E_NOT_FOUND, "replay: input %s: the case has no %s tensor of that name",
                          v.name, clef_dtype_name(v.dtype));
        else
            status =
                clef_plan_write(r->plan, clef_plan_input(r->plan, v.name), t.data, (size_t)t.n_bytes, err);
    }
    return status;
}

static clef_status read_both(replay *r, clef_error *err)
{
    const int32_t at = clef_tensor_file_find(r->tensors, "expected");
    const size_t n_bytes = clef_plan_output_bytes(r->plan, 0, &r->got.rank, r->got.dims);
    clef_graph_output(r->graph, 0, &r->got.name);
    r->got.n = n_bytes / sizeof(float);
    r->got.data = malloc(n_bytes + 1);
    if (!r->got.data)
        return cli_error(err, CLEF_E_NOMEM, "replay: out of host memory");
    clef_status status = clef_plan_run(r->plan, err);
    if (status == CLEF_OK)
        status = clef_plan_read(r->plan, 0, r->got.data, n_bytes, err);
    if (status != CLEF_OK || at < 0)
        return status;
    const clef_tensor_info t = clef_tensor_file_get(r->tensors, at);
    r->wanted = (value_data){
        .name = "expected", .dtype = t.dtype, .rank = t.rank, .n = (size_t)t.n_bytes / sizeof(float)};
    memcpy(r->wanted.dims, t.dims, sizeof t.dims);
    r->wanted.data = malloc((size_t)t.n_bytes + 1);
    return r->wanted.data ? clef_tensor_file_read(r->tensors, at, CLEF_F32, r->wanted.data, r->wanted.n, err)
                          : cli_error(err, CLEF_E_NOMEM, "replay: out of host memory");
}

static int report_error(const replay *r, float tol)
{
    const value_stats s = cli_value_stats(&r->got);
    printf("%s: min %.6g, max %.6g, mean %.6g, std %.6g, %" PRId64 " NaN, %" PRId64 " infinities\n",
           r->got.name, s.min, s.max, s.mean, s.std, s.n_nan, s.n_inf);
    if (!r->wanted.data)
        return CLI_OK;
    const double error = cli_value_error(&r->got, &r->wanted);
    printf("error %.3g against what was expected: %s\n", error,
           error <= (double)tol ? "within tolerance" : "out of tolerance");
    return error <= (double)tol ? CLI_OK : CLI_FAILED;
}

static int replay_run(const void *options, int32_t n_args, char **args)
{
    const replay_options *o = options;
    clef_error err = {0};
    replay r = {0};
    (void)n_args;
    clef_status status = open_case(&r, args[0], o, &err);
    if (status == CLEF_OK)
        status = write_inputs(&r, &err);
    if (status == CLEF_OK)
        status = read_both(&r, &err);
    const int rc = status == CLEF_OK ? report_error(&r, o->tol) : cli_report(&err);
    cli_value_free(&r.got);
    cli_value_free(&r.wanted);
    clef_plan_destroy(r.plan);
    clef_device_close(r.device);
    clef_tensor_file_close(r.tensors);
    clef_graph_destroy(r.graph);
    return rc;
}

const cli_command cli_command_replay = {
    .name = "replay",
    .usage = "CASE.clef [-d DEVICE] [--gemm HOW]",
    .summary = "Rerun a node that `clef compare` has saved",
    .notes = "CASE.clef is a graph with that one node. CASE.clef.safetensors holds its inputs, its weights "
             "and the expected value. The exit code is 0 when the node gives the expected value.\n",
    .options = replay_option_table,
    .min_args = 1,
    .max_args = 1,
    .defaults = &replay_defaults,
    .options_bytes = sizeof replay_defaults,
    .run = replay_run,
};

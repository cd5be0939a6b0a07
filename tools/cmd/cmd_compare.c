/* clef compare: compares two runs value by value, up to the first value that differs. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/values.h"

typedef struct compare_options {
    cli_forward_opts forward;
    const char *model, *after, *reference, *record, *model_b, *device_b, *save;
    float tol;
    int32_t gemm_b, stats;
} compare_options;

static const compare_options compare_defaults = {.tol = 1e-3f, .gemm_b = -1, .forward.compile.exact = 1};

/* clang-format off */
#define AT(field) .offset = offsetof(compare_options, field)
static const cli_option compare_option_table[] = {
    MODEL_OPTION(compare_options),
    FORWARD_OPTIONS(compare_options),
    {.names = "reference", .letter = 'r', .type = CLI_TEXT, .value = "FILE", AT(reference),
     .help = "a .safetensors file with reference values by name, from --record or "
             "scripts/record_reference.py, and optionally the inputs"},
    {.names = "model-b", .type = CLI_TEXT, .value = "MODEL", AT(model_b),
     .help = "compare with the same graph and another model's weights"},
    {.names = "device-b", .type = CLI_TEXT, .value = "DEVICE", AT(device_b),
     .help = "compare with a run on another device"},
    {.names = "gemm-b", .type = CLI_CHOICE, .value = "HOW", AT(gemm_b), .choices = cli_gemm_names,
     .help = "compare with a run with other matrix kernels"},
    {.names = "record", .type = CLI_TEXT, .value = "FILE", AT(record),
     .help = "write every value of this run to a file, as a reference"},
    {.names = "stats", .type = CLI_SWITCH, AT(stats),
     .help = "print range, mean, NaN and infinity counts of each value, up to the first NaN"},
    {.names = "tol", .type = CLI_FLOAT, .value = "X", AT(tol), .lo = 0, .hi = 1e30,
     .help = "tolerance: max |a - b| / max |b| of a value [0.001]"},
    {.names = "after", .type = CLI_TEXT, .value = "PASS", AT(after), .choice = clef_pass_name,
     .help = "compare the values of the graph after this pass; build: before any [drop]"},
    {.names = "save", .type = CLI_TEXT, .value = "FILE", AT(save),
     .help = "where to save the first node that differs, for `clef replay` [compare.clef]"},
    {.names = NULL},
};
/* clang-format on */

/** State of a comparison; close_all() accepts it in any state. */
typedef struct compare {
    const compare_options *o;
    cli_forward_opts opts_b;
    cli_forward a, b;
    clef_tensor_file *reference;
    const clef_value **list; /* of a's graph, a part at a time */
    const char **names;
    value_data *va, *vb, *recorded;
    int32_t n_recorded, n_compared;
    char *bad; /* name of the first value out of tolerance */
    double worst;
    clef_error not_saved; /* why */
} compare;

static clef_status build_graph(const compare *c, cli_forward *f, clef_error *err)
{
    clef_status status = cli_forward_build(f, NULL, 0, err);
    const char *after = c->o->after ? c->o->after : "drop";
    return status == CLEF_OK && strcmp(after, "build") != 0 ? clef_graph_optimize(f->graph, after, err)
                                                            : status;
}

static int32_t n_computed(const clef_graph *g)
{
    int32_t n = 0;
    for (int32_t i = 0; i < clef_graph_n_values(g); i++)
        n += clef_value_describe(clef_graph_value(g, i)).kind == CLEF_COMPUTED;
    return n;
}

static int is_same(const clef_value_info *a, const clef_value_info *b)
{
    int same = b->kind == CLEF_COMPUTED && strcmp(a->op, b->op) == 0 && a->dtype == b->dtype &&
               a->shape.rank == b->shape.rank;
    for (int32_t i = 0; same && i < a->shape.rank; i++)
        same = a->shape.dim[i].n == b->shape.dim[i].n && a->shape.dim[i].symbol == b->shape.dim[i].symbol;
    return same;
}

/* Compares nodes by name, op and shape. Weights may have other names and dtypes, as in a GGUF file of the
 * same model. */
static clef_status check_same_graph(const compare *c, const char *path, clef_error *err)
{
    const int32_t n_a = n_computed(c->a.graph), n_b = n_computed(c->b.graph);
    for (int32_t i = 0; i < clef_graph_n_values(c->a.graph); i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(c->a.graph, i));
        const clef_value *named = clef_graph_find(c->b.graph, v.name);
        const clef_value_info other =
            named ? clef_value_describe(named) : (clef_value_info){.kind = CLEF_INPUT};
        if (v.kind == CLEF_COMPUTED && !is_same(&v, &other))
            return cli_error(err, CLEF_E_ARG,
                             "--model-b %s: expected the graph of %s with other weights; %s %s (`clef graph "
                             "diff` shows all)",
                             c->o->model_b, path, v.name, named ? "differs" : "is missing");
    }
    return n_a == n_b
               ? CLEF_OK
               : cli_error(err, CLEF_E_ARG,
                           "--model-b %s: expected the graph of %s, of %" PRId32 " nodes, got %" PRId32,
                           c->o->model_b, path, n_a, n_b);
}

/* The other side reads the same inputs as a, also what a's decoder generated. */
static clef_status open_b(compare *c, const char *path, clef_error *err)
{
    const compare_options *o = c->o;
    c->opts_b = o->forward;
    c->opts_b.device = o->device_b ? o->device_b : o->forward.device;
    if (o->gemm_b >= 0)
        c->opts_b.compile.gemm = (clef_gemm)o->gemm_b;
    c->opts_b.known_ids = c->a.ids;
    c->opts_b.n_known_ids = c->a.n_ids;
    c->opts_b.known_mask = c->a.mask;
    c->opts_b.known_target = c->a.target;
    c->opts_b.n_known_target = c->a.n_target;
    clef_status status = cli_forward_open(&c->b, &c->opts_b, o->model_b ? o->model_b : path, err);
    if (status == CLEF_OK)
        status = build_graph(c, &c->b, err);
    return status == CLEF_OK && o->model_b ? check_same_graph(c, path, err) : status;
}

static clef_status open_all(compare *c, const char *path, clef_error *err)
{
    const compare_options *o = c->o;
    clef_status status = cli_forward_open(&c->a, &o->forward, path, err);
    if (status == CLEF_OK)
        status = build_graph(c, &c->a, err);
    if (status == CLEF_OK && (o->model_b || o->device_b || o->gemm_b >= 0))
        status = open_b(c, path, err);
    if (status == CLEF_OK && o->reference)
        status = clef_tensor_file_open(o->reference, &c->reference, err);
    const size_t n = status == CLEF_OK ? (size_t)clef_graph_n_values(c->a.graph) + 1 : 1;
    c->list = calloc(n, sizeof *c->list);
    c->names = calloc(n, sizeof *c->names);
    c->va = calloc(n, sizeof *c->va);
    c->vb = calloc(n, sizeof *c->vb);
    c->recorded = calloc(n, sizeof *c->recorded);
    if (status == CLEF_OK && (!c->list || !c->names || !c->va || !c->vb || !c->recorded))
        status = cli_error(err, CLEF_E_NOMEM, "compare: out of host memory");
    return status;
}

static void close_all(compare *c)
{
    for (int32_t i = 0; i < c->n_recorded; i++)
        cli_value_free(&c->recorded[i]);
    free((void *)c->list);
    free((void *)c->names);
    free(c->va);
    free(c->vb);
    free(c->recorded);
    free(c->bad);
    clef_tensor_file_close(c->reference);
    cli_forward_close(&c->b);
    cli_forward_close(&c->a);
}

/* attention_L is the name that PyTorch users know. */
static clef_status read_reference(const compare *c, const char *name, value_data *out, clef_error *err)
{
    char alias[64] = "";
    int layer, n = 0;
    if (sscanf(name, "layer%d.attention%n", &layer, &n) == 1 && n && !name[n])
        snprintf(alias, sizeof alias, "attention_%d", layer);
    int32_t at = clef_tensor_file_find(c->reference, name);
    if (at < 0 && *alias)
        at = clef_tensor_file_find(c->reference, alias);
    if (at < 0)
        return CLEF_OK;
    const clef_tensor_info t = clef_tensor_file_get(c->reference, at);
    *out = (value_data){.name = name, .dtype = CLEF_F32, .rank = t.rank, .n = 1};
    memcpy(out->dims, t.dims, sizeof out->dims);
    for (int32_t i = 0; i < t.rank; i++)
        out->n *= (size_t)t.dims[i];
    out->data = malloc(out->n * sizeof(float) + 1);
    return out->data ? clef_tensor_file_read(c->reference, at, CLEF_F32, out->data, out->n, err)
                     : cli_error(err, CLEF_E_NOMEM, "%s: out of host memory", name);
}

static clef_status keep_bad(compare *c, const char *name, double error, const value_data *wanted,
                            clef_error *err)
{
    c->bad = malloc(strlen(name) + 1);
    if (!c->bad)
        return cli_error(err, CLEF_E_NOMEM, "compare: out of host memory");
    strcpy(c->bad, name);
    c->worst = error;
    cli_value_save_case(&c->a, name, wanted, c->o->save ? c->o->save : "compare.clef", &c->not_saved);
    return CLEF_OK;
}

static clef_status check_shape(const value_data *a, const value_data *b, clef_error *err)
{
    char here[96], wanted[96];
    if (a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0)
        return CLEF_OK;
    return cli_error(err, CLEF_E_SHAPE,
                     "%s: expected the shape %s of the reference, got %s; is it another text?", a->name,
                     cli_dims_text(b->rank, b->dims, wanted), cli_dims_text(a->rank, a->dims, here));
}

static clef_status look_at(compare *c, const clef_value *node, value_data *a, value_data *b, clef_error *err)
{
    clef_status status = CLEF_OK;
    if (c->o->stats) {
        cli_stats_line(stdout, node, a);
        status = cli_stats_check(node, a, err);
    }
    if (status == CLEF_OK && c->reference)
        status = read_reference(c, a->name, b, err);
    if (status == CLEF_OK && b->data)
        status = check_shape(a, b, err);
    if (status != CLEF_OK || !b->data)
        return status;
    const double error = cli_value_error(a, b);
    c->n_compared++;
    c->worst = error > c->worst ? error : c->worst;
    return error <= (double)c->o->tol ? CLEF_OK : keep_bad(c, a->name, error, b, err);
}

/* Compares the next part of both graphs' values. */
static clef_status walk_part(compare *c, int32_t n, clef_error *err)
{
    for (int32_t i = 0; i < n; i++)
        c->names[i] = clef_value_describe(c->list[i]).name;
    clef_status status = cli_values_read(&c->a, c->names, n, c->va, err);
    if (status == CLEF_OK && c->b.graph)
        status = cli_values_read(&c->b, c->names, n, c->vb, err);
    for (int32_t i = 0; i < n; i++) {
        if (status == CLEF_OK && !c->bad)
            status = look_at(c, c->list[i], &c->va[i], &c->vb[i], err);
        if (status == CLEF_OK && c->o->record)
            c->recorded[c->n_recorded++] = c->va[i];
        else
            cli_value_free(&c->va[i]);
        cli_value_free(&c->vb[i]);
    }
    return status;
}

/* Writes the values, and the inputs in the form of --in. */
static clef_status write_record(const compare *c, clef_error *err)
{
    const struct {
        const char *name;
        const int32_t *data;
        int32_t n;
    } inputs[] = {{"input_ids", c->a.ids, c->a.n_ids},
                  {"attention_mask", c->a.mask, c->a.n_ids},
                  {"decoder_input_ids", c->a.target, c->a.n_target}};
    const int32_t n_inputs = sizeof inputs / sizeof *inputs;
    int32_t n = c->n_recorded;
    clef_tensor_info *tensors = calloc((size_t)(n + n_inputs), sizeof *tensors);
    if (!tensors)
        return cli_error(err, CLEF_E_NOMEM, "compare: out of host memory");
    for (int32_t i = 0; i < c->n_recorded; i++) {
        const value_data *v = &c->recorded[i];
        tensors[i] = (clef_tensor_info){
            .name = v->name, .dtype = v->dtype, .rank = v->rank, .n_bytes = v->n * 4, .data = v->data};
        memcpy(tensors[i].dims, v->dims, sizeof v->dims);
    }
    for (int32_t i = 0; i < n_inputs; i++)
        if (inputs[i].data)
            tensors[n++] = (clef_tensor_info){.name = inputs[i].name,
                                              .dtype = CLEF_I32,
                                              .rank = 2,
                                              .dims = {1, inputs[i].n},
                                              .n_bytes = (uint64_t)inputs[i].n * sizeof(int32_t),
                                              .data = inputs[i].data};
    const clef_status status = clef_tensor_file_write(c->o->record, tensors, n, err);
    free(tensors);
    return status;
}

static clef_status walk_values(compare *c, clef_error *err)
{
    clef_status status = CLEF_OK;
    if (c->o->stats)
        cli_stats_head(stdout);
    for (int32_t at = 0; at < clef_graph_n_values(c->a.graph) && status == CLEF_OK && !c->bad;) {
        int32_t n;
        at = cli_values_next(c->a.graph, at, c->list, &n);
        if (n)
            status = walk_part(c, n, err);
    }
    return status == CLEF_OK && c->o->record ? write_record(c, err) : status;
}

static int report_value(const compare *c)
{
    const int compares = c->b.graph || c->reference;
    if (c->bad) {
        printf("%s is the first value out of tolerance: error %.3g, expected at most %.3g.", c->bad, c->worst,
               (double)c->o->tol);
        if (c->not_saved.status != CLEF_OK)
            printf("\nnot saved: %s\n", c->not_saved.text);
        else
            printf(" `clef replay %s` runs it again.\n", c->o->save ? c->o->save : "compare.clef");
        return CLI_FAILED;
    }
    if (compares && c->n_compared == 0)
        return cli_fail(
            CLI_FAILED, "compare: %s has none of the graph's values; `clef graph --after %s` lists them",
            c->reference ? c->o->reference : "the other side", c->o->after ? c->o->after : "drop");
    if (compares)
        printf("%" PRId32 " values agree, the worst within %.3g\n", c->n_compared, c->worst);
    return CLI_OK;
}

static int compare_run(const void *options, int32_t n_args, char **args)
{
    compare_options o = *(const compare_options *)options;
    compare c = {.o = &o};
    clef_error err = {0};
    const char *path = cli_model_path("compare", n_args, args, o.model);
    if (!path)
        return n_args > 0 && o.model ? CLI_USAGE : CLI_FAILED;
    if (!o.reference && !o.model_b && !o.device_b && o.gemm_b < 0 && !o.record && !o.stats)
        return cli_fail(CLI_USAGE, "compare: expected --reference, --model-b, --device-b or "
                                   "--gemm-b; or --record or --stats");
    if (o.reference && (o.model_b || o.device_b || o.gemm_b >= 0))
        return cli_fail(
            CLI_USAGE,
            "compare: expected --reference or another side (--model-b, --device-b, --gemm-b), got both");
    if (o.reference && !o.forward.prompt && !o.forward.file && !o.forward.ids && !o.forward.in)
        o.forward.in = o.reference;
    o.forward.said = o.reference;
    clef_status status = open_all(&c, path, &err);
    if (status == CLEF_OK)
        status = walk_values(&c, &err);
    const int rc = status == CLEF_OK ? report_value(&c) : cli_report(&err);
    close_all(&c);
    return rc;
}

const cli_command cli_command_compare = {
    .name = "compare",
    .usage = "[MODEL] -p TEXT --reference FILE | --model-b M | --device-b D | --gemm-b HOW",
    .summary = "Compare all values of two runs and find the first that differs",
    .notes = "Compares the values of the graph before ops are fused, in the order of execution; with --after "
             "fuse, the graph as it runs. The first node that differs by more than the tolerance is saved "
             "with its inputs, for `clef replay`. The exit code is 0 when all values agree.\n",
    .options = compare_option_table,
    .first = "model prompt file ids in n-predict reference model-b device-b stats tol save device "
             "quiet",
    .max_args = 1,
    .defaults = &compare_defaults,
    .options_bytes = sizeof compare_defaults,
    .run = compare_run,
};

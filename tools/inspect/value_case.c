/* Writes a node and its inputs to files, so that it can be run again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/output.h"
#include "tools/inspect/values.h"

enum { MAX_CASE = 128 };

/** The lines of the case in order, and the contents of its tensors. */
typedef struct value_case {
    cli_forward *f;
    const clef_value *node;
    const clef_value *lines[MAX_CASE];
    int32_t n_lines;
    const char *inputs[MAX_CASE]; /* names of computed values and inputs, whose numbers are stored */
    int32_t n_inputs;
    clef_graph *graph; /* a copy with the lengths of the run */
} value_case;

/* 1 for values whose numbers are not stored: views, and states, which were zeros. */
static int is_followed(const clef_value_info *v)
{
    static const char *const ops[] = {"reshape", "permute", "slice", "cache_write", "cache_reorder", "pack"};
    for (size_t i = 0; v->op && i < sizeof ops / sizeof *ops; i++)
        if (strcmp(v->op, ops[i]) == 0)
            return 1;
    return 0;
}

static clef_status follow_inputs(value_case *c, const clef_value *v, int is_node, clef_error *err)
{
    const clef_value_info info = clef_value_describe(v);
    clef_status status = CLEF_OK;
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_lines; i++)
        if (c->lines[i] == v)
            return CLEF_OK;
    clef_value_input(v, 0, &n);
    for (int32_t i = 0; i < n && (is_node || is_followed(&info)) && status == CLEF_OK; i++)
        if (clef_value_input(v, i, NULL))
            status = follow_inputs(c, clef_value_input(v, i, NULL), 0, err);
    if (status != CLEF_OK)
        return status;
    if (c->n_lines == MAX_CASE || c->n_inputs == MAX_CASE)
        return cli_error(err, CLEF_E_LIMIT, "%s: depends on more than %d values", info.name, MAX_CASE);
    if (!is_node && !is_followed(&info) && (info.kind == CLEF_COMPUTED || info.kind == CLEF_INPUT))
        c->inputs[c->n_inputs++] = info.name;
    c->lines[c->n_lines++] = v;
    return CLEF_OK;
}

/* A computed value becomes an input; its type is the text after " : ". */
static clef_status write_line(const value_case *c, const clef_value *v, FILE *to, clef_error *err)
{
    const clef_value_info info = clef_value_describe(v);
    char shape[256] = "";
    if (v == c->node || is_followed(&info) || info.kind != CLEF_COMPUTED)
        return clef_value_write_text(v, to, err);
    for (int32_t i = 0; i < info.shape.rank; i++) {
        const clef_dim d = info.shape.dim[i];
        const size_t at = strlen(shape);
        const char *symbol = d.symbol ? clef_graph_symbol(c->graph, d.symbol, NULL) : NULL;
        if (symbol)
            snprintf(shape + at, sizeof shape - at, "%s%" PRId64 "*%s", i ? ", " : "", d.n, symbol);
        else
            snprintf(shape + at, sizeof shape - at, "%s%" PRId64, i ? ", " : "", d.n);
    }
    fputs("input ", to);
    cli_json_string(to, info.name); /* the text form has the same escapes */
    fprintf(to, " %s [%s]\n", clef_dtype_name(info.dtype), shape);
    return CLEF_OK;
}

static clef_status write_graph(void *user, FILE *to, clef_error *err)
{
    const value_case *c = user;
    clef_status status = CLEF_OK;
    int64_t bound;
    fputs("clef-graph 1\n", to);
    for (int32_t i = 1; clef_graph_symbol(c->graph, i, &bound); i++)
        fprintf(to, "symbol %s <= %" PRId64 "\n", clef_graph_symbol(c->graph, i, NULL), bound);
    for (int32_t i = 0; i < c->n_lines && status == CLEF_OK; i++)
        status = write_line(c, c->lines[i], to, err);
    fputs("output ", to);
    cli_json_string(to, clef_value_describe(c->node).name);
    fputc('\n', to);
    return status;
}

/* Adds the stored bytes of a weight: directly if the file's format has the dtype, else as bytes under another
 * name. */
static clef_status add_weight(const value_case *c, const clef_value *v, clef_tensor_info *t, char name[300],
                              clef_error *err)
{
    const clef_value_info info = clef_value_describe(v);
    for (int32_t i = 0; i < clef_model_n_tensors(c->f->model); i++) {
        const clef_tensor_info found = clef_model_tensor(c->f->model, i);
        if (strcmp(found.name, info.name) != 0)
            continue;
        *t = found;
        if (clef_dtype_block_elems(found.dtype) > 1) {
            snprintf(name, 300, "%.280s (bytes)", found.name);
            t->name = name;
            t->dtype = CLEF_I8;
            t->rank = 1;
            t->dims[0] = (int64_t)found.n_bytes;
        }
        return CLEF_OK;
    }
    return cli_error(err, CLEF_E_UNSUPPORTED,
                     "%s: is not a tensor of the file in this form, and cannot be saved", info.name);
}

static clef_status write_tensors(const value_case *c, const value_data *values, const value_data *wanted,
                                 const char *path, clef_error *err)
{
    clef_tensor_info tensors[MAX_CASE + 1];
    char(*names)[300] = malloc(MAX_CASE * sizeof *names);
    int32_t n = 0;
    clef_status status = names ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "out of host memory");
    for (int32_t i = 0; i <= c->n_inputs && status == CLEF_OK; i++) {
        const value_data *v = i < c->n_inputs ? &values[i] : wanted;
        if (!v || !v->data)
            continue;
        tensors[n] = (clef_tensor_info){.name = v == wanted ? "expected" : v->name,
                                        .dtype = v->dtype,
                                        .rank = v->rank,
                                        .n_bytes = v->n * 4,
                                        .data = v->data};
        memcpy(tensors[n++].dims, v->dims, sizeof v->dims);
    }
    for (int32_t i = 0; i < c->n_lines && status == CLEF_OK && n <= MAX_CASE; i++)
        if (clef_value_describe(c->lines[i]).kind == CLEF_WEIGHT) {
            status = add_weight(c, c->lines[i], &tensors[n], names[i], err);
            n += status == CLEF_OK;
        }
    if (status == CLEF_OK)
        status = clef_tensor_file_write(path, tensors, n, err);
    free(names);
    return status;
}

clef_status cli_value_save_case(cli_forward *f, const char *name, const value_data *wanted, const char *path,
                                clef_error *err)
{
    static const char suffix[] = ".safetensors";
    value_case c = {.f = f, .graph = clef_graph_clone(f->graph)};
    value_data *values = calloc(MAX_CASE, sizeof *values);
    char *tensors = malloc(strlen(path) + sizeof suffix);
    clef_status status =
        c.graph && values && tensors ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "%s: out of host memory", path);
    const struct {
        const char *name;
        int32_t n;
    } lengths[] = {{"T", f->n_ids}, {"S", f->n_ids}, {"U", f->n_target}, {"B", 1}};
    clef_error none = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && status == CLEF_OK; i++)
        if (lengths[i].n) /* not every graph has all of them */
            clef_graph_set_bound(c.graph, lengths[i].name, lengths[i].n, &none);
    c.node = status == CLEF_OK ? clef_graph_find(c.graph, name) : NULL;
    if (status == CLEF_OK)
        status = follow_inputs(&c, c.node, 1, err);
    if (status == CLEF_OK)
        status = cli_values_read(f, c.inputs, c.n_inputs, values, err);
    if (status == CLEF_OK)
        status = write_tensors(&c, values, wanted, strcat(strcpy(tensors, path), suffix), err);
    if (status == CLEF_OK)
        status = cli_output(path, write_graph, &c, err);
    for (int32_t i = 0; values && i < c.n_inputs; i++)
        cli_value_free(&values[i]);
    free(values);
    free(tensors);
    clef_graph_destroy(c.graph);
    return status;
}

/* clef_graph_write_onnx(): leaves, the nodes one after the other, weights, and the file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/onnx/onnx.h"
#include "graph/text/text.h"

enum { DATA_ALIGN = 64 };
static const uint64_t max_inside = (uint64_t)INT32_MAX; /* of protobuf */

typedef struct weight_writer {
    const clef_onnx_opts *opts;
    uint64_t offset; /* in the data file */
    uint64_t inside_bytes;
} weight_writer;

/* The bytes of a weight as ONNX has them: its own, or F32 of a block format in *made, which the caller
 * frees. */
static const void *weight_bytes(onnx_export *x, const clef_onnx_opts *opts, const clef_value *v, void **made,
                                size_t *n_bytes)
{
    const size_t n = (size_t)clef__elements(v, NULL);
    const void *stored =
        opts->weights ? opts->weights(opts->weights_user, v->name, v->dtype, (uint64_t)clef__bytes(v, NULL))
                      : NULL;
    *made = NULL;
    *n_bytes = (size_t)clef__bytes(v, NULL);
    if (!stored) {
        clef__onnx_fail(x, CLEF_E_NOT_FOUND, "%s: there is no weight of that name, dtype %s and size",
                        v->name, clef_dtype_name(v->dtype));
        return NULL;
    }
    if (clef__onnx_type(v->dtype))
        return stored;
    *n_bytes = n * sizeof(float);
    *made = malloc(*n_bytes);
    if (!*made) {
        clef__onnx_fail(x, CLEF_E_NOMEM, "%s: no memory for its %zu bytes of f32", v->name, *n_bytes);
        return NULL;
    }
    clef_dtype_decode(v->dtype, stored, n, *made);
    return *made;
}

static Onnx__Entry *entry(onnx_export *x, const char *key, const char *value)
{
    Onnx__Entry *e = clef__onnx_alloc(x, sizeof *e);
    if (!e)
        return NULL;
    onnx__entry__init(e);
    e->key = (char *)(uintptr_t)key;
    e->value = (char *)(uintptr_t)value;
    return e;
}

/* The tensor's bytes go to the data file; the graph says where they are. */
static void put_beside(onnx_export *x, weight_writer *w, Onnx__Tensor *t, const void *data, size_t n)
{
    static const char zeros[DATA_ALIGN];
    const size_t pad = (size_t)((DATA_ALIGN - w->offset % DATA_ALIGN) % DATA_ALIGN);
    Onnx__Entry **list = clef__onnx_alloc(x, 3 * sizeof(Onnx__Entry *));
    if (!list)
        return;
    if (fwrite(zeros, 1, pad, w->opts->data) != pad || fwrite(data, 1, n, w->opts->data) != n) {
        clef__onnx_fail(x, CLEF_E_IO, "%s: cannot write the weights", w->opts->data_name);
        return;
    }
    w->offset += pad;
    list[0] = entry(x, "location", w->opts->data_name);
    list[1] = entry(x, "offset", clef__onnx_text(x, "%" PRIu64, w->offset));
    list[2] = entry(x, "length", clef__onnx_text(x, "%zu", n));
    w->offset += n;
    t->external_data = list;
    t->n_external_data = 3;
    t->has_data_location = 1;
    t->data_location = 1;
    t->has_raw_data = 0;
    t->raw_data = (ProtobufCBinaryData){0};
}

static void add_weight(onnx_export *x, weight_writer *w, const clef_value *v)
{
    int64_t dims[CLEF_MAX_DIMS];
    void *made;
    size_t n;
    const void *data = weight_bytes(x, w->opts, v, &made, &n);
    const int32_t type = clef__onnx_type(v->dtype);
    for (int32_t i = 0; i < v->shape.rank; i++)
        dims[i] = v->shape.dim[i].n;
    if (made && !w->opts->data) { /* lives until the file is written */
        void *copy = w->inside_bytes + n > max_inside ? made : clef__onnx_alloc(x, n);
        if (copy && copy != made)
            memcpy(copy, made, n);
        data = copy;
    }
    if (data)
        clef__onnx_initializer(x, v->name, type ? type : ONNX_FLOAT, dims, v->shape.rank, data, n);
    if (!x->status && w->opts->data)
        put_beside(x, w, x->initializers.items[x->initializers.n - 1], data, n);
    w->inside_bytes += w->opts->data ? 0 : n;
    if (w->inside_bytes > max_inside)
        clef__onnx_fail(
            x, CLEF_E_LIMIT,
            "ONNX: the weights are more than the 2 GiB that fit inside the file: put them beside it");
    free(made);
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Each symbol as I64 [1]: from the first input that has it, else an input of its own. */
static void find_symbols(onnx_export *x)
{
    const clef_graph *g = x->graph;
    const clef_shape one = clef_shape_1(clef_n(1));
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        for (int32_t k = 0; v->kind == CLEF_INPUT && k < v->shape.rank; k++) {
            const clef_dim d = v->shape.dim[k];
            if (!d.symbol || x->symbols[d.symbol - 1])
                continue;
            ONNX(x, "Shape", v->name);
            clef__onnx_int(x, "start", k);
            const char *dim = clef__onnx_int(x, "end", k + 1);
            x->symbols[d.symbol - 1] = d.n == 1 ? dim : ONNX(x, "Div", dim, ONNX_I64S(x, d.n));
        }
    }
    if (x->form != CLEF_ONNX_PLAIN)
        clef__onnx_find_lengths(x);
    for (int32_t s = 0; s < g->n_symbols && !x->status; s++)
        if (!x->symbols[s]) {
            x->symbols[s] = g->symbols[s].name;
            if (clef_graph_find(g, g->symbols[s].name))
                clef__onnx_fail(x, CLEF_E_UNSUPPORTED,
                                "ONNX: the symbol %s becomes an input, but a value has its name",
                                g->symbols[s].name);
            clef__onnx_push(x, &x->inputs, clef__onnx_info(x, g->symbols[s].name, ONNX_INT64, &one));
        }
}

static void add_leaf(onnx_export *x, weight_writer *w, const clef_value *v)
{
    const int32_t type = clef__onnx_type(v->dtype);
    int64_t dims[CLEF_MAX_DIMS] = {0};
    x->names[v->id] = v->name;
    for (int32_t i = 0; i < v->shape.rank; i++)
        dims[i] = v->shape.dim[i].n;
    if (v->kind == CLEF_CONSTANT)
        clef__onnx_initializer(x, v->name, type, dims, v->shape.rank, v->data, (size_t)clef__bytes(v, NULL));
    else if (v->kind == CLEF_WEIGHT)
        add_weight(x, w, v);
    else if (!type)
        clef__onnx_fail(x, CLEF_E_UNSUPPORTED, "%s: ONNX: %s, expected f32, f16, bf16, i32 or i8", v->name,
                        clef_dtype_name(v->dtype));
    else if (x->form != CLEF_ONNX_PLAIN)
        clef__onnx_add_named_leaf(x, v, type);
    else
        clef__onnx_push(x, &x->inputs, clef__onnx_info(x, v->name, type, &v->shape));
}

/* The result of a node takes the node's name: the last ONNX node is renamed, or one that passes its input on
 * is added. */
static void name_result(onnx_export *x, const clef_value *n, const char *result)
{
    Onnx__Node *last = x->last;
    if (x->status)
        return;
    const int is_last = last && result == last->output[0] && strncmp(result, n->name, strlen(n->name)) == 0 &&
                        strncmp(result + strlen(n->name), "//", 2) == 0 && !clef__onnx_is_shared(x, result);
    if (!is_last) {
        ONNX(x, "Identity", result);
        last = x->last;
    }
    if (last)
        last->output[0] = last->name = n->name;
    x->names[n->id] = n->name;
    const clef_shape shape = clef__onnx_is_whole_cache(x, n) ? clef__onnx_cache_shape(x, n) : n->shape;
    clef__onnx_push(x, &x->infos, clef__onnx_info(x, n->name, clef__onnx_type(n->dtype), &shape));
}

static void add_node(onnx_export *x, const clef_value *n)
{
    const onnx_emit emit = clef__onnx_table[n->op];
    const clef_op_def *def = clef__ops[n->op];
    if (!emit || !clef__onnx_type(n->dtype)) {
        clef__onnx_fail(
            x, CLEF_E_UNSUPPORTED, "%s: ONNX has no ops for %s%s%s", n->name, def->name, emit ? " of " : "",
            emit ? clef_dtype_name(n->dtype) : ": export the graph as it is before the fuse pass");
        return;
    }
    x->node = n;
    x->n_made = 0;
    x->last = NULL;
    name_result(x, n, emit(x, n));
    for (int32_t i = 0; def->view && i < n->n_in; i++)
        if (def->writes >> i & 1)
            x->names[clef__base(n->in[i])->id] = n->name;
    x->node = NULL;
}

static void add_output(onnx_export *x, const char *name, const clef_value *v, const clef_shape *shape)
{
    const char *from = x->names[v->id];
    if (strcmp(name, from) != 0) {
        ONNX(x, "Identity", from);
        if (x->last)
            x->last->output[0] = x->last->name = (char *)(uintptr_t)name;
    }
    clef__onnx_push(x, &x->outputs, clef__onnx_info(x, name, clef__onnx_type(v->dtype), shape));
}

static void add_state_output(onnx_export *x, const clef_value *v)
{
    clef_shape shape = v->shape;
    const int is_plain = x->form == CLEF_ONNX_PLAIN;
    const char *name = is_plain ? clef__onnx_text(x, "%s.out", v->name) : clef__onnx_present(x, v, &shape);
    if (name && clef_graph_find(x->graph, name))
        clef__onnx_fail(x, CLEF_E_UNSUPPORTED,
                        "ONNX: %s is expected as the name of what becomes of a state, but a value has it",
                        name);
    else if (name)
        add_output(x, name, v, &shape);
}

static void add_outputs(onnx_export *x)
{
    const clef_graph *g = x->graph;
    for (int32_t i = 0; i < g->n_outputs; i++)
        add_output(x, g->outputs[i].name, g->outputs[i].value, &g->outputs[i].value->shape);
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->kind == CLEF_STATE)
            add_state_output(x, g->values[i]);
}

/* Infos of values that are outputs too would be given twice. */
static void drop_output_infos(onnx_export *x)
{
    size_t n = 0;
    for (size_t i = 0; i < x->infos.n; i++) {
        const Onnx__ValueInfo *info = x->infos.items[i];
        int is_output = 0;
        for (size_t k = 0; k < x->outputs.n && !is_output; k++)
            is_output = strcmp(((const Onnx__ValueInfo *)x->outputs.items[k])->name, info->name) == 0;
        if (!is_output)
            x->infos.items[n++] = x->infos.items[i];
    }
    x->infos.n = n;
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct file_buffer {
    ProtobufCBuffer base;
    FILE *to;
} file_buffer;

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data)
{
    fwrite(data, 1, n, ((file_buffer *)(void *)buffer)->to); /* what fails shows in ferror() */
}

static void write_model(onnx_export *x, FILE *to)
{
    Onnx__Graph graph = ONNX__GRAPH__INIT;
    Onnx__OperatorSet opset = ONNX__OPERATOR_SET__INIT, *opsets[] = {&opset};
    Onnx__Model model = ONNX__MODEL__INIT;
    file_buffer buffer = {.base = {.append = append}, .to = to};
    graph.name = (char *)(uintptr_t) "clef";
    graph.node = (Onnx__Node **)x->main_nodes.items;
    graph.n_node = x->main_nodes.n;
    graph.initializer = (Onnx__Tensor **)x->initializers.items;
    graph.n_initializer = x->initializers.n;
    graph.input = (Onnx__ValueInfo **)x->inputs.items;
    graph.n_input = x->inputs.n;
    graph.output = (Onnx__ValueInfo **)x->outputs.items;
    graph.n_output = x->outputs.n;
    graph.value_info = (Onnx__ValueInfo **)x->infos.items;
    graph.n_value_info = x->infos.n;
    opset.domain = (char *)(uintptr_t) "";
    opset.has_version = 1;
    opset.version = CLEF_ONNX_OPSET;
    model.has_ir_version = 1;
    model.ir_version = CLEF_ONNX_IR;
    model.producer_name = (char *)(uintptr_t) "clef";
    model.graph = &graph;
    model.opset_import = opsets;
    model.n_opset_import = 1;
    if (!x->main_nodes.n || !x->outputs.n)
        clef__onnx_fail(x, CLEF_E_UNSUPPORTED, "ONNX: the graph has no %s", x->outputs.n ? "node" : "output");
    else if (protobuf_c_message_get_packed_size(&model.base) > max_inside)
        clef__onnx_fail(
            x, CLEF_E_LIMIT,
            "ONNX: the file would be larger than the 2 GiB that protobuf allows: put the weights beside it");
    else
        protobuf_c_message_pack_to_buffer(&model.base, &buffer.base);
}

clef_status clef_graph_write_onnx(const clef_graph *g, FILE *to, const clef_onnx_opts *opts, clef_error *err)
{
    static const clef_onnx_opts no_opts;
    onnx_export x = {.graph = g, .err = err};
    weight_writer w = {.opts = opts ? opts : &no_opts};
    if (g->error.status)
        return clef_graph_error(g, err);
    if (w.opts->data && !w.opts->data_name)
        return clef__fail(err, CLEF_E_ARG, "ONNX: the file of the weights has no name");
    x.form = w.opts->form;
    x.arena = clef__arena_create();
    x.nodes = &x.main_nodes;
    x.names = calloc((size_t)g->n_values + 1, sizeof *x.names);
    if (!x.arena || !x.names)
        clef__onnx_fail(&x, CLEF_E_NOMEM, "ONNX: out of host memory");
    for (int32_t i = 0; i < g->n_values && !x.status; i++)
        if (strstr(g->values[i]->name, "//"))
            clef__onnx_fail(&x, CLEF_E_UNSUPPORTED, "%s: ONNX: names with // are the export's own",
                            g->values[i]->name);
    if (!x.status)
        find_symbols(&x);
    for (int32_t i = 0; i < g->n_values && !x.status; i++)
        if (g->values[i]->op == CLEF_OP_NONE)
            add_leaf(&x, &w, g->values[i]);
    for (int32_t i = 0; i < g->n_values && !x.status; i++)
        if (g->values[i]->op != CLEF_OP_NONE)
            add_node(&x, g->values[i]);
    if (!x.status) {
        add_outputs(&x);
        drop_output_infos(&x);
    }
    if (!x.status)
        write_model(&x, to);
    if (!x.status)
        x.status = clef__check_stream(to, "ONNX", err);
    free(x.names);
    clef__arena_destroy(x.arena);
    return x.status;
}

/* The graph itself: creating and copying it, its leaves, symbols, scopes, outputs and names. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "graph/arena.h"
#include "graph/names.h"
#include "graph/op.h"

clef_graph *clef_graph_create(void)
{
    clef_graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->arena = clef__arena_create();
    g->names = clef__names_create();
    if (!g->arena || !g->names) {
        clef_graph_destroy(g);
        return NULL;
    }
    return g;
}

void clef_graph_destroy(clef_graph *g)
{
    if (!g)
        return;
    clef__arena_destroy(g->arena);
    clef__names_destroy(g->names);
    free(g->values);
    free(g->outputs);
    free(g);
}

clef_status clef_graph_error(const clef_graph *g, clef_error *err)
{
    if (g->error.status && err)
        *err = g->error;
    return g->error.status;
}

clef_value *clef__graph_fail(clef_graph *g, clef_status status, const char *format, ...)
{
    if (!g->error.status) {
        va_list args;
        va_start(args, format);
        char text[sizeof g->error.text];
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        clef__fail(&g->error, status, "%s", text);
    }
    return NULL;
}

void *clef__graph_alloc(clef_graph *g, size_t n_bytes)
{
    void *p = clef__arena_alloc(g->arena, n_bytes);
    if (!p)
        clef__graph_fail(g, CLEF_E_NOMEM, "graph: no memory for %zu bytes", n_bytes);
    return p;
}

static char *copy_text(clef_graph *g, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = clef__graph_alloc(g, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

int clef__graph_append(clef_graph *g, clef_value *v)
{
    if (g->n_values == g->cap_values) {
        const int32_t cap = g->cap_values ? g->cap_values * 2 : 64;
        clef_value **bigger = realloc(g->values, (size_t)cap * sizeof *bigger);
        if (!bigger) {
            clef__graph_fail(g, CLEF_E_NOMEM, "graph: no memory for %d values", cap);
            return 0;
        }
        g->values = bigger;
        g->cap_values = cap;
    }
    v->id = g->n_values;
    g->values[g->n_values++] = v;
    clef__track_state(v);
    clef__track_readers(v);
    return 1;
}

void clef__track_readers(clef_value *v)
{
    v->n_readers = 0;
    for (int32_t i = 0; i < v->n_in; i++) {
        int32_t first = 0;
        while (v->in[first] != v->in[i])
            first++;
        if (v->in[i] && first == i)
            v->in[i]->n_readers++;
    }
}

int clef__graph_make_name(clef_graph *g, const char *prefix, size_t n_bytes, clef_op op,
                          char name[CLEF_NAME_BYTES])
{
    int n;
    do
        n = snprintf(name, CLEF_NAME_BYTES, "%.*s%s_%d", (int)n_bytes, prefix, clef__ops[op]->name,
                     g->next_number[op]++);
    while (n > 0 && n < CLEF_NAME_BYTES && clef__names_find(g->names, name));
    if (n > 0 && n < CLEF_NAME_BYTES)
        return 1;
    clef__graph_fail(g, CLEF_E_LIMIT, "%s: a name has at most %d bytes", name, CLEF_NAME_BYTES - 1);
    return 0;
}

/* Takes a generated name away from its value, which gets another one in its scope. */
static int free_name(clef_graph *g, clef_value *v)
{
    char name[CLEF_NAME_BYTES];
    const char *dot = strrchr(v->name, '.');
    return clef__graph_make_name(g, v->name, dot ? (size_t)(dot - v->name) + 1 : 0, v->op, name) &&
           clef__graph_rename(g, v, name);
}

int clef__graph_rename(clef_graph *g, clef_value *v, const char *name)
{
    clef_value *other = clef__names_find(g->names, name);
    const size_t n = strlen(name);
    if (!n || n >= CLEF_NAME_BYTES) {
        clef__graph_fail(g, CLEF_E_LIMIT, "%.40s%s: a name has 1 to %d bytes", name, n > 40 ? ".." : "",
                         CLEF_NAME_BYTES - 1);
        return 0;
    }
    if (other && other != v && other->named) {
        clef__graph_fail(g, CLEF_E_ARG, "%s: two values of this name", name);
        return 0;
    }
    if (other && other != v && !free_name(g, other))
        return 0;
    char *copy = copy_text(g, name);
    if (!copy)
        return 0;
    if (v->name)
        clef__names_remove(g->names, v);
    v->name = copy;
    if (!clef__names_add(g->names, v)) {
        clef__graph_fail(g, CLEF_E_NOMEM, "graph: no memory for the name %s", name);
        return 0;
    }
    return 1;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static clef__symbol_role role_of(const char *name)
{
    static const char *const names[] = {
        [CLEF__SYMBOL_ROWS] = "T", [CLEF__SYMBOL_KEYS] = "S", [CLEF__SYMBOL_SEQUENCES] = "B"};
    for (int32_t i = CLEF__SYMBOL_ROWS; i <= CLEF__SYMBOL_SEQUENCES; i++)
        if (strcmp(names[i], name) == 0)
            return (clef__symbol_role)i;
    return CLEF__SYMBOL_OTHER;
}

clef_dim clef_symbol(clef_graph *g, const char *name, int64_t bound)
{
    const clef_dim none = {1, 0};
    if (!g || g->error.status)
        return none;
    if (!clef__is_symbol_name(name)) {
        clef__graph_fail(
            g, CLEF_E_ARG,
            "'%.40s' cannot name a symbol: expected 1 to %d letters, digits and _.-/, no digit first", name,
            CLEF_NAME_BYTES - 1);
        return none;
    }
    for (int32_t i = 0; i < g->n_symbols; i++)
        if (strcmp(g->symbols[i].name, name) == 0) {
            if (g->symbols[i].bound != bound)
                clef__graph_fail(g, CLEF_E_ARG, "symbol %s: bound %lld, but it was declared with %lld", name,
                                 (long long)bound, (long long)g->symbols[i].bound);
            return (clef_dim){1, i + 1};
        }
    if (bound < 1 || bound > INT32_MAX) {
        clef__graph_fail(g, CLEF_E_ARG, "symbol %s: bound %lld, expected 1 to %d", name, (long long)bound,
                         INT32_MAX);
        return none;
    }
    if (g->n_symbols == CLEF_MAX_SYMBOLS) {
        clef__graph_fail(g, CLEF_E_LIMIT, "symbol %s: a graph has at most %d symbols", name,
                         CLEF_MAX_SYMBOLS);
        return none;
    }
    char *copy = copy_text(g, name);
    if (!copy)
        return none;
    g->symbols[g->n_symbols++] = (clef_symbol_def){copy, bound, role_of(name)};
    return (clef_dim){1, g->n_symbols};
}

int32_t clef_graph_n_symbols(const clef_graph *g)
{
    return g->n_symbols;
}

const char *clef_graph_symbol(const clef_graph *g, int32_t i, int64_t *bound)
{
    if (i < 1 || i > g->n_symbols)
        return NULL;
    if (bound)
        *bound = g->symbols[i - 1].bound;
    return g->symbols[i - 1].name;
}

clef_status clef_graph_set_bound(clef_graph *g, const char *symbol, int64_t value, clef_error *err)
{
    for (int32_t i = 0; i < g->n_symbols; i++) {
        if (strcmp(g->symbols[i].name, symbol) != 0)
            continue;
        if (value < 1 || value > g->symbols[i].bound)
            return clef__fail(err, CLEF_E_ARG, "symbol %s: expected 1 to %" PRId64 ", got %" PRId64, symbol,
                              g->symbols[i].bound, value);
        g->symbols[i].bound = value;
        return CLEF_OK;
    }
    return clef__fail(err, CLEF_E_NOT_FOUND, "the graph has no symbol '%s'", symbol);
}

/* ---- scopes and names ------------------------------------------------------------------------ */

static const char *const part_names[] = {[CLEF__PART_ONLY] = "",
                                         [CLEF__PART_ENCODER] = "encoder",
                                         [CLEF__PART_DECODER] = "decoder",
                                         [CLEF__PART_LOSS] = "loss"};

const char *clef__part_name(clef__scope_part part)
{
    return part_names[part];
}

clef__scope clef__scope_of_name(const char *name)
{
    clef__scope s = {0};
    for (int32_t part = CLEF__PART_ENCODER; part <= CLEF__PART_LOSS; part++) {
        const size_t n = strlen(part_names[part]);
        if (strncmp(name, part_names[part], n) == 0 && name[n] == '.') {
            s.part = (clef__scope_part)part;
            name += n + 1;
            break;
        }
    }
    int n = 0;
    if (sscanf(name, "layer%*9[0-9]%n", &n) == 0 && n && name[n] == '.')
        s = (clef__scope){s.part, 1, atoi(name + strlen("layer"))};
    return s;
}

char *clef__layer_name(clef__scope s, char out[CLEF__LAYER_BYTES])
{
    out[0] = 0;
    if (s.in_layer)
        snprintf(out, CLEF__LAYER_BYTES, "%s%slayer%" PRId32, part_names[s.part], s.part ? "." : "", s.layer);
    return out;
}

int clef__in_layer(clef__scope s)
{
    return s.in_layer && s.part != CLEF__PART_LOSS;
}

int clef__same_layer(clef__scope a, clef__scope b)
{
    return a.in_layer && b.in_layer && a.part == b.part && a.layer == b.layer;
}

void clef_scope_push(clef_graph *g, const char *format, ...)
{
    if (g->n_scopes == (int32_t)(sizeof g->scope_ends / sizeof *g->scope_ends)) {
        clef__graph_fail(g, CLEF_E_LIMIT, "scopes nest deeper than %d", g->n_scopes);
        return;
    }
    const size_t at = strlen(g->prefix);
    g->scope_ends[g->n_scopes++] = (int32_t)at;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(g->prefix + at, sizeof g->prefix - at, format, args);
    va_end(args);
    if (n < 0 || at + (size_t)n + 2 > sizeof g->prefix)
        clef__graph_fail(g, CLEF_E_LIMIT, "the scope %s is too long", g->prefix);
    else
        strcat(g->prefix, ".");
    g->scope = clef__scope_of_name(g->prefix);
}

void clef_scope_pop(clef_graph *g)
{
    if (g->n_scopes)
        g->prefix[g->scope_ends[--g->n_scopes]] = 0;
    g->scope = clef__scope_of_name(g->prefix);
}

clef_value *clef_named(clef_value *v, const char *format, ...)
{
    if (!v)
        return NULL;
    clef_graph *g = v->graph;
    char name[CLEF_NAME_BYTES];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    char full[CLEF_NAME_BYTES + sizeof g->prefix];
    snprintf(full, sizeof full, "%s%s", name[0] == '/' ? "" : g->prefix, name + (name[0] == '/'));
    if (n < 1 || n >= CLEF_NAME_BYTES)
        return clef__graph_fail(g, CLEF_E_LIMIT, "%.40s: a name has 1 to %d bytes", full,
                                CLEF_NAME_BYTES - 1);
    if (!clef__graph_rename(g, v, full))
        return NULL;
    v->named = 1;
    v->scope = name[0] == '/' ? (clef__scope){0} : g->scope;
    return v;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static clef_value *add_leaf(clef_graph *g, clef_value_kind kind, const char *name, clef_dtype dtype,
                            const clef_shape *shape)
{
    static const char *const kinds[] = {"input", "weight", "state", "constant"};
    char text[96];
    if (!g || g->error.status)
        return NULL;
    clef_value *old = clef__names_find(g->names, name);
    if (old && old->kind == CLEF_WEIGHT && kind == CLEF_WEIGHT && old->dtype == dtype &&
        clef__shape_equal(&old->shape, shape))
        return old;
    if (old && old->named)
        return clef__graph_fail(g, CLEF_E_ARG, "%s %s: a value with this name already exists", kinds[kind],
                                name);
    if ((uint32_t)dtype >= CLEF_N_DTYPES || shape->rank < 0 || shape->rank > CLEF_MAX_DIMS)
        return clef__graph_fail(g, CLEF_E_ARG, "%s %s: no such dtype or rank", kinds[kind], name);
    for (int32_t i = 0; i < shape->rank; i++) {
        const clef_dim d = shape->dim[i];
        if (d.n < 1 || d.symbol < 0 || d.symbol > g->n_symbols || (d.symbol && kind != CLEF_INPUT))
            return clef__graph_fail(g, CLEF_E_SHAPE, "%s %s: dim %d: expected %s", kinds[kind], name, i,
                                    kind == CLEF_INPUT ? "a positive number or a declared symbol"
                                                       : "a positive number");
    }
    if (!clef__fits_bits(g, shape, CLEF__VALUE_BITS))
        return clef__graph_fail(g, CLEF_E_LIMIT,
                                "%s %s %s: too large, expected dims below 2^32 and less than 2^%d elements",
                                kinds[kind], name, clef__shape_text(g, shape, text), CLEF__VALUE_BITS);
    const int32_t block = clef_dtype_block_elems(dtype);
    if (block > 1 && (shape->rank == 0 || shape->dim[shape->rank - 1].n % block))
        return clef__graph_fail(g, CLEF_E_SHAPE, "%s %s %s: %s needs rows of whole blocks of %d", kinds[kind],
                                name, clef__shape_text(g, shape, text), clef_dtype_name(dtype), block);
    clef_value *v = clef__graph_alloc(g, sizeof *v);
    if (!v)
        return NULL;
    *v = (clef_value){
        .graph = g, .kind = kind, .op = CLEF_OP_NONE, .dtype = dtype, .shape = *shape, .named = 1};
    v->is_large = !clef__fits_bits(g, shape, CLEF__KERNEL_BITS);
    v->scope = kind == CLEF_STATE ? g->scope : (clef__scope){0};
    return clef__graph_rename(g, v, name) && clef__graph_append(g, v) ? v : NULL;
}

clef_value *clef_input(clef_graph *g, const char *name, clef_dtype dtype, clef_shape shape)
{
    return add_leaf(g, CLEF_INPUT, name, dtype, &shape);
}

clef_value *clef_weight(clef_graph *g, const char *name, clef_dtype dtype, clef_shape shape)
{
    return add_leaf(g, CLEF_WEIGHT, name, dtype, &shape);
}

clef_value *clef_state(clef_graph *g, const char *name, clef_dtype dtype, clef_shape shape)
{
    return add_leaf(g, CLEF_STATE, name, dtype, &shape);
}

clef_value *clef_constant(clef_graph *g, const char *name, clef_dtype dtype, clef_shape shape,
                          const void *data)
{
    if (g && dtype != CLEF_F32 && dtype != CLEF_I32)
        return clef__graph_fail(g, CLEF_E_ARG, "constant %s: %s, expected f32 or i32", name,
                                clef_dtype_name(dtype));
    clef_value *v = add_leaf(g, CLEF_CONSTANT, name, dtype, &shape);
    if (!v)
        return NULL;
    const size_t n_bytes = (size_t)clef__bytes(v, NULL);
    void *copy = clef__graph_alloc(g, n_bytes);
    if (!copy)
        return NULL;
    v->data = memcpy(copy, data, n_bytes);
    return v;
}

/* ---- outputs --------------------------------------------------------------------------------- */

int clef__graph_add_output(clef_graph *g, const char *name, clef_value *v)
{
    const clef_value *write = clef__overwritten_by(v);
    if (write) {
        clef__graph_fail(g, CLEF_E_ARG,
                         "output %s: %s shows a state that %s has written since: use the result of the write",
                         name, v->name, write->name);
        return 0;
    }
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->outputs[i].name, name) == 0) {
            clef__graph_fail(g, CLEF_E_ARG, "output %s: two outputs of this name", name);
            return 0;
        }
    if (g->n_outputs == g->cap_outputs) {
        const int32_t cap = g->cap_outputs ? g->cap_outputs * 2 : 8;
        clef_output_def *bigger = realloc(g->outputs, (size_t)cap * sizeof *bigger);
        if (!bigger) {
            clef__graph_fail(g, CLEF_E_NOMEM, "graph: no memory for %d outputs", cap);
            return 0;
        }
        g->outputs = bigger;
        g->cap_outputs = cap;
    }
    char *copy = copy_text(g, name);
    if (!copy)
        return 0;
    g->outputs[g->n_outputs++] = (clef_output_def){copy, v};
    return 1;
}

void clef_output(clef_graph *g, const char *name, clef_value *v)
{
    if (!g || g->error.status || !v)
        return;
    if (v->graph != g || strlen(name) >= CLEF_NAME_BYTES || !*name) {
        clef__graph_fail(g, CLEF_E_ARG,
                         "output %.40s: the value is of another graph, or the name is empty or too long",
                         name);
        return;
    }
    const clef_value *other = clef__names_find(g->names, name);
    if (!v->named && !(other && other->named)) {
        if (!clef__graph_rename(g, v, name))
            return;
        v->named = 1;
        v->scope = (clef__scope){0};
    }
    clef__graph_add_output(g, name, v);
}

/* ---- inspecting ------------------------------------------------------------------------------- */

clef_value_info clef_value_describe(const clef_value *v)
{
    return (clef_value_info){.name = v->name,
                             .op = v->op == CLEF_OP_NONE ? NULL : clef__ops[v->op]->name,
                             .kind = v->kind,
                             .dtype = v->dtype,
                             .shape = v->shape};
}

clef_value *clef_graph_find(const clef_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->outputs[i].name, name) == 0)
            return g->outputs[i].value;
    return clef__names_find(g->names, name);
}

int32_t clef_graph_n_values(const clef_graph *g)
{
    return g->n_values;
}

clef_value *clef_graph_value(const clef_graph *g, int32_t i)
{
    return i >= 0 && i < g->n_values ? g->values[i] : NULL;
}

int32_t clef_graph_n_outputs(const clef_graph *g)
{
    return g->n_outputs;
}

clef_value *clef_graph_output(const clef_graph *g, int32_t i, const char **name)
{
    if (i < 0 || i >= g->n_outputs)
        return NULL;
    if (name)
        *name = g->outputs[i].name;
    return g->outputs[i].value;
}

int clef__is_output(const clef_value *v)
{
    for (int32_t i = 0; i < v->graph->n_outputs; i++)
        if (v->graph->outputs[i].value == v)
            return 1;
    return 0;
}

/* ---- copying --------------------------------------------------------------------------------- */

static int clone_part(clef_graph *to, clef_value *v)
{
    clef_weight_part *part = clef__graph_alloc(to, sizeof *part);
    if (!part)
        return 0;
    *part = *v->part;
    part->whole = copy_text(to, v->part->whole);
    v->part = part;
    return part->whole != NULL;
}

static int clone_value(clef_graph *to, const clef_value *v)
{
    clef_value *c = clef__graph_alloc(to, sizeof *c);
    if (!c)
        return 0;
    *c = *v;
    c->graph = to;
    c->name = NULL;
    for (int32_t i = 0; i < c->n_in; i++)
        c->in[i] = v->in[i] ? to->values[v->in[i]->id] : NULL;
    if (v->data) {
        const size_t n_bytes = (size_t)clef__bytes(v, NULL);
        void *data = clef__graph_alloc(to, n_bytes);
        if (!data)
            return 0;
        c->data = memcpy(data, v->data, n_bytes);
    }
    if (v->part && !clone_part(to, c))
        return 0;
    return clef__graph_rename(to, c, v->name) && clef__graph_append(to, c);
}

clef_graph *clef_graph_clone(const clef_graph *g)
{
    clef_graph *to = clef_graph_create();
    if (!to)
        return NULL;
    memcpy(to->next_number, g->next_number, sizeof g->next_number);
    to->error = g->error;
    int ok = 1;
    for (int32_t i = 0; i < g->n_symbols && ok; i++) {
        char *name = copy_text(to, g->symbols[i].name);
        to->symbols[to->n_symbols++] = (clef_symbol_def){name, g->symbols[i].bound, g->symbols[i].role};
        ok = name != NULL;
    }
    for (int32_t i = 0; i < g->n_values && ok; i++)
        ok = clone_value(to, g->values[i]);
    for (int32_t i = 0; i < g->n_outputs && ok; i++)
        ok = clef__graph_add_output(to, g->outputs[i].name, to->values[g->outputs[i].value->id]);
    if (!ok) {
        clef_graph_destroy(to);
        return NULL;
    }
    return to;
}

int clef__has_result(const clef_graph *g)
{
    for (int32_t i = 0; i < g->n_values && !g->n_outputs; i++)
        if (g->values[i]->op == CLEF_OP_send)
            return 1;
    return g->n_outputs > 0;
}

/* Making ONNX nodes, constants and dims. */
#include "export/onnx/onnx.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *clef__onnx_fail(onnx_export *x, clef_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!x->status)
        x->status = clef__fail(x->err, status, "%s", text);
    return "";
}

void *clef__onnx_alloc(onnx_export *x, size_t n_bytes)
{
    void *memory = x->status ? NULL : clef__arena_alloc(x->arena, n_bytes ? n_bytes : 1);
    if (!memory)
        clef__onnx_fail(x, CLEF_E_NOMEM, "ONNX: out of host memory");
    return memory;
}

const char *clef__onnx_text(onnx_export *x, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = clef__onnx_alloc(x, (size_t)(n < 0 ? 0 : n) + 1);
    if (!text)
        return "";
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

void clef__onnx_push(onnx_export *x, onnx_list *list, void *item)
{
    if (x->status)
        return;
    if (list->n == list->cap) {
        const size_t cap = list->cap ? 2 * list->cap : 16;
        void **items = clef__onnx_alloc(x, cap * sizeof *items);
        if (!items)
            return;
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = item;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

const char *clef__onnx_node(onnx_export *x, const char *type, const char *const *in)
{
    size_t n = 0;
    while (in[n])
        n++;
    Onnx__Node *node = clef__onnx_alloc(x, sizeof *node);
    char **inputs = clef__onnx_alloc(x, (n + 1) * sizeof *inputs),
         **outputs = clef__onnx_alloc(x, sizeof *outputs);
    if (!node || !inputs || !outputs)
        return "";
    onnx__node__init(node);
    for (size_t i = 0; i < n; i++)
        inputs[i] = (char *)(uintptr_t)in[i];
    outputs[0] = (char *)(uintptr_t)clef__onnx_text(x, "%s//%d", x->node ? x->node->name : "", ++x->n_made);
    node->input = inputs;
    node->n_input = n;
    node->output = outputs;
    node->n_output = 1;
    node->name = outputs[0];
    node->op_type = (char *)(uintptr_t)type;
    clef__onnx_push(x, x->nodes, node);
    x->last = node;
    return outputs[0];
}

static Onnx__Attribute *add_attribute(onnx_export *x, const char *name, int32_t type)
{
    enum { MAX = 8 };
    Onnx__Attribute *attr = clef__onnx_alloc(x, sizeof *attr);
    if (!attr || !x->last)
        return NULL;
    if (!x->last->attribute)
        x->last->attribute = clef__onnx_alloc(x, MAX * sizeof(Onnx__Attribute *));
    if (!x->last->attribute || x->last->n_attribute == MAX)
        return NULL;
    onnx__attribute__init(attr);
    attr->name = (char *)(uintptr_t)name;
    attr->has_type = 1;
    attr->type = type;
    x->last->attribute[x->last->n_attribute++] = attr;
    return attr;
}

static const char *last_output(const onnx_export *x)
{
    return x->status || !x->last ? "" : x->last->output[0];
}

const char *clef__onnx_int(onnx_export *x, const char *name, int64_t value)
{
    Onnx__Attribute *attr = add_attribute(x, name, ONNX_ATTR_INT);
    if (attr) {
        attr->has_i = 1;
        attr->i = value;
    }
    return last_output(x);
}

const char *clef__onnx_float(onnx_export *x, const char *name, float value)
{
    Onnx__Attribute *attr = add_attribute(x, name, ONNX_ATTR_FLOAT);
    if (attr) {
        attr->has_f = 1;
        attr->f = value;
    }
    return last_output(x);
}

const char *clef__onnx_ints(onnx_export *x, const char *name, const int64_t *values, int32_t n)
{
    Onnx__Attribute *attr = add_attribute(x, name, ONNX_ATTR_INTS);
    int64_t *copy = clef__onnx_alloc(x, (size_t)n * sizeof *copy);
    if (attr && copy) {
        memcpy(copy, values, (size_t)n * sizeof *copy);
        attr->ints = copy;
        attr->n_ints = (size_t)n;
    }
    return last_output(x);
}

void clef__onnx_graph(onnx_export *x, const char *name, Onnx__Graph *body)
{
    Onnx__Attribute *attr = add_attribute(x, name, ONNX_ATTR_GRAPH);
    if (attr)
        attr->g = body;
}

/* ---- what is made once ----------------------------------------------------------------------- */

const char *clef__onnx_shared(onnx_export *x, const char *key)
{
    for (size_t i = x->shared.n; i-- > 0;) {
        const onnx_once *once = x->shared.items[i];
        if (strcmp(once->key, key) == 0)
            return once->name;
    }
    return NULL;
}

const char *clef__onnx_share(onnx_export *x, const char *key, const char *name)
{
    onnx_once *once = clef__onnx_alloc(x, sizeof *once);
    if (!once)
        return "";
    *once = (onnx_once){key, name};
    clef__onnx_push(x, &x->shared, once);
    return name;
}

int clef__onnx_is_shared(const onnx_export *x, const char *name)
{
    for (size_t i = 0; i < x->shared.n; i++)
        if (((const onnx_once *)x->shared.items[i])->name == name)
            return 1;
    return 0;
}

void clef__onnx_initializer(onnx_export *x, const char *name, int32_t type, const int64_t *dims, int32_t rank,
                            const void *data, size_t n)
{
    Onnx__Tensor *t = clef__onnx_alloc(x, sizeof *t);
    int64_t *copy = clef__onnx_alloc(x, (size_t)rank * sizeof *copy);
    if (!t || !copy)
        return;
    onnx__tensor__init(t);
    if (rank)
        memcpy(copy, dims, (size_t)rank * sizeof *copy);
    t->dims = copy;
    t->n_dims = (size_t)rank;
    t->has_data_type = 1;
    t->data_type = type;
    t->name = (char *)(uintptr_t)name;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)data};
    clef__onnx_push(x, &x->initializers, t);
}

static const char *constant(onnx_export *x, const char *key, int32_t type, const int64_t *dims, int32_t rank,
                            const void *data, size_t n)
{
    const char *found = clef__onnx_shared(x, key);
    void *copy = found ? NULL : clef__onnx_alloc(x, n);
    if (found || !copy)
        return found ? found : "";
    memcpy(copy, data, n);
    clef__onnx_initializer(x, key, type, dims, rank, copy, n);
    return clef__onnx_share(x, key, key);
}

const char *clef__onnx_f32(onnx_export *x, float value)
{
    return constant(x, clef__onnx_text(x, "//f32 %.9g", (double)value), ONNX_FLOAT, NULL, 0, &value,
                    sizeof value);
}

const char *clef__onnx_i32(onnx_export *x, int32_t value)
{
    return constant(x, clef__onnx_text(x, "//i32 %" PRId32, value), ONNX_INT32, NULL, 0, &value,
                    sizeof value);
}

const char *clef__onnx_i64s(onnx_export *x, const int64_t *values, int32_t n)
{
    const char *key = "//i64";
    for (int32_t i = 0; i < n; i++)
        key = clef__onnx_text(x, "%s %" PRId64, key, values[i]);
    return constant(x, key, ONNX_INT64, (const int64_t[]){n}, 1, values, (size_t)n * sizeof *values);
}

/* ---- dims ------------------------------------------------------------------------------------ */

const char *clef__onnx_dim(onnx_export *x, clef_dim d)
{
    if (!d.symbol)
        return clef__onnx_i64s(x, &d.n, 1);
    const char *symbol = x->symbols[d.symbol - 1];
    if (d.n == 1)
        return symbol;
    const char *key = clef__onnx_text(x, "//%" PRId64 "*%s", d.n, symbol), *found = clef__onnx_shared(x, key);
    return found ? found : clef__onnx_share(x, key, ONNX(x, "Mul", symbol, clef__onnx_i64s(x, &d.n, 1)));
}

const char *clef__onnx_dims(onnx_export *x, const clef_dim *dims, int32_t n)
{
    enum { MAX = 8 };
    const char *key = "//dims", *list[MAX + 1] = {NULL};
    int64_t numbers[MAX];
    int is_static = 1;
    if (n > MAX)
        return clef__onnx_fail(x, CLEF_E_LIMIT, "ONNX: %d dims", n);
    for (int32_t i = 0; i < n; i++) {
        key = clef__onnx_text(x, "%s %" PRId64 "*%" PRId32, key, dims[i].n, dims[i].symbol);
        numbers[i] = dims[i].n;
        is_static = is_static && !dims[i].symbol;
    }
    if (is_static)
        return clef__onnx_i64s(x, numbers, n);
    const char *found = clef__onnx_shared(x, key);
    if (found)
        return found;
    for (int32_t i = 0; i < n; i++)
        list[i] = clef__onnx_dim(x, dims[i]);
    clef__onnx_node(x, "Concat", list);
    return clef__onnx_share(x, key, clef__onnx_int(x, "axis", 0));
}

const char *clef__onnx_reshape(onnx_export *x, const char *in, const clef_shape *from, const clef_dim *dims,
                               int32_t n)
{
    int64_t numbers[CLEF_MAX_DIMS + 4];
    int32_t n_open = 0;
    for (int32_t i = 0; i < n; i++) {
        numbers[i] = dims[i].n;
        if (!dims[i].symbol)
            continue;
        numbers[i] =
            i < from->rank && clef__dim_equal(from->dim[i], dims[i]) ? 0 : -1; /* 0: as it is there */
        n_open += numbers[i] < 0;
    }
    return ONNX(x, "Reshape", in, n_open > 1 ? clef__onnx_dims(x, dims, n) : clef__onnx_i64s(x, numbers, n));
}

/* ---- pieces ---------------------------------------------------------------------------------- */

const char *clef__onnx_cast(onnx_export *x, const char *in, int32_t type)
{
    ONNX(x, "Cast", in);
    return clef__onnx_int(x, "to", type);
}

const char *clef__onnx_unsqueeze(onnx_export *x, const char *in, int64_t axis)
{
    return ONNX(x, "Unsqueeze", in, ONNX_I64S(x, axis));
}

const char *clef__onnx_cut(onnx_export *x, const char *in, int64_t axis, int64_t begin, int64_t end,
                           int64_t step)
{
    return ONNX(x, "Slice", in, ONNX_I64S(x, begin), ONNX_I64S(x, end), ONNX_I64S(x, axis),
                ONNX_I64S(x, step));
}

int32_t clef__onnx_type(clef_dtype dtype)
{
    static const int32_t types[CLEF_N_DTYPES] = {[CLEF_F32] = ONNX_FLOAT,
                                                 [CLEF_F16] = ONNX_FLOAT16,
                                                 [CLEF_BF16] = ONNX_BFLOAT16,
                                                 [CLEF_I32] = ONNX_INT32,
                                                 [CLEF_I8] = ONNX_INT8};
    return types[dtype];
}

const char *clef__onnx_stored(onnx_export *x, const clef_value *v)
{
    return v ? x->names[v->id] : "";
}

const char *clef__onnx_value(onnx_export *x, const clef_value *v)
{
    if (!v || (v->dtype != CLEF_F16 && v->dtype != CLEF_BF16))
        return clef__onnx_stored(x, v);
    const char *name = x->names[v->id], *key = clef__onnx_text(x, "//f32 of %s", name),
               *found = clef__onnx_shared(x, key);
    return found ? found : clef__onnx_share(x, key, clef__onnx_cast(x, name, ONNX_FLOAT));
}

const char *clef__onnx_range(onnx_export *x, clef_dim n)
{
    const char *key = clef__onnx_text(x, "//range %" PRId64 "*%" PRId32, n.n, n.symbol),
               *found = clef__onnx_shared(x, key);
    if (found)
        return found;
    const char *end =
        clef__onnx_cast(x, ONNX(x, "Squeeze", clef__onnx_dim(x, n), ONNX_I64S(x, 0)), ONNX_INT32);
    return clef__onnx_share(x, key, ONNX(x, "Range", clef__onnx_i32(x, 0), end, clef__onnx_i32(x, 1)));
}

const char *clef__onnx_rows(onnx_export *x, const clef_value *pos, clef_dim length)
{
    const char *at = clef__onnx_stored(x, pos);
    const char *key = clef__onnx_text(x, "//rows %s %" PRId64 "*%" PRId32, at, length.n, length.symbol);
    const char *found = clef__onnx_shared(x, key);
    if (found)
        return found;
    const char *row = clef__onnx_unsqueeze(x, clef__onnx_range(x, length), 0);
    return clef__onnx_share(x, key, pos ? ONNX(x, "Add", clef__onnx_unsqueeze(x, at, 1), row) : row);
}

const char *clef__onnx_positions(onnx_export *x, const clef_value *pos, clef_dim length)
{
    return pos && x->positions ? x->positions : clef__onnx_rows(x, pos, length);
}

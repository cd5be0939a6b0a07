/* Shapes: symbols, broadcasting, and the layout of views. */
#include <inttypes.h>
#include <string.h>

#include "graph/op.h"

clef_shape clef_shape_1(clef_dim a)
{
    return (clef_shape){.rank = 1, .dim = {a}};
}

clef_shape clef_shape_2(clef_dim a, clef_dim b)
{
    return (clef_shape){.rank = 2, .dim = {a, b}};
}

clef_shape clef_shape_3(clef_dim a, clef_dim b, clef_dim c)
{
    return (clef_shape){.rank = 3, .dim = {a, b, c}};
}

clef_shape clef_shape_4(clef_dim a, clef_dim b, clef_dim c, clef_dim d)
{
    return (clef_shape){.rank = 4, .dim = {a, b, c, d}};
}

int clef__dim_equal(clef_dim a, clef_dim b)
{
    return a.n == b.n && a.symbol == b.symbol;
}

int clef__shape_equal(const clef_shape *a, const clef_shape *b)
{
    if (a->rank != b->rank)
        return 0;
    for (int32_t i = 0; i < a->rank; i++)
        if (!clef__dim_equal(a->dim[i], b->dim[i]))
            return 0;
    return 1;
}

clef_dim clef__dim_right(const clef_shape *s, int32_t i)
{
    return i < s->rank ? s->dim[s->rank - 1 - i] : clef_n(1);
}

static int is_one(clef_dim d)
{
    return d.n == 1 && !d.symbol;
}

char *clef__shape_text(const clef_graph *g, const clef_shape *s, char out[96])
{
    size_t at = 0;
    const size_t room = 96;
    out[at++] = '[';
    for (int32_t i = 0; i < s->rank && at < room - 2; i++) {
        const clef_dim d = s->dim[i];
        const char *sep = i ? ", " : "";
        int n;
        if (!d.symbol)
            n = snprintf(out + at, room - at, "%s%" PRId64, sep, d.n);
        else if (d.n == 1)
            n = snprintf(out + at, room - at, "%s%s", sep, g->symbols[d.symbol - 1].name);
        else
            n = snprintf(out + at, room - at, "%s%" PRId64 "*%s", sep, d.n, g->symbols[d.symbol - 1].name);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at > room - 2)
        at = room - 2;
    out[at++] = ']';
    out[at] = 0;
    return out;
}

int clef__broadcast(const clef_shape *a, const clef_shape *b, clef_shape *out)
{
    const int32_t rank = a->rank > b->rank ? a->rank : b->rank;
    clef_shape s = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        const clef_dim x = clef__dim_right(a, i), y = clef__dim_right(b, i);
        if (!clef__dim_equal(x, y) && !is_one(x) && !is_one(y))
            return 0;
        s.dim[rank - 1 - i] = is_one(x) ? y : x;
    }
    *out = s;
    return 1;
}

int clef__broadcasts_to(const clef_shape *x, const clef_shape *to)
{
    clef_shape s;
    return clef__broadcast(x, to, &s) && clef__shape_equal(&s, to);
}

const clef_value *clef__base(const clef_value *v)
{
    while (v->op != CLEF_OP_NONE && clef__ops[v->op]->view)
        v = v->in[0];
    return v;
}

int32_t clef__view_depth(const clef_value *v)
{
    int32_t n = 0;
    for (; v->op != CLEF_OP_NONE && clef__ops[v->op]->view; v = v->in[0])
        n++;
    return n;
}

int clef__is_cache(const clef_value *v)
{
    return v->kind == CLEF_STATE ||
           (v->op != CLEF_OP_NONE && clef__ops[v->op]->view && clef__ops[v->op]->writes & 1);
}

/* The last node that changed the state which v shows (a cache_write, for example), or the state itself. NULL
 * if v shows no state. */
static const clef_value *written_by(const clef_value *v)
{
    while (v->op != CLEF_OP_NONE && !clef__is_cache(v) && clef__ops[v->op]->view)
        v = v->in[0];
    return clef__is_cache(v) ? v : NULL;
}

void clef__track_state(clef_value *v)
{
    const int32_t writes = v->op == CLEF_OP_NONE ? 0 : clef__ops[v->op]->writes;
    if (v->kind == CLEF_STATE)
        v->last_write = v;
    for (int32_t i = 0; i < v->n_in; i++) {
        if (!(writes >> i & 1))
            continue;
        clef_value *state = v->in[i];
        while (state->op != CLEF_OP_NONE)
            state = state->in[0];
        state->last_write = v;
    }
}

const clef_value *clef__overwritten_by(const clef_value *v)
{
    const clef_value *shown = written_by(v), *last = shown ? clef__base(shown)->last_write : NULL;
    return last != shown ? last : NULL;
}

/* The axis of a slice is stored from the left, already normalised by its infer. */
static int slice_is_dense(const clef_value *v)
{
    const clef_slice_opts *o = (const void *)v->attr;
    if (clef__dim_equal(v->shape.dim[o->axis], v->in[0]->shape.dim[o->axis]))
        return 1;
    for (int32_t i = 0; i < o->axis; i++)
        if (!is_one(v->shape.dim[i]))
            return 0;
    return 1;
}

static int permute_keeps_order(const clef_value *v)
{
    const clef_permute_opts *o = (const void *)v->attr;
    int32_t last = -1;
    for (int32_t i = 0; i < v->shape.rank; i++) {
        if (is_one(v->shape.dim[i]))
            continue;
        if (o->axes[i] < last)
            return 0;
        last = o->axes[i];
    }
    return 1;
}

int clef__is_dense(const clef_value *v)
{
    for (; v->op != CLEF_OP_NONE && clef__ops[v->op]->view; v = v->in[0]) {
        if (v->op == CLEF_OP_reshape)
            return 1; /* its input had to be dense */
        if (v->op == CLEF_OP_slice && !slice_is_dense(v))
            return 0;
        if (v->op == CLEF_OP_permute && !permute_keeps_order(v))
            return 0;
    }
    return 1;
}

int clef__rows_dense(const clef_value *v)
{
    for (; v->op != CLEF_OP_NONE && clef__ops[v->op]->view; v = v->in[0]) {
        if (v->op == CLEF_OP_reshape)
            return 1;
        const clef_permute_opts *o = (const void *)v->attr;
        if (v->op == CLEF_OP_permute && v->shape.rank && o->axes[v->shape.rank - 1] != v->shape.rank - 1)
            return 0;
    }
    return 1;
}

int64_t clef__dim_at(const clef_graph *g, clef_dim d, const int64_t *symbols)
{
    if (!d.symbol)
        return d.n;
    return d.n * (symbols ? symbols[d.symbol - 1] : g->symbols[d.symbol - 1].bound);
}

int64_t clef__elements(const clef_value *v, const int64_t *symbols)
{
    int64_t n = 1;
    for (int32_t i = 0; i < v->shape.rank; i++)
        n *= clef__dim_at(v->graph, v->shape.dim[i], symbols);
    return n;
}

int clef__fits_bits(const clef_graph *g, const clef_shape *s, int32_t bits)
{
    const int64_t most = (INT64_C(1) << bits) - 1;
    int64_t n = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        const clef_dim d = s->dim[i];
        const int64_t bound = d.symbol ? g->symbols[d.symbol - 1].bound : 1;
        if (d.n > UINT32_MAX / bound || d.n * bound > most / n)
            return 0;
        n *= d.n * bound;
    }
    return 1;
}

int64_t clef__bytes(const clef_value *v, const int64_t *symbols)
{
    return clef__elements(v, symbols) / clef_dtype_block_elems(v->dtype) * clef_dtype_block_bytes(v->dtype);
}

/* A model's inputs and outputs as Optimum and ONNX Runtime GenAI name them (include/clef/onnx.h lists them).
 *
 * The graph writes a step's keys and values into a cache of fixed size, at the position `pos`. The file has
 * no such cache: present is past with the step's rows behind it, so cache_write becomes Concat. A row's
 * number and a token's position differ in padded sequences. Masks compare rows; RoPE and position embeddings
 * read position_ids. */
#include <stdio.h>
#include <string.h>

#include "export/onnx/onnx.h"

/* The name of a layer's state behind "past_key_values.N.". */
static const char *const state_names[] = {[CLEF__STATE_KEYS] = "key",
                                          [CLEF__STATE_VALUES] = "value",
                                          [CLEF__STATE_CONV] = "conv_state",
                                          [CLEF__STATE_MEMORY] = "recurrent_state"};

static int is_cache(const clef_value *state)
{
    return state->role == CLEF__STATE_KEYS || state->role == CLEF__STATE_VALUES;
}

static clef_dim symbol_of(const clef_graph *g, clef__symbol_role role)
{
    for (int32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].role == role)
            return (clef_dim){1, i + 1};
    return (clef_dim){0, 0};
}

/* "past_key_values.3.key"; in the decoder of an encoder-decoder "past_key_values.3.decoder.key". */
static const char *state_name(onnx_export *x, const char *list, const clef_value *state)
{
    const char *part = state->scope.part == CLEF__PART_DECODER ? "decoder." : "";
    if (state->role < CLEF__STATE_KEYS || state->role > CLEF__STATE_MEMORY)
        return clef__onnx_fail(x, CLEF_E_UNSUPPORTED,
                               "ONNX: expected states of attention and linear attention, got %s",
                               state->name);
    return clef__onnx_text(x, "%s.%d.%s%s", list, state->scope.layer, part, state_names[state->role]);
}

/* Caches [B, H, length, D]; the last positions of a convolution [B, C, K - 1], where the graph has
 * [B, 1, K - 1, C]; matrices of linear attention [B, H, D, E]. */
static clef_shape state_shape(const onnx_export *x, const clef_value *state, clef_dim length)
{
    clef_shape shape = state->shape;
    shape.dim[0] = x->B;
    if (is_cache(state))
        shape.dim[2] = length;
    else if (state->role == CLEF__STATE_CONV)
        shape = clef_shape_3(x->B, shape.dim[3], shape.dim[2]);
    return shape;
}

/* How many positions there are before this step, I64 [1]. */
static const char *past_length(onnx_export *x)
{
    const clef_graph *g = x->graph;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (x->form != CLEF_ONNX_PAST || v->kind != CLEF_STATE || !is_cache(v))
            continue;
        ONNX(x, "Shape", state_name(x, "past_key_values", v));
        clef__onnx_int(x, "start", 2);
        return clef__onnx_int(x, "end", 3);
    }
    return ONNX_I64S(x, 0);
}

void clef__onnx_find_lengths(onnx_export *x)
{
    x->B = symbol_of(x->graph, CLEF__SYMBOL_SEQUENCES);
    x->T = symbol_of(x->graph, CLEF__SYMBOL_ROWS);
    x->S = symbol_of(x->graph, CLEF__SYMBOL_KEYS);
    if (!x->B.n || !x->T.n || !x->symbols[x->T.symbol - 1])
        clef__onnx_fail(x, CLEF_E_UNSUPPORTED, "ONNX: expected a model with the symbols B and T");
    else if (x->S.n && !x->symbols[x->S.symbol - 1])
        x->symbols[x->S.symbol - 1] = ONNX(x, "Add", past_length(x), clef__onnx_dim(x, x->T));
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void add_i64(onnx_export *x, const char *name, const clef_shape *shape)
{
    clef__onnx_push(x, &x->inputs, clef__onnx_info(x, name, ONNX_INT64, shape));
}

static int reads_positions(const clef_graph *g)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (v->op == CLEF_OP_positions || (v->op == CLEF_OP_rope && v->in[2]))
            return 1;
    }
    return 0;
}

/* pos, the tokens in the cache, follows from the lengths: all sequences have as many, padding included. */
static const char *rows_before(onnx_export *x)
{
    const char *before = ONNX(x, "Sub", clef__onnx_dim(x, x->S), clef__onnx_dim(x, x->T));
    return ONNX(x, "Expand", clef__onnx_cast(x, before, ONNX_INT32), clef__onnx_dim(x, x->B));
}

static const char *add_ids(onnx_export *x, const clef_value *v)
{
    const clef_shape tokens = clef_shape_2(x->B, x->T);
    add_i64(x, v->name, &v->shape);
    const char *ids = clef__onnx_cast(x, v->name, ONNX_INT32);
    if (strcmp(v->name, "attention_mask") != 0)
        return ids;
    x->mask = ids;
    if (reads_positions(x->graph)) {
        add_i64(x, "position_ids", &tokens);
        x->positions = clef__onnx_cast(x, "position_ids", ONNX_INT32);
    }
    return ids;
}

static const char *add_state(onnx_export *x, const clef_value *v)
{
    const clef_shape shape = state_shape(x, v, (clef_dim){1, ONNX_PAST_LENGTH});
    if (x->form == CLEF_ONNX_NO_CACHE) /* a cache is never read */
        return is_cache(v)
                   ? ""
                   : ONNX(x, "Expand", clef__onnx_f32(x, 0), clef__onnx_dims(x, shape.dim, shape.rank));
    const char *name = state_name(x, "past_key_values", v);
    clef__onnx_push(x, &x->inputs, clef__onnx_info(x, name, clef__onnx_type(v->dtype), &shape));
    return name;
}

void clef__onnx_add_named_leaf(onnx_export *x, const clef_value *v, int32_t type)
{
    if (v->kind == CLEF_STATE)
        x->names[v->id] = add_state(x, v);
    else if (strcmp(v->name, "pos") == 0)
        x->names[v->id] = rows_before(x);
    else if (v->dtype == CLEF_I32)
        x->names[v->id] = add_ids(x, v);
    else
        clef__onnx_push(x, &x->inputs, clef__onnx_info(x, v->name, type, &v->shape));
}

const char *clef__onnx_kept_tokens(onnx_export *x)
{
    static const char key[] = "//kept tokens";
    const char *found = clef__onnx_shared(x, key);
    if (!x->mask || found)
        return found;
    const char *before = ONNX(x, "Sub", clef__onnx_dim(x, x->S), clef__onnx_dim(x, x->T));
    const char *last = ONNX(x, "Slice", x->mask, before, ONNX_I64S(x, INT64_MAX), ONNX_I64S(x, 1));
    return clef__onnx_share(x, key, clef__onnx_unsqueeze(x, clef__onnx_cast(x, last, ONNX_FLOAT), 1));
}

/* ---- what follows from them ------------------------------------------------------------------ */

const char *clef__onnx_present(onnx_export *x, const clef_value *state, clef_shape *shape)
{
    *shape = state_shape(x, state, x->S);
    return x->form == CLEF_ONNX_PAST ? state_name(x, "present", state) : NULL;
}

int clef__onnx_is_whole_cache(const onnx_export *x, const clef_value *v)
{
    return x->form != CLEF_ONNX_PLAIN && (v->op == CLEF_OP_cache_write || v->op == CLEF_OP_slice) &&
           clef__base(v)->kind == CLEF_STATE;
}

clef_shape clef__onnx_cache_shape(const onnx_export *x, const clef_value *v)
{
    return state_shape(x, clef__base(v), x->S);
}

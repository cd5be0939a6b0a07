/* Writing ONNX: what the ops' emission functions use to make nodes. Names stand for tensors, as in ONNX
 * itself. All memory is the export's arena. After a failure every function returns "" and does nothing. */
#ifndef CLEF_EXPORT_ONNX_ONNX_H
#define CLEF_EXPORT_ONNX_ONNX_H

#include "clef/onnx.h"
#include "graph/arena.h"
#include "graph/op.h"
#include "onnx.pb-c.h"

enum { CLEF_ONNX_IR = 8, CLEF_ONNX_OPSET = 18 };
enum { ONNX_PAST_LENGTH = CLEF_MAX_SYMBOLS + 1 }; /* in place of a symbol: a length that the graph has not */
/* TensorProto.DataType and AttributeProto.AttributeType of the standard. */
enum {
    ONNX_FLOAT = 1, ONNX_INT8 = 3, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_BOOL = 9, ONNX_FLOAT16 = 10,
    ONNX_BFLOAT16 = 16
};
enum { ONNX_ATTR_FLOAT = 1, ONNX_ATTR_INT = 2, ONNX_ATTR_GRAPH = 5, ONNX_ATTR_INTS = 7 };

/** A list of pointers that grows. */
typedef struct onnx_list {
    void  **items;
    size_t  n, cap;
} onnx_list;

/** What was made once for a key and serves all that ask for it. */
typedef struct onnx_once {
    const char *key, *name;
} onnx_once;

typedef struct onnx_export {
    const clef_graph *graph;
    clef__arena      *arena;
    onnx_list        *nodes;        /* where new nodes go: the graph's, or a body's */
    onnx_list         main_nodes, initializers, inputs, outputs, infos, shared;
    Onnx__Node       *last;         /* the node made last */
    const clef_value *node;         /* whose emission runs */
    const char      **names;        /* by value id: the tensor that holds it now; of a state, what the last
                                       write gave */
    int32_t           n_made;       /* helpers of `node` so far */
    const char       *symbols[CLEF_MAX_SYMBOLS];
    clef_onnx_form    form;
    clef_dim          B, T, S;      /* but of PLAIN: sequences, tokens of the step, positions that it sees;
                                       n is 0 where the graph has no such symbol */
    const char       *positions;    /* NULL, or I32 [B, T]: position_ids, which take the place of pos + t */
    const char       *mask;         /* NULL, or I32 [B, S]: attention_mask */
    clef_status       status;
    clef_error       *err;
} onnx_export;

/** Emits what computes n and returns the name of its result, F32 unless n has another dtype. */
typedef const char *(*onnx_emit)(onnx_export *x, const clef_value *n);
/** By clef_op; NULL where ONNX has nothing. */
extern const onnx_emit clef__onnx_table[CLEF_N_OPS];

/* The rows of the table, in the files of their kind. */
#define ONNX_EMITTERS(X) \
    X(gather) X(positions) X(relative_bias) X(matmul) X(gather_elements) X(expert_matmul) X(softmax) \
    X(attention) X(layer_norm) X(rms_norm) X(rope) X(cache_write) X(cache_reorder) X(causal_conv) \
    X(gated_delta) X(selective_scan) X(gelu) X(gelu_tanh) X(silu) X(relu) X(sigmoid) X(tanh) \
    X(exp) X(log) X(neg) X(sqrt) \
    X(rsqrt) X(square) X(add) X(sub) X(mul) X(div) X(affine) X(swiglu) X(clamped_swiglu) X(reduce) \
    X(argmax) X(topk) X(reshape) X(permute) X(slice) X(copy) X(concat)
#define EMIT(op) const char *clef__onnx_emit_##op(onnx_export *x, const clef_value *n)
#define X(op) EMIT(op);
ONNX_EMITTERS(X)
#undef X

/* ---- making nodes (export/onnx/build.c) ------------------------------------------------------- */
/** Records the first failure; returns "". */
const char *clef__onnx_fail(onnx_export *x, clef_status status, const char *format, ...) CLEF_PRINTF(3, 4);
void       *clef__onnx_alloc(onnx_export *x, size_t n_bytes);
const char *clef__onnx_text(onnx_export *x, const char *format, ...) CLEF_PRINTF(2, 3);
void        clef__onnx_push(onnx_export *x, onnx_list *list, void *item);
/** A node of the standard op `type` with the inputs given (NULL ends them, "" is one that is absent); returns
 *  its output. */
const char *clef__onnx_node(onnx_export *x, const char *type, const char *const *in);
#define ONNX(x, type, ...) clef__onnx_node(x, type, (const char *const[]){__VA_ARGS__, NULL})
/* Attributes of the node made last. Each returns its output. */
const char *clef__onnx_int(onnx_export *x, const char *name, int64_t value);
const char *clef__onnx_float(onnx_export *x, const char *name, float value);
const char *clef__onnx_ints(onnx_export *x, const char *name, const int64_t *values, int32_t n);
void        clef__onnx_graph(onnx_export *x, const char *name, Onnx__Graph *body);
#define ONNX_INTS(x, name, ...) \
    clef__onnx_ints(x, name, (const int64_t[]){__VA_ARGS__}, \
        (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/** Constants, each made once. */
const char *clef__onnx_f32(onnx_export *x, float value);                       /* a scalar */
const char *clef__onnx_i32(onnx_export *x, int32_t value);                     /* a scalar */
const char *clef__onnx_i64s(onnx_export *x, const int64_t *values, int32_t n); /* I64 [n] */
#define ONNX_I64S(x, ...) \
    clef__onnx_i64s(x, (const int64_t[]){__VA_ARGS__}, \
        (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
void clef__onnx_initializer(onnx_export *x, const char *name, int32_t type, const int64_t *dims, int32_t rank,
                            const void *data, size_t n);

/** What an earlier call kept under the key, NULL if none did. */
const char *clef__onnx_shared(onnx_export *x, const char *key);
const char *clef__onnx_share(onnx_export *x, const char *key, const char *name); /* returns name */

/** 1 when the tensor of that name (the same pointer) was kept for others. */
int clef__onnx_is_shared(const onnx_export *x, const char *name);

/** An I64 [1] tensor that holds the dim. */
const char *clef__onnx_dim(onnx_export *x, clef_dim d);
/** An I64 [n] tensor of them. */
const char *clef__onnx_dims(onnx_export *x, const clef_dim *dims, int32_t n);
/** Reshape, with as much of the new shape in numbers as can be. */
const char *clef__onnx_reshape(onnx_export *x, const char *in, const clef_shape *from, const clef_dim *dims,
                               int32_t n);
const char *clef__onnx_cast(onnx_export *x, const char *in, int32_t type);
const char *clef__onnx_unsqueeze(onnx_export *x, const char *in, int64_t axis);
/** Elements begin, begin + step .. before end of an axis. */
const char *clef__onnx_cut(onnx_export *x, const char *in, int64_t axis, int64_t begin, int64_t end,
                           int64_t step);
/** The tensor of a value, as it is stored; NULL gives "". */
const char *clef__onnx_stored(onnx_export *x, const clef_value *v);
/** The same as F32 (I32 and I8 as they are). */
const char *clef__onnx_value(onnx_export *x, const clef_value *v);
/** The rows of the cache that a step's tokens have, pos + t: I32 [B, T], pos NULL: [1, T]; the tokens'
 *  positions, which are others in padded sequences; and 0 .. n - 1, I32 [n]. */
const char *clef__onnx_rows(onnx_export *x, const clef_value *pos, clef_dim length);
const char *clef__onnx_positions(onnx_export *x, const clef_value *pos, clef_dim length);
const char *clef__onnx_range(onnx_export *x, clef_dim n);
int32_t     clef__onnx_type(clef_dtype dtype); /* 0: a block format */
/** Describes a tensor for the graph's lists (export/onnx/info.c). */
Onnx__ValueInfo *clef__onnx_info(onnx_export *x, const char *name, int32_t type, const clef_shape *shape);

/* ---- inputs and outputs as other tools name them (export/onnx/optimum.c); not of PLAIN ----------- */
/** Finds B, T and S, and makes what the inputs do not say of them. */
void        clef__onnx_find_lengths(onnx_export *x);
/** Adds an input or a state. */
void        clef__onnx_add_named_leaf(onnx_export *x, const clef_value *v, int32_t type);
/** Name and shape of the output that a state becomes; NULL: none. */
const char *clef__onnx_present(onnx_export *x, const clef_value *state, clef_shape *shape);
/** The shape of a cache, or of its slice, whose rows are as many as are seen. */
clef_shape  clef__onnx_cache_shape(const onnx_export *x, const clef_value *v);
/** 1 when v is all that a cache holds: a cache that grows needs no slices. */
int         clef__onnx_is_whole_cache(const onnx_export *x, const clef_value *v);
/** F32 [B, 1, T]: 0 where a token of this step is padding; NULL where no mask says so. */
const char *clef__onnx_kept_tokens(onnx_export *x);

#endif

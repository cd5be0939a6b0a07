/* What a graph and its values consist of. Only code in graph/ uses these fields. */
#ifndef CLEF_GRAPH_VALUE_H
#define CLEF_GRAPH_VALUE_H

#include "clef/graph.h"
#include "graph/fail.h"

typedef enum clef_op {
#define OP(name) CLEF_OP_##name,
#include "graph/ops.def"
#undef OP
    CLEF_N_OPS,
    CLEF_OP_NONE = -1 /* a leaf */
} clef_op;

enum {
    CLEF_ATTR_BYTES = 40,
    CLEF_NAME_BYTES = 256, /* of any name, with its NUL */
    CLEF_MAX_VIEWS = 64    /* in a chain, because lowering walks them */
};

/** Describes a weight that is a part of a weight in the file, or a rank's part of a state: n_runs runs of
 *  run_bytes bytes each. The first begins at `offset`, and each of the others `stride` bytes after the one
 *  before. */
typedef struct clef_weight_part {
    const char *whole;
    uint64_t    whole_bytes, offset;
    uint64_t    n_runs, run_bytes, stride;
} clef_weight_part;

/** The parts of a model that have layers of their own. */
typedef enum clef__scope_part {
    CLEF__PART_ONLY, /* of a model that is not divided into parts */
    CLEF__PART_ENCODER,
    CLEF__PART_DECODER,
    CLEF__PART_LOSS /* its layers are pieces of a loss (clef_linear_cross_entropy()), which are always
                       computed again for the gradient */
} clef__scope_part;

/** What a state keeps for the steps to come. */
typedef enum clef__state_role {
    CLEF__STATE_OTHER,
    CLEF__STATE_KEYS, /* of a layer's attention: the KV cache */
    CLEF__STATE_VALUES,
    CLEF__STATE_CONV,   /* of linear attention: the last positions of its convolution */
    CLEF__STATE_MEMORY  /* of linear attention: its matrices */
} clef__state_role;

/** Where a value is in its model. */
typedef struct clef__scope {
    clef__scope_part part;
    int32_t          in_layer; /* 0: outside the layers of its part */
    int32_t          layer;    /* the layer's number, if it is in one */
} clef__scope;

struct clef_value {
    clef_graph     *graph;
    int32_t         id; /* position in the graph's list */
    clef_value_kind kind;
    clef_op         op;
    clef_dtype      dtype;
    clef_shape      shape;
    char           *name;              /* unique; in the arena */
    clef__scope     scope;             /* where the name was given */
    clef_value     *in[CLEF_MAX_INPUTS]; /* NULL: an optional input that is absent */
    int32_t         n_in;              /* index of the last input given, plus 1 */
    clef__state_role role;             /* state: what a model keeps in it */
    const void     *data;              /* constant: its bytes, allocated in the arena */
    const clef_weight_part *part;      /* weight, state: NULL, or what it is a part of */
    int32_t         named;             /* 1: the name was chosen, not generated */
    const clef_value *last_write;      /* state: the last node in the list that writes it; the state itself
                                          if there is none */
    int32_t         is_large;          /* 1: at the bounds, this value or its base has more elements than
                                          kernels can address */
    int32_t         n_uses;            /* number of nodes and outputs that use it; valid while passes run */
    int32_t         n_readers;         /* nodes of the graph's list that read it, each counted once */
    int32_t         recomputed;        /* 1: computes once more what another node computes, so that its result
                                          need not be kept; never merged with that node */
    clef_value     *forward;           /* valid while passes run: the value that replaces this one, NULL if
                                          none does */
    _Alignas(8) unsigned char attr[CLEF_ATTR_BYTES]; /* the op's options struct */
};

/** What a symbol counts. The symbol's name decides: docs/graph-format.md. */
typedef enum clef__symbol_role {
    CLEF__SYMBOL_OTHER,
    CLEF__SYMBOL_ROWS,     /* T: positions that are fed at once */
    CLEF__SYMBOL_KEYS,     /* S: positions that can be attended to */
    CLEF__SYMBOL_SEQUENCES /* B: sequences in the batch */
} clef__symbol_role;

typedef struct clef_symbol_def {
    char             *name;
    int64_t           bound;
    clef__symbol_role role;
} clef_symbol_def;

typedef struct clef_output_def {
    char       *name;
    clef_value *value;
} clef_output_def;

struct clef_graph {
    struct clef__arena *arena;   /* values, names, constants: freed together */
    clef_value        **values;  /* in order of execution */
    int32_t             n_values, cap_values;
    clef_output_def    *outputs;
    int32_t             n_outputs, cap_outputs;
    clef_symbol_def     symbols[CLEF_MAX_SYMBOLS];
    int32_t             n_symbols;
    char                prefix[256]; /* the open scopes, each with a dot behind it */
    int32_t             scope_ends[16], n_scopes;
    clef__scope         scope;       /* of values that are named now */
    struct clef__names *names;   /* name -> value */
    int32_t             next_number[CLEF_N_OPS]; /* for generated names */
    clef_error          error;
};

/** Allocates zeroed memory that lives as long as the graph. Out of memory: NULL, and the graph's error is
 *  set. */
void *clef__graph_alloc(clef_graph *g, size_t n_bytes);

/** Records the graph's first error; later ones are dropped. Returns NULL, so that a builder can return it. */
clef_value *clef__graph_fail(clef_graph *g, clef_status status, const char *format, ...) CLEF_PRINTF(3, 4);

/* Each of these returns 0 and sets the graph's error when out of memory. */
/* appends to the list, sets v->id, and counts v among the readers of its inputs */
int clef__graph_append(clef_graph *g, clef_value *v);
int clef__graph_add_output(clef_graph *g, const char *name, clef_value *v);     /* renames nothing */
/** Counts v, which was appended, among the readers of its inputs. It has none itself yet. */
void clef__track_readers(clef_value *v);
/** 1 when v is an output of its graph. */
int clef__is_output(const clef_value *v);
/** 1 when the graph has an output, or sends something: a rank of an early stage has no output. */
int clef__has_result(const clef_graph *g);
/** Gives v the name. If another value has the name, and it was generated, that value gets a new one.
 *  Otherwise it is an error (0). So is a name that is empty or has CLEF_NAME_BYTES bytes or more. */
int clef__graph_rename(clef_graph *g, clef_value *v, const char *name);
/** Writes the first free name "<prefix>op_N" to `name`. `prefix` has n_bytes bytes. Returns 0 and sets the
 *  graph's error when the name would be too long. */
int clef__graph_make_name(clef_graph *g, const char *prefix, size_t n_bytes, clef_op op,
                          char name[CLEF_NAME_BYTES]);

/* ---- scopes ---------------------------------------------------------------------------------- */
/** Reads a scope from the beginning of a name that a user wrote: "layer3.attn.q", "encoder.layer0.out".
 *  Code that has a value reads its field `scope` instead. */
clef__scope clef__scope_of_name(const char *name);
/** Writes the name of the value's layer, "layer3" or "encoder.layer0", or "" outside layers. Returns out. */
enum { CLEF__LAYER_BYTES = 32 };
char       *clef__layer_name(clef__scope s, char out[CLEF__LAYER_BYTES]);
/** "encoder", "decoder", "loss"; "" of a model that is not divided. */
const char *clef__part_name(clef__scope_part part);
/** 1 when the scope is in a layer of the model. */
int         clef__in_layer(clef__scope s);
/** 1 when both scopes are in the same layer, or piece of a loss. */
int         clef__same_layer(clef__scope a, clef__scope b);

/** Adds a node: checks arity and dtypes, inserts copies where the op needs a dense input, infers dtype and
 *  shape, appends it.
 *
 *   in    n_in values; NULL for an optional input that is absent.
 *   attr  NULL (all zero), or the op's options struct (attr_bytes of its definition).
 *
 *   Returns NULL and sets the graph's error when something does not fit or a mandatory input is NULL. */
clef_value *clef__node(clef_graph *g, clef_op op, clef_value *const *in, int32_t n_in, const void *attr);

/* ---- shapes ---------------------------------------------------------------------------------- */
int        clef__dim_equal(clef_dim a, clef_dim b);
int        clef__shape_equal(const clef_shape *a, const clef_shape *b);
/** Dim i, counted from the right (0: the last); 1 beyond the rank. */
clef_dim   clef__dim_right(const clef_shape *s, int32_t i);
/** Writes "[B, T, 192]" to `out` and returns `out`. */
char      *clef__shape_text(const clef_graph *g, const clef_shape *s, char out[96]);
/** Writes the broadcast of a and b (numpy's rule) to *out. Returns 0 when they do not fit. */
int        clef__broadcast(const clef_shape *a, const clef_shape *b, clef_shape *out);
/** 1 when x broadcasts to `to`, and the result has the shape of `to`. */
int        clef__broadcasts_to(const clef_shape *x, const clef_shape *to);
/** The value whose memory v uses: v itself, or the start of its chain of views and state updates. */
const clef_value *clef__base(const clef_value *v);
/** 1 when v is a state or the result of a state update (cache_write), which another update can change. */
int        clef__is_cache(const clef_value *v);
/** 1 when v is dense in its base's memory (no permute; a slice only of the outermost dim that is not 1). */
int        clef__is_dense(const clef_value *v);
/** 1 when the last dim of v has stride 1, so that kernels can read its rows. */
int        clef__rows_dense(const clef_value *v);
/** The number of views between v and its base. */
int32_t    clef__view_depth(const clef_value *v);
/** Updates last_write of states. Call it for each value that is appended to the list. */
void       clef__track_state(clef_value *v);
/** If v shows a state as it was before a later write in the list, the node that writes; else NULL. Such a
 *  value cannot be used any more, because its memory has changed. */
const clef_value *clef__overwritten_by(const clef_value *v);
/** The product of dims at the given symbol values (NULL: at their bounds). */
int64_t    clef__dim_at(const clef_graph *g, clef_dim d, const int64_t *symbols);
int64_t    clef__elements(const clef_value *v, const int64_t *symbols);
/** 1 when a value of this shape has fewer than 2^bits elements at the symbols' bounds. */
int        clef__fits_bits(const clef_graph *g, const clef_shape *s, int32_t bits);
/** Limits of the number of elements, in bits: so that a value's bytes can be counted, and so that kernels can
 *  address it. */
enum { CLEF__VALUE_BITS = 56, CLEF__KERNEL_BITS = 32 };
/** Bytes of the dense value at the given symbol values (NULL: at their bounds). */
int64_t    clef__bytes(const clef_value *v, const int64_t *symbols);

#endif

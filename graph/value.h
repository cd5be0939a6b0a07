/* The inside of a graph: what a value is. Everything in graph/ may look; nobody else does. */
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
    CLEF_NAME_BYTES = 256, /* of any name, its end included */
    CLEF_MAX_VIEWS = 64    /* behind one another: lowering walks them */
};

/** What a weight is that stands for some rows of one in the file. */
typedef struct clef_weight_part {
    const char *whole;
    uint64_t    whole_bytes, offset;
} clef_weight_part;

struct clef_value {
    clef_graph     *graph;
    int32_t         id; /* position in the graph's list */
    clef_value_kind kind;
    clef_op         op;
    clef_dtype      dtype;
    clef_shape      shape;
    char           *name;              /* unique; in the arena */
    clef_value     *in[CLEF_MAX_INPUTS]; /* NULL: an optional input that is absent */
    int32_t         n_in;              /* one past the last input given */
    const void     *data;              /* constant: its bytes, in the arena */
    const clef_weight_part *part;      /* weight: NULL, or what it is a part of */
    int32_t         named;             /* the name was chosen, not made up */
    const clef_value *last_write;      /* state: the last node that writes it in the list so far; itself
                                          while there is none */
    int32_t         is_large;          /* at the bounds it, or what it is a view of, is beyond what kernels
                                          can address */
    int32_t         n_uses;            /* while passes run: by nodes and outputs */
    clef_value     *forward;           /* while passes run: what stands in its place, NULL if itself */
    _Alignas(8) unsigned char attr[CLEF_ATTR_BYTES]; /* the op's options struct */
};

/** What a symbol counts. The name says it: docs/graph-format.md. */
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
    char                scope[256];
    int32_t             scope_ends[16], n_scopes;
    struct clef__names *names;   /* name -> value */
    int32_t             next_number[CLEF_N_OPS]; /* for made-up names */
    clef_error          error;
};

/** Zeroed memory that lives as long as the graph; NULL, with the graph's error set, when there is none. */
void *clef__graph_alloc(clef_graph *g, size_t n_bytes);

/** Records the graph's first error; later ones are dropped. Returns NULL, so that a builder can return it. */
clef_value *clef__graph_fail(clef_graph *g, clef_status status, const char *format, ...) CLEF_PRINTF(3, 4);

/** A copy in the graph's arena; NULL, with the graph's error set, when there is no memory. */
char *clef__graph_strdup(clef_graph *g, const char *text);

/* These return 0, with the graph's error set, when out of memory (add_output: or when the name is taken). */
int clef__graph_append(clef_graph *g, clef_value *v);                          /* at the end of the list;
                                                                                  sets v->id */
int clef__graph_add_output(clef_graph *g, const char *name, clef_value *v);     /* renames nothing */
/** Gives v the name. A value that has it without having chosen it gets another; one that chose it is an error
 *  (0), and so is a name of no bytes or of CLEF_NAME_BYTES and more. */
int clef__graph_rename(clef_graph *g, clef_value *v, const char *name);
/** The first free name "<scope>op_N" in `name`; scope_bytes of scope. 0, with the graph's error set, when it
 *  would be too long. */
int clef__graph_make_name(clef_graph *g, const char *scope, size_t scope_bytes, clef_op op,
                          char name[CLEF_NAME_BYTES]);

/** Adds a node: checks arity and dtypes, inserts copies where the op wants a dense input, infers dtype and
 *  shape, appends. in: n_in values, NULL for an absent optional one. attr: NULL (zero) or the op's options
 *  struct (attr_bytes of its definition). NULL, with the graph's error set, when something does not fit or a
 *  mandatory input is NULL. */
clef_value *clef__node(clef_graph *g, clef_op op, clef_value *const *in, int32_t n_in, const void *attr);

/* ---- shapes ---------------------------------------------------------------------------------- */
int        clef__dim_equal(clef_dim a, clef_dim b);
int        clef__shape_equal(const clef_shape *a, const clef_shape *b);
/** Dim i counted from the right (0: the last); 1 beyond the rank. */
clef_dim   clef__dim_right(const clef_shape *s, int32_t i);
/** Prints "[B, T, 192]" into out. Returns out. */
char      *clef__shape_text(const clef_graph *g, const clef_shape *s, char out[96]);
/** The broadcast of a and b (numpy's rule) in *out; 0 when they do not fit. */
int        clef__broadcast(const clef_shape *a, const clef_shape *b, clef_shape *out);
/** 1 when x broadcasts to `to` without changing it. */
int        clef__broadcasts_to(const clef_shape *x, const clef_shape *to);
/** The value whose memory v lives in: v, or what a chain of views (and of state updates) starts from. */
const clef_value *clef__base(const clef_value *v);
/** 1 when v is a state, or what an update of one gives (cache_write): what the next update may take. */
int        clef__is_cache(const clef_value *v);
/** 1 when v is dense in its base's memory (no permute; a slice only of the outermost dim that is not 1). */
int        clef__is_dense(const clef_value *v);
/** 1 when the last dim of v has stride 1 (so its rows can be read by the kernels as they lie). */
int        clef__rows_dense(const clef_value *v);
/** How many views stand between v and its base. */
int32_t    clef__view_depth(const clef_value *v);
/** Keeps states' last_write right: call it for each value as it joins the list. */
void       clef__track_state(clef_value *v);
/** Where v shows a state as it was before a later write in the list so far: the node that writes; else NULL.
 *  Such a value may not be used any more: its memory holds something else. */
const clef_value *clef__overwritten_by(const clef_value *v);
/** Product of dims at the given symbol values (NULL: at their bounds). */
int64_t    clef__dim_at(const clef_graph *g, clef_dim d, const int64_t *symbols);
int64_t    clef__elements(const clef_value *v, const int64_t *symbols);
/** 1 when a value of this shape, at the symbols' bounds, has less than 2^bits elements. */
int        clef__fits_bits(const clef_graph *g, const clef_shape *s, int32_t bits);
/** Bits of the number of elements: what a value may have, so that its bytes can be counted, and what kernels
 *  can address. */
enum { CLEF__VALUE_BITS = 56, CLEF__KERNEL_BITS = 32 };
/** Bytes of the dense value at the given symbol values (NULL: at their bounds). */
int64_t    clef__bytes(const clef_value *v, const int64_t *symbols);

#endif

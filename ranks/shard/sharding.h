/* The parts of the shard pass: what can be cut (shard_trace.c), what each rank needs (shard_demand.c), and
 * making its graph (shard_make.c). */
#ifndef CLEF_GRAPH_SHARDING_H
#define CLEF_GRAPH_SHARDING_H

#include "graph/collective.h"
#include "graph/op/ways.h"
#include "ranks/shard/shard.h"

/** What is known of a value along one of its axes. */
typedef struct clef__cuttable {
    int64_t grain;          /* parts begin at multiples of this */
    int32_t by_inputs;      /* 1: a part is computed from parts of inputs; 0: it is a slice of the whole
                               value */
    int32_t pays;           /* 1: a part costs a part of the work */
    int32_t heads, kv_heads; /* 0, or the parts are of so many heads of attention */
} clef__cuttable;

/** How a rank has a value. */
typedef enum clef__form_kind { CLEF__WHOLE, CLEF__PIECE, CLEF__SUMMAND } clef__form_kind;
typedef enum clef__making {
    CLEF__FROM_WHOLE,   /* the node itself, of whole inputs; or the leaf */
    CLEF__FROM_PIECES,  /* the node, of pieces of its inputs; or a part of a leaf */
    CLEF__FROM_SUM,     /* the node, whose result the ranks have to add up */
    CLEF__BY_SLICE,     /* a slice of the whole value */
    CLEF__BY_REDUCE,    /* all_reduce of summands */
    CLEF__BY_GATHER,    /* all_gather of pieces */
    CLEF__BY_RECEIVE    /* from another stage */
} clef__making;
typedef struct clef__form {
    struct clef__form *next;
    clef__form_kind    kind;
    int32_t            axis; /* of a piece */
    clef__range        range;
    clef__making       how;
    clef__way          way;     /* FROM_PIECES, FROM_SUM */
    clef__range        lead;    /* FROM_SUM: the rank's part of the axis that is divided */
    int64_t            grain;   /* BY_GATHER */
    struct clef__form *of[CLEF_MAX_INPUTS]; /* forms of the inputs; NULL: absent */
    struct clef__form *self;    /* BY_SLICE, BY_REDUCE, BY_GATHER: another form of the same value */
    clef_value        *made;
} clef__form;

typedef struct clef__sharding {
    const clef_graph *from;
    clef_graph       *to;
    clef_layout       layout;
    int32_t           part, stage; /* of this rank */
    clef_cut          cut;         /* only where there are several stages */
    clef__cuttable  (*cuttable)[CLEF_MAX_DIMS]; /* by value id and axis */
    unsigned char    *is_sum;      /* by value id: ranks can compute summands of it */
    int32_t          *state_axis;  /* by value id: the axis along which what depends on a state is cut; -1:
                                      none */
    clef__form      **forms;       /* by value id */
    int64_t           weight_bytes; /* of the whole graph */
} clef__sharding;

/** Finds what can be cut. CLEF_E_UNSUPPORTED: heads that do not divide. */
clef_status clef__shard_trace(clef__sharding *s, clef_error *err);
/** The rank's part of an axis with these properties. */
clef__range clef__shard_range(const clef__sharding *s, int64_t size, const clef__cuttable *c, int32_t part,
                              int64_t *grain);
/** How ranks compute summands of n, and what is known of the axis that they divide. Returns 0 if they
 *  cannot. */
int clef__shard_sum(const clef__sharding *s, const clef_value *n, clef__way *way, clef__cuttable *lead);
/** 1 when the whole of n is better joined from pieces along its last axis than computed by each rank. */
int clef__shard_gathers(const clef__sharding *s, const clef_value *n);
/** Decides which forms of which values the rank needs. */
clef_status clef__shard_demand(clef__sharding *s, clef_error *err);
/** Makes its graph of them. */
clef_status clef__shard_make(clef__sharding *s, clef_error *err);

/** What stage s->stage has to do with a value: clef__cut_mark bits. */
int clef__shard_marks(const clef__sharding *s, int32_t stage, const clef_value *v);

#endif

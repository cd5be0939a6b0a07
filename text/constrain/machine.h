/* What a text may still say: a pushdown automaton that reads code points.
 *
 *   node    of a grammar's graph: a character, a call of a rule, a JSON value, …
 *   frame   a place in a rule or in a JSON value, with the frame that goes on after it: a stack. Equal stacks
 *           are one frame
 *   config  all frames at which the text may be: a set. Equal sets are one config, so that what was computed
 *           for it (its steps, its mask) can be kept
 *
 * A machine grows while it is used: one thread at a time. When it has grown enough, it begins a new
 * generation, which is empty; configs of the generation before are carried over when they are asked for. */
#ifndef CLEF_TEXT_CONSTRAIN_MACHINE_H
#define CLEF_TEXT_CONSTRAIN_MACHINE_H

#include "text/constrain/charset.h"
#include "text/constrain/schema.h"

typedef enum clef__gnode_kind {
    CLEF__G_END,   /* of a rule */
    CLEF__G_EITHER, /* to or other */
    CLEF__G_SET,   /* one character */
    CLEF__G_CALL,  /* a rule, which begins at `other` */
    CLEF__G_VALUE, /* a JSON value of an expression */
    CLEF__G_TEXT,  /* a text of an automaton */
    CLEF__G_TOKEN, /* one token by its id, or any but that */
    CLEF__G_SPECIAL /* any special token but those in `except` and those that end a text */
} clef__gnode_kind;

typedef struct clef__gnode {
    clef__gnode_kind kind;
    uint32_t         to, other;
    clef__set        set;
    const clef__dfa *dfa;
    uint32_t         schema, expr; /* VALUE */
    int32_t          token, negated, except[2]; /* except: ids + 1; 0: none */
} clef__gnode;

typedef struct clef__frame {
    uint32_t parent; /* the frame below; 0: none */
    uint32_t a, b, c, d, e, partial;
    uint8_t  op, stage, phase, space;
} clef__frame;

/** An alternative, and what is added to its expressions to number those of all schemas. */
typedef struct clef__form {
    const clef__alt *alt;
    uint32_t         base;
} clef__form;

typedef struct clef__step {
    uint32_t config, code, to;
} clef__step;

/** The generation before: what its configs are made of. */
typedef struct clef__past {
    clef__frame *frames;
    uint32_t    *items, *first, *moved; /* moved: of each frame, the frame that it became; 0: none yet */
    uint32_t     n_frames, n_configs;
    size_t       n_bytes;
} clef__past;

typedef struct clef__machine {
    const clef__gnode *nodes;
    uint32_t           n_nodes, start;
    int32_t            any_order;
    clef__form        *forms;
    uint32_t          *first_form; /* [number of expressions + 1] */
    uint32_t          *bases;      /* of each schema */

    clef__frame *frames;  uint32_t n_frames, room_frames, *frame_slots, n_frame_slots;
    uint32_t *place, room_place;                              /* of each frame: where it was added to `out` */
    uint32_t *items, n_items, room_items;                     /* of all configs */
    uint32_t *first, n_configs, room_configs;                 /* [n_configs + 1] */
    uint32_t *config_slots, n_config_slots;
    clef__step *steps;                                        /* a cache: newer ones replace older ones */
    uint32_t *out, n_out, room_out, base;                     /* the set that is made */
    uint32_t *todo, n_todo, room_todo;                        /* pairs of node and parent */
    uint32_t *seen_stamp, *seen_parent, stamp; /* of each node: when it was last entered, and above what */
    clef__past past;
    uint32_t generation, *stack, room_stack;                  /* stack: frames that are carried over */
    clef__work work;                                          /* its errors: growing too large */
} clef__machine;

enum {
    CLEF__NO_CONFIG = 0,          /* no text goes on */
    CLEF__MOST_CONFIGS = 1 << 22 /* of a generation */
};
void clef__past_finish(clef__past *past);

/** Makes a machine of a graph and of the schemas that its nodes use, all borrowed. */
clef_status clef__machine_init(clef__machine *m, const clef__gnode *nodes, uint32_t n_nodes, uint32_t start,
                               clef__schema *const *schemas, uint32_t n_schemas, int any_order,
                               clef_error *err);
void clef__machine_finish(clef__machine *m);
/** Frees its frames and configs, and makes those that every machine has: none, and the end of the text. */
clef_status clef__machine_restart(clef__machine *m);
/** Bytes of this generation. */
size_t clef__machine_grown(const clef__machine *m);

/** Begins a new generation after an error, or when this one has grown enough. Returns 1 if it did: configs
 *  then have other numbers. */
int clef__machine_tidy(clef__machine *m);
/** The config of this generation that is equal to one of another. 0 where that is gone: it was not of the
 *  generation before. */
uint32_t clef__machine_carry(clef__machine *m, uint32_t generation, uint32_t config);

uint32_t clef__machine_begin(clef__machine *m);
uint32_t clef__machine_step(clef__machine *m, uint32_t config, uint32_t code);
/** The config after a token that a grammar names by its id, or by being special. */
uint32_t clef__machine_token(clef__machine *m, uint32_t config, int32_t id, int is_special);
/** 1 if the node is such a token, and this one fits. */
int clef__gnode_takes(const clef__gnode *node, int32_t id, int is_special);
/** The n frames that come after those of a config that may end here: they are not part of the config, since
 *  what comes next may go on with what may end. Valid until the machine is used again. */
const uint32_t *clef__machine_after(clef__machine *m, uint32_t config, uint32_t *n);
/** 1 if a code point from lo to hi leads on. */
int clef__machine_can(clef__machine *m, uint32_t config, uint32_t lo, uint32_t hi);
/** 1 if the text may end here. */
int clef__machine_ends(clef__machine *m, uint32_t config);
/** 1 if a frame is within a text of which any character may be the next; *room is how many more, UINT32_MAX
 *  for any number. */
int clef__machine_is_free(const clef__machine *m, uint32_t config, uint32_t *room);
/** Bytes that it has grown to, with the generation before. */
size_t clef__machine_bytes(const clef__machine *m);

/* ---- for the machine's files ------------------------------------------------------------------------ */

typedef enum clef__op {
    CLEF__OP_DONE,   /* the text is complete */
    CLEF__OP_RETURN, /* below a rule: node a comes after it */
    CLEF__OP_SET,    /* node a: SET, TOKEN or SPECIAL */
    CLEF__OP_TEXT,   /* node a, state b of its automaton; stage 1: some of it was read */
    CLEF__OP_VALUE,  /* expression a */
    CLEF__OP_WORD,   /* null, false, true: kind a, b characters read */
    CLEF__OP_NUMBER, /* form a, state b */
    CLEF__OP_STRING, /* form a, state b, c code points */
    CLEF__OP_ARRAY,  /* form a, b items */
    CLEF__OP_OBJECT, /* form a; see json_machine.c */
    CLEF__OP_NAME,   /* form a: declared names b to c in order share d bytes */
    CLEF__OP_OTHER,  /* form a, region c, state b of its names */
    CLEF__OP_SEEN    /* a list: member a was seen */
} clef__op;

enum { CLEF__NO_SPACE = 255 }; /* space: there may be none here */

uint32_t clef__frame_of(clef__machine *m, const clef__frame *f);
/** Makes the set that was made a config, 0 if it is empty. */
uint32_t clef__machine_take(clef__machine *m);
/** Adds a frame to the set that is made. */
void clef__machine_add(clef__machine *m, uint32_t frame);
/** Adds the frames after what was on `parent` is complete. */
void clef__machine_pop(clef__machine *m, uint32_t parent);
/** Adds the frames that follow frame `id` by a code point. */
void clef__machine_follow(clef__machine *m, uint32_t id, uint32_t code);
/** Pops, and follows what is then on top. */
void clef__machine_pop_follow(clef__machine *m, uint32_t parent, uint32_t code);
/** As clef__machine_follow(), for JSON's frames: json_machine.c. */
void clef__json_follow(clef__machine *m, clef__frame f, uint32_t code);
int  clef__json_can(clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi);

/* JSON's strings: json_text.c */
typedef enum clef__text_step {
    CLEF__TEXT_NO,
    CLEF__TEXT_MORE,
    CLEF__TEXT_CHAR,
    CLEF__TEXT_END
} clef__text_step;
/** Reads a code point of the source text of a string. CHAR: *code is a character; MORE: within an escape.
 *  Both change phase and partial of *f. NO also where no character that the escape may become is allowed. */
clef__text_step clef__json_text(clef__machine *m, clef__frame *f, uint32_t source, uint32_t *code);
/** Appends a character. Returns 0 if it is not allowed. */
int clef__json_append(clef__machine *m, clef__frame *f, uint32_t code);
/** 1 if a character from lo to hi may come next. */
int clef__json_allows(clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi);
/** 1 if property i may come next in the object of frame *f. */
int clef__json_may_have(const clef__machine *m, const clef__frame *f, uint32_t i);

#endif

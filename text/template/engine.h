/* The engine of chat templates: values, the tree of a template, and the state of one rendering. The language
 * is Jinja (palletsprojects.com/p/jinja, version 3.1) as transformers sets it up; docs/templates.md lists
 * it. */
#ifndef CLEF_TEXT_TEMPLATE_ENGINE_H
#define CLEF_TEXT_TEMPLATE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/template.h"
#include "graph/fail.h"

/** The limits of one template; beyond any of them is an error that names it. */
enum {
    CLEF__TPL_MAX_SOURCE = 1 << 20,
    CLEF__TPL_MAX_OUTPUT = 16 << 20,
    CLEF__TPL_MAX_MEMORY = 36 << 20, /* of values, the tree, and what was rendered */
    CLEF__TPL_MAX_STEPS = 10 * 1000 * 1000,
    CLEF__TPL_MAX_RANGE = 100 * 1000,
    CLEF__TPL_MAX_CALLS = 100,  /* macros within macros */
    CLEF__TPL_MAX_DEPTH = 1500, /* expressions and statements within others */
    CLEF__TPL_MAX_ARGS = 16
};

/* ---- values -------------------------------------------------------------------------------------- */

typedef enum clef__kind {
    CLEF__UNDEFINED,
    CLEF__NONE,
    CLEF__BOOL,
    CLEF__INT,
    CLEF__BIG, /* an integer beyond 64 bits, as text: it is printed, and nothing else */
    CLEF__FLOAT,
    CLEF__STRING,
    CLEF__LIST,
    CLEF__TUPLE,
    CLEF__RANGE,     /* range(): its items are a list */
    CLEF__VIEW,      /* of a dict's keys, values or items */
    CLEF__GENERATOR, /* what map, select and others return: it can be looped over once */
    CLEF__DICT,
    CLEF__NAMESPACE,
    CLEF__MACRO,
    CLEF__FUNCTION, /* a global function, or a method with its object */
    CLEF__LOOP,
    CLEF__CYCLER, /* cycler() */
    CLEF__JOINER  /* joiner() */
} clef__kind;

typedef struct clef__str clef__str;
typedef struct clef__list clef__list;
typedef struct clef__dict clef__dict;
typedef struct clef__macro clef__macro;
typedef struct clef__loop clef__loop;
typedef struct clef__func clef__func;
typedef struct clef__tpl clef__tpl;
typedef struct clef__node clef__node;
typedef struct clef__scope clef__scope;

typedef struct clef__value {
    clef__kind kind;
    union {
        int64_t      i; /* also of BOOL */
        double       f;
        clef__str   *s; /* STRING, BIG; of UNDEFINED the name, or NULL */
        clef__list  *l; /* LIST, TUPLE, RANGE, VIEW, GENERATOR, JOINER, CYCLER (first its position) */
        clef__dict  *d; /* DICT, NAMESPACE */
        clef__macro *m;
        clef__func  *fn;
        clef__loop  *loop;
    };
} clef__value;

/** Text in UTF-8 that knows which bytes came from a message. Never changed once made. */
struct clef__str {
    const char    *p;
    size_t         n;
    const uint8_t *marks; /* a byte for each byte: 1 from a message; NULL: all are `mark` */
    uint8_t        mark;
    uint8_t        is_safe; /* HTML by `safe` or `escape`: what is added to it is escaped, as Markup does */
};

struct clef__list {
    clef__value *at;
    size_t       n, cap;
    const char  *name; /* of a VIEW: dict_keys, dict_values, dict_items; of a TUPLE: NULL, or a group's */
    const int64_t *range; /* of a RANGE: where it begins and ends, and its step */
};

/** In the order of insertion. Keys are found by comparing: dicts are small. */
struct clef__dict {
    clef__value *keys, *values;
    size_t       n, cap;
    int64_t     *index; /* hash slots when n is large, else NULL */
    size_t       n_slots;
};

struct clef__macro {
    const clef__node *node;
    clef__scope      *scope; /* where it was defined */
};

/** The arguments of a call. */
typedef struct clef__args {
    const clef__value *at;
    int32_t            n, n_named;
    const clef__value *named;
    clef__str *const  *names;
} clef__args;

typedef clef__value clef__builtin(clef__tpl *t, clef__value self, const clef__args *args);

struct clef__func {
    const char    *name;
    clef__builtin *call;
    clef__value    self;
};

struct clef__loop {
    const clef__node *node; /* of a recursive loop, else NULL */
    clef__scope *scope;     /* around the loop */
    int32_t depth;          /* 0, or of a loop within the same recursive loop */
    clef__list *items;    size_t      at;
clef__value changed;
};

/* ---- the state ------------------------------------------------------------------------------------- */

typedef struct clef__chunk clef__chunk;

/** Bytes with their marks, growing. */
typedef struct clef__out {
    char    *p;
    uint8_t *marks;
    size_t   n, cap;
} clef__out;

typedef struct clef__name {
    clef__str  *name;
    clef__value value;
} clef__name;

struct clef__scope {
    clef__scope *parent;
    clef__name  *names;
    int32_t      n, cap;
};

/** One template, while it is parsed or rendered. After an error `status` is set, and every function returns
 *  at once with something harmless, so that callers check it where they loop. */
struct clef__tpl {
    const char *name; /* in messages */
    clef_status status;
    clef_error *err;
    int32_t     line;
    clef__chunk *chunks;
    size_t      n_bytes; /* of all chunks */
    int64_t     n_steps;
    int32_t     n_calls, depth;
    clef__out  *out;
    clef__scope *globals, *scope;
    clef__value piped;  /* what a filter block, or a block that is set, gives to its filters */
    int32_t     leaves; /* 1: break, 2: continue, on the way to its loop */
    int64_t     date;   /* seconds since 1970 in local time, as if it were UTC: strftime_now */
};

/** Memory that lives as long as the template's state. NULL on failure. */
void *clef__tpl_alloc(clef__tpl *t, size_t n_bytes);
void  clef__tpl_finish(clef__tpl *t);
/** Sets the error, unless there is one: "NAME: line N: ..". Returns an undefined value. */
clef__value clef__tpl_fail(clef__tpl *t, clef_status status, const char *format, ...)
    CLEF_PRINTF(3, 4);
/** Counts steps, and fails beyond the limit. Returns 1 while all is well. */
int clef__tpl_step(clef__tpl *t, int64_t n);

/* ---- values: value.c --------------------------------------------------------------------------------- */

extern const clef__value clef__undefined, clef__none;
clef__value clef__bool(int x);
clef__value clef__int(int64_t x);
clef__value clef__float(double x);
/** A value of these bytes, which must live as long as the state. */
clef__value clef__text_value(clef__tpl *t, const char *p, size_t n, int mark);
clef__value clef__string(clef__tpl *t, const char *text); /* a constant of the program */
clef__str  *clef__str_of(clef__tpl *t, const char *p, size_t n, int mark);
clef__str  *clef__str_part(clef__tpl *t, const clef__str *s, size_t from, size_t to);
clef__str  *clef__str_join(clef__tpl *t, const clef__str *a, const clef__str *b);
clef__value clef__str_value(clef__str *s);
/** The same text as HTML: `<` becomes `&lt;`, unless it is HTML already. */
clef__str *clef__str_escape(clef__tpl *t, clef__str *s);
/** The same text, to which `safe` applies. */
clef__str *clef__str_safe(clef__tpl *t, const clef__str *s);
int  clef__str_is(const clef__str *s, const char *text);
int  clef__mark_at(const clef__str *s, size_t i);
clef__value clef__list_new(clef__tpl *t, clef__kind kind, size_t cap);
void clef__list_add(clef__tpl *t, clef__list *l, clef__value v);
clef__value clef__dict_new(clef__tpl *t, clef__kind kind);
/** Whether a value can be a key of a dict; an error where it cannot. */
int  clef__is_hashable(clef__tpl *t, clef__value v);
/** A range, whose items are kept: at most CLEF__TPL_MAX_RANGE. */
clef__value clef__range(clef__tpl *t, int64_t from, int64_t to, int64_t step);
void clef__dict_set(clef__tpl *t, clef__dict *d, clef__value key, clef__value value);
const clef__value *clef__dict_find(const clef__dict *d, clef__value key);
const clef__value *clef__dict_get(const clef__dict *d, const char *key);

/** Text that is built. */
void clef__out_add(clef__tpl *t, clef__out *o, const char *p, size_t n, int mark);
void clef__out_str(clef__tpl *t, clef__out *o, const clef__str *s);
void clef__out_part(clef__tpl *t, clef__out *o, const clef__str *s, size_t from, size_t to);
clef__value clef__out_value(clef__tpl *t, const clef__out *o);

/* ---- what values are: compare.c, print.c ------------------------------------------------------ */

const char *clef__kind_name(clef__value v); /* as Python says it: "str", "NoneType" */
int  clef__is_true(clef__value v);
int  clef__is_number(clef__value v); /* BOOL too */
double clef__number(clef__value v);
int  clef__equal(clef__value a, clef__value b);
/** Less than 0, 0, more than 0. Fails for values that Python does not order. */
int  clef__order(clef__tpl *t, clef__value a, clef__value b);
int  clef__contains(clef__tpl *t, clef__value in, clef__value what);
/** As str() and repr() print it. */
clef__str *clef__to_str(clef__tpl *t, clef__value v);
void clef__print_repr(clef__tpl *t, clef__out *o, clef__value v);
/** As json.dumps(). indent: less than 0: none. */
typedef struct clef__json_style {
    const clef__str *indent; /* NULL: on one line */
    const clef__str *item, *key; /* separators; NULL: the usual ones */
    int32_t sort_keys, ensure_ascii;
} clef__json_style;
void clef__print_json(clef__tpl *t, clef__out *o, clef__value v, const clef__json_style *style);
/** A float as repr() prints it. Returns the length. */
int  clef__print_float(char out[40], double x);
int  clef__char_is_printable(int32_t c); /* as str.isprintable() */
/** A finite float without its fraction. */
clef__value clef__float_to_int(clef__tpl *t, double x);
/** The values of a JSON text; all text in it is marked if `mark` is. */
clef__value clef__value_of_json(clef__tpl *t, const char *text, size_t n, const char *what, int mark);

/** All items of what can be looped over, as a list: of a dict its keys, of a string its characters. NULL and
 *  an error for other values. */
clef__list *clef__items(clef__tpl *t, clef__value v);

/* ---- characters: text.c ------------------------------------------------------------------------------- */

size_t clef__n_chars(const clef__str *s);
size_t clef__char_at(const clef__str *s, size_t i); /* the byte where character i begins; n beyond the end */
size_t clef__char_bytes(const char *p, size_t left);
int32_t clef__codepoint(const char *p, size_t left);
/** The character of this Unicode name, in any case: a common one, or an ideograph or syllable by its rule.
 *  -1: the name is not known. */
int32_t clef__char_named(const char *name, size_t n);
int  clef__tpl_is_space(int32_t c); /* as str.isspace() */
int64_t clef__find_bytes(const clef__str *in, const clef__str *what, size_t from);
clef__str *clef__strip(clef__tpl *t, const clef__str *s, const clef__str *chars, int left, int right);
/** The value of a decimal digit of any script, or -1. */
int  clef__char_decimal(int32_t c);
int  clef__char_is_digit(int32_t c); /* these are as str.isdigit() and its like */
int  clef__char_is_numeric(int32_t c);
int  clef__char_is_upper(int32_t c);
int  clef__char_is_lower(int32_t c);
/** how: 'u' upper, 'l' lower, 'c' capitalize, 't' title, 's' swap, 'f' casefold. */
clef__str *clef__change_case(clef__tpl *t, const clef__str *s, int how);
clef__str *clef__replace(clef__tpl *t, const clef__str *s, const clef__str *from, const clef__str *to,
                         int64_t most);

/* ---- the tree: lex.c, parse.c ----------------------------------------------------------------- */

typedef enum clef__node_kind {
    /* expressions */
    CLEF__N_CONST, CLEF__N_NAME, CLEF__N_LIST, CLEF__N_TUPLE, CLEF__N_DICT, CLEF__N_ATTR,
    CLEF__N_ITEM, CLEF__N_SLICE, CLEF__N_CALL, CLEF__N_FILTER, CLEF__N_TEST, CLEF__N_NOT,
    CLEF__N_NEG, CLEF__N_POS, CLEF__N_BINARY, CLEF__N_AND, CLEF__N_OR, CLEF__N_COMPARE,
    CLEF__N_IF_ELSE, CLEF__N_CONCAT,
    /* statements */
    CLEF__N_TEXT, CLEF__N_OUTPUT, CLEF__N_FOR, CLEF__N_IF, CLEF__N_SET, CLEF__N_SET_BLOCK, CLEF__N_MACRO,
    CLEF__N_CALL_BLOCK, CLEF__N_FILTER_BLOCK, CLEF__N_BODY, CLEF__N_WITH, CLEF__N_BREAK, CLEF__N_CONTINUE
} clef__node_kind;

/** What a macro's body uses: `op` of its node. */
enum { CLEF__USES_VARARGS = 1, CLEF__USES_KWARGS = 2, CLEF__USES_CALLER = 4 };

/** What the fields mean is said beside each kind where it is made (parse_*.c). */
struct clef__node {
    clef__node_kind kind;
    int32_t line, op, n, n_named;
    clef__value value;
    clef__str *name;
    clef__node *a, *b, *c, *d;
    clef__node **list;   /* n children; then n_named named ones */
    clef__str **names;   /* of the named ones, or of a macro's parameters */
    clef__node *next;    /* of a list of statements */
};

typedef enum clef__token_kind {
    CLEF__T_END, CLEF__T_TEXT, CLEF__T_OUTPUT, CLEF__T_OUTPUT_END, CLEF__T_BLOCK, CLEF__T_BLOCK_END,
    CLEF__T_NAME, CLEF__T_STRING, CLEF__T_INT, CLEF__T_FLOAT, CLEF__T_OP
} clef__token_kind;

typedef struct clef__token {
    clef__token_kind kind;
    int32_t line, op;    /* T_OP: its characters, the first in the low byte: '/' | '/' << 8 */
    clef__value value;   /* T_TEXT, T_STRING, T_NAME, T_INT, T_FLOAT */
} clef__token;

typedef struct clef__tokens {
    clef__token *at;
    size_t n, cap;
} clef__tokens;

void clef__tpl_lex(clef__tpl *t, const char *source, size_t n, clef__tokens *out);

typedef struct clef__parser {
    clef__tpl *t;
    const clef__token *at; /* the current token; the last one is T_END */
    int32_t depth, in_loop;
    int32_t uses;      /* of the macro that is read: 1 varargs, 2 kwargs, 4 caller */
    clef__node spare;  /* what is returned when there is no memory */
} clef__parser;

/** The statements of a whole template. */
clef__node *clef__tpl_parse(clef__tpl *t, const clef__tokens *tokens);
clef__node *clef__parse_expression(clef__parser *p);
/** Expressions with commas. parts: what each may be: a whole expression, one without `x if y`, or a name. */
typedef enum clef__tuple_parts { CLEF__PART_NAME, CLEF__PART_PLAIN, CLEF__PART_ANY } clef__tuple_parts;
clef__node *clef__parse_tuple(clef__parser *p, clef__tuple_parts parts, int may_be_empty);
clef__node *clef__parse_filters(clef__parser *p, clef__node *of, int without_bar);
clef__node *clef__parse_primary(clef__parser *p);
clef__node *clef__new_node(clef__parser *p, clef__node_kind kind);
void clef__node_add(clef__parser *p, clef__node *list, clef__node *child);
int  clef__at_op(const clef__parser *p, const char *op);
int  clef__take_op(clef__parser *p, const char *op);
int  clef__at_word(const clef__parser *p, const char *word);
int  clef__take_word(clef__parser *p, const char *word);
void clef__want_op(clef__parser *p, const char *op);
clef__str *clef__want_name(clef__parser *p);
void clef__parse_fail(clef__parser *p, const char *wanted);

/* ---- evaluation ------------------------------------------------------------------------------- */

clef__value clef__eval(clef__tpl *t, const clef__node *n);
void clef__exec(clef__tpl *t, const clef__node *first);
clef__value clef__attribute(clef__tpl *t, clef__value of, clef__str *name);
clef__value clef__method(clef__tpl *t, clef__value of, clef__str *name); /* an attribute, not an item */
clef__value clef__item(clef__tpl *t, clef__value of, clef__value key);
clef__value clef__slice_of(clef__tpl *t, clef__value of, clef__value from, clef__value to, clef__value step);
clef__value clef__binary(clef__tpl *t, int32_t op, clef__value a, clef__value b);
clef__value clef__call(clef__tpl *t, clef__value callee, const clef__args *args);
/** Another turn of a recursive loop, over these items. */
clef__value clef__call_loop(clef__tpl *t, clef__loop *loop, const clef__args *args);
clef__value clef__call_macro(clef__tpl *t, clef__value macro, const clef__args *args);
void clef__scope_set(clef__tpl *t, clef__scope *scope, clef__str *name, clef__value value);
clef__scope *clef__scope_new(clef__tpl *t, clef__scope *parent);
/** Makes the names that the template sets before it reads them undefined in the present scope: names.c. */
void clef__own_names(clef__tpl *t, const clef__node *body);

/** Tables by name; NULL: none. */
clef__builtin *clef__find_filter(const clef__str *name);
int clef__is_refused_filter(const clef__str *name); /* Jinja has it, and it is not supported */
clef__builtin *clef__find_test(const clef__str *name);
clef__builtin *clef__find_attribute(clef__value of, const clef__str *name); /* called without arguments */
clef__builtin *clef__find_method(clef__kind kind, const clef__str *name, const char **static_name);
void clef__define_globals(clef__tpl *t);

/** Reads arguments by position or name. `names` is a list such as "value default=", where each name is one
 *  parameter; "/ value" takes arguments by position only. Fails for too many, unknown or double ones; those
 *  not given are undefined. */
void clef__read_args(clef__tpl *t, const clef__args *args, const char *function, const char *names,
                     clef__value out[CLEF__TPL_MAX_ARGS]);
/** Begins a function: reads its arguments `args` to a[], or returns. */
#define ARGS(function, names)                                                                                \
    clef__value a[CLEF__TPL_MAX_ARGS];                                                                       \
    clef__read_args(t, args, function, names, a);                                                            \
    if (t->status)                                                                                           \
    return clef__undefined
/** An argument as an integer, or `missing`. */
int64_t clef__int_arg(clef__tpl *t, clef__value v, int64_t missing, const char *what);

#endif

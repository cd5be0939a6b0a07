/* JSON Schema as sets of values. A schema is read into alternatives: kinds of values with their limits, whose
 * union is what it allows. Alternatives can be intersected and complemented, which is how allOf, oneOf, not
 * and if are reduced to what the machine (machine.h) can follow.
 *
 *   literal     a schema of the source, or a constant, or the complement of one
 *   expression  a set of literals, all of which a value must satisfy. The empty one allows every value
 *   node        an expression with its alternatives. The values inside arrays and objects are expressions,
 *               so that a recursive schema has finitely many nodes */
#ifndef CLEF_TEXT_CONSTRAIN_SCHEMA_H
#define CLEF_TEXT_CONSTRAIN_SCHEMA_H

#include <jansson.h>

#include "text/constrain/dfa.h"

typedef enum clef__draft_version {
    CLEF__DRAFT4,
    CLEF__DRAFT6,
    CLEF__DRAFT7,
    CLEF__DRAFT2019,
    CLEF__DRAFT2020
} clef__draft_version;

typedef enum clef__alt_kind {
    CLEF__ALT_NULL,
    CLEF__ALT_FALSE,
    CLEF__ALT_TRUE,
    CLEF__ALT_NUMBER,
    CLEF__ALT_STRING,
    CLEF__ALT_ARRAY,
    CLEF__ALT_OBJECT,
    CLEF__N_ALT_KINDS
} clef__alt_kind;

typedef struct clef__prop {
    clef__utf8_text name;
    uint32_t   expr;
    int32_t    required;
} clef__prop;

/** The values of the members whose names are in a set. */
typedef struct clef__region {
    const clef__dfa *names;
    uint32_t         expr;
} clef__region;

typedef struct clef__alt {
    clef__alt_kind   kind;
    const clef__dfa *dfa;      /* NUMBER: texts; STRING: decoded texts */
    uint32_t         min, max; /* STRING: code points; ARRAY: items; OBJECT: members. max UINT32_MAX: none */
    uint32_t        *prefix;   /* ARRAY: expressions of the first items, then of all others */
    uint32_t         n_prefix, rest;
    clef__prop      *props;    /* OBJECT: in order */
    clef__region    *regions;  /* OBJECT: of all names, disjoint; a declared name's property comes first. Once
                                  finished, without the declared names and without what nothing satisfies */
    uint32_t         n_props, n_regions, n_required;
    uint32_t        *by_name;  /* OBJECT, finished: the properties in the order of their names */
    uint32_t        *required_from; /* OBJECT, finished: [n_props + 1] required ones from each on */
} clef__alt;

typedef struct clef__alts {
    clef__alt *at;
    uint32_t   n, room;
} clef__alts;

/** An expression: its literals, in rising order. */
typedef struct clef__expr {
    uint32_t  *literals;
    uint32_t   n;
    int32_t    state; /* 0: not read yet, 1: being read, 2: read */
    int32_t    live;  /* 1: some value satisfies it */
    clef__alts alts;
} clef__expr;

/** Where a schema is in the source. */
typedef struct clef__site {
    const json_t *schema, *resource; /* of `resource`, # is the root */
    const char   *path;              /* "/properties/id" */
} clef__site;

typedef struct clef__literal {
    const json_t *value;
    int32_t       is_constant, negated;
    int32_t       state; /* as of an expression */
    clef__alts    alts;
} clef__literal;

typedef struct clef__schema_opts {
    int32_t strict;    /* an unknown format is an error */
    int32_t any_order; /* texts of others are judged: members in any order, 1.0 as an integer */
} clef__schema_opts;

typedef struct clef__schema {
    clef__work         *work;
    clef__dfas         *dfas;
    clef__schema_opts   opts;
    const clef__dfa    *texts; /* NULL, or what all strings and names of members must be */
    json_t             *root; /* owned */
    clef__draft_version draft;
    clef__site    *sites;    uint32_t n_sites, room_sites, *site_slots, n_site_slots;
    clef__literal *literals; uint32_t n_literals, room_literals;
    clef__expr    *exprs;    uint32_t n_exprs, room_exprs;
    uint32_t *literal_slots, n_literal_slots, *expr_slots, n_expr_slots;
    int32_t   probing, unknown; /* whether two alternatives share a value is looked at; it met what is not
                                   read yet, and took it for anything */
    int32_t   depth;
    const char *path, *keyword; /* of the error, or of what is being read */
} clef__schema;

/** Reads a schema and everything that it reaches. root_expr is its expression. After an error, s->path and
 *  s->keyword say where. */
void clef__schema_read(clef__schema *s, const char *text, size_t n, uint32_t *root_expr);
void clef__schema_finish(clef__schema *s);

/* ---- for the files of schemas --------------------------------------------------------------------- */

/** Sets the error "NAME: PATH/KEYWORD: …". */
void clef__schema_fail(clef__schema *s, const char *path, const char *keyword, clef_status status,
                       const char *format, ...) CLEF_PRINTF(5, 6);

enum { CLEF__EXPR_ANY = 0 };
/** Makes the empty expression, which must be the first. */
void clef__expr_begin(clef__schema *s);
/** The expression of one literal, and of all the literals of two. */
uint32_t clef__expr_of(clef__schema *s, uint32_t literal);
uint32_t clef__expr_and(clef__schema *s, uint32_t a, uint32_t b);
uint32_t clef__literal_of(clef__schema *s, const json_t *value, int is_constant, int negated);
/** The literal that nothing satisfies, as an expression. */
uint32_t clef__expr_never(clef__schema *s);
/** The alternatives of an expression and of a literal, read at need. */
const clef__alts *clef__expr_alts(clef__schema *s, uint32_t expr);
clef__alts clef__literal_alts(clef__schema *s, uint32_t literal);

/** Notes where a schema inside another one is: its path is the other's with two more steps, of which the
 *  second may be NULL. */
void clef__site_add(clef__schema *s, const json_t *schema, const json_t *outer, const char *step,
                    const char *name);
/** The same for a schema whose path is known; `resource` is that of what surrounds it. */
void clef__site_put(clef__schema *s, const json_t *schema, const json_t *resource, const char *path);
const clef__site *clef__site_of(const clef__schema *s, const json_t *schema);
/** The schema that a reference names; NULL after an error. */
const json_t *clef__schema_resolve(clef__schema *s, const json_t *from, const char *reference);

/* alternatives: alts.c */
void clef__alts_add(clef__schema *s, clef__alts *to, const clef__alt *alt);
void clef__alts_add_all(clef__schema *s, clef__alts *to, const clef__alts *from);
/** All values; those of one kind. */
clef__alts clef__alts_any(clef__schema *s);
clef__alt  clef__alt_any(clef__schema *s, clef__alt_kind kind);
clef__alts clef__alts_and(clef__schema *s, const clef__alts *a, const clef__alts *b);
/** All values that are not in `a`. CLEF_E_UNSUPPORTED where that is not known, at `path` and `keyword`. */
clef__alts clef__alts_not(clef__schema *s, const clef__alts *a, const char *path, const char *keyword);
/** Joins strings, numbers and equal alternatives. */
void clef__alts_merge(clef__schema *s, clef__alts *a);
/** 1 if it is certain that no value is in it. */
int clef__alts_empty(clef__schema *s, const clef__alts *a);
/** The expression of the member `name`: a property's, or that of the region in which the name is. */
uint32_t clef__alt_member(const clef__alt *object, clef__utf8_text name);

/* keywords: keywords.c, objects.c */
clef__alts clef__read_schema(clef__schema *s, const json_t *schema);
clef__alts clef__read_constant(clef__schema *s, const json_t *value);
/** The keywords of arrays and of objects, as one alternative each. */
clef__alt  clef__read_array(clef__schema *s, const json_t *schema);
clef__alt  clef__read_object(clef__schema *s, const json_t *schema);
/** Intersects `alts` with what dependencies, dependentRequired and dependentSchemas allow. */
void clef__read_dependencies(clef__schema *s, const json_t *schema, clef__alts *alts);
/** A count that a keyword gives; `missing` where there is none. */
uint32_t clef__read_count(clef__schema *s, const json_t *schema, const char *keyword, uint32_t missing);
/** The texts of a format; NULL for one that is not known. */
const clef__dfa *clef__format_dfa(clef__dfas *dfas, const char *name);

#endif

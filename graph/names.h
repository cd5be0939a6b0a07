/* The names of a graph's values: a hash table. */
#ifndef CLEF_GRAPH_NAMES_H
#define CLEF_GRAPH_NAMES_H

#include "graph/value.h"

typedef struct clef__names clef__names;

clef__names *clef__names_create(void); /* NULL when out of memory */
void         clef__names_destroy(clef__names *names);
clef_value  *clef__names_find(const clef__names *names, const char *name);
/** Adds `value` under value->name, which must be a new name. 0 when out of memory. */
int          clef__names_add(clef__names *names, clef_value *value);
void         clef__names_remove(clef__names *names, const clef_value *value);

/** 1 for a character of a bare name: ASCII letters, digits and _.-/, in every locale. */
int  clef__is_name_char(char c);
/** 1 when the name needs no quotes. */
int  clef__name_is_bare(const char *name);
/** 1 when it may name a symbol: a bare name that does not start with a digit and has fewer than
 *  CLEF_NAME_BYTES bytes. */
int  clef__is_symbol_name(const char *name);

#endif

/* Tables of methods: those of strings (methods_string.c) and of other kinds of values (methods.c). */
#ifndef CLEF_TEXT_TEMPLATE_METHODS_H
#define CLEF_TEXT_TEMPLATE_METHODS_H

#include "text/template/engine.h"

typedef struct clef__method_row {
    const char    *name;
    clef__builtin *call;
} clef__method_row;

/** The method of a table of n that has this name; *static_name is then its name in the table. NULL: none. */
clef__builtin *clef__method_named(const clef__method_row *table, size_t n, const clef__str *name,
                                  const char **static_name);
clef__builtin *clef__find_string_method(const clef__str *name, const char **static_name);

#endif

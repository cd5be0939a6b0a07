/* How built-in functions read their arguments. */
#include <string.h>

#include "text/template/engine.h"

/* The number of a name in a list of names with blanks between; -1: not there. */
static int32_t place_of(const char *names, const clef__str *name)
{
    for (int32_t i = 0; *names; i++) {
        const size_t n = strcspn(names, " ");
        if (n == name->n && memcmp(names, name->p, n) == 0)
            return i;
        names += n + (names[n] == ' ');
    }
    return -1;
}

static int32_t n_names(const char *names)
{
    int32_t n = *names != 0;
    for (; *names; names++)
        n += *names == ' ';
    return n;
}

void clef__read_args(clef__tpl *t, const clef__args *args, const char *function, const char *names,
                     clef__value out[CLEF__TPL_MAX_ARGS])
{
    const int by_place = *names == '/'; /* as Python's own methods */
    names += by_place ? 1 + (names[1] == ' ') : 0;
    if (by_place && args->n_named)
        clef__tpl_fail(t, CLEF_E_FORMAT, "%s takes no arguments by name", function);
    const int32_t most = n_names(names);
    for (int32_t i = 0; i < CLEF__TPL_MAX_ARGS; i++)
        out[i] = i < args->n ? args->at[i] : clef__undefined;
    if (args->n > most)
        clef__tpl_fail(t, CLEF_E_FORMAT, "%s takes %d arguments at most, got %d", function, (int)most,
                       (int)args->n);
    for (int32_t k = 0; k < args->n_named && !t->status; k++) {
        const int32_t i = place_of(names, args->names[k]);
        if (i < 0 || i < args->n)
            clef__tpl_fail(t, CLEF_E_FORMAT, i < 0 ? "%s has no argument '%.*s'" : "%s got '%.*s' twice",
                           function, (int)args->names[k]->n, args->names[k]->p);
        else
            out[i] = args->named[k];
    }
}

int64_t clef__int_arg(clef__tpl *t, clef__value v, int64_t missing, const char *what)
{
    if (v.kind == CLEF__UNDEFINED || v.kind == CLEF__NONE)
        return missing;
    if (v.kind == CLEF__INT || v.kind == CLEF__BOOL)
        return v.i;
    clef__tpl_fail(t, CLEF_E_FORMAT, "%s: expected an integer, got '%s'", what, clef__kind_name(v));
    return missing;
}

/* What values are to each other: truth, equality, order, membership. */
#include <string.h>

#include "text/template/engine.h"

const char *clef__kind_name(clef__value v)
{
    static const char *const names[] = {[CLEF__UNDEFINED] = "Undefined",
                                        [CLEF__NONE] = "NoneType",
                                        [CLEF__BOOL] = "bool",
                                        [CLEF__INT] = "int",
                                        [CLEF__BIG] = "int",
                                        [CLEF__FLOAT] = "float",
                                        [CLEF__STRING] = "str",
                                        [CLEF__LIST] = "list",
                                        [CLEF__TUPLE] = "tuple",
                                        [CLEF__RANGE] = "range",
                                        [CLEF__VIEW] = "dict_view",
                                        [CLEF__GENERATOR] = "generator",
                                        [CLEF__DICT] = "dict",
                                        [CLEF__NAMESPACE] = "Namespace",
                                        [CLEF__MACRO] = "Macro",
                                        [CLEF__FUNCTION] = "function",
                                        [CLEF__LOOP] = "LoopContext",
                                        [CLEF__CYCLER] = "Cycler",
                                        [CLEF__JOINER] = "Joiner"};
    return names[v.kind];
}

int clef__is_number(clef__value v)
{
    return v.kind == CLEF__BOOL || v.kind == CLEF__INT || v.kind == CLEF__FLOAT;
}

double clef__number(clef__value v)
{
    return v.kind == CLEF__FLOAT ? v.f : (double)v.i;
}

int clef__is_true(clef__value v)
{
    switch (v.kind) {
    case CLEF__UNDEFINED:
    case CLEF__NONE:
        return 0;
    case CLEF__BOOL:
    case CLEF__INT:
        return v.i != 0;
    case CLEF__FLOAT:
        return v.f != 0;
    case CLEF__STRING:
        return v.s->n > 0;
    case CLEF__LIST:
    case CLEF__TUPLE:
    case CLEF__RANGE:
    case CLEF__VIEW:
        return v.l->n > 0;
    case CLEF__DICT:
        return v.d->n > 0;
    default:
        return 1;
    }
}

static int equal_at(clef__value a, clef__value b, int depth);

static int lists_equal(const clef__list *a, const clef__list *b, int depth)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++)
        if (!equal_at(a->at[i], b->at[i], depth + 1))
            return 0;
    return 1;
}

/* Keys and items are sets; values are equal to nothing but themselves. */
static int views_equal(const clef__list *a, const clef__list *b, int depth)
{
    if (a == b || a->n != b->n || strcmp(a->name, b->name) != 0 || strcmp(a->name, "dict_values") == 0)
        return a == b;
    for (size_t i = 0; i < a->n; i++) {
        size_t k = i; /* mostly in the same order */
        for (size_t tried = 0; !equal_at(a->at[i], b->at[k], depth + 1); k = (k + 1) % b->n)
            if (++tried == b->n)
                return 0;
    }
    return 1;
}

static int dicts_equal(const clef__dict *a, const clef__dict *b, int depth)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++) {
        const clef__value *other = clef__dict_find(b, a->keys[i]);
        if (!other || !equal_at(a->values[i], *other, depth + 1))
            return 0;
    }
    return 1;
}

static int equal_at(clef__value a, clef__value b, int depth)
{
    if (clef__is_number(a) && clef__is_number(b))
        return a.kind != CLEF__FLOAT && b.kind != CLEF__FLOAT ? a.i == b.i
                                                              : clef__number(a) == clef__number(b);
    if (a.kind != b.kind || depth > CLEF__TPL_MAX_DEPTH)
        return 0;
    switch (a.kind) {
    case CLEF__UNDEFINED:
    case CLEF__NONE:
        return 1;
    case CLEF__STRING:
    case CLEF__BIG:
        return a.s->n == b.s->n && memcmp(a.s->p, b.s->p, a.s->n) == 0;
    case CLEF__LIST:
    case CLEF__TUPLE:
    case CLEF__RANGE:
        return lists_equal(a.l, b.l, depth);
    case CLEF__VIEW:
        return views_equal(a.l, b.l, depth);
    case CLEF__DICT:
        return dicts_equal(a.d, b.d, depth);
    default:
        return a.d == b.d;
    }
}

int clef__equal(clef__value a, clef__value b)
{
    return equal_at(a, b, 0);
}

int clef__order(clef__tpl *t, clef__value a, clef__value b)
{
    if (clef__is_number(a) && clef__is_number(b)) {
        if (a.kind != CLEF__FLOAT && b.kind != CLEF__FLOAT)
            return (a.i > b.i) - (a.i < b.i);
        return (clef__number(a) > clef__number(b)) - (clef__number(a) < clef__number(b));
    }
    if (a.kind == CLEF__STRING && b.kind == CLEF__STRING) {
        const size_t n = a.s->n < b.s->n ? a.s->n : b.s->n;
        const int c = n ? memcmp(a.s->p, b.s->p, n) : 0;
        return c ? c : (a.s->n > b.s->n) - (a.s->n < b.s->n);
    }
    if (a.kind == b.kind && (a.kind == CLEF__LIST || a.kind == CLEF__TUPLE)) {
        for (size_t i = 0; i < a.l->n && i < b.l->n && !t->status; i++)
            if (!clef__equal(a.l->at[i], b.l->at[i]))
                return clef__order(t, a.l->at[i], b.l->at[i]);
        return (a.l->n > b.l->n) - (a.l->n < b.l->n);
    }
    clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' and '%s' have no order", clef__kind_name(a), clef__kind_name(b));
    return 0;
}

int clef__contains(clef__tpl *t, clef__value in, clef__value what)
{
    switch (in.kind) {
    case CLEF__STRING:
        if (what.kind == CLEF__STRING)
            return clef__find_bytes(in.s, what.s, 0) >= 0;
        clef__tpl_fail(t, CLEF_E_FORMAT, "'in' a string needs a string, got '%s'", clef__kind_name(what));
        return 0;
    case CLEF__LIST:
    case CLEF__TUPLE:
    case CLEF__RANGE:
    case CLEF__VIEW:
    case CLEF__GENERATOR:
        if (in.kind == CLEF__VIEW && strcmp(in.l->name, "dict_values") != 0 && !clef__is_hashable(t, what))
            return 0;
        for (size_t i = 0; i < in.l->n && clef__tpl_step(t, 1); i++)
            if (clef__equal(in.l->at[i], what))
                return 1;
        return 0;
    case CLEF__DICT:
        return clef__is_hashable(t, what) && clef__dict_find(in.d, what) != NULL;
    case CLEF__UNDEFINED:
        return 0;
    default:
        clef__tpl_fail(t, CLEF_E_FORMAT, "'in' needs a string, list or dict, got '%s'", clef__kind_name(in));
        return 0;
    }
}

clef__list *clef__items(clef__tpl *t, clef__value v)
{
    clef__value list;
    if (v.kind == CLEF__LIST || v.kind == CLEF__TUPLE || v.kind == CLEF__RANGE || v.kind == CLEF__VIEW)
        return v.l;
    if (v.kind == CLEF__GENERATOR) {
        clef__list *all = clef__tpl_alloc(t, sizeof *all);
        if (all)
            *all = *v.l;
        v.l->n = 0; /* nothing is left for a second loop */
        return all;
    }
    if (v.kind != CLEF__DICT && v.kind != CLEF__STRING && v.kind != CLEF__UNDEFINED) {
        clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' cannot be looped over", clef__kind_name(v));
        return NULL;
    }
    list = clef__list_new(t, CLEF__LIST, v.kind == CLEF__DICT ? v.d->n : 0);
    if (v.kind == CLEF__DICT)
        for (size_t i = 0; i < v.d->n && !t->status; i++)
            clef__list_add(t, list.l, v.d->keys[i]);
    if (v.kind == CLEF__STRING)
        for (size_t at = 0, n; at < v.s->n && !t->status; at += n) {
            n = clef__char_bytes(v.s->p + at, v.s->n - at);
            clef__str *each = clef__str_part(t, v.s, at, at + n);
            if (!t->status)
                each->is_safe = 0;
            clef__list_add(t, list.l, clef__str_value(each));
        }
    return t->status ? NULL : list.l;
}

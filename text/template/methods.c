/* Methods of lists and dicts, and attributes of loops, cyclers and macros: Python's, by its names. */
#include "text/template/methods.h"

#include <math.h>

/* ---- lists and dicts -------------------------------------------------------------------------- */

static clef__value list_index(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("index()", "/ value start stop");
    const int64_t n = (int64_t)self.l->n, first = clef__int_arg(t, a[1], 0, "index()"),
                  last = clef__int_arg(t, a[2], n, "index()");
    const size_t from = (size_t)(first < -n  ? 0
                                 : first < 0 ? first + n
                                             : first),
                 to = (size_t)(last < -n  ? 0
                               : last < 0 ? last + n
                               : last < n ? last
                                          : n);
    for (size_t i = from; i < to && !t->status; i++)
        if (clef__equal(self.l->at[i], a[0]))
            return clef__int((int64_t)i);
    return clef__tpl_fail(t, CLEF_E_FORMAT, "index(): the value is not in the list");
}

static clef__value list_count(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("count()", "/ value");
    int64_t n = 0;
    for (size_t i = 0; i < self.l->n; i++)
        n += clef__equal(self.l->at[i], a[0]);
    return clef__int(n);
}

static clef__value list_copy(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("copy()", "");
    return self; /* nothing changes a list */
}

static clef__value dict_get(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("get()", "/ key default");
    const clef__value *found = clef__dict_find(self.d, a[0]);
    return found ? *found : args->n + args->n_named > 1 ? a[1] : clef__none;
}

static clef__value dict_keys(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("keys()", "");
    clef__value out = clef__list_new(t, CLEF__VIEW, self.d->n);
    for (size_t i = 0; i < self.d->n && !t->status; i++)
        clef__list_add(t, out.l, self.d->keys[i]);
    if (!t->status)
        out.l->name = "dict_keys";
    return out;
}

static clef__value dict_values(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("values()", "");
    clef__value out = clef__list_new(t, CLEF__VIEW, self.d->n);
    for (size_t i = 0; i < self.d->n && !t->status; i++)
        clef__list_add(t, out.l, self.d->values[i]);
    if (!t->status)
        out.l->name = "dict_values";
    return out;
}

static clef__value dict_items(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("items()", "");
    clef__value out = clef__list_new(t, CLEF__VIEW, self.d->n);
    for (size_t i = 0; i < self.d->n && !t->status; i++) {
        clef__value pair = clef__list_new(t, CLEF__TUPLE, 2);
        if (t->status)
            break;
        clef__list_add(t, pair.l, self.d->keys[i]);
        clef__list_add(t, pair.l, self.d->values[i]);
        clef__list_add(t, out.l, pair);
    }
    if (!t->status)
        out.l->name = "dict_items";
    return out;
}

static clef__value dict_copy(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("copy()", "");
    return self;
}

/* ---- loops, cyclers, macros ------------------------------------------------------------------- */

static clef__value loop_index(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int((int64_t)self.loop->at + 1);
}

static clef__value loop_index0(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int((int64_t)self.loop->at);
}

static clef__value loop_revindex(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int((int64_t)(self.loop->items->n - self.loop->at));
}

static clef__value loop_revindex0(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int((int64_t)(self.loop->items->n - self.loop->at) - 1);
}

static clef__value loop_first(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__bool(self.loop->at == 0);
}

static clef__value loop_last(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__bool(self.loop->at + 1 >= self.loop->items->n);
}

static clef__value loop_length(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int((int64_t)self.loop->items->n);
}

static clef__value loop_depth(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int(self.loop->depth + 1);
}

static clef__value loop_depth0(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int(self.loop->depth);
}

static clef__value loop_previtem(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.loop->at && self.loop->at <= self.loop->items->n ? self.loop->items->at[self.loop->at - 1]
                                                                 : clef__undefined;
}

static clef__value loop_nextitem(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.loop->at + 1 < self.loop->items->n ? self.loop->items->at[self.loop->at + 1]
                                                   : clef__undefined;
}

static clef__value loop_cycle(clef__tpl *t, clef__value self, const clef__args *args)
{
    if (args->n == 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "loop.cycle(): expected a value");
    return args->at[self.loop->at % (size_t)args->n];
}

static clef__value loop_changed(clef__tpl *t, clef__value self, const clef__args *args)
{
    clef__value now = clef__list_new(t, CLEF__TUPLE, (size_t)args->n);
    for (int32_t i = 0; i < args->n && !t->status; i++)
        clef__list_add(t, now.l, args->at[i]);
    const int is_same = clef__equal(now, self.loop->changed);
    self.loop->changed = now;
    return clef__bool(!is_same);
}

static clef__value cycler_pos(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.l->at[0];
}

static clef__value cycler_items(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)args;
    clef__value out = clef__list_new(t, CLEF__TUPLE, self.l->n);
    for (size_t i = 1; i < self.l->n && !t->status; i++)
        clef__list_add(t, out.l, self.l->at[i]);
    return out;
}

static clef__value cycler_current(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.l->at[1 + self.l->at[0].i];
}

static clef__value cycler_next(clef__tpl *t, clef__value self, const clef__args *args)
{
    const clef__value now = cycler_current(t, self, args);
    self.l->at[0].i = (self.l->at[0].i + 1) % ((int64_t)self.l->n - 1);
    return now;
}

static clef__value cycler_reset(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    self.l->at[0].i = 0;
    return clef__none;
}

static clef__value macro_arguments(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)args;
    clef__value out = clef__list_new(t, CLEF__TUPLE, 0);
    for (int32_t i = 0; i < self.m->node->n_named && !t->status; i++)
        clef__list_add(t, out.l, clef__str_value(self.m->node->names[i]));
    return out;
}

static clef__value macro_catch_varargs(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__bool(self.m->node->op & CLEF__USES_VARARGS);
}

static clef__value macro_catch_kwargs(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__bool(self.m->node->op & CLEF__USES_KWARGS);
}

static clef__value macro_caller(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__bool(self.m->node->op & CLEF__USES_CALLER);
}

/* ---- ranges, groups and numbers --------------------------------------------------------------- */

static clef__value range_start(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int(self.l->range[0]);
}

static clef__value range_stop(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int(self.l->range[1]);
}

static clef__value range_step(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__int(self.l->range[2]);
}

static clef__value group_grouper(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.l->at[0];
}

static clef__value group_list(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.l->at[1];
}

/* Of integers; a bool becomes one. */
static clef__value number_real(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.kind == CLEF__BOOL ? clef__int(self.i) : self;
}

static clef__value int_imag(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return self.kind == CLEF__FLOAT ? clef__float(0) : clef__int(0);
}

static clef__value int_denominator(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)self, (void)args;
    return clef__int(1);
}

static clef__value int_bit_length(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("bit_length()", "/");
    int64_t n = 0;
    for (uint64_t m = self.i < 0 ? 0 - (uint64_t)self.i : (uint64_t)self.i; m; m >>= 1)
        n++;
    return clef__int(n);
}

static clef__value float_is_integer(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("is_integer()", "/");
    return clef__bool(isfinite(self.f) && trunc(self.f) == self.f);
}

static clef__value macro_name(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)t, (void)args;
    return clef__str_value(self.m->node->name);
}

/* ---- the tables ------------------------------------------------------------------------------- */

static const clef__method_row list_methods[] = {
    {"index", list_index},
    {"count", list_count},
    {"copy", list_copy},
};
static const clef__method_row tuple_methods[] = {
    {"index", list_index},
    {"count", list_count},
};
static const clef__method_row dict_methods[] = {
    {"get", dict_get},     {"keys", dict_keys}, {"values", dict_values},
    {"items", dict_items}, {"copy", dict_copy},
};
static const clef__method_row loop_attributes[] = {
    {"index", loop_index},         {"index0", loop_index0},     {"revindex", loop_revindex},
    {"revindex0", loop_revindex0}, {"first", loop_first},       {"last", loop_last},
    {"length", loop_length},       {"depth", loop_depth},       {"depth0", loop_depth0},
    {"previtem", loop_previtem},   {"nextitem", loop_nextitem},
};
static const clef__method_row loop_methods[] = {
    {"cycle", loop_cycle},
    {"changed", loop_changed},
};
static const clef__method_row cycler_attributes[] = {
    {"current", cycler_current},
    {"items", cycler_items},
    {"pos", cycler_pos},
};
static const clef__method_row cycler_methods[] = {
    {"next", cycler_next},
    {"reset", cycler_reset},
};
/* These are attributes: reading one gives its value. */
static const clef__method_row macro_attributes[] = {
    {"name", macro_name},
    {"arguments", macro_arguments},
    {"catch_varargs", macro_catch_varargs},
    {"catch_kwargs", macro_catch_kwargs},
    {"caller", macro_caller},
};
static const clef__method_row range_attributes[] = {
    {"start", range_start},
    {"stop", range_stop},
    {"step", range_step},
};
static const clef__method_row group_attributes[] = {
    {"grouper", group_grouper},
    {"list", group_list},
};
static const clef__method_row int_attributes[] = {
    {"real", number_real},
    {"imag", int_imag},
    {"numerator", number_real},
    {"denominator", int_denominator},
};
static const clef__method_row float_attributes[] = {
    {"real", number_real},
    {"imag", int_imag},
};
static const clef__method_row int_methods[] = {
    {"bit_length", int_bit_length},
};
static const clef__method_row float_methods[] = {
    {"is_integer", float_is_integer},
};

clef__builtin *clef__method_named(const clef__method_row *table, size_t n, const clef__str *name,
                                  const char **static_name)
{
    for (size_t i = 0; i < n; i++)
        if (clef__str_is(name, table[i].name)) {
            *static_name = table[i].name;
            return table[i].call;
        }
    return NULL;
}

clef__builtin *clef__find_method(clef__kind kind, const clef__str *name, const char **static_name)
{
#define FIND(table) clef__method_named(table, sizeof table / sizeof *(table), name, static_name)
    switch (kind) {
    case CLEF__STRING:
        return clef__find_string_method(name, static_name);
    case CLEF__LIST:
        return FIND(list_methods);
    case CLEF__TUPLE:
    case CLEF__RANGE:
        return FIND(tuple_methods);
    case CLEF__DICT:
        return FIND(dict_methods);
    case CLEF__LOOP:
        return FIND(loop_methods);
    case CLEF__CYCLER:
        return FIND(cycler_methods);
    case CLEF__INT:
    case CLEF__BOOL:
        return FIND(int_methods);
    case CLEF__FLOAT:
        return FIND(float_methods);
    default:
        return NULL;
    }
}

clef__builtin *clef__find_attribute(clef__value of, const clef__str *name)
{
    const char *unused, **static_name = &unused;
    switch (of.kind) {
    case CLEF__INT:
    case CLEF__BOOL:
        return FIND(int_attributes);
    case CLEF__FLOAT:
        return FIND(float_attributes);
    case CLEF__TUPLE:
        return of.l->name ? FIND(group_attributes) : NULL;
    case CLEF__RANGE:
        return FIND(range_attributes);
    case CLEF__LOOP:
        return FIND(loop_attributes);
    case CLEF__CYCLER:
        return FIND(cycler_attributes);
    case CLEF__MACRO:
        return FIND(macro_attributes);
    default:
        return NULL;
    }
}
#undef FIND

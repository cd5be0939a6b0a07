/* Filters of lists. An attribute may be a path, "a.b.0", as in Jinja. */
#include <string.h>

#include "text/template/filters.h"

/* The part of a value that a path names; `usual` is taken where a part is not there. */
static clef__value by_path(clef__tpl *t, clef__value v, clef__value path, clef__value usual)
{
    if (path.kind != CLEF__STRING)
        return clef__item(t, v, path);
    for (size_t from = 0; from <= path.s->n && !t->status;) {
        const char *dot = memchr(path.s->p + from, '.', path.s->n - from);
        const size_t to = dot ? (size_t)(dot - path.s->p) : path.s->n;
        int64_t number = 0;
        int is_number = to > from && to - from < 10;
        for (size_t i = from; i < to && is_number; i++) {
            is_number = path.s->p[i] >= '0' && path.s->p[i] <= '9';
            number = 10 * number + path.s->p[i] - '0';
        }
        v = clef__item(t, v,
                       is_number ? clef__int(number) : clef__str_value(clef__str_part(t, path.s, from, to)));
        if (v.kind == CLEF__UNDEFINED && usual.kind != CLEF__UNDEFINED && usual.kind != CLEF__NONE)
            v = usual;
        from = to + 1;
    }
    return v;
}

clef__value clef__filter_attr(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("attr", "name");
    if (self.kind == CLEF__UNDEFINED || self.kind == CLEF__NAMESPACE)
        return clef__attribute(t, self, clef__to_str(t, a[0])); /* fails for what is not there */
    return clef__method(t, self, clef__to_str(t, a[0]));
}

clef__value clef__filter_length(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("length", "");
    switch (self.kind) {
    case CLEF__STRING:
        return clef__int((int64_t)clef__n_chars(self.s));
    case CLEF__LIST:
    case CLEF__TUPLE:
    case CLEF__RANGE:
    case CLEF__VIEW:
        return clef__int((int64_t)self.l->n);
    case CLEF__DICT:
        return clef__int((int64_t)self.d->n);
    case CLEF__UNDEFINED:
        return clef__int(0);
    case CLEF__LOOP:
        return clef__int((int64_t)self.loop->items->n);
    default:
        return clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' has no length", clef__kind_name(self));
    }
}

clef__value clef__filter_list(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("list", "");
    const clef__list *items = clef__items(t, self);
    clef__value out = clef__list_new(t, CLEF__LIST, items ? items->n : 0);
    for (size_t i = 0; items && i < items->n && !t->status; i++)
        clef__list_add(t, out.l, items->at[i]);
    return out;
}

clef__value clef__filter_items(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("items", "");
    const char *name;
    const clef__str key = {.p = "items", .n = 5};
    if (self.kind == CLEF__UNDEFINED)
        return clef__list_new(t, CLEF__GENERATOR, 0);
    if (self.kind != CLEF__DICT)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "items: expected a dict, got '%s'", clef__kind_name(self));
    clef__value out = clef__find_method(CLEF__DICT, &key, &name)(t, self, args);
    out.kind = t->status ? out.kind : CLEF__GENERATOR;
    return out;
}

clef__value clef__filter_first(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("first", "");
    const clef__list *items = clef__items(t, self);
    return items && items->n ? items->at[0] : clef__undefined;
}

clef__value clef__filter_last(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("last", "");
    if (self.kind == CLEF__GENERATOR)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "last: a generator has no end; make it a list");
    const clef__list *items = clef__items(t, self);
    return items && items->n ? items->at[items->n - 1] : clef__undefined;
}

clef__value clef__filter_reverse(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("reverse", "");
    const clef__list *items = clef__items(t, self);
    clef__value out = clef__list_new(t, self.kind == CLEF__GENERATOR ? CLEF__LIST : CLEF__GENERATOR, 0);
    clef__out text = {0};
    for (size_t i = items ? items->n : 0; i > 0 && !t->status; i--)
        if (self.kind == CLEF__STRING)
            clef__out_str(t, &text, items->at[i - 1].s);
        else
            clef__list_add(t, out.l, items->at[i - 1]);
    return self.kind == CLEF__STRING ? clef__out_value(t, &text) : out;
}

clef__value clef__filter_join(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("join", "d attribute");
    const clef__list *items = clef__items(t, self);
    const clef__str *by = clef__to_str(t, a[0]);
    clef__out o = {0};
    for (size_t i = 0; items && i < items->n && !t->status; i++) {
        if (i)
            clef__out_str(t, &o, by);
        clef__out_str(t, &o,
                      clef__to_str(t, a[1].kind == CLEF__UNDEFINED || a[1].kind == CLEF__NONE
                                          ? items->at[i]
                                          : by_path(t, items->at[i], a[1], clef__undefined)));
    }
    return clef__out_value(t, &o);
}

/* ---- map, select, reject ---------------------------------------------------------------------- */

/* As these filters do it, what counts as false has no items, whatever it is. */
static clef__list *items_or_none(clef__tpl *t, clef__value v)
{
    return clef__is_true(v) ? clef__items(t, v) : NULL;
}

/* The arguments behind the first `n`. */
static clef__args rest_of(const clef__args *args, int32_t n)
{
    clef__args rest = *args;
    n = n < rest.n ? n : rest.n;
    rest.at += n;
    rest.n -= n;
    return rest;
}

clef__value clef__filter_map(clef__tpl *t, clef__value self, const clef__args *args)
{
    const clef__list *items = items_or_none(t, self);
    clef__value out = clef__list_new(t, CLEF__GENERATOR, items ? items->n : 0), attribute = clef__undefined,
                usual = clef__undefined;
    clef__builtin *filter = NULL;
    if (args->n == 0) {
        clef__value a[CLEF__TPL_MAX_ARGS];
        clef__read_args(t, args, "map", "attribute default", a);
        attribute = a[0];
        usual = a[1];
        if (attribute.kind == CLEF__UNDEFINED)
            clef__tpl_fail(t, CLEF_E_FORMAT, "map: expected a filter or an attribute");
    } else {
        const clef__str *name = clef__to_str(t, args->at[0]);
        filter = clef__find_filter(name);
        if (!filter)
            clef__tpl_fail(t, CLEF_E_FORMAT, "map: no filter '%.*s'", (int)name->n, name->p);
    }
    const clef__args rest = rest_of(args, 1);
    for (size_t i = 0; items && i < items->n && clef__tpl_step(t, 1); i++) {
        clef__list_add(t, out.l,
                       filter ? filter(t, items->at[i], &rest) : by_path(t, items->at[i], attribute, usual));
    }
    return out;
}

static clef__value chosen(clef__tpl *t, clef__value self, const clef__args *args, int has_attribute,
                          int wanted)
{
    const clef__list *items = items_or_none(t, self);
    clef__value out = clef__list_new(t, CLEF__GENERATOR, 0);
    clef__builtin *test = NULL;
    const int32_t at = has_attribute;
    if (args->n < has_attribute)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "selectattr: expected an attribute");
    if (args->n > at) {
        const clef__str *name = clef__to_str(t, args->at[at]);
        test = clef__find_test(name);
        if (!test)
            return clef__tpl_fail(t, CLEF_E_FORMAT, "select: no test '%.*s'", (int)name->n, name->p);
    }
    const clef__args rest = rest_of(args, at + 1);
    for (size_t i = 0; items && i < items->n && clef__tpl_step(t, 1); i++) {
        const clef__value v =
            has_attribute ? by_path(t, items->at[i], args->at[0], clef__undefined) : items->at[i];
        if (clef__is_true(test && !t->status ? test(t, v, &rest) : v) == wanted)
            clef__list_add(t, out.l, items->at[i]);
    }
    return out;
}

clef__value clef__filter_select(clef__tpl *t, clef__value self, const clef__args *args)
{
    return chosen(t, self, args, 0, 1);
}

clef__value clef__filter_reject(clef__tpl *t, clef__value self, const clef__args *args)
{
    return chosen(t, self, args, 0, 0);
}

clef__value clef__filter_selectattr(clef__tpl *t, clef__value self, const clef__args *args)
{
    return chosen(t, self, args, 1, 1);
}

clef__value clef__filter_rejectattr(clef__tpl *t, clef__value self, const clef__args *args)
{
    return chosen(t, self, args, 1, 0);
}

/* ---- order ------------------------------------------------------------------------------------ */

/* What values are compared by: themselves or an attribute, and texts without case unless that matters. */
static clef__value sort_key(clef__tpl *t, clef__value v, clef__value path, clef__value usual, int with_case)
{
    if (path.kind != CLEF__UNDEFINED && path.kind != CLEF__NONE)
        v = by_path(t, v, path, usual);
    return v.kind == CLEF__STRING && !with_case ? clef__str_value(clef__change_case(t, v.s, 'l')) : v;
}

/* A list of keys: a path may be several, "a,b". What lists of equal values are compared by needs no order. */
static clef__value sort_keys(clef__tpl *t, clef__value v, clef__value path, int with_case)
{
    clef__value out = clef__list_new(t, CLEF__LIST, 1);
    if (path.kind != CLEF__STRING) {
        clef__list_add(t, out.l, sort_key(t, v, path, clef__undefined, with_case));
        return out;
    }
    for (size_t from = 0; from <= path.s->n && !t->status;) {
        const char *comma = memchr(path.s->p + from, ',', path.s->n - from);
        const size_t to = comma ? (size_t)(comma - path.s->p) : path.s->n;
        const clef__value part = clef__str_value(clef__str_part(t, path.s, from, to));
        clef__list_add(t, out.l, sort_key(t, v, part, clef__undefined, with_case));
        from = to + 1;
    }
    return out;
}

/* Merges two sorted halves of `order`; equal values keep their order. */
static void merge_sort(clef__tpl *t, const clef__value *keys, size_t *order, size_t *spare, size_t n,
                       int reverse)
{
    const size_t half = n / 2;
    if (n < 2 || t->status)
        return;
    merge_sort(t, keys, order, spare, half, reverse);
    merge_sort(t, keys, order + half, spare, n - half, reverse);
    memcpy(spare, order, n * sizeof *order);
    for (size_t i = 0, j = half, k = 0; k < n && clef__tpl_step(t, 1); k++) {
        int takes_left = i < half;
        if (i < half && j < n) {
            const int c = clef__order(t, keys[spare[i]], keys[spare[j]]);
            takes_left = reverse ? c >= 0 : c <= 0;
        }
        order[k] = takes_left ? spare[i++] : spare[j++];
    }
}

/* The items in the order of their keys. */
static clef__value sorted(clef__tpl *t, const clef__list *items, const clef__value *keys, int reverse)
{
    const size_t n = items ? items->n : 0;
    clef__value out = clef__list_new(t, CLEF__LIST, n);
    size_t *order = clef__tpl_alloc(t, 2 * (n + 1) * sizeof *order);
    for (size_t i = 0; i < n && order; i++)
        order[i] = i;
    if (!t->status)
        merge_sort(t, keys, order, order + n, n, reverse);
    for (size_t i = 0; i < n && !t->status; i++)
        clef__list_add(t, out.l, items->at[order[i]]);
    return out;
}

static clef__value *room_for_keys(clef__tpl *t, const clef__list *items)
{
    return clef__tpl_alloc(t, ((items ? items->n : 0) + 1) * sizeof(clef__value));
}

clef__value clef__filter_sort(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("sort", "reverse case_sensitive attribute");
    const clef__list *items = clef__items(t, self);
    clef__value *keys = room_for_keys(t, items);
    for (size_t i = 0; items && i < items->n && !t->status; i++)
        keys[i] = sort_keys(t, items->at[i], a[2], clef__is_true(a[1]));
    return t->status ? clef__undefined : sorted(t, items, keys, clef__is_true(a[0]));
}

clef__value clef__filter_dictsort(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("dictsort", "case_sensitive by reverse");
    const int by_value = a[1].kind == CLEF__STRING && clef__str_is(a[1].s, "value");
    if (self.kind == CLEF__UNDEFINED)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "dictsort: the value is undefined");
    if (!by_value && a[1].kind != CLEF__UNDEFINED &&
        !(a[1].kind == CLEF__STRING && clef__str_is(a[1].s, "key")))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "dictsort: expected by='key' or by='value'");
    const clef__value items = clef__filter_items(t, self, &(clef__args){0});
    clef__value *keys = t->status ? NULL : room_for_keys(t, items.l);
    for (size_t i = 0; keys && i < items.l->n && !t->status; i++)
        keys[i] = sort_key(t, items.l->at[i], clef__int(by_value), clef__undefined, clef__is_true(a[0]));
    return t->status ? clef__undefined : sorted(t, items.l, keys, clef__is_true(a[2]));
}

static clef__value extreme(clef__tpl *t, clef__value self, const clef__args *args, int sign)
{
    ARGS("max", "case_sensitive attribute");
    const clef__list *items = clef__items(t, self);
    clef__value best = clef__undefined, best_key = clef__undefined;
    for (size_t i = 0; items && i < items->n && clef__tpl_step(t, 1); i++) {
        const clef__value key = sort_key(t, items->at[i], a[1], clef__undefined, clef__is_true(a[0]));
        if (i == 0 || sign * clef__order(t, key, best_key) > 0) {
            best = items->at[i];
            best_key = key;
        }
    }
    return best;
}

clef__value clef__filter_max(clef__tpl *t, clef__value self, const clef__args *args)
{
    return extreme(t, self, args, 1);
}

clef__value clef__filter_min(clef__tpl *t, clef__value self, const clef__args *args)
{
    return extreme(t, self, args, -1);
}

clef__value clef__filter_unique(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("unique", "case_sensitive attribute");
    const clef__list *items = clef__items(t, self);
    clef__value out = clef__list_new(t, CLEF__GENERATOR, 0), seen = clef__dict_new(t, CLEF__DICT);
    for (size_t i = 0; items && i < items->n && !t->status; i++) {
        const clef__value key = sort_key(t, items->at[i], a[1], clef__undefined, clef__is_true(a[0]));
        if (!clef__is_hashable(t, key) || clef__dict_find(seen.d, key))
            continue;
        clef__dict_set(t, seen.d, key, clef__none);
        clef__list_add(t, out.l, items->at[i]);
    }
    return out;
}

/* ---- groups ----------------------------------------------------------------------------------- */

/* A tuple that also has the names `grouper` and `list`. */
static clef__list *new_group(clef__tpl *t, clef__list *groups, clef__value grouper)
{
    const clef__value pair = clef__list_new(t, CLEF__TUPLE, 2), items = clef__list_new(t, CLEF__LIST, 0);
    if (t->status)
        return NULL;
    pair.l->name = "group";
    clef__list_add(t, pair.l, grouper);
    clef__list_add(t, pair.l, items);
    clef__list_add(t, groups, pair);
    return items.l;
}

clef__value clef__filter_groupby(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("groupby", "attribute default case_sensitive");
    const int with_case = clef__is_true(a[2]);
    const clef__list *items = clef__items(t, self);
    clef__value *keys = room_for_keys(t, items), out = clef__list_new(t, CLEF__LIST, 0),
                last = clef__undefined;
    clef__list *group = NULL;
    for (size_t i = 0; items && i < items->n && !t->status; i++)
        keys[i] = sort_key(t, items->at[i], a[0], a[1], with_case);
    const clef__value order = t->status ? clef__undefined : sorted(t, items, keys, 0);
    for (size_t i = 0; !t->status && i < order.l->n; i++) {
        const clef__value own = by_path(t, order.l->at[i], a[0], a[1]),
                          key = sort_key(t, own, clef__undefined, clef__undefined, with_case);
        if (!group || !clef__equal(key, last))
            group = new_group(t, out.l, own);
        last = key;
        if (group)
            clef__list_add(t, group, order.l->at[i]);
    }
    return out;
}

static int fills(clef__value with)
{
    return with.kind != CLEF__UNDEFINED && with.kind != CLEF__NONE;
}

clef__value clef__filter_batch(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("batch", "linecount fill_with");
    const clef__list *items = clef__items(t, self);
    const int64_t size = clef__int_arg(t, a[0], 0, "batch");
    clef__value out = clef__list_new(t, CLEF__GENERATOR, 0), row = clef__undefined;
    if (size < 1)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "batch: expected 1 or more, got %lld", (long long)size);
    for (size_t i = 0; items && i < items->n && !t->status; i++) {
        if (i % (size_t)size == 0) {
            row = clef__list_new(t, CLEF__LIST, 0);
            clef__list_add(t, out.l, row);
        }
        if (!t->status)
            clef__list_add(t, row.l, items->at[i]);
    }
    while (row.kind == CLEF__LIST && fills(a[1]) && (int64_t)row.l->n < size && !t->status)
        clef__list_add(t, row.l, a[1]);
    return out;
}

clef__value clef__filter_slice(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("slice", "slices fill_with");
    const clef__list *items = clef__items(t, self);
    const int64_t n_slices = clef__int_arg(t, a[0], 0, "slice");
    clef__value out = clef__list_new(t, CLEF__GENERATOR, 0);
    if (n_slices < 1 || n_slices > CLEF__TPL_MAX_RANGE)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "slice: expected 1 or more, got %lld", (long long)n_slices);
    const size_t n = items ? items->n : 0, size = n / (size_t)n_slices, extra = n % (size_t)n_slices;
    for (size_t k = 0, at = 0; k < (size_t)n_slices && !t->status; k++) {
        clef__value row = clef__list_new(t, CLEF__LIST, 0);
        const size_t length = size + (k < extra);
        for (size_t i = 0; i < length && !t->status; i++)
            clef__list_add(t, row.l, items->at[at++]);
        if (!t->status && fills(a[1]) && k >= extra)
            clef__list_add(t, row.l, a[1]);
        clef__list_add(t, out.l, row);
    }
    return out;
}

clef__value clef__filter_sum(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("sum", "attribute start");
    const clef__list *items = clef__items(t, self);
    clef__value sum = a[1].kind == CLEF__UNDEFINED ? clef__int(0) : a[1];
    for (size_t i = 0; items && i < items->n && !t->status; i++)
        sum = clef__binary(t, '+', sum,
                           a[0].kind == CLEF__UNDEFINED || a[0].kind == CLEF__NONE
                               ? items->at[i]
                               : by_path(t, items->at[i], a[0], clef__undefined));
    return sum;
}

/* The values of expressions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template/checked.h"
#include "text/template/engine.h"
#include "text/template/format.h"

static clef__value name_value(clef__tpl *t, const clef__node *n)
{
    for (const clef__scope *s = t->scope; s; s = s->parent)
        for (int32_t i = 0; i < s->n; i++)
            if (s->names[i].name->n == n->name->n && memcmp(s->names[i].name->p, n->name->p, n->name->n) == 0)
                return s->names[i].value;
    return (clef__value){.kind = CLEF__UNDEFINED, .s = n->name};
}

/* Names that Python's objects have and the sandbox keeps back: __x__, and methods that change a list or dict.
 * A dict may have such names as keys. */
static int is_unsafe(clef__value of, const clef__str *name)
{
    static const char *const lists[] = {"append", "clear", "pop",    "reverse",
                                        "insert", "sort",  "extend", "remove"},
                             *const dicts[] = {"clear", "pop", "popitem", "setdefault", "update"},
                             *const of_all[] = {"__class__",
                                                "__doc__",
                                                "__init__",
                                                "__new__",
                                                "__len__",
                                                "__iter__",
                                                "__contains__",
                                                "__getitem__",
                                                "__setitem__",
                                                "__delitem__",
                                                "__eq__",
                                                "__ne__",
                                                "__lt__",
                                                "__le__",
                                                "__gt__",
                                                "__ge__",
                                                "__hash__",
                                                "__repr__",
                                                "__str__",
                                                "__format__",
                                                "__dir__",
                                                "__reduce__",
                                                "__reduce_ex__",
                                                "__sizeof__",
                                                "__getattribute__",
                                                "__setattr__",
                                                "__delattr__",
                                                "__subclasshook__",
                                                "__init_subclass__",
                                                "__or__",
                                                "__ror__",
                                                "__ior__",
                                                "__reversed__",
                                                "__class_getitem__"};
    const int is_dict = of.kind == CLEF__DICT;
    const int is_dunder =
        name->n > 4 && memcmp(name->p, "__", 2) == 0 && memcmp(name->p + name->n - 2, "__", 2) == 0;
    for (size_t i = 0; is_dunder && is_dict && i < sizeof of_all / sizeof *of_all; i++)
        if (clef__str_is(name, of_all[i]))
            return 1;
    for (size_t i = 0; (is_dict || of.kind == CLEF__LIST) && i < (is_dict ? 5 : 8); i++)
        if (clef__str_is(name, is_dict ? dicts[i] : lists[i]))
            return 1;
    return is_dunder && !is_dict;
}

/* Fails for a value that is not there, or was kept back. Returns 1 for others. */
static int is_defined(clef__tpl *t, clef__value v)
{
    const clef__value list = {.kind = CLEF__LIST}, dict = {.kind = CLEF__DICT};
    if (v.kind != CLEF__UNDEFINED)
        return 1;
    const int n = v.s ? (int)v.s->n : 5;
    clef__tpl_fail(t, CLEF_E_FORMAT,
                   v.s && (is_unsafe(list, v.s) || is_unsafe(dict, v.s))
                       ? "the attribute '%.*s' is not allowed"
                       : "'%.*s' is undefined",
                   n > 60 ? 60 : n, v.s ? v.s->p : "value");
    return 0;
}

/* ---- attributes and items ---------------------------------------------------------------------- */

static clef__value missing(clef__str *name)
{
    return (clef__value){.kind = CLEF__UNDEFINED, .s = name};
}

static clef__value method(clef__tpl *t, clef__value of, const clef__str *name)
{
    const char *static_name;
    clef__builtin *call = clef__find_method(of.kind, name, &static_name);
    clef__func *fn = call ? clef__tpl_alloc(t, sizeof *fn) : NULL;
    if (!fn)
        return clef__undefined;
    *fn = (clef__func){.name = static_name, .call = call, .self = of};
    return (clef__value){.kind = CLEF__FUNCTION, .fn = fn};
}

clef__value clef__method(clef__tpl *t, clef__value of, clef__str *name)
{
    clef__builtin *get = clef__find_attribute(of, name);
    if (get)
        return get(t, of, &(clef__args){0});
    return is_unsafe(of, name) ? missing(name) : method(t, of, name);
}

clef__value clef__attribute(clef__tpl *t, clef__value of, clef__str *name)
{
    if (!is_defined(t, of))
        return clef__undefined;
    if (of.kind == CLEF__NAMESPACE) {
        const clef__value *found = clef__dict_find(of.d, clef__str_value(name));
        return found ? *found : missing(name);
    }
    const clef__value attribute = clef__method(t, of, name);
    if (attribute.kind != CLEF__UNDEFINED || of.kind == CLEF__LOOP || is_unsafe(of, name))
        return attribute.kind == CLEF__UNDEFINED ? missing(name) : attribute;
    const clef__value *found = of.kind == CLEF__DICT ? clef__dict_find(of.d, clef__str_value(name)) : NULL;
    return found ? *found : missing(name);
}

clef__value clef__item(clef__tpl *t, clef__value of, clef__value key)
{
    if (!is_defined(t, of))
        return clef__undefined;
    if (key.kind == CLEF__STRING && !clef__tpl_step(t, (int64_t)(key.s->n >> 3)))
        return clef__undefined;
    const int is_index = key.kind == CLEF__INT || key.kind == CLEF__BOOL;
    if (of.kind == CLEF__DICT) {
        const clef__value *found = clef__dict_find(of.d, key);
        if (found)
            return *found;
    } else if (is_index && (of.kind == CLEF__LIST || of.kind == CLEF__TUPLE || of.kind == CLEF__RANGE)) {
        const int64_t n = (int64_t)of.l->n, i = key.i < 0 ? key.i + n : key.i;
        return i >= 0 && i < n ? of.l->at[i] : clef__undefined;
    } else if (is_index && of.kind == CLEF__STRING) {
        const int64_t n = (int64_t)clef__n_chars(of.s), i = key.i < 0 ? key.i + n : key.i;
        if (i < 0 || i >= n)
            return clef__undefined;
        clef__tpl_step(t, (int64_t)(of.s->n >> 6));
        const size_t at = clef__char_at(of.s, (size_t)i);
        return clef__str_value(
            clef__str_part(t, of.s, at, at + clef__char_bytes(of.s->p + at, of.s->n - at)));
    }
    if (key.kind != CLEF__STRING)
        return clef__undefined;
    const clef__value attribute =
        of.kind == CLEF__NAMESPACE ? clef__attribute(t, of, key.s) : clef__method(t, of, key.s);
    return attribute.kind == CLEF__UNDEFINED ? missing(key.s) : attribute;
}

/* Where a slice begins or ends, as Python bounds it. */
static int64_t bound(clef__tpl *t, clef__value v, int64_t n, int64_t usual, int64_t step)
{
    if (v.kind == CLEF__UNDEFINED || v.kind == CLEF__NONE)
        return usual;
    int64_t i = clef__int_arg(t, v, 0, "a bound of a slice");
    if (i < 0)
        i = i < -n ? -1 : i + n;
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    return i < least ? least : i > most ? most : i;
}

/* The product, or the nearest number: beyond the ends of a range, steps make no difference. */
static int64_t multiplied(int64_t a, int64_t b)
{
    int64_t out = (a < 0) == (b < 0) ? INT64_MAX : -INT64_MAX;
    clef__multiply_checked(a, b, &out);
    return out;
}

clef__value clef__slice_of(clef__tpl *t, clef__value of, clef__value from, clef__value to,
                           clef__value step_value)
{
    int64_t step = clef__int_arg(t, step_value, 1, "the step of a slice");
    if (!is_defined(t, of))
        return clef__undefined;
    if (of.kind != CLEF__STRING && of.kind != CLEF__LIST && of.kind != CLEF__TUPLE && of.kind != CLEF__RANGE)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' has no slices", clef__kind_name(of));
    if (step == 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "the step of a slice is 0");
    const int64_t n = (int64_t)(of.kind == CLEF__STRING ? clef__n_chars(of.s) : of.l->n), whole_step = step;
    step = step > n ? n + 1 : step < -n ? -n - 1 : step; /* no further than over all */
    const int64_t first = bound(t, from, n, step > 0 ? 0 : n - 1, step),
                  end = bound(t, to, n, step > 0 ? n : -1, step);
    if (of.kind == CLEF__RANGE) {
        const int64_t *range = of.l->range, unit = range[2];
        return clef__range(t, range[0] + first * unit, range[0] + end * unit, multiplied(whole_step, unit));
    }
    if (of.kind == CLEF__STRING && step == 1) {
        const size_t a = clef__char_at(of.s, (size_t)first),
                     b = first < end ? clef__char_at(of.s, (size_t)end) : a;
        clef__tpl_step(t, (int64_t)(of.s->n >> 6));
        return clef__str_value(clef__str_part(t, of.s, a, b));
    }
    clef__value items = of, out = clef__list_new(t, of.kind == CLEF__TUPLE ? CLEF__TUPLE : CLEF__LIST, 0);
    clef__list *all = clef__items(t, items);
    for (int64_t i = first; all && !t->status && (step > 0 ? i < end : i > end); i += step)
        clef__list_add(t, out.l, all->at[i]);
    if (of.kind != CLEF__STRING || t->status)
        return out;
    clef__out text = {0};
    for (size_t i = 0; i < out.l->n; i++)
        clef__out_str(t, &text, out.l->at[i].s);
    const clef__value cut = clef__out_value(t, &text);
    if (!t->status)
        cut.s->is_safe = of.s->is_safe;
    return cut;
}

/* ---- operators -------------------------------------------------------------------------------- */

static clef__value overflow(clef__tpl *t)
{
    return clef__tpl_fail(t, CLEF_E_LIMIT, "an integer beyond 64 bits");
}

static clef__value int_power(clef__tpl *t, int64_t a, int64_t b)
{
    int64_t out = 1;
    if (b < 0)
        return a ? clef__float(pow((double)a, (double)b))
                 : clef__tpl_fail(t, CLEF_E_FORMAT, "0 to a negative power");
    for (; b && !t->status; b >>= 1) {
        if ((b & 1) && clef__multiply_checked(out, a, &out))
            return overflow(t);
        if (b > 1 && clef__multiply_checked(a, a, &a))
            return overflow(t);
    }
    return clef__int(out);
}

static clef__value of_ints(clef__tpl *t, int32_t op, int64_t a, int64_t b)
{
    int64_t out = 0;
    const int divides = op == '%' || op == ('/' | '/' << 8);
    if (divides && (b == 0 || (a == INT64_MIN && b == -1)))
        return b ? overflow(t) : clef__tpl_fail(t, CLEF_E_FORMAT, "division by zero");
    switch (op) {
    case '+':
        return clef__add_checked(a, b, &out) ? overflow(t) : clef__int(out);
    case '-':
        return clef__subtract_checked(a, b, &out) ? overflow(t) : clef__int(out);
    case '*':
        return clef__multiply_checked(a, b, &out) ? overflow(t) : clef__int(out);
    case '%':
        return clef__int(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
    case '/' | '/' << 8:
        return clef__int(a / b - (a % b != 0 && (a < 0) != (b < 0)));
    default:
        return int_power(t, a, b);
    }
}

/* a % b, with the sign of b. */
static double float_rest(double a, double b)
{
    const double rest = fmod(a, b);
    return rest == 0 ? copysign(0, b) : (rest < 0) != (b < 0) ? rest + b : rest;
}

/* a // b, as Python computes it: the division of what is left without the rest. */
static double float_quotient(double a, double b)
{
    const double rest = fmod(a, b);
    double q = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    const double below = floor(q);
    return q - below > 0.5 ? below + 1 : below;
}

static clef__value float_power(clef__tpl *t, double a, double b)
{
    const double out = pow(a, b);
    if (a == 0 && b < 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "0 to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && floor(b) != b)
        return clef__tpl_fail(t, CLEF_E_UNSUPPORTED, "a power that is a complex number");
    if (isinf(out) && isfinite(a) && isfinite(b))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "a power beyond the range of floats");
    return clef__float(out);
}

static clef__value of_floats(clef__tpl *t, int32_t op, double a, double b)
{
    if ((op == '%' || op == '/' || op == ('/' | '/' << 8)) && b == 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "division by zero");
    switch (op) {
    case '+':
        return clef__float(a + b);
    case '-':
        return clef__float(a - b);
    case '*':
        return clef__float(a * b);
    case '/':
        return clef__float(a / b);
    case '%':
        return clef__float(float_rest(a, b));
    case '/' | '/' << 8:
        return clef__float(float_quotient(a, b));
    default:
        return float_power(t, a, b);
    }
}

static clef__value repeated(clef__tpl *t, clef__value v, int64_t n)
{
    if (v.kind == CLEF__STRING) {
        clef__out o = {0};
        for (int64_t i = 0; i < n && v.s->n && clef__tpl_step(t, 1); i++)
            clef__out_str(t, &o, v.s);
        return clef__out_value(t, &o);
    }
    clef__value out = clef__list_new(t, v.kind, 0);
    for (int64_t i = 0; i < n && v.l->n && clef__tpl_step(t, 1); i++)
        for (size_t k = 0; k < v.l->n && !t->status; k++)
            clef__list_add(t, out.l, v.l->at[k]);
    return out;
}

static int is_sequence(clef__value v)
{
    return v.kind == CLEF__STRING || v.kind == CLEF__LIST || v.kind == CLEF__TUPLE;
}

clef__value clef__binary(clef__tpl *t, int32_t op, clef__value a, clef__value b)
{
    if (op == '%' && a.kind == CLEF__STRING)
        return clef__format_percent(t, a.s, b);
    if (!is_defined(t, a) || !is_defined(t, b))
        return clef__undefined;
    if (clef__is_number(a) && clef__is_number(b)) {
        if (a.kind != CLEF__FLOAT && b.kind != CLEF__FLOAT && op != '/')
            return of_ints(t, op, a.i, b.i);
        return of_floats(t, op, clef__number(a), clef__number(b));
    }
    if (op == '+' && a.kind == CLEF__STRING && b.kind == CLEF__STRING) {
        if (!a.s->is_safe && !b.s->is_safe)
            return clef__str_value(clef__str_join(t, a.s, b.s));
        return clef__str_value(
            clef__str_safe(t, clef__str_join(t, clef__str_escape(t, a.s), clef__str_escape(t, b.s))));
    }
    if (op == '+' && a.kind == b.kind && is_sequence(a)) {
        clef__value out = clef__list_new(t, a.kind, a.l->n + b.l->n);
        for (size_t i = 0; i < a.l->n + b.l->n && !t->status; i++)
            clef__list_add(t, out.l, i < a.l->n ? a.l->at[i] : b.l->at[i - a.l->n]);
        return out;
    }
    if (op == '*' && is_sequence(a) && (b.kind == CLEF__INT || b.kind == CLEF__BOOL))
        return repeated(t, a, b.i);
    if (op == '*' && is_sequence(b) && (a.kind == CLEF__INT || a.kind == CLEF__BOOL))
        return repeated(t, b, a.i);
    if (a.kind == CLEF__BIG || b.kind == CLEF__BIG)
        return overflow(t);
    return clef__tpl_fail(t, CLEF_E_FORMAT, "'%c%s' does not go with '%s' and '%s'", op & 0xFF,
                          op >> 8 ? (const char[]){(char)(op >> 8), 0} : "", clef__kind_name(a),
                          clef__kind_name(b));
}

/* Work on a long value counts as many steps. */
static int step_for(clef__tpl *t, clef__value v)
{
    const int is_list = v.kind == CLEF__LIST || v.kind == CLEF__TUPLE || v.kind == CLEF__RANGE ||
                        v.kind == CLEF__VIEW || v.kind == CLEF__GENERATOR;
    return clef__tpl_step(t, v.kind == CLEF__STRING ? (int64_t)(v.s->n >> 3) : is_list ? (int64_t)v.l->n : 0);
}

static int compare(clef__tpl *t, int32_t op, clef__value a, clef__value b)
{
    if (!step_for(t, b))
        return 0;
    switch (op) {
    case '=' | '=' << 8:
        return clef__equal(a, b);
    case '!' | '=' << 8:
        return !clef__equal(a, b);
    case 'i':
        return clef__contains(t, b, a);
    case 'n':
        return !clef__contains(t, b, a);
    default:
        break;
    }
    if (!is_defined(t, a) || !is_defined(t, b))
        return 0;
    const int order = clef__order(t, a, b);
    return op == '<' ? order < 0 : op == '>' ? order > 0 : op == ('<' | '=' << 8) ? order <= 0 : order >= 0;
}

static clef__value compare_all(clef__tpl *t, const clef__node *n)
{
    clef__value left = clef__eval(t, n->a);
    for (int32_t i = 0; i < n->n && !t->status; i++) {
        const clef__value right = clef__eval(t, n->list[i]->a);
        if (t->status || !compare(t, n->list[i]->op, left, right))
            return clef__bool(0);
        left = right;
    }
    return clef__bool(1);
}

/* ---- calls ------------------------------------------------------------------------------------ */

/* The arguments of a call, evaluated: *args and **kwargs are spread. */
typedef struct call_args {
    clef__value values[CLEF__TPL_MAX_ARGS], named[CLEF__TPL_MAX_ARGS];
    clef__str *names[CLEF__TPL_MAX_ARGS];
    clef__args args;
} call_args;

static void too_many(clef__tpl *t)
{
    clef__tpl_fail(t, CLEF_E_LIMIT, "a call has more than %d arguments", CLEF__TPL_MAX_ARGS);
}

static void spread(clef__tpl *t, const clef__node *n, call_args *out)
{
    const clef__value list = n->c ? clef__eval(t, n->c) : clef__undefined,
                      dict = n->d ? clef__eval(t, n->d) : clef__undefined;
    const clef__list *items = n->c ? clef__items(t, list) : NULL;
    for (size_t i = 0; items && i < items->n && !t->status; i++) {
        if (out->args.n == CLEF__TPL_MAX_ARGS)
            too_many(t);
        else
            out->values[out->args.n++] = items->at[i];
    }
    if (n->d && dict.kind != CLEF__DICT)
        clef__tpl_fail(t, CLEF_E_FORMAT, "'**' needs a dict, got '%s'", clef__kind_name(dict));
    for (size_t i = 0; dict.kind == CLEF__DICT && i < dict.d->n && !t->status; i++) {
        if (out->args.n_named == CLEF__TPL_MAX_ARGS || dict.d->keys[i].kind != CLEF__STRING) {
            too_many(t);
            return;
        }
        out->names[out->args.n_named] = dict.d->keys[i].s;
        out->named[out->args.n_named++] = dict.d->values[i];
    }
}

static void eval_args(clef__tpl *t, const clef__node *n, call_args *out)
{
    out->args = (clef__args){.at = out->values, .named = out->named, .names = out->names};
    for (int32_t i = 0; i < n->n && !t->status; i++)
        out->values[out->args.n++] = clef__eval(t, n->list[i]);
    for (int32_t i = 0; i < n->n_named && !t->status; i++) {
        out->names[i] = n->names[i];
        out->named[out->args.n_named++] = clef__eval(t, n->list[n->n + i]);
    }
    if (n->c || n->d)
        spread(t, n, out);
}

clef__value clef__call(clef__tpl *t, clef__value callee, const clef__args *args)
{
    if (t->status || !is_defined(t, callee))
        return clef__undefined;
    if (callee.kind == CLEF__MACRO)
        return clef__call_macro(t, callee, args);
    if (callee.kind == CLEF__FUNCTION)
        return step_for(t, callee.fn->self) ? callee.fn->call(t, callee.fn->self, args) : clef__undefined;
    if (callee.kind == CLEF__JOINER) { /* "" the first time, then what it joins with */
        const int is_first = !callee.l->at[1].i;
        callee.l->at[1].i = 1;
        return is_first ? clef__string(t, "") : callee.l->at[0];
    }
    if (callee.kind == CLEF__LOOP && callee.loop->node)
        return clef__call_loop(t, callee.loop, args);
    return clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' is not a function", clef__kind_name(callee));
}

static clef__value eval_call(clef__tpl *t, const clef__node *n)
{
    call_args args;
    const clef__value callee = clef__eval(t, n->a);
    if (!t->status && !is_defined(t, callee))
        return clef__undefined;
    eval_args(t, n, &args);
    return clef__call(t, callee, &args.args);
}

static clef__value eval_filter(clef__tpl *t, const clef__node *n)
{
    call_args args;
    const clef__value self = n->a ? clef__eval(t, n->a) : t->piped;
    eval_args(t, n, &args);
    return t->status || !step_for(t, self) ? clef__undefined
                                           : clef__find_filter(n->name)(t, self, &args.args);
}

static clef__value eval_test(clef__tpl *t, const clef__node *n)
{
    call_args args;
    const clef__value self = clef__eval(t, n->a);
    eval_args(t, n, &args);
    if (t->status || !step_for(t, self))
        return clef__undefined;
    return clef__bool(clef__is_true(clef__find_test(n->name)(t, self, &args.args)) != n->op);
}

/* ---- all kinds -------------------------------------------------------------------------------- */

static clef__value eval_list(clef__tpl *t, const clef__node *n)
{
    clef__value out = clef__list_new(t, n->kind == CLEF__N_LIST ? CLEF__LIST : CLEF__TUPLE, (size_t)n->n);
    for (int32_t i = 0; i < n->n && !t->status; i++)
        clef__list_add(t, out.l, clef__eval(t, n->list[i]));
    return out;
}

static clef__value eval_dict(clef__tpl *t, const clef__node *n)
{
    clef__value out = clef__dict_new(t, CLEF__DICT);
    for (int32_t i = 0; i + 1 < n->n && !t->status; i += 2) {
        const clef__value key = clef__eval(t, n->list[i]);
        const clef__value value = clef__eval(t, n->list[i + 1]);
        if (clef__is_hashable(t, key))
            clef__dict_set(t, out.d, key, value);
    }
    return out;
}

static clef__value eval_concat(clef__tpl *t, const clef__node *n)
{
    clef__out o = {0};
    for (int32_t i = 0; i < n->n && !t->status; i++)
        clef__out_str(t, &o, clef__to_str(t, clef__eval(t, n->list[i])));
    return clef__out_value(t, &o);
}

/* An integer beyond 64 bits with its other sign. */
static clef__value negative(clef__tpl *t, clef__str *digits)
{
    if (digits->n && digits->p[0] == '-')
        return (clef__value){.kind = CLEF__BIG, .s = clef__str_part(t, digits, 1, digits->n)};
    clef__str *text = clef__str_join(t, clef__str_of(t, "-", 1, 0), digits);
    return clef__str_is(text, "-9223372036854775808") ? clef__int(INT64_MIN)
                                                      : (clef__value){.kind = CLEF__BIG, .s = text};
}

static clef__value eval_sign(clef__tpl *t, const clef__node *n)
{
    const clef__value v = clef__eval(t, n->a);
    if (t->status || !is_defined(t, v))
        return clef__undefined;
    if (v.kind == CLEF__BIG)
        return n->kind == CLEF__N_NEG ? negative(t, v.s) : v;
    if (!clef__is_number(v))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "a sign needs a number, got '%s'", clef__kind_name(v));
    if (v.kind == CLEF__FLOAT)
        return clef__float(n->kind == CLEF__N_NEG ? -v.f : v.f);
    return n->kind == CLEF__N_NEG ? of_ints(t, '-', 0, v.i) : clef__int(v.i);
}

static clef__value eval_part(clef__tpl *t, const clef__node *n)
{
    const clef__value of = clef__eval(t, n->a), undefined = clef__undefined;
    if (n->kind == CLEF__N_ATTR)
        return t->status ? undefined : clef__attribute(t, of, n->name);
    const clef__value from = n->b ? clef__eval(t, n->b) : undefined;
    if (n->kind == CLEF__N_ITEM)
        return t->status ? undefined : clef__item(t, of, from);
    const clef__value to = n->c ? clef__eval(t, n->c) : undefined,
                      step = n->d ? clef__eval(t, n->d) : undefined;
    return t->status ? undefined : clef__slice_of(t, of, from, to, step);
}

static clef__value eval_choice(clef__tpl *t, const clef__node *n)
{
    if (n->kind == CLEF__N_NOT)
        return clef__bool(!clef__is_true(clef__eval(t, n->a)));
    if (n->kind == CLEF__N_IF_ELSE)
        return clef__is_true(clef__eval(t, n->b)) ? clef__eval(t, n->a)
               : n->c                             ? clef__eval(t, n->c)
                                                  : clef__undefined;
    const clef__value a = clef__eval(t, n->a);
    return clef__is_true(a) == (n->kind == CLEF__N_AND) && !t->status ? clef__eval(t, n->b) : a;
}

static clef__value eval_binary(clef__tpl *t, const clef__node *n)
{
    const clef__value a = clef__eval(t, n->a), b = clef__eval(t, n->b);
    return t->status ? clef__undefined : clef__binary(t, n->op, a, b);
}

clef__value clef__eval(clef__tpl *t, const clef__node *n)
{
    clef__value v = clef__undefined;
    t->line = n->line;
    if (!clef__tpl_step(t, 1))
        return v;
    if (++t->depth > CLEF__TPL_MAX_DEPTH)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "expressions nest deeper than %d", CLEF__TPL_MAX_DEPTH);
    switch (n->kind) {
    case CLEF__N_CONST:
        v = n->value;
        break;
    case CLEF__N_NAME:
        v = name_value(t, n);
        break;
    case CLEF__N_LIST:
    case CLEF__N_TUPLE:
        v = eval_list(t, n);
        break;
    case CLEF__N_DICT:
        v = eval_dict(t, n);
        break;
    case CLEF__N_ATTR:
    case CLEF__N_ITEM:
    case CLEF__N_SLICE:
        v = eval_part(t, n);
        break;
    case CLEF__N_CALL:
        v = eval_call(t, n);
        break;
    case CLEF__N_FILTER:
        v = eval_filter(t, n);
        break;
    case CLEF__N_TEST:
        v = eval_test(t, n);
        break;
    case CLEF__N_NOT:
    case CLEF__N_AND:
    case CLEF__N_OR:
    case CLEF__N_IF_ELSE:
        v = eval_choice(t, n);
        break;
    case CLEF__N_NEG:
    case CLEF__N_POS:
        v = eval_sign(t, n);
        break;
    case CLEF__N_BINARY:
        v = eval_binary(t, n);
        break;
    case CLEF__N_COMPARE:
        v = compare_all(t, n);
        break;
    case CLEF__N_CONCAT:
        v = eval_concat(t, n);
        break;
    default:
        break;
    }
    t->depth--;
    t->line = n->line;
    return v;
}

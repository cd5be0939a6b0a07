/* Tests: what is behind `is`. */
#include <string.h>

#include "text/template/engine.h"

/* The only argument of a test. */
static clef__value one_arg(clef__tpl *t, const clef__args *args, const char *test)
{
    if (args->n != 1 || args->n_named)
        clef__tpl_fail(t, CLEF_E_FORMAT, "the test '%s' wants one argument, got %d", test,
                       (int)(args->n + args->n_named));
    return args->n ? args->at[0] : clef__undefined;
}

#define TEST(name) static clef__value name(clef__tpl *t, clef__value v, const clef__args *args)
#define SIMPLE(name, expression)                                                                             \
    TEST(name)                                                                                               \
    {                                                                                                        \
        (void)t, (void)args;                                                                                 \
        return clef__bool(expression);                                                                       \
    }

SIMPLE(is_defined, v.kind != CLEF__UNDEFINED)
SIMPLE(is_undefined, v.kind == CLEF__UNDEFINED)
SIMPLE(is_none, v.kind == CLEF__NONE)
SIMPLE(is_boolean, v.kind == CLEF__BOOL)
SIMPLE(is_true, v.kind == CLEF__BOOL && v.i)
SIMPLE(is_false, v.kind == CLEF__BOOL && !v.i)
SIMPLE(is_integer, v.kind == CLEF__INT || v.kind == CLEF__BIG)
SIMPLE(is_float, v.kind == CLEF__FLOAT)
SIMPLE(is_number, clef__is_number(v) || v.kind == CLEF__BIG)
SIMPLE(is_string, v.kind == CLEF__STRING)
SIMPLE(is_mapping, v.kind == CLEF__DICT)
SIMPLE(is_callable, v.kind == CLEF__MACRO || v.kind == CLEF__FUNCTION || v.kind == CLEF__JOINER ||
                        v.kind == CLEF__LOOP || v.kind == CLEF__UNDEFINED)
SIMPLE(is_escaped, v.kind == CLEF__STRING && v.s->is_safe)

static int has_items(clef__value v)
{
    return v.kind == CLEF__STRING || v.kind == CLEF__LIST || v.kind == CLEF__TUPLE || v.kind == CLEF__DICT ||
           v.kind == CLEF__RANGE || v.kind == CLEF__UNDEFINED;
}

SIMPLE(is_iterable, has_items(v) || v.kind == CLEF__LOOP || v.kind == CLEF__VIEW || v.kind == CLEF__GENERATOR)
SIMPLE(is_sequence, has_items(v))

TEST(is_lower)
{
    const char *name;
    const clef__str key = {.p = "islower", .n = 7};
    return clef__find_method(CLEF__STRING, &key, &name)(t, clef__str_value(clef__to_str(t, v)), args);
}

TEST(is_upper)
{
    const char *name;
    const clef__str key = {.p = "isupper", .n = 7};
    return clef__find_method(CLEF__STRING, &key, &name)(t, clef__str_value(clef__to_str(t, v)), args);
}

TEST(is_odd)
{
    (void)args;
    return clef__bool(clef__equal(clef__binary(t, '%', v, clef__int(2)), clef__int(1)));
}

TEST(is_even)
{
    (void)args;
    return clef__bool(clef__equal(clef__binary(t, '%', v, clef__int(2)), clef__int(0)));
}

TEST(is_divisible)
{
    return clef__bool(clef__equal(clef__binary(t, '%', v, one_arg(t, args, "divisibleby")), clef__int(0)));
}

TEST(is_equal)
{
    return clef__bool(clef__equal(v, one_arg(t, args, "equalto")));
}

TEST(is_unequal)
{
    return clef__bool(!clef__equal(v, one_arg(t, args, "ne")));
}

TEST(is_same)
{
    const clef__value other = one_arg(t, args, "sameas");
    const int is_simple = v.kind <= CLEF__BOOL || v.kind == CLEF__INT;
    return clef__bool(v.kind == other.kind && (is_simple ? clef__equal(v, other) : v.d == other.d));
}

TEST(is_in)
{
    return clef__bool(clef__contains(t, one_arg(t, args, "in"), v));
}

/* How a value compares with the argument; fails where they have no order. */
static int order(clef__tpl *t, clef__value v, const clef__args *args)
{
    const clef__value other = one_arg(t, args, "gt");
    return t->status ? 0 : clef__order(t, v, other);
}

SIMPLE(is_greater, order(t, v, args) > 0)
SIMPLE(is_less, order(t, v, args) < 0)
SIMPLE(is_greater_equal, order(t, v, args) >= 0)
SIMPLE(is_less_equal, order(t, v, args) <= 0)

TEST(is_filter)
{
    (void)args;
    return clef__bool(clef__is_hashable(t, v) && v.kind == CLEF__STRING &&
                      (clef__find_filter(v.s) || clef__is_refused_filter(v.s)));
}

TEST(is_test)
{
    (void)args;
    return clef__bool(clef__is_hashable(t, v) && v.kind == CLEF__STRING && clef__find_test(v.s));
}

static const struct {
    const char *name;
    clef__builtin *call;
} tests[] = {
    {"!=", is_unequal},
    {"<", is_less},
    {"<=", is_less_equal},
    {"==", is_equal},
    {">", is_greater},
    {">=", is_greater_equal},
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_float},
    {"ge", is_greater_equal},
    {"greaterthan", is_greater},
    {"gt", is_greater},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable},
    {"le", is_less_equal},
    {"lessthan", is_less},
    {"lower", is_lower},
    {"lt", is_less},
    {"mapping", is_mapping},
    {"ne", is_unequal},
    {"none", is_none},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_string},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_undefined},
    {"upper", is_upper},
};

clef__builtin *clef__find_test(const clef__str *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (clef__str_is(name, tests[i].name))
            return tests[i].call;
    return NULL;
}

/* Statements: text, loops, conditions, names, macros. */
#include <string.h>

#include "text/template/engine.h"

/* ---- names ------------------------------------------------------------------------------------ */

clef__scope *clef__scope_new(clef__tpl *t, clef__scope *parent)
{
    clef__scope *s = clef__tpl_alloc(t, sizeof *s);
    if (s)
        s->parent = parent;
    return s ? s : parent;
}

void clef__scope_set(clef__tpl *t, clef__scope *s, clef__str *name, clef__value value)
{
    if (t->status)
        return;
    for (int32_t i = 0; i < s->n; i++)
        if (s->names[i].name->n == name->n && memcmp(s->names[i].name->p, name->p, name->n) == 0) {
            s->names[i].value = value;
            return;
        }
    if (s->n == s->cap) {
        const int32_t cap = 2 * s->cap + 4;
        clef__name *names = clef__tpl_alloc(t, (size_t)cap * sizeof *names);
        if (!names)
            return;
        if (s->n)
            memcpy(names, s->names, (size_t)s->n * sizeof *names);
        s->names = names;
        s->cap = cap;
    }
    s->names[s->n++] = (clef__name){.name = name, .value = value};
}

/* Binds a name, or a tuple of names, in the current scope. */
static void assign(clef__tpl *t, const clef__node *target, clef__value value)
{
    if (t->status)
        return;
    if (target->kind == CLEF__N_NAME) {
        clef__scope_set(t, t->scope, target->name, value);
    } else if (target->kind == CLEF__N_ATTR) {
        const clef__value of = clef__eval(t, target->a);
        if (of.kind == CLEF__NAMESPACE)
            clef__dict_set(t, of.d, clef__str_value(target->name), value);
        else
            clef__tpl_fail(t, CLEF_E_FORMAT, "only attributes of a namespace can be set, not of '%s'",
                           clef__kind_name(of));
    } else {
        const clef__list *items = clef__items(t, value);
        if (items && (int64_t)items->n != target->n)
            clef__tpl_fail(t, CLEF_E_FORMAT, "%d names for %zu values", (int)target->n, items->n);
        for (int32_t i = 0; items && i < target->n && !t->status; i++)
            assign(t, target->list[i], items->at[i]);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------------------
 */

/* What a block prints, as a value. */
static clef__value rendered(clef__tpl *t, const clef__node *body)
{
    clef__out text = {0}, *const out = t->out;
    clef__scope *const scope = t->scope;
    t->scope = clef__scope_new(t, scope);
    t->out = &text;
    clef__exec(t, body);
    t->out = out;
    t->scope = scope;
    return clef__out_value(t, &text);
}

static void print(clef__tpl *t, clef__value v)
{
    if (!t->status)
        clef__out_str(t, t->out, clef__to_str(t, v));
}

/* What a block gives: Jinja joins it to the text as it is, and fails unless it is one. */
static void print_block(clef__tpl *t, clef__value v, const char *block)
{
    if (!t->status && v.kind != CLEF__STRING)
        clef__tpl_fail(t, CLEF_E_FORMAT, "a %s block gives %s, expected str", block, clef__kind_name(v));
    print(t, v);
}

/* The items of a loop that its condition lets through. */
static clef__list *loop_items(clef__tpl *t, const clef__node *n, clef__value over)
{
    clef__list *all = t->status ? NULL : clef__items(t, over);
    if (!all || !n->c)
        return all;
    clef__scope *const scope = t->scope;
    clef__value some = clef__list_new(t, CLEF__LIST, 0);
    t->scope = clef__scope_new(t, scope);
    for (size_t i = 0; i < all->n && !t->status; i++) {
        assign(t, n->a, all->at[i]);
        if (clef__is_true(clef__eval(t, n->c)))
            clef__list_add(t, some.l, all->at[i]);
    }
    t->scope = scope;
    return t->status ? NULL : some.l;
}

/* The turns of a loop. `else` is for a loop in which no turn reached its end. */
static void run_loop(clef__tpl *t, const clef__node *n, clef__list *items, clef__scope *outside,
                     int32_t depth)
{
    clef__scope *const scope = t->scope;
    clef__loop *loop = clef__tpl_alloc(t, sizeof *loop);
    clef__str *name = clef__str_of(t, "loop", 4, 0);
    int some_ended = 0;
    if (!items || !loop || t->status)
        return;
    *loop = (clef__loop){.items = items, .node = n->op ? n : NULL, .scope = outside, .depth = depth};
    t->scope = clef__scope_new(t, outside);
    for (; loop->at < items->n && !t->status; loop->at++) {
        t->scope->n = 0; /* what a turn sets is gone after it */
        clef__scope_set(t, t->scope, name, (clef__value){.kind = CLEF__LOOP, .loop = loop});
        assign(t, n->a, items->at[loop->at]);
        clef__exec(t, n->d);
        const int leaves = t->leaves;
        t->leaves = 0;
        some_ended |= !leaves;
        if (leaves == 1)
            break;
    }
    if (!some_ended && n->n && !t->status) {
        t->scope = clef__scope_new(t, outside);
        clef__exec(t, n->list[0]);
    }
    t->scope = scope;
}

static void exec_for(clef__tpl *t, const clef__node *n)
{
    const clef__value over = clef__eval(t, n->b);
    run_loop(t, n, loop_items(t, n, over), t->scope, 0);
}

clef__value clef__call_loop(clef__tpl *t, clef__loop *loop, const clef__args *args)
{
    clef__out text = {0}, *const out = t->out;
    clef__scope *const scope = t->scope;
    if (args->n != 1 || args->n_named)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "loop(): expected one argument, got %d",
                              (int)(args->n + args->n_named));
    if (++t->n_calls > CLEF__TPL_MAX_CALLS)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "loops call each other deeper than %d", CLEF__TPL_MAX_CALLS);
    t->out = &text;
    t->scope = loop->scope;
    run_loop(t, loop->node, loop_items(t, loop->node, args->at[0]), loop->scope, loop->depth + 1);
    t->scope = scope;
    t->out = out;
    t->n_calls--;
    return clef__out_value(t, &text);
}

static void exec_if(clef__tpl *t, const clef__node *n)
{
    for (int32_t i = 0; i + 1 < n->n && !t->status; i += 2)
        if (clef__is_true(clef__eval(t, n->list[i]))) {
            if (!t->status)
                clef__exec(t, n->list[i + 1]);
            return;
        }
    if (!t->status)
        clef__exec(t, n->a);
}

static void exec_with(clef__tpl *t, const clef__node *n)
{
    clef__scope *const scope = t->scope, *const inner = clef__scope_new(t, scope);
    for (int32_t i = 0; i + 1 < n->n && !t->status; i += 2) {
        const clef__value v = clef__eval(t, n->list[i + 1]); /* in the scope outside */
        t->scope = inner;
        assign(t, n->list[i], v);
        t->scope = scope;
    }
    t->scope = inner;
    clef__exec(t, n->d);
    t->scope = scope;
}

/* ---- macros ----------------------------------------------------------------------------------- */

static clef__value macro_value(clef__tpl *t, const clef__node *n)
{
    clef__macro *m = clef__tpl_alloc(t, sizeof *m);
    if (!m)
        return clef__undefined;
    *m = (clef__macro){.node = n, .scope = t->scope};
    return (clef__value){.kind = CLEF__MACRO, .m = m};
}

/* Binds what was given by name to parameters, and the rest to kwargs and caller. A parameter that was given
 * has no default, even if the value is undefined. */
static void bind_named(clef__tpl *t, const clef__node *n, const clef__args *args, clef__value given[],
                       int has_default[], clef__dict *rest)
{
    for (int32_t k = 0; k < args->n_named && !t->status; k++) {
        const clef__str *name = args->names[k];
        int32_t i = 0;
        while (i < n->n_named && (n->names[i]->n != name->n || memcmp(n->names[i]->p, name->p, name->n) != 0))
            i++;
        if (i < n->n_named && i < args->n)
            clef__tpl_fail(t, CLEF_E_FORMAT, "the macro '%.*s' got '%.*s' twice", (int)n->name->n, n->name->p,
                           (int)name->n, name->p);
        else if (i < n->n_named)
            given[i] = args->named[k], has_default[i] = 0;
        else if (clef__str_is(name, "caller") && (n->op & CLEF__USES_CALLER))
            clef__scope_set(t, t->scope, args->names[k], args->named[k]);
        else if (n->op & CLEF__USES_KWARGS)
            clef__dict_set(t, rest, clef__str_value(args->names[k]), args->named[k]);
        else
            clef__tpl_fail(t, CLEF_E_FORMAT, "the macro '%.*s' has no parameter '%.*s'", (int)n->name->n,
                           n->name->p, (int)name->n, name->p);
    }
}

static void bind_parameters(clef__tpl *t, const clef__node *n, const clef__args *args)
{
    int has_default[CLEF__TPL_MAX_ARGS];
    clef__value given[CLEF__TPL_MAX_ARGS], rest = clef__dict_new(t, CLEF__DICT),
                                           varargs = clef__list_new(t, CLEF__TUPLE, 0);
    if (t->status)
        return;
    if (n->op & CLEF__USES_CALLER)
        clef__scope_set(t, t->scope, clef__str_of(t, "caller", 6, 0), clef__undefined);
    for (int32_t i = 0; i < CLEF__TPL_MAX_ARGS; i++) {
        given[i] = i < args->n && i < n->n_named ? args->at[i] : (clef__value){.kind = CLEF__UNDEFINED};
        has_default[i] = i >= args->n && i < n->n_named && n->list[i];
    }
    for (int32_t i = n->n_named; i < args->n; i++)
        clef__list_add(t, varargs.l, args->at[i]);
    if (args->n > n->n_named && !(n->op & CLEF__USES_VARARGS))
        clef__tpl_fail(t, CLEF_E_FORMAT, "the macro '%.*s' takes %d arguments, got %d", (int)n->name->n,
                       n->name->p, (int)n->n_named, (int)args->n);
    bind_named(t, n, args, given, has_default, rest.d);
    for (int32_t i = 0; i < n->n_named && !t->status; i++) {
        if (has_default[i])
            given[i] = clef__eval(t, n->list[i]);
        clef__scope_set(t, t->scope, n->names[i], given[i]);
    }
    if (n->op & CLEF__USES_VARARGS)
        clef__scope_set(t, t->scope, clef__str_of(t, "varargs", 7, 0), varargs);
    if (n->op & CLEF__USES_KWARGS)
        clef__scope_set(t, t->scope, clef__str_of(t, "kwargs", 6, 0), rest);
}

clef__value clef__call_macro(clef__tpl *t, clef__value macro, const clef__args *args)
{
    const clef__node *n = macro.m->node;
    clef__out text = {0}, *const out = t->out;
    clef__scope *const scope = t->scope;
    if (++t->n_calls > CLEF__TPL_MAX_CALLS)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "macros call each other deeper than %d", CLEF__TPL_MAX_CALLS);
    t->scope = clef__scope_new(t, macro.m->scope);
    bind_parameters(t, n, args);
    t->out = &text;
    if (!t->status)
        clef__exec(t, n->d);
    t->out = out;
    t->scope = scope;
    t->n_calls--;
    return clef__out_value(t, &text);
}

/* {% call f(x) %}..{% endcall %}: the call gets the block as its argument `caller`. */
static void exec_call_block(clef__tpl *t, const clef__node *n)
{
    clef__node call = *n->a, block = {.kind = CLEF__N_CONST, .line = n->line, .value = macro_value(t, n->b)};
    clef__node *list[2 * CLEF__TPL_MAX_ARGS];
    clef__str *names[CLEF__TPL_MAX_ARGS];
    if (t->status)
        return;
    if (call.n + call.n_named >= CLEF__TPL_MAX_ARGS) {
        clef__tpl_fail(t, CLEF_E_LIMIT, "a call has more than %d arguments", CLEF__TPL_MAX_ARGS);
        return;
    }
    for (int32_t i = 0; i < call.n + call.n_named; i++)
        list[i] = call.list[i];
    for (int32_t i = 0; i < call.n_named; i++)
        names[i] = call.names[i];
    list[call.n + call.n_named] = &block;
    names[call.n_named++] = n->b->name;
    call.list = list;
    call.names = names;
    print_block(t, clef__eval(t, &call), "call");
}

/* ---- all kinds -------------------------------------------------------------------------------- */

/* Through the filters of a block; `filters` may be NULL. */
static clef__value filtered(clef__tpl *t, const clef__node *filters, clef__value v)
{
    const clef__value before = t->piped;
    t->piped = v;
    if (filters && !t->status)
        v = clef__eval(t, filters);
    t->piped = before;
    return v;
}

static void exec_one(clef__tpl *t, const clef__node *n)
{
    switch (n->kind) {
    case CLEF__N_TEXT:
        clef__out_str(t, t->out, n->value.s);
        break;
    case CLEF__N_OUTPUT:
        print(t, clef__eval(t, n->a));
        break;
    case CLEF__N_FOR:
        exec_for(t, n);
        break;
    case CLEF__N_IF:
        exec_if(t, n);
        break;
    case CLEF__N_SET:
        assign(t, n->a, clef__eval(t, n->b));
        break;
    case CLEF__N_SET_BLOCK:
        assign(t, n->a, filtered(t, n->b, rendered(t, n->d)));
        break;
    case CLEF__N_MACRO:
        clef__scope_set(t, t->scope, n->name, macro_value(t, n));
        break;
    case CLEF__N_CALL_BLOCK:
        exec_call_block(t, n);
        break;
    case CLEF__N_FILTER_BLOCK:
        print_block(t, filtered(t, n->a, rendered(t, n->d)), "filter");
        break;
    case CLEF__N_BODY:
        print(t, rendered(t, n->d));
        break;
    case CLEF__N_WITH:
        exec_with(t, n);
        break;
    case CLEF__N_BREAK:
        t->leaves = 1;
        break;
    case CLEF__N_CONTINUE:
        t->leaves = 2;
        break;
    default:
        break;
    }
}

void clef__exec(clef__tpl *t, const clef__node *first)
{
    if (++t->depth > CLEF__TPL_MAX_DEPTH)
        clef__tpl_fail(t, CLEF_E_LIMIT, "blocks nest deeper than %d", CLEF__TPL_MAX_DEPTH);
    for (const clef__node *n = first; n && !t->leaves && clef__tpl_step(t, 1); n = n->next) {
        t->line = n->line;
        exec_one(t, n);
    }
    t->depth--;
}

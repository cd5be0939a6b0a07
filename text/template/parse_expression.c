/* Expressions, by descent as Jinja's own parser: from `x if y else z` down to names and constants. */
#include <stdio.h>
#include <string.h>

#include "text/template/engine.h"

enum { MAX_NESTING = 200 };

static clef__node *parse_or(clef__parser *p);

clef__node *clef__new_node(clef__parser *p, clef__node_kind kind)
{
    clef__node *n = clef__tpl_alloc(p->t, sizeof *n);
    if (!n)
        n = &p->spare;
    n->kind = kind;
    n->line = p->at->line;
    return n;
}

void clef__node_add(clef__parser *p, clef__node *list, clef__node *child)
{
    const int32_t n = list->n + list->n_named;
    if (p->t->status)
        return;
    if ((n & (n - 1)) == 0) { /* room for the next power of two */
        clef__node **grown = clef__tpl_alloc(p->t, (size_t)(n ? 2 * n : 1) * sizeof *grown);
        if (!grown)
            return;
        if (n)
            memcpy(grown, list->list, (size_t)n * sizeof *grown);
        list->list = grown;
    }
    list->list[n] = child;
    list->n++;
}

static const char *token_text(const clef__token *token, char out[64])
{
    static const char *const kinds[] = {"the end of the template", "text", "'{{'", "'}}'", "'{%'", "'%}'"};
    if (token->kind < CLEF__T_NAME)
        return kinds[token->kind];
    if (token->kind == CLEF__T_NAME || token->kind == CLEF__T_STRING)
        snprintf(out, 64, token->kind == CLEF__T_NAME ? "'%.*s'" : "the string '%.*s'",
                 token->value.s->n > 40 ? 40 : (int)token->value.s->n, token->value.s->p);
    else if (token->kind == CLEF__T_OP)
        snprintf(out, 64, "'%c%c", token->op & 0xFF, token->op >> 8 ? token->op >> 8 : '\'');
    else
        snprintf(out, 64, "a number");
    if (token->kind == CLEF__T_OP && token->op >> 8)
        strcat(out, "'");
    return out;
}

void clef__parse_fail(clef__parser *p, const char *wanted)
{
    char text[64];
    p->t->line = p->at->line;
    clef__tpl_fail(p->t, CLEF_E_FORMAT, "expected %s, got %s", wanted, token_text(p->at, text));
}

int clef__at_op(const clef__parser *p, const char *op)
{
    return p->at->kind == CLEF__T_OP && p->at->op == (op[0] | op[1] << 8);
}

int clef__take_op(clef__parser *p, const char *op)
{
    const int is = clef__at_op(p, op);
    p->at += is;
    return is;
}

int clef__at_word(const clef__parser *p, const char *word)
{
    return p->at->kind == CLEF__T_NAME && clef__str_is(p->at->value.s, word);
}

int clef__take_word(clef__parser *p, const char *word)
{
    const int is = clef__at_word(p, word);
    p->at += is;
    return is;
}

void clef__want_op(clef__parser *p, const char *op)
{
    char text[8];
    if (clef__take_op(p, op))
        return;
    snprintf(text, sizeof text, "'%s'", op);
    clef__parse_fail(p, text);
}

clef__str *clef__want_name(clef__parser *p)
{
    static clef__str none = {.p = "", .n = 0};
    if (p->at->kind == CLEF__T_NAME)
        return (p->at++)->value.s;
    clef__parse_fail(p, "a name");
    return &none;
}

/* ---- what stands alone ------------------------------------------------------------------------ */

static clef__node *constant(clef__parser *p, clef__value value)
{
    clef__node *n = clef__new_node(p, CLEF__N_CONST);
    n->value = value;
    return n;
}

static clef__node *parse_list(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_LIST);
    while (!p->t->status && !clef__at_op(p, "]")) {
        clef__node_add(p, n, clef__parse_expression(p));
        if (!clef__take_op(p, ","))
            break;
    }
    clef__want_op(p, "]");
    return n;
}

static clef__node *parse_dict(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_DICT);
    while (!p->t->status && !clef__at_op(p, "}")) {
        clef__node_add(p, n, clef__parse_expression(p));
        clef__want_op(p, ":");
        clef__node_add(p, n, clef__parse_expression(p));
        if (!clef__take_op(p, ","))
            break;
    }
    clef__want_op(p, "}");
    return n;
}

static clef__node *parse_name(clef__parser *p)
{
    static const struct {
        const char *name;
        clef__value value;
    } constants[] = {{"true", {.kind = CLEF__BOOL, .i = 1}}, {"True", {.kind = CLEF__BOOL, .i = 1}},
                     {"false", {.kind = CLEF__BOOL}},        {"False", {.kind = CLEF__BOOL}},
                     {"none", {.kind = CLEF__NONE}},         {"None", {.kind = CLEF__NONE}}};
    clef__str *name = (p->at++)->value.s;
    p->uses |=
        clef__str_is(name, "varargs") | clef__str_is(name, "kwargs") << 1 | clef__str_is(name, "caller") << 2;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (clef__str_is(name, constants[i].name))
            return constant(p, constants[i].value);
    clef__node *n = clef__new_node(p, CLEF__N_NAME);
    n->name = name;
    return n;
}

clef__node *clef__parse_primary(clef__parser *p)
{
    const clef__token *token = p->at;
    clef__node *n;
    switch (token->kind) {
    case CLEF__T_NAME:
        return parse_name(p);
    case CLEF__T_INT:
    case CLEF__T_FLOAT:
        p->at++;
        return constant(p, token->value);
    case CLEF__T_STRING:
        n = constant(p, token->value);
        while ((++p->at)->kind == CLEF__T_STRING) /* strings beside each other are one */
            n->value.s = clef__str_join(p->t, n->value.s, p->at->value.s);
        return n;
    default:
        break;
    }
    if (clef__take_op(p, "("))
        n = clef__parse_tuple(p, CLEF__PART_ANY, 1), clef__want_op(p, ")");
    else if (clef__take_op(p, "["))
        n = parse_list(p);
    else if (clef__take_op(p, "{"))
        n = parse_dict(p);
    else {
        clef__parse_fail(p, "an expression");
        n = clef__new_node(p, CLEF__N_CONST);
    }
    return n;
}

/* One expression, or several with commas, which make a tuple. */
clef__node *clef__parse_tuple(clef__parser *p, clef__tuple_parts parts, int may_be_empty)
{
    clef__node *tuple = NULL, *first = NULL;
    const clef__token *begin = p->at;
    while (!p->t->status) {
        const int ends = clef__at_op(p, ")") || p->at->kind == CLEF__T_BLOCK_END ||
                         p->at->kind == CLEF__T_OUTPUT_END ||
                         (parts == CLEF__PART_NAME && clef__at_word(p, "in"));
        if (ends && (tuple || (may_be_empty && p->at == begin)))
            break;
        clef__node *item = parts == CLEF__PART_ANY     ? clef__parse_expression(p)
                           : parts == CLEF__PART_PLAIN ? parse_or(p)
                                                       : clef__parse_primary(p);
        if (tuple)
            clef__node_add(p, tuple, item);
        else
            first = item;
        if (!clef__at_op(p, ","))
            break;
        p->at++;
        if (!tuple) {
            tuple = clef__new_node(p, CLEF__N_TUPLE);
            clef__node_add(p, tuple, first);
        }
    }
    return tuple ? tuple : first ? first : clef__new_node(p, CLEF__N_TUPLE);
}

/* ---- what follows an expression: attributes, items, calls, filters, tests
 * ---------------------------------
 */

static clef__node *parse_call_args(clef__parser *p, clef__node *call)
{
    while (!p->t->status && !clef__at_op(p, ")")) {
        if (clef__take_op(p, "**")) {
            call->d = clef__parse_expression(p);
        } else if (clef__take_op(p, "*")) {
            call->c = clef__parse_expression(p);
        } else if (p->at->kind == CLEF__T_NAME && p->at[1].kind == CLEF__T_OP && p->at[1].op == '=') {
            clef__str *name = p->at->value.s;
            clef__str **names = clef__tpl_alloc(p->t, (size_t)(call->n_named + 1) * sizeof *names);
            p->at += 2;
            clef__node_add(p, call, clef__parse_expression(p)); /* counted as a named one */
            if (!names || p->t->status)
                break;
            if (call->n_named)
                memcpy(names, call->names, (size_t)call->n_named * sizeof *names);
            call->names = names;
            names[call->n_named++] = name;
            call->n--;
        } else if (call->n_named) {
            clef__parse_fail(p, "NAME=VALUE, as in the argument before");
        } else {
            clef__node_add(p, call, clef__parse_expression(p));
        }
        if (call->n + call->n_named > CLEF__TPL_MAX_ARGS)
            clef__tpl_fail(p->t, CLEF_E_LIMIT, "a call has more than %d arguments", CLEF__TPL_MAX_ARGS);
        if (!clef__take_op(p, ","))
            break;
    }
    clef__want_op(p, ")");
    return call;
}

/* [i], [a:b], [a:b:c] */
static clef__node *parse_subscript(clef__parser *p, clef__node *of)
{
    clef__node *n = clef__new_node(p, CLEF__N_ITEM), *from = NULL;
    n->a = of;
    if (!clef__at_op(p, ":"))
        from = clef__parse_tuple(p, CLEF__PART_ANY, 0);
    if (clef__take_op(p, "]")) {
        n->b = from;
        return n;
    }
    clef__want_op(p, ":");
    n->kind = CLEF__N_SLICE;
    n->b = from;
    if (!clef__at_op(p, ":") && !clef__at_op(p, "]"))
        n->c = clef__parse_expression(p);
    if (clef__take_op(p, ":") && !clef__at_op(p, "]"))
        n->d = clef__parse_expression(p);
    clef__want_op(p, "]");
    return n;
}

static clef__node *parse_call(clef__parser *p, clef__node *callee)
{
    clef__node *call = clef__new_node(p, CLEF__N_CALL);
    call->a = callee;
    return parse_call_args(p, call);
}

static clef__node *parse_postfix(clef__parser *p, clef__node *n)
{
    for (int k = 0; !p->t->status; k++) {
        if (k > MAX_NESTING)
            clef__tpl_fail(p->t, CLEF_E_LIMIT, "more than %d attributes and calls behind each other",
                           MAX_NESTING);
        if (clef__take_op(p, ".")) {
            clef__node *attr = clef__new_node(p, p->at->kind == CLEF__T_INT ? CLEF__N_ITEM : CLEF__N_ATTR);
            attr->a = n;
            if (p->at->kind == CLEF__T_INT)
                attr->b = clef__parse_primary(p);
            else
                attr->name = clef__want_name(p);
            n = attr;
        } else if (clef__take_op(p, "[")) {
            n = parse_subscript(p, n);
        } else if (clef__take_op(p, "(")) {
            n = parse_call(p, n);
        } else {
            break;
        }
    }
    return n;
}

static clef__str *dotted_name(clef__parser *p)
{
    clef__str *name = clef__want_name(p), *dot = clef__str_of(p->t, ".", 1, 0);
    while (clef__take_op(p, "."))
        name = clef__str_join(p->t, clef__str_join(p->t, name, dot), clef__want_name(p));
    return name;
}

/* One filter, from behind the bar on. */
static clef__node *parse_filter(clef__parser *p, clef__node *of)
{
    clef__node *n = clef__new_node(p, CLEF__N_FILTER);
    n->a = of;
    n->name = dotted_name(p);
    if (!p->t->status && !clef__find_filter(n->name)) {
        p->t->line = n->line;
        if (clef__is_refused_filter(n->name))
            clef__tpl_fail(p->t, CLEF_E_UNSUPPORTED, "the filter '%.*s' is not supported", (int)n->name->n,
                           n->name->p);
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "no filter '%.*s'", (int)n->name->n, n->name->p);
    }
    return clef__take_op(p, "(") ? parse_call_args(p, n) : n;
}

static clef__node *parse_test(clef__parser *p, clef__node *of)
{
    const int negated = clef__take_word(p, "not");
    clef__node *n = clef__new_node(p, CLEF__N_TEST);
    n->a = of;
    n->op = negated;
    n->name = dotted_name(p);
    if (!p->t->status && !clef__find_test(n->name)) {
        p->t->line = n->line;
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "no test '%.*s'", (int)n->name->n, n->name->p);
    }
    const clef__token_kind kind = p->at->kind;
    const int takes_one = kind == CLEF__T_STRING || kind == CLEF__T_INT || kind == CLEF__T_FLOAT ||
                          clef__at_op(p, "[") || clef__at_op(p, "{") ||
                          (kind == CLEF__T_NAME && !clef__at_word(p, "else") && !clef__at_word(p, "or") &&
                           !clef__at_word(p, "and") && !clef__at_word(p, "if"));
    if (clef__take_op(p, "("))
        return parse_call_args(p, n);
    if (clef__at_word(p, "is"))
        clef__parse_fail(p, "no second test behind the first: write 'and'");
    else if (takes_one)
        clef__node_add(p, n, parse_postfix(p, clef__parse_primary(p)));
    return n;
}

clef__node *clef__parse_filters(clef__parser *p, clef__node *of, int without_bar)
{
    clef__node *n = of;
    if (without_bar)
        n = parse_filter(p, n);
    for (int k = 0; !p->t->status; k++) {
        if (k > MAX_NESTING)
            clef__tpl_fail(p->t, CLEF_E_LIMIT, "more than %d filters behind each other", MAX_NESTING);
        if (clef__take_op(p, "|"))
            n = parse_filter(p, n);
        else if (!without_bar && clef__take_word(p, "is"))
            n = parse_test(p, n);
        else if (!without_bar && clef__take_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* ---- operators -------------------------------------------------------------------------------- */

static clef__node *parse_unary(clef__parser *p, int with_filters)
{
    clef__node *n;
    if (++p->depth > MAX_NESTING)
        clef__tpl_fail(p->t, CLEF_E_LIMIT, "expressions nest deeper than %d", MAX_NESTING);
    if (p->t->status)
        return clef__new_node(p, CLEF__N_CONST);
    if (clef__at_op(p, "-") || clef__at_op(p, "+")) {
        n = clef__new_node(p, clef__at_op(p, "-") ? CLEF__N_NEG : CLEF__N_POS);
        p->at++;
        n->a = parse_unary(p, 0);
    } else {
        n = clef__parse_primary(p);
    }
    n = parse_postfix(p, n);
    if (with_filters)
        n = clef__parse_filters(p, n, 0);
    p->depth--;
    return n;
}

static clef__node *binary(clef__parser *p, int32_t op, clef__node *a, clef__node *b)
{
    clef__node *n = clef__new_node(p, CLEF__N_BINARY);
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

/* Operators of one level, from the left: `levels` are in the order of their strength. */
static clef__node *parse_level(clef__parser *p, int level)
{
    static const char *const levels[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    enum { CONCAT = 1, N_LEVELS = 4 };
    if (level == N_LEVELS)
        return parse_unary(p, 1);
    clef__node *n = parse_level(p, level + 1), *concat = NULL;
    for (int i = 0; levels[level][i] && !p->t->status;) {
        if (!clef__at_op(p, levels[level][i])) {
            i++;
            continue;
        }
        const int32_t op = (p->at++)->op;
        clef__node *right = parse_level(p, level + 1);
        if (level != CONCAT) {
            n = binary(p, op, n, right);
        } else {
            if (!concat) {
                concat = clef__new_node(p, CLEF__N_CONCAT);
                clef__node_add(p, concat, n);
                n = concat;
            }
            clef__node_add(p, concat, right);
        }
        i = 0;
    }
    return n;
}

static clef__node *parse_compare(clef__parser *p)
{
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    clef__node *n = parse_level(p, 0), *compare = NULL;
    while (!p->t->status) {
        int32_t op = 0;
        for (size_t i = 0; i < sizeof ops / sizeof *ops && !op; i++)
            if (clef__take_op(p, ops[i]))
                op = ops[i][0] | ops[i][1] << 8;
        if (!op && clef__take_word(p, "in"))
            op = 'i';
        if (!op && clef__at_word(p, "not") && p->at[1].kind == CLEF__T_NAME &&
            clef__str_is(p->at[1].value.s, "in")) {
            p->at += 2;
            op = 'n';
        }
        if (!op)
            break;
        if (!compare) {
            compare = clef__new_node(p, CLEF__N_COMPARE);
            compare->a = n;
            n = compare;
        }
        clef__node_add(p, compare, binary(p, op, parse_level(p, 0), NULL));
    }
    return n;
}

static clef__node *parse_not(clef__parser *p)
{
    if (!clef__at_word(p, "not"))
        return parse_compare(p);
    clef__node *n = clef__new_node(p, CLEF__N_NOT);
    p->at++;
    if (++p->depth > MAX_NESTING)
        clef__tpl_fail(p->t, CLEF_E_LIMIT, "expressions nest deeper than %d", MAX_NESTING);
    n->a = p->t->status ? NULL : parse_not(p);
    p->depth--;
    return n;
}

static clef__node *parse_and(clef__parser *p)
{
    clef__node *n = parse_not(p);
    while (!p->t->status && clef__take_word(p, "and")) {
        clef__node *both = clef__new_node(p, CLEF__N_AND);
        both->a = n;
        both->b = parse_not(p);
        n = both;
    }
    return n;
}

static clef__node *parse_or(clef__parser *p)
{
    clef__node *n = parse_and(p);
    while (!p->t->status && clef__take_word(p, "or")) {
        clef__node *either = clef__new_node(p, CLEF__N_OR);
        either->a = n;
        either->b = parse_and(p);
        n = either;
    }
    return n;
}

clef__node *clef__parse_expression(clef__parser *p)
{
    if (++p->depth > MAX_NESTING)
        clef__tpl_fail(p->t, CLEF_E_LIMIT, "expressions nest deeper than %d", MAX_NESTING);
    clef__node *n = p->t->status ? clef__new_node(p, CLEF__N_CONST) : parse_or(p);
    while (!p->t->status && clef__take_word(p, "if")) {
        clef__node *choice = clef__new_node(p, CLEF__N_IF_ELSE);
        choice->a = n;
        choice->b = parse_or(p);
        if (clef__take_word(p, "else"))
            choice->c = clef__parse_expression(p);
        n = choice;
    }
    p->depth--;
    return n;
}

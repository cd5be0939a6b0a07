/* Statements: what is between {% and %}, and the text around. */
#include <string.h>

#include "text/template/engine.h"

enum { MAX_BLOCKS = 100 }; /* blocks within blocks */

static clef__node *parse_body(clef__parser *p, const char *const ends[]);

/* The end of a tag. */
static void want_block_end(clef__parser *p)
{
    if (p->at->kind == CLEF__T_BLOCK_END)
        p->at++;
    else
        clef__parse_fail(p, "'%}'");
}

/* The body of a block, and its closing tag. */
static clef__node *parse_block(clef__parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    want_block_end(p);
    clef__node *body = parse_body(p, ends);
    p->at += !p->t->status; /* the word */
    want_block_end(p);
    return body;
}

/* A name, a tuple of names, or ns.name. */
static clef__node *parse_target(clef__parser *p, int with_namespace)
{
    if (with_namespace && p->at->kind == CLEF__T_NAME && p->at[1].kind == CLEF__T_OP && p->at[1].op == '.') {
        clef__node *n = clef__new_node(p, CLEF__N_ATTR);
        n->a = clef__parse_primary(p);
        p->at++;
        n->name = clef__want_name(p);
        return n;
    }
    clef__node *n = clef__parse_tuple(p, CLEF__PART_NAME, 0);
    for (int32_t i = 0; i < (n->kind == CLEF__N_TUPLE ? n->n : 1) && !p->t->status; i++) {
        const clef__node *each = n->kind == CLEF__N_TUPLE ? n->list[i] : n;
        if (each->kind == CLEF__N_TUPLE)
            continue;
        if (each->kind != CLEF__N_NAME)
            clef__tpl_fail(p->t, CLEF_E_FORMAT, "only names can be set");
    }
    return n;
}

static clef__node *parse_for(clef__parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    clef__node *n = clef__new_node(p, CLEF__N_FOR);
    n->a = parse_target(p, 0);
    for (int32_t i = 0; i < (n->a->kind == CLEF__N_TUPLE ? n->a->n : 1) && !p->t->status; i++) {
        const clef__node *each = n->a->kind == CLEF__N_TUPLE ? n->a->list[i] : n->a;
        if (each->kind == CLEF__N_NAME && clef__str_is(each->name, "loop"))
            clef__tpl_fail(p->t, CLEF_E_FORMAT, "'loop' is the loop itself");
    }
    if (!clef__take_word(p, "in"))
        clef__parse_fail(p, "'in'");
    n->b = clef__parse_tuple(p, CLEF__PART_PLAIN, 0); /* an `if` behind it belongs to the loop */
    if (clef__take_word(p, "if"))
        n->c = clef__parse_expression(p);
    if (clef__take_word(p, "recursive"))
        n->op = 1;
    want_block_end(p);
    p->in_loop++;
    n->d = parse_body(p, ends);
    p->in_loop--;
    if (clef__take_word(p, "else")) {
        want_block_end(p);
        clef__node_add(p, n, parse_body(p, (const char *const[]){"endfor", NULL}));
    }
    p->at += !p->t->status;
    want_block_end(p);
    return n;
}

static clef__node *parse_if(clef__parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    clef__node *n = clef__new_node(p, CLEF__N_IF);
    do {
        clef__node_add(p, n, clef__parse_tuple(p, CLEF__PART_PLAIN, 0));
        want_block_end(p);
        clef__node_add(p, n, parse_body(p, ends));
    } while (!p->t->status && clef__take_word(p, "elif"));
    if (clef__take_word(p, "else")) {
        want_block_end(p);
        n->a = parse_body(p, (const char *const[]){"endif", NULL});
    }
    p->at += !p->t->status;
    want_block_end(p);
    return n;
}

static clef__node *parse_set(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_SET);
    n->a = parse_target(p, 1);
    if (clef__take_op(p, "=")) {
        n->b = clef__parse_tuple(p, CLEF__PART_ANY, 0);
        want_block_end(p);
        return n;
    }
    n->kind = CLEF__N_SET_BLOCK;
    if (clef__at_op(p, "|"))
        n->b = clef__parse_filters(p, NULL, 0);
    n->d = parse_block(p, "endset");
    return n;
}

/* Parameters with defaults, from behind the parenthesis: names, and in list their defaults or NULL. */
static void parse_parameters(clef__parser *p, clef__node *macro)
{
    enum { MAX = CLEF__TPL_MAX_ARGS };
    macro->names = clef__tpl_alloc(p->t, MAX * sizeof *macro->names);
    macro->list = clef__tpl_alloc(p->t, MAX * sizeof *macro->list);
    while (!p->t->status && (macro->n_named || !clef__at_op(p, ")"))) {
        if (macro->n_named == MAX) {
            clef__tpl_fail(p->t, CLEF_E_LIMIT, "a macro has more than %d parameters", MAX);
            return;
        }
        const int32_t i = macro->n_named++;
        macro->names[i] = clef__want_name(p);
        for (int32_t k = 0; k < i && !p->t->status; k++)
            if (macro->names[k]->n == macro->names[i]->n &&
                memcmp(macro->names[k]->p, macro->names[i]->p, macro->names[i]->n) == 0)
                clef__parse_fail(p, "parameters of different names");
        if (clef__take_op(p, "="))
            macro->list[i] = clef__parse_expression(p);
        else if (i && macro->list[i - 1])
            clef__parse_fail(p, "a default, as the parameter before has one");
        if (!clef__take_op(p, ","))
            break;
    }
    clef__want_op(p, ")");
}

static clef__node *parse_macro(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_MACRO);
    const int32_t in_loop = p->in_loop, uses = p->uses;
    n->name = clef__want_name(p);
    clef__want_op(p, "(");
    p->uses = 0;
    parse_parameters(p, n);
    for (int32_t i = 0; i < n->n_named && !p->t->status; i++)
        if (clef__str_is(n->names[i], "caller") && !n->list[i])
            clef__parse_fail(p, "a default for the parameter 'caller'");
    p->in_loop = 0;
    n->d = parse_block(p, "endmacro");
    n->op = p->uses;
    p->in_loop = in_loop;
    p->uses |= uses;
    return n;
}

static clef__node *parse_call_block(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_CALL_BLOCK);
    const int32_t in_loop = p->in_loop;
    n->b = clef__new_node(p, CLEF__N_MACRO);
    n->b->name = clef__str_of(p->t, "caller", 6, 0);
    if (clef__take_op(p, "("))
        parse_parameters(p, n->b);
    n->a = clef__parse_expression(p);
    if (!p->t->status && n->a->kind != CLEF__N_CALL)
        clef__parse_fail(p, "a call");
    p->in_loop = 0;
    n->b->d = parse_block(p, "endcall");
    n->b->op = p->uses;
    p->in_loop = in_loop;
    return n;
}

static clef__node *parse_with(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_WITH);
    while (!p->t->status && p->at->kind != CLEF__T_BLOCK_END) {
        clef__node_add(p, n, parse_target(p, 0));
        clef__want_op(p, "=");
        clef__node_add(p, n, clef__parse_expression(p));
        if (!clef__take_op(p, ","))
            break;
    }
    n->d = parse_block(p, "endwith");
    return n;
}

static clef__node *parse_filter_block(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_FILTER_BLOCK);
    n->a = clef__parse_filters(p, NULL, 1);
    n->d = parse_block(p, "endfilter");
    return n;
}

static clef__node *parse_generation(clef__parser *p)
{
    clef__node *n = clef__new_node(p, CLEF__N_BODY);
    const int32_t in_loop = p->in_loop;
    p->in_loop = 0;
    n->d = parse_block(p, "endgeneration");
    p->in_loop = in_loop;
    return n;
}

static clef__node *parse_leave(clef__parser *p, clef__node_kind kind)
{
    clef__node *n = clef__new_node(p, kind);
    if (!p->in_loop)
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "'%s' outside a loop",
                       kind == CLEF__N_BREAK ? "break" : "continue");
    want_block_end(p);
    return n;
}

static clef__node *parse_break(clef__parser *p)
{
    return parse_leave(p, CLEF__N_BREAK);
}

static clef__node *parse_continue(clef__parser *p)
{
    return parse_leave(p, CLEF__N_CONTINUE);
}

/* {% print a, b %} */
static clef__node *parse_print(clef__parser *p)
{
    clef__node *first = NULL, **last = &first;
    do {
        clef__node *n = clef__new_node(p, CLEF__N_OUTPUT);
        n->a = clef__parse_expression(p);
        *last = n;
        last = &n->next;
    } while (!p->t->status && clef__take_op(p, ","));
    clef__node *all = clef__new_node(p, CLEF__N_BODY);
    all->d = first;
    want_block_end(p);
    return all;
}

static clef__node *parse_statement(clef__parser *p)
{
    static const struct {
        const char *word;
        clef__node *(*parse)(clef__parser *p);
    } statements[] = {
        {"if", parse_if},       {"for", parse_for},           {"set", parse_set},
        {"macro", parse_macro}, {"call", parse_call_block},   {"filter", parse_filter_block},
        {"break", parse_break}, {"continue", parse_continue}, {"generation", parse_generation},
        {"with", parse_with},   {"print", parse_print},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (clef__take_word(p, statements[i].word))
            return statements[i].parse(p);
    static const char *const refused[] = {"block", "extends", "include", "import", "from", "autoescape"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (clef__at_word(p, refused[i]))
            clef__tpl_fail(p->t, CLEF_E_UNSUPPORTED, "the statement '%s' is not supported", refused[i]);
    clef__parse_fail(
        p, "a statement: if, for, set, macro, call, filter, with, print, generation, break or continue");
    return clef__new_node(p, CLEF__N_CONST);
}

static int at_end(clef__parser *p, const char *const ends[])
{
    for (; *ends; ends++)
        if (p->at[1].kind == CLEF__T_NAME && clef__str_is(p->at[1].value.s, *ends)) {
            p->at++;
            return 1;
        }
    return 0;
}

/* Statements up to a tag with one of these words, which becomes the current token; or to the end, without
 * words. */
static clef__node *parse_body(clef__parser *p, const char *const ends[])
{
    clef__node *first = NULL, **last = &first, *n = NULL;
    const int32_t line = p->at->line;
    if (++p->depth > MAX_BLOCKS)
        clef__tpl_fail(p->t, CLEF_E_LIMIT, "blocks nest deeper than %d", MAX_BLOCKS);
    while (!p->t->status) {
        const clef__token *token = p->at;
        p->t->line = token->line;
        if (token->kind == CLEF__T_END) {
            if (*ends)
                clef__tpl_fail(p->t, CLEF_E_FORMAT, "the block that begins in line %d has no '%s'", (int)line,
                               *ends);
            break;
        }
        if (token->kind == CLEF__T_BLOCK && at_end(p, ends))
            break;
        p->at++;
        if (token->kind == CLEF__T_TEXT) {
            n = clef__new_node(p, CLEF__N_TEXT);
            n->value = token->value;
        } else if (token->kind == CLEF__T_OUTPUT) {
            n = clef__new_node(p, CLEF__N_OUTPUT);
            n->a = clef__parse_tuple(p, CLEF__PART_ANY, 0);
            if (p->at->kind == CLEF__T_OUTPUT_END)
                p->at++;
            else
                clef__parse_fail(p, "'}}'");
        } else {
            n = parse_statement(p);
        }
        if (p->t->status)
            break;
        *last = n;
        last = &n->next;
    }
    p->depth--;
    return first;
}

clef__node *clef__tpl_parse(clef__tpl *t, const clef__tokens *tokens)
{
    static const char *const none[] = {NULL};
    clef__parser p = {.t = t, .at = tokens->at};
    return t->status ? NULL : parse_body(&p, none);
}

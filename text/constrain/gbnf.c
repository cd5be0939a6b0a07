/* llama.cpp's grammars: rules `name ::= …` of literals, classes, names, groups, repetitions and tokens. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "text/constrain/grammar.h"

enum { MOST_NODES = 500000, MOST_RULES = 20000, NAME_SHOWN = 40 };

typedef struct rule {
    const char *name;
    size_t n_name;
    uint32_t start; /* a node that goes to its body; 0: not used yet */
    int32_t defined, line;
    int32_t empty; /* 1: it may be empty */
} rule;

/* A part of a rule: nodes from `start`, where `end` is the node after it. Built from left to right, so that
 * `end` is a node to be filled. */
typedef struct part {
    uint32_t start, end;
} part;

typedef struct parser {
    clef__graph *g;
    clef__work *work;
    const clef__token_names *tokens;
    const char *text;
    size_t n, at;
    int32_t line, depth;
    rule *rules;
    uint32_t n_rules, room_rules;
    uint32_t current; /* the rule that is read */
} parser;

static void fail(parser *p, clef_status status, const char *what)
{
    const rule *r = p->current < p->n_rules ? &p->rules[p->current] : NULL;
    const int n = r ? (int)(r->n_name < NAME_SHOWN ? r->n_name : NAME_SHOWN) : 0;
    if (r)
        clef__work_fail(p->work, status, "line %d, rule %.*s: %s", p->line, n, r->name, what);
    else
        clef__work_fail(p->work, status, "line %d: %s", p->line, what);
}

/* ---- graphs --------------------------------------------------------------------------------- */

uint32_t clef__graph_add(clef__graph *g, clef__gnode node)
{
    if (g->n >= MOST_NODES)
        clef__work_fail(g->work, CLEF_E_LIMIT, "more than %d places in its rules", MOST_NODES);
    if (!clef__work_step(g->work, 1) ||
        !clef__work_grow(g->work, &g->nodes, g->n, &g->room, sizeof *g->nodes))
        return 0;
    g->nodes[g->n] = node;
    return g->n++;
}

void clef__graph_begin(clef__graph *g)
{
    clef__graph_add(g, (clef__gnode){.kind = CLEF__G_END});
}

/* A node that only goes on: both of its ways are the same. */
static uint32_t pass(parser *p)
{
    return clef__graph_add(p->g, (clef__gnode){.kind = CLEF__G_EITHER});
}

static void link_to(parser *p, uint32_t from, uint32_t to)
{
    if (!p->work->status)
        p->g->nodes[from].to = p->g->nodes[from].other = to;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int peek(const parser *p)
{
    return p->at < p->n ? (unsigned char)p->text[p->at] : -1;
}

static int take(parser *p, const char *text)
{
    const size_t n = strlen(text);
    if (p->at + n > p->n || memcmp(p->text + p->at, text, n) != 0)
        return 0;
    p->at += n;
    return 1;
}

/* Skips blanks and comments, and line ends where a rule goes on after them. */
static void skip(parser *p, int lines)
{
    for (int c; (c = peek(p)) >= 0; p->at++) {
        if (c == '#') {
            while (peek(p) >= 0 && peek(p) != '\n' && peek(p) != '\r')
                p->at++;
            p->at--;
        } else if (c == '\n' || c == '\r') {
            if (!lines)
                return;
            p->line += c == '\n';
        } else if (c != ' ' && c != '\t') {
            return;
        }
    }
}

static int is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t take_name(parser *p, const char **name)
{
    *name = p->text + p->at;
    const size_t begin = p->at;
    while (is_name(peek(p)))
        p->at++;
    if (p->at == begin)
        fail(p, CLEF_E_FORMAT, "expected the name of a rule");
    return p->at - begin;
}

static uint32_t take_hex(parser *p, int n_digits)
{
    uint32_t code = 0;
    for (int i = 0; i < n_digits; i++) {
        const int c = peek(p), lower = c | 32;
        if (!(c >= '0' && c <= '9') && !(c > 0 && lower >= 'a' && lower <= 'f')) {
            fail(p, CLEF_E_FORMAT, "expected a hexadecimal digit");
            return 0;
        }
        code = code << 4 | (uint32_t)(c <= '9' ? c - '0' : lower - 'a' + 10);
        p->at++;
    }
    return code;
}

/* A character of a literal or a class. */
static uint32_t take_character(parser *p)
{
    uint32_t code = 0;
    size_t size = 1;
    if (!take(p, "\\")) {
        if (peek(p) < 0 || clef__utf8_read(p->text + p->at, p->n - p->at, &code, &size) != CLEF_UTF8_OK)
            fail(p, CLEF_E_FORMAT, peek(p) < 0 ? "the text ends inside a literal" : "no UTF-8");
        p->line += code == '\n';
        p->at += size;
        return code;
    }
    const int c = peek(p);
    p->at++;
    switch (c) {
    case 'x':
        return take_hex(p, 2);
    case 'u':
        return take_hex(p, 4);
    case 'U':
        return take_hex(p, 8);
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return (uint32_t)c;
    default:
        p->at--;
        fail(p, CLEF_E_FORMAT, "an escape other than \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\- \\^");
        return 0;
    }
}

static uint32_t rule_of(parser *p, const char *name, size_t n)
{
    for (uint32_t i = 0; i < p->n_rules && clef__work_step(p->work, 1); i++)
        if (p->rules[i].n_name == n && !memcmp(p->rules[i].name, name, n))
            return i;
    if (p->n_rules >= MOST_RULES)
        fail(p, CLEF_E_LIMIT, "more than 20000 rules");
    if (!clef__work_grow(p->work, &p->rules, p->n_rules, &p->room_rules, sizeof *p->rules))
        return 0;
    p->rules[p->n_rules] = (rule){.name = name, .n_name = n, .start = pass(p), .line = p->line};
    return p->n_rules++;
}

/* ---- items ---------------------------------------------------------------------------------- */

static part set_part(parser *p, clef__set set)
{
    clef__set_order(p->work, &set);
    const uint32_t end = pass(p);
    return (part){clef__graph_add(p->g, (clef__gnode){.kind = CLEF__G_SET, .set = set, .to = end}), end};
}

static part parse_literal(parser *p)
{
    part whole = {pass(p), 0};
    whole.end = whole.start;
    while (peek(p) != '"' && !p->work->status) {
        clef__set set = {.n = 0};
        const uint32_t code = take_character(p);
        clef__set_add(p->work, &set, code, code);
        const part one = set_part(p, set);
        link_to(p, whole.end, one.start);
        whole.end = one.end;
    }
    p->at++;
    return whole;
}

static part parse_class(parser *p)
{
    clef__set set = {.n = 0};
    const int negated = take(p, "^");
    while (peek(p) != ']' && !p->work->status) {
        const uint32_t lo = take_character(p);
        uint32_t hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            hi = take_character(p);
        }
        if (lo > hi)
            fail(p, CLEF_E_FORMAT, "a range that ends before it begins");
        clef__set_add(p->work, &set, lo, hi);
    }
    p->at++;
    clef__set_order(p->work, &set);
    return set_part(p, negated ? clef__set_not(p->work, &set) : set);
}

/* <[id]> or <text>, after an optional !. Without a vocabulary, <text> is its characters. */
static part parse_token(parser *p)
{
    const int negated = take(p, "!");
    int64_t id = -1;
    p->at++;
    const size_t begin = p->at;
    while (peek(p) >= 0 && peek(p) != '>' && peek(p) != '\n')
        p->at++;
    const size_t n = p->at - begin;
    if (!take(p, ">")) {
        fail(p, CLEF_E_FORMAT, "expected > after a token");
        return (part){0, 0};
    }
    if (n > 2 && p->text[begin] == '[') {
        char *end;
        id = strtoll(p->text + begin + 1, &end, 10);
        if (*end != ']' || id < 0 || id > INT32_MAX)
            fail(p, CLEF_E_FORMAT, "expected <[ID]>");
    } else if (p->tokens) {
        id = p->tokens->find(p->tokens->user, p->text + begin - 1, n + 2);
    }
    const uint32_t end = pass(p);
    clef__gnode node = {.kind = CLEF__G_TOKEN, .to = end, .token = (int32_t)id, .negated = negated};
    if (id >= 0)
        return (part){clef__graph_add(p->g, node), end};
    if (negated || p->tokens) {
        fail(p, CLEF_E_ARG,
             p->tokens ? "the vocabulary has no such token" : "a token needs a model's vocabulary");
        return (part){0, 0};
    }
    p->at = begin - 1;
    part whole = {pass(p), 0};
    whole.end = whole.start;
    for (size_t i = 0; i < n + 2 && !p->work->status;) {
        clef__set set = {.n = 0};
        uint32_t code = 0;
        size_t size = 1;
        clef__utf8_read(p->text + p->at, p->n - p->at, &code, &size);
        clef__set_add(p->work, &set, code, code);
        const part one = set_part(p, set);
        link_to(p, whole.end, one.start);
        whole.end = one.end;
        p->at += size;
        i += size;
    }
    return whole;
}

static part parse_either(parser *p, int in_group);

static part parse_atom(parser *p)
{
    const int c = peek(p);
    if (take(p, "\""))
        return parse_literal(p);
    if (take(p, "["))
        return parse_class(p);
    if (c == '<' || c == '!')
        return parse_token(p);
    if (take(p, "."))
        return set_part(p, clef__set_not(p->work, &(clef__set){.n = 0}));
    if (take(p, "(")) {
        if (++p->depth > CLEF__MAX_NESTING) {
            fail(p, CLEF_E_LIMIT, "groups are nested more than 256 deep");
            return (part){0, 0};
        }
        const part inner = parse_either(p, 1);
        p->depth--;
        if (!take(p, ")"))
            fail(p, CLEF_E_FORMAT, "expected )");
        return inner;
    }
    const char *name;
    const size_t n = take_name(p, &name);
    const uint32_t r = p->work->status ? 0 : rule_of(p, name, n), end = pass(p);
    if (p->work->status)
        return (part){0, 0};
    return (part){
        clef__graph_add(p->g, (clef__gnode){.kind = CLEF__G_CALL, .to = end, .other = p->rules[r].start}),
        end};
}

/* ---- repetition ----------------------------------------------------------------------------- */

static uint32_t take_count(parser *p)
{
    uint64_t x = 0;
    if (!(peek(p) >= '0' && peek(p) <= '9'))
        fail(p, CLEF_E_FORMAT, "expected a number of repetitions");
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        x = x > UINT32_MAX ? x : x * 10 + (uint64_t)(peek(p) - '0');
    if (x > CLEF__MAX_REPEATS)
        fail(p, CLEF_E_LIMIT, "more than 10000 repetitions");
    return (uint32_t)x;
}

/* A copy of the nodes from `first` to `last`, in which `part` lies. */
static part copy_part(parser *p, part of, uint32_t first, uint32_t last)
{
    const uint32_t by = p->g->n - first;
    for (uint32_t i = first; i < last && !p->work->status; i++) {
        clef__gnode node = p->g->nodes[i];
        node.to += node.to >= first && node.to < last ? by : 0;
        if (node.kind != CLEF__G_CALL) /* a rule that was first named here has its node here */
            node.other += node.other >= first && node.other < last ? by : 0;
        clef__graph_add(p->g, node);
    }
    return (part){of.start + by, of.end + by};
}

static part repeat(parser *p, part of, uint32_t first, uint32_t last, uint32_t min, uint32_t max)
{
    const uint32_t end = pass(p);
    part whole = {pass(p), end};
    uint32_t at = whole.start;
    const uint32_t n = max == UINT32_MAX ? min + (min == 0) : max;
    for (uint32_t i = 0; i < n && !p->work->status; i++) {
        const part one = i == 0 ? of : copy_part(p, of, first, last);
        /* at: the way into this copy; from `min` copies on, another way leads out */
        link_to(p, at, one.start);
        if (i >= min && !p->work->status)
            p->g->nodes[at].other = end;
        at = one.end;
        if (i + 1 == n && max == UINT32_MAX) { /* the last copy repeats itself */
            link_to(p, at, one.start);
            if (!p->work->status)
                p->g->nodes[at].other = end;
            return whole;
        }
    }
    link_to(p, at, end);
    return whole;
}

static part parse_item(parser *p)
{
    const uint32_t first = p->g->n;
    part item = parse_atom(p);
    for (int any = 0; !p->work->status; any = 1) {
        const uint32_t last = p->g->n;
        uint32_t min = 0, max = UINT32_MAX;
        if (take(p, "*")) {
            min = 0;
        } else if (take(p, "+")) {
            min = 1;
        } else if (take(p, "?")) {
            max = 1;
        } else if (take(p, "{")) {
            skip(p, 0);
            min = take_count(p);
            skip(p, 0);
            max = min;
            if (take(p, ",")) {
                skip(p, 0);
                max = peek(p) == '}' ? UINT32_MAX : take_count(p);
                skip(p, 0);
            }
            if (!take(p, "}") || (max != UINT32_MAX && max < min))
                fail(p, CLEF_E_FORMAT, "expected {m}, {m,} or {m,n} with m up to n");
        } else {
            return item;
        }
        if (any) {
            fail(p, CLEF_E_FORMAT, "nothing to repeat");
            return item;
        }
        item = repeat(p, item, first, last, min, max);
    }
    return item;
}

static part parse_sequence(parser *p, int in_group)
{
    part whole = {pass(p), 0};
    whole.end = whole.start;
    for (;;) {
        skip(p, in_group);
        const int c = peek(p);
        if (c < 0 || c == '|' || c == ')' || c == '\n' || c == '\r' || p->work->status)
            return whole;
        const part item = parse_item(p);
        link_to(p, whole.end, item.start);
        whole.end = item.end;
    }
}

static part parse_either(parser *p, int in_group)
{
    part whole = parse_sequence(p, in_group);
    /* a bar may also be at the start of the next line */
    for (;;) {
        const size_t at = p->at;
        const int32_t line = p->line;
        skip(p, 1);
        if (p->work->status || !take(p, "|")) {
            p->at = at;
            p->line = line;
            return whole;
        }
        skip(p, 1);
        const part other = parse_sequence(p, in_group);
        const uint32_t start = pass(p);
        link_to(p, other.end, whole.end);
        link_to(p, start, whole.start);
        if (!p->work->status)
            p->g->nodes[start].other = other.start;
        whole.start = start;
    }
}

static void parse_rule(parser *p)
{
    const char *name;
    p->current = UINT32_MAX;
    const size_t n = take_name(p, &name);
    const uint32_t number = p->work->status ? 0 : rule_of(p, name, n);
    if (p->work->status)
        return;
    p->current = number;
    p->rules[number].line = p->line;
    if (p->rules[number].defined)
        fail(p, CLEF_E_FORMAT, "defined twice");
    skip(p, 0);
    if (!take(p, "::="))
        fail(p, CLEF_E_FORMAT, "expected ::=");
    skip(p, 1);
    const part body = parse_either(p, 0);
    if (p->work->status)
        return;
    link_to(p, p->rules[number].start, body.start);
    p->g->nodes[body.end].kind = CLEF__G_END;
    p->rules[number].defined = 1;
    skip(p, 0);
    if (peek(p) >= 0 && peek(p) != '\n' && peek(p) != '\r')
        fail(p, CLEF_E_FORMAT, "expected the end of the line, a bar or another item");
}

/* ---- checks --------------------------------------------------------------------------------- */

/* A walk of what can be reached without reading anything. */
typedef struct walk {
    parser *p;
    uint8_t *state;    /* of each node: 1 on the way, 2 done without a circle */
    uint8_t *nullable; /* of each node: its rule's end can be reached from it without reading */
    uint32_t *rule_at; /* of each node where a rule begins: its number + 1 */
} walk;

/* From below: a node is nullable if one of its ways is, and a call if its rule and what comes after are. */
static void find_nullable(walk *w)
{
    const clef__graph *g = w->p->g;
    for (int changed = 1; changed && clef__work_step(w->p->work, g->n);) {
        changed = 0;
        for (uint32_t i = g->n; i-- > 0;) {
            const clef__gnode *x = &g->nodes[i];
            const int is = x->kind == CLEF__G_END ||
                           (x->kind == CLEF__G_EITHER && (w->nullable[x->to] || w->nullable[x->other])) ||
                           (x->kind == CLEF__G_CALL && w->nullable[x->to] && w->nullable[x->other]);
            if (is && !w->nullable[i])
                changed = w->nullable[i] = 1;
        }
    }
}

/* Looks for a circle in which nothing is read, which would go on for ever; depth first without recursion. */
static void find_circles(walk *w, uint32_t *stack)
{
    const clef__graph *g = w->p->g;
    uint32_t rule_now = 0;
    for (uint32_t root = 0; root < g->n && !w->p->work->status; root++) {
        uint32_t n = 0;
        if (!w->state[root])
            stack[n++] = root;
        while (n && clef__work_step(w->p->work, 1)) {
            const uint32_t i = stack[n - 1];
            const clef__gnode *x = &g->nodes[i];
            if (w->state[i]) {
                w->state[i] = 2;
                n--;
                continue;
            }
            w->state[i] = 1;
            rule_now = w->rule_at[i] ? w->rule_at[i] - 1 : rule_now;
            uint32_t ways[2], n_ways = 0;
            if (x->kind == CLEF__G_EITHER || x->kind == CLEF__G_CALL)
                ways[n_ways++] = x->other;
            if ((x->kind == CLEF__G_EITHER && x->to != x->other) ||
                (x->kind == CLEF__G_CALL && w->nullable[x->other]))
                ways[n_ways++] = x->to;
            for (uint32_t k = 0; k < n_ways; k++) {
                if (w->state[ways[k]] == 1) {
                    w->p->current = rule_now;
                    w->p->line = w->p->n_rules ? w->p->rules[rule_now].line : 1;
                    fail(w->p, CLEF_E_FORMAT,
                         "it can repeat or call itself without reading a character (left recursion, or a "
                         "repetition of what may be empty)");
                    return;
                }
                if (!w->state[ways[k]])
                    stack[n++] = ways[k];
            }
        }
    }
}

static void check(parser *p)
{
    for (uint32_t i = 0; i < p->n_rules && !p->work->status; i++)
        if (!p->rules[i].defined) {
            p->current = i;
            p->line = p->rules[i].line;
            fail(p, CLEF_E_FORMAT, "it is used and not defined");
        }
    walk w = {.p = p, .state = calloc(p->g->n + 1, 1), .nullable = calloc(p->g->n + 1, 1)};
    uint32_t *stack = malloc((2 * (size_t)p->g->n + 2) * sizeof *stack);
    w.rule_at = calloc(p->g->n + 1, sizeof *w.rule_at);
    if (!w.state || !w.nullable || !w.rule_at || !stack)
        clef__work_fail(p->work, CLEF_E_NOMEM, "out of host memory");
    if (!p->work->status) {
        for (uint32_t i = 0; i < p->n_rules; i++)
            w.rule_at[p->rules[i].start] = i + 1;
        find_nullable(&w);
        find_circles(&w, stack);
    }
    free(w.state);
    free(w.nullable);
    free(w.rule_at);
    free(stack);
}

void clef__gbnf_read(clef__graph *g, const char *text, size_t n, const clef__token_names *tokens,
                     uint32_t *start)
{
    parser p = {
        .g = g, .work = g->work, .tokens = tokens, .text = text, .n = n, .line = 1, .current = UINT32_MAX};
    *start = 0;
    if (n > CLEF__MAX_SOURCE)
        clef__work_fail(g->work, CLEF_E_LIMIT, "%zu bytes, expected 1 MiB at most", n);
    skip(&p, 1);
    while (peek(&p) >= 0 && !p.work->status) {
        parse_rule(&p);
        skip(&p, 1);
    }
    p.current = UINT32_MAX;
    uint32_t root = UINT32_MAX;
    for (uint32_t i = 0; i < p.n_rules; i++)
        if (p.rules[i].n_name == 4 && !memcmp(p.rules[i].name, "root", 4))
            root = i;
    if (root == UINT32_MAX || !p.rules[root].defined)
        fail(&p, CLEF_E_FORMAT, "there is no rule root");
    check(&p);
    if (!p.work->status)
        *start = p.rules[root].start;
    free(p.rules);
}

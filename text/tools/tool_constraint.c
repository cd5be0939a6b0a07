/* Constraints on tool calls: a graph of the format's tags, with JSON values for the arguments. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tools.h"
#include "model/file/utf8.h"
#include "model/tokenizer/memory.h"
#include "model/tokenizer/tokenizer.h"
#include "text/constrain/constraint.h"
#include "text/constrain/nfa.h"
#include "text/tools/calls.h"
#include "text/tools/formats.h"
#include "text/tools/gemma_constraint.h"

enum { MOST_TOOLS = 1024, MOST_DROPPED = 100, MOST_FORMS = 2, MOST_ID = 16 };

/* U+FF5C and U+2581 are part of DeepSeek's tags. */
#define BAR "\xEF\xBD\x9C"
#define LOW "\xE2\x96\x81"

/* One way to write calls: begin, then open … close for each call with `between` between them, then end. A
 * call is an object with the name and the arguments; or the name, `middle`, and the arguments; or the name,
 * `middle`, and a block for each argument. */
typedef struct form {
    const char *begin, *open, *middle, *close, *between, *end;
    const char *name_key, *arguments_key; /* of an object; NULL: the name is before it */
    int32_t blocks, single;               /* single: one call is all there is */
    int32_t has_id;                       /* the object may have a "tool_call_id" before its arguments */
} form;

static const form forms[CLEF_N_TOOL_FORMATS][MOST_FORMS] = {
    [CLEF_TOOLS_HERMES] = {{"", "<tool_call>\n", NULL, "\n</tool_call>", "\n", "", "name", "arguments", 0, 0,
                            0}},
    [CLEF_TOOLS_LLAMA3] = {{"", "", NULL, "", "", "", "name", "parameters", 0, 1, 0}},
    [CLEF_TOOLS_MISTRAL] = {{"", "[TOOL_CALLS]", "[ARGS]", "", "", "", NULL, NULL, 0, 0, 0},
                            {"[TOOL_CALLS][", "", NULL, "", ", ", "]", "name", "arguments", 0, 0, 0}},
    [CLEF_TOOLS_QWEN_CODER] = {{"", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n", "",
                                NULL, NULL, 1, 0, 0}},
    [CLEF_TOOLS_GEMMA4] = {{"", "<|tool_call>call:", "", "<tool_call|>", "", "", NULL, NULL, 0, 0, 0}},
    [CLEF_TOOLS_HARMONY] = {{"", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "",
                             "", "", NULL, NULL, 0, 1, 0}},
    [CLEF_TOOLS_GRANITE] = {{"<|tool_call|>[", "", NULL, "", ", ", "]", "name", "arguments", 0, 0, 0}},
    [CLEF_TOOLS_COMMAND_R] = {{"Action: ```json\n[", "", NULL, "", ",\n", "]\n```", "tool_name", "parameters",
                               0, 0, 1},
                              {"<|START_ACTION|>[", "", NULL, "", ",\n", "]<|END_ACTION|>", "tool_name",
                               "parameters", 0, 0, 1}},
    [CLEF_TOOLS_DEEPSEEK] = {{"<" BAR "tool" LOW "calls" LOW "begin" BAR ">",
                              "<" BAR "tool" LOW "call" LOW "begin" BAR ">", "<" BAR "tool" LOW "sep" BAR ">",
                              "<" BAR "tool" LOW "call" LOW "end" BAR ">", "",
                              "<" BAR "tool" LOW "calls" LOW "end" BAR ">", NULL, NULL, 0, 0, 0},
                             {"<" BAR "tool" LOW "calls" LOW "begin" BAR ">",
                              "<" BAR "tool" LOW "call" LOW "begin" BAR ">function<" BAR "tool" LOW "sep" BAR
                              ">",
                              "\n```json\n", "\n```<" BAR "tool" LOW "call" LOW "end" BAR ">", "\n",
                              "<" BAR "tool" LOW "calls" LOW "end" BAR ">", NULL, NULL, 0, 0, 0}},
    [CLEF_TOOLS_PHI4] = {{"<|tool_call|>[", "", NULL, "", ", ", "]<|/tool_call|>", "name", "arguments", 0, 0,
                          0}},
    [CLEF_TOOLS_JSON] = {{"{\"tool_calls\": [", "", NULL, "", ", ", "]}", "name", "arguments", 0, 0, 0}},
};

typedef struct maker {
    const clef_tool_constraint_opts *o;
    clef_constraint *c;
    clef__work *work;
    json_t *functions[MOST_TOOLS]; /* borrowed from the list of tools */
    int32_t n;
    const clef__alt *root; /* of the schema: document() */
    clef__gemma gemma;
    const clef__dfa *space;  /* what may be before a colon or a comma, and after a colon */
    const clef__dfa *line;   /* what may be inside of a brace, and after a comma */
    const clef__dfa *blocks; /* texts in which no tag ends a block of Qwen3-Coder's form */
} maker;

/* ---- the schema ----------------------------------------------------------------------------- */

/* One document with the schemas of all functions: "a0", "a1", … are their arguments, "id" is the id of a
 * call. */
static json_t *document(const maker *m, json_t *const *parameters)
{
    json_t *properties = json_pack("{s:{s:s,s:i}}", "id", "type", "string", "maxLength", MOST_ID),
           *required = json_pack("[s]", "id");
    for (int32_t i = 0; i < m->n; i++) {
        char key[16];
        snprintf(key, sizeof key, "a%d", i);
        json_t *arguments = json_deep_copy(parameters[i]);
        if (json_is_object(arguments) && !json_object_get(arguments, "$id"))
            json_object_set_new(arguments, "$id", json_sprintf("tool:%d", i)); /* so that # is its own root */
        json_object_set_new(properties, key, arguments);
        json_array_append_new(required, json_string(key));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "$schema", "https://json-schema.org/draft/2020-12/schema",
                     "$id", "tools:", "type", "object", "properties", properties, "required", required);
}

/* Whether members other than the declared ones are forbidden: unless the schema itself says what they may be,
 * or other schemas that it applies declare some. */
static int is_closed(const json_t *schema)
{
    static const char *const says[] = {"additionalProperties",
                                       "unevaluatedProperties",
                                       "$ref",
                                       "$dynamicRef",
                                       "$recursiveRef",
                                       "allOf",
                                       "anyOf",
                                       "oneOf",
                                       "not",
                                       "if",
                                       "extends",
                                       "dependentSchemas",
                                       "dependencies",
                                       "const",
                                       "enum"};
    const json_t *properties = json_object_get(schema, "properties"),
                 *required = json_object_get(schema, "required");
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (json_object_get(schema, says[i]))
            return 0;
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name && !json_object_get(properties, name))
            return 0;
    }
    return json_integer_value(json_object_get(schema, "minProperties")) <=
           (json_int_t)json_object_size(properties);
}

/* A schema of the arguments of one function: an object, whatever else it says. */
static json_t *parameters_of(const json_t *function)
{
    const json_t *own = json_object_get(function, "parameters");
    json_t *copy = json_is_object(own) ? json_deep_copy(own) : json_object();
    if (copy && !json_object_get(copy, "type"))
        json_object_set_new(copy, "type", json_string("object"));
    json_object_del(copy, "$schema"); /* the document has one draft */
    if (copy && is_closed(copy))
        json_object_set_new(copy, "additionalProperties", json_false());
    return copy;
}

/* The value at a JSON pointer. */
static json_t *at_pointer(json_t *value, const char *pointer)
{
    while (value && *pointer == '/') {
        char name[256];
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/' && n + 1 < sizeof name; pointer++) {
            const int escaped = *pointer == '~' && (pointer[1] == '0' || pointer[1] == '1');
            name[n++] = escaped ? pointer[1] == '0' ? '~' : '/' : *pointer;
            pointer += escaped;
        }
        name[n] = '\0';
        value =
            json_is_array(value) ? json_array_get(value, (size_t)atoi(name)) : json_object_get(value, name);
    }
    return value;
}

/* Leaves out a keyword, with those that have no sense without it. */
static int drop(json_t *schema, const clef_constraint_problem *problem)
{
    json_t *at = at_pointer(schema, problem->path);
    if (!json_is_object(at) || !json_object_get(at, problem->keyword))
        return 0;
    json_object_del(at, problem->keyword);
    if (!strcmp(problem->keyword, "patternProperties") || !strcmp(problem->keyword, "properties"))
        json_object_del(at, "additionalProperties");
    if (!strcmp(problem->keyword, "if")) {
        json_object_del(at, "then");
        json_object_del(at, "else");
    }
    return 1;
}

/* The parameters of a function as they can be held; what is left out is added to the warnings. */
static clef_status read_parameters(const json_t *function, json_t **out, clef__chars *warnings,
                                   clef_error *err)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *schema = parameters_of(function);
    for (int i = 0; schema && i <= MOST_DROPPED; i++) {
        clef_constraint *c = NULL;
        clef_constraint_problem problem = {{0}, {0}};
        clef_error own = {0};
        char line[512], *text = json_dumps(schema, JSON_COMPACT);
        clef_status s =
            text ? clef_constraint_create(CLEF_CONSTRAIN_SCHEMA, text, strlen(text), NULL, &c, &problem, &own)
                 : CLEF_E_NOMEM;
        free(text);
        clef_constraint_destroy(c);
        if (!s) {
            *out = schema;
            return CLEF_OK;
        }
        if (json_is_true(json_object_get(function, "strict"))) {
            json_decref(schema);
            return clef__fail(err, s, "tool %.60s: %s", name, own.text);
        }
        if (!drop(schema, &problem)) {
            json_decref(schema);
            schema = json_pack("{s:s}", "type", "object");
        }
        snprintf(line, sizeof line, "tool %.60s: %.300s; it is left out\n", name, own.text);
        s = clef__chars_append(warnings, line, strlen(line), err);
        if (s) {
            json_decref(schema);
            return s;
        }
    }
    json_decref(schema);
    return clef__fail(err, CLEF_E_LIMIT, "tool %.60s: more than %d keywords cannot be held", name,
                      MOST_DROPPED);
}

/* The values of Qwen3-Coder's form hold no tag that ends a block: the reader would cut them there. */
static void forbid_tags(maker *m)
{
    static const char tags[] = "</(parameter|function|tool_call)>";
    if (!forms[m->o->format][0].blocks)
        return;
    m->blocks = clef__dfa_not(&m->c->dfas, clef__pattern_dfa(&m->c->dfas, tags, sizeof tags - 1, 0));
    m->c->schema.texts = m->blocks;
}

static clef_status read_schema(maker *m, clef__chars *warnings, clef_error *err)
{
    json_t *parameters[MOST_TOOLS] = {NULL};
    clef_status s = CLEF_OK;
    uint32_t root = 0;
    for (int32_t i = 0; i < m->n && !s; i++)
        s = read_parameters(m->functions[i], &parameters[i], warnings, err);
    json_t *all = s ? NULL : document(m, parameters);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    if (!s && !text)
        s = clef__fail(err, CLEF_E_NOMEM, "tools: out of host memory");
    if (!s) {
        m->c->n_schemas = 1;
        forbid_tags(m);
        clef__schema_read(&m->c->schema, text, strlen(text), &root);
        if (!m->work->status)
            m->root = &m->c->schema.exprs[root].alts.at[0];
    }
    for (int32_t i = 0; i < m->n; i++)
        json_decref(parameters[i]);
    json_decref(all);
    free(text);
    return s;
}

/* The expression of the arguments of function i; -1: of an id. */
static uint32_t expr_of(const maker *m, int32_t i)
{
    char key[16];
    const int n = i < 0 ? snprintf(key, sizeof key, "id") : snprintf(key, sizeof key, "a%d", i);
    return clef__alt_member(m->root, (clef__utf8_text){key, (size_t)n});
}

/* ---- the graph, from its end to its begin --------------------------------------------------------- */

static uint32_t either(maker *m, uint32_t a, uint32_t b)
{
    return clef__graph_add(&m->c->graph, (clef__gnode){.kind = CLEF__G_EITHER, .to = a, .other = b});
}

/* The special token that a text begins with; -1: none. */
static int32_t special_at(const maker *m, const char *text, size_t *n)
{
    const clef_tokenizer *tok = m->o->tok;
    int32_t best = -1;
    *n = 0;
    for (int32_t id = 0; tok && id < tok->vocab.n_tokens; id++) {
        const clef__token *t = &tok->vocab.tokens[id];
        if ((t->flags & CLEF_TOKEN_SPECIAL) && t->n_text > *n && !strncmp(t->text, text, t->n_text)) {
            best = id;
            *n = t->n_text;
        }
    }
    return best;
}

/* A text, and then node `to`. */
static uint32_t literal(maker *m, const char *text, uint32_t to)
{
    size_t n = 0, size = 1;
    uint32_t code = 0;
    if (!*text || m->work->status)
        return to;
    const int32_t id = special_at(m, text, &n);
    if (id >= 0) {
        const uint32_t rest = literal(m, text + n, to);
        return clef__graph_add(&m->c->graph, (clef__gnode){.kind = CLEF__G_TOKEN, .to = rest, .token = id});
    }
    clef__utf8_read(text, strlen(text), &code, &size);
    clef__gnode node = {.kind = CLEF__G_SET, .to = literal(m, text + size, to)};
    clef__set_add(m->work, &node.set, code, code);
    return clef__graph_add(&m->c->graph, node);
}

static uint32_t value(maker *m, uint32_t expr, uint32_t to)
{
    return clef__graph_add(&m->c->graph, (clef__gnode){.kind = CLEF__G_VALUE, .expr = expr, .to = to});
}

/* White space, and then node `to`. There is less of it than in values: max_tokens might cut the call. */
static uint32_t blanks(maker *m, const clef__dfa **dfa, const char *pattern, uint32_t to)
{
    if (!*dfa && !m->work->status)
        *dfa = clef__pattern_dfa(&m->c->dfas, pattern, strlen(pattern), 1);
    return clef__graph_add(&m->c->graph, (clef__gnode){.kind = CLEF__G_TEXT, .dfa = *dfa, .to = to});
}

static uint32_t space(maker *m, uint32_t to)
{
    return blanks(m, &m->space, " ?", to);
}

static uint32_t line(maker *m, uint32_t to)
{
    return blanks(m, &m->line, "( |\\n[ \\t]{0,8})?", to);
}

/* "NAME": and then node `to`; the name is written in one way, without escapes. */
static uint32_t key(maker *m, const char *name, uint32_t to)
{
    return literal(m, "\"", literal(m, name, literal(m, "\"", space(m, literal(m, ":", space(m, to))))));
}

static uint32_t comma(maker *m, uint32_t to)
{
    return space(m, literal(m, ",", line(m, to)));
}

/* {"name": NAME, "arguments": {..}} */
static uint32_t object(maker *m, const form *f, int32_t i, uint32_t to)
{
    json_t *name = json_object_get(m->functions[i], "name");
    char *text = json_dumps(name, JSON_ENCODE_ANY);
    if (!text)
        clef__work_fail(m->work, CLEF_E_NOMEM, "out of host memory");
    to = key(m, f->arguments_key, value(m, expr_of(m, i), line(m, literal(m, "}", to))));
    if (f->has_id)
        to = either(m, to, key(m, "tool_call_id", value(m, expr_of(m, -1), comma(m, to))));
    to = key(m, f->name_key, literal(m, text ? text : "", comma(m, to)));
    if (f->has_id)
        to = either(m, to, key(m, "tool_call_id", value(m, expr_of(m, -1), comma(m, to))));
    free(text);
    return literal(m, "{", line(m, to));
}

/* All texts without `stop` inside. */
static const clef__dfa *texts_without(maker *m, const char *stop)
{
    char pattern[256];
    size_t n = 0;
    for (size_t i = 0; stop[i] && n + 2 < sizeof pattern; i++) {
        if (strchr("\\^$.|?*+()[]{}/", stop[i]))
            pattern[n++] = '\\';
        pattern[n++] = stop[i];
    }
    return clef__dfa_not(&m->c->dfas, clef__pattern_dfa(&m->c->dfas, pattern, n, 0));
}

static uint32_t free_text(maker *m, const clef__dfa *dfa, uint32_t to)
{
    return clef__graph_add(&m->c->graph, (clef__gnode){.kind = CLEF__G_TEXT, .dfa = dfa, .to = to});
}

/* All texts that are not read as JSON where they may be: they are not JSON, or a string. */
static const clef__dfa *texts_not_json(maker *m)
{
    static const char json[] = "\\s*(null|true|false|-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+\\-]?[0-9]+)?|"
                               "\\[[^]*\\]|\\{[^]*\\})\\s*";
    return clef__dfa_not(&m->c->dfas, clef__pattern_dfa(&m->c->dfas, json, sizeof json - 1, 1));
}

/* The alternatives of an expression that are not strings, as an expression; 0: there are none. */
static uint32_t without_strings(maker *m, uint32_t expr)
{
    clef__schema *schema = &m->c->schema;
    clef__expr *e = &schema->exprs[expr], others = {.state = 2, .live = 1};
    others.alts.at = clef__work_alloc(m->work, (e->alts.n + 1) * sizeof *others.alts.at);
    for (uint32_t i = 0; i < e->alts.n && !m->work->status; i++)
        if (e->alts.at[i].kind != CLEF__ALT_STRING)
            others.alts.at[others.alts.n++] = e->alts.at[i];
    if (!others.alts.n || others.alts.n == e->alts.n)
        return others.alts.n ? expr : 0;
    if (!clef__work_grow(m->work, &schema->exprs, schema->n_exprs, &schema->room_exprs, sizeof others))
        return 0;
    schema->exprs[schema->n_exprs] = others;
    return schema->n_exprs++;
}

/* VALUE\n</parameter>\n: texts are written as they are, other values as JSON, each as the reader takes it; 0:
 * there is no such value. */
static uint32_t parameter_value(maker *m, uint32_t expr, int takes_text, uint32_t to)
{
    const clef__alts alts = m->c->schema.exprs[expr].alts;
    const uint32_t end = literal(m, "\n</parameter>\n", to);
    uint32_t start = 0;
    for (uint32_t i = 0; i < alts.n && takes_text && !m->work->status; i++) {
        if (alts.at[i].kind != CLEF__ALT_STRING)
            continue;
        const clef__alt *a = &alts.at[i];
        const clef__dfa *texts = clef__dfa_join(
            &m->c->dfas, clef__dfa_length(&m->c->dfas, a->dfa, a->min, a->max), m->blocks, CLEF__AND);
        if (takes_text < 0)
            texts = clef__dfa_join(&m->c->dfas, texts, texts_not_json(m), CLEF__AND);
        if (!texts->n_states)
            continue;
        const uint32_t text = free_text(m, texts, end);
        start = start ? either(m, start, text) : text;
    }
    const uint32_t other = takes_text > 0 ? 0 : takes_text < 0 ? without_strings(m, expr) : expr;
    if (takes_text <= 0 && (other || expr == 0)) {
        const uint32_t json = value(m, other, end);
        start = start ? either(m, start, json) : json;
    }
    return start;
}

/* <parameter=NAME>\nVALUE\n</parameter>\n of function i. */
static uint32_t parameter(maker *m, int32_t i, const clef__prop *p, uint32_t to)
{
    const char *function = json_string_value(json_object_get(m->functions[i], "name"));
    const size_t from = clef__json_blank(m->o->tools, m->o->tools_bytes, 0);
    const clef__slice tools = {m->o->tools + from, m->o->tools_bytes - from};
    const char *name = clef__work_copy(m->work, p->name.p, p->name.n);
    if (!name)
        return 0;
    const uint32_t start = parameter_value(m, p->expr, clef__tool_takes_text(tools, function, name), to);
    if (strpbrk(name, ">\n") || (!start && p->required))
        clef__work_fail(m->work, CLEF_E_UNSUPPORTED,
                        "tool %.60s: parameter %.60s has no value or name that %s can hold", function, name,
                        clef_tool_format_name(m->o->format));
    if (!start)
        return to;
    const uint32_t named = literal(m, "<parameter=", literal(m, name, literal(m, ">\n", start)));
    return p->required ? named : either(m, named, to);
}

static uint32_t blocks(maker *m, int32_t function, uint32_t to)
{
    const clef__alts alts = m->c->schema.exprs[expr_of(m, function)].alts;
    const clef__alt *object = NULL;
    for (uint32_t i = 0; i < alts.n; i++)
        object = alts.at[i].kind == CLEF__ALT_OBJECT ? &alts.at[i] : object;
    for (uint32_t i = object ? object->n_props : 0; i-- > 0 && !m->work->status;)
        to = parameter(m, function, &object->props[i], to);
    return to;
}

static uint32_t gemma_literal(void *user, const char *text, uint32_t to)
{
    return literal(user, text, to);
}

/* {x:1,y:<|"|>text<|"|>} */
static uint32_t gemma(maker *m, uint32_t arguments, uint32_t to)
{
    clef__gemma *g = &m->gemma;
    if (!g->rules)
        *g = (clef__gemma){.c = m->c,
                           .literal = gemma_literal,
                           .user = m,
                           .rules = clef__work_alloc(m->work, m->c->schema.n_exprs * sizeof *g->rules)};
    return m->work->status ? 0 : clef__gemma_value(g, arguments, to);
}

static uint32_t call(maker *m, const form *f, int32_t i, uint32_t to)
{
    const char *name = json_string_value(json_object_get(m->functions[i], "name"));
    to = literal(m, f->close, to);
    if (f->name_key)
        to = object(m, f, i, to);
    else if (m->o->format == CLEF_TOOLS_GEMMA4)
        to = literal(m, name, gemma(m, expr_of(m, i), to));
    else if (f->blocks)
        to = literal(m, name, literal(m, f->middle, blocks(m, i, to)));
    else
        to = literal(m, name, literal(m, f->middle, value(m, expr_of(m, i), to)));
    return literal(m, f->open, to);
}

/* Calls of one form: one, or several if that is allowed. */
static uint32_t calls(maker *m, const form *f)
{
    const uint32_t end = literal(m, f->end, 0);
    const uint32_t after = either(m, end, end); /* another way is added when the first call is known */
    uint32_t first = 0, more = 0;
    for (int32_t i = 0; i < m->n && !m->work->status; i++) {
        const uint32_t one = call(m, f, i, after);
        first = first ? either(m, first, one) : one;
    }
    const int several = m->o->parallel && !f->single && m->o->choice != CLEF_TOOL_CHOICE_NAMED;
    if (several && !m->work->status) {
        more = literal(m, f->between, first);
        if (!m->work->status)
            m->c->graph.nodes[after].other = more;
    }
    return literal(m, f->begin, first);
}

/* gpt-oss writes messages: reasoning, then a call or the answer. Where calls are required and the vocabulary
 * has no token that ends a message, there is no reasoning: nothing would end it. */
static uint32_t harmony(maker *m, uint32_t start)
{
    clef__graph *g = &m->c->graph;
    size_t n;
    if (m->o->choice != CLEF_TOOL_CHOICE_AUTO && m->o->tok && special_at(m, "<|end|>", &n) < 0)
        return start;
    const uint32_t loop = either(m, start, start); /* its other way is added below */
    const uint32_t rest = literal(m, "<|end|><|start|>assistant", loop);
    const uint32_t text = free_text(m, texts_without(m, "<|end|>"), rest);
    uint32_t others = literal(m, "<|channel|>analysis<|message|>", text);
    if (m->o->choice == CLEF_TOOL_CHOICE_AUTO) {
        others = either(m, others, literal(m, "<|channel|>commentary<|message|>", text));
        others = either(m, others,
                        literal(m, "<|channel|>final<|message|>", free_text(m, texts_without(m, "<|"), 0)));
        others = either(m, others, free_text(m, texts_without(m, "<|"), 0));
    }
    if (!m->work->status)
        g->nodes[loop].other = others;
    return loop;
}

/* Text without the tag of a call, then calls or the end. Special tokens other than the tags may be in it,
 * such as those around reasoning. */
static uint32_t text_or(maker *m, uint32_t start)
{
    const clef__tags *tags = clef__tool_tags(m->o->format);
    const clef__dfa *texts = clef__dfa_any(&m->c->dfas);
    clef__gnode special = {.kind = CLEF__G_SPECIAL};
    size_t n = 0;
    if (tags->is_bare) { /* an object at the start is a call, and what begins otherwise is text */
        static const char other[] = "[^{\\s][^]*";
        texts = clef__pattern_dfa(&m->c->dfas, other, sizeof other - 1, 1);
    }
    for (int k = 0; k < CLEF__MAX_CALL_TAGS && tags->call[k]; k++) {
        const int32_t id = special_at(m, tags->call[k], &n);
        if (id >= 0 && n == strlen(tags->call[k]))
            special.except[k] = id + 1;
        else
            texts = clef__dfa_join(&m->c->dfas, texts, texts_without(m, tags->call[k]), CLEF__AND);
    }
    const uint32_t end = either(m, 0, tags->is_bare ? 0 : start); /* its other way is a special token */
    const uint32_t text = free_text(m, texts, end);
    special.to = either(m, text, tags->is_bare ? start : end);
    const uint32_t token = clef__graph_add(&m->c->graph, special);
    const uint32_t next = either(m, 0, token); /* first: it may move the nodes */
    if (!m->work->status)
        m->c->graph.nodes[end].to = next;
    return either(m, either(m, start, text), either(m, 0, token));
}

static void build(maker *m)
{
    const form *list = forms[m->o->format];
    uint32_t start = 0;
    for (int k = 0; k < MOST_FORMS && list[k].open && !m->work->status; k++) {
        const uint32_t one = calls(m, &list[k]);
        start = start ? either(m, start, one) : one;
    }
    if (m->o->format == CLEF_TOOLS_HARMONY)
        start = harmony(m, start);
    else if (m->o->choice == CLEF_TOOL_CHOICE_AUTO)
        start = text_or(m, start);
    m->c->start = start;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static clef_status read_tools(maker *m, const json_t *tools, clef_error *err)
{
    const json_t *tool;
    size_t i;
    if (!json_is_array(tools))
        return clef__fail(err, CLEF_E_FORMAT, "tools: expected a JSON array");
    json_array_foreach(tools, i, tool) {
        json_t *function = json_object_get(tool, "function");
        function = function ? function : (json_t *)tool;
        const char *name = json_string_value(json_object_get(function, "name"));
        if (!name || !*name)
            return clef__fail(err, CLEF_E_FORMAT, "tools: item %zu has no name", i + 1);
        if (m->o->choice == CLEF_TOOL_CHOICE_NAMED && strcmp(name, m->o->name ? m->o->name : "") != 0)
            continue;
        if (m->n == MOST_TOOLS)
            return clef__fail(err, CLEF_E_LIMIT, "tools: more than %d", MOST_TOOLS);
        m->functions[m->n++] = function;
    }
    if (!m->n)
        return clef__fail(err, CLEF_E_ARG, "tools: no function %.60s",
                          m->o->choice == CLEF_TOOL_CHOICE_NAMED && m->o->name ? m->o->name : "is given");
    return CLEF_OK;
}

static clef_status check_format(const clef_tool_constraint_opts *o, clef_error *err)
{
    if ((unsigned)o->format >= CLEF_N_TOOL_FORMATS || o->format == CLEF_TOOLS_NONE)
        return clef__fail(err, CLEF_E_ARG,
                          "tools: the format of calls is not known; --tool-format names one");
    if (!forms[o->format][0].open)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "tools: calls in the format %s cannot be constrained yet",
                          clef_tool_format_name(o->format));
    return CLEF_OK;
}

clef_status clef_tool_constraint_create(const clef_tool_constraint_opts *opts, clef_constraint **out,
                                        char **warnings, clef_error *err)
{
    static const clef_constraint_opts none = {0};
    maker m = {.o = opts};
    clef_error own = {0};
    clef__chars reported = {0};
    json_error_t problem;
    *out = NULL;
    if (warnings)
        *warnings = NULL;
    clef_status s = check_format(opts, err);
    if (s)
        return s;
    json_t *tools = json_loadb(opts->tools, opts->tools_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!tools)
        return clef__fail(err, CLEF_E_FORMAT, "tools: line %d: %s", problem.line, problem.text);
    s = read_tools(&m, tools, err);
    if (!s && !(m.c = clef__constraint_new("tools", &none, &own)))
        s = clef__fail(err, CLEF_E_NOMEM, "tools: out of host memory");
    if (!s) {
        m.work = &m.c->work;
        s = read_schema(&m, &reported, err);
        if (!s && !m.work->status)
            build(&m);
    }
    if (s)
        clef_constraint_destroy(m.c);
    else
        s = clef__constraint_seal(m.c, out, NULL, err);
    json_decref(tools);
    if (!s && warnings && reported.n && !clef__chars_append(&reported, "", 1, NULL))
        *warnings = reported.at;
    else
        clef__chars_finish(&reported);
    return s;
}

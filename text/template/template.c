/* Parsing a template, and rendering a conversation with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "graph/fail.h"
#include "runtime/os/os.h"
#include "text/template/engine.h"
#include "text/template/source.h"
#include "text/tools/json_text.h"

struct clef_template {
    clef__tpl state; /* holds the tree's memory */
    clef__node *body;
    char *name, *source;
    size_t n_bytes;
};

static int is_text(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t used =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c);
        if (used <= 0 || c == 0)
            return 0;
        at += (size_t)used;
    }
    return 1;
}

clef_status clef_template_parse(const char *source, size_t n_bytes, const char *name, clef_template **out,
                                clef_error *err)
{
    *out = NULL;
    if (n_bytes > CLEF__TPL_MAX_SOURCE)
        return clef__fail(err, CLEF_E_LIMIT, "%s: a template of more than %d KiB", name,
                          CLEF__TPL_MAX_SOURCE >> 10);
    if (!is_text(source, n_bytes))
        return clef__fail(err, CLEF_E_FORMAT, "%s: the template is not UTF-8 text", name);
    clef_template *tpl = calloc(1, sizeof *tpl);
    if (tpl) {
        tpl->name = malloc(strlen(name) + 1);
        tpl->source = malloc(n_bytes + 1);
    }
    if (!tpl || !tpl->name || !tpl->source) {
        clef_template_destroy(tpl);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the template", name);
    }
    memcpy(tpl->name, name, strlen(name) + 1);
    memcpy(tpl->source, source, n_bytes);
    tpl->source[n_bytes] = '\0';
    tpl->n_bytes = n_bytes;
    tpl->state = (clef__tpl){.name = tpl->name, .err = err, .line = 1};
    clef__tokens tokens = {0};
    clef__tpl_lex(&tpl->state, source, n_bytes, &tokens);
    tpl->body = clef__tpl_parse(&tpl->state, &tokens);
    const clef_status s = tpl->state.status;
    tpl->state.err = NULL;
    if (s)
        clef_template_destroy(tpl);
    else
        *out = tpl;
    return s;
}

void clef_template_destroy(clef_template *tpl)
{
    if (!tpl)
        return;
    clef__tpl_finish(&tpl->state);
    free(tpl->name);
    free(tpl->source);
    free(tpl);
}

const char *clef_template_source(const clef_template *tpl, size_t *n_bytes)
{
    *n_bytes = tpl->n_bytes;
    return tpl->source;
}

/* ---- what the template sees ------------------------------------------------------------------- */

static void define(clef__tpl *t, const char *name, clef__value value)
{
    const size_t n = strlen(name);
    char *copy = clef__tpl_alloc(t, n + 1);
    if (copy)
        clef__scope_set(t, t->globals, clef__str_of(t, memcpy(copy, name, n), n, 0), value);
}

/* Arguments of a call that are a text with an object in it become that object. */
static void parse_arguments(clef__tpl *t, clef__value message)
{
    const clef__value *calls = message.kind == CLEF__DICT ? clef__dict_get(message.d, "tool_calls") : NULL;
    for (size_t i = 0; calls && calls->kind == CLEF__LIST && i < calls->l->n && !t->status; i++) {
        const clef__value call = calls->l->at[i];
        const clef__value *function = call.kind == CLEF__DICT ? clef__dict_get(call.d, "function") : NULL;
        const clef__value of = function ? *function : call;
        const clef__value *arguments = of.kind == CLEF__DICT ? clef__dict_get(of.d, "arguments") : NULL;
        if (!arguments || arguments->kind != CLEF__STRING)
            continue;
        const clef__str *text = arguments->s;
        clef__slice slice = {text->p, text->n};
        const size_t from = clef__json_blank(slice.at, slice.n, 0),
                     end = clef__json_end(slice.at, slice.n, from);
        if (end && slice.at[from] == '{' && clef__json_blank(slice.at, slice.n, end) == slice.n)
            clef__dict_set(t, of.d, clef__string(t, "arguments"),
                           clef__value_of_json(t, text->p, text->n, "arguments", 1));
    }
}

/* A content that is a list of text parts becomes one string. */
static void join_parts(clef__tpl *t, clef__value message)
{
    const clef__value *content = message.kind == CLEF__DICT ? clef__dict_get(message.d, "content") : NULL;
    clef__out o = {0};
    if (!content || content->kind != CLEF__LIST)
        return;
    for (size_t i = 0; i < content->l->n; i++) {
        const clef__value part = content->l->at[i];
        const clef__value *text = part.kind == CLEF__DICT ? clef__dict_get(part.d, "text") : NULL;
        if (!text || text->kind != CLEF__STRING)
            return; /* the template may know what it is */
        if (i)
            clef__out_add(t, &o, "\n", 1, 1);
        clef__out_str(t, &o, text->s);
    }
    clef__dict_set(t, message.d, clef__string(t, "content"), clef__out_value(t, &o));
}

/* Seconds since 1970 of the date, or of now in local time. */
static int64_t read_date(clef__tpl *t, const char *date)
{
    int y, m, d, n = 0;
    if (!date)
        return clef__os_local_time();
    if (sscanf(date, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || date[n] || n != 10 || m < 1 || m > 12 ||
        d < 1 || d > 31) {
        t->status = clef__fail(t->err, CLEF_E_ARG, "date '%.20s': expected YYYY-MM-DD", date);
        return 0;
    }
    const int64_t year = m > 2 ? y : y - 1, of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return (year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719468) * 86400;
}

static void define_all(clef__tpl *t, const clef_template_opts *opts)
{
    if (!is_text(opts->messages, opts->messages_bytes) ||
        (opts->tools && !is_text(opts->tools, opts->tools_bytes)))
        clef__tpl_fail(t, CLEF_E_FORMAT, "messages or tools are not UTF-8 text");
    const clef__value messages = clef__value_of_json(t, opts->messages, opts->messages_bytes, "messages", 1);
    if (!t->status && messages.kind != CLEF__LIST)
        clef__tpl_fail(t, CLEF_E_FORMAT, "messages: expected a JSON array, got '%s'",
                       clef__kind_name(messages));
    for (size_t i = 0; !t->status && i < messages.l->n; i++) {
        if (messages.l->at[i].kind != CLEF__DICT)
            clef__tpl_fail(t, CLEF_E_FORMAT, "messages: item %zu: expected an object, got '%s'", i,
                           clef__kind_name(messages.l->at[i]));
        parse_arguments(t, messages.l->at[i]);
        if (opts->join_parts)
            join_parts(t, messages.l->at[i]);
    }
    clef__define_globals(t);
    if (opts->model)
        clef__define_special_tokens(t, opts->model);
    define(t, "messages", messages);
    define(t, "add_generation_prompt", clef__bool(!opts->no_generation_prompt));
    define(t, "tools", clef__none); /* as transformers passes both, also where there are none */
    define(t, "documents", clef__none);
    if (opts->tools) {
        const clef__value tools = clef__value_of_json(t, opts->tools, opts->tools_bytes, "tools", 1);
        if (!t->status && tools.kind != CLEF__LIST)
            clef__tpl_fail(t, CLEF_E_FORMAT, "tools: expected a JSON array, got '%s'",
                           clef__kind_name(tools));
        define(t, "tools", tools);
    }
    for (int32_t i = 0; i < opts->n_args && !t->status; i++)
        define(t, opts->args[i].name,
               clef__value_of_json(t, opts->args[i].json, strlen(opts->args[i].json), opts->args[i].name, 0));
}

/* ---- what comes out
 * ---------------------------------------------------------------------------------------
 */

static clef_status take_output(const clef__out *o, clef_rendered *out, clef_error *err)
{
    int32_t n = o->n > 0;
    for (size_t i = 1; i < o->n; i++)
        n += o->marks[i] != o->marks[i - 1];
    out->text = malloc(o->n + 1);
    out->parts = malloc(((size_t)n + 1) * sizeof *out->parts);
    if (!out->text || !out->parts) {
        clef_rendered_finish(out);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a text of %zu bytes", o->n);
    }
    if (o->n)
        memcpy(out->text, o->p, o->n);
    out->text[o->n] = '\0';
    out->n_bytes = o->n;
    for (size_t i = 0; i < o->n; i++) {
        if (i == 0 || o->marks[i] != o->marks[i - 1])
            out->parts[out->n_parts++] = (clef_template_part){.begin = i, .from_message = o->marks[i]};
        out->parts[out->n_parts - 1].end = i + 1;
    }
    return CLEF_OK;
}

clef_status clef_template_render(const clef_template *tpl, const clef_template_opts *opts, clef_rendered *out,
                                 clef_error *err)
{
    clef__out text = {0};
    clef__tpl t = {.name = tpl->name, .err = err, .line = 1, .out = &text};
    *out = (clef_rendered){0};
    t.globals = t.scope = clef__scope_new(&t, NULL);
    if (!t.status)
        t.date = read_date(&t, opts->date);
    if (!t.status)
        define_all(&t, opts);
    t.scope = clef__scope_new(&t, t.globals);
    if (!t.status)
        clef__own_names(&t, tpl->body);
    if (!t.status)
        clef__exec(&t, tpl->body);
    const clef_status s = t.status ? t.status : take_output(&text, out, err);
    clef__tpl_finish(&t);
    return s;
}

void clef_rendered_finish(clef_rendered *rendered)
{
    if (!rendered)
        return;
    free(rendered->text);
    free(rendered->parts);
    *rendered = (clef_rendered){0};
}

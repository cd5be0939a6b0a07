/* The list of calls, and calls that are written as JSON objects. */
#include "text/tools/calls.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

static void call_free(clef__call *call)
{
    free(call->id);
    free(call->name);
    free(call->arguments);
}

void clef__calls_cut(clef__calls *calls, int32_t n)
{
    while (calls->n > n)
        call_free(&calls->at[--calls->n]);
    if (n == 0) {
        free(calls->at);
        *calls = (clef__calls){0};
    }
}

/* Appends a call, and takes over its strings, also on failure. CLEF_E_NOMEM. */
static clef_status calls_add(clef__calls *calls, clef__call call, clef_error *err)
{
    if (calls->n == calls->cap) {
        const int32_t cap = 2 * calls->cap + 4;
        clef__call *grown = realloc(calls->at, (size_t)cap * sizeof *grown);
        if (!grown) {
            call_free(&call);
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %d tool calls", (int)cap);
        }
        calls->at = grown;
        calls->cap = cap;
    }
    calls->at[calls->n++] = call;
    return CLEF_OK;
}

/* ---- text ------------------------------------------------------------------------------------- */

int clef__begins(clef__slice text, size_t at, const char *what)
{
    const size_t n = strlen(what), left = text.n - at, least = n < left ? n : left;
    return memcmp(text.at + at, what, least) ? 0 : least == n ? 1 : 2;
}

int clef__find(clef__slice text, const char *what, size_t *searched, size_t *at)
{
    const size_t n = strlen(what);
    for (; *searched + n <= text.n; ++*searched) {
        const char *next = memchr(text.at + *searched, what[0], text.n - n - *searched + 1);
        if (!next) {
            *searched = text.n - n + 1;
            return 0;
        }
        *searched = (size_t)(next - text.at);
        if (memcmp(next, what, n) == 0) {
            *at = *searched;
            return 1;
        }
    }
    return 0;
}

void clef__text_add(clef__text *text, const char *bytes, size_t n)
{
    if (text->n + n + 1 > text->cap) {
        const size_t cap = 2 * text->cap + n + 64;
        char *grown = text->failed ? NULL : realloc(text->at, cap);
        text->failed |= !grown;
        if (!grown)
            return;
        text->at = grown;
        text->cap = cap;
    }
    if (n)
        memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

void clef__text_free(clef__text *text)
{
    free(text->at);
    *text = (clef__text){0};
}

void clef__text_add_string(clef__text *text, const char *bytes, size_t n)
{
    static const char hex[] = "0123456789abcdef", plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    clef__text_add(text, "\"", 1);
    for (size_t i = 0, from = 0; i <= n; i++) {
        const unsigned char c = i < n ? (unsigned char)bytes[i] : 0;
        if (i < n && c >= 0x20 && c != '"' && c != '\\')
            continue;
        clef__text_add(text, bytes + from, i - from);
        from = i + 1;
        if (i == n)
            break;
        const char *known = c ? strchr(plain, c) : NULL;
        if (known)
            clef__text_add(text, (const char[]){'\\', letters[known - plain]}, 2);
        else
            clef__text_add(text, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    }
    clef__text_add(text, "\"", 1);
}

/* ---- what the tools say ----------------------------------------------------------------------- */

/* Finds the function of this name: the "function" of a tool, or the tool itself. */
static int find_function(clef__slice tools, const char *name, clef__slice *function)
{
    clef__slice tool, inner, value;
    for (size_t at = 0; tools.n && clef__json_item(tools, &at, &tool);) {
        *function = clef__json_member(tool, "function", &inner) ? inner : tool;
        if (clef__json_member(*function, "name", &value) && clef__json_string_is(value, name))
            return 1;
    }
    return 0;
}

int clef__tool_is_known(clef__slice tools, const char *name)
{
    clef__slice function;
    return !tools.n || find_function(tools, name, &function);
}

int clef__tool_parameter(clef__slice tools, const char *function, const char *parameter, clef__slice *all,
                         clef__slice *schema)
{
    clef__slice tool, properties;
    return find_function(tools, function, &tool) && clef__json_member(tool, "parameters", all) &&
           clef__json_member(*all, "properties", &properties) &&
           clef__json_member(properties, parameter, schema);
}

/* ---- calls ------------------------------------------------------------------------------------ */

/* A malloced text that ends with NUL. */
static char *copy_of(clef__slice text)
{
    char *copy = malloc(text.n + 1);
    if (copy) {
        memcpy(copy, text.at, text.n);
        copy[text.n] = '\0';
    }
    return copy;
}

/* The object's text; *out is NULL when the arguments are not an object, nor a string with an object in it. */
static clef_status object_text(clef__slice arguments, char **out, clef_error *err)
{
    *out = NULL;
    if (arguments.n && arguments.at[0] == '{') {
        *out = clef__json_end(arguments.at, arguments.n, 0) == arguments.n ? copy_of(arguments) : NULL;
        return *out || clef__json_end(arguments.at, arguments.n, 0) != arguments.n
                   ? CLEF_OK
                   : clef__fail(err, CLEF_E_NOMEM, "no memory for the arguments of a tool call");
    }
    const clef_status s = clef__json_text_of(arguments, out, err);
    if (s || !*out)
        return s;
    const size_t n = strlen(*out), from = clef__json_blank(*out, n, 0),
                 to = from < n && (*out)[from] == '{' ? clef__json_end(*out, n, from) : 0;
    if (!to || clef__json_blank(*out, n, to) != n) {
        free(*out);
        *out = NULL;
    }
    return CLEF_OK;
}

clef_status clef__call_from_arguments(clef__slice name, clef__slice id, clef__slice arguments,
                                      clef__calls *calls, int *is_call, clef_error *err)
{
    clef__call call = {0};
    *is_call = 0;
    while (name.n && (name.at[name.n - 1] == ' ' || name.at[name.n - 1] == '\n'))
        name.n--;
    if (name.n == 0 || memchr(name.at, 0, name.n) || memchr(id.at ? id.at : "", 0, id.n))
        return CLEF_OK;
    const clef_status s = object_text(arguments, &call.arguments, err);
    if (s || !call.arguments)
        return s;
    call.name = copy_of(name);
    call.id = id.n ? copy_of(id) : NULL;
    if (!call.name || (id.n && !call.id)) {
        call_free(&call);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a tool call");
    }
    *is_call = 1;
    return calls_add(calls, call, err);
}

static int first_member(clef__slice object, const char *const names[], clef__slice *out)
{
    for (; *names; names++)
        if (clef__json_member(object, *names, out))
            return 1;
    return 0;
}

clef_status clef__call_from_object(clef__slice object, clef__calls *calls, int *is_call, clef_error *err)
{
    static const char *const names[] = {"name", "tool_name", NULL},
                             *const bodies[] = {"arguments", "parameters", NULL},
                             *const ids[] = {"id", "tool_call_id", NULL};
    clef__slice inner, name, body, id;
    const clef__slice all = object;
    char *name_text = NULL, *id_text = NULL;
    *is_call = 0;
    if (clef__json_member(object, "function", &inner) && inner.at[0] == '{') /* as OpenAI writes calls */
        object = inner;
    if (!first_member(object, names, &name) || !first_member(object, bodies, &body))
        return CLEF_OK;
    clef_status s = clef__json_text_of(name, &name_text, err);
    if (!s && first_member(all, ids, &id))
        s = clef__json_text_of(id, &id_text, err);
    if (!s && name_text)
        s = clef__call_from_arguments((clef__slice){name_text, strlen(name_text)},
                                      (clef__slice){id_text, id_text ? strlen(id_text) : 0}, body, calls,
                                      is_call, err);
    free(name_text);
    free(id_text);
    return s;
}

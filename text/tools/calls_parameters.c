/* Calls as Qwen3-Coder writes them: tags for the function and each parameter, and values as plain text. */
#include <string.h>

#include "text/tools/calls.h"

#include "graph/fail.h"

static const char function_tag[] = "<function=", function_end[] = "</function>",
                  parameter_tag[] = "<parameter=", parameter_end[] = "</parameter>",
                  call_end[] = "</tool_call>";

static int is_type(clef__slice type, const char *name)
{
    const size_t n = strlen(name);
    return type.n == n + 2 && memcmp(type.at + 1, name, n) == 0;
}

enum { MOST_LEVELS = 16 };

/* What a reference such as #/$defs/city names in the parameters of a function; 0: not known. */
static int follow(clef__slice parameters, clef__slice reference, clef__slice *schema)
{
    char name[256];
    if (reference.n < 4 || memcmp(reference.at, "\"#/", 3) != 0)
        return 0;
    *schema = parameters;
    for (size_t at = 3, n; at < reference.n; at += n + 1) {
        for (n = 0; reference.at[at + n] != '/' && at + n + 1 < reference.n; n++)
            ;
        if (n >= sizeof name || memchr(reference.at + at, '~', n))
            return 0;
        memcpy(name, reference.at + at, n);
        name[n] = '\0';
        if (schema->at[0] != '{' || !clef__json_member(*schema, name, schema))
            return 0;
    }
    return 1;
}

static int takes_text(clef__slice all, clef__slice schema, int level);

/* What all items agree on: values, or schemas; -1: nothing. */
static int of_items(clef__slice all, clef__slice list, int are_values, int level)
{
    clef__slice each;
    int found = -1, n = 0;
    for (size_t at = 0; list.at[0] == '[' && clef__json_item(list, &at, &each); n++) {
        const int one = are_values ? each.at[0] == '"' : takes_text(all, each, level);
        if (n && one != found)
            return -1;
        found = one;
    }
    return found;
}

/* 1 when the schema's type is "string", or a list of types that has it, or its values are strings; 0 when it
 * has others only; -1 when the schema does not say. */
static int takes_text(clef__slice all, clef__slice schema, int level)
{
    clef__slice type, each;
    if (schema.at[0] != '{' || level > MOST_LEVELS)
        return -1;
    if (clef__json_member(schema, "$ref", &each) && follow(all, each, &each))
        return takes_text(all, each, level + 1);
    if (clef__json_member(schema, "type", &type) && type.at[0] == '"')
        return is_type(type, "string");
    if (clef__json_member(schema, "type", &type)) {
        for (size_t at = 0; type.at[0] == '[' && clef__json_item(type, &at, &each);)
            if (is_type(each, "string"))
                return 1;
        return 0;
    }
    if (clef__json_member(schema, "const", &each))
        return each.at[0] == '"';
    if (clef__json_member(schema, "enum", &each))
        return of_items(all, each, 1, level + 1);
    if (clef__json_member(schema, "anyOf", &each) || clef__json_member(schema, "oneOf", &each))
        return of_items(all, each, 0, level + 1);
    return -1;
}

int clef__tool_takes_text(clef__slice tools, const char *function, const char *parameter)
{
    clef__slice all, schema;
    return clef__tool_parameter(tools, function, parameter, &all, &schema) ? takes_text(all, schema, 0) : -1;
}

/* The value as JSON: what the schema says. Python's names of constants are known, too. Without a schema, text
 * that is JSON but no string is taken as JSON. */
static void add_value(clef__text *out, clef__slice value, int is_string)
{
    static const char *const python[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const size_t from = clef__json_blank(value.at, value.n, 0), to = clef__json_end(value.at, value.n, from);
    const int is_json = to && clef__json_blank(value.at, value.n, to) == value.n && value.at[from] != '"';
    if (is_string != 1 && to &&
        (is_json || (is_string == 0 && clef__json_blank(value.at, value.n, to) == value.n))) {
        clef__text_add(out, value.at + from, to - from);
        return;
    }
    for (int i = 0; i < 3 && is_string == 0; i++)
        if (value.n == strlen(python[i][0]) && memcmp(value.at, python[i][0], value.n) == 0) {
            clef__text_add(out, python[i][1], strlen(python[i][1]));
            return;
        }
    clef__text_add_string(out, value.at, value.n);
}

/* One line end after the opening tag and one before the closing tag do not belong to the value. */
static clef__slice without_line_ends(clef__slice value)
{
    if (value.n && value.at[0] == '\n')
        value = (clef__slice){value.at + 1, value.n - 1};
    if (value.n && value.at[value.n - 1] == '\n')
        value.n--;
    return value;
}

/* Reads <parameter=x>..</parameter> at the start of `rest`, and moves it on. Returns 0 when there is none. */
static int next_parameter(clef__slice *rest, clef__slice *name, clef__slice *value)
{
    const size_t from = clef__json_blank(rest->at, rest->n, 0);
    size_t searched = from + sizeof parameter_tag - 1, name_end, end, begin;
    if (clef__begins(*rest, from, parameter_tag) != 1 || !clef__find(*rest, ">", &searched, &name_end))
        return 0;
    *name =
        (clef__slice){rest->at + from + sizeof parameter_tag - 1, name_end - from - sizeof parameter_tag + 1};
    begin = searched = name_end + 1;
    if (!clef__find(*rest, parameter_end, &searched, &end))
        return 0;
    *value = without_line_ends((clef__slice){rest->at + begin, end - begin});
    const size_t used = end + sizeof parameter_end - 1;
    *rest = (clef__slice){rest->at + used, rest->n - used};
    return 1;
}

/* The call in <function=f>..</function>: `body` is what is between. */
static clef_status add_call(clef__block *b, clef__slice name, clef__slice body, int *is_call, clef_error *err)
{
    clef__text json = {0}, key = {0}, function = {0};
    clef__slice parameter, value;
    *is_call = 0;
    if (name.n == 0)
        return CLEF_OK;
    clef__text_add(&function, name.at, name.n);
    clef__text_add(&json, "{", 1);
    while (next_parameter(&body, &parameter, &value)) {
        key.n = 0;
        clef__text_add(&key, parameter.at, parameter.n);
        if (json.n > 1)
            clef__text_add(&json, ", ", 2);
        clef__text_add_string(&json, parameter.at, parameter.n);
        clef__text_add(&json, ": ", 2);
        add_value(&json, value,
                  key.failed || function.failed ? -1 : clef__tool_takes_text(b->tools, function.at, key.at));
    }
    clef__text_add(&json, "}", 1);
    const int failed = json.failed || key.failed || function.failed;
    clef_status s =
        failed ? clef__fail(err, CLEF_E_NOMEM, "no memory for the arguments of a tool call") : CLEF_OK;
    if (!s && clef__json_blank(body.at, body.n, 0) == body.n)
        s = clef__call_from_arguments(name, (clef__slice){0}, (clef__slice){json.at, json.n}, b->calls,
                                      is_call, err);
    clef__text_free(&json);
    clef__text_free(&key);
    clef__text_free(&function);
    return s;
}

clef_status clef__read_parameters(clef__block *b, clef_error *err)
{
    const int32_t n_calls = b->calls->n;
    size_t stop, at = 0, end, searched, name_end;
    int is_call = 1;
    clef_status s = CLEF_OK;
    b->found = CLEF__MORE;
    if (!clef__find(b->text, call_end, &b->searched, &stop)) {
        if (!b->at_end)
            return CLEF_OK;
        stop = b->text.n;
    }
    b->n_used = stop < b->text.n ? stop + sizeof call_end - 1 : stop;
    const clef__slice all = {b->text.at, stop};
    while (!s && is_call && (at = clef__json_blank(all.at, all.n, at)) < all.n) {
        searched = at + sizeof function_tag - 1;
        is_call = clef__begins(all, at, function_tag) == 1 && clef__find(all, ">", &searched, &name_end);
        searched = is_call ? name_end + 1 : 0;
        is_call = is_call && clef__find(all, function_end, &searched, &end);
        if (!is_call)
            break;
        s = add_call(
            b, (clef__slice){all.at + at + sizeof function_tag - 1, name_end - at - sizeof function_tag + 1},
            (clef__slice){all.at + name_end + 1, end - name_end - 1}, &is_call, err);
        at = end + sizeof function_end - 1;
    }
    b->found = is_call && b->calls->n > n_calls ? CLEF__CALLS : CLEF__TEXT;
    if (!s && b->found == CLEF__TEXT)
        clef__calls_cut(b->calls, n_calls);
    return s;
}

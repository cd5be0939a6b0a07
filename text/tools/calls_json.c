/* Blocks with calls as JSON: one object behind a tag, several without, a list, and a name with an object. */
#include <string.h>

#include "text/tools/calls.h"

/* The tag that ends a block may be missing at the end of the message: it may be the token that ended it. Sets
 * n_used behind the tag, or `at` when another text follows; MORE while that is open. */
static void close_block(clef__block *b, size_t at, const char *const tags[])
{
    const size_t next = clef__json_blank(b->text.at, b->text.n, at);
    b->found = CLEF__CALLS;
    b->n_used = at;
    if (*tags && next == b->text.n && !b->at_end)
        b->found = CLEF__MORE;
    for (; *tags && next < b->text.n; tags++) {
        const int begins = clef__begins(b->text, next, *tags);
        if (begins == 2 && !b->at_end)
            b->found = CLEF__MORE;
        if (begins == 1) {
            b->found = CLEF__CALLS;
            b->n_used = next + strlen(*tags);
            return;
        }
    }
}

/* Finds the object or list that the block begins with. Returns 1 when it is whole and valid. */
static int find_value(clef__block *b, clef__slice *value)
{
    const int end = clef__json_scan_on(&b->scan, b->text.at, b->text.n);
    b->found = end == 0 && !b->at_end ? CLEF__MORE : CLEF__TEXT;
    if (end != 1)
        return 0;
    const size_t from = clef__json_blank(b->text.at, b->text.n, 0);
    *value = (clef__slice){b->text.at + from, b->scan.at - from};
    return clef__json_end(value->at, value->n, 0) == value->n;
}

/* Appends the calls of a list, or the one of an object. *are_calls is 0, and none is appended, when any is
 * none. */
static clef_status add_all(clef__slice value, clef__calls *calls, int *are_calls, clef_error *err)
{
    const int32_t n = calls->n;
    clef__slice item;
    clef_status s = CLEF_OK;
    *are_calls = 1;
    if (value.at[0] == '{')
        return clef__call_from_object(value, calls, are_calls, err);
    for (size_t at = 0; !s && *are_calls && clef__json_item(value, &at, &item);)
        s = clef__call_from_object(item, calls, are_calls, err);
    *are_calls &= calls->n > n;
    if (!s && !*are_calls && calls->n > n)
        clef__calls_cut(calls, n);
    return s;
}

/* A value, then a closing tag. */
static clef_status read_closed(clef__block *b, const char *const tags[], clef_error *err)
{
    clef__slice value;
    int are_calls = 0;
    if (!find_value(b, &value))
        return CLEF_OK;
    close_block(b, b->scan.at, tags);
    if (b->found != CLEF__CALLS)
        return CLEF_OK;
    const clef_status s = add_all(value, b->calls, &are_calls, err);
    b->found = are_calls ? CLEF__CALLS : CLEF__TEXT;
    return s;
}

clef_status clef__read_tagged_json(clef__block *b, clef_error *err)
{
    static const char *const tags[] = {"</tool_call>", NULL};
    return read_closed(b, tags, err);
}

clef_status clef__read_json_list(clef__block *b, clef_error *err)
{
    static const char *const tags[] = {"<|/tool_call|>", "<|END_ACTION|>", "```", NULL};
    static const char fence[] = "```json";
    if (!b->searched) { /* Command R puts the list into a fence */
        const size_t from = clef__json_blank(b->text.at, b->text.n, 0);
        const int begins = clef__begins(b->text, from, fence);
        b->found = b->at_end ? CLEF__TEXT : CLEF__MORE;
        if (from == b->text.n || begins == 2)
            return CLEF_OK;
        b->searched = from + (begins ? sizeof fence - 1 : 0) + 1;
    }
    const size_t skip = b->searched - 1;
    clef__block list = *b;
    list.text = (clef__slice){b->text.at + skip, b->text.n - skip};
    const clef_status s = read_closed(&list, tags, err);
    b->scan = list.scan;
    b->found = list.found;
    b->n_used = skip + list.n_used;
    return s;
}

/* One object: others may follow, after semicolons. */
clef_status clef__read_bare_json(clef__block *b, clef_error *err)
{
    static const char *const none[] = {NULL};
    const clef_status s = read_closed(b, none, err);
    if (!s && b->found == CLEF__CALLS && !clef__tool_is_known(b->tools, b->calls->at[b->calls->n - 1].name)) {
        clef__calls_cut(b->calls, b->calls->n - 1);
        b->found = CLEF__TEXT;
    }
    return s;
}

clef_status clef__read_wrapped_json(clef__block *b, clef_error *err)
{
    clef__slice value, calls;
    int are_calls = 0;
    clef_status s = CLEF_OK;
    if (!find_value(b, &value))
        return CLEF_OK;
    b->found = CLEF__TEXT;
    b->n_used = b->scan.at;
    if (clef__json_member(value, "tool_calls", &calls) || clef__json_member(value, "tool_call", &calls))
        s = calls.at[0] == '{' || calls.at[0] == '[' ? add_all(calls, b->calls, &are_calls, err) : CLEF_OK;
    else if (clef__json_member(value, "response", &calls))
        s = clef__json_text_of(calls, &b->content, err);
    if (are_calls || b->content)
        b->found = CLEF__CALLS;
    return s;
}

/* ---- a name, then an object ------------------------------------------------------------------- */

clef_status clef__read_mistral(clef__block *b, clef_error *err)
{
    static const char args[] = "[ARGS]", call_id[] = "[CALL_ID]";
    static const char *const none[] = {NULL};
    const size_t from = clef__json_blank(b->text.at, b->text.n, 0);
    size_t at, id_at, searched = from;
    int is_call = 0;
    b->found = b->at_end ? CLEF__TEXT : CLEF__MORE;
    if (from == b->text.n)
        return CLEF_OK;
    if (b->text.at[from] == '[')
        return read_closed(b, none, err);
    if (!clef__find(b->text, args, &b->searched, &at))
        return CLEF_OK;
    clef__slice name = {b->text.at + from, at - from}, id = {0}, value;
    if (clef__find((clef__slice){b->text.at, at}, call_id, &searched, &id_at)) {
        name.n = id_at - from;
        id = (clef__slice){b->text.at + id_at + sizeof call_id - 1, at - id_at - sizeof call_id + 1};
    }
    if (!b->scan.at)
        b->scan.at = at + sizeof args - 1;
    const int end = clef__json_scan_on(&b->scan, b->text.at, b->text.n);
    if (end == 0)
        return CLEF_OK;
    b->found = CLEF__TEXT;
    if (end < 0)
        return CLEF_OK;
    const size_t begin = clef__json_blank(b->text.at, b->text.n, at + sizeof args - 1);
    value = (clef__slice){b->text.at + begin, b->scan.at - begin};
    b->n_used = b->scan.at;
    const clef_status s = clef__call_from_arguments(name, id, value, b->calls, &is_call, err);
    b->found = is_call ? CLEF__CALLS : CLEF__TEXT;
    return s;
}

/* U+FF5C and U+2581 are part of DeepSeek's tags. */
#define BAR "\xEF\xBD\x9C"
#define LOW "\xE2\x96\x81"

clef_status clef__read_deepseek(clef__block *b, clef_error *err)
{
    static const char sep[] = "<" BAR "tool" LOW "sep" BAR ">",
                      end[] = "<" BAR "tool" LOW "call" LOW "end" BAR ">", fence[] = "```json";
    size_t stop, sep_at, searched = 0, fence_at;
    int is_call = 0;
    b->found = CLEF__MORE;
    if (!clef__find(b->text, end, &b->searched, &stop)) {
        if (!b->at_end)
            return CLEF_OK;
        stop = b->text.n;
    }
    b->found = CLEF__TEXT;
    const clef__slice all = {b->text.at, stop};
    if (!clef__find(all, sep, &searched, &sep_at))
        return CLEF_OK;
    clef__slice name = {all.at, sep_at},
                body = {all.at + sep_at + sizeof sep - 1, stop - sep_at - sizeof sep + 1};
    searched = 0;
    if (clef__find(body, fence, &searched,
                   &fence_at)) { /* the first tag is followed by the kind, "function" */
        const size_t skip = fence_at + sizeof fence - 1;
        name = (clef__slice){body.at, fence_at};
        body = (clef__slice){body.at + skip, body.n - skip};
    }
    const size_t from = clef__json_blank(body.at, body.n, 0), to = clef__json_end(body.at, body.n, from);
    if (!to)
        return CLEF_OK;
    b->n_used = stop + (stop < b->text.n ? sizeof end - 1 : 0);
    const clef_status s = clef__call_from_arguments(
        name, (clef__slice){0}, (clef__slice){body.at + from, to - from}, b->calls, &is_call, err);
    b->found = is_call ? CLEF__CALLS : CLEF__TEXT;
    return s;
}

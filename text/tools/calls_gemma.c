/* Calls as Gemma 4 writes them: call:NAME{key:value,..}, where strings are between <|"|> and keys are bare.
 */
#include <string.h>

#include "text/tools/calls.h"

#include "graph/fail.h"
#include "model/file/json.h"

static const char quote[] = "<|\"|>", call_end[] = "<tool_call|>";

/* Reads from text.at[at] on; the text of a value becomes JSON in `json`. */
typedef struct gemma_reader {
    clef__slice text;
    size_t at;
    clef__text json;
} gemma_reader;

static int read_value(gemma_reader *r, int depth);

static void skip_blank(gemma_reader *r)
{
    r->at = clef__json_blank(r->text.at, r->text.n, r->at);
}

static int accept(gemma_reader *r, char c)
{
    skip_blank(r);
    const int is_there = r->at < r->text.n && r->text.at[r->at] == c;
    r->at += (size_t)is_there;
    return is_there;
}

static int read_quoted(gemma_reader *r)
{
    size_t from = r->at + sizeof quote - 1, searched = from, end;
    if (!clef__find(r->text, quote, &searched, &end))
        return 0;
    clef__text_add_string(&r->json, r->text.at + from, end - from);
    r->at = end + sizeof quote - 1;
    return 1;
}

static int read_key(gemma_reader *r)
{
    skip_blank(r);
    if (clef__begins(r->text, r->at, quote) == 1)
        return read_quoted(r);
    const size_t from = r->at;
    while (r->at < r->text.n && !memchr(":,{}[]", r->text.at[r->at], 6))
        r->at++;
    if (r->at == from)
        return 0;
    clef__text_add_string(&r->json, r->text.at + from, r->at - from);
    return 1;
}

static int read_list(gemma_reader *r, char close, int depth)
{
    const char open = close == '}' ? '{' : '[';
    clef__text_add(&r->json, &open, 1);
    for (int n = 0; !accept(r, close); n++) {
        if (n && !accept(r, ','))
            return 0;
        if (n)
            clef__text_add(&r->json, ", ", 2);
        if (close == '}') {
            if (!read_key(r) || !accept(r, ':'))
                return 0;
            clef__text_add(&r->json, ": ", 2);
        }
        if (!read_value(r, depth))
            return 0;
    }
    clef__text_add(&r->json, &close, 1);
    return 1;
}

static int read_value(gemma_reader *r, int depth)
{
    skip_blank(r);
    if (r->at == r->text.n || depth > CLEF_JSON_MAX_DEPTH)
        return 0;
    if (clef__begins(r->text, r->at, quote) == 1)
        return read_quoted(r);
    if (accept(r, '{'))
        return read_list(r, '}', depth + 1);
    if (accept(r, '['))
        return read_list(r, ']', depth + 1);
    const size_t end = clef__json_end(r->text.at, r->text.n, r->at); /* a number, a constant */
    if (!end)
        return 0;
    clef__text_add(&r->json, r->text.at + r->at, end - r->at);
    r->at = end;
    return 1;
}

clef_status clef__read_gemma(clef__block *b, clef_error *err)
{
    static const char head[] = "call:";
    size_t stop, searched = 0, brace;
    int is_call = 0;
    clef_status s = CLEF_OK;
    b->found = CLEF__MORE;
    if (!clef__find(b->text, call_end, &b->searched, &stop)) {
        if (!b->at_end)
            return CLEF_OK;
        stop = b->text.n;
    }
    b->found = CLEF__TEXT;
    b->n_used = stop < b->text.n ? stop + sizeof call_end - 1 : stop;
    gemma_reader r = {.text = {b->text.at, stop}};
    skip_blank(&r);
    if (clef__begins(r.text, r.at, head) != 1 || !clef__find(r.text, "{", &searched, &brace))
        return CLEF_OK;
    const clef__slice name = {r.text.at + r.at + sizeof head - 1, brace - r.at - sizeof head + 1};
    r.at = brace + 1;
    const int is_whole = read_list(&r, '}', 0) && clef__json_blank(r.text.at, r.text.n, r.at) == r.text.n;
    if (r.json.failed)
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for the arguments of a tool call");
    else if (is_whole)
        s = clef__call_from_arguments(name, (clef__slice){0}, (clef__slice){r.json.at, r.json.n}, b->calls,
                                      &is_call, err);
    clef__text_free(&r.json);
    b->found = is_call ? CLEF__CALLS : CLEF__TEXT;
    return s;
}

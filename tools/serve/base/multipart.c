/* Bodies of multipart/form-data. */
#include "tools/serve/base/multipart.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* RFC 2046 5.1.1: what a boundary consists of. */
static int is_boundary_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("'()+_,-./:=? ", c));
}

/* 1 if n bytes of a text begin with an ASCII word, whatever its case. */
static int begins(const char *text, size_t n, const char *word)
{
    size_t i = 0;
    while (word[i] && i < n && tolower((unsigned char)text[i]) == word[i])
        i++;
    return !word[i];
}

/* The first semicolon that is not within quotes; NULL: there is none. */
static const char *semicolon(const char *at, const char *end)
{
    int quoted = 0;
    for (; at < end && (quoted || *at != ';'); at++) {
        quoted ^= *at == '"';
        at += quoted && *at == '\\' && at + 1 < end;
    }
    return at < end ? at : NULL;
}

/* Copies a value, which may be in quotes. Returns its length, cut to the room; -1: its quote does not end. */
static int copy_value(const char *at, const char *end, char *out, size_t room)
{
    const int quoted = at < end && *at == '"';
    size_t n = 0;
    for (at += quoted; at < end && *at != '"' && (quoted || (*at != ';' && *at != ' ')); at++) {
        at += quoted && *at == '\\' && at + 1 < end && (at[1] == '"' || at[1] == '\\');
        if (n + 1 < room)
            out[n++] = *at;
    }
    out[n] = '\0';
    return quoted && at == end ? -1 : (int)n;
}

/* The parameter `; name=value` of a header of n bytes. Returns as copy_value(); -1: there is none. */
static int parameter(const char *text, size_t n, const char *name, char *out, size_t room)
{
    const size_t n_name = strlen(name);
    const char *at = text, *end = text + n;
    while ((at = semicolon(at, end))) {
        at++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if (begins(at, (size_t)(end - at), name) && at + n_name < end && at[n_name] == '=')
            return copy_value(at + n_name + 1, end, out, room);
    }
    return -1;
}

int serve_multipart_type(const char *content_type, char out[SERVE_BOUNDARY])
{
    static const char type[] = "multipart/form-data";
    const size_t n = content_type ? strlen(content_type) : 0;
    char found[SERVE_BOUNDARY + 1];
    out[0] = '\0';
    if (!begins(content_type ? content_type : "", n, type) ||
        (n >= sizeof type && !strchr("; \t", content_type[sizeof type - 1])))
        return 0;
    const int length = parameter(content_type, n, "boundary", found, sizeof found);
    if (length < 1 || length >= SERVE_BOUNDARY || found[length - 1] == ' ')
        return 1;
    for (int i = 0; i < length; i++)
        if (!is_boundary_char(found[i]))
            return 1;
    memcpy(out, found, (size_t)length + 1);
    return 1;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* A line of boundary: where it begins, with the line end before it, and what follows it. */
typedef struct line {
    const char *begin, *end;
    int is_last;
} line;

/* Whether "--BOUNDARY" is at `at`, with nothing but spaces behind it, or "--". */
static int is_line(const char *at, const char *end, const char *boundary, line *out)
{
    const size_t n = strlen(boundary);
    if ((size_t)(end - at) < n + 2 || at[0] != '-' || at[1] != '-' || memcmp(at + 2, boundary, n) != 0)
        return 0;
    at += n + 2;
    out->is_last = end - at >= 2 && at[0] == '-' && at[1] == '-';
    if (out->is_last) {
        out->end = at + 2;
        return 1;
    }
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return 0;
    out->end = at + 2;
    return 1;
}

/* The next line of boundary. `is_first`: it may stand at the very begin. */
static int find_line(const char *at, const char *end, const char *boundary, int is_first, line *out)
{
    out->begin = at;
    if (is_first && is_line(at, end, boundary, out))
        return 1;
    for (; (at = memchr(at, '\r', (size_t)(end - at))); at++) {
        out->begin = at;
        if (end - at > 2 && at[1] == '\n' && is_line(at + 2, end, boundary, out))
            return 1;
    }
    return 0;
}

static int bad(serve_error *e, const char *why)
{
    return serve_fail(e, SERVE_E_FORM, NULL, "multipart/form-data: %s", why);
}

/* A header line of a part. */
static int read_header(const char *text, size_t n, serve_part *p, serve_error *e)
{
    static const char disposition[] = "content-disposition:", encoding[] = "content-transfer-encoding:";
    if (begins(text, n, encoding)) {
        const char *value = text + sizeof encoding - 1;
        size_t n_value = n - (sizeof encoding - 1);
        while (n_value && *value == ' ')
            value++, n_value--;
        return begins(value, n_value, "binary") || begins(value, n_value, "8bit") ||
               begins(value, n_value, "7bit") || bad(e, "a part with a Content-Transfer-Encoding");
    }
    if (!begins(text, n, disposition))
        return 1;
    if (p->name[0])
        return bad(e, "a part with two Content-Disposition headers");
    const int length = parameter(text, n, "name", p->name, sizeof p->name);
    if (length < 1 || length + 1 == sizeof p->name)
        return bad(e, "expected names of parts with 1 to 62 bytes");
    p->is_file = parameter(text, n, "filename", p->file, sizeof p->file) >= 0;
    return 1;
}

/* The headers of a part, up to the blank line; *at is then behind it. */
static int read_headers(const char **at, const char *end, serve_part *p, serve_error *e)
{
    enum { MOST_HEADERS = 16 };
    for (int i = 0; i <= MOST_HEADERS; i++) {
        const char *stop = *at;
        while ((stop = memchr(stop, '\r', (size_t)(end - stop))) && (end - stop < 2 || stop[1] != '\n'))
            stop++;
        if (!stop)
            return bad(e, "a part without a blank line after its headers");
        const size_t n = (size_t)(stop - *at);
        if (n && !read_header(*at, n, p, e))
            return 0;
        *at = stop + 2;
        if (!n)
            return p->name[0] ? 1 : bad(e, "a part without a Content-Disposition that names it");
    }
    return bad(e, "a part with more than 16 headers");
}

int serve_multipart_read(const char *body, size_t n, const char *boundary, serve_parts *out, serve_error *e)
{
    const char *end = body + n;
    line next;
    out->n = 0;
    if (!boundary[0])
        return bad(e, "expected a boundary of 1 to 70 characters in Content-Type");
    if (!n || !find_line(body, end, boundary, 1, &next))
        return bad(e, "the body has no line with the boundary");
    while (!next.is_last) {
        if (out->n == SERVE_MOST_PARTS)
            return bad(e, "more than 64 parts");
        serve_part *p = &out->items[out->n++];
        const char *at = next.end;
        *p = (serve_part){.n = 0};
        if (!read_headers(&at, end, p, e))
            return 0;
        /* an empty part: the blank line's end is also that of the boundary's line */
        if (!find_line(at - 2, end, boundary, 0, &next))
            return bad(e, "the body ends before the last boundary");
        p->data = at;
        p->n = next.begin > at ? (size_t)(next.begin - at) : 0;
        serve_clean_text(p->name);
        serve_clean_text(p->file);
    }
    return 1;
}

const serve_part *serve_multipart_find(const serve_parts *parts, const char *name)
{
    for (int32_t i = 0; i < parts->n; i++)
        if (!strcmp(parts->items[i].name, name))
            return &parts->items[i];
    return NULL;
}

/* References inside one document: JSON pointers (RFC 6901), anchors, and embedded resources with an $id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/constrain/schema.h"

enum { URI_BYTES = 1024 };

static void fail(clef__schema *s, const json_t *from, const char *why, const char *reference)
{
    const clef__site *site = clef__site_of(s, from);
    clef__schema_fail(s, site ? site->path : "", "$ref", CLEF_E_UNSUPPORTED, "'%.100s' %s", reference, why);
}

/* ---- URIs ----------------------------------------------------------------------------------- */

static size_t scheme_length(const char *uri)
{
    const size_t n = strcspn(uri, ":/?#");
    return n && uri[n] == ':' ? n + 1 : 0;
}

/* `reference` as seen from `base` (RFC 3986, section 5, without dot segments), without its fragment. */
static void join_uri(const char *base, const char *reference, char out[URI_BYTES])
{
    const size_t n_reference = strcspn(reference, "#");
    const size_t scheme = scheme_length(base);
    size_t keep = strcspn(base, "#");
    if (n_reference == 0) {
        /* the base itself */
    } else if (scheme_length(reference)) {
        keep = 0;
    } else if (reference[0] == '/') {
        const char *host = !strncmp(base + scheme, "//", 2) ? base + scheme + 2 : base + scheme;
        keep = (size_t)(host - base) + strcspn(host, "/?#");
    } else {
        while (keep > scheme && base[keep - 1] != '/')
            keep--;
    }
    snprintf(out, URI_BYTES, "%.*s%.*s", (int)(keep < URI_BYTES ? keep : URI_BYTES - 1), base,
             (int)(n_reference < URI_BYTES ? n_reference : URI_BYTES - 1), reference);
}

static const char *id_of(const clef__schema *s, const json_t *schema)
{
    return json_string_value(json_object_get(schema, s->draft == CLEF__DRAFT4 ? "id" : "$id"));
}

/* Values in these are not schemas. */
static int is_data(const char *key)
{
    return !strcmp(key, "enum") || !strcmp(key, "const") || !strcmp(key, "default") ||
           !strcmp(key, "examples");
}

typedef struct search {
    const clef__schema *s;
    const char *uri, *anchor; /* of two, one is looked for */
    const json_t *resource;   /* whose URI is asked for */
    char *base;               /* where it goes */
    const json_t *found;
} search;

static int has_anchor(const search *x, const json_t *schema)
{
    const char *id = id_of(x->s, schema), *anchor = json_string_value(json_object_get(schema, "$anchor"));
    const char *dynamic = json_string_value(json_object_get(schema, "$dynamicAnchor"));
    if (x->s->draft <= CLEF__DRAFT7)
        return id && id[0] == '#' && !strcmp(id + 1, x->anchor);
    return (anchor && !strcmp(anchor, x->anchor)) || (dynamic && !strcmp(dynamic, x->anchor));
}

/* Looks through all that may be schemas. */
static void find(search *x, const json_t *value, const char *outer_base, int depth)
{
    char base[URI_BYTES];
    const char *key;
    json_t *item;
    size_t i;
    if (x->found || depth > CLEF__MAX_NESTING)
        return;
    json_array_foreach(value, i, item)
        find(x, item, outer_base, depth + 1);
    if (!json_is_object(value))
        return;
    const char *id = id_of(x->s, value);
    join_uri(outer_base, id && id[0] != '#' ? id : "", base);
    if (x->anchor && depth > 0 && id && id[0] != '#')
        return; /* another resource has its own anchors */
    if ((x->uri && (depth == 0 || (id && id[0] != '#')) && !strcmp(base, x->uri)) ||
        (x->anchor && has_anchor(x, value)) || (x->resource == value && x->base))
        x->found = value;
    if (x->found && x->base)
        memcpy(x->base, base, URI_BYTES);
    json_object_foreach((json_t *)value, key, item)
        if (!is_data(key))
            find(x, item, base, depth + 1);
}

/* ---- pointers ------------------------------------------------------------------------------- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Undoes percent-encoding in place. */
static void decode_percent(char *text)
{
    char *to = text;
    for (; *text; text++) {
        if (*text == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
            *to++ = (char)(hex(text[1]) << 4 | hex(text[2]));
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/* Undoes ~0 and ~1 in place. */
static void decode_step(char *text)
{
    char *to = text;
    for (; *text; text++) {
        const int escaped = *text == '~' && (text[1] == '0' || text[1] == '1');
        *to++ = escaped ? text[1] == '0' ? '~' : '/' : *text;
        text += escaped;
    }
    *to = '\0';
}

static const json_t *step(const json_t *value, const char *name)
{
    char *end;
    if (json_is_object(value))
        return json_object_get(value, name);
    const unsigned long i = strtoul(name, &end, 10);
    return json_is_array(value) && name[0] >= '0' && name[0] <= '9' && !*end ? json_array_get(value, i)
                                                                             : NULL;
}

/* Follows a pointer, and notes the place that it leads to. */
static const json_t *follow(clef__schema *s, const json_t *resource, const char *pointer)
{
    const clef__site *site = clef__site_of(s, resource);
    const char *outer = site ? site->path : "";
    char *path = clef__work_alloc(s->work, strlen(outer) + strlen(pointer) + 1);
    char *steps = clef__work_copy(s->work, pointer, strlen(pointer));
    const json_t *value = resource, *within = resource;
    if (!path || !steps)
        return NULL;
    memcpy(path, outer, strlen(outer));
    memcpy(path + strlen(outer), pointer, strlen(pointer));
    for (char *at = steps; value && *at;) {
        char *name = at + 1, *end = name + strcspn(name, "/");
        const int more = *end == '/';
        *end = '\0';
        decode_step(name);
        value = step(value, name);
        const char *id = json_is_object(value) ? id_of(s, value) : NULL;
        if (more && id && id[0] != '#')
            within = value;
        if (more)
            *end = '/';
        at = end;
    }
    if (value)
        clef__site_put(s, value, within, path);
    return value;
}

const json_t *clef__schema_resolve(clef__schema *s, const json_t *from, const char *reference)
{
    const clef__site *site = clef__site_of(s, from);
    const json_t *resource = site ? site->resource : s->root, *target;
    const char *hash = strchr(reference, '#');
    char *fragment = clef__work_copy(s->work, hash ? hash + 1 : "", hash ? strlen(hash + 1) : 0);
    if (!fragment)
        return NULL;
    decode_percent(fragment);
    if (hash != reference) {
        char base[URI_BYTES] = "", uri[URI_BYTES];
        search of = {.s = s, .resource = resource, .base = base};
        find(&of, s->root, "", 0);
        join_uri(base, reference, uri);
        search x = {.s = s, .uri = uri};
        find(&x, s->root, "", 0);
        resource = x.found;
        if (!resource) {
            fail(s, from, "is outside this schema: not supported", reference);
            return NULL;
        }
        clef__site_put(s, resource, resource, clef__work_copy(s->work, uri, strlen(uri)));
    }
    search x = {.s = s, .anchor = fragment};
    if (fragment[0] == '\0') {
        target = resource;
    } else if (fragment[0] == '/') {
        target = follow(s, resource, fragment);
    } else {
        find(&x, resource, "", 0);
        target = x.found;
        if (target)
            clef__site_put(s, target, resource, clef__work_copy(s->work, reference, strlen(reference)));
    }
    if (!target && !s->work->status)
        fail(s, from, "names no schema", reference);
    return target;
}

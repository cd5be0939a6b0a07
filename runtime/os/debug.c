#include "runtime/os/debug.h"

#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

static const struct {
    const char *name;
    int is_list;
} keys[] = {
#define CLEF_DEBUG_KEY(name, is_list, values, help) {#name, is_list},
#include "runtime/os/debug.def"
#undef CLEF_DEBUG_KEY
};

enum { N_KEYS = sizeof keys / sizeof *keys };

/* An item, "KEY=VALUE". */
typedef struct item {
    const char *text;
    size_t n, n_key; /* n_key == n: no "=" */
} item;

/* Reads the item at *at, and goes on to the next. Returns 0 at the end. */
static int next_item(const char **at, item *out)
{
    *at += strspn(*at, ",");
    out->text = *at;
    out->n = strcspn(*at, ",");
    const char *sign = memchr(*at, '=', out->n);
    out->n_key = sign ? (size_t)(sign - *at) : out->n;
    *at += out->n;
    return out->n > 0;
}

static int find_key(const item *i)
{
    int k = 0;
    while (k < N_KEYS && !(strlen(keys[k].name) == i->n_key && !memcmp(keys[k].name, i->text, i->n_key)))
        k++;
    return k;
}

/* The variable that a key was before there was CLEF_DEBUG: CLEF_FUSED for `fused`. */
static const char *old_variable(const char *key)
{
    char name[32] = "CLEF_";
    size_t n = strlen(name);
    for (; *key && n + 1 < sizeof name; key++)
        name[n++] = (char)(*key == '_' ? '_' : *key - 'a' + 'A');
    name[n] = 0;
    const char *text = clef__os_env(name);
    return text && *text ? text : NULL;
}

const char *clef__debug_find(const char *key, char text[CLEF__DEBUG_BYTES])
{
    const char *at = clef__os_env("CLEF_DEBUG");
    text[0] = 0;
    for (item i; at && next_item(&at, &i);) {
        const int k = find_key(&i);
        const size_t n = i.n_key < i.n ? i.n - i.n_key - 1 : 0;
        if (k == N_KEYS || strcmp(keys[k].name, key) != 0 || n >= CLEF__DEBUG_BYTES)
            continue;
        memcpy(text, i.text + i.n - n, n);
        text[n] = 0;
        for (char *c = text; keys[k].is_list && *c; c++)
            *c = *c == ':' ? ',' : *c;
    }
    return text[0] ? text : old_variable(key);
}

int clef__debug_is(const char *key, const char *value)
{
    const char *text = clef__debug(key);
    return text && strcmp(text, value) == 0;
}

static clef_status fail_unknown(const item *i, clef_error *err)
{
    char names[400] = "";
    size_t used = 0;
    for (int k = 0; k < N_KEYS && used < sizeof names; k++)
        used += (size_t)snprintf(names + used, sizeof names - used, " %s", keys[k].name);
    return clef__fail(err, CLEF_E_ARG, "CLEF_DEBUG: '%.*s', expected KEY=VALUE[,KEY=VALUE...] with keys of%s",
                      i->n < 60 ? (int)i->n : 60, i->text, names);
}

clef_status clef__debug_check(clef_error *err)
{
    const char *at = clef__os_env("CLEF_DEBUG");
    if (at && strlen(at) >= CLEF__DEBUG_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "CLEF_DEBUG: expected under %d bytes, got %zu",
                          CLEF__DEBUG_BYTES, strlen(at));
    for (item i; at && next_item(&at, &i);)
        if (i.n_key == i.n || find_key(&i) == N_KEYS)
            return fail_unknown(&i, err);
    return CLEF_OK;
}

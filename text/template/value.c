/* Memory, errors, and the making of values. */
#include "text/template/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "graph/hash.h"
#include "text/template/checked.h"

/* ---- memory ----------------------------------------------------------------------------------- */

struct clef__chunk {
    clef__chunk *next;
    size_t n, cap;
    max_align_t data[];
};

enum { CHUNK = 32 << 10, DICT_SLOTS_FROM = 16 };

void *clef__tpl_alloc(clef__tpl *t, size_t n_bytes)
{
    const size_t align = sizeof(max_align_t), n = (n_bytes + align - 1) / align * align;
    if (t->status)
        return NULL;
    clef__chunk *chunk = t->chunks;
    if (!chunk || chunk->cap - chunk->n < n) {
        const size_t cap = n > CHUNK ? n : CHUNK;
        if (n_bytes > CLEF__TPL_MAX_MEMORY || t->n_bytes + cap > CLEF__TPL_MAX_MEMORY) {
            clef__tpl_fail(t, CLEF_E_LIMIT, "the template needs more than %d MiB of memory",
                           CLEF__TPL_MAX_MEMORY >> 20);
            return NULL;
        }
        chunk = malloc(sizeof *chunk + cap);
        if (!chunk) {
            clef__tpl_fail(t, CLEF_E_NOMEM, "no memory for the template's values");
            return NULL;
        }
        chunk->n = 0;
        chunk->cap = cap;
        chunk->next = t->chunks;
        t->chunks = chunk;
        t->n_bytes += cap;
    }
    void *p = (char *)chunk->data + chunk->n;
    chunk->n += n;
    return memset(p, 0, n);
}

void clef__tpl_finish(clef__tpl *t)
{
    while (t->chunks) {
        clef__chunk *next = t->chunks->next;
        free(t->chunks);
        t->chunks = next;
    }
    t->n_bytes = 0;
}

clef__value clef__tpl_fail(clef__tpl *t, clef_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    if (t->status)
        return clef__undefined;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->status = clef__fail(t->err, status, "%s: line %d: %s", t->name, (int)t->line, text);
    return clef__undefined;
}

int clef__tpl_step(clef__tpl *t, int64_t n)
{
    t->n_steps += n;
    if (t->n_steps > CLEF__TPL_MAX_STEPS)
        clef__tpl_fail(t, CLEF_E_LIMIT, "the template takes more than %d steps", CLEF__TPL_MAX_STEPS);
    return !t->status;
}

/* ---- simple values ---------------------------------------------------------------------------- */

const clef__value clef__undefined = {.kind = CLEF__UNDEFINED}, clef__none = {.kind = CLEF__NONE};

clef__value clef__bool(int x)
{
    return (clef__value){.kind = CLEF__BOOL, .i = x != 0};
}

clef__value clef__int(int64_t x)
{
    return (clef__value){.kind = CLEF__INT, .i = x};
}

clef__value clef__float(double x)
{
    return (clef__value){.kind = CLEF__FLOAT, .f = x};
}

/* ---- strings ---------------------------------------------------------------------------------------------
 */

static clef__str empty = {.p = ""};

clef__str *clef__str_of(clef__tpl *t, const char *p, size_t n, int mark)
{
    clef__str *s = clef__tpl_alloc(t, sizeof *s);
    if (!s)
        return &empty;
    *s = (clef__str){.p = p, .n = n, .mark = (uint8_t)mark};
    return s;
}

clef__value clef__str_value(clef__str *s)
{
    return (clef__value){.kind = CLEF__STRING, .s = s};
}

clef__value clef__text_value(clef__tpl *t, const char *p, size_t n, int mark)
{
    return clef__str_value(clef__str_of(t, p, n, mark));
}

clef__value clef__string(clef__tpl *t, const char *text)
{
    return clef__text_value(t, text, strlen(text), 0);
}

int clef__str_is(const clef__str *s, const char *text)
{
    return strlen(text) == s->n && memcmp(s->p, text, s->n) == 0;
}

int clef__mark_at(const clef__str *s, size_t i)
{
    return s->marks ? s->marks[i] : s->mark;
}

clef__str *clef__str_part(clef__tpl *t, const clef__str *s, size_t from, size_t to)
{
    clef__str *part = clef__str_of(t, s->p + from, to - from, s->mark);
    if (!t->status) {
        part->marks = s->marks ? s->marks + from : NULL;
        part->is_safe = s->is_safe;
    }
    return part;
}

clef__str *clef__str_safe(clef__tpl *t, const clef__str *s)
{
    clef__str *safe = clef__str_part(t, s, 0, s->n);
    if (!t->status)
        safe->is_safe = 1;
    return safe;
}

clef__str *clef__str_escape(clef__tpl *t, clef__str *s)
{
    static const struct {
        char c;
        const char *text;
    } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    clef__out o = {0};
    if (s->is_safe)
        return s;
    for (size_t at = 0; at < s->n && !t->status; at++) {
        const char *text = NULL;
        for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
            if (entities[i].c == s->p[at])
                text = entities[i].text;
        if (text)
            clef__out_add(t, &o, text, strlen(text), clef__mark_at(s, at));
        else
            clef__out_part(t, &o, s, at, at + 1);
    }
    return clef__str_safe(t, clef__out_value(t, &o).s);
}

clef__str *clef__str_join(clef__tpl *t, const clef__str *a, const clef__str *b)
{
    if (a->n == 0)
        return (clef__str *)b;
    if (b->n == 0)
        return (clef__str *)a;
    const int is_uniform = !a->marks && !b->marks && a->mark == b->mark;
    const size_t n = a->n + b->n;
    char *p = clef__tpl_alloc(t, is_uniform ? n : 2 * n);
    clef__str *s = p ? clef__str_of(t, p, n, a->mark) : &empty;
    if (t->status)
        return &empty;
    memcpy(p, a->p, a->n);
    memcpy(p + a->n, b->p, b->n);
    clef__tpl_step(t, (int64_t)(n >> 8));
    if (is_uniform)
        return s;
    for (size_t i = 0; i < a->n; i++)
        p[n + i] = (char)clef__mark_at(a, i);
    for (size_t i = 0; i < b->n; i++)
        p[n + a->n + i] = (char)clef__mark_at(b, i);
    s->marks = (const uint8_t *)p + n;
    return s;
}

/* ---- text that is built ----------------------------------------------------------------------- */

static int out_room(clef__tpl *t, clef__out *o, size_t n)
{
    if (t->status)
        return 0;
    if (n > CLEF__TPL_MAX_OUTPUT - o->n) {
        clef__tpl_fail(t, CLEF_E_LIMIT, "the template makes a text of more than %d MiB",
                       CLEF__TPL_MAX_OUTPUT >> 20);
        return 0;
    }
    if (o->n + n > o->cap) {
        const size_t cap = 2 * o->cap + n + 64;
        char *p = clef__tpl_alloc(t, 2 * cap);
        if (!p)
            return 0;
        if (o->n) {
            memcpy(p, o->p, o->n);
            memcpy(p + cap, o->marks, o->n);
        }
        o->p = p;
        o->marks = (uint8_t *)p + cap;
        o->cap = cap;
    }
    return clef__tpl_step(t, (int64_t)(n >> 8));
}

void clef__out_add(clef__tpl *t, clef__out *o, const char *p, size_t n, int mark)
{
    if (n == 0 || !out_room(t, o, n))
        return;
    memcpy(o->p + o->n, p, n);
    memset(o->marks + o->n, mark, n);
    o->n += n;
}

void clef__out_part(clef__tpl *t, clef__out *o, const clef__str *s, size_t from, size_t to)
{
    const size_t n = to - from;
    if (n == 0 || !out_room(t, o, n))
        return;
    memcpy(o->p + o->n, s->p + from, n);
    if (s->marks)
        memcpy(o->marks + o->n, s->marks + from, n);
    else
        memset(o->marks + o->n, s->mark, n);
    o->n += n;
}

void clef__out_str(clef__tpl *t, clef__out *o, const clef__str *s)
{
    clef__out_part(t, o, s, 0, s->n);
}

clef__value clef__out_value(clef__tpl *t, const clef__out *o)
{
    clef__str *s = clef__str_of(t, o->n ? o->p : "", o->n, 0);
    if (!t->status && o->n) {
        s->marks = o->marks;
        if (!memchr(o->marks, !o->marks[0], o->n)) {
            s->mark = o->marks[0];
            s->marks = NULL;
        }
    }
    return clef__str_value(s);
}

/* ---- lists and dicts -------------------------------------------------------------------------- */

clef__value clef__list_new(clef__tpl *t, clef__kind kind, size_t cap)
{
    clef__list *l = clef__tpl_alloc(t, sizeof *l);
    if (l && cap) {
        l->at = clef__tpl_alloc(t, cap * sizeof *l->at);
        l->cap = l->at ? cap : 0;
    }
    return l ? (clef__value){.kind = kind, .l = l} : clef__undefined;
}

void clef__list_add(clef__tpl *t, clef__list *l, clef__value v)
{
    if (t->status || !clef__tpl_step(t, 1))
        return;
    if (l->n == l->cap) {
        const size_t cap = 2 * l->cap + 4;
        clef__value *at = clef__tpl_alloc(t, cap * sizeof *at);
        if (!at)
            return;
        if (l->n)
            memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
}

clef__value clef__dict_new(clef__tpl *t, clef__kind kind)
{
    clef__dict *d = clef__tpl_alloc(t, sizeof *d);
    return d ? (clef__value){.kind = kind, .d = d} : clef__undefined;
}

int clef__is_hashable(clef__tpl *t, clef__value v)
{
    if (v.kind == CLEF__LIST || v.kind == CLEF__DICT || v.kind == CLEF__VIEW)
        clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' cannot be a key", clef__kind_name(v));
    for (size_t i = 0; v.kind == CLEF__TUPLE && i < v.l->n && clef__tpl_step(t, 1); i++)
        if (!clef__is_hashable(t, v.l->at[i]))
            break;
    return !t->status;
}

clef__value clef__range(clef__tpl *t, int64_t from, int64_t to, int64_t step)
{
    clef__value out = clef__list_new(t, CLEF__RANGE, 0);
    int64_t *range = clef__tpl_alloc(t, 3 * sizeof *range);
    if (t->status)
        return clef__undefined;
    range[0] = from;
    range[1] = to;
    range[2] = step;
    out.l->range = range;
    for (int64_t i = from; !t->status && (step > 0 ? i < to : i > to);) {
        if (out.l->n == CLEF__TPL_MAX_RANGE)
            return clef__tpl_fail(t, CLEF_E_LIMIT, "range() has more than %d items", CLEF__TPL_MAX_RANGE);
        clef__list_add(t, out.l, clef__int(i));
        if (clef__add_checked(i, step, &i))
            break;
    }
    return out;
}

static uint64_t hash_of(clef__value v)
{
    uint64_t h = CLEF__HASH_START;
    if (v.kind == CLEF__STRING)
        h = clef__hash(h, v.s->p, v.s->n);
    else if (clef__is_number(v)) {
        const double x = clef__number(v);
        const double key = x == 0 ? 0 : x; /* -0 equals 0 */
        h = clef__hash(h, &key, sizeof key);
    }
    return h ^ h >> 29;
}

/* The place of a key, or where it would be inserted into the slots. */
static int64_t find_key(const clef__dict *d, clef__value key, size_t *slot)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (clef__equal(d->keys[i], key))
                return (int64_t)i;
        return -1;
    }
    for (*slot = hash_of(key) % d->n_slots; d->index[*slot]; *slot = (*slot + 1) % d->n_slots)
        if (clef__equal(d->keys[d->index[*slot] - 1], key))
            return d->index[*slot] - 1;
    return -1;
}

static void dict_grow(clef__tpl *t, clef__dict *d)
{
    const size_t cap = 2 * d->cap + 4;
    clef__value *keys = clef__tpl_alloc(t, 2 * cap * sizeof *keys);
    if (!keys)
        return;
    if (d->n) {
        memcpy(keys, d->keys, d->n * sizeof *keys);
        memcpy(keys + cap, d->values, d->n * sizeof *keys);
    }
    d->keys = keys;
    d->values = keys + cap;
    d->cap = cap;
    if (cap < DICT_SLOTS_FROM)
        return;
    int64_t *index = clef__tpl_alloc(t, 2 * cap * sizeof *index);
    if (!index)
        return;
    d->index = index;
    d->n_slots = 2 * cap;
    for (size_t i = 0; i < d->n; i++) {
        size_t slot = hash_of(keys[i]) % d->n_slots;
        while (index[slot])
            slot = (slot + 1) % d->n_slots;
        index[slot] = (int64_t)i + 1;
    }
}

void clef__dict_set(clef__tpl *t, clef__dict *d, clef__value key, clef__value value)
{
    size_t slot = 0;
    if (t->status || !clef__tpl_step(t, 1 + (key.kind == CLEF__STRING ? (int64_t)(key.s->n >> 3) : 0)))
        return;
    int64_t at = find_key(d, key, &slot);
    if (at >= 0) {
        d->values[at] = value;
        return;
    }
    if (d->n == d->cap) {
        dict_grow(t, d);
        if (t->status)
            return;
        find_key(d, key, &slot);
    }
    if (d->index)
        d->index[slot] = (int64_t)d->n + 1;
    d->keys[d->n] = key;
    d->values[d->n++] = value;
}

const clef__value *clef__dict_find(const clef__dict *d, clef__value key)
{
    size_t slot = 0;
    const int64_t at = find_key(d, key, &slot);
    return at < 0 ? NULL : &d->values[at];
}

const clef__value *clef__dict_get(const clef__dict *d, const char *key)
{
    clef__str s = {.p = key, .n = strlen(key)};
    return clef__dict_find(d, (clef__value){.kind = CLEF__STRING, .s = &s});
}

/* Compiled constraints that are kept: those used last, up to a number of bytes. */
#include <stdlib.h>
#include <string.h>

#include "clef/constrain.h"
#include "graph/fail.h"

enum { DEFAULT_BYTES = 128 << 20 };

typedef struct entry {
    clef_constraint_kind kind;
    clef_constraint_opts opts;
    char *source;
    size_t n;
    clef_constraint *constraint;
    int32_t n_users;
    uint64_t used; /* when it was used last */
} entry;

struct clef_constraint_cache {
    size_t most_bytes;
    entry *at;
    int32_t n, room;
    uint64_t now;
};

clef_status clef_constraint_cache_create(size_t most_bytes, clef_constraint_cache **out, clef_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return clef__fail(err, CLEF_E_NOMEM, "constraint cache: out of host memory");
    (*out)->most_bytes = most_bytes ? most_bytes : DEFAULT_BYTES;
    return CLEF_OK;
}

static void remove_entry(clef_constraint_cache *cache, int32_t i)
{
    clef_constraint_destroy(cache->at[i].constraint);
    free(cache->at[i].source);
    cache->at[i] = cache->at[--cache->n];
}

void clef_constraint_cache_destroy(clef_constraint_cache *cache)
{
    if (!cache)
        return;
    while (cache->n)
        remove_entry(cache, cache->n - 1);
    free(cache->at);
    free(cache);
}

size_t clef_constraint_cache_bytes(const clef_constraint_cache *cache)
{
    size_t n_bytes = 0;
    for (int32_t i = 0; i < cache->n; i++)
        n_bytes += cache->at[i].n + clef_constraint_bytes(cache->at[i].constraint);
    return n_bytes;
}

/* Removes what nobody uses, the oldest first, until the rest fits. They grow while they are used, so that
 * their bytes are counted anew. */
static void make_room(clef_constraint_cache *cache)
{
    while (clef_constraint_cache_bytes(cache) > cache->most_bytes) {
        int32_t oldest = -1;
        for (int32_t i = 0; i < cache->n; i++)
            if (!cache->at[i].n_users && (oldest < 0 || cache->at[i].used < cache->at[oldest].used))
                oldest = i;
        if (oldest < 0)
            return;
        remove_entry(cache, oldest);
    }
}

static int is_same(const entry *e, clef_constraint_kind kind, const char *source, size_t n,
                   const clef_constraint_opts *o)
{
    return e->kind == kind && e->n == n && !memcmp(e->source, source, n) && e->opts.strict == o->strict &&
           e->opts.any_order == o->any_order && e->opts.tok == o->tok;
}

static entry *add(clef_constraint_cache *cache, clef_constraint_kind kind, const char *source, size_t n,
                  const clef_constraint_opts *opts)
{
    if (cache->n == cache->room) {
        const int32_t room = cache->room ? cache->room * 2 : 16;
        entry *grown = realloc(cache->at, (size_t)room * sizeof *grown);
        if (!grown)
            return NULL;
        cache->at = grown;
        cache->room = room;
    }
    char *copy = malloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, source, n);
    cache->at[cache->n] = (entry){.kind = kind, .opts = *opts, .source = copy, .n = n};
    return &cache->at[cache->n++];
}

clef_status clef_constraint_cache_take(clef_constraint_cache *cache, clef_constraint_kind kind,
                                       const char *source, size_t n, const clef_constraint_opts *opts,
                                       clef_constraint **out, clef_constraint_problem *problem,
                                       clef_error *err)
{
    static const clef_constraint_opts none = {0};
    clef_constraint *made = NULL;
    opts = opts ? opts : &none;
    *out = NULL;
    entry *e = NULL;
    for (int32_t i = 0; i < cache->n && !e; i++)
        if (is_same(&cache->at[i], kind, source, n, opts))
            e = &cache->at[i];
    if (!e) {
        const clef_status s = clef_constraint_create(kind, source, n, opts, &made, problem, err);
        if (s)
            return s;
        e = add(cache, kind, source, n, opts);
        if (!e) {
            clef_constraint_destroy(made);
            return clef__fail(err, CLEF_E_NOMEM, "constraint cache: out of host memory");
        }
        e->constraint = made;
    }
    e->n_users++;
    e->used = ++cache->now;
    *out = e->constraint;
    make_room(cache);
    return CLEF_OK;
}

void clef_constraint_cache_give(clef_constraint_cache *cache, const clef_constraint *constraint)
{
    for (int32_t i = 0; i < cache->n; i++)
        if (cache->at[i].constraint == constraint && cache->at[i].n_users > 0)
            cache->at[i].n_users--;
    make_room(cache);
}

/* Compiled constraints that are kept: those used last, up to a number of bytes. */
#include <stdlib.h>
#include <string.h>

#include "clef/constrain.h"
#include "graph/fail.h"
#include "runtime/os/os.h"

enum { DEFAULT_BYTES = 128 << 20, MOST_KEPT = 128 };

typedef struct entry {
    char *key;
    size_t n_key, n_bytes; /* n_bytes: 0 while it is used, since it grows */
    clef_constraint *constraint;
    int32_t n_users;
    uint64_t used; /* when it was used last */
} entry;

struct clef_constraint_cache {
    clef__mutex *mutex; /* of all that follows */
    size_t most_bytes;
    entry *at;
    int32_t n, room;
    uint64_t now;
};

clef_status clef_constraint_cache_create(size_t most_bytes, clef_constraint_cache **out, clef_error *err)
{
    clef_constraint_cache *cache = *out = calloc(1, sizeof *cache);
    if (cache)
        cache->mutex = clef__mutex_create();
    if (!cache || !cache->mutex) {
        clef_constraint_cache_destroy(cache);
        *out = NULL;
        return clef__fail(err, CLEF_E_NOMEM, "constraint cache: out of host memory");
    }
    cache->most_bytes = most_bytes ? most_bytes : DEFAULT_BYTES;
    return CLEF_OK;
}

static void remove_entry(clef_constraint_cache *cache, int32_t i)
{
    clef_constraint_destroy(cache->at[i].constraint);
    free(cache->at[i].key);
    cache->at[i] = cache->at[--cache->n];
}

void clef_constraint_cache_destroy(clef_constraint_cache *cache)
{
    if (!cache)
        return;
    while (cache->n)
        remove_entry(cache, cache->n - 1);
    clef__mutex_destroy(cache->mutex);
    free(cache->at);
    free(cache);
}

/* Removes what nobody uses, the oldest first, until the rest fits. */
static void make_room(clef_constraint_cache *cache)
{
    for (;;) {
        size_t n_bytes = 0;
        int32_t oldest = -1;
        for (int32_t i = 0; i < cache->n; i++) {
            const entry *e = &cache->at[i];
            n_bytes += e->n_bytes;
            if (!e->n_users && (oldest < 0 || e->used < cache->at[oldest].used))
                oldest = i;
        }
        if (oldest < 0 || (n_bytes <= cache->most_bytes && cache->n <= MOST_KEPT))
            return;
        remove_entry(cache, oldest);
    }
}

static entry *find(clef_constraint_cache *cache, const void *key, size_t n)
{
    for (int32_t i = 0; i < cache->n; i++)
        if (cache->at[i].n_key == n && !memcmp(cache->at[i].key, key, n))
            return &cache->at[i];
    return NULL;
}

static entry *add(clef_constraint_cache *cache, const void *key, size_t n, clef_constraint *constraint)
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
    memcpy(copy, key, n);
    cache->at[cache->n] = (entry){.key = copy, .n_key = n, .constraint = constraint};
    return &cache->at[cache->n++];
}

static clef_constraint *use(clef_constraint_cache *cache, entry *e)
{
    if (!e)
        return NULL;
    e->n_users++;
    e->n_bytes = 0;
    e->used = ++cache->now;
    return e->constraint;
}

clef_constraint *clef_constraint_cache_take(clef_constraint_cache *cache, const void *key, size_t n)
{
    clef__mutex_take(cache->mutex);
    clef_constraint *found = use(cache, find(cache, key, n));
    clef__mutex_release(cache->mutex);
    return found;
}

clef_constraint *clef_constraint_cache_put(clef_constraint_cache *cache, const void *key, size_t n,
                                           clef_constraint *constraint)
{
    clef__mutex_take(cache->mutex);
    entry *e = find(cache, key, n);
    if (!e)
        e = add(cache, key, n, constraint);
    clef_constraint *kept = use(cache, e);
    make_room(cache);
    clef__mutex_release(cache->mutex);
    if (kept != constraint)
        clef_constraint_destroy(constraint);
    return kept;
}

void clef_constraint_cache_give(clef_constraint_cache *cache, const clef_constraint *constraint)
{
    clef__mutex_take(cache->mutex);
    for (int32_t i = 0; i < cache->n; i++) {
        entry *e = &cache->at[i];
        if (e->constraint == constraint && e->n_users > 0 && --e->n_users == 0)
            e->n_bytes = e->n_key + clef_constraint_bytes(constraint);
    }
    make_room(cache);
    clef__mutex_release(cache->mutex);
}

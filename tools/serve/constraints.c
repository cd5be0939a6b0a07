/* Compiled constraints that are kept: those used last. They are compiled outside the lock, so that a slow one
 * delays nobody else. */
#include "tools/serve/constraints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/thread.h"

enum { MOST_KEPT = 128 };
static const size_t most_bytes = (size_t)128 << 20;

typedef struct entry {
    char *key;
    size_t n_key, n_bytes; /* n_bytes: 0 while it is used, since it grows */
    clef_constraint *constraint;
    int32_t n_users;
    uint64_t used; /* when it was used last */
} entry;

struct serve_constraints {
    serve_lock lock;
    serve_metrics *metrics;
    entry *at;
    int32_t n, room;
    uint64_t now;
};

serve_constraints *serve_constraints_create(serve_metrics *metrics)
{
    serve_constraints *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->metrics = metrics;
    serve_lock_init(&all->lock);
    return all;
}

static void remove_entry(serve_constraints *all, int32_t i)
{
    clef_constraint_destroy(all->at[i].constraint);
    free(all->at[i].key);
    all->at[i] = all->at[--all->n];
}

void serve_constraints_destroy(serve_constraints *all)
{
    if (!all)
        return;
    while (all->n)
        remove_entry(all, all->n - 1);
    serve_lock_finish(&all->lock);
    free(all->at);
    free(all);
}

static void make_room(serve_constraints *all)
{
    for (;;) {
        size_t n_bytes = 0;
        int32_t oldest = -1;
        for (int32_t i = 0; i < all->n; i++) {
            const entry *e = &all->at[i];
            n_bytes += e->n_bytes;
            if (!e->n_users && (oldest < 0 || e->used < all->at[oldest].used))
                oldest = i;
        }
        if (oldest < 0 || (n_bytes <= most_bytes && all->n <= MOST_KEPT))
            return;
        remove_entry(all, oldest);
    }
}

static entry *find(serve_constraints *all, const char *key, size_t n)
{
    for (int32_t i = 0; i < all->n; i++)
        if (all->at[i].n_key == n && !memcmp(all->at[i].key, key, n))
            return &all->at[i];
    return NULL;
}

static clef_constraint *use(serve_constraints *all, entry *e)
{
    e->n_users++;
    e->n_bytes = 0;
    e->used = ++all->now;
    return e->constraint;
}

/* Keeps what was compiled; takes `key`. Another thread may have been first. */
static clef_constraint *put(serve_constraints *all, char *key, size_t n_key, clef_constraint *made)
{
    serve_lock_take(&all->lock);
    entry *e = find(all, key, n_key);
    if (e) {
        clef_constraint_destroy(made);
        free(key);
        made = use(all, e);
    } else {
        if (all->n == all->room) {
            const int32_t room = all->room ? all->room * 2 : 16;
            entry *grown = realloc(all->at, (size_t)room * sizeof *grown);
            all->at = grown ? grown : all->at;
            all->room = grown ? room : all->room;
        }
        if (all->n < all->room) {
            e = &all->at[all->n++];
            *e = (entry){.key = key, .n_key = n_key, .constraint = made};
            use(all, e);
            make_room(all);
        } else {
            clef_constraint_destroy(made);
            free(key);
            made = NULL;
        }
    }
    serve_lock_release(&all->lock);
    return made;
}

static clef_constraint *take_known(serve_constraints *all, const char *key, size_t n_key)
{
    serve_lock_take(&all->lock);
    entry *e = find(all, key, n_key);
    clef_constraint *found = e ? use(all, e) : NULL;
    serve_lock_release(&all->lock);
    if (found)
        serve_count_label(all->metrics, SERVE_LABEL_COMPILES, SERVE_COMPILE_CACHED);
    return found;
}

/* The source with what else decides: "head", NUL, source. */
static char *make_key(const char *head, const char *source, size_t n, size_t *n_key)
{
    const size_t n_head = strlen(head) + 1;
    char *key = malloc(n_head + n + 1);
    if (!key)
        return NULL;
    memcpy(key, head, n_head);
    memcpy(key + n_head, source, n);
    *n_key = n_head + n;
    return key;
}

static clef_constraint *keep(serve_constraints *all, char *key, size_t n_key, clef_constraint *made,
                             serve_error *error)
{
    serve_count_label(all->metrics, SERVE_LABEL_COMPILES, made ? SERVE_COMPILE_OK : SERVE_COMPILE_REFUSED);
    if (!made) {
        free(key);
        return NULL;
    }
    made = put(all, key, n_key, made);
    if (!made)
        serve_fail(error, SERVE_E_INTERNAL, NULL, "out of host memory");
    return made;
}

clef_constraint *serve_constraints_take(serve_constraints *all, clef_constraint_kind kind, const char *source,
                                        size_t n, const clef_constraint_opts *opts, const char *param,
                                        serve_error *error)
{
    char head[64], path[512];
    clef_constraint_problem problem = {.keyword = ""};
    clef_error err = {0};
    size_t n_key;
    clef_constraint *made = NULL;
    snprintf(head, sizeof head, "%d %d", (int)kind, (int)opts->strict);
    char *key = make_key(head, source, n, &n_key);
    if (!key) {
        serve_fail(error, SERVE_E_INTERNAL, NULL, "out of host memory");
        return NULL;
    }
    clef_constraint *found = take_known(all, key, n_key);
    if (found) {
        free(key);
        return found;
    }
    const clef_status s = clef_constraint_create(kind, source, n, opts, &made, &problem, &err);
    snprintf(path, sizeof path, "%s%s", param, problem.path);
    if (s)
        serve_fail_status(error, &err,
                          kind == CLEF_CONSTRAIN_SCHEMA || s == CLEF_E_LIMIT ? SERVE_E_SCHEMA
                                                                             : SERVE_E_INVALID_VALUE,
                          path);
    return keep(all, key, n_key, s ? NULL : made, error);
}

clef_constraint *serve_constraints_take_tools(serve_constraints *all, const clef_tool_constraint_opts *o,
                                              serve_error *error)
{
    char head[256];
    clef_error err = {0};
    size_t n_key;
    clef_constraint *made = NULL;
    snprintf(head, sizeof head, "tools %d %d %d %.128s", (int)o->format, (int)o->choice, (int)o->parallel,
             o->name ? o->name : "");
    char *key = make_key(head, o->tools, o->tools_bytes, &n_key);
    if (!key) {
        serve_fail(error, SERVE_E_INTERNAL, NULL, "out of host memory");
        return NULL;
    }
    clef_constraint *found = take_known(all, key, n_key);
    if (found) {
        free(key);
        return found;
    }
    const clef_status s = clef_tool_constraint_create(o, &made, NULL, &err);
    if (s)
        serve_fail_status(error, &err, s == CLEF_E_ARG ? SERVE_E_INVALID_VALUE : SERVE_E_SCHEMA,
                          s == CLEF_E_ARG ? "tool_choice" : "tools");
    return keep(all, key, n_key, s ? NULL : made, error);
}

void serve_constraints_give(serve_constraints *all, clef_constraint *constraint)
{
    if (!constraint)
        return;
    serve_lock_take(&all->lock);
    for (int32_t i = 0; i < all->n; i++) {
        entry *e = &all->at[i];
        if (e->constraint == constraint && --e->n_users == 0)
            e->n_bytes = e->n_key + clef_constraint_bytes(constraint);
    }
    make_room(all);
    serve_lock_release(&all->lock);
}

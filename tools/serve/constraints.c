/* Compiled constraints that are kept: those used last. They are compiled outside the lock and a few at once,
 * so that slow ones delay nobody else. */
#include "tools/serve/constraints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/lane.h"
#include "tools/serve/os/system.h"
#include "tools/serve/os/thread.h"

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

/* ---- compiling ------------------------------------------------------------------------------- */

/* What a thread of the lane compiles: a source, or the calls of tools. */
typedef struct compile {
    serve_constraints *all;
    serve_error *error;
    char *key; /* freed, or kept */
    size_t n_key;
    clef_constraint_kind kind;
    const char *source, *param;
    size_t n;
    const clef_constraint_opts *opts;
    const clef_tool_constraint_opts *tools; /* NULL: a source */
    clef_constraint *made;
} compile;

static clef_status compile_source(const compile *c, clef_constraint **made)
{
    char path[512];
    clef_constraint_problem problem = {.keyword = ""};
    clef_error err = {0};
    const clef_status s = clef_constraint_create(c->kind, c->source, c->n, c->opts, made, &problem, &err);
    snprintf(path, sizeof path, "%s%s", c->param, problem.path);
    if (s)
        serve_fail_status(c->error, &err,
                          c->kind == CLEF_CONSTRAIN_SCHEMA || s == CLEF_E_LIMIT ? SERVE_E_SCHEMA
                                                                                : SERVE_E_INVALID_VALUE,
                          path);
    return s;
}

static clef_status compile_tools(const compile *c, clef_constraint **made)
{
    clef_error err = {0};
    const clef_status s = clef_tool_constraint_create(c->tools, made, NULL, &err);
    if (s)
        serve_fail_status(c->error, &err, s == CLEF_E_ARG ? SERVE_E_INVALID_VALUE : SERVE_E_SCHEMA,
                          s == CLEF_E_ARG ? "tool_choice" : "tools");
    return s;
}

/* Another request may have had the same compiled while this one waited. */
static void run_compile(void *user)
{
    compile *c = user;
    clef_constraint *made = NULL;
    c->made = take_known(c->all, c->key, c->n_key);
    if (c->made) {
        free(c->key);
        return;
    }
    const clef_status s = c->tools ? compile_tools(c, &made) : compile_source(c, &made);
    c->made = keep(c->all, c->key, c->n_key, s ? NULL : made, c->error);
    if (s) /* what it took until then may be much */
        serve_give_memory_back();
}

static clef_constraint *take(serve_request *r, compile *c, const char *head, const char *source, size_t n)
{
    c->all = r->s->constraints;
    c->error = &r->error;
    c->key = make_key(head, source, n, &c->n_key);
    if (!c->key) {
        serve_fail(c->error, SERVE_E_INTERNAL, NULL, "out of host memory");
        return NULL;
    }
    c->made = take_known(c->all, c->key, c->n_key);
    if (!c->made && serve_lane_run(r->s->compiles, r, run_compile, c))
        return c->made;
    free(c->key);
    return c->made;
}

clef_constraint *serve_constraints_take(serve_request *r, clef_constraint_kind kind, const char *source,
                                        size_t n, const clef_constraint_opts *opts, const char *param)
{
    char head[64];
    compile c = {.kind = kind, .source = source, .n = n, .opts = opts, .param = param};
    snprintf(head, sizeof head, "%d %d", (int)kind, (int)opts->strict);
    return take(r, &c, head, source, n);
}

clef_constraint *serve_constraints_take_tools(serve_request *r, const clef_tool_constraint_opts *o)
{
    char head[256];
    compile c = {.tools = o};
    snprintf(head, sizeof head, "tools %d %d %d %.128s", (int)o->format, (int)o->choice, (int)o->parallel,
             o->name ? o->name : "");
    return take(r, &c, head, o->tools, o->tools_bytes);
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

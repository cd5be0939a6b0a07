/* Constraints of requests. One thread compiles them, and clients take turns (lane.h). */
#include "tools/serve/constraints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/lane.h"
#include "tools/serve/os/system.h"

static clef_constraint *take_known(serve_request *r, const char *key, size_t n_key)
{
    clef_constraint *found = clef_constraint_cache_take(r->m->constraints, key, n_key);
    if (found)
        serve_count_label(&r->s->metrics, SERVE_LABEL_COMPILES, SERVE_COMPILE_CACHED);
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

/* ---- compiling ------------------------------------------------------------------------------- */

/* What a thread of the lane compiles: a source, or the calls of tools. */
typedef struct compile {
    serve_request *r;
    serve_error *error;
    char *key;
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
    c->made = take_known(c->r, c->key, c->n_key);
    if (c->made)
        return;
    const clef_status s = c->tools ? compile_tools(c, &made) : compile_source(c, &made);
    serve_count_label(&c->r->s->metrics, SERVE_LABEL_COMPILES, s ? SERVE_COMPILE_REFUSED : SERVE_COMPILE_OK);
    if (s) { /* what it took until then may be much */
        serve_give_memory_back();
        return;
    }
    c->made = clef_constraint_cache_put(c->r->m->constraints, c->key, c->n_key, made);
    if (!c->made)
        serve_fail(c->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static clef_constraint *take(serve_request *r, compile *c, const char *head, const char *source, size_t n)
{
    c->r = r;
    c->error = &r->error;
    c->key = make_key(head, source, n, &c->n_key);
    if (!c->key) {
        serve_fail(c->error, SERVE_E_INTERNAL, NULL, "out of host memory");
        return NULL;
    }
    c->made = take_known(c->r, c->key, c->n_key);
    if (!c->made)
        serve_lane_run(r->s->compiles, r, run_compile, c);
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

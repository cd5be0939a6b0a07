/* The tuner: collects the keys of a graph, and measures each admitted variant at each key. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"
#include "runtime/os/os.h"
#include "runtime/tune/tune.h"

enum {
    AT_LOAD_ROTATE_BYTES = 32 << 20,
    ROTATE_CACHES = 2,
    MOST_ROTATE_BYTES = 256 << 20,
    LEAST_WEIGHT_BYTES = 1 << 20,
    RIGHT_PPM = 1000000
};
static const double at_load_seconds = 2, at_load_timing_seconds = 0.01, timing_seconds = 0.15;

typedef struct key_list {
    clef_tune_key *keys;
    int32_t n, cap;
} key_list;

typedef struct tuner {
    clef_device *dev;
    clef_tune_db *db;
    const clef__trust *trust;
    clef_tune_opts opts;
    clef_tune_case_opts case_opts;
    int at_load;           /* 1: tunes while a plan is made; a missing measurement is not an error */
    double start, longest; /* seconds: start time, and the longest time of a candidate so far */
    uint64_t done, total;  /* number of candidates, as far as known */
} tuner;

/* ---- keys ------------------------------------------------------------------------------------ */

static clef_status add_key(key_list *list, const clef_tune_key *key, clef_error *err)
{
    for (int32_t i = 0; i < list->n; i++)
        if (clef__tune_key_order(&list->keys[i], key) == 0)
            return CLEF_OK;
    if (list->n == list->cap) {
        const int32_t cap = 2 * list->cap + 16;
        clef_tune_key *grown = realloc(list->keys, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for %d keys", (int)cap);
        list->keys = grown;
        list->cap = cap;
    }
    list->keys[list->n++] = *key;
    return CLEF_OK;
}

static int may_tune(const clef_value *n)
{
    const clef__tune_op *tune = n->op == CLEF_OP_NONE ? NULL : clef__ops[n->op]->tune;
    return tune && (!tune->takes_node || tune->takes_node(n));
}

/* Collects the keys of a graph with its symbols at 1, at 4 and at their bounds. */
static clef_status collect_keys(const clef_graph *g, const clef_caps *caps, clef_gemm gemm, key_list *list,
                                clef_error *err)
{
    static const int64_t most[] = {1, 4, INT64_MAX};
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    clef_status s = CLEF_OK;
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
        for (int32_t i = 0; i < g->n_symbols; i++)
            symbols[i] = g->symbols[i].bound < most[m] ? g->symbols[i].bound : most[m];
        for (int32_t i = 0; i < g->n_values && !s; i++) {
            const clef_lowering lo = {
                .graph = g, .caps = caps, .symbols = symbols, .gemm = gemm, .node = g->values[i]};
            if (!may_tune(g->values[i]))
                continue;
            const clef_tune_key key = clef__tune_key(&lo, g->values[i]);
            if (clef__tune_can(&key))
                s = add_key(list, &key, err);
        }
    }
    return s;
}

static int same_case(const clef_tune_key *a, const clef_tune_key *b)
{
    clef_tune_key c = *b;
    c.rows = a->rows;
    return clef__tune_key_order(a, &c) == 0;
}

static int64_t weight_bytes(const clef_tune_key *key)
{
    return (int64_t)key->n * key->k / clef_dtype_block_elems((clef_dtype)key->dtype) *
           clef_dtype_block_bytes((clef_dtype)key->dtype);
}

/* Sorts large weights first, because time may run out. Keys that differ only in their class of rows stay
 * together, because they share the weight's data. */
static int by_weight(const void *a, const void *b)
{
    clef_tune_key x = *(const clef_tune_key *)a, y = *(const clef_tune_key *)b;
    const int64_t heavier = weight_bytes(&y) - weight_bytes(&x);
    const int32_t rows = x.rows - y.rows;
    x.rows = y.rows = 0;
    const int order = clef__tune_key_order(&x, &y);
    return heavier ? (heavier < 0 ? -1 : 1) : order ? order : rows;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static clef_status report_progress(const tuner *t, clef_error *err)
{
    if (t->opts.progress &&
        t->opts.progress(t->opts.progress_user, "tuning", t->done, t->total > t->done ? t->total : t->done))
        return clef__fail(err, CLEF_E_CANCELLED, "tuning: interrupted after %" PRIu64 " candidates", t->done);
    return CLEF_OK;
}

static int no_time(const tuner *t)
{
    return t->opts.seconds > 0 && clef__os_seconds() - t->start + t->longest > t->opts.seconds;
}

/* Returns 1 if a failure stops the tuner: lack of memory and interruptions say nothing about the variant. */
static int stops_tuner(clef_status s)
{
    return s == CLEF_E_NOMEM || s == CLEF_E_CANCELLED;
}

/* Tries one more set of values, and keeps it in r if it is right and faster. Values that change no launch are
 * skipped. */
static clef_status try_set(clef_tune_case *c, clef_tune_result *r, const int32_t *values, int64_t best,
                           clef_error *err)
{
    uint64_t print[2];
    int64_t error = 0, ns = 0;
    clef_status s = clef__tune_case_print(c, r->row, r->values, r->key.rows, &print[0], err);
    if (!s)
        s = clef__tune_case_print(c, r->row, values, r->key.rows, &print[1], err);
    if (s || print[0] == print[1])
        return s;
    s = clef__tune_case_check(c, r->row, values, r->key.rows, &error, err);
    if (s || error > RIGHT_PPM)
        return s;
    s = clef__tune_case_time(c, r->row, values, r->key.rows, best && best < r->ns ? best : r->ns, &ns, err);
    if (!s && ns < r->ns - r->ns / 100 * CLEF_TUNE_GAIN_PERCENT) {
        r->ns = ns;
        memcpy(r->values, values, sizeof r->values);
    }
    return s;
}

/* Tries each tunable's candidate values; the other tunables keep their best values so far. */
static clef_status try_values(const tuner *t, clef_tune_case *c, clef_tune_result *r, int64_t best,
                              clef_error *err)
{
    const clef_variant *v = clef__variant_row(r->row, NULL);
    clef_status s = CLEF_OK;
    for (int i = 0; i < CLEF_MAX_TUNABLES && v->tunables[i].name; i++)
        for (int k = 0; k < CLEF_MAX_TUNABLE_VALUES && v->tunables[i].values[k] && !no_time(t) && !s; k++) {
            int32_t values[CLEF_MAX_TUNABLES];
            memcpy(values, r->values, sizeof values);
            values[i] = v->tunables[i].values[k];
            s = try_set(c, r, values, best, err);
        }
    return s;
}

/* Checks and times a variant at a key. best: the best time of the variants before it. */
static clef_status try_variant(tuner *t, clef_tune_case *c, clef_tune_result *r, int64_t best,
                               clef_error *err)
{
    const double start = clef__os_seconds();
    if (no_time(t)) {
        r->state = CLEF_TUNE_PASSED;
        return CLEF_OK;
    }
    clef_status s = clef__tune_case_check(c, r->row, r->values, r->key.rows, &r->error_ppm, err);
    r->state = s || r->error_ppm > RIGHT_PPM ? CLEF_TUNE_FAILED : CLEF_TUNE_MEASURED;
    if (!s && r->state == CLEF_TUNE_MEASURED)
        s = clef__tune_case_time(c, r->row, r->values, r->key.rows, best, &r->ns, err);
    if (!s && r->state == CLEF_TUNE_MEASURED)
        s = try_values(t, c, r, best, err);
    if (s) {
        r->state = CLEF_TUNE_FAILED;
        r->error_ppm = CLEF_TUNE_NO_NUMBER;
    }
    const double took = clef__os_seconds() - start;
    t->longest = took > t->longest ? took : t->longest;
    return s;
}

/* Tries all variants of a key, in the table's order. */
static clef_status tune_key(tuner *t, clef_tune_case *c, const clef_tune_key *key, clef_error *err)
{
    int64_t best = 0;
    clef_op op = CLEF_OP_NONE;
    for (int32_t row = 0; clef__variant_row(row, &op); row++) {
        clef_tune_result r = {.key = *key, .row = row};
        if ((int32_t)op != key->op || !clef__tune_case_fits(c, row, key->rows) ||
            t->trust->has_failed(t->dev, row) || (t->at_load && !t->trust->is_proven(t->dev, row)))
            continue;
        clef_status s = report_progress(t, err);
        if (!s)
            s = try_variant(t, c, &r, best, err);
        if (stops_tuner(s))
            return s;
        if (s && err)
            *err = (clef_error){0}; /* the result records the failure */
        if (r.state == CLEF_TUNE_MEASURED && (!best || r.ns < best))
            best = r.ns;
        t->done++;
        s = clef__tune_db_put(t->db, &r, err);
        if (s)
            return s;
    }
    return CLEF_OK;
}

/* Returns 1 if several variants are possible that this device has already run correctly. Other variants would
 * first have to be compiled and proven; `clef tune` does that. */
static int has_choice(const tuner *t, const clef_tune_key *key)
{
    clef_device *dev = t->dev;
    clef_op op = CLEF_OP_NONE;
    const clef_variant *v;
    int n = 0;
    for (int32_t row = 0; (v = clef__variant_row(row, &op)); row++)
        n += (int32_t)op == key->op && clef__variant_runs_on(&dev->info.caps, v) &&
             t->trust->is_proven(dev, row);
    return n > 1;
}

/* Records a key's variants as not measured: there was no time, or at load no choice between variants. */
static clef_status pass_over(tuner *t, const clef_tune_key *key, clef_error *err)
{
    clef_op op = CLEF_OP_NONE;
    const clef_variant *v;
    clef_status s = CLEF_OK;
    for (int32_t row = 0; (v = clef__variant_row(row, &op)) && !s; row++)
        if ((int32_t)op == key->op && clef__variant_runs_on(&t->dev->info.caps, v)) {
            s = clef__tune_db_put(
                t->db, &(clef_tune_result){.key = *key, .row = row, .state = CLEF_TUNE_PASSED}, err);
            t->done++;
        }
    return s;
}

static uint64_t count_candidates(const key_list *list, const clef_tune_db *db, int again)
{
    uint64_t n = 0;
    clef_op op = CLEF_OP_NONE;
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t row = 0;
             (again || !clef__tune_db_knows(db, &list->keys[i])) && clef__variant_row(row, &op); row++)
            n += (int32_t)op == list->keys[i].op;
    return n;
}

static clef_status tune_all(tuner *t, key_list *list, clef_error *err)
{
    clef_tune_case *c = NULL;
    clef_status s = CLEF_OK;
    int32_t made_for = -1;
    qsort(list->keys, (size_t)list->n, sizeof *list->keys, by_weight);
    t->total = count_candidates(list, t->db, t->opts.again);
    t->start = clef__os_seconds();
    for (int32_t i = 0; i < list->n && !stops_tuner(s); i++) {
        const clef_tune_key *key = &list->keys[i];
        if (!t->opts.again && clef__tune_db_knows(t->db, key))
            continue;
        if (no_time(t) || (t->at_load && !has_choice(t, key))) {
            s = pass_over(t, key, err);
            continue;
        }
        if (made_for < 0 || !same_case(&list->keys[made_for], key)) {
            clef__tune_case_destroy(c);
            s = clef__tune_case_create(t->dev, key, &t->case_opts, &c, err);
            made_for = s ? -1 : i;
        }
        if (c)
            s = tune_key(t, c, key, err);
    }
    clef__tune_case_destroy(c);
    if (!stops_tuner(s) && s && err)
        *err = (clef_error){0}; /* without results the table's order decides */
    const clef_status saved =
        t->done ? clef__tune_db_save(t->dev, t->db, stops_tuner(s) ? NULL : err) : CLEF_OK;
    return stops_tuner(s) ? s : saved;
}

/* ---- at load --------------------------------------------------------------------------------- */

/* Drops the keys that are not worth the time at load: small weights, and ops that are not tuned then. The
 * table's order decides for them. */
static void drop_light(key_list *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++)
        if (clef__ops[list->keys[i].op]->tune->at_load && weight_bytes(&list->keys[i]) >= LEAST_WEIGHT_BYTES)
            list->keys[n++] = list->keys[i];
    list->n = n;
}

clef_status clef__tune_at_load(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                               const clef__trust *trust, clef_error *err)
{
    tuner t = {.dev = dev,
               .trust = trust,
               .at_load = 1,
               .opts = {.seconds = at_load_seconds,
                        .progress = opts->compile.progress,
                        .progress_user = opts->compile.progress_user},
               .case_opts = {.rotate_bytes = AT_LOAD_ROTATE_BYTES,
                             .seconds = at_load_timing_seconds,
                             .brief = 1,
                             .hooks = trust->hooks}};
    key_list list = {0};
    const char *wanted = clef__os_env("CLEF_TUNE");
    if (opts->compile.no_tune || (wanted && strcmp(wanted, "0") == 0) ||
        !dev->cache_dir[0]) /* without a cache every start would measure again */
        return CLEF_OK;
    clef_status s = clef__tune_db_open(dev, &t.db, err);
    if (!s)
        s = collect_keys(graph, &dev->info.caps, opts->compile.gemm, &list, err);
    drop_light(&list);
    if (!s && count_candidates(&list, t.db, 0))
        s = tune_all(&t, &list, err);
    free(list.keys);
    return s;
}

/* ---- on request ------------------------------------------------------------------------------- */

/* Collects the keys that a plan of this graph with these options would have. */
static clef_status collect_planned(const clef_device *dev, clef_graph *g, const clef_plan_opts *opts,
                                   key_list *list, clef_error *err)
{
    const clef_compile_opts *o = &opts->compile;
    const clef_status s =
        opts->as_stored ? CLEF_OK : clef__pass_choose(g, &dev->info.caps, o->gemm, o->exact, err);
    return s ? s : collect_keys(g, &dev->info.caps, o->gemm, list, err);
}

static clef_status common_keys(const clef_device *dev, const clef_plan_opts *opts, key_list *list,
                               clef_error *err)
{
    clef_status s = CLEF_OK;
    char text[CLEF_TUNE_TEXT_BYTES];
    for (int32_t i = 0; !s && clef__tune_common_text(i, text); i++) {
        clef_graph *g = NULL;
        s = clef_graph_parse(text, strlen(text), "tuning", &g, err);
        if (!s)
            s = collect_planned(dev, g, opts, list, err);
        clef_graph_destroy(g);
    }
    return s;
}

static clef_status keys_of(const clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                           key_list *list, clef_error *err)
{
    clef_status s = clef_graph_error(graph, err);
    clef_graph *g = s ? NULL : clef_graph_clone(graph);
    if (!s && !g)
        s = clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for a copy of the graph");
    if (!s)
        s = collect_planned(dev, g, opts, list, err);
    clef_graph_destroy(g);
    return s;
}

static uint64_t rotate_bytes(const clef_device *dev)
{
    cl_ulong cache = 0;
    if (clGetDeviceInfo(dev->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL) != CL_SUCCESS)
        cache = 0;
    const uint64_t room = dev->info.caps.global_bytes / 16, wanted = ROTATE_CACHES * (uint64_t)cache;
    uint64_t most = MOST_ROTATE_BYTES;
    if (most > room)
        most = room;
    return wanted < AT_LOAD_ROTATE_BYTES ? AT_LOAD_ROTATE_BYTES : wanted > most ? most : wanted;
}

clef_status clef__tune(clef_device *dev, const clef_graph *graph, const clef_plan_opts *plan_opts,
                       const clef_tune_opts *opts, const clef__trust *trust, clef_error *err)
{
    const clef_plan_opts none = {0}, *po = plan_opts ? plan_opts : &none;
    tuner t = {.dev = dev, .trust = trust, .opts = opts ? *opts : (clef_tune_opts){0}};
    key_list list = {0};
    dev->cache_policy = CLEF__SAVE_IN_FOREGROUND; /* nothing else may run while candidates are timed */
    t.case_opts = (clef_tune_case_opts){
        .rotate_bytes = rotate_bytes(dev), .seconds = timing_seconds, .hooks = trust->hooks};
    clef_status s = clef__tune_db_open(dev, &t.db, err);
    if (!s)
        s = graph ? keys_of(dev, graph, po, &list, err) : common_keys(dev, po, &list, err);
    if (!s)
        s = tune_all(&t, &list, err);
    free(list.keys);
    return s;
}

/* The tuning database in memory and on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/tune/tune.h"

enum { MAX_FILE_BYTES = 16 << 20 };

/* ---- results --------------------------------------------------------------------------------- */

static int32_t find_result(const clef_tune_db *db, const clef_tune_key *key, int32_t row)
{
    for (int32_t i = 0; i < db->n; i++)
        if ((row < 0 || db->results[i].row == row) && clef__tune_key_order(&db->results[i].key, key) == 0)
            return i;
    return -1;
}

const clef_tune_result *clef__tune_db_find(const clef_tune_db *db, const clef_tune_key *key, int32_t row)
{
    const int32_t i = find_result(db, key, row);
    return i < 0 ? NULL : &db->results[i];
}

int clef__tune_db_knows(const clef_tune_db *db, const clef_tune_key *key)
{
    return find_result(db, key, -1) >= 0;
}

clef_status clef__tune_db_put(clef_tune_db *db, const clef_tune_result *result, clef_error *err)
{
    const int32_t at = find_result(db, &result->key, result->row);
    if (at >= 0) {
        db->results[at] = *result;
        return CLEF_OK;
    }
    if (db->n == db->cap) {
        const int32_t cap = 2 * db->cap + 32;
        clef_tune_result *grown = realloc(db->results, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for %d results", (int)cap);
        db->results = grown;
        db->cap = cap;
    }
    db->results[db->n++] = *result;
    return CLEF_OK;
}

void clef__tune_db_free(clef_tune_db *db)
{
    if (db)
        free(db->results);
    free(db);
}

/* ---- the file -------------------------------------------------------------------------------- */

clef_status clef__tune_db_path(const clef_device *dev, char out[CLEF_CACHE_PATH_BYTES], clef_error *err)
{
    return clef__cache_beside(dev, "tuning", out, err);
}

static clef_status read_file(clef_tune_db *db, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    if (!path[0] || !clef__os_is_file(path))
        return CLEF_OK;
    const clef_status s = clef__os_read(path, MAX_FILE_BYTES, &text, &n, err);
    if (s == CLEF_E_NOMEM)
        return s;
    const clef_status parsed = s ? CLEF_OK : clef__tune_parse(db, text, err);
    clef__os_touch(path);
    if (s) {
        db->n_damaged++;
        if (err)
            *err = (clef_error){0}; /* the failure was handled */
    }
    free(text);
    return parsed;
}

static void release_db(clef_device *dev, void *db)
{
    (void)dev;
    clef__tune_db_free(db);
}
static const clef__attachment db_slot = {.release = release_db};

/* Makes CLBlast use the tuned parameters. A failure is ignored: parameters that CLBlast refuses change
 * nothing, and are not needed. */
static void apply_clblast(clef_device *dev)
{
    const clef_tune_db *db = clef__device_attached(dev, &db_slot);
    if (db)
        clef__clblast_apply(dev, db->clblast.kernels, NULL);
}

clef_status clef__tune_db_open(clef_device *dev, clef_tune_db **out, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES];
    *out = clef__device_attached(dev, &db_slot);
    if (*out)
        return CLEF_OK;
    clef_tune_db *db = calloc(1, sizeof *db);
    if (!db)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the tuning database");
    clef_status s = clef__tune_db_path(dev, path, err);
    if (!s)
        s = read_file(db, path, err);
    if (s) {
        clef__tune_db_free(db);
        return s;
    }
    clef__device_attach(dev, &db_slot, *out = db);
    dev->before_clblast = apply_clblast;
    return CLEF_OK;
}

clef_status clef__tune_db_save(clef_device *dev, clef_tune_db *db, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES], dir[CLEF_CACHE_PATH_BYTES];
    clef_status s = clef__tune_db_path(dev, path, err);
    if (s || !path[0])
        return s;
    s = read_file(db, path, err);
    char *text = s ? NULL : clef__tune_print(db, &dev->info);
    if (!s && !text)
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for the text of the tuning database");
    snprintf(dir, sizeof dir, "%s/tuning", dev->cache_dir);
    if (!s && clef__os_make_dirs(dir, NULL) == CLEF_OK)
        clef__os_write(path, text, strlen(text), NULL);
    free(text);
    db->n_damaged = 0;
    return s;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Returns the result that decides a key, NULL if there is none. */
static const clef_tune_result *best_at(const clef_tune_db *db, const clef_tune_key *key,
                                       const unsigned char *aside)
{
    const clef_tune_result *best = NULL;
    for (int32_t row = 0; row < CLEF_N_VARIANTS; row++) {
        const clef_tune_result *r = aside[row] ? NULL : clef__tune_db_find(db, key, row);
        if (r && r->state == CLEF_TUNE_MEASURED &&
            (!best || r->ns < best->ns - best->ns / 100 * CLEF_TUNE_GAIN_PERCENT))
            best = r;
    }
    return best;
}

static int by_key(const void *a, const void *b)
{
    return clef__tune_key_order(&((const clef_tune_choice *)a)->key, &((const clef_tune_choice *)b)->key);
}

clef_status clef__tuning_make(const clef_tune_db *db, clef_tuning *out, clef_error *err)
{
    *out = (clef_tuning){0};
    clef_tune_choice *choices = calloc((size_t)db->n + 1, sizeof *choices);
    unsigned char *aside = calloc(CLEF_N_VARIANTS, 1);
    if (!choices || !aside) {
        free(choices);
        free(aside);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the choices of %d measurements", (int)db->n);
    }
    for (int32_t i = 0; i < db->n; i++)
        aside[db->results[i].row] |= db->results[i].state == CLEF_TUNE_FAILED;
    for (int32_t i = 0; i < db->n; i++) {
        const clef_tune_result *r = &db->results[i];
        if (best_at(db, &r->key, aside) != r)
            continue;
        clef_tune_choice *c = &choices[out->n++];
        *c = (clef_tune_choice){.key = r->key, .variant = clef__variant_row(r->row, NULL)};
        memcpy(c->values, r->values, sizeof c->values);
    }
    qsort(choices, (size_t)out->n, sizeof *choices, by_key);
    out->choices = choices;
    out->aside = aside;
    return CLEF_OK;
}

clef_status clef__tuning_of(clef_device *dev, clef_tuning *out, clef_error *err)
{
    clef_tune_db *db = NULL;
    const clef_status s = clef__tune_db_open(dev, &db, err);
    return s ? s : clef__tuning_make(db, out, err);
}

/* The tuning database in memory and on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/source.h"
#include "runtime/os/os.h"
#include "runtime/os/sha256.h"
#include "runtime/tune/tune.h"

enum { MAX_FILE_BYTES = 16 << 20, NAME_BYTES = 16 /* of the hash, in the file's name */ };

/* ---- results
 * ---------------------------------------------------------------------------------------------------------------------
 */

static int32_t find(const clef_tune_db *db, const clef_tune_key *key, int32_t row)
{
    for (int32_t i = 0; i < db->n; i++)
        if ((row < 0 || db->results[i].row == row) && clef__tune_key_order(&db->results[i].key, key) == 0)
            return i;
    return -1;
}

const clef_tune_result *clef__tune_db_find(const clef_tune_db *db, const clef_tune_key *key, int32_t row)
{
    const int32_t i = find(db, key, row);
    return i < 0 ? NULL : &db->results[i];
}

int clef__tune_db_knows(const clef_tune_db *db, const clef_tune_key *key)
{
    return find(db, key, -1) >= 0;
}

clef_status clef__tune_db_put(clef_tune_db *db, const clef_tune_result *result, clef_error *err)
{
    const int32_t at = find(db, &result->key, result->row);
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

/* ---- the file
 * ----------------------------------------------------------------------------------------------------------------------
 */

static void add_field(clef_sha256 *s, const char *text, size_t n)
{
    const uint64_t length = n; /* so that no two lists of fields read the same */
    clef__sha256_add(s, &length, sizeof length);
    clef__sha256_add(s, text, n);
}

/* Over all kernels: a changed one may be faster, or right at last. */
static clef_status add_sources(clef_sha256 *s, clef_error *err)
{
    for (const clef_embedded *e = clef__embedded_cl; e->name; e++) {
        const size_t stem_bytes = strlen(e->name) - 3;
        char stem[64], *text;
        size_t n;
        if (strcmp(e->name + stem_bytes, ".cl") != 0 || stem_bytes >= sizeof stem)
            continue;
        memcpy(stem, e->name, stem_bytes);
        stem[stem_bytes] = 0;
        const clef_status status = clef__source_assemble(stem, &text, &n, err);
        if (status == CLEF_E_NOMEM)
            return status;
        if (status != CLEF_OK)
            continue; /* not in $CLEF_CL_DIR: what needs it will say so */
        add_field(s, text, n);
        free(text);
    }
    return CLEF_OK;
}

clef_status clef__tune_db_path(const clef_device *dev, char out[CLEF_TUNE_PATH_BYTES], clef_error *err)
{
    const char *const mask = clef__os_env("CLEF_CAPS"); /* a device with less is another device */
    const char *const texts[] = {dev->info.name,   dev->info.vendor,        dev->info.version,
                                 dev->info.driver, dev->info.platform_name, mask ? mask : ""};
    unsigned char key[CLEF_SHA256_BYTES];
    clef_sha256 s;
    out[0] = 0;
    if (!dev->cache_dir[0])
        return CLEF_OK;
    clef__sha256_init(&s);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_field(&s, texts[i], strlen(texts[i]));
    const clef_status status = add_sources(&s, err);
    if (status)
        return status;
    clef__sha256_finish(&s, key);
    int n = snprintf(out, CLEF_TUNE_PATH_BYTES, "%s/tuning/", dev->cache_dir);
    for (int i = 0; i < NAME_BYTES; i++)
        n += snprintf(out + n, CLEF_TUNE_PATH_BYTES - (size_t)n, "%02x", key[i]);
    snprintf(out + n, CLEF_TUNE_PATH_BYTES - (size_t)n, ".txt");
    return CLEF_OK;
}

clef_status clef__tune_db_beside(const clef_device *dev, const char *folder, char out[CLEF_TUNE_PATH_BYTES],
                                 clef_error *err)
{
    char tuning[CLEF_TUNE_PATH_BYTES];
    const clef_status s = clef__tune_db_path(dev, tuning, err);
    const char *name = strrchr(tuning, '/');
    out[0] = 0;
    if (!s && name)
        snprintf(out, CLEF_TUNE_PATH_BYTES, "%s/%s%s", dev->cache_dir, folder, name);
    return s;
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
    if (s) {
        db->n_damaged++;
        if (err)
            *err = (clef_error){0}; /* no failure after all */
    }
    free(text);
    return parsed;
}

clef_status clef__tune_db_open(clef_device *dev, clef_tune_db **out, clef_error *err)
{
    char path[CLEF_TUNE_PATH_BYTES];
    *out = dev->tuning;
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
    *out = dev->tuning = db;
    return CLEF_OK;
}

clef_status clef__tune_db_save(clef_device *dev, clef_tune_db *db, clef_error *err)
{
    char path[CLEF_TUNE_PATH_BYTES], dir[CLEF_TUNE_PATH_BYTES];
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

/* ---- the table
 * ----------------------------------------------------------------------------------------------------------------------
 */

/* The result that serves a key; NULL when none may. */
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

void clef__tuning_finish(clef_tuning *tuning)
{
    free((void *)(uintptr_t)tuning->choices);
    free((void *)(uintptr_t)tuning->aside);
    *tuning = (clef_tuning){0};
}

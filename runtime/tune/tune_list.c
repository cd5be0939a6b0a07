/* Lists for `clef devices --variants` how a device uses each variant, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tune/tune.h"

typedef struct listing {
    clef_variant_info *list;
    int32_t n, cap;
} listing;

static clef_status add_variant(listing *l, const clef_variant_info *info, clef_error *err)
{
    if (l->n == l->cap) {
        const int32_t cap = 2 * l->cap + 32;
        clef_variant_info *grown = realloc(l->list, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for a list of %d variants", (int)cap);
        l->list = grown;
        l->cap = cap;
    }
    l->list[l->n++] = *info;
    return CLEF_OK;
}

static void write_values(const clef_tune_result *r, const clef_variant *v, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < CLEF_MAX_TUNABLES && v->tunables[i].name; i++) {
        const int n = r->values[i] ? snprintf(out + at, room - at, "%s%s=%" PRId32, at ? " " : "",
                                              v->tunables[i].name, r->values[i])
                                   : 0;
        at += n > 0 && (size_t)n < room - at ? (size_t)n : 0;
    }
}

static const clef_tune_choice *choice_at(const clef_tuning *tuning, const clef_tune_key *key)
{
    for (int32_t i = 0; i < tuning->n; i++)
        if (clef__tune_key_order(&tuning->choices[i].key, key) == 0)
            return &tuning->choices[i];
    return NULL;
}

static void say_failed(clef_variant_info *info, const clef_tune_result *r)
{
    info->state = CLEF_VARIANT_FAILED;
    if (r->error_ppm >= CLEF_TUNE_NO_NUMBER)
        snprintf(info->why, sizeof info->why,
                 "failed its check: it does not build or run, or gives no numbers; set aside");
    else
        snprintf(info->why, sizeof info->why,
                 "failed its check: error %.3g > %.3g of the largest result; set aside",
                 info->error * (double)clef__ops[r->key.op]->tol, (double)clef__ops[r->key.op]->tol);
}

static void describe_result(const clef_tune_db *db, const clef_tuning *tuning, const clef_tune_result *r,
                            clef_variant_info *info)
{
    const clef_tune_choice *choice = choice_at(tuning, &r->key);
    const clef_variant *v = clef__variant_row(r->row, NULL);
    int32_t row = 0;
    while (choice && row < CLEF_N_VARIANTS && clef__variant_row(row, NULL) != choice->variant)
        row++;
    const clef_tune_result *best = choice ? clef__tune_db_find(db, &r->key, row) : NULL;
    *info = (clef_variant_info){.op = clef__ops[r->key.op]->name,
                                .variant = v->name,
                                .us = (double)r->ns / 1e3,
                                .best_us = best ? (double)best->ns / 1e3 : 0,
                                .error = (double)r->error_ppm / 1e6};
    clef__tune_key_text(&r->key, info->key);
    write_values(r, v, info->values, sizeof info->values);
    if (r->state == CLEF_TUNE_FAILED) {
        say_failed(info, r);
    } else if (tuning->aside[r->row]) {
        info->state = CLEF_VARIANT_FAILED;
        snprintf(info->why, sizeof info->why, "right here, but set aside: it failed its check elsewhere");
    } else if (r->state == CLEF_TUNE_PASSED) {
        info->state = CLEF_VARIANT_UNTIMED;
        snprintf(info->why, sizeof info->why, "not measured: no time was left (clef tune)");
    } else if (best == r) {
        info->state = CLEF_VARIANT_CHOSEN;
        snprintf(info->why, sizeof info->why, "chosen: %.4g us", info->us);
    } else {
        info->state = CLEF_VARIANT_SLOWER;
        snprintf(info->why, sizeof info->why, "%s: %.4g us against %.4g",
                 info->us > info->best_us ? "slower" : "faster by noise", info->us, info->best_us);
    }
}

/* Describes a variant without any measurement. */
static void describe_unmeasured(clef_device *dev, const clef__trust *trust, int32_t row,
                                clef_variant_info *info)
{
    clef_op op = CLEF_OP_NONE;
    const clef_variant *v = clef__variant_row(row, &op);
    const int able = clef__variant_runs_on(&dev->info.caps, v);
    *info = (clef_variant_info){.op = clef__ops[op]->name,
                                .variant = v->name,
                                .state = able ? CLEF_VARIANT_BY_ORDER : CLEF_VARIANT_UNFIT};
    if (able && trust->has_failed(dev, row)) {
        info->state = CLEF_VARIANT_FAILED;
        snprintf(info->why, sizeof info->why, "failed its proof; set aside (clef selftest --op %s)",
                 info->op);
    } else if (able)
        snprintf(info->why, sizeof info->why,
                 "not measured (clef tune): serves where the stated order comes to it%s%s",
                 v->shape_text ? "; takes " : "", v->shape_text ? v->shape_text : "");
    else
        snprintf(info->why, sizeof info->why, "needs %s", v->device_text ? v->device_text : "another device");
}

clef_status clef__variants_list(clef_device *dev, const clef__trust *trust, clef_variant_info **out,
                                int32_t *n, clef_error *err)
{
    clef_tune_db *db = NULL;
    clef_tuning tuning = {0};
    listing l = {0};
    *out = NULL;
    *n = 0;
    clef_status s = clef__tune_db_open(dev, &db, err);
    if (!s)
        s = clef__tuning_make(db, &tuning, err);
    for (int32_t row = 0; row < CLEF_N_VARIANTS && !s; row++) {
        clef_variant_info info;
        const int32_t before = l.n;
        for (int32_t i = 0; i < db->n && !s; i++)
            if (db->results[i].row == row) {
                describe_result(db, &tuning, &db->results[i], &info);
                s = add_variant(&l, &info, err);
            }
        if (l.n == before && !s) {
            describe_unmeasured(dev, trust, row, &info);
            s = add_variant(&l, &info, err);
        }
    }
    clef__tuning_finish(&tuning);
    if (s) {
        free(l.list);
        return s;
    }
    *out = l.list;
    *n = l.n;
    return CLEF_OK;
}

void clef_variants_free(clef_variant_info *list)
{
    free(list);
}

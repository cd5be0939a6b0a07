/* Chooses among the variants of an op. */
#include "graph/lower/variant.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct {
    clef_op op;
    const clef_variant *variant;
} rows[] = {
#define VARIANT(op, name) {CLEF_OP_##op, &clef__##op##_##name},
#include "graph/lower/variants.def"
#undef VARIANT
};

const clef_variant *clef__variant_row(int32_t i, clef_op *op)
{
    if (i < 0 || i >= CLEF_N_VARIANTS)
        return NULL;
    if (op)
        *op = rows[i].op;
    return rows[i].variant;
}

int clef__variant_runs_on(const clef_caps *caps, const clef_variant *variant)
{
    if (variant->cap) {
        int32_t value;
        memcpy(&value, (const char *)caps + (variant->cap - 1), sizeof value);
        if (!value)
            return 0;
    }
    return !variant->runs_on || variant->runs_on(caps);
}

int clef__variant_fits(const clef_lowering *lo, const clef_value *n, const clef_variant *variant)
{
    return clef__variant_runs_on(lo->caps, variant) && (!variant->fits || variant->fits(lo, n));
}

static const clef_tune_choice *choice_for(const clef_tuning *tuning, const clef_tune_key *key)
{
    int32_t low = 0, high = tuning->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const int order = clef__tune_key_order(&tuning->choices[middle].key, key);
        if (!order)
            return &tuning->choices[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The first of the table's order. */
static const clef_variant *first_that_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_variant *serving = NULL;
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++) {
        if (rows[i].op != n->op)
            continue;
        serving = rows[i].variant;
        if (!(lo->tuning && lo->tuning->aside && lo->tuning->aside[i]) &&
            clef__variant_fits(lo, n, serving) && (!serving->is_default || serving->is_default(lo, n)))
            break;
    }
    return serving;
}

const clef_variant *clef__variant_of(const clef_lowering *lo, const clef_value *n, const int32_t **tuned)
{
    const clef_variant *forced = lo->forced ? lo->forced[n->op] : NULL;
    const clef_tune_choice *choice = NULL;
    if (lo->tuning && lo->tuning->n) {
        const clef_tune_key key = clef__tune_key(lo, n);
        choice = choice_for(lo->tuning, &key);
    }
    if (forced && clef__variant_fits(lo, n, forced)) {
        if (tuned)
            *tuned = choice && choice->variant == forced ? choice->values : NULL;
        return forced;
    }
    if (choice && !clef__variant_fits(lo, n, choice->variant))
        choice = NULL;
    if (tuned)
        *tuned = choice ? choice->values : NULL;
    return choice ? choice->variant : first_that_fits(lo, n);
}

clef_status clef__lower_variant(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_variant *before = lo->serving, *serving = clef__variant_of(lo, n, &lo->tuned);
    lo->serving = serving;
    const clef_status s =
        serving ? serving->lower(lo, n, err) : clef__fail(err, CLEF_E_UNSUPPORTED, "%s: no kernel", n->name);
    lo->tuned = NULL;
    lo->serving = before;
    return s;
}

int32_t clef__tunable(const clef_lowering *lo, int32_t i)
{
    return lo->tuned ? lo->tuned[i] : 0;
}

/* ---- forced variants ------------------------------------------------------------------------- */

static int has_name(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

static int32_t find_row(const char *op, size_t op_bytes, const char *name, size_t name_bytes)
{
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++)
        if (has_name(clef__ops[rows[i].op]->name, op, op_bytes) &&
            has_name(rows[i].variant->name, name, name_bytes))
            return i;
    return -1;
}

/* Lists the kernels of the op, or the ops where there is none of this name: together they would not fit. */
static clef_status fail_unknown(const char *text, size_t n, clef_error *err)
{
    char all[800] = "";
    size_t used = 0;
    const size_t n_op = strcspn(text, "=,");
    const char *last = "";
    int is_known = 0;
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++)
        is_known |= has_name(clef__ops[rows[i].op]->name, text, n_op);
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++) {
        const char *op = clef__ops[rows[i].op]->name, *name = is_known ? rows[i].variant->name : op;
        if ((is_known && !has_name(op, text, n_op)) || strcmp(name, last) == 0)
            continue;
        last = name;
        const int more = snprintf(all + used, sizeof all - used, " %s", name);
        assert(more > 0 && (size_t)more < sizeof all - used);
        used += (size_t)more;
    }
    return clef__fail(err, CLEF_E_ARG, "variant '%.*s': expected OP=NAME[,OP=NAME...] with %s of%s",
                      (int)(n < 60 ? n : 60), text, is_known ? "a NAME" : "an OP", all);
}

clef_status clef__variants_force(const char *text, const clef_variant *forced[CLEF_N_OPS], clef_error *err)
{
    memset(forced, 0, CLEF_N_OPS * sizeof *forced);
    while (text && *text) {
        const size_t n = strcspn(text, ","), op_bytes = strcspn(text, "=,");
        const int32_t i = op_bytes < n ? find_row(text, op_bytes, text + op_bytes + 1, n - op_bytes - 1) : -1;
        if (i < 0)
            return fail_unknown(text, n, err);
        forced[rows[i].op] = rows[i].variant;
        text += n + (text[n] == ',');
    }
    return CLEF_OK;
}

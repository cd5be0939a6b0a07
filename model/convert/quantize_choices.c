/* What the options of clef_model_quantize() say of single matrices: types by rules, and importance. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/blocks.h"
#include "graph/fail.h"
#include "model/convert/imatrix.h"
#include "model/convert/quantize.h"

/* ---- rules ----------------------------------------------------------------------------------- */

/* 1 where the pattern fits the text's begin; or, after a *, some part of it. */
static int fits_at(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*pattern)
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*text && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star && *from) {
            pattern = star;
            text = ++from;
        } else {
            return 0;
        }
    return 1;
}

static int fits(const char *pattern, const char *name)
{
    for (; *name; name++)
        if (fits_at(pattern, name))
            return 1;
    return 0;
}

static clef_status check_rule(const clef_quantize_rule *rule, clef_dtype *dtype, clef_error *err)
{
    *dtype = clef__quantize_find_dtype(rule->type);
    if (!rule->pattern || !*rule->pattern)
        return clef__fail(err, CLEF_E_ARG,
                          "a type of single matrices: expected a part of their names, got none");
    if (*dtype == CLEF_N_DTYPES)
        return clef__fail(err, CLEF_E_ARG, "%.60s=%.40s: expected the type of one matrix, such as q6_k",
                          rule->pattern, rule->type ? rule->type : "");
    return CLEF_OK;
}

static int is_matrix(const clef__quantize_item *item)
{
    const size_t n = strlen(item->to.name), m = strlen(".weight");
    const clef_dtype from = item->from->dtype;
    return clef__quantize_has_type(item) && n > m && strcmp(item->to.name + n - m, ".weight") == 0 &&
           from != CLEF_I8 && from != CLEF_I32;
}

static void set_dtype(clef__quantize_item *item, clef_dtype dtype)
{
    const int64_t n = (int64_t)item->to.n_bytes / clef_dtype_block_bytes(item->to.dtype) *
                      clef_dtype_block_elems(item->to.dtype);
    item->to.dtype = clef__quantize_fitting(dtype, item->to.dims[item->to.rank - 1]);
    item->to.n_bytes = (uint64_t)(n / clef_dtype_block_elems(item->to.dtype)) *
                       (uint64_t)clef_dtype_block_bytes(item->to.dtype);
}

static clef_status apply_rules(const clef_model *m, const clef_quantize_opts *opts, clef__quantize_plan *plan,
                               clef_error *err)
{
    for (int32_t r = opts->n_rules - 1; r >= 0; r--) { /* so that the first has the last word */
        const clef_quantize_rule *rule = &opts->rules[r];
        clef_dtype dtype;
        int32_t n = 0;
        const clef_status status = check_rule(rule, &dtype, err);
        if (status != CLEF_OK)
            return status;
        for (size_t i = 0; i < plan->n_items; i++)
            if (is_matrix(&plan->items[i]) && fits(rule->pattern, plan->items[i].to.name)) {
                set_dtype(&plan->items[i], dtype);
                n++;
            }
        if (!n)
            return clef__fail(err, CLEF_E_NOT_FOUND,
                              "%s: %.80s=%.20s fits no matrix; `clef info` lists the names of a GGUF file",
                              clef_model_path(m), rule->pattern, rule->type);
    }
    return CLEF_OK;
}

/* ---- importance ------------------------------------------------------------------------------ */

static clef_status set_importance(const clef_imatrix *im, const clef_imatrix_entry *e,
                                  clef__quantize_item *item, clef_error *err)
{
    const clef_tensor_info *to = &item->to;
    const int64_t columns = to->dims[to->rank - 1], n = to->rank == 3 ? to->dims[0] * columns : columns;
    if ((int64_t)e->n != n)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: %s has %zu columns, the matrix has %" PRId64 ": it is of another model",
                          clef_imatrix_path(im), to->name, e->n, n);
    item->importance = malloc(e->n * sizeof *item->importance);
    if (!item->importance)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the importance of %s", to->name);
    clef__imatrix_means(e, item->importance);
    return CLEF_OK;
}

static void note_missing(const clef_quantize_opts *opts, int32_t n, const char *first)
{
    char text[300];
    if (!n || !opts->note)
        return;
    snprintf(text, sizeof text,
             "the importance matrix has nothing of %" PRId32
             " matri%s, whose columns count equally: %.100s%s",
             n, n == 1 ? "x" : "ces", first, n > 1 ? " .." : "");
    opts->note(opts->note_user, text);
}

static clef_status apply_importance(const clef_quantize_opts *opts, clef__quantize_plan *plan,
                                    clef_error *err)
{
    const clef_imatrix *im = opts->imatrix;
    int32_t n_missing = 0;
    const char *missing = "";
    for (size_t i = 0; i < plan->n_items; i++) {
        clef__quantize_item *item = &plan->items[i];
        const int32_t k = clef_imatrix_find(im, item->to.name);
        if (item->to.rank < 2 || !clef__weighted_encoder((int)item->to.dtype))
            continue;
        if (k < 0) {
            missing = n_missing++ ? missing : item->to.name;
            continue;
        }
        const clef_imatrix_entry e = clef_imatrix_get(im, k);
        const clef_status status = set_importance(im, &e, item, err);
        if (status != CLEF_OK)
            return status;
    }
    note_missing(opts, n_missing, missing);
    return CLEF_OK;
}

clef_status clef__quantize_choose(const clef_model *model, const clef_quantize_opts *opts,
                                  clef__quantize_plan *plan, clef_error *err)
{
    const clef_status status = apply_rules(model, opts, plan, err);
    return status == CLEF_OK && opts->imatrix ? apply_importance(opts, plan, err) : status;
}

/* Matches the patterns of --tap. */
#include "tools/inspect/taps.h"

#include <stdlib.h>
#include <string.h>

static int is_pattern(const char *text)
{
    return strpbrk(text, "*?") != NULL;
}

/* 1 when `name` matches the pattern. */
static int pattern_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; /* after the last *, and where to continue in the name if the *
                                              stands for one more character */
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

cli_list cli_plain_taps(const cli_list *taps)
{
    cli_list plain = {0};
    for (int32_t i = 0; i < taps->n; i++)
        if (!is_pattern(taps->items[i]))
            plain.items[plain.n++] = taps->items[i];
    return plain;
}

int cli_shows_state(const clef_value *v)
{
    clef_value_info info = clef_value_describe(v);
    while (info.op && (strcmp(info.op, "reshape") == 0 || strcmp(info.op, "permute") == 0 ||
                       strcmp(info.op, "slice") == 0)) {
        v = clef_value_input(v, 0, NULL);
        info = clef_value_describe(v);
    }
    return info.kind == CLEF_STATE || (info.op && strncmp(info.op, "cache_", 6) == 0);
}

int cli_is_output(const clef_graph *graph, const char *wanted)
{
    const char *name = NULL;
    for (int32_t i = 0; i < clef_graph_n_outputs(graph); i++)
        if (clef_graph_output(graph, i, &name) && strcmp(name, wanted) == 0)
            return 1;
    return 0;
}

clef_status cli_graph_tap_patterns(clef_graph *graph, const char *path, const cli_list *taps, clef_error *err)
{
    for (int32_t i = 0; i < taps->n; i++) {
        int32_t n = 0;
        if (!is_pattern(taps->items[i]))
            continue;
        for (int32_t k = 0; k < clef_graph_n_values(graph); k++) {
            clef_value *v = clef_graph_value(graph, k);
            const clef_value_info info = clef_value_describe(v);
            if (info.kind != CLEF_COMPUTED || cli_shows_state(v) || !pattern_fits(taps->items[i], info.name))
                continue;
            n++;
            if (!cli_is_output(graph, info.name))
                clef_output(graph, info.name, v);
        }
        if (!n)
            return cli_error(err, CLEF_E_NOT_FOUND,
                             "%s: no value matches --tap '%s'; `clef graph --after build` lists them", path,
                             taps->items[i]);
    }
    return clef_graph_error(graph, err);
}

static int fits_one(const cli_list *taps, const char *name)
{
    for (int32_t i = 0; taps && i < taps->n; i++)
        if (pattern_fits(taps->items[i], name))
            return 1;
    return !taps;
}

clef_status cli_taps_read(clef_plan *plan, const clef_graph *graph, const cli_list *taps, const char *also,
                          int32_t n_outputs, clef_tensor_info **out, int32_t *n, clef_error *err)
{
    *n = 0;
    *out = calloc((size_t)n_outputs + 1, sizeof **out);
    if (!*out)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    for (int32_t i = 0; i < n_outputs; i++) {
        const char *name = NULL;
        const clef_value *value = clef_graph_output(graph, i, &name);
        clef_tensor_info *t = &(*out)[*n];
        if (!fits_one(taps, name) && !(also && strcmp(name, also) == 0))
            continue;
        const int32_t output = clef_plan_output(plan, name);
        const size_t n_bytes = clef_plan_output_bytes(plan, output, &t->rank, t->dims);
        void *data = malloc(n_bytes ? n_bytes : 1);
        if (!data)
            return cli_error(err, CLEF_E_NOMEM, "%s: out of host memory", name);
        t->name = name;
        t->dtype = clef_value_describe(value).dtype;
        t->n_bytes = n_bytes;
        t->data = data;
        ++*n;
        const clef_status status = clef_plan_read(plan, output, data, n_bytes, err);
        if (status != CLEF_OK)
            return status;
    }
    return CLEF_OK;
}

void cli_taps_free(clef_tensor_info *tensors, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tensors[i].data);
    free(tensors);
}

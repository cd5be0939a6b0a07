/* Patterns of --tap. */
#include "tools/taps.h"

#include <string.h>

int clef__is_pattern(const char *text)
{
    return strpbrk(text, "*?") != NULL;
}

int clef__pattern_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; /* behind the last *, and where the name goes on if it stands for one more character */
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

clef__list clef__plain_taps(const clef__list *taps)
{
    clef__list plain = {0};
    for (int32_t i = 0; i < taps->n; i++)
        if (!clef__is_pattern(taps->items[i]))
            plain.items[plain.n++] = taps->items[i];
    return plain;
}

/* What updates a cache, and what shows one, changes later. */
static int shows_cache(const clef_value *v)
{
    clef_value_info info = clef_value_describe(v);
    while (info.op && (strcmp(info.op, "reshape") == 0 || strcmp(info.op, "permute") == 0 || strcmp(info.op, "slice") == 0)) {
        v = clef_value_input(v, 0, NULL);
        info = clef_value_describe(v);
    }
    return info.kind == CLEF_STATE || (info.op && strncmp(info.op, "cache_", 6) == 0);
}

static int is_output(const clef_graph *graph, const char *wanted)
{
    const char *name = NULL;
    for (int32_t i = 0; i < clef_graph_n_outputs(graph); i++)
        if (clef_graph_output(graph, i, &name) && strcmp(name, wanted) == 0)
            return 1;
    return 0;
}

clef_status clef__graph_tap_patterns(clef_graph *graph, const char *path, const clef__list *taps, clef_error *err)
{
    for (int32_t i = 0; i < taps->n; i++) {
        int32_t n = 0;
        if (!clef__is_pattern(taps->items[i]))
            continue;
        for (int32_t k = 0; k < clef_graph_n_values(graph); k++) {
            clef_value *v = clef_graph_value(graph, k);
            const clef_value_info info = clef_value_describe(v);
            if (info.kind != CLEF_COMPUTED || shows_cache(v) || !clef__pattern_fits(taps->items[i], info.name))
                continue;
            n++;
            if (!is_output(graph, info.name))
                clef_output(graph, info.name, v);
        }
        if (!n)
            return clef__error(err, CLEF_E_NOT_FOUND, "%s: no value fits --tap '%s'; `clef graph --after build` lists them", path,
                               taps->items[i]);
    }
    return clef_graph_error(graph, err);
}

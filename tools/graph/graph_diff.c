/* The differences between two graphs. */
#include "tools/graph/graph_diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/graph/graph_page.h"

/* The pass after the last @, NULL if there is no pass of that name. */
static const char *pass_of(const char *spec)
{
    const char *at = strrchr(spec, '@');
    if (at && strcmp(at + 1, "build") == 0)
        return at + 1;
    for (int32_t i = 0; at && clef_pass_name(i); i++)
        if (strcmp(at + 1, clef_pass_name(i)) == 0)
            return at + 1;
    return NULL;
}

static clef_status open_one(const cli_graph_source *source, const char *spec, clef_graph **out,
                            clef_error *err)
{
    cli_graph_source s = *source;
    clef_model *model = NULL;
    const char *pass = pass_of(spec);
    const size_t n = pass ? (size_t)(pass - 1 - spec) : strlen(spec);
    char *path = malloc(n + 1);
    if (!path)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    memcpy(path, spec, n);
    path[n] = 0;
    if (pass)
        s.after = pass;
    const char *demo = n ? NULL : clef_demo_model(); /* "@fuse": of the bundled model */
    const clef_status status = cli_graph_source_open(&s, demo ? demo : path, &model, out, err);
    clef_model_close(model);
    free(path);
    return status;
}

typedef struct two_graphs {
    clef_graph *a, *b;
    clef_graph_difference d;
    const char *title;
} two_graphs;

static int is_same(const clef_graph_difference *d)
{
    return !d->removed && !d->added && !d->changed;
}

static clef_status write_diff(void *user, FILE *to, clef_error *err)
{
    two_graphs *g = user;
    const clef_status status = clef_graph_write_diff(g->a, g->b, to, &g->d, err);
    if (status == CLEF_OK && !is_same(&g->d))
        fprintf(to, "# %" PRId32 " removed, %" PRId32 " added, %" PRId32 " changed\n", g->d.removed,
                g->d.added, g->d.changed);
    return status;
}

static clef_status write_page(void *user, FILE *to, clef_error *err)
{
    two_graphs *g = user;
    return cli_graph_diff_page(g->a, g->b, &g->d, g->title, to, err);
}

int cli_graph_diff(const cli_graph_source *source, const char *a, const char *b, const char *out, int is_page)
{
    clef_error err = {0};
    char title[512];
    snprintf(title, sizeof title, "%s to %s", cli_title_of(a), cli_title_of(b));
    two_graphs g = {.title = title};
    clef_status status = open_one(source, a, &g.a, &err);
    if (status == CLEF_OK)
        status = open_one(source, b, &g.b, &err);
    if (status == CLEF_OK)
        status = cli_output(out, is_page ? write_page : write_diff, &g, &err);
    clef_graph_destroy(g.a);
    clef_graph_destroy(g.b);
    if (status != CLEF_OK)
        return cli_report(&err);
    return is_same(&g.d) ? CLI_OK : CLI_FAILED;
}

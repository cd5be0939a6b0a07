/* What differs between two graphs. */
#include "tools/graph_diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The pass behind the last @, NULL where there is none of that name. */
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

static clef_status open_one(const clef__graph_source *source, const char *spec, clef_graph **out, clef_error *err)
{
    clef__graph_source s = *source;
    clef_model *model = NULL;
    const char *pass = pass_of(spec);
    const size_t n = pass ? (size_t)(pass - 1 - spec) : strlen(spec);
    char *path = malloc(n + 1);
    if (!path)
        return clef__error(err, CLEF_E_NOMEM, "out of host memory");
    memcpy(path, spec, n);
    path[n] = 0;
    if (pass)
        s.after = pass;
    const char *demo = n ? NULL : clef_demo_model(); /* "@fuse": of the model that comes with clef */
    const clef_status status = clef__graph_source_open(&s, demo ? demo : path, &model, out, err);
    clef_model_close(model);
    free(path);
    return status;
}

int clef__graph_diff(const clef__graph_source *source, const char *a, const char *b)
{
    clef_error err = {0};
    clef_graph *graphs[2] = {NULL, NULL};
    clef_graph_difference d = {0};
    clef_status status = open_one(source, a, &graphs[0], &err);
    if (status == CLEF_OK)
        status = open_one(source, b, &graphs[1], &err);
    if (status == CLEF_OK)
        status = clef_graph_write_diff(graphs[0], graphs[1], stdout, &d, &err);
    clef_graph_destroy(graphs[0]);
    clef_graph_destroy(graphs[1]);
    if (status != CLEF_OK)
        return clef__cli_report(&err);
    if (!d.gone && !d.came && !d.changed)
        return CLI_OK;
    printf("# %" PRId32 " gone, %" PRId32 " came, %" PRId32 " changed\n", d.gone, d.came, d.changed);
    return CLI_FAILED;
}

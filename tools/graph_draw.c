/* Graphviz lays the DOT form out and draws it. */
#include "tools/graph_draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"

#ifdef CLEF_HAVE_GRAPHVIZ
#    include <graphviz/gvc.h>

static clef_status read_back(FILE *from, char **out, clef_error *err)
{
    const long n = ftell(from);
    *out = n >= 0 ? malloc((size_t)n + 1) : NULL;
    if (!*out)
        return clef__error(err, n < 0 ? CLEF_E_IO : CLEF_E_NOMEM, "graph: no room for its DOT form");
    rewind(from);
    const size_t came = fread(*out, 1, (size_t)n, from);
    (*out)[came] = 0;
    return came == (size_t)n ? CLEF_OK : clef__error(err, CLEF_E_IO, "graph: cannot read its DOT form back");
}

static clef_status dot_text(const clef_graph *graph, const int32_t *expand, int32_t n, char **out, clef_error *err)
{
    FILE *dot = tmpfile();
    *out = NULL;
    if (!dot)
        return clef__error(err, CLEF_E_IO, "graph: no temporary file: %s", strerror(errno));
    clef_status status = n < 0 ? clef_graph_write_dot(graph, dot, err) : clef_graph_write_folded_dot(graph, expand, n, dot, err);
    if (status == CLEF_OK)
        status = read_back(dot, out, err);
    fclose(dot);
    return status;
}

clef_status clef__graph_draw(const clef_graph *graph, const char *format, const int32_t *expand, int32_t n, FILE *to, clef_error *err)
{
    char *text = NULL;
    clef_status status = dot_text(graph, expand, n, &text, err);
    if (status != CLEF_OK)
        return status;
    agseterr(AGMAX); /* what it says goes to stderr; clef's own message is the one line there */
    GVC_t *gvc = gvContext();
    Agraph_t *drawn = gvc ? agmemread(text) : NULL;
    if (!drawn || gvLayout(gvc, drawn, "dot") != 0)
        status = clef__error(err, CLEF_E_UNSUPPORTED, "graph: Graphviz cannot lay it out");
    else if (gvRender(gvc, drawn, format, to) != 0)
        status = clef__error(err, CLEF_E_UNSUPPORTED, "graph: this Graphviz does not draw %s", format);
    else if (fflush(to) != 0 || ferror(to))
        status = clef__error(err, CLEF_E_IO, "graph: cannot write: %s", strerror(errno));
    if (drawn) {
        gvFreeLayout(gvc, drawn);
        agclose(drawn);
    }
    if (gvc)
        gvFreeContext(gvc);
    free(text);
    return status;
}
#else
clef_status clef__graph_draw(const clef_graph *graph, const char *format, const int32_t *expand, int32_t n, FILE *to, clef_error *err)
{
    (void)graph, (void)expand, (void)n, (void)to;
    return clef__error(err, CLEF_E_UNSUPPORTED, "graph: %s: this clef was built without Graphviz's library (Debian: libgraphviz-dev)",
                       format);
}
#endif

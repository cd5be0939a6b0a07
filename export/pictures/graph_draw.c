/* Lays out and draws the DOT form by Graphviz. */
#include "tools/graph/graph_draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"

#ifdef CLEF_HAVE_GRAPHVIZ
#    include <graphviz/gvc.h>

static clef_status read_back(FILE *from, char **out, clef_error *err)
{
    const long n = ftell(from);
    *out = n >= 0 ? malloc((size_t)n + 1) : NULL;
    if (!*out)
        return cli_error(err, n < 0 ? CLEF_E_IO : CLEF_E_NOMEM, "graph: no memory for its DOT form");
    rewind(from);
    const size_t got = fread(*out, 1, (size_t)n, from);
    (*out)[got] = 0;
    return got == (size_t)n ? CLEF_OK : cli_error(err, CLEF_E_IO, "graph: cannot read its DOT form back");
}

static clef_status dot_text(cli_writer write, void *user, char **out, clef_error *err)
{
    FILE *dot = tmpfile();
    *out = NULL;
    if (!dot)
        return cli_error(err, CLEF_E_IO, "graph: no temporary file: %s", strerror(errno));
    clef_status status = write(user, dot, err);
    if (status == CLEF_OK)
        status = read_back(dot, out, err);
    fclose(dot);
    return status;
}

/* gvRenderData() returns the length as an unsigned until Graphviz 12, as a size_t from 13 on. */
typedef union picture_length {
    unsigned narrow;
    size_t wide;
} picture_length;
#    define LENGTH(n)                                                                                        \
        (_Generic(gvRenderData, int (*)(GVC_t *, graph_t *, const char *, char **, unsigned *)               \
                  : (n).narrow, default                                                                      \
                  : (n).wide))

/* Renders to memory first, because Graphviz ends the process when its own write fails. */
static clef_status render_picture(GVC_t *gvc, Agraph_t *drawn, const char *format, FILE *to, clef_error *err)
{
    char *picture = NULL;
    picture_length length = {0};
    if (gvRenderData(gvc, drawn, format, &picture, (void *)&length) != 0)
        return cli_error(err, CLEF_E_UNSUPPORTED, "graph: this Graphviz does not draw %s", format);
    const size_t n = LENGTH(length);
    errno = 0;
    const int is_written = fwrite(picture, 1, n, to) == n && fflush(to) == 0;
    const int why = errno ? errno : EIO;
    gvFreeRenderData(picture);
    return is_written ? CLEF_OK : cli_error(err, CLEF_E_IO, "graph: cannot write: %s", strerror(why));
}

clef_status cli_graph_draw(cli_writer write, void *user, const char *format, FILE *to, clef_error *err)
{
    char *text = NULL;
    clef_status status = dot_text(write, user, &text, err);
    if (status != CLEF_OK)
        return status;
    agseterr(AGMAX); /* its warnings would go to stderr, beside clef's one line */
    GVC_t *gvc = gvContext();
    Agraph_t *drawn = gvc ? agmemread(text) : NULL;
    if (!drawn || gvLayout(gvc, drawn, "dot") != 0)
        status = cli_error(err, CLEF_E_UNSUPPORTED, "graph: Graphviz cannot lay it out");
    else
        status = render_picture(gvc, drawn, format, to, err);
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
clef_status cli_graph_draw(cli_writer write, void *user, const char *format, FILE *to, clef_error *err)
{
    (void)write, (void)user, (void)to;
    return cli_error(err, CLEF_E_UNSUPPORTED,
                     "graph: %s: this clef was built without Graphviz's library (Debian: libgraphviz-dev)",
                     format);
}
#endif

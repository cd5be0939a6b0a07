#include "clef/onnx.h"
#include "tools/absent/absent.h"
#include "tools/graph/graph_draw.h"
#include "tools/inspect/attention.h"
#if CLEF_WITH_TRAIN
#    include "train/command/plot.h"
#endif

clef_status clef_graph_write_onnx(const clef_graph *graph, FILE *to, const clef_onnx_opts *opts,
                                  clef_error *err)
{
    (void)graph, (void)to, (void)opts;
    return CLI_ABSENT(err, "ONNX", "CLEF_EXPORT");
}

clef_status cli_graph_draw(cli_writer write, void *user, const char *format, FILE *to, clef_error *err)
{
    (void)write, (void)user, (void)to;
    return CLI_ABSENT(err, format, "CLEF_EXPORT");
}

clef_status cli_attention_svg(void *a, FILE *to, clef_error *err)
{
    (void)a, (void)to;
    return CLI_ABSENT(err, "svg", "CLEF_EXPORT");
}

clef_status cli_attention_png(void *a, FILE *to, clef_error *err)
{
    (void)a, (void)to;
    return CLI_ABSENT(err, "png", "CLEF_EXPORT");
}

#if CLEF_WITH_TRAIN
static clef_status no_plot(clef_error *err)
{
    return CLI_ABSENT(err, "plots", "CLEF_EXPORT");
}
clef_status plot_svg(void *logs, FILE *to, clef_error *err)
{
    (void)logs, (void)to;
    return no_plot(err);
}
clef_status plot_png(void *logs, FILE *to, clef_error *err)
{
    (void)logs, (void)to;
    return no_plot(err);
}
clef_status plot_html(void *logs, FILE *to, clef_error *err)
{
    (void)logs, (void)to;
    return no_plot(err);
}
#endif

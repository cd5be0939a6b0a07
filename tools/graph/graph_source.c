/* Opening what `clef graph` and its kin look at. */
#include "tools/graph/graph_source.h"

#include <string.h>

static int has_linear_layers(const clef_hparams *hp)
{
    uint32_t any = 0;
    for (size_t i = 0; i < sizeof hp->linear_layers / sizeof *hp->linear_layers; i++)
        any |= hp->linear_layers[i];
    return any != 0;
}

static clef_status build(const cli_graph_source *source, const clef_model *model, clef_graph **out,
                         clef_error *err)
{
    clef_build_opts opts = source->build;
    opts.all_logits = opts.all_logits || source->for_export;
    opts.padding_mask =
        opts.padding_mask || (source->for_export && !has_linear_layers(clef_model_hparams(model)));
    return clef_model_build(model, &opts, out, err);
}

clef_status cli_graph_source_open(const cli_graph_source *source, const char *path, clef_model **model,
                                  clef_graph **out, clef_error *err)
{
    clef_status status;
    *model = NULL;
    *out = NULL;
    if (cli_is_graph_file(path)) {
        cli_list taps = {.n = source->build.n_taps};
        for (int32_t i = 0; i < taps.n; i++)
            taps.items[i] = source->build.taps[i];
        status = cli_graph_file_open(path, out, err);
        if (status == CLEF_OK)
            status = cli_graph_tap(*out, path, &taps, err);
    } else {
        status = clef_model_open(path, model, err);
        if (status == CLEF_OK)
            status = build(source, *model, out, err);
    }
    if (status == CLEF_OK && !(source->after && strcmp(source->after, "build") == 0))
        status = clef_graph_optimize(*out, source->after, err);
    return status;
}

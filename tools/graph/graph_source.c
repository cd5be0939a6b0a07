/* Opens the models and graph files of `clef graph` and similar commands. */
#include "tools/graph/graph_source.h"

#include <string.h>

/* Puts the graph that trains it in the place of one with a loss. */
static clef_status with_gradients(const cli_graph_source *source, clef_graph **graph, clef_error *err)
{
    clef_train_opts opts = clef_train_defaults();
    clef_graph *plain = *graph;
    opts.taps = source->build.taps;
    opts.n_taps = source->build.n_taps;
    const clef_status status = clef_train_graph(plain, "loss", &opts, graph, err);
    clef_graph_destroy(plain);
    return status;
}

/* The graph ends with what the model's files have: logits of tokens, of classes, or the hidden states of an
 * encoder. */
static clef_status build_whole(const clef_model *model, const clef_build_opts *opts, clef_graph **out,
                               clef_error *err)
{
    clef_build_opts other = *opts;
    const clef_status status = clef_model_build(model, opts, out, err);
    if (status != CLEF_E_NOT_FOUND || opts->train)
        return status;
    other.classify = cli_is_classifier(model);
    if (other.classify)
        return clef_model_build(model, &other, out, err);
    other.no_head = 1;
    const int is_headless =
        clef_model_is_encoder(model) && clef_model_build(model, &other, out, NULL) == CLEF_OK;
    return is_headless ? CLEF_OK : status;
}

clef_status cli_graph_source_open(const cli_graph_source *source, const char *path, clef_model **model,
                                  clef_graph **out, clef_error *err)
{
    clef_status status;
    *model = NULL;
    *out = NULL;
    if (cli_is_graph_file(path) && source->loras.n) {
        status = cli_error(err, CLEF_E_ARG, "--lora: expected a model, got the graph file %s", path);
    } else if (cli_is_graph_file(path)) {
        cli_list taps = {.n = source->build.n_taps};
        for (int32_t i = 0; i < taps.n; i++)
            taps.items[i] = source->build.taps[i];
        status = cli_graph_file_open(path, out, err);
        if (status == CLEF_OK)
            status = cli_graph_tap(*out, path, &taps, err);
    } else {
        clef_build_opts build = source->build;
        clef_lora_set *loras = NULL;
        status = cli_model_open_to_plan(path, 0, model, err);
        if (status == CLEF_OK)
            status = cli_adapters_open(&source->loras, *model, &loras, err);
        build.loras = loras;
        build.train = source->train;
        build.n_taps = source->train ? 0 : build.n_taps;
        if (status == CLEF_OK)
            status = build_whole(*model, &build, out, err);
        clef_lora_set_destroy(loras);
    }
    if (status == CLEF_OK && source->train)
        return with_gradients(source, out, err);
    if (status == CLEF_OK && !(source->after && strcmp(source->after, "build") == 0))
        status = clef_graph_optimize(*out, source->after, err);
    return status;
}

#include "tools/embedding.h"

#include <stdlib.h>

#include "tools/terminal.h"

const char *const clef__pooling_names[] = {"model", "cls", "mean", "last", NULL};
const char *const clef__normalize_names[] = {"model", "no", "yes", NULL};

int clef__embedding_open(clef__embedding *e, const clef__embedding_options *o, const char *path)
{
    clef_error err = {0};
    clef__terminal_catch_interrupt();
    clef__progress_init(&e->progress, o->quiet);
    if (clef_model_open(path, &e->model, &err) != CLEF_OK)
        return clef__cli_report(&err);
    if (!clef_model_tokenizer(e->model, &err))
        return clef__cli_report(&err);
    const clef_device_opts device = {.notice = clef__say_notice,
                                     .n_threads = o->n_threads,
                                     .progress = clef__progress_step,
                                     .progress_user = &e->progress};
    if (clef__devices_open(o->device, o->split, &device, &e->device, &err) != CLEF_OK)
        return clef__cli_report(&err);
    if (!o->quiet)
        clef__say_device(e->device);
    const clef_embed_opts opts = {
        .pooling = (clef_pooling)o->pooling,
        .normalize = (clef_normalize)o->normalize,
        .n_batch = o->n_batch,
        .compile = cli_compile_opts(&o->compile, &e->progress),
    };
    if (clef_embedder_create(e->device, e->model, &opts, &e->embedder, &err) != CLEF_OK)
        return clef__cli_report(&err);
    return CLI_GO_ON;
}

void clef__embedding_finish(clef__embedding *e)
{
    clef__progress_finish(&e->progress);
    clef_embedder_destroy(e->embedder);
    clef_device_close(e->device);
    clef_model_close(e->model);
}

int clef__embedding_texts(clef__embedding *e, const clef__embedding_options *o, const clef_span *texts,
                          int32_t n, float **out, int64_t *n_tokens)
{
    clef_error err = {0};
    const size_t d = (size_t)clef_embedder_describe(e->embedder).n_dims;
    *out = calloc((size_t)n + 1, d * sizeof **out);
    if (!*out)
        return clef__cli_fail(CLI_FAILED, "out of host memory");
    const clef_status status = clef_embed_texts(e->embedder, texts, n, o->truncate, *out, n_tokens, &err);
    clef__progress_finish(&e->progress);
    if (status == CLEF_E_LIMIT && !o->truncate)
        return clef__cli_fail(CLI_FAILED, "%s; --truncate cuts it", err.text);
    return status == CLEF_OK ? CLI_GO_ON : clef__cli_report(&err);
}

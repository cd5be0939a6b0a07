#include "tools/embedding.h"

#include <stdlib.h>
#include <string.h>

const char *const cli_pooling_names[] = {"model", "cls", "mean", "last", NULL};
const char *const cli_normalize_names[] = {"model", "no", "yes", NULL};

int cli_embedding_open(cli_embedding *e, const cli_embedding_options *o, const char *path)
{
    clef_error err = {0};
    if (o->no_prompt && o->prompt_name)
        return cli_fail(CLI_USAGE, "expected --no-prompt or --prompt-name, not both");
    const cli_place place = {
        .device = o->device, .split = o->split, .n_threads = o->n_threads, .quiet = o->quiet};
    const int rc = cli_model_open(path, &place, &e->progress, &e->model, &e->device);
    if (rc != CLI_GO_ON)
        return rc;
    const clef_embed_opts opts = {
        .pooling = (clef_pooling)o->pooling,
        .normalize = (clef_normalize)o->normalize,
        .n_batch = o->n_batch,
        .no_prompt = o->no_prompt,
        .prompt_name = o->prompt_name,
        .n_dims = o->n_dims,
        .compile = cli_compile_opts(&o->compile, &e->progress),
    };
    if (clef_embedder_create(e->device, e->model, &opts, &e->embedder, &err) != CLEF_OK)
        return cli_report(&err);
    const clef_embedder_info info = clef_embedder_describe(e->embedder);
    if (info.prompt && !o->quiet)
        fprintf(stderr,
                "clef: the model's prompt is put before each text: %.200s (--no-prompt leaves it out)\n",
                info.prompt);
    if (!o->quiet && strcmp(info.similarity, "cosine") != 0)
        fprintf(stderr, "clef: the model's vectors are meant to be compared by %.40s\n", info.similarity);
    return CLI_GO_ON;
}

void cli_embedding_finish(cli_embedding *e)
{
    cli_progress_finish(&e->progress);
    clef_embedder_destroy(e->embedder);
    clef_device_close(e->device);
    clef_model_close(e->model);
}

int cli_embedding_texts(cli_embedding *e, const cli_embedding_options *o, const clef_span *texts, int32_t n,
                        float **out, int64_t *n_tokens)
{
    clef_error err = {0};
    const size_t d = (size_t)clef_embedder_describe(e->embedder).n_dims;
    *out = calloc((size_t)n + 1, d * sizeof **out);
    if (!*out)
        return cli_fail(CLI_FAILED, "out of host memory");
    const clef_status status = clef_embed_texts(e->embedder, texts, n, o->truncate, *out, n_tokens, &err);
    cli_progress_finish(&e->progress);
    if (status == CLEF_E_LIMIT && !o->truncate)
        return cli_fail(CLI_FAILED, "%s; --truncate cuts it", err.text);
    return status == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

/* clef similarity: how similar two texts are. */
#include <stdlib.h>
#include <string.h>

#include "tools/embedding.h"

typedef struct similarity_options {
    cli_embedding_options common;
} similarity_options;

static const similarity_options similarity_defaults = {0};

static const cli_option similarity_option_table[] = {
    EMBEDDING_OPTIONS(similarity_options),
    {.names = NULL},
};

static int similarity_run(const void *options, int32_t n_args, char **args)
{
    const similarity_options *o = options;
    const clef_span texts[2] = {{args[1], strlen(args[1])}, {args[2], strlen(args[2])}};
    cli_embedding e = {0};
    float *rows = NULL;
    (void)n_args;
    int rc = cli_embedding_open(&e, &o->common, args[0]);
    if (rc == CLI_GO_ON)
        rc = cli_embedding_texts(&e, &o->common, texts, 2, &rows, NULL);
    if (rc == CLI_GO_ON) {
        const int32_t d = clef_embedder_describe(e.embedder).n_dims;
        rc = printf("%.6f\n", clef_cosine(rows, rows + d, d)) > 0 ? CLI_OK : CLI_FAILED;
    }
    cli_embedding_finish(&e);
    free(rows);
    return rc;
}

const cli_command cli_command_similarity = {
    .name = "similarity",
    .usage = "MODEL A B",
    .summary = "Compare two texts by the cosine of their vectors",
    .notes = "Prints a number from -1 to 1. MODEL is as in `clef embed`.\n",
    .options = similarity_option_table,
    .min_args = 3,
    .max_args = 3,
    .defaults = &similarity_defaults,
    .options_bytes = sizeof similarity_defaults,
    .run = similarity_run,
};

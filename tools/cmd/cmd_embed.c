/* clef embed: computes vectors of texts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/lines.h"
#include "tools/cli/terminal.h"
#include "tools/embedding.h"
#include "tools/inspect/npy.h"

typedef struct embed_options {
    cli_embedding_options common;
    const char *file, *out;
    int32_t json, npy, n_repeats;
} embed_options;

static const embed_options embed_defaults = {.common = {.n_batch = 32}};

/* clang-format off */
#define AT(field) .offset = offsetof(embed_options, field)
static const cli_option embed_option_table[] = {
    {.names = "file", .letter = 'f', .type = CLI_TEXT, .value = "FILE", AT(file),
     .help = "read more texts, one per line, from a file; - is stdin"},
    {.names = "json", .type = CLI_SWITCH, AT(json),
     .help = "print JSON in the form of OpenAI's embeddings API"},
    {.names = "npy", .type = CLI_SWITCH, AT(npy), .help = "write a NumPy file: float32 [texts, dims]"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "OUT", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(common.n_batch), .lo = 1,
     .hi = 4096, .help = "most texts per run [32]"},
    {.names = "repeat", .type = CLI_INT, .value = "N", AT(n_repeats), .lo = 0, .hi = 1000,
     .help = "embed all texts N more times and print the best rate, without loading"},
    EMBEDDING_OPTIONS(embed_options),
    {.names = NULL},
};
/* clang-format on */

/* ---- output ----------------------------------------------------------------------------------- */

static void write_row(FILE *to, const float *row, int32_t d, const char *between)
{
    for (int32_t i = 0; i < d; i++)
        fprintf(to, "%s%.9g", i ? between : "", (double)row[i]);
}

/* Writes a reply of POST /v1/embeddings (platform.openai.com/docs/api-reference/embeddings). */
static void write_json(FILE *to, const char *model, const float *rows, int32_t n, int32_t d, int64_t n_tokens)
{
    fputs("{\"object\": \"list\", \"data\": [", to);
    for (int32_t i = 0; i < n; i++) {
        fprintf(to, "%s{\"object\": \"embedding\", \"index\": %" PRId32 ", \"embedding\": [", i ? ", " : "",
                i);
        write_row(to, rows + (size_t)i * (size_t)d, d, ", ");
        fputs("]}", to);
    }
    fputs("], \"model\": ", to);
    cli_json_string(to, model);
    fprintf(to, ", \"usage\": {\"prompt_tokens\": %" PRId64 ", \"total_tokens\": %" PRId64 "}}\n", n_tokens,
            n_tokens);
}

static int write_result(const embed_options *o, const char *model, const float *rows, int32_t n, int32_t d,
                        int64_t n_tokens)
{
    FILE *to = o->out ? fopen(o->out, "wb") : stdout;
    if (!to)
        return cli_fail(CLI_FAILED, "embed: cannot write %s", o->out);
    if (o->json) {
        write_json(to, model, rows, n, d, n_tokens);
    } else if (o->npy) {
        cli_npy_head(to, 2, (const int64_t[]){n, d});
        fwrite(rows, sizeof *rows, (size_t)n * (size_t)d, to);
    }
    for (int32_t i = 0; !o->json && !o->npy && i < n; i++) {
        write_row(to, rows + (size_t)i * (size_t)d, d, " ");
        fputc('\n', to);
    }
    const int failed = fflush(to) != 0 || ferror(to);
    if ((o->out && fclose(to) != 0) || failed)
        return cli_fail(CLI_FAILED, "embed: cannot write %s", o->out ? o->out : "to stdout");
    return CLI_OK;
}

/* Measures the speed once kernels and plans are made; tokenising is included. */
static int measure_rate(cli_embedding *e, const embed_options *o, const cli_lines *t)
{
    double best = 0;
    for (int32_t i = 0; i < o->n_repeats; i++) {
        float *rows = NULL;
        int64_t n_tokens = 0;
        const double begin = cli_terminal_seconds();
        const int rc = cli_embedding_texts(e, &o->common, t->spans, t->n, &rows, &n_tokens);
        const double seconds = cli_terminal_seconds() - begin;
        free(rows);
        if (rc != CLI_GO_ON)
            return rc;
        if (i == 0 || seconds < best)
            best = seconds;
    }
    if (best > 0)
        fprintf(stderr, "clef: %" PRId32 " texts in %.3f s, %.1f texts/s, the best of %" PRId32 "\n", t->n,
                best, t->n / best, o->n_repeats);
    return CLI_GO_ON;
}

static int embed_run(const void *options, int32_t n_args, char **args)
{
    const embed_options *o = options;
    cli_embedding e = {0};
    cli_lines t = {0};
    float *rows = NULL;
    int64_t n_tokens = 0;
    if (o->json && o->npy)
        return cli_fail(CLI_USAGE, "embed: expected --json or --npy, not both");
    if (o->npy && !o->out && cli_terminal_stdout())
        return cli_fail(CLI_USAGE, "embed: --npy is binary; use --out FILE, or redirect stdout to a file");
    int rc = cli_lines_collect(&t, "TEXT", n_args - 1, args + 1, o->file);
    if (rc == CLI_GO_ON)
        rc = cli_embedding_open(&e, &o->common, args[0]);
    const double begin = cli_terminal_seconds();
    if (rc == CLI_GO_ON)
        rc = cli_embedding_texts(&e, &o->common, t.spans, t.n, &rows, &n_tokens);
    if (rc == CLI_GO_ON) {
        const double seconds = cli_terminal_seconds() - begin;
        if (!o->common.quiet)
            fprintf(stderr,
                    "clef: %" PRId32 " texts of %" PRId64 " tokens in %.3f s, %.1f texts/s, with loading\n",
                    t.n, n_tokens, seconds, seconds > 0 ? t.n / seconds : 0);
        rc = measure_rate(&e, o, &t);
    }
    if (rc == CLI_GO_ON)
        rc = write_result(o, clef_model_hparams(e.model)->name, rows, t.n,
                          clef_embedder_describe(e.embedder).n_dims, n_tokens);
    cli_embedding_finish(&e);
    free(rows);
    cli_lines_finish(&t);
    return rc;
}

const cli_command cli_command_embed = {
    .name = "embed",
    .usage = "MODEL TEXT... [--file FILE] [--json|--npy]",
    .summary = "Compute embedding vectors of texts",
    .notes = "MODEL is an encoder, or a decoder that was trained for embeddings: a GGUF file or a Hugging "
             "Face folder. Each text becomes one line of numbers.\n\nPooling and normalisation come from "
             "modules.json and 1_Pooling/config.json of a folder, or from pooling_type of a GGUF file. "
             "Without these files, the vector is the mean of the hidden states, not normalised. A text that "
             "is too long for the model is refused.\n",
    .options = embed_option_table,
    .first = "file json npy out batch-size pooling normalize truncate no-prompt threads device "
             "quiet",
    .min_args = 1,
    .max_args = INT32_MAX,
    .defaults = &embed_defaults,
    .options_bytes = sizeof embed_defaults,
    .run = embed_run,
};

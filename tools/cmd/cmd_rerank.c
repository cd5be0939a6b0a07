/* clef rerank: orders documents by how well they answer a query. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/rerank.h"
#include "tools/cli/json.h"
#include "tools/cli/lines.h"
#include "tools/cli/progress.h"

typedef struct rerank_options {
    const char *device, *file;
    cli_split split;
    int32_t json, top, n_batch, raw, refuse, n_threads, quiet;
    clef_compile_opts compile;
} rerank_options;

static const rerank_options rerank_defaults = {.n_batch = 32};

/* clang-format off */
#define AT(field) .offset = offsetof(rerank_options, field)
static const cli_option rerank_option_table[] = {
    {.names = "file", .letter = 'f', .type = CLI_TEXT, .value = "FILE", AT(file),
     .help = "read more documents, one per line, from a file; - is stdin"},
    {.names = "top", .letter = 'n', .type = CLI_INT, .value = "N", AT(top), .lo = 1, .hi = INT32_MAX,
     .help = "print the best N [all]"},
    {.names = "json", .type = CLI_SWITCH, AT(json), .help = "print JSON in the form of POST /v1/rerank"},
    {.names = "raw", .type = CLI_SWITCH, AT(raw),
     .help = "print the model's logits instead of scores from 0 to 1"},
    {.names = "no-truncate", .type = CLI_SWITCH, AT(refuse),
     .help = "refuse documents that are too long for the model instead of cutting them"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(n_batch), .lo = 1, .hi = 4096,
     .help = "most documents per run [32]"},
    THREADS_OPTION(rerank_options), DEVICES_OPTION(rerank_options), COMPILE_OPTIONS(rerank_options),
    QUIET_OPTION(rerank_options),
    {.names = NULL},
};
/* clang-format on */

typedef struct job {
    clef_model *model;
    clef_device *device;
    clef_ranker *ranker;
    cli_progress progress;
    cli_lines documents;
    float *scores;       /* [n] */
    clef_ranked *ranked; /* [n], the best first */
    clef_rank_stats stats;
} job;

static int open_job(job *j, const rerank_options *o, const char *path)
{
    clef_error err = {0};
    const cli_place place = {
        .device = o->device, .split = o->split, .n_threads = o->n_threads, .quiet = o->quiet};
    const int rc = cli_model_open(path, &place, &j->progress, &j->model, &j->device);
    if (rc != CLI_GO_ON)
        return rc;
    const clef_ranker_opts opts = {
        .n_batch = o->n_batch, .raw = o->raw, .compile = cli_compile_opts(&o->compile, &j->progress)};
    if (clef_ranker_create(j->device, j->model, &opts, &j->ranker, &err) != CLEF_OK)
        return cli_report(&err);
    if (clef_ranker_describe(j->ranker).is_assumed && !o->quiet)
        fprintf(stderr, "clef: the files say nothing of rankings; Qwen3-Reranker's question is asked\n");
    return CLI_GO_ON;
}

static int score(job *j, const rerank_options *o, const char *query)
{
    clef_error err = {0};
    j->scores = malloc((size_t)j->documents.n * sizeof *j->scores);
    j->ranked = malloc((size_t)j->documents.n * sizeof *j->ranked);
    if (!j->scores || !j->ranked)
        return cli_fail(CLI_FAILED, "rerank: out of host memory");
    const clef_status status = clef_rerank(j->ranker, (clef_span){query, strlen(query)}, j->documents.spans,
                                           j->documents.n, !o->refuse, j->scores, &j->stats, &err);
    cli_progress_finish(&j->progress);
    if (status != CLEF_OK)
        return cli_report(&err);
    if (j->stats.n_cut && !o->quiet)
        fprintf(stderr,
                "clef: %" PRId32 " of %" PRId32 " documents were cut to the model's %" PRId32 " tokens\n",
                j->stats.n_cut, j->documents.n, clef_ranker_describe(j->ranker).max_tokens);
    clef_rank_sort(j->scores, j->documents.n, j->ranked);
    return CLI_GO_ON;
}

/* ---- output ----------------------------------------------------------------------------------- */

static void print_text(const job *j, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const clef_span *d = &j->documents.spans[j->ranked[i].index];
        printf("%.6f\t%" PRId32 "\t%.*s\n", (double)j->ranked[i].score, j->ranked[i].index, (int)d->n_bytes,
               d->text);
    }
}

static void print_json(const job *j, int32_t n)
{
    fputs("{\"object\": \"list\", \"model\": ", stdout);
    cli_json_string(stdout, clef_model_hparams(j->model)->name);
    printf(", \"usage\": {\"prompt_tokens\": %" PRId64 ", \"total_tokens\": %" PRId64 "}, \"results\": [",
           j->stats.n_tokens, j->stats.n_tokens);
    for (int32_t i = 0; i < n; i++)
        printf("%s{\"index\": %" PRId32 ", \"relevance_score\": %.9g}", i ? ", " : "", j->ranked[i].index,
               (double)j->ranked[i].score);
    puts("]}");
}

static int rerank_run(const void *options, int32_t n_args, char **args)
{
    const rerank_options *o = options;
    job j = {0};
    int rc = cli_lines_collect(&j.documents, "DOCUMENT", n_args - 2, args + 2, o->file);
    if (rc == CLI_GO_ON)
        rc = open_job(&j, o, args[0]);
    if (rc == CLI_GO_ON)
        rc = score(&j, o, args[1]);
    if (rc == CLI_GO_ON) {
        const int32_t n = o->top && o->top < j.documents.n ? o->top : j.documents.n;
        o->json ? print_json(&j, n) : print_text(&j, n);
        rc = CLI_OK;
    }
    cli_progress_finish(&j.progress);
    clef_ranker_destroy(j.ranker);
    clef_device_close(j.device);
    clef_model_close(j.model);
    cli_lines_finish(&j.documents);
    free(j.scores);
    free(j.ranked);
    return rc;
}

const cli_command cli_command_rerank = {
    .name = "rerank",
    .usage = "MODEL QUERY DOCUMENT... [--file FILE] [--top N]",
    .summary = "Order documents by how well they answer a query",
    .notes =
        "Each document becomes a line of its score, its index and its text, the best first.\n\nMODEL is a "
        "cross-encoder, that is a ...ForSequenceClassification model of one label, or a decoder that "
        "answers yes or no, such as Qwen3-Reranker: a Hugging Face folder or a GGUF file. Scores are from 0 "
        "to "
        "1, unless the model's files say that its logits are the scores. A document that is too long is cut, "
        "which is reported.\n",
    .options = rerank_option_table,
    .first = "file top json raw no-truncate batch-size threads device quiet",
    .min_args = 2,
    .max_args = INT32_MAX,
    .defaults = &rerank_defaults,
    .options_bytes = sizeof rerank_defaults,
    .run = rerank_run,
};

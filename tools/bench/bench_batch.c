/* clef bench --batch: how fast many sequences run together, and how evenly. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/cli/terminal.h"

enum {
    DEFAULT_PROMPT = 64,
    DEFAULT_GEN = 64,
    LONG_PROMPT = 2000,
    MOST_SEQUENCES = 4096,
    PAGE = 64,
    GAP_LEAD = 8, /* tokens of the running text before the long prompt comes in */
    SPARE = 64    /* tokens of the running text while it is there */
};

/** What a sequence of a round has done. */
typedef struct stream {
    int64_t number;
    int32_t n;   /* tokens so far */
    double last; /* when the last one was made */
} stream;

/** State of the measurement; finish() accepts it in any state. */
typedef struct work {
    bench *b;
    bench_batch result;
    stream *streams;
    int32_t most, n_context;
    int32_t *ids; /* of the longest prompt */
    double *gaps; /* of a round's steps */
} work;

/* ---- sizes ----------------------------------------------------------------------------------- */

static int parse_counts(work *w)
{
    const char *text = w->b->o->batch;
    for (char *end; *text; text = end + (*end == ',')) {
        const long n = strtol(text, &end, 10);
        if (end == text || n < 1 || n > MOST_SEQUENCES || (*end && (*end != ',' || !end[1])))
            return cli_fail(CLI_USAGE,
                            "bench: --batch: expected numbers from 1 to %d like 1,2,4, got '%.40s'",
                            MOST_SEQUENCES, w->b->o->batch);
        if (w->result.n_rows == BENCH_MAX_BATCH)
            return cli_fail(CLI_USAGE, "bench: --batch: more than %d numbers", BENCH_MAX_BATCH);
        w->result.rows[w->result.n_rows++].n_sequences = (int32_t)n;
        w->most = n > w->most ? (int32_t)n : w->most;
    }
    return w->result.n_rows ? CLI_GO_ON
                            : cli_fail(CLI_USAGE, "bench: --batch: expected numbers like 1,2,4, got none");
}

static int choose_lengths(work *w)
{
    bench *b = w->b;
    const int32_t room = clef_model_hparams(b->model)->n_context;
    b->n_prompt = b->o->n_prompt > 0 ? b->o->n_prompt : DEFAULT_PROMPT;
    b->n_gen = b->o->n_gen > 0 ? b->o->n_gen : DEFAULT_GEN;
    if (b->n_prompt > room || b->n_gen > room - b->n_prompt)
        return cli_fail(CLI_FAILED,
                        "bench: --prompt %" PRId32 " and --gen %" PRId32
                        ": the model's context holds %" PRId32,
                        b->n_prompt, b->n_gen, room);
    const int32_t n_long = room - 1 < LONG_PROMPT ? room - 1 : LONG_PROMPT;
    w->n_context = b->n_prompt + b->n_gen;
    w->result.n_long =
        w->most > 1 && n_long >= b->n_prompt && b->n_prompt + GAP_LEAD + SPARE <= room ? n_long : 0;
    if (w->result.n_long) {
        const int32_t beside = b->n_prompt + GAP_LEAD + SPARE;
        w->n_context = n_long + 1 > w->n_context ? n_long + 1 : w->n_context;
        w->n_context = beside > w->n_context ? beside : w->n_context;
    }
    return CLI_GO_ON;
}

static int64_t whole_pages(int64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* The pool that the rows need. */
static int64_t pool_of(const work *w)
{
    const bench *b = w->b;
    const int64_t rows = w->most * whole_pages(b->n_prompt + b->n_gen),
                  beside = whole_pages(b->n_prompt + GAP_LEAD + SPARE) + whole_pages(w->result.n_long + 1);
    return w->result.n_long && beside > rows ? beside : rows;
}

static int make_room(work *w)
{
    const int32_t n_vocab = clef_model_hparams(w->b->model)->n_vocab,
                  n_ids = n_vocab < 30000 ? n_vocab : 30000;
    w->streams = calloc((size_t)w->most, sizeof *w->streams);
    w->ids = malloc((size_t)w->n_context * sizeof *w->ids);
    w->gaps = malloc((size_t)w->b->n_gen * sizeof *w->gaps);
    if (!w->streams || !w->ids || !w->gaps)
        return cli_fail(CLI_FAILED, "bench: out of host memory");
    for (int32_t i = 0; i < w->n_context; i++)
        w->ids[i] = (int32_t)((7 * (int64_t)i + 3) % n_ids); /* any ids will do: each token costs the same */
    return CLI_GO_ON;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static clef_status add(work *w, int32_t n, int32_t n_max, stream *s, clef_error *err)
{
    *s = (stream){.number = -1};
    return clef_batch_add(w->b->batch,
                          &(clef_request){.ids = w->ids, .n = n, .n_max = n_max, .ignore_eos = 1}, &s->number,
                          err);
}

/* A step, and its tokens; `took` is its time. */
static clef_status step(work *w, stream *streams, int32_t n, double *took, int32_t *n_rows, clef_error *err)
{
    clef_batch_token t;
    const double began = cli_terminal_seconds();
    clef_status status = clef_batch_step(w->b->batch, n_rows, err);
    const double now = cli_terminal_seconds();
    *took = now - began;
    while (status == CLEF_OK && clef_batch_take(w->b->batch, &t, 1))
        for (int32_t i = 0; i < n; i++)
            if (streams[i].number == t.sequence) {
                streams[i].n++;
                streams[i].last = now;
            }
    return status == CLEF_OK ? cli_bench_interrupted(err) : status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest and the largest number of tokens that a sequence has. */
static void range_of(const work *w, int32_t n, int32_t *least, int32_t *most)
{
    *least = *most = w->streams[0].n;
    for (int32_t i = 1; i < n; i++) {
        *least = w->streams[i].n < *least ? w->streams[i].n : *least;
        *most = w->streams[i].n > *most ? w->streams[i].n : *most;
    }
}

/* Times the steps in which all n sequences generate. */
static clef_status together(work *w, int32_t n, bench_batch_row *out, clef_error *err)
{
    clef_status status = CLEF_OK;
    double first = 0, last = 0, took;
    int32_t least = 0, most = 0, n_rows = 1, n_steps = 0;
    const double began = cli_terminal_seconds();
    for (int32_t i = 0; i < n && status == CLEF_OK; i++)
        status = add(w, w->b->n_prompt, w->b->n_gen, &w->streams[i], err);
    while (status == CLEF_OK && n_rows) {
        const int counts = least > 0 && most < w->b->n_gen;
        status = step(w, w->streams, n, &took, &n_rows, err);
        range_of(w, n, &least, &most);
        last = counts ? cli_terminal_seconds() : last;
        first = least > 0 && first == 0 ? w->streams[n - 1].last : first;
        if (counts)
            w->gaps[n_steps++] = took;
    }
    qsort(w->gaps, (size_t)n_steps, sizeof *w->gaps, by_value);
    *out = (bench_batch_row){.n_sequences = n,
                             .whole = (double)n * w->b->n_gen / (cli_terminal_seconds() - began)};
    if (n_steps && last > first) {
        out->total = (double)n * n_steps / (last - first);
        out->p50 = w->gaps[n_steps / 2];
        out->p99 = w->gaps[(99 * n_steps - 1) / 100];
    }
    return status;
}

/* The best of the rounds, after one that does not count. */
static clef_status measure_row(work *w, bench_batch_row *row, clef_error *err)
{
    bench_batch_row got;
    clef_status status = together(w, row->n_sequences, &got, err);
    for (int32_t i = 0; i < w->b->o->n_rounds && status == CLEF_OK; i++) {
        cli_progress_step(&w->b->progress, "batch", (uint64_t)i, (uint64_t)w->b->o->n_rounds);
        status = together(w, row->n_sequences, &got, err);
        if (status == CLEF_OK && got.total > row->total)
            *row = got;
    }
    return status;
}

/* The longest step of a long prompt alone. */
static clef_status prompt_alone(work *w, double *longest, clef_error *err)
{
    stream s;
    double took;
    int32_t n_rows = 1;
    clef_status status = add(w, w->result.n_long, 1, &s, err);
    *longest = 0;
    while (status == CLEF_OK && n_rows) {
        status = step(w, &s, 1, &took, &n_rows, err);
        w->result.step_tokens = n_rows > w->result.step_tokens ? n_rows : w->result.step_tokens;
        *longest = took > *longest ? took : *longest;
    }
    return status;
}

/* The longest gap of a running text while a long prompt comes in. */
static clef_status prompt_beside(work *w, double *gap, clef_error *err)
{
    stream s[2];
    double took, last = 0;
    int32_t n_rows;
    clef_status status = add(w, w->b->n_prompt, GAP_LEAD + SPARE, &s[0], err);
    while (status == CLEF_OK && s[0].n < GAP_LEAD)
        status = step(w, s, 1, &took, &n_rows, err);
    if (status == CLEF_OK)
        status = add(w, w->result.n_long, 1, &s[1], err);
    *gap = 0;
    while (status == CLEF_OK && !s[1].n) {
        last = s[0].last;
        status = step(w, s, 2, &took, &n_rows, err);
        *gap = s[0].last - last > *gap ? s[0].last - last : *gap;
    }
    if (status == CLEF_OK)
        status = clef_batch_cancel(w->b->batch, s[0].number, err);
    return status;
}

static clef_status measure_gap(work *w, clef_error *err)
{
    double alone = 0, gap = 0;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i <= w->b->o->n_rounds && status == CLEF_OK; i++) {
        cli_progress_step(&w->b->progress, "gap", (uint64_t)i, (uint64_t)w->b->o->n_rounds + 1);
        status = prompt_alone(w, &alone, err);
        if (status == CLEF_OK)
            status = prompt_beside(w, &gap, err);
        if (i == 1 || (i > 1 && gap < w->result.gap))
            w->result.gap = gap;
        if (i == 1 || (i > 1 && alone < w->result.step))
            w->result.step = alone;
    }
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static clef_status open_batch(work *w, clef_error *err)
{
    bench *b = w->b;
    const clef_batch_opts opts = {.n_context = w->n_context,
                                  .max_sequences = w->most > 1 ? w->most : 1,
                                  .step_tokens = b->o->step_tokens,
                                  .kv_tokens = pool_of(w),
                                  .kv_type = cli_kv_type(b->model, b->o->kv_type, b->o->compile.exact),
                                  .no_prefix_cache = 1, /* the prompts are alike */
                                  .repeatable = b->o->repeatable,
                                  .compile = cli_compile_opts(&b->o->compile, &b->progress)};
    const double start = cli_terminal_seconds();
    const clef_status status = clef_batch_create(b->device, b->model, &opts, &b->batch, err);
    b->load_seconds = cli_terminal_seconds() - start;
    if (status == CLEF_OK)
        w->result.kv_bytes = clef_plan_describe(clef_batch_plan(b->batch, 0)).state_bytes;
    return status;
}

static clef_status measure(work *w, clef_error *err)
{
    clef_status status = open_batch(w, err);
    for (int32_t i = 0; i < w->result.n_rows && status == CLEF_OK; i++)
        status = measure_row(w, &w->result.rows[i], err);
    if (status == CLEF_OK && w->result.n_long)
        status = measure_gap(w, err);
    w->b->peak_rss = cli_terminal_peak_rss();
    return status;
}

static int run(work *w, const char *path)
{
    clef_error err = {0};
    bench *b = w->b;
    int rc = parse_counts(w);
    if (rc != CLI_GO_ON)
        return rc;
    rc = cli_bench_open_decoder(b, path);
    if (rc == CLI_GO_ON)
        rc = choose_lengths(w);
    if (rc == CLI_GO_ON)
        rc = make_room(w);
    if (rc != CLI_GO_ON)
        return rc;
    if (measure(w, &err) != CLEF_OK)
        return cli_report(&err);
    cli_progress_finish(&b->progress);
    cli_bench_print_batch(b, &w->result);
    return CLI_OK;
}

int cli_bench_batch(bench *b, const char *path)
{
    work w = {.b = b};
    const int rc = run(&w, path);
    clef_batch_destroy(b->batch);
    b->batch = NULL;
    free(w.streams);
    free(w.ids);
    free(w.gaps);
    return rc;
}

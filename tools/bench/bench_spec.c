/* clef bench --spec: what speculation gives for a text that repeats with small edits, and for plain prose. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/cli/terminal.h"

/* A file, and the same after small edits. */
static const char original[] =
    "[server]\nname = harbour\naddress = 10.0.0.17\nport = 8080\ntimeout = 30\nretries = 3\n"
    "log = /var/log/harbour.log\nlevel = info\n\n[database]\nhost = store.example.org\nport = 5432\n"
    "user = harbour\npool = 12\ntimeout = 10\nretries = 5\ncharset = utf8\n\n[mail]\nhost = "
    "post.example.org\n"
    "port = 25\nsender = harbour@example.org\nsubject = A ship has come in\nlimit = 100\n\n[ships]\n"
    "first = Aurora, 120 metres, timber\nsecond = Bettina, 95 metres, grain and salt\n"
    "third = Corvus, 210 metres, containers\nfourth = Delphin, 40 metres, passengers\n"
    "fifth = Esmeralda, 64 metres, wine, oil and fruit\n\n[berths]\nnorth = Aurora\neast = Bettina\n"
    "south = Corvus\nwest = Delphin\nroads = Esmeralda\n";
static const char edited[] =
    "[server]\nname = harbour\naddress = 10.0.0.18\nport = 8080\ntimeout = 30\nretries = 3\n"
    "log = /var/log/harbour.log\nlevel = debug\n\n[database]\nhost = store.example.org\nport = 5432\n"
    "user = harbour\npool = 16\ntimeout = 10\nretries = 5\ncharset = utf8\n\n[mail]\nhost = "
    "post.example.org\n"
    "port = 25\nsender = harbour@example.org\nsubject = A ship has left\nlimit = 100\n\n[ships]\n"
    "first = Aurora, 120 metres, timber\nsecond = Bettina, 95 metres, grain and salt\n"
    "third = Corvus, 212 metres, containers\nfourth = Delphin, 40 metres, passengers\n"
    "fifth = Esmeralda, 64 metres, wine, oil and fruit\n\n[berths]\nnorth = Aurora\neast = Esmeralda\n"
    "south = Corvus\nwest = Delphin\nroads = Bettina\n";
/* The beginning of a story, and how it goes on. */
static const char story[] =
    "The keeper of the lighthouse had not spoken to anyone since the first week of autumn, when the supply "
    "boat "
    "had brought flour, lamp oil and a letter that he put unopened behind the clock. He rose before dawn, as "
    "his "
    "father had done, and climbed the hundred and twelve steps with a can in each hand. From the gallery one "
    "could see three islands on a clear day; on most days there was only weather. He had come to know its "
    "kinds "
    "the way other men know their neighbours. There was a thin rain that lasted a week and meant nothing, "
    "and a "
    "stillness in the evening, yellow at the edges, before which even the gulls went inland.\n";
static const char story_more[] =
    "That night the stillness fell without any colour at all. He noticed it because the lamp burned straight "
    "up "
    "and the stairs were quiet, and because a moth, late in the year, sat on the glass and did not move. He "
    "wrote the hour in the book, wound the clock, and saw the corner of the letter. It would be about the "
    "house, he thought; his sister wished to sell, or had sold already. Toward midnight a sound reached him "
    "that was neither wind nor water, a slow knocking far out, as if someone were mending a roof on the sea. "
    "He "
    "took down the long glass and went outside. Between the second island and the third, where no ship had "
    "any "
    "business to be, a single light rose and sank, went dark, and shone again.\n";

enum { N_TEXTS = BENCH_SPEC_TEXTS };
static const struct {
    const char *name, *prompt, *more;
} texts[N_TEXTS] = {{"edited", original, edited}, {"prose", story, story_more}};

/** State of the measurement; finish() accepts it in any state. */
typedef struct work {
    bench *b;
    bench_spec result;
    clef_model *draft;
    struct {
        int32_t *prompt, *more; /* of the tokenizer */
        int32_t n_prompt, n_more;
    } ids[N_TEXTS];
} work;

/* ---- texts ----------------------------------------------------------------------------------- */

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static clef_status encode(work *w, clef_error *err)
{
    const clef_tokenizer *tokenizer = clef_model_tokenizer(w->b->model, err);
    clef_status s = tokenizer ? CLEF_OK : err->status;
    for (int32_t i = 0; i < N_TEXTS && s == CLEF_OK; i++) {
        s = clef_tokenizer_encode(tokenizer, texts[i].prompt, strlen(texts[i].prompt), CLEF_SPECIAL_ADD,
                                  &w->ids[i].prompt, &w->ids[i].n_prompt, err);
        if (s == CLEF_OK)
            s = clef_tokenizer_encode(tokenizer, texts[i].more, strlen(texts[i].more), CLEF_SPECIAL_NONE,
                                      &w->ids[i].more, &w->ids[i].n_more, err);
    }
    return s;
}

/* Cuts the texts to --prompt and --gen, and to the context. */
static int choose_lengths(work *w)
{
    const bench_options *o = w->b->o;
    const int32_t room = clef_model_hparams(w->b->model)->n_context;
    for (int32_t i = 0; i < N_TEXTS; i++) {
        int32_t *n_prompt = &w->ids[i].n_prompt, *n_more = &w->ids[i].n_more;
        if (o->n_prompt > *n_prompt || o->n_gen > *n_more)
            return cli_fail(CLI_FAILED,
                            "bench: --prompt and --gen with --spec: the text '%s' has %" PRId32
                            " and %" PRId32 " tokens",
                            texts[i].name, *n_prompt, *n_more);
        *n_prompt = o->n_prompt > 0 ? o->n_prompt : least(*n_prompt, room / 2);
        *n_more = o->n_gen > 0 ? o->n_gen : least(*n_more, room - *n_prompt);
        if (*n_prompt > room || *n_more > room - *n_prompt)
            return cli_fail(CLI_FAILED,
                            "bench: --prompt %" PRId32 " and --gen %" PRId32
                            ": the model's context holds %" PRId32,
                            *n_prompt, *n_more, room);
        w->result.rows[i] = (bench_spec_row){.name = texts[i].name, .n_prompt = *n_prompt, .n_gen = *n_more};
    }
    return CLI_GO_ON;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Generates text i once; *rate is in tokens a second after the first. What drafts is measured by the model's
 * own text, draft tokens from the text by a known one, which does not depend on what the model can. */
static clef_status generate(work *w, int32_t i, int32_t is_plain, double *rate, clef_error *err)
{
    const int drafts = w->draft || w->b->o->spec_opts.mtp;
    const clef_request r = {.ids = w->ids[i].prompt,
                            .n = w->ids[i].n_prompt,
                            .n_max = w->ids[i].n_more,
                            .ignore_eos = 1,
                            .forced = drafts ? NULL : w->ids[i].more,
                            .n_forced = drafts ? 0 : w->ids[i].n_more,
                            .no_speculation = is_plain};
    double first = 0, last = 0;
    int32_t n_rows = 1, n = 0, n_first = 0;
    int64_t number;
    clef_status status = clef_batch_add(w->b->batch, &r, &number, err);
    while (status == CLEF_OK && n_rows) {
        clef_batch_token t;
        status = clef_batch_step(w->b->batch, &n_rows, err);
        last = n_rows ? cli_terminal_seconds() : last;
        while (clef_batch_take(w->b->batch, &t, 1))
            n++;
        if (n && !n_first) {
            n_first = n;
            first = last;
        }
        if (status == CLEF_OK)
            status = cli_bench_interrupted(err);
    }
    *rate = last > first ? (n - n_first) / (last - first) : 0;
    return status;
}

/* Without and with speculation in turn, after a round of each that does not count. */
static clef_status measure_row(work *w, int32_t i, clef_error *err)
{
    bench *b = w->b;
    bench_spec_row *row = &w->result.rows[i];
    clef_status status = CLEF_OK;
    for (int32_t round = 0; round <= b->o->n_rounds && status == CLEF_OK; round++) {
        double plain = 0, with = 0;
        cli_progress_step(&b->progress, row->name, (uint64_t)round, (uint64_t)b->o->n_rounds + 1);
        status = generate(w, i, 1, &plain, err);
        const clef_batch_stats before = clef_batch_describe(b->batch);
        if (status == CLEF_OK)
            status = generate(w, i, 0, &with, err);
        if (status != CLEF_OK || !round)
            continue;
        const clef_batch_stats after = clef_batch_describe(b->batch);
        row->plain = plain > row->plain ? plain : row->plain;
        row->with = with > row->with ? with : row->with;
        row->n_drafted += after.n_drafted - before.n_drafted;
        row->n_accepted += after.n_accepted - before.n_accepted;
    }
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static clef_status open_batch(work *w, clef_error *err)
{
    bench *b = w->b;
    clef_batch_opts opts = b->o->spec_opts;
    opts.max_sequences = 1;
    opts.no_prefix_cache = 1;
    opts.repeatable = b->o->repeatable;
    opts.step_tokens = b->o->step_tokens;
    opts.kv_type = cli_kv_type(b->model, b->o->kv_type, b->o->compile.exact);
    opts.compile = cli_compile_opts(&b->o->compile, &b->progress);
    opts.draft = w->draft;
    for (int32_t i = 0; i < N_TEXTS; i++) {
        const int32_t n = w->ids[i].n_prompt + w->ids[i].n_more;
        opts.n_context = n > opts.n_context ? n : opts.n_context;
    }
    return clef_batch_create(b->device, b->model, &opts, &b->batch, err);
}

static clef_status measure(work *w, clef_error *err)
{
    clef_status status = open_batch(w, err);
    for (int32_t i = 0; i < N_TEXTS && status == CLEF_OK; i++)
        status = measure_row(w, i, err);
    w->b->peak_rss = cli_terminal_peak_rss();
    return status;
}

static int run(work *w, const char *path)
{
    clef_error err = {0};
    bench *b = w->b;
    const char *draft = b->o->speculation.draft;
    if (clef_model_open(path, &b->model, &err) != CLEF_OK ||
        (draft && clef_model_open(draft, &w->draft, &err) != CLEF_OK))
        return cli_report(&err);
    if (clef_model_hparams(b->model)->n_decoder_layers > 0)
        return cli_fail(CLI_FAILED, "bench: %s is an encoder-decoder (%s), expected a decoder", path,
                        clef_model_hparams(b->model)->arch);
    if (encode(w, &err) != CLEF_OK)
        return cli_report(&err);
    const int rc = choose_lengths(w);
    if (rc != CLI_GO_ON)
        return rc;
    if (measure(w, &err) != CLEF_OK)
        return cli_report(&err);
    cli_progress_finish(&b->progress);
    w->result.n_rows = N_TEXTS;
    w->result.off = clef_batch_no_speculation(b->batch);
    cli_bench_print_spec(b, &w->result);
    return CLI_OK;
}

int cli_bench_spec(bench *b, const char *path)
{
    work w = {.b = b};
    const int rc = run(&w, path);
    clef_batch_destroy(b->batch);
    b->batch = NULL;
    for (int32_t i = 0; i < N_TEXTS; i++) {
        clef_tokens_free(w.ids[i].prompt);
        clef_tokens_free(w.ids[i].more);
    }
    clef_model_close(w.draft);
    return rc;
}

/* clef sample: what each sampler makes of given probabilities. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/sampling.h"

typedef struct sample_options {
    const char *probs, *previous;
    int32_t n_draws;
    cli_sampling sampling;
} sample_options;

static const sample_options sample_defaults = {.sampling = CLI_SAMPLING_DEFAULTS};

/* clang-format off */
#define AT(field) .offset = offsetof(sample_options, field)
static const cli_option sample_option_table[] = {
    {.names = "", .type = CLI_HEADING, .help = "Input"},
    {.names = "probs", .type = CLI_TEXT, .value = "P,Q", AT(probs),
     .help = "the probabilities of tokens 0, 1, ..; they are divided by their sum"},
    {.names = "previous", .type = CLI_TEXT, .value = "1,2,3", AT(previous),
     .help = "the ids of the text before, for penalties and DRY"},
    {.names = "draws", .type = CLI_INT, .value = "N", .lo = 0, .hi = INT32_MAX, AT(n_draws),
     .help = "also print the share of each token in N draws [0]"},
    {.names = "", .type = CLI_HEADING, .help = "Sampling"},
    SAMPLING_OPTIONS(sample_options, sampling),
    {.names = NULL},
};
/* clang-format on */

typedef struct sample_run {
    float *logits;
    int32_t *previous, n_vocab, n_previous, *counts;
    cli_sampler sampling;
    clef_sampler *sampler;
} sample_run;

/* An array for the numbers of a text: one more than its commas. */
static void *room_for(const char *text, size_t size)
{
    size_t n = 1;
    for (const char *s = text; *s; s++)
        n += *s == ',' || *s == ' ';
    return calloc(n, size);
}

static int read_probs(sample_run *r, const char *text)
{
    r->logits = room_for(text, sizeof *r->logits);
    if (!r->logits)
        return cli_fail(CLI_FAILED, "sample: out of host memory");
    double sum = 0;
    for (const char *s = text; *s;) {
        char *end;
        const double p = strtod(s, &end);
        if (end == s || !(p >= 0) || isinf(p) || (*end && *end != ',' && *end != ' '))
            return cli_fail(CLI_USAGE,
                            "sample: --probs: expected numbers from 0 on, such as 0.5,0.5, got '%.20s'", s);
        r->logits[r->n_vocab++] = p > 0 ? (float)log(p) : -INFINITY;
        sum += p;
        s = end + (*end != 0) + (*end ? strspn(end + 1, " ") : 0);
    }
    return sum > 0 ? CLI_GO_ON : cli_fail(CLI_USAGE, "sample: --probs: expected a number above 0");
}

static int read_previous(sample_run *r, const char *text)
{
    r->previous = room_for(text, sizeof *r->previous);
    if (!r->previous)
        return cli_fail(CLI_FAILED, "sample: out of host memory");
    for (const char *s = text; *s;) {
        char *end;
        errno = 0;
        const long id = strtol(s, &end, 10);
        if (end == s || errno || id < 0 || id >= r->n_vocab || (*end && *end != ',' && *end != ' '))
            return cli_fail(CLI_USAGE, "sample: --previous: expected ids from 0 to %" PRId32 ", got '%.20s'",
                            r->n_vocab - 1, s);
        r->previous[r->n_previous++] = (int32_t)id;
        s = end + (*end != 0) + (*end ? strspn(end + 1, " ") : 0);
    }
    return CLI_GO_ON;
}

static void print_line(void *user, const char *name, const double *p, int32_t n)
{
    (void)user;
    printf("%s", name);
    for (int32_t i = 0; i < n; i++)
        printf(" %.6g", p[i]);
    putchar('\n');
}

static int draw(sample_run *r, int32_t n_draws)
{
    r->counts = calloc((size_t)r->n_vocab, sizeof *r->counts);
    if (!r->counts)
        return cli_fail(CLI_FAILED, "sample: out of host memory");
    for (int32_t i = 0; i < n_draws; i++)
        r->counts[clef_sampler_pick(r->sampler, r->logits)]++;
    printf("draws");
    for (int32_t i = 0; i < r->n_vocab; i++)
        printf(" %.6g", (double)r->counts[i] / n_draws);
    putchar('\n');
    return CLI_GO_ON;
}

static int explain(sample_run *r, const sample_options *o)
{
    clef_error err = {0};
    int rc = read_probs(r, o->probs);
    if (rc == CLI_GO_ON && o->previous)
        rc = read_previous(r, o->previous);
    if (rc == CLI_GO_ON)
        rc = cli_sampler_make(&o->sampling, "sample", NULL, &r->sampling);
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_sampler_create(r->n_vocab, &r->sampling.opts, &r->sampler, &err) != CLEF_OK)
        return cli_fail(CLI_USAGE, "sample: %s", err.text);
    for (int32_t i = 0; i < r->n_previous; i++)
        clef_sampler_accept(r->sampler, r->previous[i]);
    if (clef_sampler_explain(r->sampler, r->logits, NULL, print_line, NULL, &err) != CLEF_OK)
        return cli_report(&err);
    return o->n_draws ? draw(r, o->n_draws) : CLI_GO_ON;
}

static int sample_run_command(const void *options, int32_t n_args, char **args)
{
    const sample_options *o = options;
    sample_run r = {0};
    (void)n_args;
    (void)args;
    if (!o->probs)
        return cli_fail(CLI_USAGE, "sample: expected --probs, such as --probs 0.1,0.2,0.3,0.4");
    const int rc = explain(&r, o);
    clef_sampler_destroy(r.sampler);
    cli_sampler_finish(&r.sampling);
    free(r.logits);
    free(r.previous);
    free(r.counts);
    return rc == CLI_GO_ON ? CLI_OK : rc;
}

const cli_command cli_command_sample = {
    .name = "sample",
    .usage = "--probs P,Q,.. [FLAGS]",
    .summary = "Print what each sampler makes of given probabilities",
    .notes = "One line for each sampler that is on, in their order: its name, then the probabilities of all "
             "tokens after it, 0 for those that it removed. The last line is what is drawn from. Samplers "
             "that no flag names are off, and the temperature is 1. No model is needed; --dry-breaker is a "
             "list of ids here.\n\n  clef sample --probs 0.1,0.2,0.3,0.4 --top-k 3 --temp 0.5\n",
    .options = sample_option_table,
    .first = "probs previous draws temp top-k top-p min-p typical repeat-penalty presence-penalty "
             "frequency-penalty repeat-last-n mirostat logit-bias samplers seed",
    .defaults = &sample_defaults,
    .options_bytes = sizeof sample_defaults,
    .run = sample_run_command,
};

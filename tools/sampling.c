/* From the flags of sampling to a sampler's options. */
#include "tools/sampling.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* The value of an option: the flag's, else the model's, else the default. */
static double value_of(const char *name, double flag, double otherwise, const clef_model *model,
                       cli_sampler *out)
{
    double value;
    if (flag >= 0)
        return flag;
    if (!model || !clef_model_sampling(model, name, &value))
        return otherwise;
    const size_t n = strlen(out->recommended);
    if (value < INT32_MAX) /* else the whole text */
        snprintf(out->recommended + n, sizeof out->recommended - n, "%s%s %.6g", n ? ", " : "", name, value);
    return value;
}

static void set_numbers(const cli_sampling *f, const clef_model *model, cli_sampler *out)
{
    const int has = model != NULL;
    out->opts = (clef_sampler_opts){
        .temperature = (float)value_of("temperature", (double)f->temperature, has ? 0.8 : 1, model, out),
        .top_k = (int32_t)value_of("top_k", f->top_k, has ? 40 : 0, model, out),
        .top_p = (float)value_of("top_p", (double)f->top_p, has ? 0.95 : 1, model, out),
        .min_p = (float)value_of("min_p", (double)f->min_p, has ? 0.05 : 0, model, out),
        .typical = (float)value_of("typical", (double)f->typical, 1, model, out),
        .repeat_penalty = (float)value_of("repeat_penalty", (double)f->repeat_penalty, 1, model, out),
        .repeat_last_n = f->repeat_last_n != CLI_NOT_GIVEN || f->repeat_penalty >= 0
                             ? (f->repeat_last_n != CLI_NOT_GIVEN ? f->repeat_last_n : 64)
                             : (int32_t)value_of("repeat_last_n", CLI_NOT_GIVEN, 64, model, out),
        .seed = f->seed.given ? f->seed.value : cli_terminal_entropy(),
        .presence_penalty = f->presence_penalty,
        .frequency_penalty = f->frequency_penalty,
        .dry_multiplier = f->dry_last_n ? f->dry_multiplier : 0,
        .dry_base = f->dry_base,
        .dry_allowed_length = f->dry_allowed_length,
        .dry_last_n = f->dry_last_n,
        .xtc_probability = f->xtc_probability,
        .xtc_threshold = f->xtc_threshold,
        .top_n_sigma = f->top_n_sigma,
        .mirostat = f->mirostat,
        .mirostat_tau = f->mirostat_tau,
        .mirostat_eta = f->mirostat_eta,
    };
}

/* ---- order ----------------------------------------------------------------------------------- */

static clef_sampler_kind find_sampler(const char *name, size_t n)
{
    for (int i = 1; i < CLEF_N_SAMPLERS; i++) {
        const char *known = clef_sampler_name((clef_sampler_kind)i);
        if (strlen(known) == n && memcmp(known, name, n) == 0)
            return (clef_sampler_kind)i;
    }
    return CLEF_SAMPLER_END;
}

static int set_order(const char *text, clef_sampler_opts *o)
{
    uint32_t seen = 0;
    int32_t count = 0;
    for (const char *s = text; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        const size_t n = strcspn(s, ",");
        const clef_sampler_kind kind = find_sampler(s, n);
        if (!kind)
            return cli_fail(CLI_USAGE,
                            "--samplers: expected some of penalties,dry,top_n_sigma,top_k,typical,top_p,"
                            "min_p,xtc,temperature, got '%.*s'",
                            n < 40 ? (int)n : 40, s);
        if (seen >> kind & 1)
            return cli_fail(CLI_USAGE, "--samplers: %s is there twice", clef_sampler_name(kind));
        seen |= 1u << kind;
        o->samplers[count++] = (uint8_t)kind;
    }
    return CLI_GO_ON;
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* Parses "ID=X". */
static int parse_bias(const char *text, clef_logit_bias *out)
{
    char *end, *last;
    errno = 0;
    const long id = strtol(text, &end, 10);
    if (errno || end == text || *end != '=' || id < 0 || id > INT32_MAX)
        return 0;
    const double x = strtod(end + 1, &last);
    *out = (clef_logit_bias){.id = (int32_t)id, .bias = (float)x};
    return last > end + 1 && !*last && x <= 1e30 && (x >= -1e30 || isinf(x));
}

static int set_biases(const cli_list *flags, cli_sampler *out)
{
    out->biases = calloc((size_t)flags->n + 1, sizeof *out->biases);
    if (!out->biases)
        return cli_fail(CLI_FAILED, "--logit-bias: out of host memory");
    for (int32_t i = 0; i < flags->n; i++)
        if (!parse_bias(flags->items[i], &out->biases[i]))
            return cli_fail(CLI_USAGE, "--logit-bias: expected ID=X, X a number or -inf, got '%.40s'",
                            flags->items[i]);
    out->opts.biases = out->biases;
    out->opts.n_biases = flags->n;
    return CLI_GO_ON;
}

/* ---- breakers -------------------------------------------------------------------------------- */

/* Appends a sequence: `first` (-1: none), then ids, then -1. */
static int add_breaker(cli_sampler *out, int32_t first, const int32_t *ids, int32_t n)
{
    clef_sampler_opts *o = &out->opts;
    if (n > INT32_MAX / 4 - o->n_dry_breakers)
        return cli_fail(CLI_FAILED, "--dry-breaker: too many tokens");
    const int32_t wanted = o->n_dry_breakers + n + 2;
    if (wanted > out->cap_breakers) {
        int32_t *more = realloc(out->breakers, 2 * (size_t)wanted * sizeof *more);
        if (!more)
            return cli_fail(CLI_FAILED, "--dry-breaker: out of host memory");
        out->breakers = more;
        out->cap_breakers = 2 * wanted;
    }
    if (first >= 0)
        out->breakers[o->n_dry_breakers++] = first;
    if (n)
        memcpy(out->breakers + o->n_dry_breakers, ids, (size_t)n * sizeof *ids);
    o->n_dry_breakers += n;
    out->breakers[o->n_dry_breakers++] = -1;
    return CLI_GO_ON;
}

/* A breaker as ids: "3,4". */
static int add_ids(cli_sampler *out, const char *text)
{
    int32_t ids[64], n = 0;
    for (const char *s = text; *s;) {
        char *end;
        errno = 0;
        const long id = strtol(s, &end, 10);
        if (end == s || errno || id < 0 || id > INT32_MAX || n == 64)
            return cli_fail(CLI_USAGE, "--dry-breaker: expected ids such as 3,4, got '%.40s'", text);
        ids[n++] = (int32_t)id;
        s = end + strspn(end, ", ");
    }
    return n ? add_breaker(out, -1, ids, n)
             : cli_fail(CLI_USAGE, "--dry-breaker: expected ids such as 3,4, got nothing");
}

/* A text as breakers: each token that contains it; and each that ends with its beginning, with the tokens of
 * what is left, as llama.cpp does. */
typedef struct breaker_text {
    const char *text;
    size_t n;
    int32_t **rest; /* [n]: the tokens of the text without its first i bytes */
    int32_t *n_rest;
} breaker_text;

static int add_token(cli_sampler *out, const breaker_text *b, int32_t id, const char *piece, size_t n_piece)
{
    if (strstr(piece, b->text))
        return add_breaker(out, id, NULL, 0);
    for (size_t i = 1; i < b->n && i <= n_piece; i++)
        if (memcmp(piece + n_piece - i, b->text, i) == 0) {
            const int rc = add_breaker(out, id, b->rest[i], b->n_rest[i]);
            if (rc != CLI_GO_ON)
                return rc;
        }
    return CLI_GO_ON;
}

static int find_tokens(cli_sampler *out, const clef_tokenizer *tok, int32_t n_vocab, const breaker_text *b)
{
    const int32_t n = clef_tokenizer_n_tokens(tok) < n_vocab ? clef_tokenizer_n_tokens(tok) : n_vocab;
    int rc = CLI_GO_ON;
    for (int32_t id = 0; id < n && rc == CLI_GO_ON; id++) {
        char *piece;
        size_t n_piece;
        if (clef_tokenizer_decode(tok, &id, 1, &piece, &n_piece, NULL) != CLEF_OK)
            continue;
        rc = n_piece ? add_token(out, b, id, piece, n_piece) : CLI_GO_ON;
        clef_text_free(piece);
    }
    return rc;
}

static int add_text(cli_sampler *out, const clef_tokenizer *tok, int32_t n_vocab, const char *text)
{
    enum { MOST_BYTES = 40 }; /* as llama.cpp */
    int32_t *rest[MOST_BYTES] = {0}, n_rest[MOST_BYTES] = {0};
    const breaker_text b = {.text = text, .n = strlen(text), .rest = rest, .n_rest = n_rest};
    clef_error err = {0};
    int rc = CLI_GO_ON;
    if (!b.n || b.n > MOST_BYTES)
        return cli_fail(CLI_USAGE, "--dry-breaker: a text of %zu bytes, expected 1 to %d", b.n, MOST_BYTES);
    for (size_t i = 1; i < b.n && rc == CLI_GO_ON; i++)
        if (clef_tokenizer_encode(tok, text + i, b.n - i, CLEF_SPECIAL_NONE, &rest[i], &n_rest[i], &err) !=
            CLEF_OK)
            rc = cli_report(&err);
    if (rc == CLI_GO_ON)
        rc = find_tokens(out, tok, n_vocab, &b);
    for (size_t i = 1; i < b.n; i++)
        clef_tokens_free(rest[i]);
    return rc;
}

int cli_dry_breakers(const cli_list *given, clef_model *model, cli_sampler *out)
{
    static const cli_list usual = {.items = {"\n", ":", "\"", "*"}, .n = 4};
    const cli_list *texts = given->n ? given : &usual;
    clef_error err = {0};
    int rc = CLI_GO_ON;
    const clef_tokenizer *tok = clef_model_tokenizer(model, &err);
    if (!tok)
        return cli_report(&err);
    for (int32_t i = 0; i < texts->n && rc == CLI_GO_ON; i++)
        rc = add_text(out, tok, clef_model_hparams(model)->n_vocab, texts->items[i]);
    out->opts.dry_breakers = out->breakers;
    return rc;
}

static int set_breakers(const cli_list *flags, clef_model *model, cli_sampler *out)
{
    int rc = CLI_GO_ON;
    if (out->opts.dry_multiplier == 0 || (flags->n == 1 && strcmp(flags->items[0], "none") == 0))
        return CLI_GO_ON;
    if (model)
        return cli_dry_breakers(flags, model, out);
    for (int32_t i = 0; i < flags->n && rc == CLI_GO_ON; i++)
        rc = add_ids(out, flags->items[i]);
    out->opts.dry_breakers = out->breakers;
    return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

int cli_sampler_make(const cli_sampling *f, const char *command, clef_model *model, cli_sampler *out)
{
    clef_error err = {0};
    *out = (cli_sampler){0};
    set_numbers(f, model, out);
    out->model = model;
    int rc = set_order(f->samplers ? f->samplers : model ? clef_model_samplers(model) : NULL, &out->opts);
    if (rc == CLI_GO_ON)
        rc = set_biases(&f->biases, out);
    if (rc == CLI_GO_ON)
        rc = set_breakers(&f->dry_breakers, model, out);
    clef_sampler *probe = NULL;
    if (rc == CLI_GO_ON && model &&
        clef_sampler_create(clef_model_hparams(model)->n_vocab, &out->opts, &probe, &err) != CLEF_OK)
        rc = cli_fail(CLI_USAGE, "%s: %s", command, err.text);
    clef_sampler_destroy(probe);
    return rc;
}

/* Prints the keys that no flag has taken up. */
static void tell_ignored(const char *keys, int32_t n_beams)
{
    int32_t n = 0;
    for (const char *s = keys, *end; *s; s = *end ? end + 2 : end) {
        end = strstr(s, ", ") ? strstr(s, ", ") : s + strlen(s);
        const char *beams = strstr(s, "(--beams)");
        if (n_beams && beams && beams < end)
            continue;
        fprintf(stderr, "%s%.*s", n++ ? ", " : "clef: generation_config.json: not applied: ", (int)(end - s),
                s);
    }
    if (n)
        fputc('\n', stderr);
}

void cli_sampler_tell(const cli_sampler *s, int32_t n_beams)
{
    if (s->recommended[0] && !n_beams)
        fprintf(stderr, "clef: recommended by the model: %s\n", s->recommended);
    if (s->model && clef_model_generation(s->model, 1)[0])
        fprintf(stderr, "clef: generation_config.json: applied: %s\n", clef_model_generation(s->model, 1));
    if (s->model)
        tell_ignored(clef_model_generation(s->model, 0), n_beams);
}

void cli_sampler_finish(cli_sampler *s)
{
    free(s->breakers);
    free(s->biases);
    *s = (cli_sampler){0};
}

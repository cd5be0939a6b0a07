/* clef fill: predicts the words at a text's masked places. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/classifier.h"
#include "tools/cli/json.h"

typedef struct fill_options {
    cli_classifier_options common;
    int32_t n_best;
} fill_options;

static const fill_options fill_defaults = {.n_best = 5};

/* clang-format off */
static const cli_option fill_option_table[] = {
    {.names = "n-best", .letter = 'n', .type = CLI_INT, .value = "K",
     .offset = offsetof(fill_options, n_best), .lo = 1, .hi = 1000,
     .help = "candidates per masked place [5]"},
    CLASSIFIER_OPTIONS(fill_options),
    {.names = NULL},
};
/* clang-format on */

/* How models write a mask. A text may use any of these. */
static const char *const masks[] = {"<mask>", "[MASK]", "<|mask|>"};

/* Copies the text, with every mask replaced by the model's own; NULL when out of memory. */
static char *with_own_masks(const char *text, const char *own)
{
    size_t n = strlen(text), n_own = strlen(own), at = 0;
    char *out = malloc(n * n_own + n + 1); /* no mask is shorter than a byte */
    for (const char *s = text; out && *s;) {
        size_t n_mask = 0;
        for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
            if (strncmp(s, masks[i], strlen(masks[i])) == 0)
                n_mask = strlen(masks[i]);
        if (n_mask)
            memcpy(out + at, own, n_own), at += n_own, s += n_mask;
        else
            out[at++] = *s++;
    }
    if (out)
        out[at] = '\0';
    return out;
}

/* The id of the model's mask, and its text. */
static int find_mask(const cli_classifier *c, int32_t *id, const char **own)
{
    *id = clef_tokenizer_role(c->tokenizer, CLEF_ROLE_MASK);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const int32_t found = clef_tokenizer_find(c->tokenizer, masks[i]);
        if (found >= 0 && (*id < 0 || found == *id)) {
            *id = found;
            *own = masks[i];
            return CLI_GO_ON;
        }
    }
    return cli_fail(CLI_FAILED, "fill: the tokenizer of %s has no mask token", clef_model_path(c->model));
}

/* The n_best likeliest of p [n], the first of equals first, in n_best passes, because n_best is small. */
static void best_of(const float *p, int32_t n, int32_t n_best, int32_t *out)
{
    for (int32_t k = 0; k < n_best; k++) {
        out[k] = -1;
        for (int32_t i = 0; i < n; i++) {
            const int after = !k || p[i] < p[out[k - 1]] || (p[i] == p[out[k - 1]] && i > out[k - 1]);
            if (after && (out[k] < 0 || p[i] > p[out[k]]))
                out[k] = i;
        }
    }
}

static int print_candidate(const cli_classifier *c, int32_t place, int32_t id, float p, int json)
{
    clef_error err = {0};
    char *piece = NULL, *text = NULL;
    size_t n_bytes = 0;
    const int32_t masked = c->text.ids[place];
    c->text.ids[place] = id;
    clef_status status = clef_tokenizer_decode(c->tokenizer, &id, 1, &piece, &n_bytes, &err);
    if (status == CLEF_OK)
        status = clef_tokenizer_decode(c->tokenizer, c->text.ids, c->text.n, &text, &n_bytes, &err);
    c->text.ids[place] = masked;
    if (status == CLEF_OK && json) {
        printf("{\"score\": %.9g, \"token\": %" PRId32 ", \"token_str\": ", (double)p, id);
        cli_json_string(stdout, piece);
        printf(", \"sequence\": ");
        cli_json_string(stdout, text);
        putchar('}');
    } else if (status == CLEF_OK) {
        printf("%.6f\t%s\t%s\n", (double)p, piece, text);
    }
    clef_text_free(piece);
    clef_text_free(text);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

/* Prints the candidates of each masked place: lines, with an empty line between places; in JSON a list, or a
 * list of lists. */
static int print_places(const cli_classifier *c, const fill_options *o, int32_t mask, const float *logits,
                        float *p, int32_t *best)
{
    const int32_t V = c->info.n_classes, n_best = o->n_best < V ? o->n_best : V;
    const int json = o->common.json;
    int32_t n_places = 0, n_done = 0;
    int rc = CLI_OK;
    for (int32_t t = 0; t < c->text.n; t++)
        n_places += c->text.ids[t] == mask;
    if (n_places == 0)
        return cli_fail(CLI_FAILED, "fill: the text has no <mask>");
    if (json && n_places > 1)
        putchar('[');
    for (int32_t t = 0; rc == CLI_OK && t < c->text.n; t++) {
        if (c->text.ids[t] != mask)
            continue;
        clef_class_probabilities(CLEF_CLASS_SOFTMAX, logits + (size_t)t * (size_t)V, V, p);
        best_of(p, V, n_best, best);
        if (n_done++)
            fputs(json ? ", " : "\n", stdout);
        for (int32_t k = 0; rc == CLI_OK && k < n_best && best[k] >= 0; k++) {
            if (json)
                fputs(k ? ", " : "[", stdout);
            rc = print_candidate(c, t, best[k], p[best[k]], json);
        }
        if (json)
            putchar(']');
    }
    if (json)
        puts(n_places > 1 ? "]" : "");
    return rc;
}

static int fill_run(const void *options, int32_t n_args, char **args)
{
    const fill_options *o = options;
    cli_classifier c = {0};
    const char *own = NULL;
    const float *logits = NULL;
    char *text = NULL;
    int32_t mask = -1;
    (void)n_args;
    int rc = cli_classifier_open(&c, &o->common, args[0], CLEF_HEAD_MASKED);
    if (rc == CLI_GO_ON)
        rc = find_mask(&c, &mask, &own);
    if (rc == CLI_GO_ON && !(text = with_own_masks(args[1], own)))
        rc = cli_fail(CLI_FAILED, "fill: out of host memory");
    if (rc == CLI_GO_ON)
        rc = cli_classifier_run(&c, &o->common, text, NULL, &logits);
    if (rc == CLI_GO_ON) {
        float *p = malloc((size_t)c.info.n_classes * sizeof *p);
        int32_t *best = malloc((size_t)o->n_best * sizeof *best);
        rc = p && best ? print_places(&c, o, mask, logits, p, best)
                       : cli_fail(CLI_FAILED, "fill: out of host memory");
        free(p);
        free(best);
    }
    free(text);
    cli_classifier_finish(&c);
    return rc;
}

const cli_command cli_command_fill = {
    .name = "fill",
    .usage = "MODEL \"... <mask> ...\"",
    .summary = "Predict the masked words of a text",
    .notes = "MODEL is an encoder with its masked language model head. <mask> and [MASK] both mean the "
             "model's own mask token. Each line is one candidate, the likeliest first: its probability, the "
             "token, and the text with it. An empty line separates places.\n",
    .options = fill_option_table,
    .min_args = 2,
    .max_args = 2,
    .defaults = &fill_defaults,
    .options_bytes = sizeof fill_defaults,
    .run = fill_run,
};

/* clef classify: the classes of a text, or of each of its tokens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/classes.h"
#include "tools/classifier.h"
#include "tools/cli/json.h"

typedef struct classify_options {
    cli_classifier_options common;
    cli_list images;
    const char *classes, *form;
} classify_options;

static const classify_options classify_defaults = {0};

/* clang-format off */
#define AT(field) .offset = offsetof(classify_options, field)
static const cli_option classify_option_table[] = {
    IMAGE_OPTION(classify_options, images,
                 "classify a picture instead of a text: PNG, JPEG, WebP or PPM, - is stdin; may be repeated"),
    {.names = "classes", .type = CLI_TEXT, .value = "A,B,..", AT(classes),
     .help = "with --image, and a model of pictures and texts (CLIP, SigLIP): how well each of these texts "
             "fits"},
    {.names = "template", .type = CLI_TEXT, .value = "TEXT", AT(form),
     .help = "with --classes: what is compared, with a class in place of {}, such as 'a photo of a {}' [{}]"},
    CLASSIFIER_OPTIONS(classify_options),
    {.names = NULL},
};
/* clang-format on */

/* Sorts a row of logits by probability, the likeliest first, into `out` [n_classes]. */
static void rank_classes(const cli_classifier *c, const float *logits, float *p, cli_ranked *out)
{
    cli_rank_classes(c->info.kind, logits, c->info.n_classes, p, out);
}

static void print_class(const cli_classifier *c, const cli_ranked *r, int json)
{
    const char *label = clef_classifier_label(c->classifier, r->class);
    if (json) {
        printf("{\"label\": ");
        cli_json_string(stdout, label);
        printf(", \"score\": %.9g", (double)r->p);
    } else {
        printf("%s\t%.6f", label, (double)r->p);
    }
}

static void print_text(const cli_classifier *c, const cli_ranked *r, int json)
{
    if (json)
        putchar('[');
    for (int32_t i = 0; i < c->info.n_classes; i++) {
        if (json && i)
            printf(", ");
        print_class(c, &r[i], json);
        fputs(json ? "}" : "\n", stdout);
    }
    if (json)
        puts("]");
}

/* Prints each token except special tokens, with its likeliest class. */
static int print_tokens(const cli_classifier *c, const float *logits, float *p, cli_ranked *r, int json)
{
    int32_t n_printed = 0;
    if (json)
        putchar('[');
    for (int32_t t = 0; t < c->text.n; t++) {
        clef_error err = {0};
        char *piece = NULL;
        size_t n_bytes = 0;
        if (cli_classifier_is_mark(c, c->text.ids[t]))
            continue;
        if (clef_tokenizer_decode(c->tokenizer, &c->text.ids[t], 1, &piece, &n_bytes, &err) != CLEF_OK)
            return cli_report(&err);
        rank_classes(c, logits + (size_t)t * (size_t)c->info.n_classes, p, r);
        if (json && n_printed++)
            printf(", ");
        if (!json)
            printf("%s\t", piece);
        print_class(c, r, json);
        if (json) {
            printf(", \"index\": %" PRId32 ", \"word\": ", t);
            cli_json_string(stdout, piece);
        }
        fputs(json ? "}" : "\n", stdout);
        clef_text_free(piece);
    }
    if (json)
        puts("]");
    return CLI_OK;
}

static int check_options(const classify_options *o, int32_t n_args)
{
    if (o->images.n && n_args > 1)
        return cli_fail(CLI_USAGE, "classify: expected a text or --image, not both");
    if (!o->images.n && n_args < 2)
        return cli_fail(CLI_USAGE, "classify: expected a TEXT, or --image FILE");
    if ((o->classes && !o->images.n) || (o->form && !o->classes))
        return cli_fail(CLI_USAGE, "classify: %s",
                        o->form && !o->classes ? "--template: expected --classes beside it"
                                               : "--classes: expected --image beside it");
    if (o->form && !strstr(o->form, "{}"))
        return cli_fail(CLI_USAGE, "classify: --template: expected {} in it, got '%s'", o->form);
    return CLI_GO_ON;
}

static int classify_run(const void *options, int32_t n_args, char **args)
{
    const classify_options *o = options;
    const int bad = check_options(o, n_args);
    if (bad != CLI_GO_ON || o->images.n)
        return bad != CLI_GO_ON ? bad
                                : cli_classify_pictures(&o->common, args[0], &o->images, o->classes, o->form);
    cli_classifier c = {0};
    const float *logits = NULL;
    float *p = NULL;
    cli_ranked *r = NULL;
    int rc = cli_classifier_open(&c, &o->common, args[0], CLEF_HEAD_CLASSES);
    if (rc == CLI_GO_ON)
        rc = cli_classifier_run(&c, &o->common, args[1], n_args > 2 ? args[2] : NULL, &logits);
    if (rc == CLI_GO_ON) {
        p = malloc((size_t)c.info.n_classes * sizeof *p);
        r = malloc((size_t)c.info.n_classes * sizeof *r);
        rc = p && r ? CLI_OK : cli_fail(CLI_FAILED, "classify: out of host memory");
    }
    if (rc == CLI_OK && c.info.per_token) {
        rc = print_tokens(&c, logits, p, r, o->common.json);
    } else if (rc == CLI_OK) {
        rank_classes(&c, logits, p, r);
        print_text(&c, r, o->common.json);
    }
    free(p);
    free(r);
    cli_classifier_finish(&c);
    return rc;
}

const cli_command cli_command_classify = {
    .name = "classify",
    .usage = "MODEL TEXT [SECOND] | MODEL --image FILE...",
    .summary = "Classify a text, its tokens, or a picture",
    .notes =
        "MODEL is a ...ForSequenceClassification model, which gives each label and its probability, the "
        "likeliest first; or a ...ForTokenClassification model, which gives the likeliest label of each "
        "token. SECOND is the second text of a pair, for models that expect one.\n\nWith --image, MODEL is a "
        "...ForImageClassification folder (ViT, DeiT, DINOv2). Or it is a CLIP or SigLIP folder, and the "
        "classes are texts that --classes names.\n",
    .options = classify_option_table,
    .min_args = 1,
    .max_args = 3,
    .defaults = &classify_defaults,
    .options_bytes = sizeof classify_defaults,
    .run = classify_run,
};

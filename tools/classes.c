#include "tools/classes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/embed.h"
#include "tools/cli/json.h"

static int by_p(const void *a, const void *b)
{
    const cli_ranked *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p ? 1 : -1) : (x->class > y->class) - (x->class < y->class);
}

void cli_rank_classes(clef_class_kind kind, const float *logits, int32_t n, float *p, cli_ranked *out)
{
    clef_class_probabilities(kind, logits, n, p);
    for (int32_t i = 0; i < n; i++)
        out[i] = (cli_ranked){p[i], i};
    qsort(out, (size_t)n, sizeof *out, by_p);
}

/* ---- classes that the user names --------------------------------------------------------------- */

/* The parts of "a cat,a dog", and the texts that are made of them. */
typedef struct names {
    char *copy, **labels, **texts;
    clef_span *spans;
    int32_t n;
} names;

static void finish_names(names *s)
{
    for (int32_t i = 0; s->texts && i < s->n; i++)
        free(s->texts[i]);
    free(s->copy);
    free(s->labels);
    free(s->texts);
    free(s->spans);
}

/* `form` with the label for "{}"; the label alone where the form is NULL. */
static char *fill_form(const char *form, const char *label)
{
    const char *at = form ? strstr(form, "{}") : NULL;
    const size_t n = strlen(label) + (form ? strlen(form) : 0) + 1;
    char *text = malloc(n);
    if (text && at)
        snprintf(text, n, "%.*s%s%s", (int)(at - form), form, label, at + 2);
    else if (text)
        snprintf(text, n, "%s", label);
    return text;
}

static int split_names(names *s, const char *classes, const char *form)
{
    size_t most = 1;
    for (const char *at = classes; *at; at++)
        most += *at == ',';
    s->copy = malloc(strlen(classes) + 1);
    s->labels = calloc(most, sizeof *s->labels);
    s->texts = calloc(most, sizeof *s->texts);
    s->spans = calloc(most, sizeof *s->spans);
    if (!s->copy || !s->labels || !s->texts || !s->spans)
        return cli_fail(CLI_FAILED, "out of host memory");
    memcpy(s->copy, classes, strlen(classes) + 1);
    for (char *at = s->copy; at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        at += strspn(at, " ");
        if (!*at)
            return cli_fail(CLI_USAGE,
                            "classify: --classes: expected texts with commas between, got an empty one");
        char *text = fill_form(form, at);
        if (!text)
            return cli_fail(CLI_FAILED, "out of host memory");
        s->labels[s->n] = at;
        s->texts[s->n] = text;
        s->spans[s->n++] = (clef_span){text, strlen(text)};
        at = comma ? comma + 1 : NULL;
    }
    return CLI_GO_ON;
}

/* Vectors of the texts, of length 1: [n, width]. */
static clef_status embed_names(cli_pictures *p, const cli_classifier_options *o, const names *s, float **out,
                               clef_error *err)
{
    clef_embedder *embedder = NULL;
    const clef_embed_opts opts = {.normalize = CLEF_NORMALIZE_YES,
                                  .compile = cli_compile_opts(&o->compile, &p->progress)};
    *out = NULL;
    if (!p->info.has_texts)
        return cli_error(err, CLEF_E_UNSUPPORTED,
                         "--classes: expected a model of pictures and texts, such as CLIP or SigLIP");
    clef_status status = clef_embedder_create(p->device, p->model, &opts, &embedder, err);
    if (status != CLEF_OK)
        return status;
    if (clef_embedder_describe(embedder).n_dims != p->info.width)
        status = cli_error(err, CLEF_E_SHAPE,
                           "vectors of texts have %" PRId32 " numbers, those of pictures %" PRId32,
                           clef_embedder_describe(embedder).n_dims, p->info.width);
    *out = malloc(((size_t)s->n * (size_t)p->info.width + 1) * sizeof **out);
    if (status == CLEF_OK && !*out)
        status = cli_error(err, CLEF_E_NOMEM, "out of host memory");
    if (status == CLEF_OK)
        status = clef_embed_texts(embedder, s->spans, s->n, o->truncate, *out, NULL, err);
    clef_embedder_destroy(embedder);
    return status;
}

/* scale cos + bias of picture and texts, whose vectors have length 1. */
static void compare(const cli_pictures *p, const float *picture, const float *texts, int32_t n, float *logits)
{
    const size_t d = (size_t)p->info.width;
    for (size_t i = 0; i < (size_t)n; i++) {
        double dot = 0;
        for (size_t k = 0; k < d; k++)
            dot += (double)picture[k] * (double)texts[i * d + k];
        logits[i] = (float)((double)p->info.scale * dot + (double)p->info.bias);
    }
}

/* ---- output ------------------------------------------------------------------------------------ */

/* What is printed: n classes of each picture. */
typedef struct result {
    clef_class_kind kind;
    char **labels; /* NULL: those of the model */
    float *p;
    cli_ranked *ranked;
    int32_t n;
    int json;
} result;

/* One picture's classes; `file`: NULL, or what is printed before each. */
static void print_classes(const cli_pictures *p, const result *r, const char *file)
{
    if (r->json)
        putchar('[');
    for (int32_t i = 0; i < r->n; i++) {
        const int32_t c = r->ranked[i].class;
        const char *label = r->labels ? r->labels[c] : clef_vision_label(p->vision, c);
        if (r->json) {
            printf("%s{\"label\": ", i ? ", " : "");
            cli_json_string(stdout, label);
            printf(", \"score\": %.9g}", (double)r->ranked[i].p);
        } else {
            printf("%s%s%s\t%.6f\n", file ? file : "", file ? "\t" : "", label, (double)r->ranked[i].p);
        }
    }
    if (r->json)
        puts("]");
}

static int print_all(const cli_pictures *p, const cli_list *files, const float *rows, const float *texts,
                     result *r)
{
    float *logits = malloc((size_t)r->n * sizeof *logits);
    r->p = malloc((size_t)r->n * sizeof *r->p);
    r->ranked = malloc((size_t)r->n * sizeof *r->ranked);
    const int rc = logits && r->p && r->ranked ? CLI_OK : cli_fail(CLI_FAILED, "out of host memory");
    for (int32_t i = 0; i < p->n && rc == CLI_OK; i++) {
        const float *row = rows + (size_t)i * (size_t)p->info.width;
        if (texts)
            compare(p, row, texts, r->n, logits);
        cli_rank_classes(r->kind, texts ? logits : row, r->n, r->p, r->ranked);
        print_classes(p, r, files->n > 1 ? files->items[i] : NULL);
    }
    free(logits);
    free(r->p);
    free(r->ranked);
    return rc;
}

int cli_classify_pictures(const cli_classifier_options *o, const char *model, const cli_list *files,
                          const char *classes, const char *form)
{
    clef_error err = {0};
    cli_pictures p = {0};
    names s = {0};
    float *rows = NULL, *texts = NULL;
    const cli_picture_opts opts = {
        .place = {.device = o->device, .split = o->split, .n_threads = o->n_threads, .quiet = o->quiet},
        .compile = o->compile,
        .vision = {.kind = classes ? CLEF_VISION_VECTOR : CLEF_VISION_CLASSES,
                   .normalize = CLEF_NORMALIZE_YES},
    };
    int rc = classes ? split_names(&s, classes, form) : CLI_GO_ON;
    if (rc == CLI_GO_ON)
        rc = cli_pictures_open(&p, &opts, model, files);
    if (rc == CLI_GO_ON && classes && embed_names(&p, o, &s, &texts, &err) != CLEF_OK)
        rc = cli_report(&err);
    if (rc == CLI_GO_ON)
        rc = cli_pictures_run(&p, &rows);
    if (rc == CLI_GO_ON) {
        const clef_class_kind compared = p.info.sigmoid ? CLEF_CLASS_SIGMOID : CLEF_CLASS_SOFTMAX;
        result r = {.kind = classes ? compared : p.info.classes,
                    .labels = s.labels,
                    .n = classes ? s.n : p.info.width,
                    .json = o->json};
        rc = print_all(&p, files, rows, texts, &r);
    }
    free(rows);
    free(texts);
    finish_names(&s);
    cli_pictures_finish(&p);
    return rc;
}

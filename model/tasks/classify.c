/* A classifier: runs one text at a time through a model that computes classes, or tokens for masked
 * places. */
#include "clef/classify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"
#include "model/tasks/sequences.h"

enum { LABEL_BYTES = 96 };

struct clef_classifier {
    clef_model *model;
    clef_classifier_info info;
    clef_head head;
    clef_sequence_plan plan;
    char (*labels)[LABEL_BYTES]; /* [n_classes]; NULL of CLEF_HEAD_MASKED */
    float *logits;               /* [capacity, n_classes] */
    int32_t capacity;            /* rows of logits */
};

/* ---- the files' settings ---------------------------------------------------------------------- */

static clef_status read_kind(clef_classifier *c, clef_error *err)
{
    static const struct {
        const char *name;
        clef_class_kind kind;
    } kinds[] = {{"single_label_classification", CLEF_CLASS_SOFTMAX},
                 {"multi_label_classification", CLEF_CLASS_SIGMOID},
                 {"regression", CLEF_CLASS_REGRESSION}};
    clef_json_fields f = {.object = c->model->classifier, .file = "config.json", .err = err};
    const char *type = c->model->classifier ? clef__json_string(&f, "problem_type", NULL) : NULL;
    if (f.status != CLEF_OK)
        return f.status;
    c->info.kind = c->info.n_classes == 1 && !c->info.per_token ? CLEF_CLASS_SIGMOID : CLEF_CLASS_SOFTMAX;
    for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].name) == 0) {
            c->info.kind = kinds[i].kind;
            return CLEF_OK;
        }
    return type
               ? clef__fail(err, CLEF_E_UNSUPPORTED, "config.json: problem_type %.40s is not supported", type)
               : CLEF_OK;
}

/* id2label is an object whose keys are numbers as texts. */
static clef_status read_labels(clef_classifier *c, clef_error *err)
{
    const json_t *map = json_object_get(c->model->classifier, "id2label");
    c->labels = calloc((size_t)c->info.n_classes, sizeof *c->labels);
    if (!c->labels)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " labels", c->info.n_classes);
    for (int32_t i = 0; i < c->info.n_classes; i++) {
        char key[16];
        snprintf(key, sizeof key, "%" PRId32, i);
        const char *label = json_string_value(json_object_get(map, key));
        if (label)
            clef__config_text(label, c->labels[i], LABEL_BYTES);
        else
            snprintf(c->labels[i], LABEL_BYTES, "LABEL_%" PRId32, i);
    }
    return CLEF_OK;
}

static clef_status set_up(clef_classifier *c, clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(c->model);
    const clef_arch *arch = clef__arch_find(hp->arch, c->model->is_gguf);
    c->info.max_tokens = hp->n_context;
    if (arch->pictures)
        return clef__check_reads_texts(c->model, err);
    if (arch->kind == CLEF_SEQ2SEQ || (c->head == CLEF_HEAD_MASKED && arch->kind != CLEF_ENCODER))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s is not an encoder%s", clef_model_path(c->model),
                          hp->arch, c->head == CLEF_HEAD_MASKED ? ", and has no masked places to fill" : "");
    c->info.per_token = c->head == CLEF_HEAD_MASKED || clef__labels_tokens(c->model);
    c->plan.build.token_types = hp->n_token_types > 1;
    clef_status status = clef__sequence_plan_width(&c->plan, &c->info.n_classes, err);
    if (status == CLEF_OK && c->head == CLEF_HEAD_CLASSES)
        status = read_kind(c, err);
    if (status == CLEF_OK && c->head == CLEF_HEAD_CLASSES)
        status = read_labels(c, err);
    return status;
}

clef_status clef_classifier_create(clef_device *dev, clef_model *model, const clef_classifier_opts *opts,
                                   clef_classifier **out, clef_error *err)
{
    const clef_classifier_opts none = {.head = CLEF_HEAD_CLASSES}, *o = opts ? opts : &none;
    *out = NULL;
    clef_classifier *c = calloc(1, sizeof *c);
    if (!c)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a classifier");
    c->model = model;
    c->head = o->head;
    c->plan = (clef_sequence_plan){
        .dev = dev,
        .model = model,
        .build = {.classify = o->head == CLEF_HEAD_CLASSES, .all_logits = 1},
        .opts = {.compile = o->compile},
        .n_batch = 1,
    };
    const clef_status status = set_up(c, err);
    c->plan.max_tokens = c->info.max_tokens;
    if (status == CLEF_OK)
        *out = c;
    else
        clef_classifier_destroy(c);
    return status;
}

void clef_classifier_destroy(clef_classifier *c)
{
    if (!c)
        return;
    clef__sequence_plan_finish(&c->plan);
    free(c->labels);
    free(c->logits);
    free(c);
}

clef_classifier_info clef_classifier_describe(const clef_classifier *c)
{
    return c->info;
}

const char *clef_classifier_label(const clef_classifier *c, int32_t i)
{
    return c->labels && i >= 0 && i < c->info.n_classes ? c->labels[i] : NULL;
}

/* ---- a text ---------------------------------------------------------------------------------- */

/* Makes room for n rows of logits. */
static clef_status make_room(clef_classifier *c, int32_t n, clef_error *err)
{
    if (n <= c->capacity)
        return CLEF_OK;
    free(c->logits);
    c->capacity = 0;
    c->logits = malloc((size_t)n * (size_t)c->info.n_classes * sizeof *c->logits);
    if (!c->logits)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " tokens of %" PRId32 " classes", n,
                          c->info.n_classes);
    c->capacity = n;
    return CLEF_OK;
}

clef_status clef_classify(clef_classifier *c, const int32_t *ids, const int32_t *types, int32_t n,
                          const float **logits, clef_error *err)
{
    const clef__sequences s = {.ids = &ids, .types = types ? &types : NULL, .n_ids = &n, .n = 1};
    const int32_t n_rows = c->info.per_token && n > 1 && n <= c->info.max_tokens ? n : 1;
    *logits = NULL;
    clef_status status = make_room(c, n_rows, err);
    if (status == CLEF_OK)
        status = clef__sequences_run(&c->plan, &s, "logits", (size_t)n_rows * (size_t)c->info.n_classes,
                                     c->logits, err);
    if (status == CLEF_OK)
        *logits = c->logits;
    return status;
}

void clef_class_probabilities(clef_class_kind kind, const float *logits, int32_t n, float *probabilities)
{
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++)
        most = (double)logits[i] > most ? (double)logits[i]
                                        : most; /* gcc 12 crashes on fmax here (arm64, -O3) */
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    for (int32_t i = 0; i < n; i++) {
        const double x = (double)logits[i];
        probabilities[i] = (float)(kind == CLEF_CLASS_SOFTMAX   ? exp(x - most) / sum
                                   : kind == CLEF_CLASS_SIGMOID ? 1 / (1 + exp(-x))
                                                                : x);
    }
}

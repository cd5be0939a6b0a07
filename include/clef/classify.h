/* What a model says of a text and its tokens: classes, and words for masked places. */
#ifndef CLEF_CLASSIFY_H
#define CLEF_CLASSIFY_H

#include <stdint.h>

#include "clef/model.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_head {
    CLEF_HEAD_CLASSES, /* the classifier that the file has: ...ForSequenceClassification, ...ForTokenClassification */
    CLEF_HEAD_MASKED   /* an encoder's masked language model: at every place, what token stands there */
} clef_head;

typedef struct clef_classifier_opts {
    clef_head         head;
    clef_compile_opts compile;
} clef_classifier_opts;

/** How logits become probabilities: of one class of all, of each class by itself, not at all. */
typedef enum clef_class_kind { CLEF_CLASS_SOFTMAX, CLEF_CLASS_SIGMOID, CLEF_CLASS_REGRESSION } clef_class_kind;

typedef struct clef_classifier_info {
    int32_t         n_classes;  /* labels, or the vocabulary */
    int32_t         per_token;  /* 1: a row of numbers for each token; 0: one for the text */
    int32_t         max_tokens; /* of a text, special tokens counted */
    clef_class_kind kind;       /* by config.json's problem_type; else sigmoid of a single class, softmax of more */
} clef_classifier_info;

typedef struct clef_classifier clef_classifier;

/** dev and model are borrowed and must outlive it. CLEF_E_UNSUPPORTED (an encoder-decoder; CLEF_HEAD_MASKED of a decoder),
 *  CLEF_E_NOT_FOUND (the file has no such head: the weight is named), CLEF_E_FORMAT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_classifier_create(clef_device *dev, clef_model *model, const clef_classifier_opts *opts, clef_classifier **out,
                                            clef_error *err);
CLEF_API void        clef_classifier_destroy(clef_classifier *classifier);
CLEF_API clef_classifier_info clef_classifier_describe(const clef_classifier *classifier);

/** The name of class i by config.json's id2label, "LABEL_i" where it has none; borrowed from the classifier. NULL outside the classes, and
 *  of CLEF_HEAD_MASKED. */
CLEF_API const char *clef_classifier_label(const clef_classifier *classifier, int32_t i);

/** Runs n ids, special tokens and all; types: NULL (all 0), or the token types [n], which models without them pass over. Then *logits is
 *  [n or 1, n_classes] f32, owned by the classifier and overwritten by the next call. The first call, and one with more tokens than before,
 *  makes a plan. CLEF_E_ARG (an id outside the vocabulary, no ids), CLEF_E_LIMIT (beyond max_tokens), statuses of clef_model_build() and
 *  clef_plan_create(), CLEF_E_CL. */
CLEF_API clef_status clef_classify(clef_classifier *classifier, const int32_t *ids, const int32_t *types, int32_t n, const float **logits,
                                   clef_error *err);

/** probabilities [n] of logits [n]; CLEF_CLASS_REGRESSION: the logits as they are. Computed in double; they may be the same array. */
CLEF_API void clef_class_probabilities(clef_class_kind kind, const float *logits, int32_t n, float *probabilities);

#ifdef __cplusplus
}
#endif
#endif

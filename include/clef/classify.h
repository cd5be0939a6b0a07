/* Classification of texts and tokens, and prediction of masked tokens. */
#ifndef CLEF_CLASSIFY_H
#define CLEF_CLASSIFY_H

#include <stdint.h>

#include "clef/model.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_head {
    CLEF_HEAD_CLASSES, /* the file's classifier: ...ForSequenceClassification, ...ForTokenClassification */
    CLEF_HEAD_MASKED   /* an encoder's masked language model: predicts the token at each position */
} clef_head;

typedef struct clef_classifier_opts {
    clef_head         head;
    clef_compile_opts compile;
} clef_classifier_opts;

/** How logits become probabilities: over all classes, per class, or not at all. */
typedef enum clef_class_kind {
    CLEF_CLASS_SOFTMAX,
    CLEF_CLASS_SIGMOID,
    CLEF_CLASS_REGRESSION
} clef_class_kind;

typedef struct clef_classifier_info {
    int32_t         n_classes;  /* labels, or the vocabulary */
    int32_t         per_token;  /* 1: a row of numbers for each token; 0: one for the text */
    int32_t         max_tokens; /* of a text, with special tokens */
    clef_class_kind kind;       /* from config.json's problem_type; else sigmoid for one class, softmax for
                                   more */
} clef_classifier_info;

typedef struct clef_classifier clef_classifier;

/** Makes a classifier. dev and model are borrowed and must outlive it. CLEF_E_UNSUPPORTED (an
 *  encoder-decoder; CLEF_HEAD_MASKED of a decoder), CLEF_E_NOT_FOUND (the file has no such head; the error
 *  names the weight), CLEF_E_FORMAT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_classifier_create(clef_device *dev, clef_model *model,
                                            const clef_classifier_opts *opts, clef_classifier **out,
                                            clef_error *err);
CLEF_API void        clef_classifier_destroy(clef_classifier *classifier);
CLEF_API clef_classifier_info clef_classifier_describe(const clef_classifier *classifier);

/** The name of class i from config.json's id2label, or "LABEL_i"; borrowed from the classifier. NULL for
 *  other i, and for CLEF_HEAD_MASKED. */
CLEF_API const char *clef_classifier_label(const clef_classifier *classifier, int32_t i);

/** Runs n ids, with their special tokens. types: NULL (all 0), or the token types [n]; models without token
 *  types ignore them. *logits is then [n or 1, n_classes] f32; it belongs to the classifier and is
 *  overwritten by the next call. The first call, and a call with more tokens than before, makes a plan.
 *  CLEF_E_ARG (an id outside the vocabulary, no ids), CLEF_E_LIMIT (beyond max_tokens), statuses of
 *  clef_model_build() and clef_plan_create(), CLEF_E_CL. */
CLEF_API clef_status clef_classify(clef_classifier *classifier, const int32_t *ids, const int32_t *types,
                                   int32_t n, const float **logits, clef_error *err);

/** Computes probabilities [n] from logits [n], in double. CLEF_CLASS_REGRESSION copies the logits. Both may
 *  be the same array. */
CLEF_API void clef_class_probabilities(clef_class_kind kind, const float *logits, int32_t n,
                                       float *probabilities);

#ifdef __cplusplus
}
#endif
#endif

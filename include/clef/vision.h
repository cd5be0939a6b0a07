/* Models that read pictures: vectors, classes and hidden states of pixels. clef/picture.h makes pixels of
 * files. */
#ifndef CLEF_VISION_H
#define CLEF_VISION_H

#include <stdint.h>

#include "clef/classify.h"
#include "clef/embed.h"
#include "clef/model.h"
#include "clef/picture.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a picture becomes. */
typedef enum clef_vision_kind {
    CLEF_VISION_VECTOR,  /* one vector: the class token or the model's own pooling, projected where the model
                            has texts, too; or with opts.mean the mean of the patches */
    CLEF_VISION_CLASSES, /* logits of the classes of ...ForImageClassification */
    CLEF_VISION_HIDDEN   /* the rows of the last layer: special tokens first, then the patches row by row */
} clef_vision_kind;

typedef struct clef_vision_opts {
    clef_vision_kind  kind;
    int32_t           mean;      /* VECTOR: 1: the mean of the patches */
    clef_normalize    normalize; /* VECTOR: CLEF_NORMALIZE_YES: of length 1; else as the model gives them */
    int32_t           n_batch;   /* most pictures of a run; 0: 8 */
    clef_compile_opts compile;
} clef_vision_opts;

typedef struct clef_vision_info {
    int32_t         width;     /* numbers in a row: dimensions, or classes */
    clef_class_kind classes;   /* CLASSES: how logits become probabilities */
    int32_t         has_texts; /* 1: the same folder has a model of texts whose vectors can be compared */
    /* has_texts: the logit of a picture and a text is scale cos + bias. sigmoid 1: each text for itself
     * (SigLIP); 0: softmax over all texts (CLIP) */
    float           scale, bias;
    int32_t         sigmoid;
    int32_t         image_height, image_width, patch_size; /* what the model was trained with */
} clef_vision_info;

typedef struct clef_vision clef_vision;

/** dev and model are borrowed and must outlive it. CLEF_E_UNSUPPORTED (a model that does not read pictures),
 *  CLEF_E_NOT_FOUND (no classes; a weight), CLEF_E_FORMAT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_vision_create(clef_device *dev, clef_model *model, const clef_vision_opts *opts,
                                        clef_vision **out, clef_error *err);
CLEF_API void        clef_vision_destroy(clef_vision *vision);
CLEF_API clef_vision_info clef_vision_describe(const clef_vision *vision);
/** The name of class i, as of clef_classifier_label(). */
CLEF_API const char *clef_vision_label(const clef_vision *vision, int32_t i);
/** The rows that a picture of that size becomes with CLEF_VISION_HIDDEN; 1 with the other kinds. */
CLEF_API int32_t clef_vision_rows(const clef_vision *vision, int32_t height, int32_t width);

/** Runs n pictures: out [rows of all, width] f32, in their order. Pictures of equal size that follow each
 *  other run in one batch. A size that differs from the last one makes a plan. Sizes need not be those of the
 *  training: position embeddings are stretched. CLEF_E_LIMIT, CLEF_E_NOT_FINITE, statuses of
 *  clef_model_build() and clef_plan_create(), CLEF_E_CANCELLED, CLEF_E_CL. */
CLEF_API clef_status clef_vision_run(clef_vision *vision, const clef_pixels *pictures, int32_t n, float *out,
                                     clef_error *err);

#ifdef __cplusplus
}
#endif
#endif

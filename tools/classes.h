/* `clef classify --image`: the classes of pictures. */
#ifndef CLEF_TOOLS_CLASSES_H
#define CLEF_TOOLS_CLASSES_H

#include "tools/classifier.h"
#include "tools/picture.h"

/** classes: NULL, or texts with commas between, with which pictures are compared; `form`: NULL, or what is
 *  made of each, with its text for "{}". Prints and returns an exit code. */
int cli_classify_pictures(const cli_classifier_options *o, const char *model, const cli_list *files,
                          const char *classes, const char *form);

/** One class and its probability. */
typedef struct cli_ranked {
    float   p;
    int32_t class;
} cli_ranked;
/** Computes probabilities of logits [n] into p [n], and sorts them, the likeliest first, into out [n]. */
void cli_rank_classes(clef_class_kind kind, const float *logits, int32_t n, float *p, cli_ranked *out);

#endif

/* Values that trainers put in the place of a model's tensors (clef_model_trainer_publish()). The tensors are
 * numbered: those of the files first, then the joined ones. */
#ifndef CLEF_PUBLISHED_H
#define CLEF_PUBLISHED_H

#include "model/open/model.h"

/** Who publishes; a part of a trainer, all zero at first. */
typedef struct clef__publisher {
    /* By tensor, its data when the publisher began: it stays readable, and as it is, until the publisher
     * ends. NULL (of a joined tensor): the data that clef__joined_data() makes. */
    const void **begin;
    struct clef__publisher *next; /* of the model's open publishers */
} clef__publisher;

size_t            clef__n_all_tensors(const clef_model *model);
clef_tensor_info *clef__tensor_at(const clef_model *model, size_t i);

/** Notes the present data of all tensors. CLEF_E_NOMEM. */
clef_status clef__publisher_begin(clef_model *model, clef__publisher *p, clef_error *err);
/** If p published last, the model has the data of its files again. Accepts a publisher that has not begun. */
void        clef__publisher_end(clef_model *model, clef__publisher *p);
/** Makes p the one whose values the model has: each tensor has the data with which p began. */
clef_status clef__publisher_enter(clef_model *model, clef__publisher *p, clef_error *err);
/** The memory of p for the values of tensor i, which becomes the tensor's data. It belongs to the model,
 *  lives as long, and may be another publisher's later. NULL: no memory. */
void       *clef__publisher_room(clef_model *model, clef__publisher *p, size_t i);
/** Frees the memory of all published values. */
void        clef__published_finish(clef_model *model);

#endif

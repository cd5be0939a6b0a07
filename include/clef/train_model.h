/* Training of language models: a model's graph with its loss, batches of token ids, adapters, checkpoints.
 * How documents become batches: clef/dataset.h. How any graph is trained: clef/train.h. */
#ifndef CLEF_TRAIN_MODEL_H
#define CLEF_TRAIN_MODEL_H

#include "clef/dataset.h"
#include "clef/train.h"
#include "clef/train_files.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_model_train_opts {
    /* weights and trains are set by the trainer. On several ranks (optimizer.ranks) the numbers below are
     * those of all ranks together: a step has the same rows, order and dropout as on one */
    clef_train_opts optimizer;
    int32_t  n_tokens;         /* of a row; 0: the model's context, at most 1024 */
    int32_t  n_rows;           /* rows of a part; 0: 8 */
    /* parts of a step; 0: 1. Their gradients are those of n_parts n_rows rows. Ranks divide the parts as far
     * as they divide, and then the rows of each */
    int32_t  n_parts;
    float    dropout;
    uint64_t seed;             /* of dropout and of the start of an adapter */
    int32_t  lora_rank;        /* 0: all weights are trained. Else an adapter of this rank, and no weight */
    float    lora_alpha;       /* the adapter is scaled by alpha / rank; 0: by 1 */
    /* NULL: all projections of the layers; else parts of the weights' names, with commas: "q_proj,v_proj" */
    const char *lora_targets;
} clef_model_train_opts;

typedef struct clef_model_trainer clef_model_trainer;

/** Makes a trainer. dev and model are borrowed and must outlive it. Errors as of clef_model_build() and
 *  clef_trainer_create(); CLEF_E_ARG: no weight is a target of the adapter, or the rows do not divide among
 *  the ranks (the text names numbers that do); CLEF_E_LIMIT: it needs more memory than the device has. */
CLEF_API clef_status clef_model_trainer_create(clef_device *dev, clef_model *model,
                                               const clef_model_train_opts *opts,
                                               clef_model_trainer **out, clef_error *err);
CLEF_API void        clef_model_trainer_destroy(clef_model_trainer *t); /* accepts NULL */
/** Tokens of a row, and rows of a step, as they were settled. */
CLEF_API int32_t clef_model_trainer_n_tokens(const clef_model_trainer *t);
CLEF_API int32_t clef_model_trainer_n_rows(const clef_model_trainer *t);
/** Rows that all ranks together compute at once: what clef_model_trainer_evaluate() takes at most. */
CLEF_API int32_t clef_model_trainer_n_at_once(const clef_model_trainer *t);
/** Names the data, as clef_dataset_describe().fingerprint does, so that a checkpoint is not resumed with
 *  other data. */
CLEF_API void    clef_model_trainer_set_data(clef_model_trainer *t, const char *fingerprint);
/** The trainer of the graph: its parameters, statistics and plan. Borrowed. */
CLEF_API clef_trainer *clef_model_trainer_graph(clef_model_trainer *t);

/** One step on rows as clef_dataset_read() gives them: any number up to n_rows of the options, times n_parts.
 *  Of the rows' arrays, those that the model has no input for may be NULL; positions NULL: 0, 1, 2 ..; first
 *  NULL: 0; attention_mask NULL: no padding. n_labels and n_tokens are not read. The rows of a target have
 *  the length of a source's. The loss is the mean over all labels that count. All ranks call it with the same
 *  rows, those of the whole step; each computes its share of them. CLEF_E_ARG: no label counts, or an id is
 *  outside the vocabulary. */
CLEF_API clef_status clef_model_trainer_step(clef_model_trainer *t, const clef_rows *rows, int32_t n_rows,
                                             clef_train_result *out, clef_error *err);
/** Adds up the losses of rows, at most clef_model_trainer_n_at_once(), without dropout or gradients, and
 *  counts the labels. All ranks call it with the same rows; each computes a share, and gets the sum. */
CLEF_API clef_status clef_model_trainer_evaluate(clef_model_trainer *t, const clef_rows *rows,
                                                 int32_t n_rows, double *sum, int64_t *n_labels,
                                                 clef_error *err);

/** Copies the present weights (with an adapter: merged) into the open model, rounded to its dtypes. Sessions
 *  that are made afterwards use them; earlier ones are to be made anew. Of several trainers of a model the
 *  one that published last counts; when it is destroyed, the model has the weights of its files again. A
 *  trainer begins with the weights that the model has when it is made, and its adapter is merged into these.
 *  The memory for the copies is the model's: it is used again, and freed with the model. */
CLEF_API clef_status clef_model_trainer_publish(clef_model_trainer *t, clef_error *err);

/** Writes the trained model (clef_model_save()), or the adapter (clef_lora_save()). */
CLEF_API clef_status clef_model_trainer_save(clef_model_trainer *t, const char *path,
                                             const clef_save_opts *opts, clef_error *err);

/** Returns what clef_model_trainer_save() would refuse whatever the weights will be, and writes nothing. To
 *  be called before a long training. Errors as there. */
CLEF_API clef_status clef_model_trainer_check_save(clef_model_trainer *t, const char *path,
                                                   const clef_save_opts *opts, clef_error *err);

/** Writes folder/ckpt-STEP.clef with all that is needed to go on: parameters, moments, step, loss scale.
 *  Earlier checkpoints are removed but for the newest keep - 1 (0: 2 in all). All ranks call this: rank 0
 *  writes the file, which any number of ranks can go on from, and all get the same status. */
CLEF_API clef_status clef_model_trainer_checkpoint(clef_model_trainer *t, const char *folder, int32_t keep,
                                                   clef_error *err);
/** Goes on from the newest good checkpoint in the folder. A damaged one is passed over, and `note` is called
 *  with a line that says so. CLEF_E_NOT_FOUND: there is none. CLEF_E_ARG: it is of another model, or of
 *  options under which training would not go on as it began (rows, tokens, parts, dropout, seed, optimiser,
 *  what products are rounded to, adapter). */
CLEF_API clef_status clef_model_trainer_resume(clef_model_trainer *t, const char *folder,
                                               void (*note)(void *user, const char *text), void *user,
                                               clef_error *err);

#ifdef __cplusplus
}
#endif
#endif

/* The parts of `clef train`. */
#ifndef CLEF_TOOLS_TRAIN_H
#define CLEF_TOOLS_TRAIN_H

#include <stdio.h>

#include "clef/clef.h"
#include "tools/cli/common.h"
#include "tools/cli/progress.h"

/* --validation was not given. */
#define TRAIN_VALIDATION_DEFAULT (-1.0f)

typedef struct train_options {
    const char *device, *out, *new_config, *tokenizer, *log, *prompt, *separator, *lora_targets;
    cli_list    data, validation_files;
    float       validation, epochs, mask_rate, dropout;
    float       rate, final_rate, beta1, beta2, eps, decay, clip, loss_scale, lora_alpha;
    int32_t     objective, documents, packing, n_tokens, n_rows, n_parts, n_steps;
    int32_t     n_warmup, schedule, optimizer, compute, lora_rank, recompute, dtype;
    int32_t     eval_every, eval_rows, sample_every, sample_tokens, checkpoint_every, keep;
    int32_t     resume, dry_run, quiet, dp;
    cli_seed    seed;
    clef_compile_opts compile;
} train_options;

/** "auto", and then what clef_objective lists. */
extern const char *const train_objective_names[];

/** All that a run holds. train_close() accepts it in any state. */
typedef struct train_run {
    const train_options *o;
    clef_ranks          *ranks; /* NULL: one process */
    int32_t              rank;  /* 0 prints and writes files, and the others do not */
    int32_t              stopped; /* on all ranks alike: Ctrl-C */
    clef_model          *model;
    clef_device         *device;
    clef_dataset        *data;
    clef_model_trainer  *trainer;
    clef_rows            rows; /* room for the rows of a step */
    cli_progress         progress;
    FILE                *log;
    char                *work;  /* the folder of checkpoints and of the log, OUT.train */
    int64_t              n_steps;
    int32_t              step_rows; /* rows of a step */
    double               start;     /* seconds, of this process */
    int64_t              first_step, n_tokens; /* the step it began with, and tokens since then */
} train_run;

/** Opens model, data and trainer. On several ranks r->ranks and r->rank are set before. CLI_GO_ON, or an exit
 *  code after a message. */
int  train_open(train_run *r, const train_options *o, const char *model);
void train_close(train_run *r);
/** Prints parameters, memory, data, steps and, after a few steps, the time that all will take. An exit
 *  code. */
int  train_dry_run(train_run *r);
/** Trains to the end or to Ctrl-C, and saves. An exit code. */
int  train_loop(train_run *r);

/* ---- the log: one JSON object a line; of rank 0 --------------------------------------------------- */

/** Opens the log: a new one, or, when resuming, the one that is there, at its end. CLI_GO_ON, or an exit
 *  code. */
int  train_log_open(train_run *r);
void train_log_start(train_run *r);
void train_log_step(train_run *r, const clef_train_result *result, double tokens_per_second);
/** A step whose gradients were not finite at its loss scale, and which is made again. */
void train_log_overflow(train_run *r, const clef_train_result *result);
void train_log_evaluation(train_run *r, int64_t step, double loss, int64_t n_labels);
void train_log_sample(train_run *r, int64_t step, const char *text);
void train_log_end(train_run *r, int64_t step, const char *reason);

/* ---- on the way ---------------------------------------------------------------------------------- */

#endif

/* The memory that a model needs: what the files of `clef plan` share. */
#ifndef CLEF_TOOLS_MEMORY_PLAN_H
#define CLEF_TOOLS_MEMORY_PLAN_H

#include "clef/batch.h"
#include "tools/cli/common.h"

enum { MEMORY_MAX_PARTS = 32 }; /* plans times devices */

/** One plan of the model: its steps, or an encoder-decoder's encoder. */
typedef struct memory_part {
    char              name[160]; /* with the device, if there are several */
    const clef_plan  *plan; /* borrowed */
    clef_plan_stats   stats;
    clef_plan_tensor *tensors; /* the arena's */
    int32_t           n_tensors, n_values;
    uint64_t          live_peak;  /* most bytes that are in use at once */
    int32_t           peak_at;    /* the value at which that happens */
} memory_part;

typedef struct memory_plan {
    const char        *title;
    clef_device       *device;
    int32_t            has_experts_apart; /* 1: on the second device (--experts-on) */
    int32_t            n_context;
    const char        *kv_type;
    memory_part        parts[MEMORY_MAX_PARTS];
    int32_t            n_parts;
    int32_t            n_sequences; /* of a batch; 0: the plan is that of one sequence */
    clef_batch_stats   pool;        /* of the batch */
    const char        *limit;       /* what the size of its pool comes from */
} memory_plan;

/* The forms of the result; `m` is a memory_plan. */
clef_status cli_memory_text(void *m, FILE *to, clef_error *err);
clef_status cli_memory_json(void *m, FILE *to, clef_error *err);
clef_status cli_memory_svg(void *m, FILE *to, clef_error *err);
clef_status cli_memory_html(void *m, FILE *to, clef_error *err);

#endif

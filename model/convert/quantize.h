/* What the parts of clef_model_quantize() share: the list of tensors in the new file (quantize_plan.c),
 * its keys (quantize_keys.c, quantize_tokenizer.c), and the coding (quantize.c). */
#ifndef CLEF_MODEL_QUANTIZE_H
#define CLEF_MODEL_QUANTIZE_H

#include "clef/train_files.h"
#include "model/open/arch.h"
#include "model/file/gguf_write.h"
#include "model/open/lora.h"
#include "model/open/model.h"

/** A type that a file can be quantised to. */
typedef struct clef__quantize_type {
    const char *name;
    clef_dtype  dtype;     /* of the matrices; CLEF_N_DTYPES: they keep their dtypes */
    uint32_t    file_type; /* general.file_type: llama.cpp's enum llama_ftype */
    int32_t     is_mix;    /* some matrices get more bits */
} clef__quantize_type;

/** The order in which the new tensor has the rows of the old one. */
typedef enum clef__row_order {
    CLEF_ROWS_SAME,
    CLEF_ROWS_PAIRED,     /* rows 0, D/2, 1, D/2 + 1, ... of each head: the two rows that RoPE rotates
                             together become neighbours */
    CLEF_ROWS_UNGROUPED,  /* the old tensor has groups of some heads of q with their k and their v; the new
                             one has all rows of q, then all of k, then all of v */
    CLEF_ROWS_FROM,       /* row `first` and all later rows */
    CLEF_ROWS_MAPPED,     /* by the family's map */
    CLEF_COLUMNS_MAPPED,
    CLEF_ROWS_TRANSPOSED  /* the columns of the old tensor */
} clef__row_order;

/** Most adapters that are merged at once. */
enum { CLEF_QUANTIZE_LORAS = 8 };

/** One tensor of the new file. */
typedef struct clef__quantize_item {
    clef_tensor_info        to; /* name, dtype, dims, size; name is `name` or borrowed from the model */
    const clef_tensor_info *from;
    const struct clef__packed *packed; /* NULL, or the quantised matrix (of expert 0) that is `from` */
    const clef_model       *stack;    /* with experts: the model, which has the others' */
    int32_t                 is_apart; /* 1: a factor or an order is beside the blocks of `from` */
    const void             *data;     /* of `from`; set when the tensor is coded */
    clef__row_order         order;
    int32_t                 head_dim; /* PAIRED, UNGROUPED */
    int32_t                 n_heads, n_kv_heads; /* UNGROUPED */
    int32_t                 first;    /* FROM */
    const clef_row_map     *map;      /* MAPPED */
    const clef_hparams     *hp;       /* MAPPED */
    float                   shift;    /* added to every element */
    const clef_arch        *scaled_by; /* NULL, or its hf_scale multiplies every row */
    clef_role               role;     /* with scaled_by: of the tensor; whether it is its bias */
    int32_t                 is_bias;
    const clef_lora_target_info *loras[CLEF_QUANTIZE_LORAS]; /* what adapters add to `from` */
    int32_t                 n_loras;
    float                  *importance; /* NULL, or [matrices, columns]; owned by the plan */
    char                    name[CLEF_WEIGHT_NAME_BYTES];
} clef__quantize_item;

typedef struct clef__quantize_plan {
    clef__quantize_item *items;
    size_t               n_items, capacity;
    float               *rope; /* data of items: Llama 3's divisors [head_dim / 2] or longrope's, or NULL */
    clef_tensor_info     rope_tensors[2];
} clef__quantize_plan;

/** A key that marks files with trained weights: true. */
#define CLEF_TRAINED_KEY "libclef.trained"
/** clef_model_quantize() with trained weights instead of the model's own. values: NULL for none. Values are
 *  those of the model's tensors, in its order. Also CLEF_E_LIMIT (a number that the type cannot hold). */
clef_status clef__quantize_values(const clef_model *model, const char *path, const clef_quantize_opts *opts,
                                  const clef_weight_values *values, clef_error *err);

/** Returns what clef_model_quantize() refuses of the model and the type, and writes nothing. */
clef_status clef__quantize_check(const clef_model *model, const char *type, clef_error *err);

/** Lists the tensors of the new file. CLEF_E_NOT_FOUND, CLEF_E_SHAPE, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
clef_status clef__quantize_plan_init(const clef_model *model, const clef__quantize_type *type,
                                     clef__quantize_plan *out, clef_error *err);
void        clef__quantize_plan_finish(clef__quantize_plan *plan);
/** What opts says of single matrices (quantize_choices.c): types by its rules, and importance. Statuses of
 *  clef_model_quantize(). */
clef_status clef__quantize_choose(const clef_model *model, const clef_quantize_opts *opts,
                                  clef__quantize_plan *plan, clef_error *err);
/** 1 for matrices; 0 for what is f32 whatever the type. */
int clef__quantize_has_type(const clef__quantize_item *item);
/** The type with that name, in upper or lower case; NULL if there is none. */
const clef__quantize_type *clef__quantize_find_type(const char *name);
/** The dtype of that name, in upper or lower case, that files have and clef encodes; else CLEF_N_DTYPES. */
clef_dtype clef__quantize_find_dtype(const char *name);
/** The dtype, or the next larger one whose blocks rows of n fill. */
clef_dtype clef__quantize_fitting(clef_dtype dtype, int64_t n);

/** Writes general.*, the architecture's and the tokenizer's keys. Clef's own keys are written only where a
 *  reader would not come to the same from the others and from the plan's tensors. */
clef_status clef__quantize_keys(const clef_model *model, const clef__quantize_type *type,
                                const clef__quantize_plan *plan, const clef_quantize_opts *opts,
                                clef_gguf_writer *w, clef_error *err);
/** Writes the keys of a folder's tokenizer, if it has one and opts asks for it.
 *  CLEF_E_UNSUPPORTED: a tokenizer that no key can hold. */
clef_status clef__quantize_tokenizer(const clef_model *model, const clef_quantize_opts *opts,
                                     clef_gguf_writer *w, clef_error *err);
/** 1 if the file's positions begin at 0 and the rows before the first position are left out, as llama.cpp
 *  does for RoBERTa. */
int clef__quantize_cuts_positions(const clef_arch *arch, const clef_hparams *hp);
/** Sets how GGUF orders the rows of a role's matrix: SAME, PAIRED, UNGROUPED or MAPPED, with what that order
 *  needs. */
void clef__quantize_set_rows(const clef_model *model, const clef_arch *arch, clef_role role,
                             clef__quantize_item *item);
/** The row of the old tensor for row `row` of the new one; `item` gives the order. */
size_t clef__quantize_source_row(const clef__quantize_item *item, size_t row);
/** GGUF's name for a folder's architecture. */
const char *clef__quantize_arch(const clef_hparams *hp);

#endif

/* What the parts of clef_model_quantize() share: which tensors the new file has (quantize_plan.c), its keys (quantize_keys.c), and the
 * coding (quantize.c). */
#ifndef CLEF_MODEL_QUANTIZE_H
#define CLEF_MODEL_QUANTIZE_H

#include "model/open/arch.h"
#include "model/file/gguf_write.h"
#include "model/open/model.h"

/** How matrices are coded. */
typedef struct clef_quantize_type_def {
    const char *name;
    clef_dtype  dtype;     /* CLEF_N_DTYPES: matrices keep theirs */
    uint32_t    file_type; /* general.file_type: llama.cpp's enum llama_ftype */
    int32_t     is_mix;    /* some matrices get more bits */
} clef_quantize_type_def;

/** Where a row of the new tensor comes from. */
typedef enum clef_row_order {
    CLEF_ROWS_SAME,
    CLEF_ROWS_PAIRED,     /* of each head's rows 0 .. D-1: 0, D/2, 1, D/2 + 1, ...: RoPE's partners beside each other */
    CLEF_ROWS_UNGROUPED,  /* all rows of q, then of k, of v, of groups that have the heads of q, their k and their v together */
    CLEF_ROWS_BEHIND,     /* from row `first` on */
    CLEF_ROWS_TRANSPOSED  /* the columns */
} clef_row_order;

typedef struct clef_quantize_item {
    clef_tensor_info        to; /* name, dtype, dims, size; name is `name` or borrowed from the model */
    const clef_tensor_info *from;
    const void             *data;     /* of `from`; set when it is coded */
    clef_row_order          order;
    int32_t                 head_dim; /* PAIRED, UNGROUPED */
    int32_t                 n_heads, n_kv_heads; /* UNGROUPED */
    int32_t                 first;    /* BEHIND */
    float                   shift;    /* added to every element */
    char                    name[64];
} clef_quantize_item;

/** The tensors of the new file; the caller frees *items. `rope` is set to llama 3's divisors [head_dim / 2], or longrope's, items too, or
 *  to NULL; the caller frees it with the items. CLEF_E_NOT_FOUND, CLEF_E_SHAPE, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
typedef struct clef_quantize_plan {
    clef_quantize_item *items;
    size_t              n_items, capacity;
    float              *rope;
    clef_tensor_info    rope_tensors[2];
} clef_quantize_plan;
clef_status clef__quantize_plan(const clef_model *model, const clef_quantize_type_def *type, clef_quantize_plan *out, clef_error *err);
void        clef__quantize_plan_finish(clef_quantize_plan *plan);

/** general.*, the architecture's and the tokenizer's keys. */
clef_status clef__quantize_keys(const clef_model *model, const clef_quantize_type_def *type, const clef_quantize_opts *opts,
                                clef_gguf_writer *w, clef_error *err);
/** The tokenizer's keys of a folder, unless it has none or opts says so. CLEF_E_UNSUPPORTED for one that no key can hold. */
clef_status clef__quantize_tokenizer(const clef_model *model, const clef_quantize_opts *opts, clef_gguf_writer *w, clef_error *err);
/** 1 when the file begins its positions at the first, and leaves the rows before it away (llama.cpp's RoBERTa is a bert). */
int clef__quantize_cuts_positions(const clef_arch *arch, const clef_hparams *hp);
/** The name in GGUF of a folder's architecture. */
const char *clef__quantize_arch(const clef_hparams *hp);

#endif

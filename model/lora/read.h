/* What the readers of adapter files share: the pairs of matrices in a file, and their places in a model. */
#ifndef CLEF_MODEL_LORA_READ_H
#define CLEF_MODEL_LORA_READ_H

#include "clef/lora.h"
#include "model/convert/quantize.h"
#include "model/file/gguf.h"
#include "model/file/json.h"
#include "model/file/safetensors.h"

/** A and B of one module, as the file has them. */
typedef struct clef__lora_pair {
    const char *module; /* not ended by NUL: "model.layers.0.self_attn.q_proj", "blk.0.attn_q" */
    int32_t n_module;
    const clef_tensor_info *a, *b; /* [r, in] and [out, r] */
} clef__lora_pair;

/** An open adapter file. */
typedef struct clef__lora_file {
    const char *path; /* borrowed */
    int32_t is_gguf;
    clef_gguf gguf;
    clef_safetensors st;
    json_t *config; /* adapter_config.json */
    char *config_path;
    double alpha; /* GGUF */
    clef__lora_pair *pairs;
    int32_t n_pairs;
} clef__lora_file;

/** Opens a PEFT folder or a GGUF file, refuses what is not supported, and lists the pairs, each with both
 *  halves. `out` is to be closed after a failure too. */
clef_status clef__lora_read_peft(const clef_model *model, clef__lora_file *out, clef_error *err);
clef_status clef__lora_read_gguf(const clef_model *model, clef__lora_file *out, clef_error *err);
void clef__lora_file_close(clef__lora_file *file);

/** Finds the pairs of n tensors. `split` finds the module and the half (0: A, 1: B) in a tensor's name, or
 *  fails and says why the tensor is not supported. */
typedef clef_status clef__lora_split(const clef__lora_file *file, const clef_tensor_info *t,
                                     const char **module, int32_t *n_module, int *half, clef_error *err);
clef_status clef__lora_pair_up(clef__lora_file *file, const clef_tensor_info *tensors, size_t n,
                               clef__lora_split *split, clef_error *err);

/** What the product with A and B is multiplied by, without the user's scale. */
clef_status clef__lora_peft_scale(const clef__lora_file *file, const clef__lora_pair *pair, double *out,
                                  clef_error *err);
double clef__lora_gguf_scale(const clef__lora_file *file, const clef__lora_pair *pair);

/** Where a pair belongs. */
typedef struct clef__lora_place {
    const clef_tensor_info *weight; /* of the model */
    int32_t n_in, n_out;
    clef__quantize_item rows; /* how GGUF orders the rows, if one of file and model is GGUF; else SAME */
} clef__lora_place;
/** CLEF_E_NOT_FOUND when the model has no such weight. */
clef_status clef__lora_find_place(const clef_model *model, const clef__lora_file *file,
                                  const clef__lora_pair *pair, clef__lora_place *out, clef_error *err);

#endif

/* The inside of an open model: what the code in model/arch_*.c reads. */
#ifndef CLEF_MODEL_MODEL_H
#define CLEF_MODEL_MODEL_H

#include "clef/model.h"
#include "model/file/gguf.h"
#include "model/file/json.h"
#include "model/file/safetensors.h"

struct clef_model {
    clef_hparams hparams;
    int32_t      is_gguf; /* 1: GGUF tensor names and order; 0: a Hugging Face folder's */
    char        *path;

    clef_gguf         gguf;   /* is_gguf */
    clef_safetensors *shards; /* else */
    size_t            n_shards;
    json_t           *config; /* config.json */

    clef_tensor_info        *tensors; /* all files' together; names and data borrowed from them */
    int32_t                  n_tensors;
    const clef_tensor_info **by_name;
    struct clef_joined      *joined; /* weights that are stored in parts (model/open/joined.h) */
    clef_tensor_info        *joined_infos;
    const clef_tensor_info **joined_by_name;
    size_t                   n_joined;
    clef_tokenizer          *tokenizer; /* opened when first asked for */
};

/** The tensor of that name, NULL if none; borrowed from the model; O(log n). In a folder two more spellings
 *  are tried: without the base model's prefix ("transformer.h.0..." is stored as "h.0..." by GPT2Model,
 *  "model." likewise), and, when tied_embeddings, the embedding for lm_head.weight and the other way round.
 *  The result's name is the stored one. Weights that are stored in parts are found by their joint name, and
 *  have no data before clef_model_weight() was asked for it. */
const clef_tensor_info *clef__model_find(const clef_model *model, const char *name);

#endif

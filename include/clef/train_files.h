/* The files of training: new models, trained models, adapters. */
#ifndef CLEF_TRAIN_FILES_H
#define CLEF_TRAIN_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "clef/lora.h"
#include "clef/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- folders that training writes ------------------------------------------------------------ */

/** Checks that training may write a folder: nothing is at `path`, or an empty folder, or one that training
 *  wrote (it has clef_train.json, the list of its files). CLEF_E_IO names what else is there. */
CLEF_API clef_status clef_train_check_folder(const char *path, clef_error *err);
/** clef_train_check_folder(), then makes the folder, with an empty list of files: later runs may replace it.
 *  Files that are put into it otherwise (checkpoints, logs) stay when a model is saved there. */
CLEF_API clef_status clef_train_claim_folder(const char *path, clef_error *err);

/** 1 when a folder has a checkpoint (ckpt-STEP.clef), sound or not. */
CLEF_API int32_t clef_train_has_checkpoint(const char *folder);

/* ---- new tokenizers --------------------------------------------------------------------------- */

typedef struct clef_tokenizer_train_opts {
    const char *const *files; /* texts in UTF-8 */
    int32_t            n_files;
    int32_t            n_vocab; /* tokens, special ones and the 256 bytes included */
    int64_t            min_frequency; /* of a pair of tokens that becomes one; 0: any that occurs */
    const char *const *special; /* UTF-8: the first ids, not made of other tokens; the first of them begins
                                   and ends texts. One that is given twice counts once */
    int32_t            n_special; /* 0: "<|endoftext|>" */
    clef_progress      progress;
    void              *progress_user;
} clef_tokenizer_train_opts;

/** Learns a byte-level BPE from texts and writes its folder: tokenizer.json, vocab.json, merges.txt and
 *  tokenizer_config.json. Texts are cut into words line by line, by GPT-2's regex. The vocabulary and the
 *  merges are those of Hugging Face tokenizers (BpeTrainer with the alphabet of ByteLevel) for the same
 *  files. There are fewer tokens than n_vocab if no other pair is frequent enough. The folder appears when
 *  it is complete; only one that training wrote is replaced (clef_train_check_folder()).
 *
 *  CLEF_OK; CLEF_E_ARG (no files; n_vocab less than the bytes and the special tokens; a special token that
 *  is empty or not UTF-8); CLEF_E_IO; CLEF_E_FORMAT (a file is not UTF-8: names the byte); CLEF_E_CANCELLED,
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_tokenizer_train(const clef_tokenizer_train_opts *opts, const char *folder,
                                          clef_error *err);

/* ---- new models ------------------------------------------------------------------------------ */

/** A model_type that new models can have, NULL beyond the last. */
CLEF_API const char *clef_model_new_type(int32_t i);

/** Writes a model folder with weights as at the start of a training: config.json, generation_config.json,
 *  the tokenizer's files and model.safetensors in f32. The weights are those that the family's graph uses,
 *  and those that transformers expects.
 *
 *  config     a Hugging Face config.json, or a folder with one. It is completed: architectures, dtype, and,
 *             if it has no such keys, vocab_size and the ids of special tokens, from the tokenizer.
 *  tokenizer  a folder with a tokenizer, or its tokenizer.json.
 *  out        the new folder (clef_train_check_folder()); it appears when it is complete.
 *  seed       a weight's numbers depend on the seed and the weight's name alone.
 *
 *  Matrices and embeddings are drawn from normal(0, initializer_range), with each family's exceptions as in
 *  transformers: GPT-2 divides the range of what is added to the residual stream by sqrt(2 n_layers), T5 has
 *  ranges by the matrices' widths, rows of padding tokens are 0. Norms begin with 1, biases with 0.
 *
 *  CLEF_OK, CLEF_E_ARG, CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_NOT_FOUND, CLEF_E_NOMEM, CLEF_E_UNSUPPORTED
 *  (another model_type: the text lists the known ones; a tokenizer in GGUF), CLEF_E_SHAPE (config and
 *  tokenizer contradict each other). */
CLEF_API clef_status clef_model_create_new(const char *config, const char *tokenizer, const char *out,
                                           uint64_t seed, clef_error *err);

/* ---- trained models -------------------------------------------------------------------------- */

/** Where trained weights come from. */
typedef struct clef_weight_values {
    /** Sets *out to the n values of a weight, row-major in the shape of the model's file; they are valid
     *  until the next call. NULL: the weight was not trained, and the model's own values are written. */
    clef_status (*read)(void *user, const char *name, uint64_t n, const float **out, clef_error *err);
    void *user;
} clef_weight_values;

typedef struct clef_save_opts {
    clef_dtype dtype;       /* of the weights: CLEF_F32 (the zero), CLEF_F16 or CLEF_BF16 */
    uint64_t   shard_bytes; /* most bytes of a .safetensors file; 0: 5 GB */
    /** NULL, or called with a line (without newline) that the user should see. */
    void (*note)(void *user, const char *text);
    void *note_user;
} clef_save_opts;

/** Writes the model with trained weights.
 *
 *  model   a folder or a GGUF file; borrowed.
 *  path    a name that ends with ".gguf": one GGUF file, which llama.cpp loads. Vectors stay f32 there, as
 *          clef_model_quantize() has it; keys of a GGUF model are kept. An existing file is replaced only if
 *          training wrote it. Any other name: a Hugging Face folder (clef_train_check_folder()), which needs
 *          a model that is one. It gets all tensors of the model in opts->dtype, its config.json with that
 *          dtype, its generation_config.json, and its tokenizer.
 *
 *  Both appear when they are complete; after a failure what was there is unchanged.
 *
 *  CLEF_OK, CLEF_E_ARG, CLEF_E_IO (the disk is full, something else is at `path`), CLEF_E_LIMIT (a number is
 *  not finite, or f16 cannot hold it: names the weight), CLEF_E_UNSUPPORTED (a folder from a GGUF model;
 *  trained weights that a folder stores in parts), CLEF_E_NOMEM, and what values->read returns. */
CLEF_API clef_status clef_model_save(clef_model *model, const char *path, const clef_save_opts *opts,
                                     const clef_weight_values *values, clef_error *err);

/* ---- adapters -------------------------------------------------------------------------------- */

/** The matrices of one weight: its product becomes x W^T + (alpha / rank) (x A^T) B^T. */
typedef struct clef_lora_matrices {
    const char  *weight; /* the model's name of it */
    const float *a, *b;  /* [rank, n_in] and [n_out, rank], in the order of the model's file */
} clef_lora_matrices;

typedef struct clef_lora_save_opts {
    int32_t     rank; /* required, 1 to CLEF_MAX_LOW_RANK */
    float       alpha; /* 0: rank, which makes the scale 1 */
    clef_dtype  dtype; /* CLEF_F32 (the zero), CLEF_F16 or CLEF_BF16 */
    const char *base;  /* base_model_name_or_path; NULL: the model's path */
} clef_lora_save_opts;

/** Writes a PEFT folder (adapter_config.json and adapter_model.safetensors), which clef_lora_open() and PEFT
 *  read. Modules have the names that transformers gives them, also if the model is a GGUF file: then the
 *  rows of B are put into a folder's order. The rest is as in clef_model_save(). Also CLEF_E_NOT_FOUND (the
 *  model has no such weight), CLEF_E_SHAPE (it is not a matrix). */
CLEF_API clef_status clef_lora_save(const clef_model *model, const char *path,
                                    const clef_lora_save_opts *opts, const clef_lora_matrices *matrices,
                                    int32_t n, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif

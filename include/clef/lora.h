/* Low-rank adapters (LoRA, arXiv:2106.09685): opening them, using them beside a model's weights, and writing
 * the merged model. */
#ifndef CLEF_LORA_H
#define CLEF_LORA_H

#include <stddef.h>
#include <stdint.h>

#include "clef/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Opens an adapter of an open model: the product with a matrix W becomes x W^T + s (x A^T) B^T.
 *
 *  path   a PEFT folder (adapter_config.json and adapter_model.safetensors), or a GGUF file whose
 *         general.type is "adapter". Either works with folders and with GGUF models: the rows of B are put
 *         into the order of the model's file. A and B may be F32, F16 or BF16; they are kept as f32.
 *  model  borrowed; must outlive the adapter.
 *  scale  multiplies s. s is alpha / r, or alpha / sqrt(r) with use_rslora; alpha and r may differ by module
 *         (alpha_pattern, rank_pattern). In a GGUF file s is adapter.lora.alpha / r, or 1 if that alpha is 0.
 *
 *  Refused, with the name of what is not supported: DoRA, modules_to_save, biases, embeddings, the output
 *  matrix, experts, keys that change what the adapter means (aLoRA, PiSSA and similar), and patterns that are
 *  regular expressions.
 *
 *  CLEF_OK, CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED (also an adapter for another architecture),
 *  CLEF_E_NOT_FOUND (the model has no such weight, or one of A and B is missing), CLEF_E_SHAPE, CLEF_E_LIMIT,
 *  CLEF_E_NOMEM. Free with clef_lora_close(). */
CLEF_API clef_status clef_lora_open(const char *path, const clef_model *model, float scale, clef_lora **out,
                                    clef_error *err);
CLEF_API void        clef_lora_close(clef_lora *lora);

/** Borrowed from the adapter. */
CLEF_API const char *clef_lora_path(const clef_lora *lora);
CLEF_API float       clef_lora_scale(const clef_lora *lora); /* as given to clef_lora_open() */

/** One matrix that the adapter changes. */
typedef struct clef_lora_target_info {
    const char *weight; /* the model's name of it; NULL beyond the last */
    int32_t     rank, n_in, n_out;
    /* [rank, n_in] and [rank, n_out]: A, and B transposed and times s. Borrowed from the adapter */
    const float *down, *up;
} clef_lora_target_info;
CLEF_API int32_t               clef_lora_n_targets(const clef_lora *lora);
CLEF_API clef_lora_target_info clef_lora_target(const clef_lora *lora, int32_t i);

/** Adapters that one graph offers, in numbers from 1 on; a graph that is built with a set (clef_build_opts)
 *  has an input `adapter` I32 [B], the number of each sequence's adapter, 0 for none. The model's own weights
 *  are shared. Ranks are padded with zeros to the largest of each matrix.
 *
 *  model  borrowed; must outlive the set.
 *  loras  copied: they may be closed afterwards. All are of `model`, else CLEF_E_ARG.
 *
 *  CLEF_E_ARG, CLEF_E_LIMIT, CLEF_E_NOMEM. Free with clef_lora_set_destroy(), after the plans that use it. */
CLEF_API clef_status clef_lora_set_create(clef_model *model, const clef_lora *const *loras, int32_t n,
                                          clef_lora_set **out, clef_error *err);
CLEF_API void        clef_lora_set_destroy(clef_lora_set *set);
CLEF_API int32_t     clef_lora_set_count(const clef_lora_set *set); /* 0 for NULL */

/** A clef_weight_source for graphs that were built with a set, and its clef_weight_release. Their user is the
 *  set: it gives the adapters' matrices, and the model's weights. */
CLEF_API const void *clef_lora_set_weight(void *set, const char *name, clef_dtype dtype, uint64_t n_bytes);
CLEF_API void        clef_lora_set_release(void *set, const char *name);

#ifdef __cplusplus
}
#endif
#endif

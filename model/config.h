/* Hyperparameters from a config.json or from GGUF keys, checked. */
#ifndef CLEF_MODEL_CONFIG_H
#define CLEF_MODEL_CONFIG_H

#include "clef/model.h"
#include "model/gguf.h"
#include "model/json.h"

/** Fills hp from a Hugging Face config.json (model_type gpt2, llama, mistral, qwen2, qwen3) and, when there is one, the
 *  generation_config.json beside it, whose bos and eos win. `file` names the config in messages. hp->name is left alone.
 *  A feature that would change the result and that clef does not have is refused: CLEF_E_UNSUPPORTED names key and value.
 *  CLEF_OK, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED. */
clef_status clef__config_from_json(const json_t *config, const json_t *generation, const char *file, clef_hparams *hp, clef_error *err);

/** Fills hp from a GGUF file's keys (gpt2, llama, qwen2, qwen3). CLEF_OK, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED. */
clef_status clef__config_from_gguf(const clef_gguf *gguf, const char *file, clef_hparams *hp, clef_error *err);

/* ---- what both readers use ------------------------------------------------------------------------------------------------------ */

/** Bounds of single numbers: far above any model, far below what could overflow a product of two in 64 bits. */
enum {
    CLEF_MAX_LAYERS = 4096,
    CLEF_MAX_WIDTH = 1 << 22,
    CLEF_MAX_HEADS = 1 << 14,
    CLEF_MAX_HEAD_DIM = 1 << 14,
    CLEF_MAX_VOCAB = 1 << 26,
    CLEF_MAX_CONTEXT = 1 << 30
};

/** CLEF_E_UNSUPPORTED, listing the known architectures, unless `arch` is one. */
clef_status clef__config_check_arch(const char *arch, const char *file, clef_error *err);
/** Checks what the single ranges do not: heads by key-value heads, rotated dims by head_dim, products. */
clef_status clef__config_check(const clef_hparams *hp, const char *file, clef_error *err);
/** Copies text to out, cut between UTF-8 characters, control characters as '?'. */
void clef__config_text(const char *text, char *out, size_t capacity);

#endif
